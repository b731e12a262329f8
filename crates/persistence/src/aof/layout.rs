//! The directory, the file names and the manifest of an append-only file.
//!
//! ```text
//! dir / appenddirname / appendfilename.manifest
//!                       appendfilename.lengths            what else is known of the files it names
//!                       appendfilename.SEQ.base.rdb (or .aof)
//!                       appendfilename.SEQ.incr.aof
//!                       temp-appendfilename...              not whole yet; removed at the start
//! dir / appendfilename                                      what Redis before 7 left
//! ```
//!
//! Invariants
//! 1. Every base or increment that a manifest on disk names exists durably. One exception: the file
//!    of an old server, whose move the next start completes.
//! 2. The manifest is replaced atomically: after a crash it is the old one or the new one. The file
//!    of lengths is replaced when that is durable; without it all files load, but less is noticed.
//!
//! Not here: the content of the files (`reader`, `writer`). Tests: at the foot.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use pantala_base::sha1;

use super::lengths::{self, Doubt};
use super::manifest::{Gap, HEAD_BYTES, MAX_BYTES, Manifest, ManifestError, Part};
use crate::disk::{Disk, read_whole, replace};

/// The prefix of a file name until the file is complete.
const TEMPORARY: &str = "temp-";

/// The directory, the file names and the manifest of an append-only file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AofLayout {
    /// `dir`.
    above: PathBuf,
    /// `dir/appenddirname`.
    directory: PathBuf,
    /// `appendfilename`.
    name: String,
}

/// The form of a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseKind {
    /// An RDB snapshot.
    Rdb,
    /// Commands.
    Commands,
}

/// Why the manifest could not be read or written.
#[derive(Debug)]
pub enum LayoutError {
    /// The operating system reports an error.
    Disk(PathBuf, io::Error),
    /// The manifest is invalid.
    Manifest(PathBuf, ManifestError),
    /// The manifest names a file that does not exist.
    Missing(PathBuf),
    /// The manifest lacks a file that belongs to the named ones; the file of lengths, if any.
    Gap(PathBuf, Gap, Option<PathBuf>),
    /// A file has the first number of bytes, but had the second when it was closed; the file of
    /// lengths, if any.
    Short(PathBuf, u64, u64, Option<PathBuf>),
    /// There is no manifest, but this file, which a manifest must have named.
    Orphan(PathBuf),
}

impl fmt::Display for LayoutError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutError::Disk(path, error) => write!(out, "{}: {error}", path.display()),
            LayoutError::Manifest(path, error) => {
                write!(out, "*** FATAL AOF MANIFEST FILE ERROR *** {}: {error}", path.display())
            }
            LayoutError::Missing(path) => write!(
                out,
                "Unable to obtain the AOF file {} length. stat: No such file or directory: \
                 the manifest names it",
                path.display()
            ),
            LayoutError::Gap(path, gap, source) => write!(
                out,
                "{}: the manifest does not name {gap}: a line is lost{}",
                path.display(),
                Source(source.as_deref())
            ),
            LayoutError::Short(path, bytes, closed, source) => write!(
                out,
                "{}: the file has {bytes} bytes, and had {closed} when the one after it was begun: \
                 its end is lost{}",
                path.display(),
                Source(source.as_deref())
            ),
            LayoutError::Orphan(path) => write!(
                out,
                "{}: this file has data, but the manifest that should name it is missing; put the \
                 manifest back, or move the file away to begin without it",
                path.display()
            ),
        }
    }
}

impl std::error::Error for LayoutError {}

/// The end of a message: the file of lengths that says so, and what can be done.
struct Source<'s>(Option<&'s Path>);

impl fmt::Display for Source<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(path) = self.0 else { return Ok(()) };
        write!(out, " ({} says so; without that file, what is there is loaded)", path.display())
    }
}

impl AofLayout {
    /// A layout from the settings of the same names.
    pub fn new(dir: &Path, appenddirname: &str, appendfilename: &str) -> Self {
        AofLayout {
            above: dir.to_owned(),
            directory: dir.join(appenddirname),
            name: appendfilename.to_owned(),
        }
    }

    /// The directory of all its files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The path of the manifest.
    pub fn manifest_path(&self) -> PathBuf {
        self.path(&format!("{}.manifest", self.name))
    }

    /// The path of the file of lengths.
    pub fn lengths_path(&self) -> PathBuf {
        self.path(&format!("{}.lengths", self.name))
    }

