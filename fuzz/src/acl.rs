//! Rules and files of users: any bytes may be refused, none may panic, refused input changes
//! nothing, and saved users are read back unchanged.

use std::process::ExitCode;
use std::sync::{Arc, LazyLock};

use pantala_acl::{
    Access, AccessRequest, Catalogue, CatalogueEntry, Categories, Category, ChannelKind, Database,
    DefaultChannels, Users,
};
use pantala_base::Rng;

/// Words that rules are made of.
const WORDS: &[&str] = &[
    "on",
    "off",
    "nopass",
    "resetpass",
    "reset",
    "allkeys",
    "resetkeys",
    "allchannels",
    "alldbs",
    "resetdbs",
    "clearselectors",
    "+@all",
    "-@all",
    "+@read",
    "-@write",
    "+get",
    "-get",
    "+config",
    "-config|set",
    "+config|get",
    "+select|1",
    "+cluster|slots",
    "~",
    "~*",
    "~a*",
    "%R~b",
    "%W~*",
    "&",
    "&*",
    "&c",
    "db=0",
    "db=1,2",
    ">p",
    "<p",
    "(",
    ")",
    "(+get",
    "~a)",
    "\"",
    "'",
    "\\",
    "|",
    "#3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d",
    "\t",
    "\0",
    "\u{e9}",
];

static CATALOGUE: LazyLock<Arc<Catalogue>> = LazyLock::new(|| {
    let names =
        ["auth", "cluster", "cluster|slots", "config", "config|get", "config|set", "get", "select"];
    let entry = |name: &str| CatalogueEntry {
        name: name.to_owned(),
        categories: Categories::NONE.with(Category::Read),
        is_open: name == "auth",
    };
    Arc::new(Catalogue::new(names.map(entry).into()))
});

fn random_word(rng: &mut Rng) -> Vec<u8> {
    let mut word = Vec::new();
    for _ in 0..=rng.below(8) / 6 {
        word.extend(WORDS[rng.below(WORDS.len() as u64) as usize].as_bytes());
    }
    while rng.below(8) == 0 {
        let at = rng.below(word.len() as u64 + 1) as usize;
        word.insert(at, rng.below(256) as u8);
    }
    word
}

/// Checks every kind of request.
fn ask_everything(users: &Users) {
    for user in users.iter() {
        for (command, _) in users.catalogue().iter() {
            let request = AccessRequest {
                command,
                args: &[b"x", b"a"],
                keys: &[(1, Access::READ)],
                channels: &[(1, ChannelKind::Exact)],
                databases: &[(0, Database::One(1))],
            };
            let is_allowed = user.check(&request).is_ok();
            assert!(is_allowed || !user.is_unrestricted());
        }
    }
}

fn case(seed: u64) {
    let mut rng = Rng::from_seed(seed);
    let mut users = Users::new(Arc::clone(&CATALOGUE));
    for _ in 0..rng.below(20) {
        let rules: Vec<Vec<u8>> = (0..rng.below(6)).map(|_| random_word(&mut rng)).collect();
        let rules: Vec<&[u8]> = rules.iter().map(Vec::as_slice).collect();
        let name = if rng.below(3) == 0 { random_word(&mut rng) } else { b"anna".to_vec() };
        let before = users.to_text();
        match users.with_rules(&name, &rules, DefaultChannels::None) {
            Ok(next) => users = next,
            Err(wrong) => {
                assert!(!wrong.text().is_empty());
                assert_eq!(users.to_text(), before);
            }
        }
    }
    ask_everything(&users);
    let text = users.to_text();
    let again = users.loaded(&text, "f", DefaultChannels::None);
    let again = again.unwrap_or_else(|errors| panic!("{}", String::from_utf8_lossy(&errors)));
    assert_eq!(again.to_text(), text);
    let mut broken = text;
    for _ in 0..=rng.below(10) {
        let at = rng.below(broken.len() as u64) as usize;
        match rng.below(3) {
            0 => broken[at] = rng.below(256) as u8,
            1 => drop(broken.splice(at..at, random_word(&mut rng))),
            _ => broken.truncate(at + 1),
        }
    }
    if let Ok(read) = users.loaded(&broken, "f", DefaultChannels::All) {
        let text = read.to_text();
        let again = read.loaded(&text, "f", DefaultChannels::None).expect("as it was saved");
        assert_eq!(again.to_text(), text);
    }
}

fn main() -> ExitCode {
    pantala_fuzz::run("fuzz_acl", case)
}
