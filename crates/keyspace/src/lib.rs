//! The keyspace: 1,024 partitions, and the one way into them.
//!
//! ```text
//! key --hash--> partition (low 10 bits) --lock--> Db (one a logical database) --> Dash table
//! ```
//!
//! A command names its keys, [`LockPlan`] says which partitions these are, and [`Keyspace::lock`]
//! takes all of them or none. Everything inside is single-threaded code. Operations that need
//! everyone else outside (FLUSHALL, SWAPDB) go through the [`Gate`].
//!
//! Invariants
//! 1. A key is found only in the partition its hash names, in every database (debug builds check
//!    that a key comes with its own hash).
//! 2. Locks are taken all or none. Only the holder of the [`WaitToken`] waits for one partition
//!    while holding others: see `access/token`. No worker ever waits (checked in debug builds): see
//!    `access/may_wait`.
//! 3. A thread holds partitions for one command at a time (checked in debug builds): `access/held`.
//! 4. Every change of data is announced before it is made and published after: `changes/change`.
//!
//! Not here: commands, replies, connections; threads; the time of day, which is an argument
//! (waiting and the sweep measure durations with clocks of their own).
//! Tests: at the foot of each file, and `tests/` (the debug checks of 1 and 4: `funnel`; strict
//! serialisability is checked from outside, in compat).

#![forbid(unsafe_code)]

mod access;
mod changes;
mod crowd;
mod key;
mod lifetime;
mod partition;
pub mod pins;
pub mod snapshot;
mod tally;
mod whole;

use std::any::Any;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use pantala_base::hash::HashSeed;
use pantala_base::rng::Rng;
use pantala_sync::gate::{Gate, LaneSeats};
use pantala_sync::lock::PartitionLock;
use pantala_table::{DiscardedValue, OwnedRecord, Table};
use pantala_values::Object;
use smallvec::SmallVec;

pub use access::locked::{Locked, PREFETCHED, Scope};
pub use access::may_wait::{Aborted, LONG_WAIT, LongWaitObserver, WaitTarget, WorkerMark};
pub use access::opened::{Expiry, OpenKey, SuspendedChange, WrongType};
pub use access::plan::LockPlan;
pub use access::ticket::{Inbox, ReadyKey, ThreadWaker, Ticket, Waiter};
pub use access::token::WaitToken;
pub use access::visit::VisitFailure;
pub use changes::change::{ChangeAudience, ChangeObserver, Db, KeyChange};
pub use changes::effects::{
    ChangeSink, ClientId, Effect, Effects, EventMask, Readers, TrackedCounts,
};
pub use changes::event;
pub use changes::undo::UndoLimits;
pub use crowd::WatchSet;
pub use key::{DbIndex, Key, PARTITION_COUNT, PartitionId};
pub use lifetime::evict::{EvictionResult, GarbageInTransit};
pub use lifetime::expiry::HideReason;
pub use lifetime::sweep::{Sweep, SweepResult, Sweeper};
pub use partition::{DatabaseSizes, Partition, Waiters, Watch};
pub use tally::{Count, CountClass, Tally};
pub use whole::renewal::{RenewalResult, RenewalWalk};
pub use whole::walk::{Busy, ScanCursor, WalkedKey};

pub use pantala_table::{Choice, First};

use access::held::AllHeld;
use access::{locked, may_wait};
use lifetime::evict::{Eviction, PendingGarbage};
use lifetime::expiry::HideReasons;
use lifetime::own::OwnDeadlines;
use partition::AllSizes;
use pins::{AllPins, WaitReasons};
use snapshot::Current;

/// How often a thread that may wait lets go of everything because one partition is busy. After that
/// it takes the token, keeps what it has and waits for the next: it holds up others, but it comes
/// to its end.
pub const ALL_OR_NONE_TRIES: u32 = 16;

/// A larger value is freed in the background: above this the allocator returns pages.
const BACKGROUND_FREE_BYTES: usize = 64 << 10;

/// Data that is not needed any more and waits to be freed.
pub enum Garbage {
    /// A removed key.
    Record(OwnedRecord<Object>),
    /// A value that was overwritten.
    Value(DiscardedValue<Object>),
    /// The tables of flushed databases.
    Tables(Vec<Table<Object>>),
    /// A large reply that was sent.
    Bytes(Vec<u8>),
}

