//! The ring file: records of acknowledged writes that outlive the process, and the recovery of what
//! a killed process has left there.
//!
//! ```text
//! begin:  create, lock ; every thread that records has a ring           (pantala_journal::Rings)
//! start:  a file of a dead process for these files --> cut the increment where it was confirmed,
//!         append what the rings have beyond, sync, remove ; then load as usual
//! stop:   remove
//! ```
//!
//! It is in `journal-ring-dir`; with `auto` in a file system in memory, if there is one, so that no
//! write waits for a disk. It is useful to the next process on the same machine only: after another
//! boot, or for other append-only files of the same name, it is removed.
//!
//! Invariants
//! 1. The file of a living process is never touched: each process holds a lock on its own.
//! 2. Recovery may be interrupted at any moment and begins again at the next start: the increment
//!    is first cut to what was confirmed, and the ring file is removed last.
//! 3. Nothing is cut from the increment but an incomplete command, and what is written again. So
//!    what another process has appended there since stays.
//! 4. Nothing depends on it: without one the journal is as safe as the append-only file.
//!
//! Not here: what is in the rings (`pantala_journal::rings`). Tests: at the foot;
//! compat/bad_days/scenarios/append_only_kills.py.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pantala_journal::resp::command_bytes;
use pantala_journal::{Area, HEAD_WORDS, Identity, MOST_RINGS, RING_WORDS, Remains, Rings};
use pantala_memory::SharedWords;
use pantala_persistence::aof::{Layout, Manifest, Part};
use pantala_persistence::disk::{RealDisk, replace};
use pantala_settings::Settings;

/// The directory with `auto`, if it exists.
const MEMORY_DIR: &str = "/dev/shm";
/// How many processes may have append-only files of the same path, in containers that share memory.
const MOST_NAMES: u32 = 8;
/// The most bytes of a ring file.
const MOST_BYTES: usize = (HEAD_WORDS + MOST_RINGS * RING_WORDS) * size_of::<u64>();

/// The beginning of a command that selects a database.
const SELECT: &[u8] = b"*2\r\n$6\r\nSELECT\r\n";

/// The ring file of this process. Removed when this is dropped.
pub(super) struct RingFile {
    path: PathBuf,
    /// Holds the lock.
    file: Arc<File>,
    identity: Identity,
}

impl RingFile {
    /// Creates the ring file for these append-only files; `None` if the settings want none.
    ///
    /// # Errors
    /// A text for the log.
    pub fn create(settings: &Settings, layout: &Layout) -> Result<Option<RingFile>, String> {
        let Some(directory) = directory(settings, layout) else { return Ok(None) };
        let identity = identity(layout).map_err(|error| error.to_string())?;
        for number in 0..MOST_NAMES {
            let path = directory.join(name(layout, number));
            if let Some(file) = open_dead(&path) {
                // The records a dead process has left were recovered, or are not wanted.
                let _removed = std::fs::remove_file(&path);
                drop(file);
            }
            let told = |error| format!("{}: {error}", path.display());
            match create_locked(&path) {
                Ok(file) => return Ok(Some(RingFile { path, file: Arc::new(file), identity })),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(told(error)),
            }
        }
        Err(format!("{}: too many processes have one of this name", directory.display()))
    }

    /// The rings in the file, for the journal.
    ///
    /// # Errors
    /// There is no room.
    pub fn rings(&self) -> io::Result<Rings> {
        let head: Area = Box::new(SharedWords::map(&self.file, 0, HEAD_WORDS)?);
        let (file, path) = (Arc::clone(&self.file), self.path.clone());
        let place = move |number: usize| -> Option<Area> {
            let begin = (HEAD_WORDS + number * RING_WORDS) * size_of::<u64>();
            match SharedWords::map(&file, begin as u64, RING_WORDS) {
                Ok(words) => Some(Box::new(words)),
                Err(error) => {
                    tracing::warn!(
                        "{}: no ring for one more thread: {error}; what it records may be lost \
                         when the process dies",
                        path.display()
                    );
                    None
                }
            }
        };
        Ok(Rings::new(head, self.identity, Box::new(place)))
    }

