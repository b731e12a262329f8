//! A small command catalogue, and random rules of every kind.

use std::sync::Arc;

use pantala_acl::{Catalogue, CatalogueEntry, Categories, Category, Users};
use pantala_base::Rng;

/// A few commands: name and categories.
const COMMANDS: [(&str, &[Category]); 12] = [
    ("auth", &[Category::Fast, Category::Connection]),
    ("config", &[Category::Slow]),
    ("config|get", &[Category::Slow, Category::Admin, Category::Dangerous]),
    ("config|set", &[Category::Slow, Category::Admin, Category::Dangerous]),
    ("get", &[Category::Read, Category::String, Category::Fast]),
    ("keys", &[Category::Read, Category::Keyspace, Category::Slow, Category::Dangerous]),
    ("object", &[Category::Slow]),
    ("object|freq", &[Category::Read, Category::Keyspace, Category::Slow]),
    ("publish", &[Category::PubSub, Category::Fast]),
    ("select", &[Category::Fast, Category::Connection]),
    ("set", &[Category::Write, Category::String, Category::Slow]),
    ("swapdb", &[Category::Write, Category::Keyspace, Category::Fast, Category::Dangerous]),
];

/// Users with only the default user, who may run these commands.
pub fn users() -> Users {
    let entry = |(name, categories): &(&str, &[Category])| CatalogueEntry {
        name: (*name).to_owned(),
        categories: categories.iter().fold(Categories::NONE, |set, one| set.with(*one)),
        is_open: *name == "auth",
    };
    Users::new(Arc::new(Catalogue::new(COMMANDS.iter().map(entry).collect())))
}

fn pick<'a, T: ?Sized>(rng: &mut Rng, of: &[&'a T]) -> &'a T {
    of[rng.below(of.len() as u64) as usize]
}

/// A random rule, mostly a valid one. Never `reset` and similar rules.
pub fn rule(rng: &mut Rng, may_nest: bool) -> Vec<u8> {
    const WORDS: [&str; 13] =
        ["a", "b*", "*", "", "x[a-", "foo:*", "(", ")", "\"", "'", "a\\", "#", "~"];
    let sign = pick(rng, &["+", "-"]);
    let command = pick(rng, &COMMANDS.map(|(name, _)| name));
    let category = Category::ALL[rng.below(Category::ALL.len() as u64) as usize].1;
    let word = pick(rng, &WORDS);
    let text = match rng.below(18) {
        0 => pick(rng, &["on", "off", "nopass", "resetpass", "clearselectors"]).to_owned(),
        1 => pick(rng, &["allkeys", "resetkeys", "allchannels", "resetchannels"]).to_owned(),
        2 => pick(rng, &["+@all", "-@all", "alldbs", "resetdbs", "allcommands"]).to_owned(),
        3..=6 => format!("{sign}{command}"),
        7 => format!("+{command}|{}", pick(rng, &["1", "Abc", "a)", "a\"", ""])),
        8 | 9 => format!("{sign}@{category}"),
        10 => format!("~{word}"),
        11 => format!("%{}~{word}", pick(rng, &["R", "W", "rw", "RR", ""])),
        12 => format!("&{word}"),
        13 => format!("db={}", pick(rng, &["0", "2,1", "1,", "16", "-1"])),
        14 => format!("{}{word}", pick(rng, &[">", "<"])),
        15 if may_nest => {
            let rules: Vec<String> = (0..rng.below(5))
                .map(|_| String::from_utf8_lossy(&rule(rng, false)).into_owned())
                .collect();
            format!("({})", rules.join(" "))
        }
        16 => pick(rng, &["nonsense", "(", ")", "+", "\"", "reset"]).to_owned(),
        _ => command.to_owned(),
    };
    text.into_bytes()
}
