//! Keys as the commands that make them: the base of an append-only file without a snapshot
//! (`aof-use-rdb-preamble no`), as Redis writes it.
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
//! What others do not know is told aside (`pantala_commands::for_ours`): they do nothing there.
//!
//! And PEXPIREAT at last, where the key has a deadline. A command has up to `MOST_ELEMENTS`. What
//! of a stream is pending and not in it any more is lost, as in Redis: XCLAIM makes no such thing.
//!
//! | file | what |
//! |---|---|
//! | `batch` | commands of several elements |
//! | `value` | a value, in parts |
//! | `stream` | a stream, in parts |
//!
//! Invariants
//! 1. Commands of a key follow each other, and none is in two pieces but a string's SET.
//! 2. A part ends where it has about as many bytes as were asked for, or with an element.
//!
//! Tests: at the foot of `value`; the server's `tests/append_only.rs` (replayed);
//! `compat/clients/commands_base.py` (loaded by other servers).

mod batch;
mod stream;
mod value;

use std::sync::Arc;

use pantala_base::UnixMs;
use pantala_keyspace::snapshot::{Piece, Room, SnapshotEntry, SnapshotParts, SnapshotTarget};

use crate::snapshot::Queue;

pub use value::{Style, Writing};

/// For whoever walks the keyspace.
pub struct CommandTarget {
    queue: Arc<Queue>,
    style: Style,
}

impl CommandTarget {
    /// One that puts its pieces into this queue, without the elements that have expired at `now`;
    /// without what other servers do not know if it `is_portable`.
    pub fn new(queue: Arc<Queue>, now: UnixMs, is_portable: bool) -> CommandTarget {
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

    fn take(&self, piece: Piece) {
        self.queue.push(piece);
    }

    fn room(&self) -> Room {
        self.queue.room()
    }

    fn has_room_for_parts(&self) -> bool {
        self.queue.has_room_for_parts()
    }
}
