//! Every row that valkey-server 9.1.2 has, too, says the same as its COMMAND INFO.
//!
//! `facts/commands.tsv` was read off a running server: one line a command, its words sorted.

use std::collections::BTreeMap;

use pantala_commands::{Begin, Command, Find, KeySpec, Registry};

const FACTS: &str = include_str!("facts/commands.tsv");

fn facts() -> BTreeMap<&'static str, &'static str> {
    FACTS.lines().filter(|line| !line.starts_with('#')).filter_map(|l| l.split_once('\t')).collect()
}

fn sorted(words: impl Iterator<Item = &'static str>) -> String {
    let mut words: Vec<_> = words.collect();
    words.sort_unstable();
    words.join(",")
}

fn spec_text(spec: &KeySpec) -> String {
    let flags = sorted(spec.flags.names());
    let begin = match spec.begin {
        Begin::Index(index) => format!("index {index}"),
        Begin::Keyword(word, from) => format!("keyword {word} {from}"),
        Begin::Unknown => "unknown".to_owned(),
    };
    let find = match spec.find {
        Find::Range { last, step } => format!("range {last} {step} 0"),
        Find::Unknown | Find::SortStore => "unknown".to_owned(),
        Find::GeoStore(_) => "range 0 1 0".to_owned(),
        Find::Streams => "range -1 1 2".to_owned(),
        Find::Count { at, first, step } => format!("count {at} {first} {step}"),
    };
    format!("{flags}: {begin}, {find}")
}

/// The row as a line of facts, without the name.
fn line(row: &Command) -> String {
    let (first, last, step) = row.key_range();
    let specs: Vec<String> = row.keys.iter().map(spec_text).collect();
    [
        row.arity.to_string(),
        sorted(row.flags.names()),
        format!("{first} {last} {step}"),
        row.category_names().join(","),
        row.tips.join(","),
        specs.join("; "),
    ]
    .join("\t")
}

#[test]
fn rows_say_what_the_reference_says() {
    let facts = facts();
    let registry = Registry::new(&pantala_server::commands::families());
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for row in registry.rows() {
        let name = row.full_name().to_ascii_uppercase();
        let Some(expected) = facts.get(name.as_str()) else { continue };
        compared += 1;
        let found = line(row);
        if *expected != found {
            wrong.push(format!("{name}\n  reference: {expected}\n  here:      {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared >= 70, "only {compared} rows have the name of one of the reference's");
}

#[test]
fn rows_document_themselves() {
    let registry = Registry::new(&pantala_server::commands::families());
    for row in registry.rows() {
        let name = row.full_name();
        assert!(row.summary.ends_with('.'), "{name}: a summary is a sentence");
        assert!(row.since.split('.').count() == 3, "{name}: since which version");
        let is_bare = matches!(row.arity, 1) || (row.parent.is_some() && row.arity == 2);
        let is_container = !row.subcommands.is_empty();
        assert!(is_bare || is_container || !row.syntax.is_empty() || row.name == "QUIT", "{name}");
    }
}
