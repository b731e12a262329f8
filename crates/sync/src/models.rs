//! Loom models of how threads combine locks and the gate: the protocols of the layers above, step
//! by step, on the types of this crate.
//!
//! Models of a single type are beside it. The models here:
//!
//! 1. Holders of the token: every thread takes all partitions or none, except the holder of the
//!    token, which may wait for a partition while it holds others (`keyspace::token`). A script
//!    that meets a busy partition takes the token if it is free, otherwise releases everything and
//!    starts again.
//! 2. The gate, with a lane that waits inside and workers that come and go.
//! 3. The claim of a command that waits for a key (`keyspace::ticket::Waiter`). That type uses
//!    std's atomics and holds a command, so its three states are modelled here, with the same steps
//!    and orders.
//!
//! loom reports a thread that is never woken, and threads that wait for each other, as a deadlock:
//! `token` without its token is one at once.

use crate::gate::{Gate, Role};
use crate::lock::{Guard, PartitionLock, Ticket};
use crate::primitives::relock;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

/// A waker of one thread.
#[derive(Clone)]
struct Waker(Arc<(Mutex<bool>, Condvar)>);

impl Waker {
    fn new() -> Self {
        Waker(Arc::new((Mutex::new(false), Condvar::new())))
    }

    fn wait(&self) {
        let mut woken = relock(&self.0.0);
        while !*woken {
            woken = self.0.1.wait(woken).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }
}

impl Ticket for Waker {
    fn wake(self) {
        *relock(&self.0.0) = true;
        self.0.1.notify_one();
    }
}

type Partition = PartitionLock<u32, Waker>;
type Token = PartitionLock<(), Waker>;

/// Two partitions and the token.
struct Space {
    partitions: [Partition; 2],
    token: Token,
}

impl Space {
    fn new() -> Self {
        let partitions = [PartitionLock::new(0), PartitionLock::new(0)];
        Space { partitions, token: PartitionLock::new(()) }
    }

    /// Parks at a lock, unless it is free by now.
    fn park<T>(lock: &PartitionLock<T, Waker>) {
        let waker = Waker::new();
        if lock.park(waker.clone()).is_ok() {
            waker.wait();
        }
    }

    fn hold<T>(lock: &PartitionLock<T, Waker>) -> Guard<'_, T, Waker> {
        loop {
            match lock.try_lock() {
                Some(held) => return held,
                None => Space::park(lock),
            }
        }
    }

    /// Takes both partitions or none.
    fn all_or_none(&self) {
        loop {
            let Some(mut first) = self.partitions[0].try_lock() else {
                Space::park(&self.partitions[0]);
                continue;
            };
            let Some(mut second) = self.partitions[1].try_lock() else {
                drop(first);
                Space::park(&self.partitions[1]);
                continue;
            };
            *first += 1;
            *second += 1;
            return;
        }
    }

    /// Takes one partition for a moment.
    fn short(&self, at: usize) {
        *Space::hold(&self.partitions[at]) += 1;
    }

    /// Takes the token, then one partition after the other, in any order.
    fn lock_incrementally(&self, order: [usize; 2]) {
        let token = Space::hold(&self.token);
        let mut first = Space::hold(&self.partitions[order[0]]);
        *first += 1;
        let mut second = Space::hold(&self.partitions[order[1]]);
        *second += 1;
        drop(second);
        drop(first);
        drop(token);
    }

    /// A script that named one key and meets another: it tries, then takes the token if that is
    /// free, otherwise it is undone and starts again as a token holder.
    fn surprised(&self, order: [usize; 2]) {
        {
            let mut first = Space::hold(&self.partitions[order[0]]);
            *first += 1;
            let other = &self.partitions[order[1]];
            if let Some(mut second) = other.try_lock() {
                *second += 1;
                return;
            }
            if let Some(token) = self.token.try_lock() {
                let mut second = Space::hold(other);
                *second += 1;
                drop(second);
                drop(first);
                drop(token);
                return;
            }
            *first -= 1;
        }
        self.lock_incrementally(order);
    }

    fn sums(&self) -> [u32; 2] {
        [0, 1].map(|at| *self.partitions[at].try_lock().expect("all others have ended"))
    }
}

fn bounded(preemptions: usize) -> loom::model::Builder {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model
}

#[test]
fn a_token_holder_and_one_who_takes_all_or_none() {
    bounded(3).check(|| {
        let space = Arc::new(Space::new());
        let other = Arc::clone(&space);
        let thread = thread::spawn(move || other.lock_incrementally([1, 0]));
        space.all_or_none();
        thread.join().expect("it ends");
        assert_eq!(space.sums(), [2, 2]);
    });
}

#[test]
fn two_token_holders_in_opposite_order_and_a_short_one() {
    bounded(2).check(|| {
        let space = Arc::new(Space::new());
        let (one, other) = (Arc::clone(&space), Arc::clone(&space));
        let threads = [
            thread::spawn(move || one.lock_incrementally([1, 0])),
            thread::spawn(move || other.short(1)),
        ];
        space.lock_incrementally([0, 1]);
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
        assert_eq!(space.sums(), [2, 3]);
    });
}

#[test]
fn two_scripts_that_surprise_each_other() {
    bounded(3).check(|| {
        let space = Arc::new(Space::new());
        let other = Arc::clone(&space);
        let thread = thread::spawn(move || other.surprised([1, 0]));
        space.surprised([0, 1]);
        thread.join().expect("it ends");
        assert_eq!(space.sums(), [2, 2]);
    });
}