    /// The path of a file in its directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The base with this number.
    pub fn base(&self, seq: u64, kind: BaseKind) -> Part {
        let ending = match kind {
            BaseKind::Rdb => "rdb",
            BaseKind::Commands => "aof",
        };
        Part::new(format!("{}.{seq}.base.{ending}", self.name), seq)
    }

    /// The increment with this number.
    pub fn increment(&self, seq: u64) -> Part {
        Part::new(format!("{}.{seq}.incr.aof", self.name), seq)
    }

    /// The path of a file until it is complete.
    pub fn temporary_path(&self, part: &Part) -> PathBuf {
        self.path(&format!("{TEMPORARY}{}", part.name))
    }

    /// A path for a file that is not a part yet: the next start removes files left there.
    pub fn temporary(&self, what: &str) -> PathBuf {
        self.path(&format!("{TEMPORARY}{}.{what}", self.name))
    }

    /// Takes over the file of a server before Redis 7, which is about to be loaded: where no
    /// manifest names a file, that single file becomes the base and moves into the directory.
    /// Returns whether there was one.
    ///
    /// # Errors
    /// See [`AofLayout::open`].
    pub fn take_in_old(&self, disk: &dyn Disk) -> Result<bool, LayoutError> {
        let old = self.above.join(&self.name);
        if self.read_named(disk)?.is_some() || !is_there(disk, &old)? {
            return Ok(false);
        }
        let manifest = Manifest { base: Some(Part::new(&*self.name, 1)), ..Manifest::default() };
        self.make_directory(disk)?;
        self.store(disk, &manifest)?;
        self.move_in(disk, &old, &manifest)?;
        Ok(true)
    }

    /// The manifest; `None` if none has ever named a file. Completes a move that
    /// [`AofLayout::take_in_old`] has begun.
    ///
    /// # Errors
    /// See [`LayoutError`]. A missing file that the manifest names is an error, and so are files
    /// with data and no manifest: they would be overwritten.
    pub fn open(&self, disk: &dyn Disk) -> Result<Option<Manifest>, LayoutError> {
        let Some(manifest) = self.read_named(disk)? else { return Ok(None) };
        self.move_in(disk, &self.above.join(&self.name), &manifest)?;
        for part in manifest.parts() {
            let path = self.path(&part.name);
            if !is_there(disk, &path)? {
                return Err(LayoutError::Missing(path));
            }
        }
        Ok(Some(manifest))
    }

    /// The manifest, if it names a file.
    fn read_named(&self, disk: &dyn Disk) -> Result<Option<Manifest>, LayoutError> {
        match self.read(disk)? {
            None if let Some(orphan) = self.find_orphan(disk)? => Err(LayoutError::Orphan(orphan)),
            found => Ok(found.filter(|manifest| *manifest != Manifest::default())),
        }
    }