/// How many tables of flushed databases are freed as one piece.
const TABLES_PER_PIECE: usize = 32;

impl Garbage {
    /// Allocated bytes; for tables approximately.
    fn bytes(&self) -> usize {
        match self {
            Garbage::Record(record) => record.bytes(),
            Garbage::Value(value) => value.bytes(),
            Garbage::Tables(tables) => tables.iter().map(Table::estimated_bytes).sum(),
            Garbage::Bytes(bytes) => bytes.capacity(),
        }
    }
}

/// Frees garbage on a thread that may take its time.
pub trait Reclaimer: Send + Sync {
    /// Takes the garbage, to drop it; must not block.
    fn reclaim(&self, garbage: GarbageInTransit);
}

/// The parameters of a new keyspace.
pub struct KeyspaceConfig {
    /// The secret seed of the hash.
    pub seed: HashSeed,
    /// The number of logical databases.
    pub databases: u32,
    /// Slots of the gate for workers.
    pub worker_slots: usize,
    /// Slots of the gate for threads of the slow lane.
    pub lane_slots: usize,
}

/// The data of a server: all partitions of all databases, with their locks, sizes and waiters.
pub struct Keyspace {
    seed: HashSeed,
    partitions: Box<[PartitionLock<Partition, Ticket>]>,
    pub(crate) sizes: AllSizes,
    gate: Gate,
    reclaimer: OnceLock<Box<dyn Reclaimer>>,
    observer: OnceLock<Box<dyn LongWaitObserver>>,
    change_sink: OnceLock<Box<dyn ChangeSink>>,
    /// What the change sink wants to hear. Read at every change, so it is beside fields that do not
    /// change.
    wanted: AtomicU32,
    /// The reasons to hide expired keys, if any.
    pub(crate) hidden: HideReasons,
    /// Deadlines that clients of a replica have set.
    pub(crate) own_deadlines: OwnDeadlines,
    tracked: Arc<TrackedCounts>,
    pub(crate) sweep: Sweep,
    pub(crate) eviction: Eviction,
    pub(crate) pending: Arc<PendingGarbage>,
    /// The running snapshot, if any.
    pub(crate) snapshot: Current,
    /// The reasons for which writers ask first.
    pub(crate) asking: WaitReasons,
    /// Pinned keys.
    pub(crate) pins: Arc<AllPins>,
    draws: AtomicU64,
    /// The right to wait for a partition while holding others.
    pub(crate) token: PartitionLock<(), Ticket>,
    waited_keys: Arc<AtomicUsize>,
    arrivals: AtomicU64,
    watching_clients: Arc<AtomicUsize>,
}

