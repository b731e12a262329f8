//! Partitions held by one command, and the keys in them.
//!
//! [`Locked`] is the only way to a partition ([`crate::Keyspace::lock`] makes it). From it a
//! command opens keys one at a time, four ways:
//!
//! | way | counts a hit or miss | touches hotness | for |
//! |---|---|---|---|
//! | `read` | yes | yes | GET and its kin |
//! | `open` | no | yes | commands that change the value |
//! | `look` | yes | no | TTL, TYPE, EXISTS, OBJECT: asking for a key does not make it used |
//! | `peek` | no | no | removing, and looking a second time |
//!
//! All four remove a key whose deadline has passed, so that no command ever sees one.

use pantala_base::UnixMs;
use pantala_sync::lock::Guard;
use smallvec::SmallVec;

use crate::Keyspace;
use crate::key::{DbIndex, Key, PartitionId};
use crate::opened::Opened;
use crate::partition::Partition;
use crate::tally::Tally;
use crate::ticket::{Ticket, Woken};

/// Up to so many partitions may be held in any order, and are looked through one by one.
pub(crate) const FEW: usize = 16;

pub(crate) type Held<'k> = Guard<'k, Partition, Ticket>;

/// What every lookup of a command needs beside the key.
#[derive(Clone, Copy)]
pub struct Scope<'k> {
    /// The keyspace itself.
    pub space: &'k Keyspace,
    /// The logical database the command works in.
    pub db: DbIndex,
    /// The time at which the command runs.
    pub now: UnixMs,
    /// The counters of the thread that runs it.
    pub tally: &'k Tally,
    /// False under CLIENT NO-TOUCH.
    pub touch: bool,
}

/// See the module. Dropping it frees the partitions.
pub struct Locked<'k> {
    pub(crate) held: SmallVec<[(PartitionId, Held<'k>); FEW]>,
    pub(crate) scope: Scope<'k>,
    /// Behind `held`, so that it is dropped, and wakes, after the locks are free.
    pub(crate) woken: Woken,
}

impl<'k> Locked<'k> {
    /// What the command runs in.
    #[inline]
    pub fn scope(&self) -> &Scope<'k> {
        &self.scope
    }

    /// Turns the same locks to another command of the same plan.
    #[inline]
    pub fn rescope(&mut self, scope: Scope<'k>) {
        self.scope = scope;
    }

    /// Whether exactly this one partition is held.
    #[inline]
    pub fn holds_only(&self, partition: PartitionId) -> bool {
        matches!(self.held.as_slice(), [(held, _)] if *held == partition)
    }

    /// Takes one more partition if it is free at this moment. Only for groups of commands with one
    /// key each: such a set of locks is in no order, so it never waits.
    #[inline]
    pub fn try_add(&mut self, id: PartitionId) -> bool {
        if self.held.iter().any(|(held, _)| *held == id) {
            return true;
        }
        match self.scope.space.partition(id).try_lock() {
            Some(held) => {
                self.held.push((id, held));
                true
            }
            None => false,
        }
    }

    /// Brings the bucket of a key of the present database near.
    #[inline]
    pub fn prefetch_bucket(&self, hash: u64) {
        if let Some(db) = self.db_of(hash) {
            db.table.prefetch_bucket(hash);
        }
    }

    /// Brings the record of a key near; its bucket should be near by then.
    #[inline]
    pub fn prefetch_record(&self, hash: u64) {
        if let Some(db) = self.db_of(hash) {
            db.table.prefetch_record(hash);
        }
    }

    #[inline]
    fn db_of(&self, hash: u64) -> Option<&crate::partition::Db> {
        let held = self.partition(PartitionId::of(hash));
        self.held[held].1.db_if_used(self.scope.db)
    }

    /// Opens a key to read its value.
    #[inline]
    pub fn read<'l>(&'l mut self, key: Key<'l>) -> Opened<'l, 'k> {
        let mut opened = self.peek(key);
        opened.count_read();
        opened.touch();
        opened
    }

    /// Opens a key to change it.
    #[inline]
    pub fn open<'l>(&'l mut self, key: Key<'l>) -> Opened<'l, 'k> {
        let mut opened = self.peek(key);
        opened.touch();
        opened
    }

    /// Opens a key to ask about it; counted, but not used.
    #[inline]
    pub fn look<'l>(&'l mut self, key: Key<'l>) -> Opened<'l, 'k> {
        let opened = self.peek(key);
        opened.count_read();
        opened
    }

    /// Opens a key without using it.
    #[inline]
    pub fn peek<'l>(&'l mut self, key: Key<'l>) -> Opened<'l, 'k> {
        self.peek_in(self.scope.db, key)
    }

    /// Opens a key of another database, without using it (COPY, MOVE).
    #[inline]
    pub fn peek_in<'l>(&'l mut self, db: DbIndex, key: Key<'l>) -> Opened<'l, 'k> {
        let partition = PartitionId::of(key.hash);
        let held = self.partition(partition);
        let scope = self.scope;
        let held = &mut self.held[held].1;
        Opened::find(held, &mut self.woken, partition, Scope { db, ..scope }, key)
    }

    /// Where a partition stands among those held. A key outside the plan is a mistake of ours: the
    /// table of commands names every key of a command.
    #[inline]
    fn partition(&self, partition: PartitionId) -> usize {
        let held = self.held.as_slice();
        let found = if held.len() <= FEW {
            held.iter().position(|(id, _)| *id == partition)
        } else {
            held.binary_search_by_key(&partition, |(id, _)| *id).ok()
        };
        found.expect("a command opens only keys its row declares")
    }
}
