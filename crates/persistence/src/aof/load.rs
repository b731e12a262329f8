//! Loading an append-only file: its base, then its increments, through the engine.
//!
//! ```text
//! file of RDB, or RDB and then steps    the snapshot by `LoadSnapshot`, the rest as steps
//! file of steps                         one after the other
//! last file torn                        cut at its last whole step, if aof-load-truncated
//! ```
//!
//! Invariants
//! 1. On an error nothing on disk has changed.
//! 2. Only the end of the last file that holds anything is cut, and the cut is reported.
//!
//! Not here: the snapshot itself (`loading`), threads. Tests: `tests/replay.rs`.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use smallvec::SmallVec;

use pantala_keyspace::PREFETCHED;

use super::files::PartFile;
use super::reader::{ReadError, StepRead, StepReader, TornTail};
use super::replay::{Refused, Replay};
use super::steps::AofDamage;
use crate::disk::Disk;

/// The first bytes of a snapshot file, of Redis and of Valkey.
const MAGIC: [&[u8]; 2] = [b"REDIS", b"VALKEY"];
/// The length of the longest magic.
const MAGIC_MAX_BYTES: usize = 6;
/// The part of an unknown command's name that is shown.
const MAX_NAME_BYTES: usize = 128;

/// Loads snapshots.
pub trait LoadSnapshot {
    /// Loads the snapshot at the start of a file, including expired keys, and returns its length.
    /// More of the file may have been read.
    ///
    /// # Errors
    /// It cannot be loaded: where, and why.
    fn load(&mut self, file: &mut dyn Read, file_bytes: u64) -> Result<u64, String>;

    /// Is told of each file that has been loaded, with or without a snapshot.
    fn loaded(&mut self, _file: &PartFile) {}
}

/// The result of loading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// How many steps have run.
    pub steps: u64,
    /// Bytes of all files, without what was cut off.
    pub bytes: u64,
    /// The torn end that was cut off, and of which file.
    pub cut: Option<(PathBuf, TornTail)>,
    /// The annotation at the very end, if there is one.
    pub last_annotation: Option<Box<[u8]>>,
}

/// Why loading failed.
#[derive(Debug)]
pub struct LoadError {
    /// The file.
    pub path: PathBuf,
    /// The problem.
    pub what: Fault,
}

/// What is wrong with a file.
#[derive(Debug)]
pub enum Fault {
    /// The operating system reports an error.
    Disk(io::Error),
    /// The file is damaged.
    Damage(AofDamage),
    /// The file has a command of this name, which the server does not know.
    Unknown(Vec<u8>, AofDamage),
    /// The end is torn and must not be cut; whether only a setting forbids it.
    Torn(TornTail, bool),
    /// The snapshot cannot be loaded.
    Snapshot(String),
}

/// The words of Redis and Valkey, which operators and tools search for, then the details.
impl fmt::Display for LoadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.what {
            Fault::Disk(error) => write!(out, "Error reading the append only file {path}: {error}"),
            Fault::Damage(damage) => write!(
                out,
                "Bad file format reading the append only file {path}: make a backup of your AOF \
                 file, then use ./valkey-check-aof --fix <filename.manifest>, which cuts off all \
                 from there on: {damage}"
            ),
            Fault::Unknown(name, damage) => {
                let name = name.escape_ascii();
                write!(
                    out,
                    "Unknown command '{name}' reading the append only file {path} (unknown \
                     command '{name}'): {damage}"
                )
            }
            Fault::Torn(torn, true) => write!(
                out,
                "Unexpected end of file reading the append only file {path}. You can: 1) Make a \
                 backup of your AOF file, then use ./valkey-check-aof --fix <filename.manifest> \
                 (or pantala check --fix). 2) Alternatively you can set the 'aof-load-truncated' \
                 configuration option to yes and restart the server. {torn}"
            ),
            Fault::Torn(torn, false) => write!(
                out,
                "Fatal error: the truncated file is not the last file: {path}: {torn}, but files \
                 with steps that come after it follow"
            ),
            Fault::Snapshot(what) => {
                write!(out, "Error reading the RDB base file {path}, AOF loading aborted: {what}")
            }
        }
    }
}

impl std::error::Error for LoadError {}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::Disk(error)
    }
}

impl From<ReadError> for Fault {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Disk(error) => Fault::Disk(error),
            ReadError::Damage(damage) => Fault::Damage(damage),
        }
    }
}

/// Loads these files. `cuts_torn_end` is `aof-load-truncated`; `progress` gets the number of bytes
/// read.
///
/// # Errors
/// The first bad file. What was loaded so far stays.
pub fn load(
    disk: &dyn Disk,
    files: &[PartFile],
    replay: &mut Replay<'_>,
    snapshots: &mut dyn LoadSnapshot,
    cuts_torn_end: bool,
    progress: &mut dyn FnMut(u64),
) -> Result<Loaded, LoadError> {
    let mut loaded = Loaded::default();
    for file in files {
        let mut loading = Loading { disk, file, replay, snapshots, progress };
        let before = loaded.bytes;
        let end = loading.load(before, &mut loaded);
        let end = end.map_err(|what| LoadError { path: file.path.clone(), what })?;
        loaded.bytes = before + file.bytes;
        let Some(torn) = end else {
            snapshots.loaded(file);
            continue;
        };
        loaded.last_annotation = None;
        let refused = |what| Err(LoadError { path: file.path.clone(), what });
        if !file.is_last || !cuts_torn_end {
            return refused(Fault::Torn(torn, file.is_last));
        }
        loaded.bytes = before + torn.offset;
        if let Err(error) = disk.truncate(&file.path, torn.offset) {
            return refused(Fault::Disk(error));
        }
        loaded.cut = Some((file.path.clone(), torn));
        snapshots.loaded(file);
    }
    Ok(loaded)
}