    /// A file with data and a name as a manifest would give it.
    fn find_orphan(&self, disk: &dyn Disk) -> Result<Option<PathBuf>, LayoutError> {
        let is_part = |name: &str| {
            let rest = name.strip_prefix(&self.name).and_then(|rest| rest.strip_prefix('.'));
            let (seq, kind) = rest.and_then(|rest| rest.split_once('.')).unwrap_or_default();
            let is_number = !seq.is_empty() && seq.bytes().all(|byte| byte.is_ascii_digit());
            is_number && matches!(kind, "base.rdb" | "base.aof" | "incr.aof")
        };
        let names = match disk.list(&self.directory) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LayoutError::Disk(self.directory.clone(), error)),
        };
        let paths = names.iter().filter(|name| is_part(name)).map(|name| self.path(name));
        Ok(paths.into_iter().find(|path| disk.size(path).is_ok_and(|bytes| bytes > 0)))
    }

    /// Reads the manifest on disk, and what else is known of its files, without side effects.
    ///
    /// # Errors
    /// The manifest cannot be read, or is invalid.
    pub fn read(&self, disk: &dyn Disk) -> Result<Option<Manifest>, LayoutError> {
        let path = self.manifest_path();
        let text = match read_whole(disk, &path, MAX_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LayoutError::Disk(path, error)),
        };
        let mut manifest =
            Manifest::parse(&text).map_err(|error| LayoutError::Manifest(path, error))?;
        let _is_told_when_it_is_loaded = self.add_lengths(disk, &mut manifest);
        Ok(Some(manifest))
    }

    /// Adds what the file of lengths says, if there is one.
    fn add_lengths(&self, disk: &dyn Disk, manifest: &mut Manifest) -> Result<(), Doubt> {
        match read_whole(disk, &self.lengths_path(), MAX_BYTES) {
            Ok(text) if *manifest != Manifest::default() => {
                lengths::add(manifest, &text, |base, bytes| self.checksum_of(disk, base, bytes))
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Doubt::Damaged),
            _ => Ok(()),
        }
    }

    /// The checksum of the beginning of a base that has `bytes` bytes, if it can be read.
    pub fn head_of(&self, disk: &dyn Disk, base: &Part, bytes: u64) -> Option<u64> {
        self.checksum_of(disk, base, bytes.min(HEAD_BYTES))
    }

    /// The beginning of the SHA-1 digest of the first `bytes` bytes of a file, if it has so many.
    /// (The CRC64 of a whole snapshot is 0, since it ends with its own.)
    fn checksum_of(&self, disk: &dyn Disk, part: &Part, bytes: u64) -> Option<u64> {
        let (mut file, mut head) = (disk.open_to_read(&self.path(&part.name)).ok()?, Vec::new());
        let got = file.by_ref().take(bytes).read_to_end(&mut head).ok()?;
        let first = sha1::digest(&head).first_chunk().map(|first| u64::from_be_bytes(*first));
        first.filter(|_| got as u64 == bytes)
    }

    /// Why the file of lengths is not used for this manifest, if that is suspicious: a text for the
    /// operator.
    pub fn doubt(&self, disk: &dyn Disk, manifest: &Manifest) -> Option<String> {
        let doubt = self.add_lengths(disk, &mut manifest.clone()).err()?;
        let (path, reason) = (self.lengths_path(), doubt.reason());
        let path = path.display();
        Some(format!("{path}: not used, because {reason}: a lost line or end is not noticed"))
    }

    /// The file of lengths, if there is one.
    pub(super) fn lengths(&self, disk: &dyn Disk) -> Option<PathBuf> {
        let path = self.lengths_path();
        disk.size(&path).is_ok().then_some(path)
    }

    /// Completes a move that may have begun before a crash.
    fn move_in(&self, disk: &dyn Disk, old: &Path, manifest: &Manifest) -> Result<(), LayoutError> {
        let is_old = |base: &Part| base.name == self.name && manifest.increments.is_empty();
        let new = self.path(&self.name);
        if !manifest.base.as_ref().is_some_and(is_old) || is_there(disk, &new)? {
            return Ok(());
        }
        if !is_there(disk, old)? {
            return Err(LayoutError::Missing(new));
        }
        let told = |error| LayoutError::Disk(old.to_owned(), error);
        disk.rename(old, &new).map_err(told)?;
        disk.sync_directory(&self.directory).map_err(told)?;
        disk.sync_directory(&self.above).map_err(told)
    }

    /// Creates the directory, durably.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn make_directory(&self, disk: &dyn Disk) -> Result<(), LayoutError> {
        let made = disk.create_directory(&self.directory);
        let made = made.and_then(|()| disk.sync_directory(&self.above));
        made.map_err(|error| LayoutError::Disk(self.directory.clone(), error))
    }

    /// Creates the directory, and checks whether files can be created in it.
    ///
    /// # Errors
    /// They cannot.
    pub fn try_to_write(&self, disk: &dyn Disk) -> Result<(), LayoutError> {
        self.make_directory(disk)?;
        let path = self.temporary("try");
        let tried = disk.create(&path).and_then(|_| disk.remove(&path));
        tried.map_err(|error| LayoutError::Disk(path, error))
    }

    /// Replaces the manifest on disk, and then the file of lengths. Returns why the latter was not
    /// replaced, if so.
    ///
    /// # Errors
    /// The old manifest is still there, or, if only the last sync failed, the new one, unless a
    /// crash follows.
    pub fn store(
        &self,
        disk: &dyn Disk,
        manifest: &Manifest,
    ) -> Result<Option<LayoutError>, LayoutError> {
        let (path, lengths) = (self.manifest_path(), self.lengths_path());
        if !is_there(disk, &path)? {
            // It was of files that somebody has removed.
            let _there_was_none = disk.remove(&lengths);
        }
        let temporary = self.temporary("manifest");
        replace(disk, &path, &temporary, manifest.text().as_bytes())
            .map_err(|error| LayoutError::Disk(path, error))?;
        let text = lengths::text(manifest).into_bytes();
        if read_whole(disk, &lengths, MAX_BYTES).is_ok_and(|stored| stored == text) {
            return Ok(None);
        }
        // The manifest counts already, and the old lengths fit to it as after a crash.
        let replaced = replace(disk, &lengths, &self.temporary("lengths"), &text);
        Ok(replaced.err().map(|error| LayoutError::Disk(lengths, error)))
    }

    /// Removes temporary files, and the history of the manifest, which then does not name it any
    /// more. Returns how many files were removed.
    ///
    /// # Errors
    /// Some files are still there; they do no harm.
    pub fn clean(&self, disk: &dyn Disk, manifest: &mut Manifest) -> Result<usize, LayoutError> {
        let told = |path: &Path| {
            let path = path.to_owned();
            move |error| LayoutError::Disk(path, error)
        };
        let mut removed = 0;
        let temporary = format!("{TEMPORARY}{}", self.name);
        let names = disk.list(&self.directory).map_err(told(&self.directory))?;
        let history = manifest.history.iter().map(|part| part.name.as_str());
        let listed = names.iter().map(String::as_str);
        for name in listed.filter(|name| name.starts_with(&temporary)).chain(history) {
            // A current part is kept, whatever else the manifest says about it.
            if manifest.parts().any(|part| part.name == name) {
                continue;
            }
            let path = self.path(name);
            match disk.remove(&path) {
                Ok(()) => removed += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(LayoutError::Disk(path, error)),
            }
        }
        if !manifest.history.is_empty() {
            let history = std::mem::take(&mut manifest.history);
            if let Err(error) = self.store(disk, manifest) {
                manifest.history = history;
                return Err(error);
            }
        }
        Ok(removed)
    }
}

