//! The wait of a command for a snapshot.

use crate::key::PartitionId;

/// A command's wait for one of its keys to be written, or for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotWait {
    id: PartitionId,
    /// The counters it has seen: values of the partition that were written, and times that room was
    /// made.
    seen: (u32, u32),
}

impl SnapshotWait {
    pub(crate) fn new(id: PartitionId, version: u32, room: u32) -> Self {
        SnapshotWait { id, seen: (version, room) }
    }

    /// The partition of the key.
    pub fn partition(&self) -> PartitionId {
        self.id
    }

    pub(crate) fn seen(&self) -> (u32, u32) {
        self.seen
    }
}
