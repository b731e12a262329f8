//! The operating system's file system.
//!
//! Tests: in `disk`, the same as for the simulated disk.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use pantala_base::os::is_short_of_descriptors;

use super::{Disk, DiskFile};

/// The file system of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

/// How often opening a file is tried while the process has no free descriptors,
const OPENING_TRIES: u32 = 100;
/// and the pause between two tries. A burst of connections briefly takes descriptors that are
/// reserved for files, between accept and refusal.
const OPENING_PAUSE: Duration = Duration::from_millis(10);

/// Opens a file, with retries while the process or the system has too many open.
fn patiently(open: impl Fn() -> io::Result<File>) -> io::Result<File> {
    for _ in 1..OPENING_TRIES {
        match open() {
            Err(error) if is_short_of_descriptors(&error) => std::thread::sleep(OPENING_PAUSE),
            opened => return opened,
        }
    }
    open()
}

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = patiently(|| File::create(path))?;
        // For `leftovers`; some file systems have no locks.
        let _is_told = file.try_lock();
        Ok(Arc::new(file))
    }

    fn open_to_append(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(open_file(OpenOptions::new().append(true), path)?))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(open_file(OpenOptions::new().read(true), path)?))
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        Ok(look_at_file(path)?.len())
    }

    fn truncate(&self, path: &Path, bytes: u64) -> io::Result<()> {
        let file = patiently(|| OpenOptions::new().write(true).open(path))?;
        file.set_len(bytes)?;
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            outcome => outcome,
        }
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        patiently(|| File::open(path))?.sync_all()
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
        let mut names: Vec<String> = entries
            .iter()
            .filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_dir()))
            // A name that is not UTF-8 is not one of ours.
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        Ok(names)
    }

    fn list_with_times(&self, path: &Path) -> io::Result<Vec<(i64, String)>> {
        let with_time = |name: String| {
            let modified = fs::metadata(path.join(&name)).and_then(|file| file.modified());
            let since = modified.ok()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            Some((i64::try_from(since.as_millis()).unwrap_or(i64::MAX), name))
        };
        Ok(self.list(path)?.into_iter().filter_map(with_time).collect())
    }
}

/// Opens a regular file, and nothing else: opening a pipe waits for its other end.
fn open_file(options: &OpenOptions, path: &Path) -> io::Result<File> {
    look_at_file(path)?;
    patiently(|| options.open(path))
}

/// The metadata of a regular file.
fn look_at_file(path: &Path) -> io::Result<Metadata> {
    let found = fs::metadata(path)?;
    let kind = found.file_type();
    let (what, error) = match kind {
        _ if kind.is_file() => return Ok(found),
        _ if kind.is_dir() => ("a directory", ErrorKind::IsADirectory),
        _ if kind.is_fifo() => ("a pipe", ErrorKind::Other),
        _ if kind.is_socket() => ("a socket", ErrorKind::Other),
        _ => ("a device", ErrorKind::Other),
    };
    Err(io::Error::new(error, format!("it is {what}, not a file")))
}

impl DiskFile for File {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let mut file = self;
        file.write_all(bytes)
    }

    fn write_over_start(&self, bytes: &[u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(self, bytes, 0)
    }

    fn set_room_aside(&self, from: u64, bytes: u64) -> bool {
        pantala_base::os::set_room_aside(self, from, bytes)
    }

    fn give_room_back(&self, length: u64) {
        if self.metadata().is_ok_and(|file| file.len() == length) {
            // Otherwise it stays until the file is removed.
            let _best_effort = self.set_len(length);
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_that_are_short_for_a_moment_are_waited_for() {
        let tries = std::cell::Cell::new(0);
        let opened = patiently(|| {
            tries.set(tries.get() + 1);
            match tries.get() {
                1 => Err(io::Error::from_raw_os_error(24)),
                2 => Err(io::Error::from_raw_os_error(23)),
                _ => File::open("/dev/null"),
            }
        });
        assert!(opened.is_ok() && tries.get() == 3);
        let missing = patiently(|| File::open("/nowhere/at/all"));
        assert_eq!(missing.map(drop).map_err(|e| e.kind()), Err(io::ErrorKind::NotFound));
    }
}
