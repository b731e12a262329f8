//! The name of a snapshot file: `dbfilename`, in which `{timestamp}` becomes the time.
//!
//! Tests: at the foot.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use chrono::{DateTime, NaiveDateTime};

use crate::disk::{Disk, directory_of};

/// The placeholder for the time.
const TIMESTAMP: &str = "{timestamp}";
/// The format of the time.
const TIME: &str = "%Y-%m-%dT%H:%M:%S";
/// The length of a formatted time.
const TIMESTAMP_BYTES: usize = 19;

/// The name of a file written at this time (Unix, seconds), in UTC, so names sort by time.
pub fn at(pattern: &str, unix_s: i64) -> String {
    let time = DateTime::from_timestamp(unix_s, 0).unwrap_or_default();
    pattern.replace(TIMESTAMP, &time.format(TIME).to_string())
}

/// The name of the file while it is written; no other process in the directory uses it.
pub fn temporary(process: u32) -> String {
    format!("temp-{process}.rdb")
}

/// The file to load: the one with that name, or the latest of several with a time.
///
/// # Errors
/// The directory cannot be read.
pub fn latest(disk: &dyn Disk, directory: &Path, pattern: &str) -> io::Result<Option<PathBuf>> {
    let Some((before, after)) = pattern.split_once(TIMESTAMP) else {
        let names = [pattern.to_owned(), format!("{pattern}{SUMMARY}")];
        let mut paths = names.into_iter().map(|name| directory.join(name));
        return Ok(paths.find(|path| disk.exists(path)));
    };
    let is_one = |name: &&String| {
        let rest =
            name.strip_prefix(before).and_then(|rest| rest.split_at_checked(TIMESTAMP_BYTES));
        let Some((time, end)) = rest else { return false };
        let is_dragonflys = after.is_empty() && matches!(end, ".rdb" | SUMMARY);
        time.starts_with(char::is_numeric) && (end == after || is_dragonflys)
    };
    let names = disk.list(directory)?;
    Ok(names.iter().filter(is_one).max().map(|name| directory.join(name)))
}

/// The newest of all snapshots in a directory: by the time in its name, otherwise by its
/// modification time.
///
/// # Errors
/// The directory cannot be read.
pub fn newest(disk: &dyn Disk, directory: &Path, pattern: &str) -> io::Result<Option<PathBuf>> {
    let is_snapshot = |name: &str| {
        let is_ours = match pattern.split_once(TIMESTAMP) {
            Some((before, after)) => name.starts_with(before) && name.ends_with(after),
            None => name == pattern,
        };
        let is_whole = !name.starts_with("temp-");
        let is_part = name.ends_with(".dfs") && !name.ends_with(SUMMARY);
        is_whole && !is_part && (is_ours || name.ends_with(".rdb") || name.ends_with(SUMMARY))
    };
    let found = disk.list_with_times(directory)?.into_iter();
    let snapshots = found.filter(|(_, name)| is_snapshot(name));
    let newest = snapshots.max_by_key(|(written_ms, name)| {
        (time_in(name).unwrap_or(*written_ms), *written_ms, name.clone())
    });
    Ok(newest.map(|(_, name)| directory.join(name)))
}

/// The suffix of the summary file beside the parts of a snapshot of Dragonfly.
pub const SUMMARY: &str = "-summary.dfs";

/// All files of the snapshot that begins with this one: for Dragonfly the summary, and then the
/// parts, `NAME-0000.dfs` and so on.
///
/// # Errors
/// The directory cannot be read, or a part is missing.
pub fn files_of(disk: &dyn Disk, path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = vec![path.to_owned()];
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some(stem) = name.strip_suffix(SUMMARY) else { return Ok(files) };
    let number_of = |name: &String| {
        let number = name.strip_prefix(stem)?.strip_prefix('-')?.strip_suffix(".dfs")?;
        let is_number = number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit());
        number.parse::<usize>().ok().filter(|_| is_number)
    };
    let directory = path.parent().unwrap_or(Path::new(""));
    let listed = if directory.as_os_str().is_empty() { directory_of(path) } else { directory };
    let numbers: BTreeSet<usize> = disk.list(listed)?.iter().filter_map(number_of).collect();
    for number in 0..numbers.last().map_or(1, |last| last + 1) {
        let part = directory.join(format!("{stem}-{number:04}.dfs"));
        if !numbers.contains(&number) {
            let what = format!("its part {} is missing", part.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, what));
        }
        files.push(part);
    }
    Ok(files)
}