fn is_there(disk: &dyn Disk, path: &Path) -> Result<bool, LayoutError> {
    match disk.size(path) {
        Ok(_) => Ok(true),
        // Also for a directory that does not exist. One may have the name of the old file.
        Err(error) if is_no_file(&error) => Ok(false),
        Err(error) => Err(LayoutError::Disk(path.to_owned(), error)),
    }
}

fn is_no_file(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory)
}

#[cfg(test)]
mod tests {
    use crate::disk::simulated::{Act, SimulatedDisk};

    use super::*;

    fn layout() -> AofLayout {
        AofLayout::new(Path::new("/d"), "appendonlydir", "appendonly.aof")
    }

    fn disk(seed: u64) -> SimulatedDisk {
        let disk = SimulatedDisk::new(seed);
        disk.create_directory(Path::new("/d")).expect("made");
        disk
    }

    fn put(disk: &SimulatedDisk, path: &Path, bytes: &[u8]) {
        let file = disk.create(path).expect("created");
        file.append(bytes).expect("appended");
        file.sync().expect("synced");
        disk.sync_directory(crate::disk::directory_of(path)).expect("synced");
    }

    #[test]
    fn the_names_are_those_of_redis() {
        let layout = layout();
        assert_eq!(layout.base(3, BaseKind::Rdb).name, "appendonly.aof.3.base.rdb");
        assert_eq!(layout.base(3, BaseKind::Commands).name, "appendonly.aof.3.base.aof");
        assert_eq!(layout.increment(4).name, "appendonly.aof.4.incr.aof");
        let manifest = Path::new("/d/appendonlydir/appendonly.aof.manifest");
        assert_eq!(layout.manifest_path(), manifest);
    }

    #[test]
    fn without_files_there_is_no_manifest() {
        assert_eq!(layout().open(&disk(1)).expect("nothing is wrong"), None);
    }

    #[test]
    fn the_file_of_an_old_server_becomes_the_base() {
        let (disk, layout) = (disk(1), layout());
        put(&disk, Path::new("/d/appendonly.aof"), b"old");
        assert_eq!(layout.open(&disk).expect("it opens"), None, "it is left alone");
        assert!(layout.take_in_old(&disk).expect("it is taken in"));
        let manifest = layout.open(&disk).expect("it opens").expect("there is one");
        assert_eq!(manifest.text(), "file appendonly.aof seq 1 type b\n");
        let bytes = read_whole(&disk, &layout.path("appendonly.aof"), 9).expect("moved");
        assert_eq!(bytes, b"old");
        assert!(!disk.exists(Path::new("/d/appendonly.aof")));
        assert_eq!(layout.open(&disk).expect("it opens"), Some(manifest));
        put(&disk, Path::new("/d/appendonly.aof"), b"another");
        assert!(!layout.take_in_old(&disk).expect("nothing is wrong"), "there is a base");
        // A first file was to be begun.
        layout.store(&disk, &Manifest::default()).expect("stored");
        assert!(layout.take_in_old(&disk).expect("it is taken in"));
    }

