//! Writes a file of pieces: head, metadata, functions, keys, end; or functions and keys as
//! commands.
//!
//! Tests: at the foot, on the simulated disk.

use std::fmt;
use std::io;
use std::path::PathBuf;

use pantala_journal::resp::{push_command, push_select};
use pantala_keyspace::DbIndex;
use pantala_keyspace::snapshot::SnapshotPiece;
use pantala_rdb::Strings;
use pantala_rdb::file::{Head, OLDEST_WRITTEN, RdbWriter, SizeHints};

use super::queue::QueueItem;
use crate::disk::{Disk, DiskFile, directory_of};

/// How many bytes are written between two syncs, so that the last one does not take long.
const SYNC_BYTES: u64 = 32 << 20;
/// Small sections are collected up to this size before they are written.
const GATHERED_BYTES: usize = 64 << 10;
const _: () = assert!((GATHERED_BYTES as u64) < SYNC_BYTES, "something is written between syncs");

/// The metadata before the keys.
#[derive(Debug, Default)]
pub struct SnapshotFacts {
    /// Names and values about the file and the server.
    pub aux: Vec<(&'static str, String)>,
    /// The code of libraries.
    pub functions: Vec<Vec<u8>>,
    /// The number of keys of each database.
    pub sizes: Vec<(DbIndex, SizeHints)>,
    /// The second of the cut (Unix), if a file of commands is to begin with it
    /// (`aof-timestamp-enabled`).
    pub dated_s: Option<i64>,
}

/// The form of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// RDB.
    #[default]
    Rdb,
    /// Commands.
    Commands,
}

/// How a file is written, and where.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its final path.
    pub path: PathBuf,
    /// Its path until it is complete, in the same directory.
    pub temporary: PathBuf,
    /// Its form, which must be that of the pieces in the queue.
    pub form: Form,
    /// The encoding of strings.
    pub strings: Strings,
    /// Whether it ends with a checksum.
    pub has_checksum: bool,
    /// Whether it is synced at intervals.
    pub syncs_in_steps: bool,
    /// The version in its head, if that cannot be corrected at the end; `None`: the oldest version
    /// that has everything written.
    pub fixed_version: Option<u16>,
}

/// Why there is no file.
#[derive(Debug)]
pub enum Fault {
    /// An error of the disk, in this operation.
    Disk(&'static str, PathBuf, io::Error),
    /// The snapshot was aborted.
    CalledOff,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Disk(act, path, error) => write!(f, "cannot {act} {}: {error}", path.display()),
            Fault::CalledOff => f.write_str("it was called off"),
        }
    }
}

impl std::error::Error for Fault {}

/// Where the pieces of a file come from.
pub trait PieceSource {
    /// Takes a piece out, waiting for one.
    fn next(&self) -> QueueItem;

    /// The RDB version that the pieces taken so far need.
    fn version(&self) -> u16;

    /// Aborts the snapshot: nothing more is taken.
    fn break_off(&self);
}

/// No pieces: for a file without keys.
pub struct NoPieces;

impl PieceSource for NoPieces {
    fn next(&self) -> QueueItem {
        QueueItem::End
    }

    fn version(&self) -> u16 {
        OLDEST_WRITTEN
    }

    fn break_off(&self) {}
}

/// Writes a file of these pieces, and puts it in place; returns its length.
///
/// # Errors
/// There is no new file, no temporary one either, and the snapshot is aborted.
pub fn write(
    disk: &dyn Disk,
    plan: &Plan,
    facts: &SnapshotFacts,
    pieces: &dyn PieceSource,
) -> Result<u64, Fault> {
    let written = write_temporary(disk, plan, facts, pieces).and_then(|bytes| {
        let (from, to) = (&plan.temporary, &plan.path);
        disk.rename(from, to).map_err(|error| Fault::Disk("rename", from.clone(), error))?;
        let directory = directory_of(to);
        let synced = disk.sync_directory(directory);
        synced.map_err(|error| Fault::Disk("sync", directory.into(), error))?;
        Ok(bytes)
    });
    if written.is_err() {
        pieces.break_off();
        // It may not have existed.
        let _best_effort = disk.remove(&plan.temporary);
    }
    written
}

