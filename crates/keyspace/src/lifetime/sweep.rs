//! The expiry sweep: removing expired keys that no command meets.
//!
//! A key whose deadline has passed is removed when a command meets it. The sweep finds the others.
//! It runs on a thread of its own (the server starts it) and sleeps until something is due:
//!
//! ```text
//! earliest[partition]   no deadline in the partition is before this
//! sweeper:  sleep until the smallest of them; sweep due partitions, one segment a lock
//! ```
//!
//! Elements with deadlines of their own (fields of a hash) are found through `timed`, and count for
//! the bound like keys.
//!
//! Reading deadlines means touching records, and in a partition of many keys some deadline has
//! nearly always passed. So partitions in which little was found rest together for a multiple of
//! the time that looking through all of them took ([`rest_factor`]): at most a twentieth of one
//! core is spent on finding next to nothing, half of one where a few in a hundred keys are found,
//! and a small keyspace is still swept within milliseconds.
//!
//! Invariants
//! 1. `earliest` of a partition is written only with that partition locked.
//! 2. While a partition is swept, segment by segment, its bound covers only deadlines set
//!    meanwhile; at the end the smallest deadline seen is merged in. So it is never too late.
//! 3. Nothing is waited for long: a partition that a script holds is skipped and tried again. One
//!    that was left halfway is due again (`unfinished`).

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pantala_base::UnixMs;
use pantala_base::clock::monotonic_us;
use pantala_journal::Recorder;
use pantala_table::SweepCursor;

use crate::Keyspace;
use crate::access::held::Held;
use crate::access::opened::OpenKey;
use crate::access::scope::Scope;
use crate::access::ticket::{ThreadWaker, Ticket};
use crate::changes::change::Changes;
use crate::changes::follow_ups::FollowUps;
use crate::key::{DbIndex, PARTITION_COUNT, PartitionId};
use crate::tally::Tally;

/// The most records looked at under one lock.
const RECORDS_PER_LOCK: usize = 512;
/// The most elements removed under one lock.
const ELEMENTS_PER_LOCK: usize = 256;
/// The most keys with timed elements visited in one go, each under a lock of its own.
const TIMED_KEYS_PER_GO: usize = 256;
/// How long to wait for a partition that was taken between two looks,
const LONGEST_WAIT: Duration = Duration::from_millis(20);
/// and after how long a partition that was held is tried again.
const HELD_REST_US: u64 = 10_000;
/// The sweeper's shortest sleep, so that near deadlines share a wake-up.
const SHORTEST_NAP: Duration = Duration::from_millis(1);

pub(crate) const NEVER: i64 = i64::MAX;

/// The part of the sweep that all threads share: the earliest deadlines.
pub struct Sweep {
    earliest: Box<[AtomicI64]>,
    /// When the sweeper means to wake up (Unix, milliseconds).
    alarm: AtomicI64,
    waker: OnceLock<Arc<ThreadWaker>>,
}

impl Default for Sweep {
    fn default() -> Self {
        Sweep {
            earliest: (0..PARTITION_COUNT).map(|_| AtomicI64::new(NEVER)).collect(),
            alarm: AtomicI64::new(NEVER),
            waker: OnceLock::new(),
        }
    }
}

impl Sweep {
    /// Notes a new deadline; with the partition locked. The caller must redeem the returned ticket
    /// afterwards.
    #[inline]
    pub(crate) fn lower(&self, partition: PartitionId, deadline: UnixMs) -> Option<Ticket> {
        let bound = &self.earliest(partition);
        if deadline.0 < bound.load(Ordering::Relaxed) {
            // Before the alarm is read, sequentially consistent: the sweeper does both in the
            // reverse order.
            bound.store(deadline.0, Ordering::SeqCst);
        }
        debug_assert!(bound.load(Ordering::Relaxed) <= deadline.0, "the partition is held");
        if deadline.0 >= self.alarm.load(Ordering::SeqCst) {
            return None;
        }
        self.alarm.store(deadline.0, Ordering::SeqCst);
        self.ticket()
    }

    /// The bound of a partition: no deadline in it is earlier.
    pub(crate) fn earliest(&self, partition: PartitionId) -> &AtomicI64 {
        &self.earliest[partition.index()]
    }

    /// To be redeemed to wake the sweeper.
    pub(crate) fn ticket(&self) -> Option<Ticket> {
        self.waker.get().cloned().map(Ticket::Thread)
    }

    /// Wakes the sweeper: something may have become due.
    pub(crate) fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake();
        }
    }
}

/// How long partitions rest, in multiples of the time that looking through them took, by what was
/// found: not at all after a tenth and more ([`SweepResult::is_much`]).
fn rest_factor(vain: SweepResult) -> u64 {
    match vain.removed * 1_000 / vain.seen.max(1) {
        0..5 => 19,
        5..20 => 4,
        _ => 1,
    }
}

