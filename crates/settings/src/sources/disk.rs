//! The real `Sources`: files of this machine.
//!
//! Tests: at the foot.

use crate::sources::start::Sources;
use pantala_base::glob;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Files of this machine and its standard input.
#[derive(Debug, Default)]
pub struct Disk;

impl Sources for Disk {
    fn read(&mut self, path: &str) -> Result<String, String> {
        std::fs::read_to_string(path).map_err(|error| error.to_string())
    }

    fn read_stdin(&mut self) -> Result<String, String> {
        let mut text = String::new();
        let read = std::io::stdin().read_to_string(&mut text);
        read.map(|_| text).map_err(|error| error.to_string())
    }

    fn list(&mut self, pattern: &str) -> Vec<String> {
        let is_wild = |text: &str| text.contains(['*', '?', '[']);
        if !is_wild(pattern) {
            return vec![pattern.into()];
        }
        let root = if pattern.starts_with('/') { "/" } else { "" };
        let mut found = vec![PathBuf::from(root)];
        for part in pattern.split('/').filter(|part| !part.is_empty()) {
            found = found
                .iter()
                .flat_map(|at| match is_wild(part) {
                    true => entries(at, part),
                    false => vec![at.join(part)],
                })
                .filter(|path| path.exists())
                .collect();
        }
        found.iter().filter_map(|path| path.to_str().map(String::from)).collect()
    }
}

/// Entries of a directory whose names match, sorted; hidden ones only where the pattern says so.
fn entries(directory: &Path, part: &str) -> Vec<PathBuf> {
    let at = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let Ok(listing) = std::fs::read_dir(at) else { return Vec::new() };
    let mut names: Vec<String> = listing
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| glob::matches(part.as_bytes(), name.as_bytes()))
        .filter(|name| part.starts_with('.') || !name.starts_with('.'))
        .collect();
    names.sort();
    names.iter().map(|name| directory.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_files_in_order() {
        let here = env!("CARGO_MANIFEST_DIR");
        let listed = Disk.list(&format!("{here}/s*/[a-d]*.rs"));
        let names: Vec<&str> = listed.iter().filter_map(|path| path.rsplit('/').next()).collect();
        assert_eq!(names, ["active.rs", "dragonfly.rs"]);
        assert_eq!(
            Disk.list("src/sources/[c-d]*.rs"),
            ["src/sources/conf.rs", "src/sources/disk.rs"]
        );
        assert_eq!(Disk.list("none/such"), ["none/such"]);
        assert_eq!(Disk.list("none*/x"), [""; 0]);
    }

    #[test]
    fn a_missing_file_says_so() {
        assert!(Disk.read("no such file here").is_err());
    }
}
