//! The result of evicting some keys.

/// The result of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvictionResult {
    /// Bytes of the evicted records.
    pub bytes: usize,
    /// Keys evicted.
    pub keys: usize,
    /// Records looked at that might be evicted.
    pub candidates: usize,
    /// Partitions that took a turn.
    pub partitions: usize,
    /// Of these, partitions that were busy.
    pub busy: usize,
}

impl EvictionResult {
    /// Adds the result of another partition.
    pub(super) fn add(&mut self, other: EvictionResult) {
        self.bytes += other.bytes;
        self.keys += other.keys;
        self.candidates += other.candidates;
        self.partitions += other.partitions;
        self.busy += other.busy;
    }
}