/// The sweeping thread's own part.
pub struct Sweeper {
    rest_until_us: Box<[u64]>,
    /// Partitions that were left halfway; see invariant 3.
    unfinished: Box<[bool]>,
    /// Partitions in which this round has found little.
    tired: Vec<PartitionId>,
    waker: Arc<ThreadWaker>,
}

impl Sweeper {
    /// The sweeper of `space`, on the calling thread.
    pub fn new(space: &Keyspace) -> Self {
        let waker = ThreadWaker::for_this_thread();
        let _second_sweeper = space.sweep.waker.set(Arc::clone(&waker));
        let rest_until_us = vec![0; PARTITION_COUNT].into();
        let unfinished = vec![false; PARTITION_COUNT].into();
        Sweeper { rest_until_us, unfinished, tired: Vec::new(), waker }
    }

    /// A waker that ends [`Sweeper::sleep`] early.
    pub fn waker(&self) -> Arc<ThreadWaker> {
        Arc::clone(&self.waker)
    }

    /// Sleeps until something is due (at most `longest`).
    pub fn sleep(&self, space: &Keyspace, now: UnixMs, longest: Duration) {
        if space.hides_expired() {
            let own = space.own_deadlines.earliest().filter(|_| space.is_only_replica());
            let until_ms = own.map(|at| u64::try_from(at.0.saturating_sub(now.0)).unwrap_or(0));
            let nap = until_ms.map_or(longest, Duration::from_millis);
            return self.waker.wait_for(nap.clamp(SHORTEST_NAP, longest));
        }
        // The alarm is set before the bounds are read: a deadline that arrives in between either
        // sees the alarm and wakes, or is seen here.
        space.sweep.alarm.store(NEVER, Ordering::SeqCst);
        let nap = self.nap(&space.sweep, now, monotonic_us()).clamp(SHORTEST_NAP, longest);
        let until = now.0.saturating_add(i64::try_from(nap.as_millis()).unwrap_or(NEVER));
        space.sweep.alarm.fetch_min(until, Ordering::SeqCst);
        self.waker.wait_for(nap);
    }

    /// The time until the first partition is due and rested.
    fn nap(&self, sweep: &Sweep, now: UnixMs, now_us: u64) -> Duration {
        let wait_us = |id: PartitionId| {
            let due = match self.unfinished[id.index()] {
                true => now.0,
                false => sweep.earliest[id.index()].load(Ordering::SeqCst),
            };
            let due_ms = u64::try_from(due.saturating_sub(now.0)).unwrap_or(0);
            let rest_us = self.rest_until_us[id.index()].saturating_sub(now_us);
            due_ms.saturating_mul(1_000).max(rest_us)
        };
        Duration::from_micros(PartitionId::all().map(wait_us).min().unwrap_or(u64::MAX))
    }

    /// Sweeps every partition that is due and rested; returns how many keys and elements were
    /// removed.
    pub fn round(&mut self, space: &Keyspace, now: UnixMs, tally: &Tally) -> u64 {
        self.round_recorded(space, now, tally, None).removed
    }

    /// Like [`Sweeper::round`]; what is removed is recorded with `recorder`, and what was found is
    /// returned.
    pub fn round_recorded(
        &mut self,
        space: &Keyspace,
        now: UnixMs,
        tally: &Tally,
        recorder: Option<&Recorder>,
    ) -> SweepResult {
        if space.is_only_replica() {
            return space.sweep_own(now, tally, recorder);
        }
        debug_assert!(self.tired.is_empty(), "the last round has ended");
        let (mut all, mut vain, mut vain_us) = (SweepResult::default(), SweepResult::default(), 0);
        for id in PartitionId::all() {
            if space.hides_expired() {
                break;
            }
            let due = space.sweep.earliest[id.index()].load(Ordering::Relaxed) < now.0
                || self.unfinished[id.index()];
            let began_us = monotonic_us();
            if !due || self.rest_until_us[id.index()] > began_us {
                continue;
            }
            let mut found = SweepResult::default();
            let swept = space.sweep_partition(id, (now, tally, recorder), &mut found);
            let took_us = monotonic_us() - began_us;
            self.rest_until_us[id.index()] = match swept {
                Progress::Held => began_us + HELD_REST_US,
                Progress::HalfDone => began_us + HELD_REST_US.max(took_us),
                Progress::Done => 0,
            };
            match swept {
                Progress::Held => {}
                Progress::HalfDone => self.unfinished[id.index()] = true,
                Progress::Done => self.unfinished[id.index()] = false,
            }
            if matches!(swept, Progress::Done) && !found.is_much() {
                self.tired.push(id);
                vain.add(found);
                vain_us += took_us;
            }
            all.add(found);
        }
        let until_us = monotonic_us() + vain_us * rest_factor(vain);
        self.tired.drain(..).for_each(|id| self.rest_until_us[id.index()] = until_us);
        all
    }
}

