//! The table of all commands, and its pages in docs.

pub mod pages;
#[cfg(test)]
mod populate;

use pantala_commands::{Command, Registry, families};

/// All families of the server.
pub fn families() -> Vec<&'static [Command]> {
    let mut families = vec![
        families::connection::ROWS,
        families::databases::ROWS,
        families::generic::ROWS,
        families::string::ROWS,
        families::transaction::ROWS,
        families::list::ROWS,
        families::set::ROWS,
        families::zset::ROWS,
        families::hash::ROWS,
        families::stream::ROWS,
        families::bitmap::ROWS,
        families::hyperloglog::ROWS,
        families::geo::ROWS,
        families::memcached::ROWS,
        families::sort::ROWS,
        pantala_engine::functions::ROWS,
        pantala_engine::pubsub::commands::ROWS,
        pantala_engine::scripts::ROWS,
        pantala_replication::commands::ROWS,
        pantala_migrate::ROWS,
    ];
    families.extend(pantala_operator::FAMILIES);
    families
}

/// The command table, with every command under its own name.
pub fn registry() -> Registry {
    Registry::new(&families())
}

#[cfg(test)]
mod tests {
    use pantala_commands::Flags;

    use super::*;

    /// What followers of other kinds are told of each command, and what they lack.
    const TOLD: &str = include_str!("../../../../docs/followers.md");
    /// What Redis 7.0 knows, by the names of commands.
    const REDIS_70: &str = include_str!("../../tests/facts/redis70.txt");

    /// The table's rows: names, how they are told, what is lacking.
    fn told() -> Vec<(Vec<String>, &'static str, &'static str)> {
        let rows = TOLD.lines().skip_while(|line| !line.starts_with("| command |")).skip(2);
        let row = |line: &'static str| {
            let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let [names, told, lacks] = cells[..] else { panic!("three cells: {line}") };
            let names = names.split(' ').map(|name| name.replace("\\|", "|")).collect();
            (names, told, lacks)
        };
        rows.map(row).collect()
    }

    #[test]
    fn it_is_known_of_every_command_that_changes_something_how_followers_are_told() {
        let registry = registry();
        let changes = Flags::WRITE.union(Flags::MAY_REPLICATE);
        let rows = registry.rows().iter().filter(|row| row.flags.intersects(changes));
        let mut names: Vec<_> = rows.map(|row| row.full_name()).collect();
        names.sort_unstable();
        let mut known: Vec<_> = told().into_iter().flat_map(|row| row.0).collect();
        known.sort_unstable();
        assert_eq!(names, known);
    }
    #[test]
    fn what_is_told_as_it_came_redis_70_knows() {
        let known: Vec<&str> = REDIS_70.split_ascii_whitespace().collect();
        for (names, told, _) in told() {
            if told.starts_with("as it came") || told.starts_with("as they came") {
                names.iter().for_each(|name| assert!(known.contains(&&**name), "{name}"));
            }
            // The words in capitals are commands, but for those of options.
            let words = told.split(|letter: char| !letter.is_ascii_uppercase());
            let ours = ["SPEXPIREAT", "ZPEXPIREAT", "ZPERSIST", "HPEXPIREAT", "HPERSIST"];
            for word in words.filter(|word| word.len() > 3 && ours.contains(word)) {
                assert!(told.contains("aside"), "{word} of {names:?}");
            }
        }
    }

    /// What a row says of itself is what the table says.
    #[test]
    fn what_is_refused_is_what_followers_lack() {
        let registry = registry();
        for (names, told, lacks) in told() {
            for name in names {
                let row = registry.row_of(&name).expect("the other test has found it").row;
                let (ours, newer) =
                    (row.flags.intersects(Flags::ONLY_OURS), row.flags.intersects(Flags::NEWER));
                let is_about_fields = lacks.starts_with("Redis: ") && name != "hincrbyfloat";
                assert_eq!(newer, is_about_fields, "{name}: {lacks}");
                let is_about_members =
                    lacks.contains("deadlines of members") || lacks == "the mark";
                assert_eq!(ours, is_about_members, "{name}: {lacks}");
                assert!(!ours || told.contains("aside"), "{name}: {told}");
            }
        }
    }
}
