//! A snapshot: every key as it was at one moment, written while commands go on.
//!
//! ```text
//! cut     gate closed, all partitions held: in each, "no record is saved yet"          `cut`
//! walk    threads take a partition for a moment, copy what is not saved, mark it       `walk`
//! before  a command changes a record that is not saved: it is saved first              `before`
//! done    a partition in which all is saved has nothing more to do with it
//! ```
//!
//! | file | what |
//! |---|---|
//! | `cut`, `before`, `ask` | the moment; before a change; whether a command has to wait |
//! | `walk`, `partition_walk`, `table_walk` | what a walker does, and its position |
//! | `parts` | a value in parts |
//! | `shared`, `jobs`, `unwritten` | shared by all threads: jobs, waiters, progress, memory |
//!
//! "Saved" is a bit in the table's words ([`Table::is_saved`](pantala_table::Table)): it moves with
//! the word, so growing, splitting and merging need no hook. Records newer than the cut count as
//! saved. How a key is written, and where it goes, is the [`SnapshotTarget`]'s business.
//!
//! **Before a change** there are five cases:
//!
//! | the record | is changed in place | is overwritten, removed, expires, is evicted |
//! |---|---|---|
//! | small ([`SMALL_BYTES`]) | written at once | written at once |
//! | a string ([`COPIED_BYTES`]) | its copy is handed over | it is handed over itself |
//! | large | the command waits until it is written | it is handed over itself |
//!
//! What is handed over is written by a walker, with no lock. The tables of flushed databases are
//! handed over whole. Where only the deadline changes, the entry is begun: the old deadline is
//! written, and the value follows later.
//!
//! **A large value** is written in parts, with the partition free in between. Commands that would
//! change it in place are told to wait ([`Locked::awaits_snapshot`](crate::Locked)) before they
//! have done anything, and its elements do not expire. All others go on, even those that replace or
//! remove it. A command that did not ask, or that cannot wait, writes the value at once.
//!
//! Invariants
//! 1. Each record that was there at the cut is written exactly once, as it was then; no other is.
//! 2. A record is marked as saved, or leaves the table, with the partition held, in the same hold
//!    in which it is written, begun, or handed over.
//! 3. A value of which a part is written ([`parts::PartialKey`]) does not change until all of it
//!    is. It is in its partition's list while its record is in the table, and leaves with the
//!    record.
//! 4. A partition is done when its tables have been walked to their end and no value of it is
//!    written in parts. The snapshot is done when all partitions are, and nothing handed over is
//!    left.
//! 5. Of the values in parts only one at a time is sent in pieces, in order: it owns the *stream*.
//! 6. Whether a snapshot begins is decided with the gate closed, so it is constant within a turn.
//! 7. A panic of the target ends the snapshot ([`SnapshotOutcome::Failed`]), and nothing else.
//!
//! Not here: the format (`rdb`), files, threads. Tests: `tests/snapshot.rs`.

mod ask;
mod before;
mod cut;
mod jobs;
mod partition_walk;
mod parts;
mod shared;
mod table_walk;
mod unwritten;
mod walk;

use std::sync::Arc;

use pantala_base::UnixMs;
use pantala_table::{OwnedRecord, RecordPlace, Table, ValueRef};
use pantala_values::Object;

use crate::key::DbIndex;

pub use ask::{IntendedChange, SnapshotWait};
pub use cut::{CutDatabase, CutInfo, NoSnapshot};
pub use shared::{SnapshotOutcome, SnapshotProgress};
pub use unwritten::UnwrittenShare;
pub use walk::{Snapshot, WalkOutcome};

pub(crate) use before::{ChangeManner, Saving};
pub(crate) use shared::Current;

/// A value up to this size is written by the command that is about to change it: some microseconds.
pub const SMALL_BYTES: usize = 4 << 10;
/// A string up to this size is copied by the command that is about to change it in place: as quick.
pub const COPIED_BYTES: usize = 64 << 10;
/// A larger value is sent in pieces, not as one.
pub const STREAMED_BYTES: usize = 1 << 20;
/// About how much a walker copies, or writes of a large value, with a partition held: at most some
/// tens of microseconds.
pub const PORTION_BYTES: usize = 8 << 10;
/// About how many records a walker looks at with a partition held.
pub const PORTION_RECORDS: usize = 512;
/// About the size of a piece.
pub const PIECE_BYTES: usize = 64 << 10;
/// If more bytes than this are handed over, commands that would hand over more wait.
pub const HANDED_BYTES: usize = 64 << 20;