/// The findings of a round.
#[derive(Clone, Copy, Debug, Default)]
pub struct SweepResult {
    /// Keys and elements that were looked at.
    pub seen: u64,
    /// Of these, those whose deadline had passed.
    pub removed: u64,
    /// The longest time for which a partition was held, in microseconds.
    pub longest_hold_us: u64,
}

impl SweepResult {
    /// Whether looking again at once is worthwhile.
    fn is_much(self) -> bool {
        self.removed * 10 >= self.seen
    }

    fn add(&mut self, other: SweepResult) {
        debug_assert!(other.removed <= other.seen, "what is removed was seen");
        self.seen += other.seen;
        self.removed += other.removed;
        self.longest_hold_us = self.longest_hold_us.max(other.longest_hold_us);
    }
}

/// How far the sweep of a partition has come.
#[derive(Clone, Copy)]
enum Progress {
    /// The partition is held by another command.
    Held,
    /// It was taken by another command in between, which holds it.
    HalfDone,
    Done,
}

impl Keyspace {
    /// Wakes the sweeping thread.
    pub fn wake_sweeper(&self) {
        self.sweep.wake();
    }

    fn sweep_partition(
        &self,
        id: PartitionId,
        work: (UnixMs, &Tally, Option<&Recorder>),
        found: &mut SweepResult,
    ) -> Progress {
        {
            let Some(_held) = self.partition(id).spin_lock() else { return Progress::Held };
            self.sweep.earliest[id.index()].store(NEVER, Ordering::SeqCst);
        }
        match self.sweep_databases(id, work, found) {
            Some(()) => Progress::Done,
            None => Progress::HalfDone,
        }
    }

