//! Checks that every active setting is read somewhere: otherwise it belongs among the inert ones.
//!
//! It suffices that `.field` occurs outside `active.rs` and outside tests; whether its effect is
//! right is for the transcripts to say. Tests: at the foot.

use super::rules::{File, Finding};
use super::source::words;

/// The name of this rule in tidy.toml.
pub const RULE: &str = "acting";
/// The requirement, for messages.
pub const SAYS: &str = "an active setting is read, or it is inert";
/// The file that declares active settings.
pub const TABLE: &str = "crates/settings/src/active.rs";

/// The fields that nothing reads.
pub fn check(files: &[File]) -> Vec<Finding> {
    let Some(table) = files.iter().find(|file| file.path == TABLE) else { return Vec::new() };
    let mut unread = fields(&table.text);
    for file in files.iter().filter(|file| file.path != TABLE) {
        let Some(source) = &file.source else { continue };
        for (_, line) in source.live_lines() {
            unread.retain(|(_, field)| !is_read(line, field));
        }
    }
    let finding = |(line, field): (usize, String)| Finding {
        line: line + 1,
        what: format!("nobody reads {field}"),
    };
    unread.into_iter().map(finding).collect()
}

/// Whether the line contains `.field`.
fn is_read(line: &str, field: &str) -> bool {
    line.split('.').skip(1).any(|rest| words(rest).next() == Some(field) && rest.starts_with(field))
}

/// Line and name of each `name: Type = live(` in the table.
fn fields(table: &str) -> Vec<(usize, String)> {
    let field = |line: &str| {
        let (name, rest) = line.strip_prefix("    ")?.split_once(": ")?;
        let (_, row) = rest.split_once(" = ")?;
        let declares = ["live(", "start(", "protected("].iter().any(|made| row.starts_with(made));
        declares.then(|| String::from(name))
    };
    table.lines().enumerate().filter_map(|(index, line)| Some((index, field(line)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_read_in_code_not_in_comments_or_tests() {
        let table = "settings! {\n    /// Doc.\n    port: u16 = start(\"port\");\n    \
                     hz: u32 = live(\n        \"hz\");\n}\n";
        let table = File::new(TABLE, table.into());
        let user = |text: &str| File::new("crates/server/src/x.rs", text.into());
        let unread = |text| -> Vec<usize> {
            let file = File::new(TABLE, table.text.clone());
            check(&[file, user(text)]).iter().map(|finding| finding.line).collect()
        };
        assert_eq!(unread("let a = settings.port + settings.hz;"), [0; 0]);
        assert_eq!(unread("let hz = settings.port; // .hz\n"), [4]);
        assert_eq!(unread("#[test]\nfn t() { settings.port + settings.hz; }\n"), [3, 4]);
    }
}
