//! A watch: the flag by which a client learns that one of its keys has changed; and a set of very
//! many keys that one command watches together.
//!
//! To register each key of such a set in its partition ([`Locked::watch`](crate::Locked::watch))
//! would take longer than to read it. So they are sorted once, with no partition held, and each
//! partition gets one reference. A change looks its key up among those of its partition.
//!
//! Invariants
//! 1. Keys are told apart by their hash, so in rare cases a change of another key counts; a change
//!    of a watched key always does.
//! 2. A change of a key that was not looked at yet ([`WatchSet::has_seen`]) does not count.
//! 3. References to a crowd that was dropped are removed at the partition's next change.
//!
//! Tests: at the foot, and in `commands::long_work::incremental`.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::key::{DbIndex, PARTITION_COUNT, PartitionId};

/// Notices that a key has changed: for WATCH, and for values that are read in steps. One for a
/// transaction and all its keys.
#[derive(Debug, Default)]
pub struct Watch {
    is_touched: AtomicBool,
}

impl Watch {
    /// Whether one of its keys has changed. Reliable while their partitions are held.
    pub fn is_touched(&self) -> bool {
        self.is_touched.load(Ordering::Acquire)
    }

    pub(crate) fn touch(&self) {
        self.is_touched.store(true, Ordering::Release);
    }
}

/// A sorted set of very many keys that one command watches together, shared by all partitions
/// concerned.
pub struct WatchSet {
    db: DbIndex,
    /// Hash and position in the command of each key, sorted by partition, then hash.
    keys: Vec<(u64, u32)>,
    /// The start of each partition's keys, and the end.
    starts: Vec<u32>,
    /// Keys at positions before this one have been looked at.
    seen: AtomicUsize,
    watch: Watch,
}

impl WatchSet {
    /// A crowd of the keys with these hashes, none of them looked at yet.
    pub fn of(db: DbIndex, hashes: impl Iterator<Item = u64>) -> WatchSet {
        let mut keys: Vec<(u64, u32)> = hashes.zip(0..).collect();
        keys.sort_unstable_by_key(|(hash, nth)| (PartitionId::of(*hash), *hash, *nth));
        let mut starts = vec![0; PARTITION_COUNT + 1];
        for (hash, _) in &keys {
            starts[PartitionId::of(*hash).index() + 1] += 1;
        }
        for at in 0..PARTITION_COUNT {
            starts[at + 1] += starts[at];
        }
        debug_assert_eq!(starts[PARTITION_COUNT] as usize, keys.len(), "all keys are somewhere");
        WatchSet { db, keys, starts, seen: AtomicUsize::new(0), watch: Watch::default() }
    }

    /// Notes that the first `count` keys have been looked at. Their partitions are held.
    pub fn has_seen(&self, count: usize) {
        self.seen.store(count, Ordering::Relaxed);
    }

    /// Whether a key that was looked at has changed since. Reliable while their partitions are
    /// held.
    pub fn is_touched(&self) -> bool {
        self.watch.is_touched()
    }

    /// Whether it has keys in this partition.
    pub(crate) fn concerns(&self, id: PartitionId) -> bool {
        self.starts[id.index()] < self.starts[id.index() + 1]
    }

    /// A key has changed; its partition is held.
    fn changed(&self, db: DbIndex, hash: u64) {
        let at = PartitionId::of(hash).index();
        let there = &self.keys[self.starts[at] as usize..self.starts[at + 1] as usize];
        debug_assert!(there.is_sorted(), "in the order of hashes");
        let first = there.partition_point(|(other, _)| *other < hash);
        let is_seen = there.get(first).is_some_and(|(other, nth)| {
            *other == hash && (*nth as usize) < self.seen.load(Ordering::Relaxed)
        });
        if is_seen && db == self.db {
            self.watch.touch();
        }
    }

    /// All keys may have changed.
    fn all_changed(&self) {
        self.watch.touch();
    }
}

/// The crowds that watch keys of one partition.
#[derive(Default)]
pub(crate) struct WatchSets(Vec<Weak<WatchSet>>);

impl WatchSets {
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn add(&mut self, crowd: Weak<WatchSet>) {
        self.0.push(crowd);
    }

    pub fn remove(&mut self, crowd: &Weak<WatchSet>) {
        self.0.retain(|other| !other.ptr_eq(crowd));
    }

    /// The key with this hash has changed.
    pub fn touch(&mut self, db: DbIndex, hash: impl Fn() -> u64) {
        self.0.retain(|crowd| {
            let Some(crowd) = crowd.upgrade() else { return false };
            crowd.changed(db, hash());
            true
        });
    }

    /// Whole databases have changed.
    pub fn touch_all(&mut self) {
        self.0.drain(..).filter_map(|crowd| crowd.upgrade()).for_each(|crowd| crowd.all_changed());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_was_looked_at_counts() {
        // The fourth is the second again; all but the last lie in partition 5.
        let hashes = [5, 5 + (9 << 10), 5 + (3 << 10), 5 + (9 << 10), 77];
        for (changed, seen, counts) in [
            (5, 0, false),
            (5, 1, true),
            (5 + (9 << 10), 1, false),
            (5 + (9 << 10), 2, true),
            (5 + (3 << 10), 5, true),
            (5 + (4 << 10), 5, false),
            (77, 4, false),
            (77, 5, true),
            (78, 5, false),
        ] {
            let crowd = Arc::new(WatchSet::of(DbIndex(2), hashes.into_iter()));
            crowd.has_seen(seen);
            let mut crowds = WatchSets::default();
            crowds.add(Arc::downgrade(&crowd));
            crowds.touch(DbIndex(1), || changed);
            assert!(!crowd.is_touched(), "another database");
            crowds.touch(DbIndex(2), || changed);
            assert_eq!(crowd.is_touched(), counts, "{changed} of {seen}");
        }
        let crowd = WatchSet::of(DbIndex(0), hashes.into_iter());
        let concerned: Vec<u16> =
            PartitionId::all().filter(|id| crowd.concerns(*id)).map(|id| id.0).collect();
        assert_eq!(concerned, [5, 77]);
    }

    #[test]
    fn what_nobody_has_any_more_goes() {
        let (mut crowds, crowd) =
            (WatchSets::default(), Arc::new(WatchSet::of(DbIndex(0), [1].into_iter())));
        crowds.add(Arc::downgrade(&crowd));
        crowds.touch(DbIndex(0), || 9);
        assert_eq!(crowds.len(), 1);
        drop(crowd);
        crowds.touch(DbIndex(0), || 9);
        assert_eq!(crowds.len(), 0);
    }
}
