//! The ring file: records of acknowledged writes that outlive the process, and the recovery of what
//! a killed process has left there.
//!
//! ```text
//! begin:  create, lock ; every thread that records has areas of it      (pantala_journal::Rings)
//! start:  a file of a dead process for these files --> cut the increment where it was confirmed,
//!         append what the rings have beyond, sync, remove ; then load as usual
//! stop:   remove
//! ```
//!
//! It lies where `journal-ring-dir` says. With `auto` that is /dev/shm, where no store waits for a
//! disk, and none fails with it: a page of a file on a disk that is full, or was made read-only by
//! its kernel, kills who writes to it (SIGBUS). It is of use to the next process on the same
//! machine only: what another boot has left is removed. What is of other files of the same path
//! (containers that share /dev/shm) stays, as long as there is a name to have.
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
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Once};
use std::time::UNIX_EPOCH;

use pantala_base::simd::ahead::prefetch_to_write;
use pantala_journal::resp::command_bytes;
use pantala_journal::{
    AREA_WORDS, Area, AreaMemory, AreaSource, HEAD_WORDS, Identity, MOST_AREAS, RingRemains, Rings,
    Unread,
};
use pantala_memory::{SharedWords, is_in_memory, release_words};
use pantala_persistence::aof::{AofLayout, Manifest, Part};
use pantala_persistence::disk::{RealDisk, replace};
use pantala_settings::Settings;

/// The directory with `auto`, if it exists.
const MEMORY_DIR: &str = "/dev/shm";
/// How many processes may have append-only files of the same path, in containers that share memory.
const MOST_NAMES: u32 = 8;
/// The most bytes of a ring file.
const MOST_BYTES: usize = (HEAD_WORDS + MOST_AREAS * AREA_WORDS) * size_of::<u64>();
const _: () =
    assert!((HEAD_WORDS * size_of::<u64>()).is_multiple_of(4096), "it is mapped in pages");
const _: () =
    assert!((AREA_WORDS * size_of::<u64>()).is_multiple_of(4096), "it is mapped in pages");

/// The most words behind stored ones whose cache lines are fetched ahead.
const MOST_PREPARED_WORDS: usize = 64;

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
    pub fn create(settings: &Settings, layout: &AofLayout) -> Result<Option<RingFile>, String> {
        let Some(directory) = directory(settings) else { return Ok(None) };
        let identity = identity(layout).map_err(|error| error.to_string())?;
        for (number, is_last_try) in names() {
            let path = directory.join(name(layout, number));
            if let Some(file) = open_dead(&path) {
                let of_others = || matches!(read(&file, &identity), Ok(Err(Unread::Others)));
                if is_last_try || !of_others() {
                    // Its records were recovered, or are not wanted.
                    let _removed = std::fs::remove_file(&path);
                }
                drop(file);
            }
            let told = |error| format!("{}: {error}", path.display());
            match create_locked(&path) {
                Ok(file) => {
                    let ring_file = RingFile { path, file: Arc::new(file), identity };
                    return ring_file.in_memory_if(settings.journal_ring_dir == "auto").map(Some);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(told(error)),
            }
        }
        Err(format!("{}: too many processes have one of this name", directory.display()))
    }

    /// Itself, if it lies in memory, or need not.
    fn in_memory_if(self, must: bool) -> Result<RingFile, String> {
        match !must || is_in_memory(&self.file).is_ok_and(|is_so| is_so) {
            true => Ok(self),
            false => Err(format!("{MEMORY_DIR} is no file system in memory")),
        }
    }

    /// The rings in the file, for the journal.
    ///
    /// # Errors
    /// There is no room.
    pub fn rings(&self) -> io::Result<Rings> {
        let head: Area = Box::new(FileWords(SharedWords::map(&self.file, 0, HEAD_WORDS)?));
        let (file, path) = (Arc::clone(&self.file), self.path.clone());
        let areas = FileAreas { file, path, is_told: Once::new() };
        Ok(Rings::new(head, self.identity, Box::new(areas)))
    }

    /// Leaves the file to the next start: the append-only file lacks something.
    pub fn leave(self) {
        std::mem::forget(self);
    }
}

/// Words of a ring file.
struct FileWords(SharedWords);

