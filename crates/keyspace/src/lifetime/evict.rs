//! Removing keys because there is no room: the sweep's sibling, run by who wants the room.
//!
//! ```text
//! used > limit:  next partition, if it is free --> each database --> a few records of one segment
//! ```
//!
//! The partitions have their turn one after the other, whoever asks and whatever it writes: so a
//! large value takes a little from each and not all from its own. Which records go is the table's
//! to choose (`pantala_table`, `evict`).
//!
//! Bytes that were handed to the background are not free yet, but will be: they are counted
//! ([`Keyspace::pending_bytes`]), so that nobody evicts for them again.
//!
//! Invariants
//! 1. Nobody waits for a partition: one that is busy is passed over, and has its turn again later.
//! 2. One call holds one partition at a time, and takes at most [`MOST_VICTIMS`] records of each
//!    database with it held.
//! 3. Nothing is evicted on behalf of a command that holds something, so nothing is undone.
//! 4. Where nothing may go that is known without looking for it again: nobody pays for a search in
//!    all partitions with each window of commands.
//!
//! Not here: how much may be used, how long to go on (the engine). Tests: `tests/eviction.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use pantala_base::UnixMs;
use pantala_base::rng::Rng;
use pantala_table::{Choice, Lately, MOST_VICTIMS};

use crate::access::locked::Scope;
use crate::changes::change::Changes;
use crate::key::{DbIndex, PARTITION_COUNT, PartitionId};
use crate::lifetime::ageing::Rounds;
use crate::partition::Sizes;
use crate::{Garbage, Keyspace};

const _: () = assert!(MOST_VICTIMS <= 32, "what one lock is held for");

/// Partitions looked at by one call.
const PARTITIONS_PER_CALL: usize = 64;

/// After a lap of all partitions in which fewer keys went, few are left that may go.
const POOR_LAP: u64 = 32;

/// Where eviction stands.
#[derive(Default)]
pub(crate) struct Eviction {
    /// Counts the partitions that have had their turn.
    turn: AtomicU64,
    /// Keys removed in the present lap of all partitions.
    lap: AtomicU64,
    /// Partitions one after the other in which nothing may go.
    barren: AtomicU64,
    /// How many records there were, at most, when nothing of them might go.
    barren_among: AtomicU64,
    /// Hardly any were in the lap before.
    was_poor: AtomicBool,
    /// What the tables of all partitions have seen.
    pub(crate) lately: Lately,
    pub(crate) rounds: Rounds,
}

/// What a call has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freed {
    /// Bytes of what was removed.
    pub bytes: usize,
    /// Keys removed.
    pub keys: usize,
    /// Records that may go and were looked at.
    pub candidates: usize,
    /// Partitions that had their turn.
    pub partitions: usize,
    /// Those of them that somebody else held.
    pub busy: usize,
}

impl Freed {
    fn add(&mut self, other: Freed) {
        self.bytes += other.bytes;
        self.keys += other.keys;
        self.candidates += other.candidates;
        self.partitions += other.partitions;
        self.busy += other.busy;
    }
}

impl Keyspace {
    /// Removes a few keys of some partitions, until about so many bytes are free. Holds nothing
    /// before and after.
    pub fn evict(&self, scope: Scope<'_>, choice: Choice, wanted_bytes: usize) -> Freed {
        let (mut freed, mut rng) = (Freed::default(), self.chance());
        let in_need = self.eviction.was_poor.load(Ordering::Relaxed);
        let choice = Choice { in_need, ..choice };
        if self.eviction.barren.load(Ordering::Relaxed) > 0 && !self.may_have_some(choice) {
            return Freed { partitions: PARTITION_COUNT, ..freed };
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
        self.eviction.lap.fetch_add(freed.keys as u64, Ordering::Relaxed);
        match freed.candidates + freed.busy {
            0 => self.eviction.barren.fetch_add(freed.partitions as u64, Ordering::Relaxed),
            _ => self.eviction.barren.swap(0, Ordering::Relaxed),
        };
        freed
    }

    /// At the end of a lap.
    fn note_ageing(&self, choice: Choice, now: UnixMs) {
        let keys = self.most_that_may_go(choice);
        self.eviction.rounds.note(self.eviction.lately.aged(), keys, now);
    }

    /// Records that may go, but for those that eviction passes over.
    fn most_that_may_go(&self, choice: Choice) -> u64 {
        let of = |sizes: &Sizes| match choice.only_deadlines {
            true => sizes.with_deadline(),
            false => sizes.keys(),
        };
        (0..self.database_count()).filter_map(|db| self.sizes(DbIndex(db))).map(of).sum()
    }

    /// After partitions in which nothing may go: whether there is anything to look at. If there are
    /// more records than then, or fewer, all partitions have a turn before that is given up again.
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

    /// For how long a key of this hotness was not used, at least, where eviction goes by recency.
    pub fn idle_ms(&self, hotness: u8, now: UnixMs) -> i64 {
        self.eviction.rounds.idle_ms(hotness, now)
    }

    /// Another policy is in force: how long keys were not used is to be seen anew.
    pub fn policy_has_changed(&self) {
        self.eviction.rounds.forget();
    }

    /// How hot a key is that was not used for so long.
    pub fn hotness_of_idle(&self, idle_ms: i64, now: UnixMs) -> u8 {
        self.eviction.rounds.hotness_of_idle(idle_ms, now)
    }

    /// The databases of one partition, beginning with another one each time.
    fn evict_of(
        &self,
        id: PartitionId,
        first_db: u64,
        scope: Scope<'_>,
        (choice, wanted_bytes): (Choice, usize),
        rng: &mut Rng,
    ) -> Freed {
        let mut freed = Freed { partitions: 1, ..Freed::default() };
        let has_some = |sizes: &Sizes| match choice.only_deadlines {
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

    /// Whether nothing was found lately, anywhere, that may go; a call of [`Keyspace::evict`] then
    /// looks at a few partitions only.
    pub fn has_nothing_to_evict(&self) -> bool {
        self.eviction.barren.load(Ordering::Relaxed) >= PARTITION_COUNT as u64
    }

    /// Bytes that nobody uses any more and that are not free yet.
    pub fn pending_bytes(&self) -> u64 {
        self.pending.bytes.load(Ordering::Relaxed)
    }

    /// Bytes that a snapshot has copied or been handed over, and has not written.
    pub fn unwritten_bytes(&self) -> u64 {
        self.snapshot.unwritten.get()
    }

    /// How many pieces of garbage wait to be freed.
    pub fn pending_pieces(&self) -> usize {
        self.pending.pieces.load(Ordering::Relaxed)
    }
}

/// What waits to be freed.
#[derive(Debug, Default)]
pub(crate) struct PendingGarbage {
    bytes: AtomicU64,
    pieces: AtomicUsize,
}

/// Garbage on its way: dropping it frees it, and counts that. Its fields are dropped in this order.
pub struct Pending {
    _garbage: Garbage,
    _counted: Counted,
}

struct Counted {
    all: Arc<PendingGarbage>,
    bytes: u64,
}

impl Pending {
    pub(crate) fn new(garbage: Garbage, all: &Arc<PendingGarbage>) -> Pending {
        let bytes = garbage.bytes() as u64;
        all.bytes.fetch_add(bytes, Ordering::Relaxed);
        all.pieces.fetch_add(1, Ordering::Relaxed);
        Pending { _garbage: garbage, _counted: Counted { all: Arc::clone(all), bytes } }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.all.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.all.pieces.fetch_sub(1, Ordering::Relaxed);
    }
}
