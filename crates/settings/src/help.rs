//! Texts for people: `--help`, `--version`, the documentation page, suggestions for misspelt names.
//!
//! Not here: anything about a single setting; the rows say it. Tests: at the foot, and
//! `tests/page.rs`, which keeps the pages current.

use crate::row::{self, ChangeTime, Row, RowFlags, SWITCHES, SettingEffect, SettingGroup};
use std::fmt::Write;

const USAGE: &str = "\
Usage: pantala [REDIS.CONF | -] [--name=value | --name value | --switch | --noswitch]...

  pantala                               port 6379, every core
  pantala --port=7000 --maxmemory=2gb   flags; - and _ are the same in names
  pantala /etc/redis/redis.conf         a file of Redis or Valkey; - reads standard input
  pantala --flagfile=pantala.flags      a file of flags, one a line
  PANTALA_port=7000 pantala             one variable for each flag; DFLY_port works too
  pantala check FILE...                 says what is in files of data, and where they break
  pantala journal FILE                  the steps of an append-only file, as lines of JSON
  pantala top [URL]                     what a server does, in the terminal; top --help
  pantala import URL [--switch]         moves the data of a running server; import --help
  pantala doctor [URL]                  what would differ from another server; doctor --help
  pantala sizing --keys N               how much memory and how many cores are needed
  pantala ping [ADDRESS]                whether a server serves: HOST:PORT, or a socket's path

Stronger first: command line, flag file, environment, configuration file.
  -h, --help        this text           --helpfull        also what nothing acts on yet
  -v, --version     the version
";

/// `--version`.
pub(crate) fn version() -> String {
    format!("pantala {}\n", env!("CARGO_PKG_VERSION"))
}

/// `--help`: the settings that act.
pub(crate) fn short() -> String {
    help(|row| row.effect == SettingEffect::Active && !row.has(RowFlags::HIDDEN))
}

/// `--helpfull`: every setting.
pub(crate) fn full() -> String {
    help(|_| true)
}

fn help(shown: impl Fn(&Row) -> bool) -> String {
    let mut text = String::from(USAGE);
    for group in SettingGroup::ALL {
        let rows: Vec<&Row> =
            row::rows().iter().filter(|row| row.group == group && shown(row)).collect();
        if rows.is_empty() {
            continue;
        }
        let _ = write!(text, "\n{}\n", group.title());
        for row in rows {
            let inert = match (row.effect, row.promise) {
                (SettingEffect::Active, _) => "",
                (SettingEffect::Inert, None) => " (nothing acts on it yet)",
                (SettingEffect::Inert, Some(_)) => " (refused: nothing acts on it yet)",
            };
            let default = if row.default.is_empty() { "\"\"" } else { row.default };
            let _ = writeln!(text, "  --{} (default {default}){inert}", row.name);
            let _ = writeln!(text, "      {}", row.doc);
        }
    }
    text
}

/// The page `docs/settings.md`.
pub(crate) fn page() -> String {
    let mut page = String::from(
        "# Settings\n\n\
         <!-- Written by `cargo xtask docs` from the rows in crates/settings; a test keeps it \
         current. -->\n\n\
         Each setting is a flag (`--name=value`), a variable (`PANTALA_name`), a line of a \
         configuration file\n(`name value`) and a name for CONFIG GET. `-` and `_` are the same in \
         names.\n\n\
         *Live*: CONFIG SET changes it. *Start*: only a start does. *Protected*: CONFIG SET \
         changes it where\n`enable-protected-configs` allows. *Inert* settings are accepted and \
         kept, so that files load and\nCONFIG GET answers, but nothing acts on them yet; a start \
         warns about them. *Refused* settings are inert too,\nbut they promise \
         safety: that data is kept, that traffic is encrypted, that strangers stay outside.\nA \
         start and CONFIG SET refuse them, unless the value is the default, until something acts \
         on them.\n",
    );
    type Part = fn(&Row) -> bool;
    let parts: [(&str, Part); 3] = [
        ("Settings that act", |row| row.effect == SettingEffect::Active),
        ("Refused settings", |row| row.promise.is_some()),
        ("Inert settings", |row| row.effect == SettingEffect::Inert && row.promise.is_none()),
    ];
    for (heading, is_part) in parts {
        let _ = write!(page, "\n## {heading}\n");
        for group in SettingGroup::ALL {
            chapter(&mut page, |row| row.group == group && is_part(row), group);
        }
    }
    page
}

