//! The keyspace: 1,024 partitions, and the one way into them.
//!
//! ```text
//! key --hash--> partition (low 10 bits) --lock--> Db (one a logical database) --> Dash table
//! ```
//!
//! A command names its keys, [`LockPlan`] says which partitions that is, [`Keyspace::lock`] takes
//! all of them or none. Everything inside is single-threaded code. What must be done with nobody
//! else inside at all (FLUSHALL, SWAPDB) goes through the [`Gate`].
//!
//! Invariants
//! 1. A key is found only in the partition its hash names, in every database.
//! 2. Locks are taken in ascending order, all or none; only a thread of the slow lane waits, and
//!    it waits for one partition while holding others only after [`ALL_OR_NONE_TRIES`] failures.
//! 3. A thread holds at most one [`Locked`] at a time (debug builds check).
//! 4. Every change ends in `Opened::publish`.
//!
//! Not here: commands, replies, connections; reading clocks (time is an argument); threads.
//! Tests: at the foot of each file, and `tests/` (strict serialisability is checked from outside,
//! in compat).

#![forbid(unsafe_code)]

pub mod event;
mod key;
mod locked;
mod opened;
mod partition;
mod plan;
mod sweep;
mod tally;
mod ticket;
mod walk;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use pantala_base::hash::HashSeed;
use pantala_base::rng::Rng;
use pantala_sync::gate::Gate;
use pantala_sync::lock::PartitionLock;
use pantala_table::{Discarded, OwnedRecord, Table};
use pantala_values::Object;
use smallvec::SmallVec;

pub use key::{DbIndex, Key, PARTITION_COUNT, PartitionId};
pub use locked::{Locked, Scope};
pub use opened::{Expiry, Opened, WrongType};
pub use partition::{Partition, Sizes, Waiters};
pub use plan::LockPlan;
pub use sweep::{Sweep, Sweeper};
pub use tally::{Count, Tally};
pub use ticket::{Bell, Inbox, Ticket};
pub use walk::{Busy, Met, ScanCursor};

use partition::AllSizes;

/// How often a thread that may wait still lets go of everything when one partition is busy. After
/// that it keeps what it has and waits for the next: it holds up others, but it gets there.
pub const ALL_OR_NONE_TRIES: u32 = 16;

/// A value larger than this is freed in the background: above it the allocator returns pages.
const BACKGROUND_FREE_BYTES: usize = 64 << 10;

/// What nobody needs any more, on its way to be freed.
pub enum Garbage {
    /// A removed key.
    Record(OwnedRecord<Object>),
    /// A value that was overwritten.
    Value(Discarded<Object>),
    /// The tables of flushed databases.
    Tables(Vec<Table<Object>>),
}

/// Somebody who frees garbage on a thread that may take its time.
pub trait Reclaimer: Send + Sync {
    /// Takes the garbage; must not block.
    fn reclaim(&self, garbage: Garbage);
}

/// Somebody who is told of every change, with the partition still locked.
pub trait ChangeListener: Send + Sync {
    /// `key` of `db` has changed. Must be quick and must not take a partition.
    fn changed(&self, db: DbIndex, key: &[u8], event: event::Event);
}

/// How a new keyspace is made.
pub struct Config {
    /// The secret of the hash.
    pub seed: HashSeed,
    /// How many logical databases there are.
    pub databases: u32,
    /// Seats at the gate for workers.
    pub worker_seats: usize,
    /// Seats at the gate for threads of the slow lane.
    pub lane_seats: usize,
}

/// See the module.
pub struct Keyspace {
    seed: HashSeed,
    partitions: Box<[PartitionLock<Partition, Ticket>]>,
    pub(crate) sizes: AllSizes,
    gate: Gate,
    reclaimer: OnceLock<Box<dyn Reclaimer>>,
    listener: OnceLock<Box<dyn ChangeListener>>,
    pub(crate) sweep: Sweep,
    draws: AtomicU64,
}

impl Keyspace {
    /// An empty keyspace.
    pub fn new(config: Config) -> Self {
        Keyspace {
            seed: config.seed,
            partitions: (0..PARTITION_COUNT)
                .map(|_| PartitionLock::new(Partition::default()))
                .collect(),
            sizes: AllSizes::new(config.databases),
            gate: Gate::new(config.worker_seats, config.lane_seats),
            reclaimer: OnceLock::new(),
            listener: OnceLock::new(),
            sweep: Sweep::default(),
            draws: AtomicU64::new(0),
        }
    }

