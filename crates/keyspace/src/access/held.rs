//! The partitions that one command holds.
//!
//! Invariant
//! 1. A thread holds partitions for one command at a time. If it took more for a second command, it
//!    would wait while holding, or find partitions busy that it holds itself. Debug builds, in
//!    which all tests run, panic then.

use std::ops::{Deref, DerefMut};

use pantala_sync::lock::Guard;
use smallvec::SmallVec;

use crate::access::ticket::Ticket;
use crate::key::PartitionId;
use crate::partition::Partition;

/// Up to this many partitions may be held in any order; they are searched linearly.
pub(crate) const FEW: usize = 16;

/// A partition that is held.
pub(crate) type Held<'k> = Guard<'k, Partition, Ticket>;

type List<'k> = SmallVec<[(PartitionId, Held<'k>); FEW]>;

/// The partitions that a command holds, in ascending order if they are more than [`FEW`].
#[derive(Default)]
pub(crate) struct AllHeld<'k> {
    /// Dropped before the list, so that code called when a partition is freed may hold partitions.
    #[cfg(debug_assertions)]
    mark: only::HeldMark,
    list: List<'k>,
}

impl<'k> AllHeld<'k> {
    #[inline]
    pub fn of(list: List<'k>) -> Self {
        let mut all = AllHeld { list, ..AllHeld::default() };
        all.check();
        all
    }

    /// Adds a partition after all others.
    #[inline]
    pub fn push(&mut self, id: PartitionId, held: Held<'k>) {
        debug_assert!(
            self.list.len() > FEW || self.list.iter().all(|(other, _)| *other != id),
            "a partition is held once"
        );
        self.list.push((id, held));
        self.check();
    }

    /// Adds a partition at its place in the order.
    pub fn insert(&mut self, at: usize, id: PartitionId, held: Held<'k>) {
        debug_assert!(self.list[..at].last().is_none_or(|(before, _)| *before < id), "in order");
        debug_assert!(self.list[at..].first().is_none_or(|(after, _)| *after > id), "in order");
        self.list.insert(at, (id, held));
    }

    /// Removes a partition; the others keep their order.
    pub fn remove(&mut self, at: usize) -> Held<'k> {
        let (_, held) = self.list.remove(at);
        self.check();
        held
    }

    /// Removes the only partition.
    pub fn take_only(&mut self) -> (PartitionId, Held<'k>) {
        debug_assert_eq!(self.list.len(), 1, "nothing else is held");
        let only = self.list.pop().expect("one is held");
        self.check();
        only
    }

    /// Frees all partitions.
    pub fn clear(&mut self) {
        #[cfg(debug_assertions)]
        self.mark.set(false);
        self.list.clear();
    }

    #[inline]
    fn check(&mut self) {
        #[cfg(debug_assertions)]
        self.mark.set(!self.list.is_empty());
    }
}

impl<'k> Deref for AllHeld<'k> {
    type Target = [(PartitionId, Held<'k>)];

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.list
    }
}

impl DerefMut for AllHeld<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.list
    }
}

#[cfg(debug_assertions)]
mod only {
    use std::cell::Cell;

    thread_local! {
        static HOLDS: Cell<bool> = const { Cell::new(false) };
    }

    /// Whether this list is the one that the thread holds.
    #[derive(Default)]
    pub struct HeldMark(bool);

    impl HeldMark {
        pub fn set(&mut self, holds: bool) {
            if holds != self.0 {
                let before = HOLDS.replace(holds);
                assert!(before != holds, "a thread holds partitions for one command at a time");
                self.0 = holds;
            }
        }
    }

    impl Drop for HeldMark {
        fn drop(&mut self) {
            if self.0 {
                HOLDS.set(false);
            }
        }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use pantala_base::UnixMs;
    use pantala_base::hash::HashSeed;

    use crate::{DbIndex, Keyspace, KeyspaceConfig, Locked, PartitionId, Scope, Tally};

    /// Does something while `outer` is held.
    fn inside(outer: Option<PartitionId>, work: impl Fn(&mut Locked<'_>, Scope<'_>)) -> bool {
        let seed = HashSeed::from_words(1, 2);
        let config = KeyspaceConfig { seed, databases: 1, worker_slots: 1, lane_slots: 1 };
        let (space, tally) = (Keyspace::new(config), Tally::default());
        let (space, now) = (&space, UnixMs(5));
        let scope = Scope {
            space,
            db: DbIndex(0),
            now,
            tally: &tally,
            touch: true,
            sees_expired: false,
            recorder: None,
        };
        let mut locked = match outer {
            Some(id) => space.lock_one(id, scope).expect("nobody else is there"),
            None => space.lock_none(scope),
        };
        let ended = catch_unwind(AssertUnwindSafe(|| work(&mut locked, scope)));
        drop(locked);
        // A command that has ended holds nothing.
        drop(space.lock_one(PartitionId(9), scope));
        ended.is_ok()
    }

    #[test]
    fn a_thread_holds_for_one_command() {
        let one = Some(PartitionId(1));
        let second = |_: &mut Locked<'_>, scope: Scope<'_>| {
            drop(scope.space.lock_one(PartitionId(2), scope));
        };
        assert!(inside(None, second));
        assert!(!inside(one, second));
        assert!(inside(one, |locked, scope| {
            locked.let_go();
            second(locked, scope);
        }));
        assert!(inside(one, |locked, scope| {
            assert!(locked.reach(2));
            drop(scope.space.lock_none(scope));
        }));
        assert!(!inside(None, |locked, scope| {
            assert!(locked.reach(3));
            second(locked, scope);
        }));
    }
}
