//! Waking from other threads.

use crate::on_every_engine;
use crate::world::World;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// One thread posts and wakes, and posts again only when the worker has seen it: every single wake
/// must arrive, whether it finds the worker asleep, awake or about to sleep.
#[test]
fn no_wake_is_lost_one_by_one() {
    on_every_engine(|config| {
        const ROUNDS: usize = 20_000;
        let mut world = World::new(config);
        let posted = Arc::new(AtomicUsize::new(0));
        let seen = Arc::new(AtomicUsize::new(0));
        let waker = world.reactor.waker();
        let caller = {
            let (posted, seen) = (Arc::clone(&posted), Arc::clone(&seen));
            std::thread::spawn(move || {
                for round in 1..=ROUNDS {
                    posted.store(round, Ordering::Relaxed);
                    waker.wake();
                    while seen.load(Ordering::Acquire) < round {
                        std::thread::yield_now();
                    }
                }
            })
        };
        let mut handled = 0;
        while handled < ROUNDS {
            let before = world.woken;
            world.until(|w| w.woken > before);
            // What was posted before the wake is seen after `Woken`.
            handled = posted.load(Ordering::Relaxed);
            seen.store(handled, Ordering::Release);
        }
        caller.join().unwrap();
    });
}

/// Several threads post and wake as fast as they can; the sum must be right, and the last post must
/// not stay unseen.
#[test]
fn no_wake_is_lost_in_a_crowd() {
    on_every_engine(|config| {
        const EACH: usize = 30_000;
        let mut world = World::new(config);
        let posted = Arc::new(AtomicUsize::new(0));
        let callers: Vec<_> = (0..3)
            .map(|_| {
                let (waker, posted) = (world.reactor.waker(), Arc::clone(&posted));
                std::thread::spawn(move || {
                    for _ in 0..EACH {
                        posted.fetch_add(1, Ordering::Relaxed);
                        waker.wake();
                    }
                })
            })
            .collect();
        let mut handled = 0;
        while handled < 3 * EACH {
            let before = world.woken;
            world.until(|w| w.woken > before);
            handled = posted.load(Ordering::Relaxed);
        }
        assert!(world.woken <= 3 * EACH, "woken more often than called");
        callers.into_iter().for_each(|caller| caller.join().unwrap());
    });
}

#[test]
fn a_wake_before_the_wait_is_kept() {
    on_every_engine(|config| {
        let mut world = World::new(config);
        let waker = world.reactor.waker();
        waker.wake();
        waker.clone().wake();
        world.turn(None);
        assert_eq!(world.woken, 1);
        world.turn(Some(Duration::ZERO));
        assert_eq!(world.woken, 1);
        waker.wake();
        world.turn(None);
        assert_eq!(world.woken, 2);
    });
}

#[test]
fn a_timeout_ends_the_wait() {
    on_every_engine(|config| {
        let mut world = World::new(config);
        let time = Duration::from_millis(20);
        let started = std::time::Instant::now();
        // A signal may end a wait early, even one that only concerns the kernel; but not every
        // time.
        while started.elapsed() < time {
            world.turn(Some(time));
            assert!(world.turns < 100, "it does not sleep");
        }
        assert_eq!(world.woken, 0);
        // No timeout is too long.
        world.reactor.waker().wake();
        world.turn(Some(Duration::MAX));
        let waker = world.reactor.waker();
        let caller = std::thread::spawn(move || waker.wake());
        while world.woken < 2 {
            world.turn(Some(Duration::MAX));
        }
        caller.join().unwrap();
    });
}

#[test]
fn a_waker_may_outlive_its_reactor() {
    on_every_engine(|config| {
        let world = World::new(config);
        let waker = world.reactor.waker();
        drop(world);
        waker.wake();
    });
}
