//! Checks that a source folder holds at most a dozen modules beside its head; a larger one should
//! be divided.
//!
//! Counts the files and folders directly in a Rust folder below some `src`; its head (`lib.rs`,
//! `main.rs`, `mod.rs`) does not count. Folders of tests and fuzz targets are exempt: there each
//! file is a program. Tests: at the foot.

use std::collections::{BTreeMap, BTreeSet};

use super::rules::{File, Finding};

/// The name of this rule in tidy.toml.
pub const RULE: &str = "folders";
/// The requirement, for messages.
pub const SAYS: &str = "at most a dozen modules in a folder beside its head";

const MOST: usize = 12;
const HEADS: [&str; 3] = ["lib.rs", "main.rs", "mod.rs"];

/// One finding for each entry too many in a folder, so that the ratchet counts them down.
pub fn check(files: &[File]) -> Vec<(String, Vec<Finding>)> {
    let mut folders: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.source.is_some()) {
        for (folder, entry) in places(&file.path) {
            folders.entry(folder).or_default().insert(entry);
        }
    }
    let crowded = folders.into_iter().filter(|(_, entries)| entries.len() > MOST);
    let findings = |count: usize| {
        let finding = |_| Finding { line: 1, what: format!("{count} entries") };
        (MOST..count).map(finding).collect()
    };
    crowded.map(|(folder, entries)| (folder.into(), findings(entries.len()))).collect()
}

/// The folders from `src` downwards that contain a path, each with the entry that counts there.
fn places(path: &str) -> impl Iterator<Item = (&str, &str)> {
    let from = match path.split_once("/src/") {
        Some((above, _)) if above != "fuzz" => above.len() + "/src".len(),
        _ => path.len(),
    };
    let slashes = path.match_indices('/').map(|(at, _)| at).filter(move |at| *at >= from);
    let places = slashes.map(|at| {
        let below = &path[at + 1..];
        (&path[..at], below.split('/').next().unwrap_or(below))
    });
    places.filter(|(_, entry)| !HEADS.contains(entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The findings for a folder with these files.
    fn found(paths: impl IntoIterator<Item = String>) -> Vec<(String, usize)> {
        let files: Vec<File> =
            paths.into_iter().map(|path| File::new(&path, String::new())).collect();
        check(&files).into_iter().map(|(folder, findings)| (folder, findings.len())).collect()
    }

    fn modules(folder: &str, count: usize) -> impl Iterator<Item = String> {
        (0..count).map(move |number| format!("{folder}/m{number}.rs"))
    }

    #[test]
    fn a_dozen_beside_the_head_is_enough() {
        let head = || ["crates/a/src/lib.rs".into(), "crates/a/src/main.rs".into()];
        assert_eq!(found(head().into_iter().chain(modules("crates/a/src", 12))), []);
        let crowded = found(head().into_iter().chain(modules("crates/a/src", 14)));
        assert_eq!(crowded, [("crates/a/src".into(), 2)]);
    }

    #[test]
    fn a_folder_counts_once_and_is_looked_at_itself() {
        let inner = || modules("crates/a/src/b", 13);
        assert_eq!(
            found(modules("crates/a/src", 11).chain(inner())),
            [("crates/a/src/b".into(), 1)]
        );
        let both = found(modules("crates/a/src", 12).chain(inner()));
        assert_eq!(both, [("crates/a/src".into(), 1), ("crates/a/src/b".into(), 1)]);
    }

    #[test]
    fn tests_and_other_texts_are_not_counted() {
        assert_eq!(found(modules("crates/a/tests", 20)), []);
        assert_eq!(found(modules("fuzz/src", 20)), []);
        assert_eq!(found((0..20).map(|number| format!("crates/a/src/{number}.lua"))), []);
    }
}
