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
//! | `cut`, `before`, `ask` | the moment; what happens before a change; whether it has to wait |
//! | `walk`, `partition_walk`, `table_walk` | what a walker does, and how far it is |
//! | `parts` | a value in parts |
//! | `shared`, `jobs`, `unwritten` | what all threads share: jobs, who waits, progress, memory |
//!
//! What is saved is a bit in the table's words ([`Table::is_saved`](pantala_table::Table)): it goes
//! where the word goes, so growing, splitting and merging need no hook. What is new since the cut
//! counts as saved. How a key is written, and where it goes, is the [`SnapshotTarget`]'s business.
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
//! handed over whole. Where only the deadline changes the entry is begun, which writes the deadline
//! as it was, and the value follows in its time.
//!
//! **A large value** is written in parts, with the partition free in between. Commands that would
//! change it in place are told to wait ([`Locked::awaits_snapshot`](crate::Locked)), before they
//! have done anything, and its elements do not expire. All others go on, also those that replace
//! or remove it. A command that was not asked, or that cannot wait, writes the value at once.
//!
//! Invariants
//! 1. Each record that was there at the cut is written exactly once, as it was then; no other is.
//! 2. A record is marked as saved, or leaves the table, with the partition held, in the same hold
//!    in which it is written, begun, or handed over.
//! 3. A value of which a part is written ([`parts::InParts`]) does not change until all of it is.
//!    It stands in its partition's list while its record is in the table, and goes with the record.
//! 4. A partition is done when its tables have been walked to their end and no value of it is
//!    written in parts. The snapshot is done when all are, and nothing handed over is left.
//! 5. Of values in parts only one at a time is sent in pieces, in order: the *stream*'s.
//! 6. Whether a snapshot begins is decided with the gate closed, so it is constant within a turn.
//! 7. A panic of the target ends the snapshot ([`Outcome::Failed`]), and nothing else.
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
use pantala_table::{OwnedRecord, Place, Table, ValueRef};
use pantala_values::Object;

use crate::key::DbIndex;

pub use ask::{Asked, SnapshotWait};
pub use cut::{CutDatabase, CutInfo, NoSnapshot};
pub use shared::{Outcome, SnapshotProgress};
pub use unwritten::Unwritten;
pub use walk::{Snapshot, Walked};

pub(crate) use before::{Manner, Saving};
pub(crate) use shared::Current;

/// A value that takes no more than this is written by whoever is about to change it: some
/// microseconds.
pub const SMALL_BYTES: usize = 4 << 10;
/// A string up to this is copied by whoever is about to change it in place: as long.
pub const COPIED_BYTES: usize = 64 << 10;
/// A value that takes more than this is sent in pieces, not as one.
pub const STREAMED_BYTES: usize = 1 << 20;
/// A walker copies, or writes of a large value, about this much with a partition held: at most some
/// tens of microseconds.
pub const PORTION_BYTES: usize = 8 << 10;
/// A walker looks at about so many records with a partition held.
pub const PORTION_RECORDS: usize = 512;
/// About the size of a piece.
pub const PIECE_BYTES: usize = 64 << 10;
/// Commands that would hand over more wait.
pub const HANDED_BYTES: usize = 64 << 20;

/// One key to be written.
#[derive(Debug)]
pub struct SnapshotEntry<'e> {
    /// The key.
    pub key: &'e [u8],
    /// The value.
    pub value: ValueRef<'e, Object>,
    /// When it is gone.
    pub deadline: Option<UnixMs>,
    /// Whether eviction passes it over.
    pub sticky: bool,
    /// Memcached's flags.
    pub flags: u32,
}

impl<'e> SnapshotEntry<'e> {
    fn at(table: &'e Table<Object>, place: Place) -> Self {
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

/// Who knows how keys are written, and takes what was. Its methods are called with a partition
/// held: they are quick, wait for nothing, and what they are given does not come to them again.
pub trait SnapshotTarget: Send + Sync {
    /// Appends a whole key.
    fn write(&self, entry: &SnapshotEntry<'_>, out: &mut Vec<u8>);

    /// Appends the beginning of a key whose value is written in parts: all that stands before the
    /// value itself, deadline included.
    fn begin(&self, entry: &SnapshotEntry<'_>, out: &mut Vec<u8>) -> Box<dyn SnapshotParts>;

    /// Takes a piece. Pieces come from several threads, in any order but where [`Span`] says more.
    fn take(&self, piece: Piece);

    /// Whether more should come.
    fn room(&self) -> Room;

    /// Whether more of the one key should come of which a part has come already. This must not
    /// depend on whole keys that wait for the end of it.
    fn has_room_for_parts(&self) -> bool;
}

/// A value that is written in parts, between which it does not change.
pub trait SnapshotParts: Send {
    /// Appends about so many bytes; whether that was the last of it.
    fn go_on(&mut self, value: &ValueRef<'_, Object>, most_bytes: usize, out: &mut Vec<u8>)
    -> bool;
}

/// Whether more should come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Room {
    /// Yes.
    Free,
    /// Walkers pause, but for values that somebody waits for.
    Full,
    /// For these, too, and commands that would have to write something first wait.
    Overfull,
}

/// Some of the snapshot, written.
#[derive(Debug)]
pub struct Piece {
    /// The database, by its number at the cut.
    pub db: DbIndex,
    /// Keys one after the other, or a part of one.
    pub bytes: Vec<u8>,
    /// How many keys end here.
    pub keys: u64,
    /// What it is of the whole.
    pub span: Span,
    /// Its part of what is not written yet.
    pub unwritten: Unwritten,
}

impl Piece {
    /// Not counted yet.
    pub fn new(db: DbIndex, bytes: Vec<u8>, keys: u64, span: Span) -> Piece {
        Piece { db, bytes, keys, span, unwritten: Unwritten::default() }
    }
}

/// What a piece is of the whole. The parts of one key come one after the other, of one key at a
/// time; whole keys may come in between, and belong before or after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Whole keys.
    Whole,
    /// The beginning of a key.
    First,
    /// More of it.
    Middle,
    /// Its end.
    Last,
}

/// Keys that were written, on their way to the target.
#[derive(Debug)]
pub(crate) struct Pending {
    db: DbIndex,
    bytes: Vec<u8>,
    keys: u64,
    unwritten: Unwritten,
}

impl Pending {
    fn new(db: DbIndex) -> Pending {
        Pending { db, bytes: Vec::new(), keys: 0, unwritten: Unwritten::default() }
    }
}

/// A target that several threads write for.
type Target = Arc<dyn SnapshotTarget>;
