//! Eviction: removing keys for want of memory, on the threads that need it.
//!
//! ```text
//! used > limit:  next partition, if it is free --> each database --> a few records of one segment
//! ```
//!
//! The partitions take turns, whichever thread evicts and whatever it writes: so a large value
//! costs each a little, and not its own all. The table chooses the records (`pantala_table`,
//! `evict`).
//!
//! Bytes that were handed to the background are not free yet, but will be: they are counted
//! ([`Keyspace::pending_bytes`]), so that nothing is evicted for them again.
//!
//! Invariants
//! 1. It never waits for a partition: a busy one is skipped, and has its turn again later.
//! 2. One call holds one partition at a time, and takes at most [`MOST_VICTIMS`] records of each
//!    database while it holds it.
//! 3. Nothing is evicted for a command that holds partitions, so evictions are never undone.
//! 4. That no key may be evicted is remembered: windows of commands do not search all partitions
//!    again.
//!
//! Not here: how much may be used, how long to go on (the engine). Tests: `tests/eviction.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use pantala_base::UnixMs;
use pantala_base::rng::Rng;
use pantala_table::{Choice, EvictionClock, MOST_VICTIMS};

use crate::access::scope::Scope;
use crate::changes::change::Changes;
use crate::key::{DbIndex, PARTITION_COUNT, PartitionId};
use crate::lifetime::ageing::Rounds;
use crate::lifetime::eviction_result::EvictionResult;
use crate::sizes::DatabaseSizes;
use crate::{Garbage, Keyspace};

const _: () = assert!(MOST_VICTIMS <= 32, "what one lock is held for");

/// The most partitions looked at by one call.
const PARTITIONS_PER_CALL: usize = 64;

/// If fewer keys were evicted in a lap of all partitions, few are left that may be.
const POOR_LAP: u64 = 32;

/// The state of eviction, shared by all threads.
#[derive(Default)]
pub(crate) struct Eviction {
    /// The number of turns taken so far by partitions.
    turn: AtomicU64,
    /// Keys evicted in the current lap of all partitions.
    lap: AtomicU64,
    /// How many partitions in a row had no key that may be evicted.
    barren: AtomicU64,
    /// The largest number of records among which none might be evicted.
    barren_among: AtomicU64,
    /// The previous lap evicted fewer than `POOR_LAP` keys.
    was_poor: AtomicBool,
    /// Statistics of what the tables of all partitions have seen lately.
    pub(crate) lately: EvictionClock,
    pub(crate) rounds: Rounds,
}

impl Keyspace {
    /// Evicts a few keys of some partitions, until about `wanted_bytes` are freed. No partition may
    /// be held.
    pub fn evict(&self, scope: Scope<'_>, choice: Choice, wanted_bytes: usize) -> EvictionResult {
        let (mut freed, mut rng) = (EvictionResult::default(), self.chance());
        let in_need = self.eviction.was_poor.load(Ordering::Relaxed);
        let choice = Choice { in_need, ..choice };
        if self.eviction.barren.load(Ordering::Relaxed) > 0 && !self.may_have_some(choice) {
            return EvictionResult { partitions: PARTITION_COUNT, ..freed };
        }
        while freed.bytes < wanted_bytes && freed.partitions < PARTITIONS_PER_CALL {
            let turn = self.eviction.turn.fetch_add(1, Ordering::Relaxed);
            if turn > 0 && turn.is_multiple_of(PARTITION_COUNT as u64) {
                let lap = self.eviction.lap.swap(0, Ordering::Relaxed);
                self.eviction.was_poor.store(lap < POOR_LAP, Ordering::Relaxed);
                self.note_ageing(choice, scope.now);
            }
            let id = PartitionId((turn % PARTITION_COUNT as u64) as u16);
            let first_db = turn / PARTITION_COUNT as u64;
            let left = wanted_bytes - freed.bytes;
            freed.add(self.evict_of(id, first_db, scope, (choice, left), &mut rng));
        }
        debug_assert!(freed.partitions <= PARTITIONS_PER_CALL, "what one call looks at");
        debug_assert!(freed.keys <= freed.candidates, "they were candidates");
        self.eviction.lap.fetch_add(freed.keys as u64, Ordering::Relaxed);
        match freed.candidates + freed.busy {
            0 => self.eviction.barren.fetch_add(freed.partitions as u64, Ordering::Relaxed),
            _ => self.eviction.barren.swap(0, Ordering::Relaxed),
        };
        freed
    }

    /// Notes ageing at the end of a lap.
    fn note_ageing(&self, choice: Choice, now: UnixMs) {
        let keys = self.most_that_may_go(choice);
        self.eviction.rounds.note(self.eviction.lately.aged(), keys, now);
    }