fn write_temporary(
    disk: &dyn Disk,
    plan: &Plan,
    facts: &SnapshotFacts,
    pieces: &dyn PieceSource,
) -> Result<u64, Fault> {
    let at = |act| move |error| Fault::Disk(act, plan.temporary.clone(), error);
    let file = disk.create(&plan.temporary).map_err(at("create"))?;
    let mut writing = Writing { file: &*file, out: Vec::new(), facts, bytes: 0, unsynced: 0 };
    let mut shape: Box<dyn Shape> = match plan.form {
        Form::Rdb => Box::new(RdbShape::begin(plan, facts, &mut writing.out)),
        Form::Commands => Box::new(CommandShape::begin(facts, &mut writing.out)),
    };
    loop {
        match pieces.next() {
            QueueItem::Piece(piece) => {
                writing.piece(&mut *shape, &piece).map_err(at("write"))?;
            }
            QueueItem::End => break,
            QueueItem::Broken => return Err(Fault::CalledOff),
        }
        if plan.syncs_in_steps && writing.unsynced >= SYNC_BYTES {
            writing.unsynced = 0;
            file.sync().map_err(at("sync"))?;
        }
    }
    let version = plan.fixed_version.unwrap_or_else(|| pieces.version());
    let bytes = writing.end(&mut *shape, version).map_err(at("write"))?;
    file.sync().map_err(at("sync"))?;
    Ok(bytes)
}

/// The framing of the pieces.
trait Shape {
    /// Appends the database of a piece, and accounts for the piece.
    fn piece(&mut self, piece: &SnapshotPiece, facts: &SnapshotFacts, out: &mut Vec<u8>);

    /// Appends the end. Returns bytes to overwrite the start with.
    fn end(&mut self, version: u16, out: &mut Vec<u8>) -> Option<Head>;
}

struct RdbShape {
    writer: RdbWriter,
    /// Databases whose sizes were written.
    named: Vec<DbIndex>,
}

impl RdbShape {
    fn begin(plan: &Plan, facts: &SnapshotFacts, out: &mut Vec<u8>) -> RdbShape {
        let version = plan.fixed_version.unwrap_or(OLDEST_WRITTEN);
        let mut writer = RdbWriter::begin(version, plan.has_checksum, out);
        for (name, value) in &facts.aux {
            writer.aux(name.as_bytes(), value.as_bytes(), out);
        }
        for code in &facts.functions {
            writer.function(code, plan.strings, out);
        }
        RdbShape { writer, named: Vec::new() }
    }
}

impl Shape for RdbShape {
    fn piece(&mut self, piece: &SnapshotPiece, facts: &SnapshotFacts, out: &mut Vec<u8>) {
        let db = piece.db;
        self.writer.database(db.0, out);
        // Once for each database.
        if !self.named.contains(&db) {
            self.named.push(db);
            if let Some((_, sizes)) = facts.sizes.iter().find(|(number, _)| *number == db) {
                self.writer.sizes(*sizes, out);
            }
        }
        self.writer.entries(&piece.bytes, OLDEST_WRITTEN);
    }

    fn end(&mut self, version: u16, out: &mut Vec<u8>) -> Option<Head> {
        debug_assert!(version >= OLDEST_WRITTEN, "no snapshot is older");
        self.writer.entries(&[], version);
        self.writer.end(out)
    }
}

/// The framing of commands: only SELECT.
struct CommandShape {
    db: Option<DbIndex>,
}

/// Appends the annotation that tells when what follows was written, in seconds since 1970.
pub(crate) fn push_time(out: &mut Vec<u8>, second: i64) {
    out.extend_from_slice(format!("#TS:{second}\r\n").as_bytes());
}

impl CommandShape {
    fn begin(facts: &SnapshotFacts, out: &mut Vec<u8>) -> CommandShape {
        if let Some(second) = facts.dated_s {
            push_time(out, second);
        }
        for code in &facts.functions {
            push_command(out, &[b"FUNCTION", b"LOAD", code]);
        }
        CommandShape { db: None }
    }
}

impl Shape for CommandShape {
    fn piece(&mut self, piece: &SnapshotPiece, _facts: &SnapshotFacts, out: &mut Vec<u8>) {
        if self.db.replace(piece.db) != Some(piece.db) {
            push_select(out, piece.db.0);
        }
    }

    fn end(&mut self, _version: u16, _out: &mut Vec<u8>) -> Option<Head> {
        None
    }
}

struct Writing<'w> {
    file: &'w dyn DiskFile,
    /// Bytes not written to the file yet.
    out: Vec<u8>,
    facts: &'w SnapshotFacts,
    /// Bytes written to the file.
    bytes: u64,
    unsynced: u64,
}

