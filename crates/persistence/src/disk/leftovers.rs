//! Removes files of a server that was killed while it wrote a snapshot: `temp-PID.rdb`, or for
//! replicas `temp-repl-PID.rdb`, earlier `temp-repl-PID.rdb.part`.
//!
//! Invariants
//! 1. Only regular files of exactly these names are removed, in the one directory.
//! 2. Nothing is removed while a process with that number lives, or while any process holds the
//!    lock that [`RealDisk::create`](super::RealDisk) takes: a process in another container is not
//!    visible, but its lock is.
//!
//! Tests: at the foot.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// The number of the process that writes, or has written, a file with this name.
fn writer_of(name: &str) -> Option<u32> {
    let number = name.strip_prefix("temp-")?;
    let digits = match number.strip_prefix("repl-") {
        Some(number) => number.strip_suffix(".part").unwrap_or(number).strip_suffix(".rdb")?,
        None => number.strip_suffix(".rdb")?,
    };
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    digits.parse().ok().filter(|_| is_number)
}

/// Whether another process with this number may live. Without `/proc` all may.
pub fn may_live(process: u32) -> bool {
    let proc = Path::new("/proc");
    process != std::process::id()
        && (proc.join(process.to_string()).exists() || !proc.join("self").exists())
}

/// Whether no process writes this regular file.
fn is_abandoned(path: &Path) -> bool {
    // Opened only when it is known that this does not block: not a pipe.
    let is_file = fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    is_file && File::open(path).is_ok_and(|file| file.try_lock().is_ok())
}

/// Removes such files, before this process writes any; returns the names of the removed ones.
///
/// # Errors
/// The directory cannot be read, or a file cannot be removed.
pub fn remove(directory: &Path) -> io::Result<Vec<String>> {
    let mut removed = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let is_left = writer_of(&name).is_some_and(|process| !may_live(process));
        if is_left && is_abandoned(&entry.path()) {
            fs::remove_file(entry.path())?;
            removed.push(name);
        }
    }
    removed.sort();
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::disk::{Disk, RealDisk};

    #[test]
    fn only_exact_names_have_a_writer() {
        assert_eq!(writer_of("temp-17.rdb"), Some(17));
        for other in [
            "temp-.rdb",
            "temp-x.rdb",
            "temp-+1.rdb",
            "temp-01.rdb",
            "temp-1.rdb.part",
            "temp-1.aof",
            "dump.rdb",
            "temp-99999999999.rdb",
        ] {
            assert_eq!(writer_of(other), None, "{other}");
        }
    }

    #[test]
    fn what_nobody_writes_is_removed() {
        let directory =
            std::env::temp_dir().join(format!("pantala-leftovers-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory for the test");
        let mut ended = Command::new("true").spawn().expect("it starts");
        let gone = ended.id();
        ended.wait().expect("it ends");
        let own = std::process::id();
        let left = [format!("temp-{gone}.rdb"), format!("temp-{own}.rdb")];
        let init = "temp-1.rdb";
        let kept = ["dump.rdb", init, "temp-x.rdb"];
        for name in left.iter().map(String::as_str).chain(kept) {
            fs::write(directory.join(name), "x").expect("written");
        }
        // A directory has that number's name: it is never touched.
        fs::create_dir(directory.join("temp-4000000000.rdb")).expect("made");
        let path = directory.join(&left[0]);
        let written = RealDisk.create(&path).expect("created");
        assert_eq!(remove(&directory).expect("read"), [&*left[1]], "the other one is written");
        drop(written);
        assert_eq!(remove(&directory).expect("read"), [&*left[0]]);
        for name in kept {
            assert!(directory.join(name).exists(), "{name}");
        }
        fs::remove_dir_all(&directory).expect("removed");
    }
}
