//! What a snapshot file is called: `dbfilename`, in which `{timestamp}` becomes the time.
//!
//! Tests: at the foot.

use std::io;
use std::path::{Path, PathBuf};

use chrono::DateTime;

use crate::disk::Disk;

/// What becomes the time.
const TIMESTAMP: &str = "{timestamp}";
/// So long is a time.
const TIMESTAMP_BYTES: usize = 19;

/// The name of a file that is written at this time (Unix, seconds): UTC, so names are in order.
pub fn at(pattern: &str, unix_s: i64) -> String {
    let time = DateTime::from_timestamp(unix_s, 0).unwrap_or_default();
    pattern.replace(TIMESTAMP, &time.format("%Y-%m-%dT%H:%M:%S").to_string())
}

/// The name of the file while it is written; no other process in the directory uses it.
pub fn temporary(process: u32) -> String {
    format!("temp-{process}.rdb")
}

/// The file to load: the one of that name, or of several with a time the latest.
///
/// # Errors
/// The directory can not be read.
pub fn latest(disk: &dyn Disk, directory: &Path, pattern: &str) -> io::Result<Option<PathBuf>> {
    let Some((before, after)) = pattern.split_once(TIMESTAMP) else {
        let path = directory.join(pattern);
        return Ok(disk.exists(&path).then_some(path));
    };
    let is_one = |name: &&String| {
        let time = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
        time.is_some_and(|time| time.len() == TIMESTAMP_BYTES && time.starts_with(char::is_numeric))
    };
    let names = disk.list(directory)?;
    Ok(names.iter().filter(is_one).max().map(|name| directory.join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::simulated::SimulatedDisk;

    #[test]
    fn a_name_may_tell_the_time() {
        assert_eq!(at("dump.rdb", 0), "dump.rdb");
        assert_eq!(at("d-{timestamp}.rdb", 1_795_368_903), "d-2026-11-22T17:35:03.rdb");
        assert_eq!(at("{timestamp}", -1).len(), TIMESTAMP_BYTES);
    }

    #[test]
    fn the_latest_is_loaded() {
        let disk = SimulatedDisk::new(1);
        let directory = Path::new("/d");
        disk.create_directory(directory).expect("it is there");
        let found = |pattern| {
            let found = latest(&disk, directory, pattern).expect("a directory");
            found.map(|path| path.display().to_string())
        };
        assert_eq!((found("dump.rdb"), found("d-{timestamp}")), (None, None));
        for name in ["dump.rdb", "d-x", "d-2026-11-22T17:35:03", "d-2026-11-21T17:35:03"] {
            disk.create(&directory.join(name)).expect("made");
        }
        assert_eq!(found("dump.rdb").as_deref(), Some("/d/dump.rdb"));
        assert_eq!(found("d-{timestamp}").as_deref(), Some("/d/d-2026-11-22T17:35:03"));
        assert_eq!(found("e-{timestamp}"), None);
    }
}
