//! Taking partitions: all of a plan or none, and waiting for them.
//!
//! Not here: taking more while some are held (`access/reach`). Tests: `tests/locks.rs`.

use pantala_sync::gate::LaneSeats;
use smallvec::SmallVec;

use crate::Keyspace;
use crate::access::held::{AllHeld, Held};
use crate::access::locked::Locked;
use crate::access::may_wait::{self, Aborted, LONG_WAIT, WaitTarget};
use crate::access::plan::{Busy, LockPlan};
use crate::access::scope::Scope;
use crate::access::ticket::{ThreadWaker, Ticket};
use crate::key::{DbIndex, PartitionId};

/// How often a thread that may wait lets go of everything because one partition is busy. After that
/// it takes the token, keeps what it has and waits for the next: it holds up others, but it comes
/// to its end.
pub const ALL_OR_NONE_TRIES: u32 = 16;

impl Keyspace {
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
        let held = each.collect::<Result<_, _>>().map(AllHeld::of)?;
        debug_assert_eq!(held.len(), plan.partitions().len(), "all are held");
        Ok(held)
    }

    fn try_hold_all(&self, plan: &LockPlan) -> Result<AllHeld<'_>, Busy> {
        let mut held = SmallVec::with_capacity(plan.partitions().len());
        for &id in plan.partitions() {
            held.push((id, self.partition(id).spin_lock().ok_or(Busy(id))?));
        }
        Ok(AllHeld::of(held))
    }

    /// Takes one partition, waiting for it. Only for threads that may block.
    pub(crate) fn hold(&self, id: PartitionId) -> Result<Held<'_>, Aborted> {
        may_wait::check();
        loop {
            match self.partition(id).spin_lock() {
                Some(held) => return Ok(held),
                None => self.wait_for(Busy(id))?,
            }
        }
    }

    /// Takes one partition, waiting for it, however long. Only for threads that may block.
    pub(crate) fn hold_at_last(&self, id: PartitionId) -> Held<'_> {
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
}