impl Keyspace {
    /// An empty keyspace.
    pub fn new(config: KeyspaceConfig) -> Self {
        pantala_values::dense::set_seed(config.seed);
        let waited_keys = Arc::new(AtomicUsize::new(0));
        let tracked = Arc::<TrackedCounts>::default();
        let partition =
            || PartitionLock::new(Partition::new(Arc::clone(&waited_keys), Arc::clone(&tracked)));
        Keyspace {
            seed: config.seed,
            partitions: (0..PARTITION_COUNT).map(|_| partition()).collect(),
            waited_keys,
            arrivals: AtomicU64::new(0),
            watching_clients: Arc::default(),
            sizes: AllSizes::new(config.databases),
            gate: Gate::new(config.worker_slots, config.lane_slots),
            reclaimer: OnceLock::new(),
            observer: OnceLock::new(),
            change_sink: OnceLock::new(),
            wanted: AtomicU32::new(0),
            hidden: HideReasons::default(),
            own_deadlines: OwnDeadlines::default(),
            tracked,
            sweep: Sweep::default(),
            eviction: Eviction::default(),
            pending: Arc::default(),
            snapshot: Current::default(),
            asking: WaitReasons::default(),
            pins: Arc::default(),
            draws: AtomicU64::new(0),
            token: PartitionLock::new(()),
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

    /// A random generator for one command: each call returns another one, and the sequence is the
    /// same when a run is repeated with the same seed.
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

    /// Waits until the threads that stayed inside the gate have left it once, with the gate open
    /// for others.
    pub(crate) fn await_leaving(&self, occupied: &LaneSeats) -> Result<(), Aborted> {
        let observer = self.observer.get();
        let is_aborted = || self.is_aborted(WaitTarget::Gate);
        observer.inspect(|observer| observer.wait_started());
        let have_left = self.gate.await_leaving(occupied, &is_aborted);
        observer.inspect(|observer| observer.wait_ended());
        if have_left { Ok(()) } else { Err(Aborted(WaitTarget::Gate)) }
    }

    /// Whether this has been held for too long to be waited for.
    pub(crate) fn is_aborted(&self, awaited: WaitTarget) -> bool {
        self.observer.get().is_some_and(|observer| observer.is_aborted(awaited))
    }

    /// Sets the observer of long waits; once, at the start.
    pub fn set_long_wait_observer(&self, observer: Box<dyn LongWaitObserver>) {
        let _already = self.observer.set(observer);
    }

    /// Sets what frees large values; once, at the start.
    pub fn set_reclaimer(&self, reclaimer: Box<dyn Reclaimer>) {
        let _already = self.reclaimer.set(reclaimer);
    }

    /// Sets the sink of changes; once. It is told of none until [`Keyspace::want`].
    pub fn set_change_sink(&self, change_sink: Box<dyn ChangeSink>) {
        let _already = self.change_sink.set(change_sink);
    }

    pub(crate) fn change_sink(&self) -> Option<&dyn ChangeSink> {
        self.change_sink.get().map(Box::as_ref)
    }

    /// Sets what the change sink wants to hear.
    pub fn want(&self, wanted: EventMask) {
        self.wanted.store(wanted.0, Ordering::SeqCst);
    }

    /// What the change sink wants to hear.
    #[inline]
    pub fn wanted(&self) -> EventMask {
        EventMask(self.wanted.load(Ordering::Relaxed))
    }

    /// How many keys are tracked for clients.
    pub fn tracked(&self) -> &TrackedCounts {
        &self.tracked
    }

    /// The key counts of one database, if it was ever used.
    pub fn sizes(&self, db: DbIndex) -> Option<&DatabaseSizes> {
        self.sizes.if_used(db)
    }

    pub(crate) fn partition(&self, id: PartitionId) -> &PartitionLock<Partition, Ticket> {
        &self.partitions[id.index()]
    }

    /// Takes one partition, after a few attempts. `Err`: it is busy; park there.
    #[inline]
    pub fn lock_one<'k>(&'k self, id: PartitionId, scope: Scope<'k>) -> Result<Locked<'k>, Busy> {
        let held = self.partition(id).spin_lock().ok_or(Busy(id))?;
        let held = smallvec::smallvec![(id, held)];
        Ok(Locked::new(AllHeld::of(held), scope))
    }

    /// Prefetches the bucket of a key, if its partition is free now.
    #[inline]
    pub fn prefetch_bucket(&self, db: DbIndex, hash: u64) {
        if let Some(held) = self.partition(PartitionId::of(hash)).try_lock()
            && let Some(part) = held.db_if_used(db)
        {
            part.table().prefetch_bucket(hash);
        }
    }

    /// Prefetches the record of a key; its bucket should have been prefetched before.
    #[inline]
    pub fn prefetch_record(&self, db: DbIndex, hash: u64) {
        if let Some(held) = self.partition(PartitionId::of(hash)).try_lock()
            && let Some(part) = held.db_if_used(db)
        {
            part.table().prefetch_record(hash);
        }
    }

    /// Takes nothing: for commands without keys, and to begin a group ([`Locked::try_add`]).
    #[inline]
    pub fn lock_none<'k>(&'k self, scope: Scope<'k>) -> Locked<'k> {
        Locked::new(AllHeld::default(), scope)
    }

    /// Takes all partitions of the plan or none. `Err`: this one is busy; park there.
    pub fn lock<'k>(&'k self, plan: &LockPlan, scope: Scope<'k>) -> Result<Locked<'k>, Busy> {
        let mut locked = self.lock_none(scope);
        locked.take(plan)?;
        Ok(locked)
    }

    /// Takes all partitions of the plan, waiting for them, however long. Only for threads that may
    /// block, and where no client waits for the result.
    pub fn lock_waiting<'k>(&'k self, plan: &LockPlan, scope: Scope<'k>) -> Locked<'k> {
        loop {
            if let Ok(locked) = self.lock_or_abort(plan, scope) {
                return locked;
            }
            std::thread::sleep(LONG_WAIT);
        }
    }

    /// Takes all partitions of the plan, waiting for them. Only for threads that may block.
    ///
    /// # Errors
    /// One of them has been held for too long; nothing is held.
    pub fn lock_or_abort<'k>(
        &'k self,
        plan: &LockPlan,
        scope: Scope<'k>,
    ) -> Result<Locked<'k>, Aborted> {
        Ok(Locked::new(self.hold_all(plan)?, scope))
    }