/// The time in a name, in milliseconds of Unix time.
fn time_in(name: &str) -> Option<i64> {
    let mut windows = name.as_bytes().windows(TIMESTAMP_BYTES);
    windows.find_map(|window| {
        // Not a year with a sign, or of five digits.
        let has_year = window[0].is_ascii_digit() && window[4] == b'-';
        let text = std::str::from_utf8(window).ok().filter(|_| has_year)?;
        let time = NaiveDateTime::parse_from_str(text, TIME).ok()?;
        Some(time.and_utc().timestamp_millis())
    })
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

    #[test]
    fn the_newest_of_all_is_found_by_the_time_in_its_name() {
        let disk = SimulatedDisk::new(1);
        let directory = Path::new("/d");
        disk.create_directory(directory).expect("it is there");
        let check = |pattern, expected: Option<&str>| {
            let found = newest(&disk, directory, pattern).expect("a directory");
            assert_eq!(found, expected.map(|name| directory.join(name)), "{pattern}");
        };
        check("dump.rdb", None);
        let put = |name| {
            disk.create(&directory.join(name)).expect("made");
        };
        ["temp-1.rdb", "x", "x-0000.dfs"].into_iter().for_each(put);
        check("dump.rdb", None);
        put("dump.rdb");
        check("dump.rdb", Some("dump.rdb"));
        put("d-2026-11-21T17:35:03.rdb");
        put("d-2025-11-22T17:35:03.rdb");
        put("d-2027-13-01T00:00:00.rdb");
        check("dump.rdb", Some("d-2026-11-21T17:35:03.rdb"));
        put("e-2026-11-22T17:35:03-summary.dfs");
        check("dump.rdb", Some("e-2026-11-22T17:35:03-summary.dfs"));
        put("s-2026-11-23T17:35:03");
        check("dump.rdb", Some("e-2026-11-22T17:35:03-summary.dfs"));
        check("s-{timestamp}", Some("s-2026-11-23T17:35:03"));
    }

    #[test]
    fn a_snapshot_of_dragonfly_has_parts() {
        let disk = SimulatedDisk::new(1);
        let directory = Path::new("/d");
        disk.create_directory(directory).expect("it is there");
        let put = |name: &str| {
            disk.create(&directory.join(name)).expect("made");
        };
        let summary = directory.join("x-summary.dfs");
        let files = || files_of(&disk, &summary).map_err(|error| error.to_string());
        put("x-summary.dfs");
        assert_eq!(files(), Err("its part /d/x-0000.dfs is missing".into()));
        ["x-0000.dfs", "x-0001.dfs", "y-0002.dfs", "x-00002.dfs", "x-abcd.dfs"]
            .into_iter()
            .for_each(put);
        let all = ["x-summary.dfs", "x-0000.dfs", "x-0001.dfs"].map(|name| directory.join(name));
        assert_eq!(files(), Ok(all.into()));
        put("x-0003.dfs");
        assert_eq!(files(), Err("its part /d/x-0002.dfs is missing".into()));
        let alone = files_of(&disk, Path::new("/d/x-0000.dfs")).expect("it is one file");
        assert_eq!(alone, [directory.join("x-0000.dfs")]);
        let found = |pattern| latest(&disk, directory, pattern).expect("a directory");
        assert_eq!(found("x"), Some(summary.clone()));
        put("d-2026-11-22T17:35:03-summary.dfs");
        put("d-2026-11-22T17:35:04-0000.dfs");
        let expected = directory.join("d-2026-11-22T17:35:03-summary.dfs");
        assert_eq!(found("d-{timestamp}"), Some(expected));
        assert_eq!(found("d-{timestamp}.rdb"), None);
    }
}