impl AsRef<[AtomicU64]> for FileWords {
    fn as_ref(&self) -> &[AtomicU64] {
        &self.0
    }
}

impl AreaMemory for FileWords {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0.put(at, bytes);
        // Most often as much follows.
        let count = bytes.len().div_ceil(8);
        let next = &self.0[at + count..];
        prefetch_to_write(&next[..count.min(MOST_PREPARED_WORDS).min(next.len())]);
    }
}

/// The areas of a ring file, behind its head.
struct FileAreas {
    file: Arc<File>,
    path: PathBuf,
    /// A line in the log says that there was no room.
    is_told: Once,
}

impl FileAreas {
    fn offset(number: usize) -> u64 {
        debug_assert!(number < MOST_AREAS, "there are no more areas");
        ((HEAD_WORDS + number * AREA_WORDS) * size_of::<u64>()) as u64
    }
}

impl AreaSource for FileAreas {
    fn place(&self, number: usize) -> Option<Area> {
        match SharedWords::map(&self.file, FileAreas::offset(number), AREA_WORDS) {
            Ok(words) => Some(Box::new(FileWords(words))),
            Err(error) => {
                self.is_told.call_once(|| {
                    tracing::warn!(
                        "{}: no room for more rings: {error}; writes that are acknowledged and not \
                         in the append-only file yet may be lost if the process is killed",
                        self.path.display()
                    );
                });
                None
            }
        }
    }

    fn release(&self, number: usize) {
        // A file system that cannot keeps the memory until the file is removed.
        let _kept = release_words(&self.file, FileAreas::offset(number), AREA_WORDS);
    }
}

impl Drop for RingFile {
    fn drop(&mut self) {
        // If it stays, the next start finds that everything in it was confirmed.
        let _removed = std::fs::remove_file(&self.path);
    }
}

/// The directory of ring files, by the settings; `None`: no ring file is wanted.
pub fn directory(settings: &Settings) -> Option<PathBuf> {
    match settings.journal_ring_dir.as_str() {
        "" => None,
        "auto" => Some(MEMORY_DIR.into()),
        named => Some(named.into()),
    }
}

/// The numbers of names, twice: first those that nobody else's file has.
fn names() -> impl Iterator<Item = (u32, bool)> {
    let tries = |is_last: bool| (0..MOST_NAMES).map(move |number| (number, is_last));
    tries(false).chain(tries(true))
}

/// The name of a ring file for these append-only files.
fn name(layout: &AofLayout, number: u32) -> String {
    let path = layout.manifest_path();
    let path = std::path::absolute(&path).unwrap_or(path);
    // FNV-1a; the identity inside the file is what decides.
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = path.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step);
    format!("pantala-{hash:016x}-{number}.rings")
}

/// Which boot of which machine, and which directory of append-only files: one that is made anew may
/// have the number of the one before, but not its birthday.
fn identity(layout: &AofLayout) -> io::Result<Identity> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits: String = boot.chars().filter(char::is_ascii_hexdigit).collect();
    let boot = u128::from_str_radix(&digits, 16).map_err(io::Error::other)?;
    let at = std::fs::metadata(layout.directory())?;
    let born = at.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    let born = born.map_or(0, |since| since.as_nanos() as u64);
    Ok([(boot >> 64) as u64, boot as u64, at.dev() ^ born.rotate_left(32), at.ino()])
}

fn create_locked(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(path)?;
    // Somebody may have taken it for a dead one meanwhile, and be about to remove it.
    let is_ours = file.try_lock().is_ok() && is_at(&file, path);
    is_ours.then_some(file).ok_or_else(|| io::ErrorKind::AlreadyExists.into())
}

/// Whether a file is still what this path names.
fn is_at(file: &File, path: &Path) -> bool {
    let place = |found: io::Result<std::fs::Metadata>| found.ok().map(|at| (at.dev(), at.ino()));
    place(file.metadata()).is_some_and(|at| place(std::fs::symlink_metadata(path)) == Some(at))
}