    /// Leaves the file to the next start: the append-only file lacks something.
    pub fn leave(self) {
        std::mem::forget(self);
    }
}

impl Drop for RingFile {
    fn drop(&mut self) {
        // If it stays, the next start finds that everything in it was confirmed.
        let _removed = std::fs::remove_file(&self.path);
    }
}

/// The directory of ring files, by the settings; `None`: no ring file is wanted.
fn directory(settings: &Settings, layout: &Layout) -> Option<PathBuf> {
    match settings.journal_ring_dir.as_str() {
        "" => None,
        "auto" if !settings.landlock && Path::new(MEMORY_DIR).is_dir() => Some(MEMORY_DIR.into()),
        "auto" => Some(layout.directory().into()),
        named => Some(named.into()),
    }
}

/// The name of a ring file for these append-only files.
fn name(layout: &Layout, number: u32) -> String {
    let path = layout.manifest_path();
    let path = std::path::absolute(&path).unwrap_or(path);
    // FNV-1a; the identity inside the file is what decides.
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = path.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step);
    format!("pantala-{hash:016x}-{number}.rings")
}

/// The identity of this boot of this machine, and of the directory of append-only files.
fn identity(layout: &Layout) -> io::Result<Identity> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits: String = boot.chars().filter(char::is_ascii_hexdigit).collect();
    let boot = u128::from_str_radix(&digits, 16).map_err(io::Error::other)?;
    let at = std::fs::metadata(layout.directory())?;
    Ok([(boot >> 64) as u64, boot as u64, at.dev(), at.ino()])
}

fn create_locked(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(path)?;
    file.try_lock().map_err(io::Error::from)?;
    Ok(file)
}

/// Opens and locks what a dead process of this user has left; `None` if there is nothing.
fn open_dead(path: &Path) -> Option<File> {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(path).ok()?;
    let (found, own) = (file.metadata().ok()?, std::fs::metadata("/proc/self").ok()?);
    let is_ours = found.is_file() && found.uid() == own.uid();
    (is_ours && file.try_lock().is_ok()).then_some(file)
}

/// Adds to the last increment what a dead process had acknowledged and not written.
///
/// # Errors
/// A text for the operator: it was not added, and may be at the next start.
pub fn take_over(settings: &Settings, layout: &Layout, manifest: &Manifest) -> Result<(), String> {
    let Some(directory) = directory(settings, layout) else { return Ok(()) };
    let Ok(identity) = identity(layout) else { return Ok(()) };
    for number in 0..MOST_NAMES {
        let path = directory.join(name(layout, number));
        let Some(file) = open_dead(&path) else { continue };
        let mut bytes = Vec::new();
        let read = (&file).take(MOST_BYTES as u64).read_to_end(&mut bytes);
        let told = |error: io::Error| format!("{}: {error}", path.display());
        read.map_err(told)?;
        if let Some(remains) = Remains::read(&bytes, &identity) {
            let added = add(layout, manifest, &remains);
            added.map_err(|error| format!("cannot take over {}: {error}", path.display()))?;
        }
        std::fs::remove_file(&path).map_err(told)?;
    }
    Ok(())
}