#[test]
fn a_surprised_script_a_token_holder_and_all_or_none() {
    bounded(2).check(|| {
        let space = Arc::new(Space::new());
        let (one, other) = (Arc::clone(&space), Arc::clone(&space));
        let threads = [
            thread::spawn(move || one.surprised([1, 0])),
            thread::spawn(move || other.lock_incrementally([0, 1])),
        ];
        space.all_or_none();
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
        assert_eq!(space.sums(), [3, 3]);
    });
}

/// Data that only the thread alone in the gate may touch.
struct Guarded {
    gate: Gate,
    space: Space,
    everything: UnsafeCell<u32>,
}

impl Guarded {
    fn touch(&self) {
        // SAFETY: the gate under test is what makes this exclusive; loom checks it.
        self.everything.with_mut(|value| unsafe { *value += 1 });
    }

    fn look(&self) {
        // SAFETY: as above.
        self.everything.with(|value| unsafe { *value });
    }
}

#[test]
fn the_gate_closes_while_the_lane_waits_and_a_worker_comes() {
    bounded(2).check(|| {
        let (gate, space) = (Gate::new(1, 1), Space::new());
        let shared = Arc::new(Guarded { gate, space, everything: UnsafeCell::new(0) });
        let (lane, worker) = (Arc::clone(&shared), Arc::clone(&shared));
        let lane = thread::spawn(move || {
            let inside = lane.gate.enter(Role::Lane, 0);
            lane.space.lock_incrementally([0, 1]);
            lane.look();
            drop(inside);
        });
        let worker = thread::spawn(move || {
            let inside = worker.gate.enter(Role::Worker, 0);
            // A worker never waits inside: it would leave a ticket and serve others.
            if let Some(mut held) = worker.space.partitions[1].try_lock() {
                *held += 1;
            }
            worker.look();
            drop(inside);
        });
        shared.gate.alone(|| shared.touch());
        lane.join().expect("it ends");
        worker.join().expect("it ends");
        assert_eq!(shared.space.sums()[0], 1);
    });
}

#[test]
fn two_who_want_to_be_alone_and_a_worker() {
    bounded(2).check(|| {
        let (gate, space) = (Gate::new(1, 0), Space::new());
        let shared = Arc::new(Guarded { gate, space, everything: UnsafeCell::new(0) });
        let (one, worker) = (Arc::clone(&shared), Arc::clone(&shared));
        let one = thread::spawn(move || one.gate.alone(|| one.touch()));
        let worker = thread::spawn(move || {
            let inside = worker.gate.enter(Role::Worker, 0);
            worker.look();
            drop(inside);
        });
        shared.gate.alone(|| shared.touch());
        one.join().expect("it ends");
        worker.join().expect("it ends");
        // SAFETY: the other threads have ended.
        assert_eq!(shared.everything.with(|value| unsafe { *value }), 2);
    });
}

const WAITING: u8 = 0;
const CLAIMED: u8 = 1;
const ENDED: u8 = 2;

/// The states of `keyspace::ticket::Waiter`, and who ended it.
struct Waiter {
    state: AtomicU8,
    served: AtomicU32,
    given_up: AtomicU32,
}

impl Waiter {
    fn new() -> Self {
        let (served, given_up) = (AtomicU32::new(0), AtomicU32::new(0));
        Waiter { state: AtomicU8::new(WAITING), served, given_up }
    }

    fn claim(&self) -> bool {
        loop {
            let (from, to) = (Ordering::AcqRel, Ordering::Acquire);
            match self.state.compare_exchange(WAITING, CLAIMED, from, to) {
                Ok(_) => return true,
                Err(ENDED) => return false,
                Err(_) => thread::yield_now(),
            }
        }
    }

    /// A key that it waits for has changed: there may be something for it.
    fn serve(&self, there_is_something: bool) {
        if !self.claim() {
            return;
        }
        if there_is_something {
            self.served.fetch_add(1, Ordering::Relaxed);
            self.state.store(ENDED, Ordering::Release);
        } else {
            self.state.store(WAITING, Ordering::Release);
        }
    }

    /// Its time is over, it is unblocked, or its connection is lost.
    fn give_up(&self) {
        if self.claim() {
            self.given_up.fetch_add(1, Ordering::Relaxed);
            self.state.store(ENDED, Ordering::Release);
        }
    }

    fn ends(&self) -> u32 {
        self.served.load(Ordering::Relaxed) + self.given_up.load(Ordering::Relaxed)
    }
}

/// Two threads each: loom gives up on two that spin while a third must run.
fn ends_once(one: fn(&Waiter), other: fn(&Waiter)) {
    bounded(3).check(move || {
        let waiter = Arc::new(Waiter::new());
        let another = Arc::clone(&waiter);
        let thread = thread::spawn(move || other(&another));
        one(&waiter);
        thread.join().expect("it ends");
        assert_eq!(waiter.ends(), 1);
    });
}

#[test]
fn a_waiter_is_served_or_given_up() {
    ends_once(Waiter::give_up, |waiter| waiter.serve(true));
}

#[test]
fn a_waiter_is_served_by_one_of_two() {
    ends_once(|waiter| waiter.serve(true), |waiter| waiter.serve(true));
}

#[test]
fn a_waiter_that_was_looked_at_in_vain_still_ends() {
    ends_once(Waiter::give_up, |waiter| {
        waiter.serve(false);
        waiter.serve(true);
    });
}

#[test]
fn a_waiter_that_times_out_while_it_is_killed() {
    ends_once(Waiter::give_up, Waiter::give_up);
}
