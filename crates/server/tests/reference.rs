//! Every row that valkey-server 9.1.2 has as well agrees with its COMMAND INFO and with the
//! arguments of its COMMAND DOCS.
//!
//! `facts/commands.tsv` and `facts/arguments.tsv` were read off a running server: one line a
//! command, its words sorted.

use std::collections::BTreeMap;

use pantala_commands::syntax::{Argument, arguments};
use pantala_commands::{ABSENT, Command, Find, KeySpec, KeySpecStart, Registry};

fn facts(lines: &'static str) -> BTreeMap<&'static str, &'static str> {
    lines.lines().filter(|line| !line.starts_with('#')).filter_map(|l| l.split_once('\t')).collect()
}

fn sorted(words: impl Iterator<Item = &'static str>) -> String {
    let mut words: Vec<_> = words.collect();
    words.sort_unstable();
    words.join(",")
}

fn spec_text(spec: &KeySpec) -> String {
    let flags = sorted(spec.flags.names());
    let begin = match spec.begin {
        KeySpecStart::Index(index) => format!("index {index}"),
        KeySpecStart::Keyword(word, from) => format!("keyword {word} {from}"),
        KeySpecStart::Unknown => "unknown".to_owned(),
    };
    let find = match spec.find {
        Find::Range { last, step } => format!("range {last} {step} 0"),
        Find::Unknown | Find::SortStore => "unknown".to_owned(),
        Find::GeoStore(_) => "range 0 1 0".to_owned(),
        Find::Listed => "range -1 1 0".to_owned(),
        Find::Streams => "range -1 1 2".to_owned(),
        Find::Count { at, first, step } => format!("count {at} {first} {step}"),
    };
    format!("{flags}: {begin}, {find}")
}

/// The ACL categories of a row.
fn categories(row: &Command) -> String {
    let named = row.all_categories().iter().map(|category| format!("@{}", category.name()));
    let mut names: Vec<String> = named.collect();
    names.sort_unstable();
    names.join(",")
}

/// A row as a line of facts, without the name.
fn line(row: &Command) -> String {
    let (first, last, step) = row.key_range();
    let specs: Vec<String> = row.keys.iter().map(spec_text).collect();
    [
        row.arity.to_string(),
        sorted(row.flags.names()),
        format!("{first} {last} {step}"),
        categories(row),
        row.tips.join(","),
        specs.join("; "),
    ]
    .join("\t")
}

#[test]
fn rows_say_what_the_reference_says() {
    let facts = facts(include_str!("facts/commands.tsv"));
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
fn rules_may_name_what_the_reference_has() {
    let facts = facts(include_str!("facts/commands.tsv"));
    let registry = Registry::new(&pantala_server::commands::families());
    let here: Vec<String> = registry.rows().iter().map(|row| row.full_name()).collect();
    let mut absent: Vec<String> = facts.keys().map(|name| name.to_ascii_lowercase()).collect();
    absent.retain(|name| !here.contains(name));
    absent.sort_unstable();
    assert_eq!(ABSENT, absent);
    let catalogue = registry.catalogue();
    assert!(absent.iter().all(|name| catalogue.find(name.as_bytes()).is_some()));
}

const REFERENCES: &str = "references/oneof(KEEPREF>keepref/pure-token DELREF>delref/pure-token \
                          ACKED>acked/pure-token)?";

/// Differences between our arguments and the reference's: a command, a part of its line there, and
/// here.
const OURS: &[(&str, &str, &str)] = &[
    // Valkey has no arguments for it.
    ("DEBUG", "", "subcommand/string arg/string?*"),
    // Arguments that only we have.
    (
        "BITOP",
        "NOT>not/pure-token",
        "NOT>not/pure-token DIFF>diff/pure-token DIFF1>diff1/pure-token ANDOR>andor/pure-token \
         ONE>one/pure-token",
    ),
    (
        "LOLWUT",
        "VERSION>version/integer?",
        "VERSION>version/block(version/integer parameter/string?*)?",
    ),
    ("XADD", "trim/block", "{references} trim/block"),
    ("XTRIM", "LIMIT>count/integer?)", "LIMIT>count/integer?) {references}"),
    // A token without letters.
    ("MIGRATE", ">empty-string/pure-token", "empty-string/string"),
    // Arguments that we do not have.
    ("SHUTDOWN", " SAFE>safe/pure-token? FAILOVER>failover/pure-token?", ""),
    // A word before a group introduces it here; there it is an argument of its own.
    ("CLUSTER|MIGRATESLOTS", "slotsrange-token/pure-token range/block", "range/block"),
    (
        "CLUSTER|MIGRATESLOTS",
        "end-slot/integer)* NODE>node-token/pure-token ",
        "end-slot/integer)*! NODE>",
    ),
    // Arguments that are parsed as doubles there, too.
    ("ZINCRBY", "increment/integer", "increment/double"),
    ("ZINTER", "weight/integer", "weight/double"),
    ("ZINTERSTORE", "weight/integer", "weight/double"),
    ("ZUNION", "weight/integer", "weight/double"),
    ("ZUNIONSTORE", "weight/integer", "weight/double"),
];

/// Arguments as a line of facts.
fn argument_line(arguments: &[Argument]) -> String {
    let texts: Vec<String> = arguments.iter().map(argument_text).collect();
    texts.join(" ")
}

fn argument_text(argument: &Argument) -> String {
    let mut text = argument.token.as_ref().map_or_else(String::new, |token| format!("{token}>"));
    text += &format!("{}/{}", argument.name, argument.kind.name());
    if let Some(index) = argument.key_spec {
        text += &format!("#{index}");
    }
    if !argument.parts.is_empty() {
        text += &format!("({})", argument_line(&argument.parts));
    }
    let marks =
        [(argument.optional, "?"), (argument.multiple, "*"), (argument.multiple_token, "!")];
    marks.iter().filter(|(is_set, _)| *is_set).for_each(|(_, mark)| text += mark);
    text
}

#[test]
fn arguments_are_those_of_the_reference() {
    let facts = facts(include_str!("facts/arguments.tsv"));
    let registry = Registry::new(&pantala_server::commands::families());
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for row in registry.rows() {
        let name = row.full_name().to_ascii_uppercase();
        let Some(mut expected) = facts.get(name.as_str()).map(|line| (*line).to_owned()) else {
            continue;
        };
        for (_, there, here) in OURS.iter().filter(|(ours, ..)| *ours == name) {
            assert!(expected.contains(there), "{name}: there is no {there}");
            expected = expected.replacen(there, &here.replace("{references}", REFERENCES), 1);
        }
        compared += 1;
        let found = argument_line(&arguments(row));
        if expected != found {
            wrong.push(format!("{name}\n  reference: {expected}\n  here:      {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared >= 320, "only {compared} rows have the name of one of the reference's");
}

#[test]
fn labels_stand_in_brackets() {
    let registry = Registry::new(&pantala_server::commands::families());
    for row in registry.rows() {
        for word in row.syntax.split_ascii_whitespace().filter(|word| word.ends_with(':')) {
            assert!(word.starts_with(['[', '(']), "{}: {word}", row.full_name());
        }
    }
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
        // Valkey gives no arguments for these.
        let is_unsaid = matches!(row.name, "QUIT" | "REPLCONF");
        assert!(is_bare || is_container || is_unsaid || !row.syntax.is_empty(), "{name}");
    }
}
