//! What a snapshot hands to its target, and how much at a time.

use std::sync::Arc;

use pantala_base::UnixMs;
use pantala_table::{OwnedRecord, RecordPlace, Table, ValueRef};
use pantala_values::{Object, Type};

use super::unwritten::UnwrittenShare;
use crate::key::DbIndex;

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
const _: () = assert!(SMALL_BYTES <= COPIED_BYTES && COPIED_BYTES <= STREAMED_BYTES, "in order");
const _: () = assert!(PORTION_BYTES <= PIECE_BYTES && PIECE_BYTES < STREAMED_BYTES, "in order");

/// The most bytes that a value of this kind may take to be written or copied by the command that
/// changes it.
pub(crate) fn most_at_once(table: &Table<Object>, place: RecordPlace) -> usize {
    if table.type_tag(place) == Type::String as u8 { COPIED_BYTES } else { SMALL_BYTES }
}

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
    /// The entry of a record in a table.
    pub(super) fn at(table: &'e Table<Object>, place: RecordPlace) -> Self {
        SnapshotEntry {
            key: table.key(place),
            value: table.value(place),
            deadline: table.deadline(place),
            sticky: table.sticky(place),
            flags: table.tail(place).flags,
        }
    }

    /// The entry of a record that has left its table.
    pub(super) fn of(record: &'e OwnedRecord<Object>) -> Self {
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
    pub db: DbIndex,
    pub bytes: Vec<u8>,
    pub keys: u64,
    pub unwritten: UnwrittenShare,
}

impl PendingKeys {
    pub fn new(db: DbIndex) -> PendingKeys {
        PendingKeys { db, bytes: Vec::new(), keys: 0, unwritten: UnwrittenShare::default() }
    }
}

/// A target that several threads write for.
pub(crate) type Target = Arc<dyn SnapshotTarget>;