fn add(layout: &Layout, manifest: &Manifest, remains: &Remains) -> io::Result<()> {
    let Some(place) = place(layout, manifest, remains)? else {
        tracing::warn!("what a killed process has left does not fit its append-only file: unused");
        return Ok(());
    };
    let (path, commands) = (layout.path(&place.part.name), &remains.commands);
    let mut file = File::options().read(true).write(true).open(&path)?;
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(place.keep))?;
    (&file).take(MOST_BYTES as u64).read_to_end(&mut tail)?;
    // If the file has more than the rings, another process may have gone on with it.
    if commands.is_empty() || !begins_with(commands, &tail) {
        return Ok(());
    }
    if place.is_new {
        // Atomically: a non-empty increment is not taken for a new one.
        replace(&RealDisk, &path, &layout.temporary_path(place.part), commands)?;
    } else {
        file.set_len(place.keep)?;
        file.seek(SeekFrom::Start(place.keep))?;
        file.write_all(commands)?;
        file.sync_all()?;
    }
    let (path, at, added) = (path.display(), place.keep, commands.len());
    tracing::info!("{path}: added {added} bytes at {at} that a killed process had not written");
    if remains.is_cut {
        tracing::warn!("{path}: there was more, for which its rings had no room: it is lost");
    }
    Ok(())
}

/// Whether `written` is a beginning of `commands`, except for an incomplete last command, for
/// SELECT, which depends on what was before, and for annotations.
fn begins_with(mut commands: &[u8], mut written: &[u8]) -> bool {
    loop {
        if written.first() == Some(&b'#') {
            let Some(end) = written.windows(2).position(|two| two == b"\r\n") else { return true };
            written = &written[end + 2..];
            continue;
        }
        let Some(found) = next_command(&mut written) else {
            return written.first().is_none_or(|first| *first == b'*');
        };
        if found.starts_with(SELECT) {
            continue;
        }
        let wanted = loop {
            match next_command(&mut commands) {
                Some(command) if command.starts_with(SELECT) => {}
                other => break other,
            }
        };
        if wanted != Some(found) {
            return false;
        }
    }
}

/// Takes a complete command.
fn next_command<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (command, rest) = bytes.split_at_checked(command_bytes(bytes)?)?;
    *bytes = rest;
    Some(command)
}

/// The increment to which something is added.
struct Added<'m> {
    part: &'m Part,
    /// How many of its bytes stay.
    keep: u64,
    /// A rewrite had begun it, and it was still empty.
    is_new: bool,
}