struct Loading<'l, 'r> {
    disk: &'l dyn Disk,
    file: &'l PartFile,
    replay: &'l mut Replay<'r>,
    snapshots: &'l mut dyn LoadSnapshot,
    progress: &'l mut dyn FnMut(u64),
}

impl Loading<'_, '_> {
    /// Loads one file; returns its torn end, if any.
    fn load(&mut self, before: u64, loaded: &mut Loaded) -> Result<Option<TornTail>, Fault> {
        let mut reader = self.begin()?;
        if self.file.is_base {
            loaded.last_annotation = None;
        }
        self.replay.begin_file();
        let mut near = 0;
        loop {
            if near == 0 {
                let mut keys = self.replay.bring_near();
                near = reader.look_ahead(PREFETCHED, &mut |key| keys.add(key)).max(1);
            }
            near -= 1;
            match reader.next()? {
                StepRead::Step => (loaded.steps, loaded.last_annotation) = (loaded.steps + 1, None),
                StepRead::Annotation => {
                    loaded.last_annotation = Some(reader.annotation().into());
                    continue;
                }
                StepRead::End => return Ok(None),
                StepRead::Torn(torn) => return Ok(Some(torn)),
            }
            for command in reader.step().commands(reader.window()) {
                let args: SmallVec<[&[u8]; 8]> = command.collect();
                let ran = self.replay.run(&args);
                ran.map_err(|refused| refusal(&reader, &args, refused))?;
            }
            (self.progress)(before + reader.offset());
        }
    }

    /// A reader of the file's steps, after its snapshot if it has one.
    fn begin(&mut self) -> Result<StepReader, Fault> {
        let (path, file_bytes) = (&self.file.path, self.file.bytes);
        if self.file.is_base && file_bytes == 0 && path.extension() == Some("rdb".as_ref()) {
            let expected = "a snapshot, as the file's name says";
            return Err(Fault::Damage(AofDamage { offset: 0, expected, found: "nothing".into() }));
        }
        let mut input = self.disk.open_to_read(path)?;
        let (ahead, is_snapshot) = begins_with_snapshot(&mut input)?;
        if !is_snapshot {
            return Ok(StepReader::new(input, ahead, 0, file_bytes));
        }
        let loaded = self.snapshots.load(&mut ahead.chain(input), file_bytes);
        let bytes = loaded.map_err(Fault::Snapshot)?;
        // Steps after a snapshot in one file were written by an old server.
        Ok(StepReader::new(skip_to(self.disk, path, bytes)?, Vec::new(), bytes, file_bytes))
    }
}

/// Reads the first bytes of a file, and tells whether they are those of a snapshot.
///
/// # Errors
/// They cannot be read.
pub fn begins_with_snapshot(input: &mut dyn Read) -> io::Result<(Vec<u8>, bool)> {
    let mut ahead = Vec::new();
    input.take(MAGIC_MAX_BYTES as u64).read_to_end(&mut ahead)?;
    let is_snapshot = MAGIC.iter().any(|magic| ahead.starts_with(magic));
    Ok((ahead, is_snapshot))
}

/// A file from this offset on.
///
/// # Errors
/// It cannot be opened or read.
pub fn skip_to(disk: &dyn Disk, path: &Path, offset: u64) -> io::Result<Box<dyn Read + Send>> {
    let mut input = disk.open_to_read(path)?;
    io::copy(&mut input.by_ref().take(offset), &mut io::sink())?;
    Ok(input)
}

#[cold]
fn refusal(reader: &StepReader, args: &[&[u8]], refused: Refused) -> Fault {
    match (refused, args.first()) {
        (Refused::Unknown, Some(name)) => {
            // Enough to be recognised.
            let name = name[..name.len().min(MAX_NAME_BYTES)].to_vec();
            Fault::Unknown(name, damage(reader, args, refused.expected()))
        }
        _ => Fault::Damage(damage(reader, args, refused.expected())),
    }
}

fn damage(reader: &StepReader, args: &[&[u8]], expected: &'static str) -> AofDamage {
    /// How many of each are shown.
    const SHOWN: usize = 3;
    let shown = args.iter().take(SHOWN).map(|arg| {
        let arg = &arg[..arg.len().min(40)];
        format!("'{}'", arg.escape_ascii())
    });
    let found = format!("{} ({} arguments)", shown.collect::<Vec<_>>().join(" "), args.len());
    AofDamage { offset: reader.begin_offset(), expected, found }
}
