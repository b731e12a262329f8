//! Which threads may wait for a partition, the token, or the gate, and for how long.
//!
//! A worker never waits: all its clients would wait with it. So a worker marks its thread
//! ([`WorkerMark`]), and code that waits checks for the mark ([`check`]); debug builds, in which
//! all tests run, panic if they find it.
//!
//! Other threads wait, but not for something that has been held for too long: then they give up
//! ([`Aborted`]), and their command is answered instead of being run. A thread that holds nothing
//! also gives up when others need it; its command runs again later. A waiting thread checks both
//! every [`LONG_WAIT`].

use std::cell::Cell;
use std::time::Duration;

use crate::key::PartitionId;
use crate::snapshot::SnapshotWait;

/// Longer waits are reported to the [`LongWaitObserver`].
pub const LONG_WAIT: Duration = Duration::from_millis(100);

/// A parked command's wait for a pin to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinWait(pub(crate) u64);

/// What a thread or command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitTarget {
    /// A partition that is held.
    Partition(PartitionId),
    /// The token that is taken.
    Token,
    /// All others leaving the gate.
    Gate,
    /// A snapshot writing a key.
    Snapshot(SnapshotWait),
    /// A pin ending.
    Pin(PinWait),
}

/// Waiting was given up: this has been held for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aborted(pub WaitTarget);

/// Is told when a thread waits for long, and decides when it should give up.
pub trait LongWaitObserver: Send + Sync {
    /// A thread has waited for about [`LONG_WAIT`], and goes on waiting.
    fn wait_started(&self);
    /// The thread has what it waited for, or has given up.
    fn wait_ended(&self);
    /// Whether this has been held for so long that nothing should wait for it.
    fn is_aborted(&self, awaited: WaitTarget) -> bool;
    /// A long command is between two steps and holds nothing. May sleep.
    fn is_between_steps(&self) {}
    /// Whether others need the threads that have waited for long while holding nothing.
    fn is_crowded(&self) -> bool;
}

thread_local! {
    static NEVER_WAITS: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as a worker while it lives.
#[must_use]
pub struct WorkerMark {
    before: bool,
}

impl WorkerMark {
    /// Marks the calling thread.
    #[expect(clippy::new_without_default, reason = "it acts on the thread, it is no value")]
    pub fn new() -> Self {
        WorkerMark { before: NEVER_WAITS.replace(true) }
    }
}

impl Drop for WorkerMark {
    fn drop(&mut self) {
        debug_assert!(NEVER_WAITS.get(), "marks end in the reverse order");
        NEVER_WAITS.set(self.before);
    }
}

/// Asserts that this thread may wait.
#[inline]
pub(crate) fn check() {
    debug_assert!(!NEVER_WAITS.get(), "a worker waits for a partition, the token or the gate");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use pantala_base::UnixMs;
    use pantala_base::hash::HashSeed;

    use super::*;
    use crate::{DbIndex, Keyspace, KeyspaceConfig, LockPlan, Scope, Tally};

    /// Counts the waiting threads; answers the same for partitions and the token.
    #[derive(Clone, Default)]
    struct Observer(Arc<(AtomicU32, AtomicBool, AtomicBool)>);

    impl LongWaitObserver for Observer {
        fn wait_started(&self) {
            self.0.0.fetch_add(1, Ordering::Release);
        }

        fn wait_ended(&self) {
            self.0.0.fetch_sub(1, Ordering::Release);
        }

        fn is_aborted(&self, awaited: WaitTarget) -> bool {
            awaited != WaitTarget::Gate && self.0.1.load(Ordering::Acquire)
        }

        fn is_crowded(&self) -> bool {
            self.0.2.load(Ordering::Acquire)
        }
    }

    #[test]
    fn who_waits_in_vain_gives_up() {
        let seed = HashSeed::from_words(1, 2);
        let config = KeyspaceConfig { seed, databases: 1, worker_slots: 1, lane_slots: 1 };
        let (space, observer) = (Keyspace::new(config), Observer::default());
        space.set_long_wait_observer(Box::new(observer.clone()));
        let plan = LockPlan::one(7);
        std::thread::scope(|threads| {
            let tally = Tally::default();
            let held = space.lock(&plan, scope_of(&space, &tally)).expect("nobody has it");
            let token = space.try_token().expect("nobody has it");
            let waits = || {
                let tally = Tally::default();
                space.lock_or_abort(&plan, scope_of(&space, &tally)).map(|_| ())
            };
            let waiting =
                [threads.spawn(waits), threads.spawn(|| space.wait_for_token().map(|_| ()))];
            while observer.0.0.load(Ordering::Acquire) < 2 {
                std::thread::yield_now();
            }
            observer.0.1.store(true, Ordering::Release);
            let ends = waiting.map(|one| one.join().expect("no panic"));
            let partition = WaitTarget::Partition(PartitionId::of(7));
            assert_eq!(ends, [Err(Aborted(partition)), Err(Aborted(WaitTarget::Token))]);
            assert_eq!(observer.0.0.load(Ordering::Acquire), 0);
            drop((held, token));
            assert_eq!(waits(), Ok(()), "what is free is not waited for");
        });
    }

    fn scope_of<'k>(space: &'k Keyspace, tally: &'k Tally) -> Scope<'k> {
        Scope {
            space,
            db: DbIndex(0),
            now: UnixMs(5),
            tally,
            touch: true,
            sees_expired: false,
            recorder: None,
        }
    }

    #[test]
    fn who_has_nothing_gives_up_where_its_thread_is_needed() {
        let seed = HashSeed::from_words(1, 2);
        let config = KeyspaceConfig { seed, databases: 1, worker_slots: 1, lane_slots: 1 };
        let (space, observer) = (Keyspace::new(config), Observer::default());
        space.set_long_wait_observer(Box::new(observer.clone()));
        std::thread::scope(|threads| {
            let tally = Tally::default();
            let held = space.lock(&LockPlan::one(7), scope_of(&space, &tally)).expect("free");
            let empty_handed = threads.spawn(|| {
                let tally = Tally::default();
                space.lock_or_abort(&LockPlan::one(7), scope_of(&space, &tally)).map(|_| ())
            });
            let token = space.wait_for_token().expect("free");
            let with_token = threads.spawn(|| {
                let tally = Tally::default();
                let scope = scope_of(&space, &tally);
                let locked = space.lock_incrementally(token, &LockPlan::one(8), scope);
                locked.expect("free").reach_waiting(7)
            });
            while observer.0.0.load(Ordering::Acquire) < 2 {
                std::thread::yield_now();
            }
            observer.0.2.store(true, Ordering::Release);
            let ended = empty_handed.join().expect("no panic");
            assert_eq!(ended, Err(Aborted(WaitTarget::Partition(PartitionId::of(7)))));
            drop(held);
            assert_eq!(with_token.join().expect("no panic"), Ok(()));
        });
    }

    #[test]
    #[cfg(debug_assertions)]
    fn only_who_may_wait_waits() {
        check();
        let worker = WorkerMark::new();
        drop(WorkerMark::new());
        assert!(std::panic::catch_unwind(check).is_err());
        drop(worker);
        check();
    }
}