fn chapter(page: &mut String, shown: impl Fn(&Row) -> bool, group: SettingGroup) {
    let mut rows = row::rows().iter().filter(|row| shown(row)).peekable();
    if rows.peek().is_none() {
        return;
    }
    let _ = write!(page, "\n### {}\n\n", group.title());
    page.push_str("| name | default | allowed | change | |\n|---|---|---|---|---|\n");
    for row in rows {
        let change = match row.change {
            ChangeTime::Live => "live",
            ChangeTime::Start => "start",
            ChangeTime::Protected => "protected",
        };
        let default = match row.default {
            "" => String::new(),
            default => format!("`{default}`"),
        };
        let doc = format!("{}{}", row.doc, other_names(row));
        let allowed = row.kind.allowed();
        let cells = [&format!("`{}`", row.name), &default, &allowed, change, &doc]
            .map(|cell| cell.replace('|', "\\|"));
        let _ = writeln!(page, "| {} |", cells.join(" | "));
    }
}

fn other_names(row: &Row) -> String {
    let aliases = row.also.iter().chain(row.understood).copied();
    let switches = SWITCHES.iter().filter(|switch| switch.target == row.name);
    let mut names: Vec<String> = aliases.map(|name| format!("`{name}`")).collect();
    names.extend(switches.map(|switch| format!("`{}` for `{}`", switch.name, switch.on)));
    if names.is_empty() { String::new() } else { format!(" Also {}.", names.join(", ")) }
}

/// Names too unlike every known one are not guessed at.
const MAX_DISTANCE: usize = 3;
/// Longer names are cut before they are compared, so that a comparison has a bound.
const MAX_COMPARED: usize = 64;

/// `unknown setting 'prot'; did you mean 'port'?`
pub(crate) fn unknown(what: &str, name: &str) -> String {
    let shown: String = name.chars().take(MAX_COMPARED).collect();
    let plain = row::plain(&shown);
    let nearest = row::names()
        .iter()
        .map(|(known, row)| (distance(&plain, known), known, *row))
        .min_by_key(|(distance, known, _)| (*distance, known.as_str()));
    match nearest {
        Some((distance, known, row)) if distance <= MAX_DISTANCE.min(plain.len() / 2) => {
            let spelt = if row::plain(row.name) == *known { row.name } else { known };
            format!("unknown {what} '{shown}'; did you mean '{spelt}'?")
        }
        _ => format!("unknown {what} '{shown}'; --helpfull lists all"),
    }
}

/// Edits between two names: a letter put in, taken out, replaced, or two neighbours swapped.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut now = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(last[j] + 1).min(now[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            now.push(least);
        }
        before = std::mem::replace(&mut last, now);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (a, b, want) in
            [("port", "port", 0), ("prot", "port", 1), ("", "ab", 2), ("kitten", "sitting", 3)]
        {
            assert_eq!(distance(a, b), want, "{a} {b}");
        }
    }

    #[test]
    fn a_near_name_is_suggested_and_a_far_one_is_not() {
        assert!(unknown("setting", "maxmemry").ends_with("did you mean 'maxmemory'?"));
        assert!(unknown("setting", "io_engin").ends_with("did you mean 'io_engine'?"));
        assert!(unknown("setting", "slavof").ends_with("did you mean 'slaveof'?"));
        assert!(unknown("setting", "zzzzzzzz").ends_with("--helpfull lists all"));
        assert!(unknown("setting", &"x".repeat(1 << 20)).len() < 200);
    }

    #[test]
    fn help_shows_what_acts_and_the_full_text_everything() {
        assert!(short().contains("--io_engine (default auto)"));
        assert!(!short().contains("--tls-cluster"));
        assert!(full().contains("--tls-cluster (default no) (refused: nothing acts on it yet)"));
        assert!(full().contains("--always-show-logo (default no) (nothing acts on it yet)"));
        for row in row::rows() {
            assert!(full().contains(&format!("--{} ", row.name)), "{}", row.name);
        }
    }
}