impl Writing<'_> {
    fn piece(&mut self, shape: &mut dyn Shape, piece: &SnapshotPiece) -> io::Result<()> {
        shape.piece(piece, self.facts, &mut self.out);
        if piece.bytes.len() < GATHERED_BYTES {
            self.out.extend_from_slice(&piece.bytes);
            return if self.out.len() < GATHERED_BYTES { Ok(()) } else { self.flush() };
        }
        self.flush()?;
        self.append(&piece.bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        let out = std::mem::take(&mut self.out);
        let flushed = self.append(&out);
        self.out = out;
        self.out.clear();
        flushed
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes += bytes.len() as u64;
        self.unsynced += bytes.len() as u64;
        debug_assert!(self.unsynced <= self.bytes, "of what was written");
        self.file.append(bytes)
    }

    fn end(mut self, shape: &mut dyn Shape, version: u16) -> io::Result<u64> {
        let head = shape.end(version, &mut self.out);
        self.flush()?;
        if let Some(head) = head {
            debug_assert!(head.len() as u64 <= self.bytes, "the start was written");
            self.file.write_over_start(&head)?;
        }
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::SnapshotQueue;
    use std::io::ErrorKind;
    use std::path::Path;

    use pantala_base::UnixMs;
    use pantala_keyspace::snapshot::Span;
    use pantala_rdb::file::write_entry;
    use pantala_table::{StrRef, ValueRef};

    use crate::disk::read_whole;
    use crate::disk::simulated::{Act, SimulatedDisk};
    use crate::loading::{Part, read_file};

    /// A queue, and the version that its pieces need.
    struct Tested<'q>(&'q SnapshotQueue, u16);

    impl PieceSource for Tested<'_> {
        fn next(&self) -> QueueItem {
            self.0.next().0
        }

        fn version(&self) -> u16 {
            self.1
        }

        fn break_off(&self) {
            self.0.break_off();
        }
    }

    const DIRECTORY: &str = "/data";

    fn plan() -> Plan {
        Plan {
            path: Path::new(DIRECTORY).join("dump.rdb"),
            temporary: Path::new(DIRECTORY).join("temp-1.rdb"),
            form: Form::Rdb,
            strings: Strings::Plain,
            has_checksum: true,
            syncs_in_steps: true,
            fixed_version: None,
        }
    }

    fn piece(db: u32, span: Span, keys: std::ops::Range<u32>) -> SnapshotPiece {
        let mut bytes = Vec::new();
        for key in keys.clone() {
            let (name, value) = (format!("key:{key}"), ValueRef::Str(StrRef::Bytes(b"value")));
            write_entry(name.as_bytes(), None, &value, UnixMs(0), Strings::Plain, &mut bytes);
        }
        SnapshotPiece::new(DbIndex(db), bytes, u64::from(keys.end - keys.start), span)
    }

    /// Writes a file with this many keys.
    fn save(disk: &SimulatedDisk, keys: u32) -> Result<u64, Fault> {
        let queue = SnapshotQueue::default();
        let facts = SnapshotFacts {
            aux: vec![("redis-ver", "7.4.0".into())],
            functions: vec![b"code".to_vec()],
            sizes: vec![(DbIndex(3), SizeHints { keys: 1, with_deadline: 0 })],
            dated_s: None,
        };
        queue.push(piece(0, Span::Whole, 0..keys / 2));
        queue.push(piece(3, Span::Whole, 0..1));
        queue.push(piece(0, Span::Whole, keys / 2..keys));
        queue.complete();
        write(disk, &plan(), &facts, &Tested(&queue, 10))
    }

    #[test]
    fn a_file_of_commands_begins_with_the_time_if_that_is_wanted() {
        let begin = |dated_s| {
            let functions = vec![b"code".to_vec()];
            let facts = SnapshotFacts { functions, dated_s, ..SnapshotFacts::default() };
            let mut out = Vec::new();
            CommandShape::begin(&facts, &mut out);
            String::from_utf8(out).expect("text")
        };
        assert!(begin(None).starts_with("*3\r\n$8\r\nFUNCTION"));
        assert!(begin(Some(7)).starts_with("#TS:7\r\n*3\r\n$8\r\nFUNCTION"));
    }

    /// How many keys the file has; `None`: there is no file.
    fn saved(disk: &SimulatedDisk) -> Option<u32> {
        let bytes = read_whole(disk, &plan().path, 1 << 24).ok()?;
        let options = pantala_rdb::file::ReadOptions {
            versions: pantala_rdb::payload::Versions::Known,
            checks: true,
            file_bytes: Some(bytes.len() as u64),
        };
        let mut keys = 0;
        let read = read_file(&mut &bytes[..], options, &mut |part| {
            if let Part::Batch(batch) = part {
                let limits = crate::loading::tests::limits();
                let entries = pantala_rdb::file::RdbEntries::new(
                    &batch.bytes,
                    batch.offset,
                    batch.version,
                    &limits,
                );
                keys += u32::from(batch.db != DbIndex(3)) * entries.count() as u32;
            }
            true
        });
        read.expect("what has the name is whole");
        Some(keys)
    }

    fn disk(seed: u64) -> SimulatedDisk {
        let disk = SimulatedDisk::new(seed);
        disk.create_directory(Path::new(DIRECTORY)).expect("made");
        disk
    }

    #[test]
    fn a_file_is_written_and_its_length_told() {
        let disk = disk(1);
        let bytes = save(&disk, 1000).expect("there is room");
        assert_eq!(disk.size(&plan().path).expect("it is there"), bytes);
        assert_eq!(saved(&disk), Some(1000));
        assert_eq!(disk.list(Path::new(DIRECTORY)).expect("there"), ["dump.rdb"]);
    }

    #[test]
    fn whatever_fails_leaves_the_old_file_and_nothing_else() {
        for act in [Act::Create, Act::Append, Act::Sync, Act::Rename] {
            for after in 0..2 {
                let disk = disk(after);
                save(&disk, 10).expect("there is room");
                disk.fail(act, after, ErrorKind::StorageFull);
                let failed = save(&disk, 20_000).is_err();
                disk.fail_no_more();
                assert!(failed || after > 0, "{act:?} {after}");
                assert_eq!(saved(&disk), Some(if failed { 10 } else { 20_000 }), "{act:?}");
                assert_eq!(disk.list(Path::new(DIRECTORY)).expect("there"), ["dump.rdb"]);
            }
        }
        let disk = disk(7);
        save(&disk, 10).expect("there is room");
        disk.set_free_bytes(Some(100_000));
        let full = save(&disk, 20_000).map_err(|fault| fault.to_string());
        assert!(full.is_err_and(|words| words.starts_with("cannot write /data/temp-1.rdb")));
        assert_eq!(saved(&disk), Some(10));
    }

    #[test]
    fn a_crash_leaves_the_old_file_or_the_new_one() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..300 {
            let disk = disk(seed);
            save(&disk, 10).expect("there is room");
            // The power fails in some operation of the second write, or after its end.
            let acts = [Act::Append, Act::Sync, Act::Rename, Act::SyncDirectory, Act::Create];
            let at = acts.get(seed as usize % 6);
            if let Some(at) = at {
                disk.fail(*at, 0, ErrorKind::Other);
            }
            let ended_well = save(&disk, 500).is_ok();
            disk.crash();
            let keys = saved(&disk);
            assert!(keys == Some(10) || keys == Some(500), "{seed}: {keys:?}");
            assert!(!ended_well || keys == Some(500), "{seed}: what was told is kept");
            seen.insert((at.is_some(), keys));
        }
        assert!(seen.len() > 2, "{seen:?}");
    }

    #[test]
    fn one_that_is_called_off_is_removed() {
        let disk = disk(1);
        let queue = SnapshotQueue::default();
        queue.push(piece(0, Span::First, 0..1));
        queue.complete();
        let ended = write(&disk, &plan(), &SnapshotFacts::default(), &Tested(&queue, 10));
        assert!(matches!(ended, Err(Fault::CalledOff)), "a key without its end is no file");
        assert_eq!(saved(&disk), None);
        assert!(disk.list(Path::new(DIRECTORY)).expect("there").is_empty());
    }

    #[test]
    fn a_newer_version_is_written_over_the_first() {
        let disk = disk(1);
        let queue = SnapshotQueue::default();
        queue.push(piece(0, Span::Whole, 0..5));
        queue.complete();
        write(&disk, &plan(), &SnapshotFacts::default(), &Tested(&queue, 80))
            .expect("there is room");
        let bytes = read_whole(&disk, &plan().path, 1 << 20).expect("it is there");
        assert!(bytes.starts_with(b"VALKEY080"));
        assert_eq!(saved(&disk), Some(5), "and the checksum is that of the new head");
    }
}
