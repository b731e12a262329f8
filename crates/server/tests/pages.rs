//! The documentation pages of commands agree with the rows, and name every command.

use pantala_commands::Group;
use pantala_server::commands::pages::{GROUPS, pages};
use pantala_server::commands::registry;

#[test]
fn the_pages_are_current() {
    for (path, text) in pages() {
        let from_here = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
        let found = std::fs::read_to_string(from_here).unwrap_or_default();
        assert!(found == text, "{path}: run: cargo xtask docs commands");
    }
}

#[test]
fn every_command_has_its_entry() {
    let all: String = pages().into_iter().map(|(_, text)| text).collect();
    for row in registry().commands() {
        assert!(GROUPS.iter().any(|(group, _)| *group == row.group), "{}", row.name);
        assert!(all.contains(&format!("\n## {}\n", row.name)), "{}", row.name);
    }
    assert!(!GROUPS.iter().any(|(group, _)| *group == Group::Memcached));
}

#[test]
fn a_command_tells_what_differs() {
    let pages = pages();
    let page = pages.iter().find(|(path, _)| path == "docs/commands/server.md");
    let (_, text) = page.expect("there is one");
    let config = text.split("\n### CONFIG SET\n").nth(1).expect("it is there");
    let config = config.split("\n### ").next().unwrap_or_default();
    assert!(config.contains("CONFIG SET parameter value"), "{config}");
    assert!(config.contains("Differs, `CONFIG SET maxmemory 99999999999gb`"), "{config}");
}