    /// An upper bound of the records that may be evicted: sticky ones are counted in.
    fn most_that_may_go(&self, choice: Choice) -> u64 {
        let of = |sizes: &DatabaseSizes| match choice.only_deadlines {
            true => sizes.with_deadline(),
            false => sizes.keys(),
        };
        (0..self.database_count()).filter_map(|db| self.sizes(DbIndex(db))).map(of).sum()
    }

    /// Whether a search is worthwhile after partitions without an evictable key. If the number of
    /// records has changed since, every partition gets a turn again.
    #[cold]
    fn may_have_some(&self, choice: Choice) -> bool {
        let Eviction { barren, barren_among, .. } = &self.eviction;
        let among = self.most_that_may_go(choice);
        let before = barren_among.swap(among, Ordering::Relaxed);
        if among == 0 {
            barren.store(PARTITION_COUNT as u64, Ordering::Relaxed);
        } else if among != before {
            barren.store(0, Ordering::Relaxed);
        }
        among > 0
    }

    /// The shortest time for which a key of this hotness has been idle, in milliseconds, where
    /// eviction goes by recency.
    pub fn idle_ms(&self, hotness: u8, now: UnixMs) -> i64 {
        self.eviction.rounds.idle_ms(hotness, now)
    }

    /// Another policy is in force: idle times must be learned anew.
    pub fn policy_has_changed(&self) {
        self.eviction.rounds.forget();
    }

    /// The hotness of a key that has been idle for this long.
    pub fn hotness_of_idle(&self, idle_ms: i64, now: UnixMs) -> u8 {
        self.eviction.rounds.hotness_of_idle(idle_ms, now)
    }

    /// Evicts from the databases of one partition, beginning with another one each time.
    fn evict_of(
        &self,
        id: PartitionId,
        first_db: u64,
        scope: Scope<'_>,
        (choice, wanted_bytes): (Choice, usize),
        rng: &mut Rng,
    ) -> EvictionResult {
        let mut freed = EvictionResult { partitions: 1, ..EvictionResult::default() };
        let has_some = |sizes: &DatabaseSizes| match choice.only_deadlines {
            true => sizes.with_deadline_in(id) > 0,
            false => sizes.keys_in(id) > 0,
        };
        let count = u64::from(self.database_count());
        for number in 0..count {
            let db = DbIndex(((first_db + number) % count) as u32);
            if freed.bytes >= wanted_bytes || !self.sizes(db).is_some_and(has_some) {
                continue;
            }
            let Some(held) = self.partition(id).try_lock() else {
                freed.busy = 1;
                break;
            };
            let left = wanted_bytes - freed.bytes;
            let scope = Scope { db, ..scope };
            freed.add(self.step_with(held, scope, |held, woken| {
                let freed = Changes::of(held, woken, id, scope).evict_some(choice, left, rng);
                held.databases.forget_if_empty(db);
                freed
            }));
        }
        freed
    }

    /// Whether no evictable key was found lately in any partition; [`Keyspace::evict`] then looks
    /// at a few partitions only.
    pub fn has_nothing_to_evict(&self) -> bool {
        self.eviction.barren.load(Ordering::Relaxed) >= PARTITION_COUNT as u64
    }

    /// Bytes of garbage that is not freed yet.
    pub fn pending_bytes(&self) -> u64 {
        self.pending.bytes.load(Ordering::Relaxed)
    }

    /// Bytes that a snapshot has copied or taken over, and not written yet.
    pub fn unwritten_bytes(&self) -> u64 {
        self.snapshot.unwritten.get()
    }

    /// The number of pieces of garbage not freed yet.
    pub fn pending_pieces(&self) -> usize {
        self.pending.pieces.load(Ordering::Relaxed)
    }
}

/// The amount of garbage not freed yet.
#[derive(Debug, Default)]
pub(crate) struct PendingGarbage {
    bytes: AtomicU64,
    pieces: AtomicUsize,
}

/// A piece of garbage. Dropping it frees it, then counts it as freed: fields are dropped in order.
pub struct GarbageInTransit {
    _garbage: Garbage,
    _counted: Counted,
}

struct Counted {
    all: Arc<PendingGarbage>,
    bytes: u64,
}

impl GarbageInTransit {
    pub(crate) fn new(garbage: Garbage, all: &Arc<PendingGarbage>) -> GarbageInTransit {
        let bytes = garbage.bytes() as u64;
        all.bytes.fetch_add(bytes, Ordering::Relaxed);
        all.pieces.fetch_add(1, Ordering::Relaxed);
        GarbageInTransit { _garbage: garbage, _counted: Counted { all: Arc::clone(all), bytes } }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let bytes = self.all.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        let pieces = self.all.pieces.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(bytes >= self.bytes && pieces > 0, "it was counted");
    }
}
