//! The watermark: up to which time the stream is complete.
//!
//! The reader merges what it has received. A step may leave only when no thread can still hand over
//! an earlier one. So each thread announces a *bound* before it ends the first step of a turn, and
//! withdraws it after handing its steps over; the reader keeps a *floor* below all bounds that will
//! be announced later.
//!
//! ```text
//! thread:  bound = floor ; fence ; least = floor, clock | steps | hand over | bound = NONE
//! reader:  floor = clock ; fence ; watermark = the smallest of floor and all bounds | collect
//! ```
//!
//! Invariants
//! 1. Store of the bound, then load of the floor (thread); store of the floor, then load of the
//!    bounds (reader), with a sequentially consistent fence between: at least one of the two sees
//!    the other. So a thread whose bound the reader has not seen uses no time before that floor.
//! 2. Steps are handed over before the bound is withdrawn, and collected after the bounds were
//!    read. So everything collected later has a time that is not before the watermark.
//! 3. Only the reader and a cut raise the floor; it never falls.
//!
//! Tests: at the foot, with loom and without.

use crate::primitives::{AtomicU64, Ordering, fence};

/// The bound of a thread with nothing to hand over.
const NONE: u64 = u64::MAX;

/// The announced bound of one thread, on a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
pub struct Bound(AtomicU64);

#[cfg(not(loom))]
const _: () = assert!(size_of::<Bound>() == 64, "nothing else is on its cache line");

impl Default for Bound {
    fn default() -> Self {
        Bound(AtomicU64::new(NONE))
    }
}

impl Bound {
    /// Withdraws the bound that [`Floor::announce`] set, after everything was handed over.
    #[inline]
    pub fn withdraw(&self) {
        debug_assert_ne!(self.0.load(Ordering::Relaxed), NONE, "it was announced");
        self.0.store(NONE, Ordering::Release);
    }
}

/// The reader's floor: no bound announced from now on is below it.
#[derive(Debug)]
pub struct Floor(AtomicU64);

impl Default for Floor {
    fn default() -> Self {
        Floor(AtomicU64::new(0))
    }
}

impl Floor {
    /// Announces that a thread is about to end steps. Returns the smallest time they may have.
    #[inline]
    pub fn announce(&self, bound: &Bound) -> u64 {
        let announced = self.0.load(Ordering::Relaxed);
        bound.0.store(announced, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let least = self.0.load(Ordering::Acquire);
        debug_assert!(announced <= least, "the floor never falls");
        least
    }

    /// Raises the floor to `time`, or by one if it is there already, and returns it: no bound
    /// announced from now on is below it. The increment by one serves cuts, which are rarer than
    /// ticks.
    pub fn raise(&self, time: u64) -> u64 {
        let before = self.0.fetch_add(1, Ordering::AcqRel) + 1;
        let floor = self.0.fetch_max(time, Ordering::AcqRel).max(time).max(before);
        fence(Ordering::SeqCst);
        debug_assert!(floor < NONE, "a floor is a time");
        floor
    }
}

/// The watermark: the smallest of a new floor and all bounds.
pub fn watermark<'b>(floor: u64, bounds: impl Iterator<Item = &'b Bound>) -> u64 {
    bounds.map(|bound| bound.0.load(Ordering::Acquire)).fold(floor, u64::min)
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::primitives::{Mutex, relock};

    /// The state that two threads and the reader share: the clock, the floor, a bound and an outbox
    /// for each thread, and one partition with the time of its last step.
    #[derive(Default)]
    struct Shared {
        clock: AtomicU64,
        floor: Floor,
        bounds: [Bound; 2],
        outboxes: [Mutex<Vec<u64>>; 2],
        partition: Mutex<u64>,
    }

    impl Shared {
        /// The clock advances between any two reads.
        fn now(&self) -> u64 {
            self.clock.fetch_add(1, Ordering::SeqCst) + 1
        }
    }

    /// A turn with one step in the partition.
    fn turn(shared: &Shared, thread: usize) {
        let time = {
            let mut last = relock(&shared.partition);
            let least = shared.floor.announce(&shared.bounds[thread]);
            *last = least.max(*last + 1);
            *last
        };
        relock(&shared.outboxes[thread]).push(time);
        shared.bounds[thread].withdraw();
    }

    /// Gathers; returns the steps, and up to where the stream is complete.
    fn gather(shared: &Shared) -> (Vec<u64>, u64) {
        let floor = shared.floor.raise(0);
        let until = watermark(floor, shared.bounds.iter());
        let take = |outbox| std::mem::take(&mut *relock(outbox));
        (shared.outboxes.iter().flat_map(take).collect(), until)
    }

    /// Checks that nothing that comes later belongs before what was complete.
    fn check(steps: &'static [usize], gatherings: usize) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let shared = Arc::new(Shared::default());
            let start = |&thread: &usize| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || turn(&shared, thread))
            };
            let threads: Vec<_> = steps.iter().map(start).collect();
            let mut complete = 0;
            for _ in 0..gatherings {
                let (come, until) = gather(&shared);
                assert!(come.iter().all(|&time| time >= complete), "{come:?} {complete}");
                complete = complete.max(until);
            }
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
            let (come, until) = gather(&shared);
            assert!(come.iter().all(|&time| time >= complete), "{come:?} {complete}");
            assert!(until > complete);
        });
    }

    /// A turn with one step in a partition of its own, by a client that was answered.
    fn lonely_turn(shared: &Shared, thread: usize) -> u64 {
        let least = shared.floor.announce(&shared.bounds[thread]);
        let time = least.max(shared.now());
        relock(&shared.outboxes[thread]).push(time);
        shared.bounds[thread].withdraw();
        time
    }

    /// A client is answered by one thread, then by the other, which may begin before the first has
    /// handed over: if the reader has the second step as complete, it has the first one, too.
    #[test]
    fn what_was_sent_after_an_answer_is_complete_after_it() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let shared = Arc::new(Shared::default());
            let answered = Arc::new(AtomicU64::new(0));
            let first = {
                let (shared, answered) = (Arc::clone(&shared), Arc::clone(&answered));
                thread::spawn(move || {
                    let least = shared.floor.announce(&shared.bounds[0]);
                    let time = least.max(shared.now());
                    // A waiter is answered before the turn ends.
                    answered.store(time, Ordering::SeqCst);
                    relock(&shared.outboxes[0]).push(time);
                    shared.bounds[0].withdraw();
                })
            };
            let second = {
                let (shared, answered) = (Arc::clone(&shared), Arc::clone(&answered));
                thread::spawn(move || match answered.load(Ordering::SeqCst) {
                    0 => {}
                    before => assert!(lonely_turn(&shared, 1) > before),
                })
            };
            let floor = shared.floor.raise(shared.now());
            let until = watermark(floor, shared.bounds.iter());
            let come = |thread: usize| relock(&shared.outboxes[thread]).clone();
            let is_complete = |steps: Vec<u64>| steps.iter().any(|&time| time < until);
            let (first_come, second_come) = (come(0), come(1));
            assert!(!is_complete(second_come) || is_complete(first_come));
            [first, second].into_iter().for_each(|one| one.join().expect("no panic"));
        });
    }

    #[test]
    fn what_is_complete_stays_so() {
        check(&[0], 2);
        check(&[0, 1], 1);
    }
}