    /// The hash of a key.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.seed.hash(key)
    }

    /// A key with its hash.
    #[inline]
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        Key { bytes, hash: self.hash(bytes) }
    }

    /// A generator for one command that leaves something to chance. Unlike any before it, and the
    /// same again when a run is repeated with the same secret.
    pub fn chance(&self) -> Rng {
        let draw = self.draws.fetch_add(1, Ordering::Relaxed);
        Rng::from_seed(self.seed.hash(&draw.to_le_bytes()))
    }

    /// How many logical databases there are.
    pub fn database_count(&self) -> u32 {
        self.sizes.count()
    }

    /// The gate that workers and the lane pass.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Sets who frees large values; once, at the start.
    pub fn set_reclaimer(&self, reclaimer: Box<dyn Reclaimer>) {
        let _already = self.reclaimer.set(reclaimer);
    }

    /// Sets who hears of changes; once.
    pub fn set_listener(&self, listener: Box<dyn ChangeListener>) {
        let _already = self.listener.set(listener);
    }

    #[inline]
    pub(crate) fn listener(&self) -> Option<&dyn ChangeListener> {
        self.listener.get().map(Box::as_ref)
    }

    /// The counts of one database, if it was ever used.
    pub fn sizes(&self, db: DbIndex) -> Option<&Sizes> {
        self.sizes.if_used(db)
    }

    pub(crate) fn partition(&self, id: PartitionId) -> &PartitionLock<Partition, Ticket> {
        &self.partitions[id.index()]
    }

    /// Takes one partition, looking a few times. `Err`: it is busy; park there.
    #[inline]
    pub fn lock_one<'k>(&'k self, id: PartitionId, scope: Scope<'k>) -> Result<Locked<'k>, Busy> {
        let held = self.partition(id).spin_lock().ok_or(Busy(id))?;
        let held = smallvec::smallvec![(id, held)];
        Ok(Locked::new(held, scope))
    }

    /// Takes nothing: for commands without keys, and to begin a group ([`Locked::try_add`]).
    #[inline]
    pub fn lock_none<'k>(&'k self, scope: Scope<'k>) -> Locked<'k> {
        Locked::new(SmallVec::new(), scope)
    }

    /// Takes all partitions of the plan or none. `Err`: this one is busy; park there.
    pub fn lock<'k>(&'k self, plan: &LockPlan, scope: Scope<'k>) -> Result<Locked<'k>, Busy> {
        let mut held = SmallVec::with_capacity(plan.partitions().len());
        for &id in plan.partitions() {
            held.push((id, self.partition(id).spin_lock().ok_or(Busy(id))?));
        }
        Ok(Locked::new(held, scope))
    }

    /// Takes all partitions of the plan, waiting for them. Only for threads that may block.
    pub fn lock_waiting<'k>(&'k self, plan: &LockPlan, scope: Scope<'k>) -> Locked<'k> {
        for _ in 0..ALL_OR_NONE_TRIES {
            match self.lock(plan, scope) {
                Ok(locked) => return locked,
                Err(busy) => self.wait_for(busy),
            }
        }
        let mut held = SmallVec::with_capacity(plan.partitions().len());
        for &id in plan.partitions() {
            held.push((id, self.hold(id)));
        }
        Locked::new(held, scope)
    }

    /// Takes one partition, waiting for it. Only for threads that may block.
    pub(crate) fn hold(&self, id: PartitionId) -> locked::Held<'_> {
        loop {
            match self.partition(id).spin_lock() {
                Some(held) => return held,
                None => self.wait_for(Busy(id)),
            }
        }
    }

    /// Sleeps until a busy partition was freed once. Only on threads that may block.
    pub fn wait_for(&self, busy: Busy) {
        let Busy(id) = busy;
        let bell = Bell::for_this_thread();
        if self.partition(id).park(Ticket::Thread(bell.clone())).is_ok() {
            bell.wait();
        }
    }

    /// Leaves a ticket with a busy partition. `Err`: it is free by now, try again.
    pub fn park(&self, busy: Busy, ticket: Ticket) -> Result<(), Ticket> {
        self.partition(busy.0).park(ticket)
    }

    /// Frees a removed record: here if that is quick, in the background if not.
    pub(crate) fn discard(&self, record: OwnedRecord<Object>, tally: &Tally) {
        if record.bytes() > BACKGROUND_FREE_BYTES {
            self.reclaim(Garbage::Record(record), tally);
        }
    }

    /// The table hands out only what is costly to free.
    pub(crate) fn discard_value(&self, value: Discarded<Object>, tally: &Tally) {
        self.reclaim(Garbage::Value(value), tally);
    }

    /// Hands garbage to the background; without one it is freed here.
    pub(crate) fn reclaim(&self, garbage: Garbage, tally: &Tally) {
        tally.reclaimed.add(1);
        if let Some(reclaimer) = self.reclaimer.get() {
            reclaimer.reclaim(garbage);
        }
    }
}