/// Opens and locks what a dead process of this user has left; `None` if there is nothing.
fn open_dead(path: &Path) -> Option<File> {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = match options.open(path) {
        Ok(file) => file,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!("{}: not used: {error}", path.display());
            }
            return None;
        }
    };
    let (found, own) = (file.metadata().ok()?, std::fs::metadata("/proc/self").ok()?);
    let is_ours = found.is_file() && found.uid() == own.uid() && found.mode() & 0o077 == 0;
    if !is_ours {
        tracing::warn!(
            "{}: not used: this user does not own it, or others may open it",
            path.display()
        );
        return None;
    }
    // The lock, then the look: whoever removes a file has its lock.
    (file.try_lock().is_ok() && is_at(&file, path)).then_some(file)
}

/// What a file of rings has.
fn read(file: &File, identity: &Identity) -> io::Result<Result<RingRemains, Unread>> {
    let (mut file, mut bytes) = (file, Vec::new());
    file.seek(SeekFrom::Start(0))?;
    file.take(MOST_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(RingRemains::read(&bytes, identity))
}

/// Adds to the last increment what a dead process had acknowledged and not written.
///
/// # Errors
/// A text for the operator: it was not added, and may be at the next start.
pub fn take_over(
    settings: &Settings,
    layout: &AofLayout,
    manifest: &Manifest,
) -> Result<(), String> {
    let Some(directory) = directory(settings) else { return Ok(()) };
    let Ok(identity) = identity(layout) else { return Ok(()) };
    for number in 0..MOST_NAMES {
        let path = directory.join(name(layout, number));
        let Some(file) = open_dead(&path) else { continue };
        let told = |error: io::Error| format!("{}: {error}", path.display());
        match read(&file, &identity).map_err(told)? {
            Ok(remains) => {
                let added = add(layout, manifest, &remains);
                let fits = added
                    .map_err(|error| format!("cannot take over {}: {error}", path.display()))?;
                if !fits {
                    tracing::warn!(
                        "what a killed process left does not fit its append-only file: ignored"
                    );
                }
            }
            Err(Unread::Nothing) => {}
            Err(Unread::Others) => continue,
            Err(Unread::Damaged) => {
                tracing::warn!("{}: not used: it is damaged", path.display());
            }
        }
        std::fs::remove_file(&path).map_err(told)?;
    }
    Ok(())
}

/// Whether it fits these files.
fn add(layout: &AofLayout, manifest: &Manifest, remains: &RingRemains) -> io::Result<bool> {
    let Some(place) = place(layout, manifest, remains)? else { return Ok(false) };
    let (path, commands) = (layout.path(&place.part.name), &remains.commands);
    let mut file = File::options().read(true).write(true).open(&path)?;
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(place.keep))?;
    (&file).take(MOST_BYTES as u64).read_to_end(&mut tail)?;
    if remains.is_cut {
        tracing::warn!(
            "{}: a killed process had acknowledged writes for which its rings had no room: some of \
             them may be lost",
            path.display()
        );
    }
    if place.is_new && !tail.is_empty() {
        // This start has been killed before, when it was about to remove the rings.
        return Ok(tail.starts_with(commands));
    }
    // If the file has more than the rings, another process may have gone on with it.
    if commands.is_empty() || !begins_with(commands, &tail) {
        return Ok(true);
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
    tracing::info!("{path}: added {added} bytes at {at} from the rings of a killed process");
    Ok(true)
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
    /// A rewrite had begun it, and had nothing written to it.
    is_new: bool,
}

fn place<'m>(
    layout: &AofLayout,
    manifest: &'m Manifest,
    remains: &RingRemains,
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
    let is_next = before.seq == confirmed.increment && size(before)? == confirmed.bytes;
    Ok(is_next.then_some(Added { part, keep: 0, is_new: true }))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use pantala_journal::{ConfirmedBytes, Journal, Recorder, Stamp};

    use super::*;

    const A: &[u8] = b"*1\r\n$1\r\na\r\n";
    const ZERO: &[u8] = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n";

    /// Append-only files with these increments, and a directory for rings.
    struct Place {
        above: PathBuf,
        layout: AofLayout,
        settings: Settings,
        manifest: Manifest,
    }

    impl Place {
        fn new(name: &str, increments: &[(u64, &[u8])]) -> Place {
            let above = std::env::temp_dir().join(format!("rings-{name}-{}", std::process::id()));
            let layout = AofLayout::new(&above, "appendonlydir", "appendonly.aof");
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
            rings.confirm(ConfirmedBytes { increment, bytes, upto: Stamp::first_of(1) });
            recorder.record(0, &[b"a"]);
            recorder.end_step(Stamp::first_of(5));
            recorder.hand_over();
            let path = file.path.clone();
            let left = fs::read(&path).expect("a file");
            drop(file);
            assert!(!path.exists(), "whoever ends by itself removes it");
            leave(&path, &left);
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
            leave(&file, &left);
            take_over(&self.settings, &self.layout, &self.manifest).expect("taken over");
            assert_eq!(fs::read(&path).expect("a file"), first, "killed before it was removed");
            first
        }
    }

    /// As a process does that is killed.
    fn leave(path: &Path, bytes: &[u8]) {
        let _before = fs::remove_file(path);
        create_locked(path).and_then(|mut file| file.write_all(bytes)).expect("a file");
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
        let left = fs::read(place.above.join(name(&place.layout, 0))).expect("a file");
        assert_eq!(place.started(), [ZERO, A].concat());
        let identity = identity(&place.layout).expect("a directory");
        let remains = RingRemains::read(&left, &identity).expect("it is good");
        let fits = || add(&place.layout, &place.manifest, &remains).expect("added");
        assert!(fits(), "a start that was killed after it had added them begins again");
        let last = place.layout.path(&place.manifest.increments[1].name);
        fs::write(&last, [A, A, A].concat()).expect("written");
        assert!(!fits(), "others have begun it");
        assert_eq!(fs::read(&last).expect("a file"), [A, A, A].concat());
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
    fn what_is_of_other_files_of_this_path_stays_while_there_are_names() {
        let place = Place::new("others", &[(2, b"confirmed")]);
        let create = || RingFile::create(&place.settings, &place.layout);
        place.kill(2, 9);
        let path = place.above.join(name(&place.layout, 0));
        let mut left = fs::read(&path).expect("a file");
        left[8 * 5] ^= 1; // The directory's number.
        leave(&path, &left);
        take_over(&place.settings, &place.layout, &place.manifest).expect("nothing to do");
        let own = create().expect("a place").expect("wanted");
        assert!(path.exists() && own.path != path);
        // Of another run of the machine.
        let mut old = left.clone();
        old[8 * 2] ^= 1;
        leave(&path, &old);
        take_over(&place.settings, &place.layout, &place.manifest).expect("nothing to do");
        assert!(!path.exists());
        // When there is no other name, one of them goes.
        drop(own);
        for number in 0..MOST_NAMES {
            leave(&place.above.join(name(&place.layout, number)), &left);
        }
        let own = create().expect("a place").expect("wanted");
        assert_eq!(own.path, path);
    }

    #[test]
    fn what_is_damaged_or_open_to_others_is_not_used() {
        let place = Place::new("damaged", &[(2, b"confirmed")]);
        place.kill(2, 9);
        let path = place.above.join(name(&place.layout, 0));
        let left = fs::read(&path).expect("a file");
        let mut damaged = left.clone();
        // The first thread's first entry is of another thread.
        damaged[8 * (HEAD_WORDS + 8)] ^= 1;
        leave(&path, &damaged);
        assert_eq!(place.started(), b"confirmed");
        place.kill(2, 9);
        let open = fs::Permissions::from_mode(0o622);
        fs::set_permissions(&path, open).expect("it is ours");
        take_over(&place.settings, &place.layout, &place.manifest).expect("not ours");
        let last = place.layout.path(&place.manifest.increments[0].name);
        assert_eq!(fs::read(last).expect("a file"), b"confirmed");
        assert!(path.exists());
    }

    #[test]
    fn where_the_memory_is_a_disk_there_are_none_by_themselves() {
        let mut place = Place::new("disk", &[(2, b"")]);
        let create = |settings: &Settings| RingFile::create(settings, &place.layout);
        let named = create(&place.settings).expect("a place").expect("wanted");
        let on_disk = !is_in_memory(&named.file).expect("a file");
        let path = named.path.clone();
        assert_eq!(named.in_memory_if(true).is_err(), on_disk);
        assert!(!path.exists());
        place.settings.journal_ring_dir = String::new();
        assert!(RingFile::create(&place.settings, &place.layout).expect("fine").is_none());
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