fn place<'m>(
    layout: &Layout,
    manifest: &'m Manifest,
    remains: &Remains,
) -> io::Result<Option<Added<'m>>> {
    let confirmed = remains.confirmed;
    let size = |part: &Part| std::fs::metadata(layout.path(&part.name)).map(|found| found.len());
    let [.., part] = &manifest.increments[..] else { return Ok(None) };
    let bytes = size(part)?;
    if part.seq == confirmed.increment {
        let added = Added { part, keep: confirmed.bytes, is_new: false };
        return Ok((bytes >= confirmed.bytes).then_some(added));
    }
    let [.., before, _] = &manifest.increments[..] else { return Ok(None) };
    let is_cut = bytes == 0 && before.seq == confirmed.increment;
    let is_next = is_cut && size(before)? == confirmed.bytes;
    Ok(is_next.then_some(Added { part, keep: 0, is_new: true }))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use pantala_journal::{Confirmed, Journal, Recorder, Stamp};

    use super::*;

    const A: &[u8] = b"*1\r\n$1\r\na\r\n";
    const ZERO: &[u8] = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n";

    /// Append-only files with these increments, and a directory for rings.
    struct Place {
        above: PathBuf,
        layout: Layout,
        settings: Settings,
        manifest: Manifest,
    }

    impl Place {
        fn new(name: &str, increments: &[(u64, &[u8])]) -> Place {
            let above = std::env::temp_dir().join(format!("rings-{name}-{}", std::process::id()));
            let layout = Layout::new(&above, "appendonlydir", "appendonly.aof");
            fs::create_dir_all(layout.directory()).expect("a directory");
            let mut settings = Settings::defaults();
            settings.journal_ring_dir = above.to_string_lossy().into_owned();
            let mut manifest = Manifest::default();
            for (seq, bytes) in increments {
                let part = layout.increment(*seq);
                fs::write(layout.path(&part.name), bytes).expect("a file");
                manifest.increments.push(part);
            }
            Place { above, layout, settings, manifest }
        }

        /// A process confirms so much of an increment, then records a command, and is killed.
        fn kill(&self, increment: u64, bytes: u64) {
            let file = RingFile::create(&self.settings, &self.layout).expect("a place");
            let file = file.expect("it is wanted");
            let (rings, journal) =
                (Arc::new(file.rings().expect("room")), Arc::<Journal>::default());
            journal.keep_in(Some(Arc::clone(&rings)));
            let recorder: Recorder = journal.join();
            rings.confirm(Confirmed { increment, bytes, upto: Stamp::first_of(1) });
            recorder.record(0, &[b"a"]);
            recorder.end_step(Stamp::first_of(5));
            recorder.hand_over();
            let path = file.path.clone();
            let left = fs::read(&path).expect("a file");
            drop(file);
            assert!(!path.exists(), "whoever ends by itself removes it");
            fs::write(path, left).expect("a file");
        }

        /// The last increment after the next start, which begins twice.
        fn started(&self) -> Vec<u8> {
            let file = self.above.join(name(&self.layout, 0));
            let left = fs::read(&file).expect("a file");
            take_over(&self.settings, &self.layout, &self.manifest).expect("taken over");
            assert!(!file.exists());
            let last = self.manifest.increments.last().expect("there is one");
            let path = self.layout.path(&last.name);
            let first = fs::read(&path).expect("a file");
            fs::write(&file, left).expect("a file");
            take_over(&self.settings, &self.layout, &self.manifest).expect("taken over");
            assert_eq!(fs::read(&path).expect("a file"), first, "killed before it was removed");
            first
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _removed = fs::remove_dir_all(&self.above);
        }
    }

    #[test]
    fn what_was_written_in_part_is_written_whole() {
        let place = Place::new("part", &[(1, b"old"), (2, b"confirmed*1\r\n$1")]);
        place.kill(2, 9);
        assert_eq!(place.started(), [b"confirmed", ZERO, A].concat());
        let all = [b"confirmed#TS:1\r\n", ZERO, A].concat();
        let place = Place::new("all", &[(2, &all)]);
        place.kill(2, 9);
        assert_eq!(place.started(), [b"confirmed", ZERO, A].concat());
    }

    #[test]
    fn what_others_have_appended_since_stays() {
        let more = [b"confirmed", A, A].concat();
        let other = b"confirmed*1\r\n$1\r\nb\r\n";
        for (name, all) in [("more", &more[..]), ("other", other)] {
            let place = Place::new(name, &[(2, all)]);
            place.kill(2, 9);
            assert_eq!(place.started(), all, "{name}");
        }
    }

    #[test]
    fn what_was_recorded_after_a_cut_goes_to_the_new_increment() {
        let place = Place::new("cut", &[(1, b"confirmed"), (2, b"")]);
        place.kill(1, 9);
        assert_eq!(place.started(), [ZERO, A].concat());
    }

    #[test]
    fn what_does_not_fit_is_not_used() {
        for (name, increments) in [
            ("short", &[(2, &b"conf"[..])][..]),
            ("later", &[(4, b"confirmed")]),
            ("begun", &[(2, b"confirmed"), (3, b"more")]),
            ("longer", &[(2, b"confirmed and more"), (3, b"")]),
        ] {
            let place = Place::new(name, increments);
            place.kill(2, 9);
            assert_eq!(place.started(), increments.last().expect("one").1, "{name}");
        }
    }

    #[test]
    fn a_living_one_is_not_touched() {
        let place = Place::new("living", &[(1, b"")]);
        let create = || RingFile::create(&place.settings, &place.layout).expect("a place");
        let (living, other) = (create().expect("wanted"), create().expect("wanted"));
        assert_ne!(living.path, other.path);
        take_over(&place.settings, &place.layout, &place.manifest).expect("nothing to do");
        assert!(living.path.exists() && other.path.exists());
        let mode = fs::metadata(&living.path).expect("a file").mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