    #[test]
    fn the_old_file_survives_a_crash_at_any_moment_of_the_move() {
        for seed in 0..300 {
            let (disk, layout) = (disk(seed), layout());
            put(&disk, Path::new("/d/appendonly.aof"), b"old");
            let acts = [Act::Rename, Act::SyncDirectory, Act::Sync, Act::Create];
            disk.fail(acts[seed as usize % 4], seed / 4 % 4, io::ErrorKind::Other);
            let _may_fail = layout.take_in_old(&disk);
            disk.crash();
            layout.take_in_old(&disk).expect("it is taken in");
            layout.open(&disk).expect("it opens").expect("there is one");
            let bytes = read_whole(&disk, &layout.path("appendonly.aof"), 9).expect("moved");
            assert_eq!(bytes, b"old", "seed {seed}");
        }
    }

    #[test]
    fn parts_without_a_manifest_are_told() {
        let (disk, layout) = (disk(1), layout());
        layout.make_directory(&disk).expect("made");
        put(&disk, &layout.path("appendonly.aof.1.incr.aof"), b"");
        for other in ["other", "appendonly.aof.x.incr.aof", "b.1.incr.aof", "appendonly.aof.bak"] {
            put(&disk, &layout.path(other), b"data");
        }
        assert_eq!(layout.open(&disk).expect("nothing is lost"), None);
        put(&disk, &layout.path("appendonly.aof.2.base.rdb"), b"data");
        let error = layout.open(&disk).expect_err("it has data").to_string();
        assert!(error.starts_with("/d/appendonlydir/appendonly.aof.2.base.rdb: this"), "{error}");
        put(&disk, Path::new("/d/appendonly.aof"), b"old");
        assert!(layout.open(&disk).is_err());
        // One was to be begun.
        layout.store(&disk, &Manifest::default()).expect("stored");
        assert_eq!(layout.open(&disk).expect("it opens"), None);
    }

    #[test]
    fn a_part_that_is_missing_is_told() {
        let (disk, layout) = (disk(1), layout());
        layout.make_directory(&disk).expect("made");
        let manifest = Manifest { increments: vec![layout.increment(1)], ..Manifest::default() };
        layout.store(&disk, &manifest).expect("stored");
        let error = layout.open(&disk).expect_err("it is missing").to_string();
        // Redis's words, by which it is looked for.
        assert_eq!(
            error,
            "Unable to obtain the AOF file /d/appendonlydir/appendonly.aof.1.incr.aof length. \
             stat: No such file or directory: the manifest names it"
        );
        let old = Part::new("appendonly.aof", 1);
        let manifest = Manifest { base: Some(old), ..Manifest::default() };
        layout.store(&disk, &manifest).expect("stored");
        let error = layout.open(&disk).expect_err("it is in neither place").to_string();
        let told = "Unable to obtain the AOF file /d/appendonlydir/appendonly.aof length. ";
        assert!(error.starts_with(told), "{error}");
    }

    #[test]
    fn a_broken_manifest_is_told_with_its_line() {
        let (disk, layout) = (disk(1), layout());
        layout.make_directory(&disk).expect("made");
        put(&disk, &layout.manifest_path(), b"#\nwhat\n");
        let error = layout.open(&disk).expect_err("it is broken").to_string();
        assert_eq!(
            error,
            "*** FATAL AOF MANIFEST FILE ERROR *** /d/appendonlydir/appendonly.aof.manifest: \
             Reading the manifest file, at line 2 (offset 2): Invalid AOF manifest file format: \
             expected 'file NAME seq NUMBER type b|h|i'"
        );
    }

    #[test]
    fn what_does_not_count_is_removed() {
        let (disk, layout) = (disk(1), layout());
        layout.make_directory(&disk).expect("made");
        let names = [
            "appendonly.aof.1.incr.aof",
            "appendonly.aof.2.incr.aof",
            "other",
            "temp-appendonly.aof.9.base.rdb",
        ];
        for name in names {
            put(&disk, &layout.path(name), b"");
        }
        let mut manifest = Manifest {
            history: vec![layout.increment(1), layout.base(1, BaseKind::Rdb)],
            increments: vec![layout.increment(2)],
            ..Manifest::default()
        };
        layout.store(&disk, &manifest).expect("stored");
        assert_eq!(layout.clean(&disk, &mut manifest).expect("removed"), 2);
        assert_eq!(manifest.text(), "file appendonly.aof.2.incr.aof seq 2 type i\n");
        assert_eq!(layout.open(&disk).expect("it opens"), Some(manifest));
        let expected = [
            "appendonly.aof.2.incr.aof",
            "appendonly.aof.lengths",
            "appendonly.aof.manifest",
            "other",
        ];
        assert_eq!(disk.list(layout.directory()).expect("listed"), expected);
    }
}
