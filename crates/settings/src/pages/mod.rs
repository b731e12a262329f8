//! Files that are generated from the rows: documentation, the manual page, shell completions, and
//! the configuration file that packages install. `cargo xtask docs` writes them; a test keeps them
//! current (`tests/page.rs`).
//!
//! Not here: `--help` (`help`).

mod completions;
mod example;
mod manual;

use crate::help;
use crate::kind::Kind;
use crate::row::{self, Row, RowFlags, SettingEffect};

/// A file's path from the root of the repository, and its text.
pub type Page = (&'static str, String);

/// All of them.
pub fn pages() -> Vec<Page> {
    vec![
        ("docs/settings.md", help::page()),
        ("deploy/man/pantala.1", manual::page()),
        ("deploy/completions/pantala.bash", completions::bash()),
        ("deploy/completions/_pantala", completions::zsh()),
        ("deploy/completions/pantala.fish", completions::fish()),
        ("deploy/pantala.conf", example::file()),
    ]
}

/// The first words of the command line that are no settings: name, what follows, and purpose.
pub(crate) const TOOLS: [(&str, &str, &str); 7] = [
    ("check", "FILE...", "Says what is in files of data, and where they break."),
    ("journal", "FILE", "Prints the steps of an append-only file, as lines of JSON."),
    ("top", "[URL]", "Shows what a server does, in the terminal."),
    ("doctor", "[URL]", "Asks another server what would differ here."),
    ("sizing", "--keys N", "Calculates how much memory and how many cores are needed."),
    ("import", "URL", "Moves the data of a running server to a Pantala that runs."),
    ("ping", "[ADDRESS]", "Tells whether a server serves, and ends with 0 if it does."),
];

/// Flags that are no settings, and their purposes.
const OTHER_FLAGS: [(&str, &str); 3] = [
    ("help", "Prints the settings that act."),
    ("helpfull", "Prints every setting."),
    ("version", "Prints the version."),
];

/// The flag that names a file of flags.
const FLAG_FILE: (&str, &str) = ("flagfile", "File of flags, one a line.");

/// The settings that act, by name.
fn acting() -> impl Iterator<Item = &'static Row> {
    row::rows()
        .iter()
        .filter(|row| row.effect == SettingEffect::Active && !row.has(RowFlags::HIDDEN))
}

/// What a shell can complete of a setting's value.
enum ValueCompletion {
    /// One of these words.
    Words(Vec<&'static str>),
    /// A path of a file.
    File,
    /// A path of a directory.
    Directory,
    /// Something nobody can guess.
    Anything,
}

impl ValueCompletion {
    fn of(row: &Row) -> ValueCompletion {
        match row.kind {
            Kind::Bool => ValueCompletion::Words(vec!["yes", "no"]),
            Kind::Word(words) => ValueCompletion::Words(words.to_vec()),
            Kind::IntOr(_, _, word) => ValueCompletion::Words(vec![word]),
            // What a setting is called says what its text is.
            Kind::Text if row.name.ends_with("dir") => ValueCompletion::Directory,
            Kind::Text if row.name.ends_with("file") || row.name == "unixsocket" => {
                ValueCompletion::File
            }
            _ => ValueCompletion::Anything,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_names_every_setting_that_acts() {
        for (path, text) in pages() {
            assert!(text.ends_with('\n') && !text.contains("\n\n\n"), "{path}");
            // A hyphen has its own spelling in a manual page.
            let plain = text.replace("\\-", "-");
            for row in acting() {
                assert!(plain.contains(row.name), "{path}: {}", row.name);
            }
        }
    }

    #[test]
    fn the_help_text_names_the_tools_and_the_other_flags() {
        let help = help::short();
        for (tool, follows, _) in TOOLS {
            assert!(help.contains(&format!("pantala {tool} {follows}")), "{tool}");
        }
        for (flag, _) in OTHER_FLAGS {
            assert!(help.contains(&format!("--{flag}")), "{flag}");
        }
    }
}
