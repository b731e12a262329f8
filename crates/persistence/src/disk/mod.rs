//! File access of persistence: a trait, the real disk and a simulated one.
//!
//! | operation | what it promises |
//! |---|---|
//! | [`DiskFile::append`] | readers see the bytes; after a crash some may be missing |
//! | [`DiskFile::sync`] | everything appended before survives a crash, if the name does |
//! | [`Disk::rename`], [`Disk::create`], [`Disk::remove`] | visible at once, atomic |
//! | [`Disk::sync_directory`] | the names in it survive a crash |
//!
//! Invariants
//! 1. A file whose append or sync has failed must not be trusted again: how much of it reaches the
//!    disk is unknown, and a later successful sync says nothing about what came before it.
//! 2. A file that must be whole or absent is put in place by [`replace`].
//!
//! Not here: which files there are (`aof`, `snapshot`). Tests: `simulated`, and at the foot.

pub mod leftovers;
mod real;
pub mod simulated;

use std::io;
use std::path::Path;
use std::sync::Arc;

pub use real::RealDisk;

/// A file system. Paths are as the operating system takes them.
pub trait Disk: Send + Sync {
    /// Creates a file, or truncates an existing one, to append to it.
    ///
    /// # Errors
    /// Those of the operating system, as for every operation here.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens an existing file to append to it.
    ///
    /// # Errors
    /// It is missing, or may not be written.
    fn open_to_append(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens an existing file to read it from its start.
    ///
    /// # Errors
    /// It is missing, or may not be read.
    fn open_to_read(&self, path: &Path) -> io::Result<Box<dyn io::Read + Send>>;

    /// The length of a file in bytes.
    ///
    /// # Errors
    /// It is missing.
    fn size(&self, path: &Path) -> io::Result<u64>;

    /// Truncates a file, and syncs it.
    ///
    /// # Errors
    /// It is missing, or may not be written.
    fn truncate(&self, path: &Path, bytes: u64) -> io::Result<()>;

    /// Renames a file, replacing whatever has the new name. Between two directories of one file
    /// system, a crash leaves it in at least one of them.
    ///
    /// # Errors
    /// It is missing, or a directory may not be written.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// It is missing, or the directory may not be written.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Creates a directory, unless it exists.
    ///
    /// # Errors
    /// It cannot be created.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Makes creations, renames and removals in a directory durable.
    ///
    /// # Errors
    /// The disk has failed.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// The names of the files in a directory, sorted.
    ///
    /// # Errors
    /// It is missing, or may not be read.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;

    /// The names of the files in a directory, unsorted, with modification times (Unix,
    /// milliseconds).
    ///
    /// # Errors
    /// It is missing, or may not be read.
    fn list_with_times(&self, path: &Path) -> io::Result<Vec<(i64, String)>>;

    /// Whether a file with this name exists. If that cannot be checked, it counts as existing.
    fn exists(&self, path: &Path) -> bool {
        !matches!(self.size(path), Err(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

/// A file being written. One thread appends; another may sync meanwhile.
pub trait DiskFile: Send + Sync {
    /// Appends all bytes.
    ///
    /// # Errors
    /// Some of the bytes may have been appended.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;

    /// Overwrites the first bytes, which must exist. A crash may leave the old ones or the new.
    ///
    /// # Errors
    /// They may have been written or not.
    fn write_over_start(&self, bytes: &[u8]) -> io::Result<()>;

    /// Preallocates space from `_from`, the end of the file, whose length stays: then appending
    /// takes less time. Returns whether it was done.
    fn set_room_aside(&self, _from: u64, _bytes: u64) -> bool {
        false
    }

    /// Releases preallocated space, if the file has this length.
    fn give_room_back(&self, _length: u64) {}

    /// Makes everything appended durable. May take long.
    ///
    /// # Errors
    /// The disk has failed, perhaps with something that was written long ago.
    fn sync(&self) -> io::Result<()>;
}

/// Reads a whole file of at most `max_bytes`.
///
/// # Errors
/// It cannot be read, or is longer (`InvalidData`).
pub fn read_whole(disk: &dyn Disk, path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    use io::Read;
    let mut bytes = Vec::new();
    disk.open_to_read(path)?.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        let what = format!("longer than {max_bytes} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Ok(bytes)
}

/// Replaces a file by one with these bytes: a crash leaves the old or the new one. `temporary` is
/// in the same directory.
///
/// # Errors
/// The old one is still there, or the new one, which may be gone after a crash.
pub fn replace(disk: &dyn Disk, path: &Path, temporary: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = disk.create(temporary)?;
    file.append(bytes)?;
    file.sync()?;
    drop(file);
    disk.rename(temporary, path)?;
    disk.sync_directory(directory_of(path))
}

/// The directory of a file.
pub fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Whether the error means that space must be freed before writing can succeed.
pub fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

#[cfg(test)]
mod tests {
    use super::simulated::SimulatedDisk;
    use super::*;

    /// The behaviour that both disks must share.
    fn check(disk: &dyn Disk, directory: &Path) {
        let at = |name: &str| directory.join(name);
        disk.create_directory(directory).expect("made");
        disk.create_directory(directory).expect("there already");
        let file = disk.create(&at("a")).expect("created");
        file.append(b"one ").expect("appended");
        drop(file);
        let file = disk.open_to_append(&at("a")).expect("opened");
        file.append(b"two").expect("appended");
        file.sync().expect("synced");
        assert_eq!(read_whole(disk, &at("a"), 100).expect("read"), b"one two");
        let error = read_whole(disk, &at("a"), 6).expect_err("too long");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        disk.truncate(&at("a"), 5).expect("cut");
        assert_eq!(disk.size(&at("a")).expect("there"), 5);
        replace(disk, &at("a"), &at("temp-a"), b"new").expect("replaced");
        assert_eq!(read_whole(disk, &at("a"), 100).expect("read"), b"new");
        assert_eq!(disk.list(directory).expect("listed"), ["a"]);
        let listed = disk.list_with_times(directory).expect("listed");
        assert_eq!(listed.into_iter().map(|(_, name)| name).collect::<Vec<_>>(), ["a"]);
        disk.create(&at("b")).expect("created");
        disk.rename(&at("b"), &at("a")).expect("renamed");
        assert_eq!(disk.size(&at("a")).expect("there"), 0);
        disk.sync_directory(directory).expect("synced");
        disk.remove(&at("a")).expect("removed");
        assert!(!disk.exists(&at("a")));
        let not_found = |outcome: io::Result<()>| {
            assert_eq!(outcome.expect_err("missing").kind(), io::ErrorKind::NotFound);
        };
        not_found(disk.remove(&at("a")));
        not_found(disk.open_to_read(&at("a")).map(drop));
        not_found(disk.open_to_append(&at("a")).map(drop));
        not_found(disk.truncate(&at("a"), 0));
        not_found(disk.rename(&at("a"), &at("b")));
        not_found(disk.list(&at("nowhere")).map(drop));
        not_found(disk.list_with_times(&at("nowhere")).map(drop));
        not_found(disk.create(&at("nowhere").join("a")).map(drop));
    }

    #[test]
    fn both_disks_do_the_same() {
        check(&SimulatedDisk::new(1), Path::new("/data"));
        let directory = std::env::temp_dir().join(format!("pantala-disk-{}", std::process::id()));
        check(&RealDisk, &directory);
        std::fs::remove_dir_all(&directory).expect("removed");
    }

    #[test]
    fn what_is_no_file_is_told_and_not_waited_for() {
        let directory = std::env::temp_dir().join(format!("pantala-kinds-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory for the test");
        let pipe = directory.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("it runs").success());
        for (path, what) in [
            (pipe.as_path(), "it is a pipe, not a file"),
            (&directory, "it is a directory, not a file"),
            (Path::new("/dev/zero"), "it is a device, not a file"),
        ] {
            let read = RealDisk.open_to_read(path).map(drop).expect_err("it is none");
            let appended = RealDisk.open_to_append(path).map(drop).expect_err("it is none");
            assert_eq!((read.to_string(), appended.to_string()), (what.into(), what.into()));
        }
        std::fs::remove_dir_all(&directory).expect("removed");
    }

    #[test]
    fn a_bare_name_lies_in_the_current_directory() {
        assert_eq!(directory_of(Path::new("a")), Path::new("."));
        assert_eq!(directory_of(Path::new("/x/a")), Path::new("/x"));
    }
}