    /// Takes a partition that was free a moment ago; `None`: another command has it and keeps it.
    pub(crate) fn hold_soon(&self, id: PartitionId) -> Option<Held<'_>> {
        if let Some(held) = self.partition(id).spin_lock() {
            return Some(held);
        }
        let waker = ThreadWaker::for_this_thread();
        if self.partition(id).park(Ticket::Thread(waker.clone())).is_ok() {
            waker.wait_at_most(LONGEST_WAIT);
        }
        self.partition(id).spin_lock()
    }

    fn sweep_databases(
        &self,
        id: PartitionId,
        work: (UnixMs, &Tally, Option<&Recorder>),
        found: &mut SweepResult,
    ) -> Option<()> {
        let ((now, tally, recorder), mut earliest) = (work, NEVER);
        for db in (0..self.database_count()).map(DbIndex) {
            let Some(sizes) = self.sizes(db) else { continue };
            let scope =
                Scope { space: self, db, now, tally, touch: false, sees_expired: false, recorder };
            if sizes.with_deadline_in(id) > 0 {
                earliest = earliest.min(self.sweep_keys(id, scope, found)?);
            }
            if sizes.timed_in(id) > 0 {
                earliest = earliest.min(self.sweep_elements(id, scope, found)?);
            }
        }
        let _held = self.hold_soon(id)?;
        let bound = &self.sweep.earliest[id.index()];
        bound.store(bound.load(Ordering::Relaxed).min(earliest), Ordering::SeqCst);
        debug_assert!(found.removed <= found.seen, "what is removed was seen");
        Some(())
    }

    /// Records that a key which had expired when the data was loaded is gone. Only on threads that
    /// may wait.
    pub fn record_gone(&self, db: DbIndex, name: &[u8], recorder: &Recorder) {
        let mut held = self.hold_at_last(PartitionId::of(self.hash(name)));
        recorder.record_lasting(db.0, &[b"UNLINK", name]);
        held.last_step = recorder.end_loose_step(held.last_step);
        recorder.hand_over();
    }

    /// Runs one step of a sweep with the partition held, and measures how long that took. Commands
    /// that were blocked on a removed key run again by themselves.
    pub(super) fn sweep_step<R>(
        &self,
        id: PartitionId,
        scope: Scope<'_>,
        longest_hold_us: &mut u64,
        step: impl FnOnce(&mut Held<'_>, &mut FollowUps) -> R,
    ) -> Option<R> {
        let held = self.hold_soon(id)?;
        let began_us = monotonic_us();
        let result = self.step_with(held, scope, step);
        *longest_hold_us = (*longest_hold_us).max(monotonic_us() - began_us);
        Some(result)
    }

    /// Runs a step with a partition that is held already, and frees the partition.
    pub(crate) fn step_with<R>(
        &self,
        mut held: Held<'_>,
        scope: Scope<'_>,
        step: impl FnOnce(&mut Held<'_>, &mut FollowUps) -> R,
    ) -> R {
        let mut woken = FollowUps::default();
        let result = step(&mut held, &mut woken);
        let mut called = Vec::new();
        while let Some(ready) = woken.next_ready() {
            called.extend(held.rest.waiters.take(ready.db, &ready.key));
        }
        woken.tell(scope.space);
        if let Some(recorder) = scope.recorder
            && recorder.has_step()
        {
            let before = held.last_step;
            held.last_step = recorder.end_loose_step(before);
            debug_assert!(before <= held.last_step, "a partition's stamps never fall");
            recorder.hand_over();
        }
        drop(held);
        called.iter().for_each(|waiter| waiter.call());
        result
    }

    /// Removes expired keys; returns the earliest deadline of those that stay.
    fn sweep_keys(
        &self,
        id: PartitionId,
        scope: Scope<'_>,
        found: &mut SweepResult,
    ) -> Option<i64> {
        let mut earliest = NEVER;
        let mut at = Some(SweepCursor::START);
        while let Some(from) = at {
            let swept = self.sweep_step(id, scope, &mut found.longest_hold_us, |held, woken| {
                let swept = Changes::of(held, woken, id, scope).sweep(from, RECORDS_PER_LOCK);
                held.databases.forget_if_empty(scope.db);
                swept
            })?;
            found.removed += swept.expired as u64;
            found.seen += swept.visited as u64;
            earliest = earliest.min(swept.earliest.map_or(NEVER, |deadline| deadline.0));
            at = swept.next;
        }
        Some(earliest)
    }

    /// Some of the keys with expired elements.
    fn due_keys(&self, id: PartitionId, scope: Scope<'_>) -> Option<Vec<Box<[u8]>>> {
        let held = self.hold_soon(id)?;
        let db = held.db_if_used(scope.db);
        Some(db.map_or_else(Vec::new, |db| db.timed().due(scope.now, TIMED_KEYS_PER_GO)))
    }

    /// Removes expired elements; returns the earliest deadline of those that stay.
    fn sweep_elements(
        &self,
        id: PartitionId,
        scope: Scope<'_>,
        found: &mut SweepResult,
    ) -> Option<i64> {
        for name in self.due_keys(id, scope)? {
            let mut has_more = true;
            while has_more {
                let mut removed = 0;
                has_more =
                    self.sweep_step(id, scope, &mut found.longest_hold_us, |held, woken| {
                        let mut opened = OpenKey::find(held, woken, id, scope, self.key(&name));
                        if opened.keeps_elements() {
                            return false;
                        }
                        removed = opened.expire_elements(ELEMENTS_PER_LOCK);
                        removed > 0 && opened.has_due_elements()
                    })?;
                found.removed += removed as u64;
                found.seen += removed.max(1) as u64;
            }
        }
        let held = self.hold_soon(id)?;
        let earliest = held.db_if_used(scope.db).and_then(|db| db.timed().earliest());
        Some(earliest.map_or(NEVER, |moment| moment.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_rests_does_not_keep_others_waiting() {
        let sweep = Sweep::default();
        let mut sweeper = Sweeper {
            rest_until_us: vec![500_000; PARTITION_COUNT].into(),
            unfinished: vec![false; PARTITION_COUNT].into(),
            tired: Vec::new(),
            waker: ThreadWaker::for_this_thread(),
        };
        let now = UnixMs(1_000_000);
        let nap_ms = |sweeper: &Sweeper| sweeper.nap(&sweep, now, 0).as_millis();
        assert!(nap_ms(&sweeper) > 1 << 40, "nothing has a deadline");
        sweep.earliest[3].store(now.0 - 10, Ordering::Relaxed);
        assert_eq!(nap_ms(&sweeper), 500, "it is due and rests");
        sweep.earliest[4].store(now.0 + 20, Ordering::Relaxed);
        sweeper.rest_until_us[4] = 0;
        assert_eq!(nap_ms(&sweeper), 20, "it will be due and does not rest");
        sweeper.unfinished[5] = true;
        sweeper.rest_until_us[5] = 7_000;
        assert_eq!(nap_ms(&sweeper), 7, "it was left halfway");
    }

    #[test]
    fn the_less_is_found_the_longer_is_the_rest() {
        let factor =
            |removed| rest_factor(SweepResult { seen: 1_000, removed, longest_hold_us: 0 });
        assert_eq!([0, 4, 5, 19, 20, 99].map(factor), [19, 19, 4, 4, 1, 1]);
        assert_eq!(rest_factor(SweepResult::default()), 19);
    }
}
