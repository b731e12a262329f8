//! The numbers of keys, readable without a lock: each partition copies its own after a change.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::changes::databases::Db;
use crate::key::{DbIndex, PARTITION_COUNT, PartitionId};

/// The numbers of keys of one database in each partition, readable without locks.
pub struct DatabaseSizes {
    cells: Box<[SizeCell]>,
}

#[derive(Default)]
struct SizeCell {
    keys: AtomicU32,
    with_deadline: AtomicU32,
    timed: AtomicU32,
}

impl Default for DatabaseSizes {
    fn default() -> Self {
        DatabaseSizes { cells: (0..PARTITION_COUNT).map(|_| SizeCell::default()).collect() }
    }
}

impl DatabaseSizes {
    /// Copies the counts, with the partition locked, after any of them has changed.
    #[inline]
    pub(crate) fn publish(&self, partition: PartitionId, db: &Db) {
        let cell = &self.cells[partition.index()];
        debug_assert!(db.table().deadline_count() <= db.table().len(), "of keys");
        debug_assert!(db.timed().len() <= db.table().len(), "of keys");
        cell.keys.store(saturate(db.table().len()), Ordering::Relaxed);
        cell.with_deadline.store(saturate(db.table().deadline_count()), Ordering::Relaxed);
        cell.timed.store(saturate(db.timed().len()), Ordering::Relaxed);
    }

    /// Keys in the whole database.
    pub fn keys(&self) -> u64 {
        self.cells.iter().map(|cell| u64::from(cell.keys.load(Ordering::Relaxed))).sum()
    }

    /// Keys with a deadline in the whole database.
    pub fn with_deadline(&self) -> u64 {
        self.cells.iter().map(|cell| u64::from(cell.with_deadline.load(Ordering::Relaxed))).sum()
    }

    /// Keys whose elements have deadlines of their own, in the whole database.
    pub fn with_timed_elements(&self) -> u64 {
        self.cells.iter().map(|cell| u64::from(cell.timed.load(Ordering::Relaxed))).sum()
    }

    /// Keys whose elements have deadlines, in one partition.
    pub(crate) fn timed_in(&self, partition: PartitionId) -> u32 {
        self.cells[partition.index()].timed.load(Ordering::Relaxed)
    }

    /// Keys in one partition.
    pub fn keys_in(&self, partition: PartitionId) -> u32 {
        self.cells[partition.index()].keys.load(Ordering::Relaxed)
    }

    /// Keys with a deadline in one partition.
    pub fn with_deadline_in(&self, partition: PartitionId) -> u32 {
        self.cells[partition.index()].with_deadline.load(Ordering::Relaxed)
    }
}

fn saturate(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The sizes of all databases; those of a database are allocated when it is first written.
pub(crate) struct AllSizes {
    by_db: Box<[OnceLock<DatabaseSizes>]>,
}

impl AllSizes {
    pub(crate) fn new(databases: u32) -> Self {
        AllSizes { by_db: (0..databases).map(|_| OnceLock::new()).collect() }
    }

    #[inline]
    pub(crate) fn of(&self, db: DbIndex) -> &DatabaseSizes {
        self.by_db[db.index()].get_or_init(DatabaseSizes::default)
    }

    pub(crate) fn if_used(&self, db: DbIndex) -> Option<&DatabaseSizes> {
        self.by_db.get(db.index())?.get()
    }

    pub(crate) fn count(&self) -> u32 {
        saturate(self.by_db.len())
    }
}
