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
//! | `target`, `output` | what is written where; progress, and commands that wait for it |
//! | `state`, `jobs`, `unwritten` | shared by all threads: the jobs; memory |
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
//! handed over whole. If only the deadline changes, the entry is begun: the old deadline is
//! written, and the value follows later.
//!
//! **A large value** is written in parts, with the partition free in between. Commands that would
//! change it in place are told to wait ([`Locked::awaits_snapshot`](crate::Locked)) before they
//! have done anything, and its elements do not expire. All others go on, even those that replace or
//! remove it. A command that did not ask, or that cannot wait, writes the value at once.
//!
//! Invariants
//! 1. Each record that was there at the cut is written exactly once, as it was then; no other is.
//! 2. A record is written, begun or handed over, and is marked as saved or leaves the table, while
//!    the partition is held without a break.
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
mod output;
mod partition_walk;
mod parts;
mod state;
mod table_walk;
mod target;
mod unwritten;
mod walk;

pub use ask::IntendedChange;
pub use cut::{CutDatabase, CutInfo, NoSnapshot};
pub use output::{SnapshotOutcome, SnapshotProgress, SnapshotWait};
pub use target::{
    COPIED_BYTES, HANDED_BYTES, PIECE_BYTES, PORTION_BYTES, PORTION_RECORDS, SMALL_BYTES,
    STREAMED_BYTES, SnapshotEntry, SnapshotParts, SnapshotPiece, SnapshotRoom, SnapshotTarget,
    Span,
};
pub use unwritten::UnwrittenShare;
pub use walk::{Snapshot, WalkOutcome};

pub(crate) use before::{ChangeManner, Saving};
pub(crate) use state::Current;
