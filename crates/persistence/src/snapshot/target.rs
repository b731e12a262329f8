//! Writes the keys that the walkers of a snapshot copy, as RDB.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use pantala_base::UnixMs;
use pantala_keyspace::snapshot::{
    SnapshotEntry, SnapshotParts, SnapshotPiece, SnapshotRoom, SnapshotTarget,
};
use pantala_rdb::file::{EntryWriting, OLDEST_WRITTEN, write_entry};
use pantala_rdb::{Style, write_flags};
use pantala_table::ValueRef;
use pantala_values::Object;

use super::queue::SnapshotQueue;

/// Encodes keys as RDB and puts them into the queue.
pub struct RdbTarget {
    queue: Arc<SnapshotQueue>,
    style: Style,
    /// Elements that have expired by this time are left out.
    now: UnixMs,
    /// The RDB version that the entries written so far need.
    version: AtomicU16,
}

impl RdbTarget {
    /// A target that puts its pieces into this queue.
    pub fn new(queue: Arc<SnapshotQueue>, style: Style, now: UnixMs) -> RdbTarget {
        RdbTarget { queue, style, now, version: AtomicU16::new(OLDEST_WRITTEN) }
    }

    /// The RDB version that the entries written so far need.
    pub fn version(&self) -> u16 {
        self.version.load(Ordering::Relaxed)
    }

    /// Writes Memcached's flags, which other servers refuse.
    fn write_flags(&self, flags: u32, out: &mut Vec<u8>) {
        if !self.style.is_portable {
            write_flags(flags, out);
        }
    }

    fn needs(&self, version: u16) {
        // Mostly it is the oldest version, and nothing shared is written.
        if version > OLDEST_WRITTEN {
            self.version.fetch_max(version, Ordering::Relaxed);
        }
    }
}

impl SnapshotTarget for RdbTarget {
    fn write(&self, entry: &SnapshotEntry<'_>, out: &mut Vec<u8>) {
        let SnapshotEntry { key, deadline, value, flags, .. } = entry;
        self.write_flags(*flags, out);
        self.needs(write_entry(key, *deadline, value, self.now, self.style, out));
    }

    fn begin(&self, entry: &SnapshotEntry<'_>, out: &mut Vec<u8>) -> Box<dyn SnapshotParts> {
        let SnapshotEntry { key, deadline, value, flags, .. } = entry;
        self.write_flags(*flags, out);
        let writing = EntryWriting::begin(key, *deadline, value, self.now, self.style, out);
        self.needs(writing.version());
        Box::new(Parts(writing))
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

struct Parts(EntryWriting);

impl SnapshotParts for Parts {
    fn go_on(
        &mut self,
        value: &ValueRef<'_, Object>,
        most_bytes: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        self.0.go_on(value, most_bytes, out)
    }
}
