//! One lock stripe: its tables, and who waits for its keys.
//!
//! Everything here is touched only with the partition's lock held, so it is plain single-threaded
//! code. What must be readable without the lock (how many keys there are) is copied to
//! [`Sizes`] after each change.

use std::collections::{HashMap, VecDeque};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use pantala_table::Table;
use pantala_values::Object;

use crate::key::{DbIndex, PARTITION_COUNT, PartitionId};
use crate::ticket::Ticket;

/// The part of one logical database that lies in one partition.
#[derive(Default)]
pub struct Db {
    /// Its records.
    pub table: Table<Object>,
}

/// See the module.
#[derive(Default)]
pub struct Partition {
    first: Db,
    others: Vec<Db>,
    /// Connections that wait for something to appear under a key.
    pub(crate) waiters: Waiters,
}

impl Partition {
    /// The part of database `index` here; made on first use.
    #[inline]
    pub fn db(&mut self, index: DbIndex) -> &mut Db {
        self.db_and_waiters(index).0
    }

    #[inline]
    pub(crate) fn db_and_waiters(&mut self, index: DbIndex) -> (&mut Db, &mut Waiters) {
        let db = match index.index() {
            0 => &mut self.first,
            number => db_at(&mut self.others, number - 1),
        };
        (db, &mut self.waiters)
    }

    /// The part of database `index`, if anything ever used it.
    pub fn db_if_used(&self, index: DbIndex) -> Option<&Db> {
        match index.index() {
            0 => Some(&self.first),
            number => self.others.get(number - 1),
        }
    }

    /// Exchanges two databases.
    pub(crate) fn swap(&mut self, left: DbIndex, right: DbIndex) {
        let taken = std::mem::take(self.db(left));
        let other = std::mem::replace(self.db(right), taken);
        *self.db(left) = other;
    }
}

fn db_at(others: &mut Vec<Db>, number: usize) -> &mut Db {
    if number >= others.len() {
        others.resize_with(number + 1, Db::default);
    }
    &mut others[number]
}

/// Tickets of connections parked on a key (BLPOP and its kin), first come first served.
#[derive(Default)]
pub struct Waiters {
    queues: HashMap<(DbIndex, Box<[u8]>), VecDeque<Ticket>>,
}

impl Waiters {
    /// True while nobody waits: the one look a change pays for.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Puts a ticket at the end of the key's queue.
    pub fn wait(&mut self, db: DbIndex, key: &[u8], ticket: Ticket) {
        self.queues.entry((db, key.into())).or_default().push_back(ticket);
    }

    /// Takes everybody: what they wait for may be anywhere now.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Ticket> {
        std::mem::take(&mut self.queues).into_values().flatten()
    }

    /// Takes everybody who waits for the key, in the order they came.
    pub fn take(&mut self, db: DbIndex, key: &[u8]) -> VecDeque<Ticket> {
        self.queues.remove(&(db, key.into())).unwrap_or_default()
    }
}

/// How many keys one database has in each partition, readable by everybody at any time.
pub struct Sizes {
    cells: Box<[SizeCell]>,
}

#[derive(Default)]
struct SizeCell {
    keys: AtomicU32,
    with_deadline: AtomicU32,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes { cells: (0..PARTITION_COUNT).map(|_| SizeCell::default()).collect() }
    }
}

impl Sizes {
    /// Copies the table's counts; called with the partition locked, after a change of either.
    #[inline]
    pub(crate) fn publish(&self, partition: PartitionId, table: &Table<Object>) {
        let cell = &self.cells[partition.index()];
        cell.keys.store(saturate(table.len()), Ordering::Relaxed);
        cell.with_deadline.store(saturate(table.deadline_count()), Ordering::Relaxed);
    }

    /// Keys in the whole database.
    pub fn keys(&self) -> u64 {
        self.cells.iter().map(|cell| u64::from(cell.keys.load(Ordering::Relaxed))).sum()
    }

    /// Keys with a deadline in the whole database.
    pub fn with_deadline(&self) -> u64 {
        self.cells.iter().map(|cell| u64::from(cell.with_deadline.load(Ordering::Relaxed))).sum()
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

/// The sizes of all databases; one is made when it is first written.
pub(crate) struct AllSizes {
    by_db: Box<[OnceLock<Sizes>]>,
}

impl AllSizes {
    pub(crate) fn new(databases: u32) -> Self {
        AllSizes { by_db: (0..databases).map(|_| OnceLock::new()).collect() }
    }

    #[inline]
    pub(crate) fn of(&self, db: DbIndex) -> &Sizes {
        self.by_db[db.index()].get_or_init(Sizes::default)
    }

    pub(crate) fn if_used(&self, db: DbIndex) -> Option<&Sizes> {
        self.by_db.get(db.index())?.get()
    }

    pub(crate) fn count(&self) -> u32 {
        saturate(self.by_db.len())
    }
}
