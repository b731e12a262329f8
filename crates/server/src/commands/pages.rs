//! The pages of docs/commands: every command by its group, with the differences from Valkey, from
//! the command table and docs/differences.md. `cargo xtask docs commands` writes them, by
//! `examples/pages.rs`.
//!
//! Tests: `tests/pages.rs` keeps them current.

use std::collections::BTreeMap;
use std::fmt::Write;

use pantala_commands::{ABSENT, Command, Group, Registry};
use pantala_doctor::differences::{self, Difference};

use super::registry;

const NOTE: &str = "<!-- Written by `cargo xtask docs commands` from the command table and \
                    docs/differences.md; a\ntest keeps it current. -->\n";

/// The groups, in the order of the book, with their titles.
pub const GROUPS: [(Group, &str); 16] = [
    (Group::Generic, "Keys"),
    (Group::String, "Strings"),
    (Group::List, "Lists"),
    (Group::Hash, "Hashes"),
    (Group::Set, "Sets"),
    (Group::SortedSet, "Sorted sets"),
    (Group::Stream, "Streams"),
    (Group::Bitmap, "Bitmaps"),
    (Group::HyperLogLog, "HyperLogLogs"),
    (Group::Geo, "Geo"),
    (Group::PubSub, "Publish and subscribe"),
    (Group::Transactions, "Transactions"),
    (Group::Scripting, "Scripts and functions"),
    (Group::Connection, "Connections"),
    (Group::Server, "Server"),
    (Group::Cluster, "Cluster"),
];

/// Lines of docs/differences.md by command.
type Differences = BTreeMap<String, Vec<Difference>>;

/// The pages: paths from the root of the repository, and texts.
pub fn pages() -> Vec<(String, String)> {
    let registry = registry();
    let has = |name: &str| registry.find_full(name.as_bytes()).is_some();
    let mut differences = Differences::new();
    for line in differences::all().into_iter().filter(|line| line.whose.starts_with("Valkey")) {
        for command in line.commands(&has) {
            differences.entry(command).or_default().push(line);
        }
    }
    let mut pages = vec![("docs/commands.md".into(), index(&registry))];
    pages.extend(GROUPS.iter().map(|(group, title)| {
        let path = format!("docs/commands/{}.md", group.name());
        (path, page(&registry, *group, title, &differences))
    }));
    pages
}

/// The commands of a group, by name.
fn of_group(registry: &Registry, group: Group) -> impl Iterator<Item = &'static Command> {
    registry.commands().iter().copied().filter(move |row| row.group == group)
}

fn index(registry: &Registry) -> String {
    let mut text = format!(
        "# Commands\n\n{NOTE}\nEvery command of the server, by what it is about, as `COMMAND DOCS` \
         has it.\nA line `Differs` is one of [differences.md](differences.md): all else \
         answers as Valkey 9.1.2\ndoes.\n\n| | |\n|---|---|\n"
    );
    for (group, title) in GROUPS {
        let link = |row: &Command| {
            format!("[{0}](commands/{1}.md#{2})", row.name, group.name(), anchor(row.name))
        };
        let names: Vec<String> = of_group(registry, group).map(link).collect();
        let _ = writeln!(text, "| [{title}](commands/{}.md) | {} |", group.name(), names.join(" "));
    }
    let absent: Vec<String> =
        ABSENT.iter().map(|name| format!("`{}`", shown(name).replace('|', " "))).collect();
    let _ = write!(
        text,
        "\n## Not here\n\nCommands of Valkey 9.1.2 that are not here; rules of users may name \
         them.\n\n{}\n",
        wrapped(&absent.join(" "))
    );
    text
}

fn page(registry: &Registry, group: Group, title: &str, differences: &Differences) -> String {
    let mut text = format!("# {title}\n\n{NOTE}");
    for row in of_group(registry, group) {
        entry(&mut text, "##", row, differences);
        for row in row.subcommands.iter().filter(|row| row.name != "HELP") {
            entry(&mut text, "###", row, differences);
        }
    }
    text
}

fn entry(text: &mut String, level: &str, row: &Command, differences: &Differences) {
    let full = row.full_name();
    let name = shown(&full);
    let _ = writeln!(text, "\n{level} {name}\n");
    if row.subcommands.is_empty() {
        let syntax = if row.syntax.is_empty() { name } else { format!("{name} {}", row.syntax) };
        let _ = writeln!(text, "```text\n{syntax}\n```\n");
    }
    let _ = writeln!(text, "{}\n", wrapped(row.summary));
    let _ = writeln!(text, "{}", wrapped(&facts(row)));
    for line in differences.get(&full).into_iter().flatten() {
        let theirs = if line.theirs.is_empty() { "-" } else { line.theirs };
        let (theirs, ours) = (theirs.replace("\\|", "|"), line.ours.replace("\\|", "|"));
        let what = line.what.replace("\\|", "|");
        let _ = write!(text, "\nDiffers, {what}: in {} {theirs}; here {ours}.\n", line.whose);
    }
}

/// A line with version, complexity, flags and categories.
fn facts(row: &Command) -> String {
    let mut parts = vec![format!("Since {}", row.since)];
    if !row.complexity.is_empty() {
        parts.push(row.complexity.trim_end_matches('.').to_owned());
    }
    let flags: Vec<&str> = row.flags.names().collect();
    if !flags.is_empty() {
        parts.push(format!("flags {}", flags.join(" ")));
    }
    let categories = row.all_categories();
    let categories: Vec<String> =
        categories.iter().map(|category| format!("@{}", category.name())).collect();
    parts.push(categories.join(" "));
    format!("{}.", parts.join(" · "))
}

/// A name as people write it: `CONFIG GET`.
fn shown(full_name: &str) -> String {
    full_name.to_uppercase().replace('|', " ")
}

/// The anchor of a heading.
fn anchor(name: &str) -> String {
    name.to_lowercase().replace('.', "").replace(' ', "-")
}

/// The text in lines of at most 100 columns, as far as words allow it.
fn wrapped(words: &str) -> String {
    let (mut text, mut width) = (String::new(), 0);
    for word in words.split(' ') {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > 100 {
            text.push('\n');
            width = 0;
        } else if width > 0 {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += length;
    }
    text
}
