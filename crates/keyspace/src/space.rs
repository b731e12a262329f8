//! The keyspace itself: its partitions, the state that they share, and the observers of changes.

use std::any::Any;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use pantala_base::hash::HashSeed;
use pantala_base::rng::Rng;
use pantala_sync::gate::Gate;
use pantala_sync::lock::PartitionLock;

use crate::access::may_wait::LongWaitObserver;
use crate::access::plan::Busy;
use crate::access::ticket::{Ticket, Waiter};
use crate::changes::effects::{ChangeSink, EventMask, TrackedCounts};
use crate::key::{DbIndex, Key, PARTITION_COUNT, PartitionId};
use crate::lifetime::evict::{Eviction, PendingGarbage};
use crate::lifetime::expiry::HideReasons;
use crate::lifetime::garbage::Reclaimer;
use crate::lifetime::own::OwnDeadlines;
use crate::lifetime::sweep::Sweep;
use crate::partition::Partition;
use crate::pins::{AllPins, WaitReasons};
use crate::sizes::{AllSizes, DatabaseSizes};
use crate::snapshot::Current;

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
    pub(crate) seed: HashSeed,
    partitions: Box<[PartitionLock<Partition, Ticket>]>,
    pub(crate) sizes: AllSizes,
    pub(crate) gate: Gate,
    pub(crate) reclaimer: OnceLock<Box<dyn Reclaimer>>,
    pub(crate) observer: OnceLock<Box<dyn LongWaitObserver>>,
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
}
