//! Counts the clients in WAIT, so that an acknowledgement wakes them and costs nothing while there
//! are none.
//!
//! ```text
//! waiter        join,                          then checks how far replicas are, and sleeps
//! acknowledger  stores how far a replica is,   then asks whether anybody waits, and wakes
//! ```
//!
//! Invariants
//! 1. Between the two steps of each lies a fence: at least one of the two sees the other's first
//!    step. So no client sleeps whose condition holds already.
//! 2. Concurrent waiters do not hide each other: each adds one, and subtracts it.
//!
//! Tests: a loom model at the foot, with acknowledgements.

use crate::primitives::{AtomicUsize, Ordering, fence};

/// The number of waiting clients, with the fences that avoid a lost wake-up.
#[derive(Debug, Default)]
pub struct Waiters(AtomicUsize);

impl Waiters {
    /// Registers a waiter, which must check its condition again after this.
    pub fn join(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Deregisters a waiter.
    pub fn leave(&self) {
        let before = self.0.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "it has joined");
    }

    /// Whether anybody waits; call it after writing down how far a replica is.
    pub fn are_there(&self) -> bool {
        fence(Ordering::SeqCst);
        self.were_there()
    }

    /// Whether anybody waits, perhaps a little late: enough for callers that are told when a wait
    /// begins.
    #[inline]
    pub fn were_there(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn they_are_there_until_the_last_has_left() {
        let waiters = Waiters::default();
        assert!(!waiters.are_there());
        waiters.join();
        waiters.join();
        waiters.leave();
        assert!(waiters.are_there() && waiters.were_there());
        waiters.leave();
        assert!(!waiters.are_there());
    }
}

/// A worker parks a WAIT while another receives an acknowledgement: the steps of the server's
/// `worker/turn/waiting.rs` (`block`) and `replication/primary` (`heard`), on the types of this
/// crate.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::{Phase, Replica, Replicas};
    use loom::sync::Arc;
    use loom::thread;

    const POSITION: u64 = 10;

    struct Server {
        replicas: Replicas,
        replica: std::sync::Arc<Replica>,
        /// Waiters of all workers, and of each.
        all: Waiters,
        of_workers: [Waiters; 2],
        /// Workers that must check again.
        called: [crate::primitives::AtomicBool; 2],
    }

    impl Server {
        fn new(phase: Phase) -> Server {
            let replica = std::sync::Arc::new(Replica::new(1, None, 0));
            replica.set_phase(phase);
            let replicas = Replicas::default();
            replicas.join(&replica);
            let (all, of_workers) = (Waiters::default(), Default::default());
            Server { replicas, replica, all, of_workers, called: Default::default() }
        }

        /// A client of this worker waits, if it must; returns whether it sleeps.
        fn wait(&self, worker: usize) -> bool {
            self.all.join();
            self.of_workers[worker].join();
            let has_it = self.replicas.count_acknowledged(POSITION, false) > 0;
            if has_it {
                self.of_workers[worker].leave();
                self.all.leave();
            }
            !has_it
        }

        /// The replica has acknowledged.
        fn hear(&self) {
            self.replica.acknowledge(POSITION, None, 1);
            self.replica.set_phase(Phase::Online);
            if !self.all.are_there() {
                return;
            }
            for (waiters, called) in self.of_workers.iter().zip(&self.called) {
                if waiters.are_there() {
                    called.store(true, Ordering::Release);
                }
            }
        }

        fn is_called(&self, worker: usize) -> bool {
            self.called[worker].load(Ordering::Acquire)
        }
    }

    /// The worker waits during the acknowledgement, and another client, if any, has waited before.
    fn check(phase: Phase, other_waits: bool) {
        loom::model(move || {
            let server = Arc::new(Server::new(phase));
            let hears = Arc::clone(&server);
            let other_sleeps = other_waits && server.wait(1);
            let heard = thread::spawn(move || hears.hear());
            let sleeps = server.wait(0);
            heard.join().expect("no panic");
            assert!(!sleeps || server.is_called(0), "it sleeps for ever");
            assert!(!other_sleeps || server.is_called(1), "the other sleeps for ever");
        });
    }

    #[test]
    fn who_waits_is_called_or_sees_what_was_said() {
        check(Phase::Online, false);
    }

    #[test]
    fn so_is_who_waits_for_one_that_begins_to_follow() {
        check(Phase::Copying, false);
    }

    #[test]
    fn so_are_those_of_another_worker() {
        check(Phase::Online, true);
    }

    /// A client of another worker leaves, served, while one comes.
    #[test]
    fn who_leaves_does_not_hide_who_comes() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let server = Arc::new(Server::new(Phase::Online));
            server.all.join();
            let (hears, leaves) = (Arc::clone(&server), Arc::clone(&server));
            let heard = thread::spawn(move || hears.hear());
            let left = thread::spawn(move || leaves.all.leave());
            let sleeps = server.wait(0);
            heard.join().expect("no panic");
            left.join().expect("no panic");
            assert!(!sleeps || server.is_called(0), "it sleeps for ever");
        });
    }
}
