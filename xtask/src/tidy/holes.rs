//! Checks that each row of SECURITY.md's table of known holes names existing tests.
//!
//! ```text
//! | hole | what it was | here |
//! | CVE-1-2 | a length | `a/b.rs::name`, `c/d.py::name`, `e/f.txt::words`, `e/f.txt` |
//! | CVE-3-4 | a tool | none: there is no such tool |
//! ```
//!
//! In Rust and Python the name is a function's; in a transcript some words of a case's title, or,
//! if none are given, the first cell. A row without a test begins its last cell with `none:`, and
//! says why. Tests: at the foot.

use super::rules::{File, Finding};

/// The name of this rule in tidy.toml.
pub const RULE: &str = "holes";
/// The requirement, for messages.
pub const SAYS: &str = "a known hole is held by a test that is there, or it says why not";
/// The file with the table.
pub const TABLE: &str = "SECURITY.md";

/// Rows whose tests do not exist.
pub fn check(files: &[File]) -> Vec<Finding> {
    let Some(table) = files.iter().find(|file| file.path == TABLE) else { return Vec::new() };
    let rows = table.text.lines().enumerate().filter_map(|(index, line)| Some((index, row(line)?)));
    rows.flat_map(|(index, (hole, held))| {
        let finding = move |what| Finding { line: index + 1, what };
        missing(files, hole, held).into_iter().map(finding)
    })
    .collect()
}

/// The first and the last cell of a row about a hole.
fn row(line: &str) -> Option<(&str, &str)> {
    let mut cells = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim);
    let (hole, held) = (cells.next()?, cells.next_back()?);
    let is_hole = ["CVE-", "GHSA-", "redis ", "valkey "].iter().any(|name| hole.starts_with(name));
    is_hole.then_some((hole, held))
}

/// The faults of a row.
fn missing(files: &[File], hole: &str, held: &str) -> Vec<String> {
    if held.starts_with("none: ") {
        return Vec::new();
    }
    let tests: Vec<&str> = held.split('`').skip(1).step_by(2).collect();
    if tests.is_empty() {
        return vec![format!("{hole} has no test")];
    }
    let absent = |test: &&&str| !is_there(files, hole, test);
    tests.iter().filter(absent).map(|test| format!("{hole}: there is no {test}")).collect()
}

fn is_there(files: &[File], hole: &str, test: &str) -> bool {
    let (path, name) = test.split_once("::").unwrap_or((test, hole));
    let Some(file) = files.iter().find(|file| file.path == path) else { return false };
    let is_named = |line: &str| match path.rsplit('.').next() {
        Some("rs") => declares(line, "fn ", name),
        Some("py") => declares(line, "def ", name),
        Some("txt") => line.strip_prefix("# ").is_some_and(|title| title.contains(name)),
        _ => false,
    };
    file.text.lines().any(is_named)
}

fn declares(line: &str, keyword: &str, name: &str) -> bool {
    let declared = line.trim_start().strip_prefix(keyword);
    declared.and_then(|rest| rest.strip_prefix(name)).is_some_and(|rest| rest.starts_with('('))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(table: &str) -> Vec<String> {
        let files = [
            File::new(TABLE, table.into()),
            File::new("a/b.rs", "    fn it_holds() {\n    }\n".into()),
            File::new("a/b.py", "def it_is_bounded(trial):\n".into()),
            File::new("a/b.txt", "# a length (CVE-1-2)\n> GET k\n".into()),
        ];
        check(&files).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn each_test_that_is_named_must_be_there() {
        for held in [
            "`a/b.rs::it_holds`",
            "`a/b.py::it_is_bounded`, `a/b.rs::it_holds`",
            "`a/b.txt::a length`",
            "`a/b.txt`",
            "none: there is no such tool",
        ] {
            assert_eq!(findings(&format!("| CVE-1-2 | x | {held} |\n")), [""; 0], "{held}");
        }
        for held in
            ["`a/b.rs::it`", "`a/b.py::it_holds`", "`a/b.txt::a width`", "`c.rs::it`", "", "yes"]
        {
            assert_eq!(findings(&format!("| CVE-1-2 | x | {held} |\n")).len(), 1, "{held}");
        }
        assert_eq!(findings("| CVE-1-3 | x | `a/b.txt` |\n").len(), 1);
        assert_eq!(findings("| hole | what | here |\n|---|---|---|\ntext\n"), [""; 0]);
    }
}
