//! The lines of docs/differences.md, and the commands that each is about: for the pages of
//! commands, and for the doctor.

use std::collections::BTreeSet;

use crate::CommandLookup;

const PAGE: &str = include_str!("../../../docs/differences.md");

/// A line of one of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What differs.
    pub what: &'static str,
    /// The server that is compared: the heading of the second column.
    pub whose: &'static str,
    /// The other server's behaviour.
    pub theirs: &'static str,
    /// The behaviour here.
    pub ours: &'static str,
}

/// All lines, in the order of the page.
pub fn all() -> Vec<Difference> {
    let mut whose = "";
    let mut lines = Vec::new();
    for line in PAGE.lines() {
        match cells(line)[..] {
            ["", heading, "Pantala", _] => whose = heading,
            [what, theirs, ours, _] if !what.starts_with("---") => {
                lines.push(Difference { what, whose, theirs, ours });
            }
            _ => {}
        }
    }
    lines
}

/// The cells of a table's line; empty for another line. An escaped pipe divides nothing.
fn cells(line: &str) -> Vec<&str> {
    let Some(inside) = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')) else {
        return Vec::new();
    };
    let mut cells = Vec::new();
    let (mut begin, mut is_escaped) = (0, false);
    for (at, letter) in inside.char_indices() {
        if letter == '|' && !is_escaped {
            cells.push(inside[begin..at].trim());
            begin = at + 1;
        }
        is_escaped = letter == '\\';
    }
    cells.push(inside[begin..].trim());
    cells
}

impl Difference {
    /// The commands that it is about: words in capitals that are names of commands, alone or with a
    /// subcommand (`config|get`).
    pub fn commands(&self, has: CommandLookup<'_>) -> BTreeSet<String> {
        let mut commands = BTreeSet::new();
        // A line of HTTP begins with GET, too.
        if self.what.contains("HTTP") {
            return commands;
        }
        let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "._|-".contains(letter);
        let words: Vec<&str> = self.what.split(|letter| !is_of_name(letter)).collect();
        let mut at = 0;
        while at < words.len() {
            let name = words[at].to_ascii_lowercase();
            let full = words.get(at + 1).map(|next| format!("{name}|{}", next.to_lowercase()));
            let is_capital = words[at].len() > 1 && name.to_ascii_uppercase() == words[at];
            at += 1;
            match full {
                Some(full) if is_capital && has(&full) => {
                    commands.insert(full);
                    at += 1;
                }
                _ if is_capital && has(&name) => drop(commands.insert(name)),
                _ => {}
            }
        }
        commands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_read() {
        let lines = all();
        assert!(lines.len() > 150, "{}", lines.len());
        for line in &lines {
            assert!(!line.what.is_empty() && !line.whose.is_empty(), "{line:?}");
        }
        let mut said = BTreeSet::new();
        for line in &lines {
            assert!(said.insert((line.whose, line.what)), "it is said twice: {}", line.what);
        }
        let whose: BTreeSet<&str> = lines.iter().map(|line| line.whose).collect();
        assert!(whose.contains("Valkey 9.1.2"), "{whose:?}");
    }

    #[test]
    fn a_line_tells_its_commands() {
        let has = |name: &str| ["keys", "scan", "config", "config|set", "get"].contains(&name);
        let of = |what| {
            let line = Difference { what, whose: "", theirs: "", ours: "" };
            line.commands(&has).into_iter().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of("KEYS, `SCAN` and keys while others write"), "keys scan");
        assert_eq!(of("`CONFIG SET port 0`; CONFIG of X"), "config config|set");
        assert_eq!(of("a first line of HTTP (`GET / HTTP/1.1`)"), "");
        assert_eq!(cells("| a \\| b | c |"), ["a \\| b", "c"]);
    }
}
