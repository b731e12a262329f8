//! The configuration file that packages install: every active setting with its default, as a
//! comment, and above them the few that a package sets.
//!
//! Tests: at the foot.

use std::fmt::Write;

use super::acting;
use crate::kind::Kind;
use crate::row::{ChangeTime, SettingGroup};
use crate::sources::conf::quote;

const BEGIN: &str = "\
# Settings of Pantala, a line each: a name and its value. pantala(1) says what else may set them.
# Written by `cargo xtask docs` from the rows in crates/settings.
#
# What stands behind a # is the default. Sizes may have units (100mb, 2gb). Those marked `live`
# CONFIG SET changes while the server runs, and CONFIG REWRITE puts them here where it may write.

# Only clients of this machine, until you say otherwise. Before you do, read docs/security.md: give
# the server a password or users.
bind 127.0.0.1 -::1

# Where snapshots and append-only files lie.
dir /var/lib/pantala
";

/// Columns of a line.
const COLUMNS: usize = 100;

/// The file.
pub(super) fn file() -> String {
    let mut text = String::from(BEGIN);
    for group in SettingGroup::ALL {
        let mut rows = acting().filter(|row| row.group == group).peekable();
        if rows.peek().is_none() {
            continue;
        }
        let _ = write!(text, "\n# ---- {} ----\n", group.title());
        for row in rows {
            let live = if row.change == ChangeTime::Live { " (live)" } else { "" };
            text.push('\n');
            wrapped(&mut text, &format!("{}{live}", row.doc));
            if !matches!(row.kind, Kind::Text) {
                wrapped(&mut text, &format!("Allowed: {}.", row.kind.allowed()));
            }
            let is_one_word = !row.kind.takes_many() || row.default.is_empty();
            let default = if is_one_word { quote(row.default) } else { row.default.into() };
            let _ = writeln!(text, "# {} {default}", row.name);
        }
    }
    text
}

/// Words as lines of a comment; two blanks tell it from a setting that is out of force.
fn wrapped(text: &mut String, words: &str) {
    const BEFORE: &str = "#  ";
    let mut width = 0;
    for word in words.split(' ') {
        if width != 0 && width + 1 + word.len() > COLUMNS {
            text.push('\n');
            width = 0;
        }
        if width == 0 {
            text.push_str(BEFORE);
            width = BEFORE.len();
        } else {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += word.len();
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use crate::{Settings, Sources, Start};

    struct OneFile(String);

    impl Sources for OneFile {
        fn read(&mut self, _: &str) -> Result<String, String> {
            Ok(self.0.clone())
        }

        fn read_stdin(&mut self) -> Result<String, String> {
            Err("there is none".into())
        }

        fn list(&mut self, pattern: &str) -> Vec<String> {
            vec![pattern.into()]
        }
    }

    fn launch(text: String) -> Settings {
        let args = ["pantala.conf".to_owned()];
        match Settings::from_args(&args, std::iter::empty(), &mut OneFile(text)) {
            Ok(Start::Run(launch)) => launch.settings,
            other => panic!("{}", other.err().map_or_else(String::new, |why| why.to_string())),
        }
    }

    #[test]
    fn it_loads_and_sets_what_a_package_sets() {
        let settings = launch(super::file());
        let with = |name, value: &str| Settings::defaults().with(name, value);
        let bind = with("bind", "127.0.0.1 -::1").expect("allowed").bind;
        assert_eq!((settings.bind, settings.dir.as_str()), (bind, "/var/lib/pantala"));
    }

    #[test]
    fn with_every_line_in_force_it_is_the_defaults() {
        let in_force = |line: &str| {
            let setting = line.strip_prefix("# ").filter(|rest| !rest.starts_with([' ', '-']));
            let name = setting?.split(' ').next()?;
            crate::find(name)
                .is_some_and(|row| row.name == name)
                .then(|| setting.map(String::from))?
        };
        let lines: Vec<String> = super::file().lines().filter_map(in_force).collect();
        assert_eq!(lines.len(), super::acting().count());
        assert!(launch(lines.join("\n")) == Settings::defaults());
    }
}