/// One key to be written.
#[derive(Debug)]
pub struct SnapshotEntry<'e> {
    /// The key.
    pub key: &'e [u8],
    /// The value.
    pub value: ValueRef<'e, Object>,
    /// Its deadline, if any.
    pub deadline: Option<UnixMs>,
    /// Whether eviction passes it over.
    pub sticky: bool,
    /// Memcached's flags.
    pub flags: u32,
}

impl<'e> SnapshotEntry<'e> {
    fn at(table: &'e Table<Object>, place: RecordPlace) -> Self {
        SnapshotEntry {
            key: table.key(place),
            value: table.value(place),
            deadline: table.deadline(place),
            sticky: table.sticky(place),
            flags: table.tail(place).flags,
        }
    }

    fn of(record: &'e OwnedRecord<Object>) -> Self {
        SnapshotEntry {
            key: record.key(),
            value: record.value(),
            deadline: record.deadline(),
            sticky: record.is_sticky(),
            flags: record.tail().flags,
        }
    }
}

/// Encodes keys, and takes the encoded pieces. Its methods are called with a partition held: they
/// must be quick and wait for nothing. What they are given is not passed to them again.
pub trait SnapshotTarget: Send + Sync {
    /// Appends a whole key.
    fn write(&self, entry: &SnapshotEntry<'_>, out: &mut Vec<u8>);

    /// Appends the beginning of a key whose value is written in parts: everything before the value
    /// itself, including the deadline.
    fn begin(&self, entry: &SnapshotEntry<'_>, out: &mut Vec<u8>) -> Box<dyn SnapshotParts>;

    /// Takes a piece. Pieces come from several threads, in any order except as [`Span`] says.
    fn take(&self, piece: SnapshotPiece);

    /// How much room there is for more pieces.
    fn room(&self) -> SnapshotRoom;

    /// Whether there is room for more of the key that is being sent in pieces. This must not depend
    /// on whole keys that wait for the end of it.
    fn has_room_for_parts(&self) -> bool;
}

/// A value that is written in parts, between which it does not change.
pub trait SnapshotParts: Send {
    /// Appends about `most_bytes` more; whether that was the end of the value.
    fn go_on(&mut self, value: &ValueRef<'_, Object>, most_bytes: usize, out: &mut Vec<u8>)
    -> bool;
}

/// How much room a target has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SnapshotRoom {
    /// More should come.
    Free,
    /// Walkers pause, except for values that commands wait for.
    Full,
    /// Walkers pause for these, too, and commands wait that would have to write something first.
    Overfull,
}

/// An encoded part of the snapshot.
#[derive(Debug)]
pub struct SnapshotPiece {
    /// The database, by its number at the cut.
    pub db: DbIndex,
    /// Keys one after the other, or a part of one.
    pub bytes: Vec<u8>,
    /// How many keys end here.
    pub keys: u64,
    /// Its position in a key.
    pub span: Span,
    /// Its part of the bytes not written yet.
    pub unwritten: UnwrittenShare,
}

impl SnapshotPiece {
    /// A piece that is not counted yet.
    pub fn new(db: DbIndex, bytes: Vec<u8>, keys: u64, span: Span) -> SnapshotPiece {
        SnapshotPiece { db, bytes, keys, span, unwritten: UnwrittenShare::default() }
    }
}

/// How a piece relates to keys. The parts of one key come in order, and of one key at a time; whole
/// keys may come in between, and belong before or after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Whole keys.
    Whole,
    /// The beginning of a key.
    First,
    /// A further part of the key.
    Middle,
    /// The end of the key.
    Last,
}

/// Encoded keys that have not been handed to the target yet.
#[derive(Debug)]
pub(crate) struct PendingKeys {
    db: DbIndex,
    bytes: Vec<u8>,
    keys: u64,
    unwritten: UnwrittenShare,
}

impl PendingKeys {
    fn new(db: DbIndex) -> PendingKeys {
        PendingKeys { db, bytes: Vec::new(), keys: 0, unwritten: UnwrittenShare::default() }
    }
}

/// A target that several threads write for.
type Target = Arc<dyn SnapshotTarget>;
