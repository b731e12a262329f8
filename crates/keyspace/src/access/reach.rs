//! Taking more partitions while some are held: for blocked commands that are served, and for
//! commands that learn their keys while they run (see `access/token`).

use crate::Keyspace;
use crate::access::held::FEW;
use crate::access::locked::Locked;
use crate::access::may_wait::{self, Aborted};
use crate::access::plan::{Busy, LockPlan};
use crate::access::scope::Scope;
use crate::access::token::WaitToken;
use crate::key::PartitionId;
use pantala_journal::Recorder;

impl Keyspace {
    /// Takes all partitions of the plan, waiting for one after the other.
    ///
    /// # Errors
    /// One of them has been held for too long; neither partitions nor the token are held.
    pub fn lock_incrementally<'k>(
        &'k self,
        token: WaitToken<'k>,
        plan: &LockPlan,
        scope: Scope<'k>,
    ) -> Result<Locked<'k>, Aborted> {
        let mut locked = Locked::new(self.hold_each(plan)?, scope);
        locked.token = Some(token);
        Ok(locked)
    }
}

impl<'k> Locked<'k> {
    /// Takes one more partition if it is free now or already held: for serving blocked commands,
    /// which may have a second key.
    pub fn try_hold(&mut self, hash: u64) -> bool {
        let id = PartitionId::of(hash);
        if let Some(place) = self.place_of(id) {
            return !self.is_barred(place, hash);
        }
        if self.held.len() >= FEW {
            return false;
        }
        let Some(held) = self.scope.space.partition(id).try_lock() else { return false };
        // A step that already has its stamp must not take a partition with a later one.
        let is_late =
            |recorder: &Recorder| recorder.has_stamp() && held.last_step > recorder.last();
        if self.scope.recorder.is_some_and(is_late) {
            return false;
        }
        self.held.push(id, held);
        true
    }

    /// Takes one more partition if it is free now or already held, however many are held: for
    /// commands that learn of keys while they run. It never waits.
    pub fn reach(&mut self, hash: u64) -> bool {
        let id = PartitionId::of(hash);
        if let Some(place) = self.place_of(id) {
            return !self.is_barred(place, hash);
        }
        let Some(held) = self.scope.space.partition(id).try_lock() else { return false };
        if self.held.len() < FEW {
            self.held.push(id, held);
            return true;
        }
        // From here on they are searched by bisection, so they must be in order.
        if self.held.len() == FEW {
            self.held.sort_unstable_by_key(|(id, _)| *id);
        }
        let at = self.held.partition_point(|(other, _)| *other < id);
        self.held.insert(at, id, held);
        true
    }

    /// Takes the token if it is free; whether it is held now.
    pub fn try_take_token(&mut self) -> bool {
        may_wait::check();
        if self.token.is_none() {
            self.token = self.scope.space.try_token();
        }
        self.token.is_some()
    }

    /// Whether the token is held.
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Releases the token: the command needs no further partition.
    pub fn drop_token(&mut self) {
        self.token = None;
    }

    /// Takes the partition of `hash`, waiting for it. Only with the token.
    ///
    /// # Errors
    /// It has been held for too long.
    pub fn reach_waiting(&mut self, hash: u64) -> Result<(), Aborted> {
        debug_assert!(self.has_token(), "only who has the token waits while holding");
        may_wait::check();
        while !self.reach(hash) {
            self.scope.space.wait_holding(Busy(PartitionId::of(hash)))?;
        }
        Ok(())
    }

    /// Takes the partition of `hash`, waiting for it however long: for a command that cannot be
    /// undone. Only with the token.
    pub fn reach_at_last(&mut self, hash: u64) {
        debug_assert!(self.has_token(), "only who has the token waits while holding");
        may_wait::check();
        while !self.reach(hash) {
            self.scope.space.wait_long_for(Busy(PartitionId::of(hash)));
        }
    }

    /// Takes all partitions there are, waiting for them. Only with the token.
    ///
    /// # Errors
    /// One of them has been held for too long. What was taken by then is held.
    pub fn reach_everything(&mut self) -> Result<(), Aborted> {
        PartitionId::all().try_for_each(|id| self.reach_waiting(u64::from(id.0)))?;
        debug_assert!(self.holds_everything(), "each was reached");
        Ok(())
    }

    /// The partitions that are held.
    pub fn partitions(&self) -> impl ExactSizeIterator<Item = PartitionId> + '_ {
        self.held.iter().map(|(id, _)| *id)
    }

    /// Whether all partitions are held.
    pub fn holds_everything(&self) -> bool {
        self.held.len() == crate::key::PARTITION_COUNT
    }
}
