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
use crate::key::{DbIndex, Key, PARTITION_COUNT, PartitionId};
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
    /// The partition the command at hand most likely means.
    pub(crate) at: usize,
    /// The set of partitions held by a group; empty otherwise.
    pub(crate) members: [u64; PARTITION_COUNT / 64],
    /// Behind `held`, so that it is dropped, and wakes, after the locks are free.
    pub(crate) woken: Woken,
}

impl<'k> Locked<'k> {
    #[inline]
    pub(crate) fn new(held: SmallVec<[(PartitionId, Held<'k>); FEW]>, scope: Scope<'k>) -> Self {
        let members = [0; PARTITION_COUNT / 64];
        Locked { held, scope, at: 0, members, woken: Woken::default() }
    }

    /// What the command runs in.
    #[inline]
    pub fn scope(&self) -> &Scope<'k> {
        &self.scope
    }

    /// Turns to another command of a group, whose key lies in the partition at `at`.
    #[inline]
    pub fn turn_to(&mut self, at: usize, scope: Scope<'k>) {
        self.scope = scope;
        self.at = at;
    }

    /// Whether exactly this one partition is held.
    #[inline]
    pub fn holds_only(&self, partition: PartitionId) -> bool {
        matches!(self.held.as_slice(), [(held, _)] if *held == partition)
    }

    /// Takes one more partition if it is free at this moment; where it stands among those held.
    /// Only for groups of commands with one key each: such a set of locks is in no order, so it
    /// never waits. At most [`FEW`] partitions.
    #[inline]
    pub fn try_add(&mut self, id: PartitionId) -> Option<usize> {
        let word = &mut self.members[id.index() / 64];
        let bit = 1 << (id.index() % 64);
        if *word & bit != 0 {
            return self.held.iter().position(|(held, _)| *held == id);
        }
        let held = self.scope.space.partition(id).try_lock()?;
        *word |= bit;
        self.held.push((id, held));
        Some(self.held.len() - 1)
    }

    /// Brings the bucket of a key of the present database near. `at` is what `try_add` answered.
    #[inline]
    pub fn prefetch_bucket(&self, at: usize, hash: u64) {
        if let Some(db) = self.held[at].1.db_if_used(self.scope.db) {
            db.table.prefetch_bucket(hash);
        }
    }

    /// Brings the record of a key near; its bucket should be near by then.
    #[inline]
    pub fn prefetch_record(&self, at: usize, hash: u64) {
        if let Some(db) = self.held[at].1.db_if_used(self.scope.db) {
            db.table.prefetch_record(hash);
        }
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
        if held.get(self.at).is_some_and(|(id, _)| *id == partition) {
            return self.at;
        }
        let found = if held.len() <= FEW {
            held.iter().position(|(id, _)| *id == partition)
        } else {
            held.binary_search_by_key(&partition, |(id, _)| *id).ok()
        };
        found.expect("a command opens only keys its row declares")
    }
}
