//! Writes keys as the commands that create them: the base of an append-only file without a snapshot
//! (`aof-use-rdb-preamble no`), in Redis's form.
//!
//! | type | commands |
//! |---|---|
//! | string | SET; mc.flags for flags of Memcached (ours) |
//! | list | RPUSH |
//! | set | SADD; SPEXPIREAT for each member with a deadline (ours) |
//! | sorted set | ZADD; ZPEXPIREAT for each member with a deadline (ours) |
//! | hash | HMSET; HPEXPIREAT for each field with a deadline |
//! | stream | XADD, XSETID, XGROUP CREATE, XGROUP CREATECONSUMER, XCLAIM |
//!
//! Commands that other servers do not know are marked as ours (`pantala_commands::for_ours`): other
//! servers ignore them.
//!
//! A key with a deadline ends with PEXPIREAT. A command has up to `MOST_ELEMENTS` elements. Pending
//! entries that are deleted from the stream are lost, as in Redis: XCLAIM cannot create them.
//!
//! | file | what |
//! |---|---|
//! | `batch` | commands of several elements |
//! | `value` | a value, in parts |
//! | `stream` | a stream, in parts |
//!
//! Invariants
//! 1. The commands of a key are contiguous, and only a string's SET may be split into two pieces.
//! 2. A part ends when it has about as many bytes as requested, at an element.
//!
//! Tests: at the foot of `value`; the server's `tests/append_only.rs` (replayed);
//! `compat/clients/commands_base.py` (loaded by other servers).

mod batch;
mod stream;
mod value;

use std::sync::Arc;

use pantala_base::UnixMs;
use pantala_keyspace::snapshot::{
    SnapshotEntry, SnapshotParts, SnapshotPiece, SnapshotRoom, SnapshotTarget,
};

use crate::snapshot::SnapshotQueue;

pub use value::{Style, Writing};

/// Writes keys as commands, for a walk of the keyspace.
pub struct CommandTarget {
    queue: Arc<SnapshotQueue>,
    style: Style,
}

impl CommandTarget {
    /// A target that puts its pieces into `queue`, without the elements that have expired at `now`;
    /// `is_portable`: without commands that other servers do not know.
    pub fn new(queue: Arc<SnapshotQueue>, now: UnixMs, is_portable: bool) -> CommandTarget {
        CommandTarget { queue, style: Style { now, is_portable } }
    }

    fn writing(&self, entry: &SnapshotEntry<'_>) -> Writing {
        let flags = if self.style.is_portable { 0 } else { entry.flags };
        Writing::new(entry.key, entry.deadline, self.style).with_flags(flags)
    }
}

impl SnapshotTarget for CommandTarget {
    fn write(&self, entry: &SnapshotEntry<'_>, out: &mut Vec<u8>) {
        let mut writing = self.writing(entry);
        while !writing.go_on(&entry.value, usize::MAX, out) {}
    }

    fn begin(&self, entry: &SnapshotEntry<'_>, _out: &mut Vec<u8>) -> Box<dyn SnapshotParts> {
        Box::new(self.writing(entry))
    }

    fn take(&self, piece: SnapshotPiece) {
        self.queue.push(piece);
    }

    fn room(&self) -> SnapshotRoom {
        self.queue.room()
    }

    fn has_room_for_parts(&self) -> bool {
        self.queue.has_room_for_parts()
    }
}