    pub(crate) fn hold_all(&self, plan: &LockPlan) -> Result<AllHeld<'_>, Aborted> {
        may_wait::check();
        for _ in 0..ALL_OR_NONE_TRIES {
            match self.try_hold_all(plan) {
                Ok(held) => return Ok(held),
                Err(busy) => self.wait_for(busy)?,
            }
        }
        let _token = self.wait_for_token()?;
        self.hold_each(plan)
    }

    /// Takes the partitions one after the other, keeping those it has. Only with the token.
    pub(crate) fn hold_each(&self, plan: &LockPlan) -> Result<AllHeld<'_>, Aborted> {
        let each = plan.partitions().iter().map(|&id| Ok((id, self.hold(id)?)));
        each.collect::<Result<_, _>>().map(AllHeld::of)
    }

    fn try_hold_all(&self, plan: &LockPlan) -> Result<AllHeld<'_>, Busy> {
        let mut held = SmallVec::with_capacity(plan.partitions().len());
        for &id in plan.partitions() {
            held.push((id, self.partition(id).spin_lock().ok_or(Busy(id))?));
        }
        Ok(AllHeld::of(held))
    }

    /// Takes one partition, waiting for it. Only for threads that may block.
    pub(crate) fn hold(&self, id: PartitionId) -> Result<locked::Held<'_>, Aborted> {
        may_wait::check();
        loop {
            match self.partition(id).spin_lock() {
                Some(held) => return Ok(held),
                None => self.wait_for(Busy(id))?,
            }
        }
    }

    /// Takes one partition, waiting for it, however long. Only for threads that may block.
    pub(crate) fn hold_at_last(&self, id: PartitionId) -> locked::Held<'_> {
        may_wait::check();
        loop {
            match self.partition(id).spin_lock() {
                Some(held) => return held,
                None => self.wait_long_for(Busy(id)),
            }
        }
    }

    /// Sleeps until a busy partition was freed once. Only on threads that may block.
    ///
    /// # Errors
    /// It has been held for too long, or other work needs the thread.
    pub fn wait_for(&self, busy: Busy) -> Result<(), Aborted> {
        let is_aborted = || self.is_aborted(WaitTarget::Partition(busy.0));
        let is_crowded = || self.observer.get().is_some_and(|observer| observer.is_crowded());
        self.wait_while(busy, &is_aborted, &|| is_aborted() || is_crowded())
    }

    /// Like [`Keyspace::wait_for`], for a caller that holds other partitions meanwhile.
    ///
    /// # Errors
    /// It has been held for too long.
    pub(crate) fn wait_holding(&self, busy: Busy) -> Result<(), Aborted> {
        let is_aborted = || self.is_aborted(WaitTarget::Partition(busy.0));
        self.wait_while(busy, &is_aborted, &is_aborted)
    }

    /// Sleeps until a busy partition was freed once, however long that takes: for a command that
    /// cannot be undone. Only on threads that may block.
    pub fn wait_long_for(&self, busy: Busy) {
        let waited = self.wait_while(busy, &|| false, &|| false);
        debug_assert!(waited.is_ok(), "nothing ends it but the partition");
    }

    fn wait_while(
        &self,
        busy: Busy,
        should_give_up: &dyn Fn() -> bool,
        has_lasted: &dyn Fn() -> bool,
    ) -> Result<(), Aborted> {
        may_wait::check();
        let Busy(id) = busy;
        let waker = ThreadWaker::for_this_thread();
        let has_waited = self.partition(id).park(Ticket::Thread(waker.clone())).is_err()
            || self.wait_at(&waker, should_give_up, has_lasted);
        if has_waited { Ok(()) } else { Err(Aborted(WaitTarget::Partition(id))) }
    }

    /// Sleeps until the waker is called; false if it gave up: before sleeping because of
    /// `should_give_up`, or later because of `has_lasted`.
    pub(crate) fn wait_at(
        &self,
        waker: &ThreadWaker,
        should_give_up: &dyn Fn() -> bool,
        has_lasted: &dyn Fn() -> bool,
    ) -> bool {
        if should_give_up() {
            return false;
        }
        if waker.wait_at_most(LONG_WAIT) {
            return true;
        }
        let observer = self.observer.get();
        observer.inspect(|observer| observer.wait_started());
        let was_called = loop {
            if has_lasted() {
                break false;
            }
            if waker.wait_at_most(LONG_WAIT) {
                break true;
            }
        };
        observer.inspect(|observer| observer.wait_ended());
        was_called
    }

    /// Leaves a ticket with a busy partition. `Err`: it is free by now, try again.
    pub fn park(&self, busy: Busy, ticket: Ticket) -> Result<(), Ticket> {
        self.partition(busy.0).park(ticket)
    }

    /// Frees a removed record: here if that is quick, otherwise in the background.
    pub(crate) fn discard(&self, record: OwnedRecord<Object>, tally: &Tally) {
        if record.bytes() > BACKGROUND_FREE_BYTES {
            self.reclaim(Garbage::Record(record), tally);
        }
    }

    /// Frees a replaced value in the background: the table hands out only those that are costly to
    /// free.
    pub(crate) fn discard_value(&self, value: DiscardedValue<Object>, tally: &Tally) {
        self.reclaim(Garbage::Value(value), tally);
    }

    /// The arrival number for a command that begins to block, while the partitions of its keys are
    /// held: so they ascend in each queue.
    pub fn next_arrival(&self) -> u64 {
        self.arrivals.fetch_add(1, Ordering::Relaxed)
    }

    /// How many keys have blocked clients.
    pub fn waited_keys(&self) -> usize {
        self.waited_keys.load(Ordering::Relaxed)
    }

    /// How many keys have a blocked client whose request `is_meant` accepts. Never waits: busy
    /// partitions are left out.
    pub fn waited_keys_where(&self, is_meant: &dyn Fn(&dyn Any) -> bool) -> usize {
        if self.waited_keys() == 0 {
            return 0;
        }
        let held = PartitionId::all().filter_map(|id| self.partition(id).try_lock());
        held.map(|held| held.rest.waiters.waited_keys_where(is_meant)).sum()
    }

    /// The number of clients that watch keys; each counts itself.
    pub fn watching_clients(&self) -> &Arc<AtomicUsize> {
        &self.watching_clients
    }

    /// How many keys are watched. Never waits: busy partitions are left out.
    pub fn watched_keys(&self) -> usize {
        if self.watching_clients.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let held = PartitionId::all().filter_map(|id| self.partition(id).try_lock());
        held.map(|held| held.rest.waiters.watched_keys()).sum()
    }

    /// Removes an ended waiter from a key's queue.
    ///
    /// # Errors
    /// The partition is busy.
    pub fn forget_waiter(
        &self,
        db: DbIndex,
        key: Key<'_>,
        waiter: &Arc<Waiter>,
    ) -> Result<(), Busy> {
        let id = PartitionId::of(key.hash);
        let mut held = self.partition(id).spin_lock().ok_or(Busy(id))?;
        held.rest.waiters.forget(db, key.bytes, waiter);
        Ok(())
    }

    /// Hands garbage to the background reclaimer; without one it is freed here.
    pub(crate) fn reclaim(&self, garbage: Garbage, tally: &Tally) {
        tally.reclaimed.add(1);
        let Some(reclaimer) = self.reclaimer.get() else { return };
        match garbage {
            // In pieces, so that the pending amount stays current while they are freed.
            Garbage::Tables(mut tables) => {
                while !tables.is_empty() {
                    let part = tables.split_off(tables.len().saturating_sub(TABLES_PER_PIECE));
                    reclaimer.reclaim(GarbageInTransit::new(Garbage::Tables(part), &self.pending));
                }
            }
            other => reclaimer.reclaim(GarbageInTransit::new(other, &self.pending)),
        }
    }
}
