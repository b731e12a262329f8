//! A disk in memory that loses what was not synced, tears writes, and fails when told to.
//!
//! ```text
//! file        content now | content that is durable         sync: durable = now
//! directory   names now   | what a crash may undo           sync_directory: nothing
//! crash       per directory a beginning of its acts is kept, per file a beginning of its tail,
//!             sometimes with zeros where the last bytes of that beginning were
//! ```
//!
//! Invariants
//! 1. The same seed and the same operations give the same outcome.
//! 2. A crash keeps what was synced: bytes by the file's sync, names by the directory's.
//! 3. After a failed append or sync of a file no later sync makes anything of it durable.
//!
//! Not here: read errors, wear; a directory's own entry in its parent is durable at once.
//! Tests: at the foot.

use std::collections::BTreeMap;
use std::io::{self, Cursor, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pantala_base::Rng;
use parking_lot::{Mutex, MutexGuard};

use super::{Disk, DiskFile, directory_of};

/// A torn write leaves all or nothing of this many bytes.
const SECTOR_BYTES: u64 = 512;

/// A simulated disk. Clones are the same disk.
#[derive(Clone)]
pub struct SimulatedDisk(Arc<Mutex<State>>);

/// An operation that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// [`DiskFile::append`]; a prefix may be written nevertheless.
    Append,
    /// [`DiskFile::sync`].
    Sync,
    /// [`Disk::rename`].
    Rename,
    /// [`Disk::create`].
    Create,
    /// [`Disk::sync_directory`].
    SyncDirectory,
}

struct State {
    rng: Rng,
    files: Vec<Content>,
    directories: BTreeMap<PathBuf, Directory>,
    /// Files moved from one directory to another, with their old paths.
    moves: Vec<(usize, PathBuf)>,
    faults: Vec<Fault>,
    free_bytes: Option<u64>,
    /// The number of crashes: files opened before the last one do nothing.
    boot: u64,
}

#[derive(Clone, Default)]
struct Content {
    now: Vec<u8>,
    durable: Vec<u8>,
    is_broken: bool,
}

#[derive(Clone, Default)]
struct Directory {
    names: Names,
    /// The names before each operation since the last sync.
    undo: Vec<Names>,
}

type Names = BTreeMap<String, usize>;

struct Fault {
    act: Act,
    /// How many operations succeed before the failure.
    after: u64,
    kind: ErrorKind,
}

struct SimulatedFile {
    disk: SimulatedDisk,
    number: usize,
    boot: u64,
}

impl SimulatedDisk {
    /// An empty disk.
    pub fn new(seed: u64) -> Self {
        SimulatedDisk(Arc::new(Mutex::new(State {
            rng: Rng::from_seed(seed),
            files: Vec::new(),
            directories: BTreeMap::new(),
            moves: Vec::new(),
            faults: Vec::new(),
            free_bytes: None,
            boot: 0,
        })))
    }

    /// Makes the operation fail once, after `after` more that succeed.
    pub fn fail(&self, act: Act, after: u64, kind: ErrorKind) {
        self.state().faults.push(Fault { act, after, kind });
    }

    /// Cancels all planned failures.
    pub fn fail_no_more(&self) {
        self.state().faults.clear();
    }

    /// Limits how many more bytes can be appended; `None`: no limit.
    pub fn set_free_bytes(&self, bytes: Option<u64>) {
        self.state().free_bytes = bytes;
    }

    /// Simulates a power failure and restart. Files that were open do nothing any more.
    pub fn crash(&self) {
        let state = &mut *self.state();
        state.boot += 1;
        state.faults.clear();
        for directory in state.directories.values_mut() {
            let kept = state.rng.below(directory.undo.len() as u64 + 1) as usize;
            if let Some(names) = directory.undo.drain(..).nth(kept) {
                directory.names = names;
            }
        }
        state.put_back_moves();
        for content in &mut state.files {
            content.lose(&mut state.rng);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    fn file(&self, number: usize, boot: u64) -> Arc<dyn DiskFile> {
        Arc::new(SimulatedFile { disk: self.clone(), number, boot })
    }
}

impl Content {
    /// Keeps a prefix of what was not synced.
    fn lose(&mut self, rng: &mut Rng) {
        let is_append = self.now.starts_with(&self.durable);
        if is_append {
            let synced = self.durable.len();
            let kept = synced as u64 + rng.below((self.now.len() - synced) as u64 + 1);
            self.now.truncate(kept as usize);
            if rng.below(4) == 0 {
                // The length arrived before the bytes.
                let sectors = rng.below(4) * SECTOR_BYTES;
                let from = kept.saturating_sub(sectors).max(synced as u64) as usize;
                self.now[from..].fill(0);
            }
        } else {
            self.now.clone_from(&self.durable);
        }
        self.durable.clone_from(&self.now);
        self.is_broken = false;
    }
}

impl State {
    /// A moved file that left one directory and did not arrive in the other is back in the old one.
    fn put_back_moves(&mut self) {
        for (number, from) in std::mem::take(&mut self.moves) {
            let names = |directory: &Directory| directory.names.values().any(|&n| n == number);
            if !self.directories.values().any(names)
                && let Ok((directory, name)) = self.directory(&from)
            {
                directory.names.insert(name, number);
            }
        }
    }

    /// Whether this operation must fail.
    fn begin(&mut self, act: Act) -> io::Result<()> {
        let due = self.faults.iter_mut().filter(|fault| fault.act == act);
        let mut failed = None;
        for fault in due {
            match fault.after {
                0 => failed = failed.or(Some(fault.kind)),
                _ => fault.after -= 1,
            }
        }
        let Some(kind) = failed else { return Ok(()) };
        let first = self.faults.iter().position(|fault| fault.act == act && fault.after == 0);
        if let Some(first) = first {
            self.faults.remove(first);
        }
        Err(kind.into())
    }

    fn directory(&mut self, path: &Path) -> io::Result<(&mut Directory, String)> {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or(ErrorKind::InvalidInput)?.to_owned();
        let directory = self.directories.get_mut(directory_of(path));
        Ok((directory.ok_or(ErrorKind::NotFound)?, name))
    }

    fn find(&mut self, path: &Path) -> io::Result<usize> {
        let (directory, name) = self.directory(path)?;
        Ok(*directory.names.get(&name).ok_or(ErrorKind::NotFound)?)
    }

    fn append(&mut self, number: usize, bytes: &[u8]) -> io::Result<()> {
        let failed = self.begin(Act::Append);
        let room = self.free_bytes.map_or(bytes.len(), |free| {
            usize::try_from(free).unwrap_or(usize::MAX).min(bytes.len())
        });
        let is_short = failed.is_err() || room < bytes.len();
        let done = if failed.is_err() { self.rng.below(room as u64 + 1) as usize } else { room };
        if let Some(free) = &mut self.free_bytes {
            *free -= done as u64;
        }
        let content = &mut self.files[number];
        content.now.extend_from_slice(&bytes[..done]);
        content.is_broken |= is_short;
        failed?;
        if is_short { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync(&mut self, number: usize) -> io::Result<()> {
        if let Err(error) = self.begin(Act::Sync) {
            self.files[number].is_broken = true;
            return Err(error);
        }
        let content = &mut self.files[number];
        if !content.is_broken {
            content.durable.clone_from(&content.now);
        }
        Ok(())
    }
}

impl Directory {
    fn change(&mut self, change: impl FnOnce(&mut Names)) {
        self.undo.push(self.names.clone());
        change(&mut self.names);
    }
}

impl Disk for SimulatedDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let state = &mut *self.state();
        state.begin(Act::Create)?;
        let number = state.files.len();
        let (directory, name) = state.directory(path)?;
        directory.change(|names| {
            names.insert(name, number);
        });
        state.files.push(Content::default());
        Ok(self.file(number, state.boot))
    }

    fn open_to_append(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        let number = state.find(path)?;
        Ok(self.file(number, state.boot))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        let mut state = self.state();
        let number = state.find(path)?;
        Ok(Box::new(Cursor::new(state.files[number].now.clone())))
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        let mut state = self.state();
        let number = state.find(path)?;
        Ok(state.files[number].now.len() as u64)
    }

    fn truncate(&self, path: &Path, bytes: u64) -> io::Result<()> {
        let mut state = self.state();
        let number = state.find(path)?;
        let content = &mut state.files[number];
        content.now.truncate(usize::try_from(bytes).unwrap_or(usize::MAX));
        state.sync(number)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.begin(Act::Rename)?;
        let number = state.find(from)?;
        if directory_of(from) == directory_of(to) {
            let (_, old) = state.directory(from)?;
            let (directory, new) = state.directory(to)?;
            directory.change(|names| {
                names.remove(&old);
                names.insert(new, number);
            });
            return Ok(());
        }
        let (directory, new) = state.directory(to)?;
        directory.change(|names| {
            names.insert(new, number);
        });
        let (directory, old) = state.directory(from)?;
        directory.change(|names| {
            names.remove(&old);
        });
        state.moves.push((number, from.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.find(path)?;
        let (directory, name) = state.directory(path)?;
        directory.change(|names| {
            names.remove(&name);
        });
        Ok(())
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.state().directories.entry(path.to_owned()).or_default();
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.begin(Act::SyncDirectory)?;
        state.directories.get_mut(path).ok_or(ErrorKind::NotFound)?.undo.clear();
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let state = self.state();
        let directory = state.directories.get(path).ok_or(ErrorKind::NotFound)?;
        Ok(directory.names.keys().cloned().collect())
    }

    /// There is no clock here: all files have the same time.
    fn list_with_times(&self, path: &Path) -> io::Result<Vec<(i64, String)>> {
        Ok(self.list(path)?.into_iter().map(|name| (0, name)).collect())
    }
}

impl SimulatedFile {
    fn with<R>(&self, act: impl FnOnce(&mut State) -> io::Result<R>) -> io::Result<R> {
        let mut state = self.disk.state();
        if state.boot != self.boot {
            return Err(io::Error::other("opened before the crash"));
        }
        act(&mut state)
    }
}

impl DiskFile for SimulatedFile {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.with(|state| state.append(self.number, bytes))
    }

    fn write_over_start(&self, bytes: &[u8]) -> io::Result<()> {
        self.with(|state| {
            let start = state.files[self.number].now.get_mut(..bytes.len());
            start.ok_or(ErrorKind::UnexpectedEof)?.copy_from_slice(bytes);
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.with(|state| state.sync(self.number))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{read_whole, replace};
    use super::*;

    fn at(name: &str) -> PathBuf {
        Path::new("/data").join(name)
    }

    fn disk(seed: u64) -> SimulatedDisk {
        let disk = SimulatedDisk::new(seed);
        disk.create_directory(Path::new("/data")).expect("made");
        disk
    }

    fn read(disk: &SimulatedDisk, name: &str) -> Option<Vec<u8>> {
        read_whole(disk, &at(name), 1 << 20).ok()
    }

    #[test]
    fn a_crash_keeps_what_was_synced_and_may_lose_the_rest() {
        let mut lengths = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let disk = disk(seed);
            let file = disk.create(&at("a")).expect("created");
            file.append(b"kept").expect("appended");
            file.sync().expect("synced");
            disk.sync_directory(Path::new("/data")).expect("synced");
            file.append(b" or not").expect("appended");
            disk.crash();
            let left = read(&disk, "a").expect("its name was synced");
            assert!(left.starts_with(b"kept"), "seed {seed}: {left:?}");
            let tail = &left[4..];
            let is_zeroed = |zeros: usize| {
                let (text, rest) = tail.split_at(tail.len() - zeros);
                b" or not".starts_with(text) && rest.iter().all(|&byte| byte == 0)
            };
            assert!((0..=tail.len()).any(is_zeroed), "seed {seed}: {left:?}");
            lengths.insert(tail.len());
            assert!(file.append(b"x").is_err(), "it was opened before the crash");
        }
        assert_eq!(lengths.len(), 8, "each length happens");
    }

    #[test]
    fn a_name_is_durable_after_its_directory_was_synced() {
        let outcomes: std::collections::BTreeSet<_> = (0..50)
            .map(|seed| {
                let disk = disk(seed);
                replace(&disk, &at("a"), &at("t"), b"old").expect("replaced");
                let file = disk.create(&at("t")).expect("created");
                file.append(b"new").expect("appended");
                file.sync().expect("synced");
                disk.rename(&at("t"), &at("a")).expect("renamed");
                disk.crash();
                (read(&disk, "a"), disk.list(Path::new("/data")).expect("listed").len())
            })
            .collect();
        let (old, new) = (Some(b"old".to_vec()), Some(b"new".to_vec()));
        assert_eq!(
            outcomes.into_iter().collect::<Vec<_>>(),
            [(new, 1), (old.clone(), 1), (old, 2)]
        );
    }

    #[test]
    fn after_a_failed_sync_nothing_more_becomes_durable() {
        let is_lost = |seed| {
            let disk = disk(seed);
            let file = disk.create(&at("a")).expect("created");
            disk.sync_directory(Path::new("/data")).expect("synced");
            file.append(b"abc").expect("appended");
            disk.fail(Act::Sync, 0, ErrorKind::Other);
            assert!(file.sync().is_err());
            file.sync().expect("it says so");
            disk.crash();
            read(&disk, "a") != Some(b"abc".to_vec())
        };
        assert!((0..50).any(is_lost));
    }

    #[test]
    fn a_full_disk_takes_what_fits() {
        let disk = disk(1);
        let file = disk.create(&at("a")).expect("created");
        disk.set_free_bytes(Some(5));
        file.append(b"abc").expect("there is room");
        assert!(crate::disk::is_full(&file.append(b"def").expect_err("there is none")));
        assert_eq!(read(&disk, "a"), Some(b"abcde".to_vec()));
    }

    #[test]
    fn an_act_fails_once_when_it_was_told_to() {
        let disk = disk(1);
        disk.fail(Act::Create, 1, ErrorKind::PermissionDenied);
        disk.create(&at("a")).expect("the first succeeds");
        let error = disk.create(&at("b")).map(drop).expect_err("the second does not");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        disk.create(&at("b")).expect("the third does");
    }

    #[test]
    fn the_same_seed_gives_the_same_crash() {
        let run = |seed| {
            let disk = disk(seed);
            for name in ["a", "b", "c"] {
                let file = disk.create(&at(name)).expect("created");
                file.append(&[7; 3_000]).expect("appended");
            }
            disk.crash();
            ["a", "b", "c"].map(|name| read(&disk, name))
        };
        assert_eq!(run(3), run(3));
        assert!((0..20).any(|seed| run(seed) != run(3)));
    }
}
