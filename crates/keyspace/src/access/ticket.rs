//! Waiting: parked connections and threads of the slow lane that wait for a partition ([`Ticket`]),
//! and blocked commands that wait for a change of a key ([`Waiter`]).
//!
//! Invariant
//! 1. A waiter ends exactly once: served by the command that changed the key, or ended by its own
//!    worker (timeout, CLIENT UNBLOCK, disconnect). [`Waiter::claim`] decides which.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread::{Thread, park, park_timeout};
use std::time::{Duration, Instant};

/// The inbox of a worker, through which parked connections are woken.
pub trait Inbox: Send + Sync {
    /// The reason for the parking numbered `parking` of `connection` may be gone.
    fn unpark(&self, connection: u64, parking: u32);

    /// Wakes the worker: something new is in the inbox.
    fn wake(&self);
}

/// What is left at a busy lock or an absent key, to be redeemed later.
pub enum Ticket {
    /// A parked connection, with the number of its parking, so that late wake-ups are recognised.
    Connection {
        /// The inbox of its worker.
        inbox: Arc<dyn Inbox>,
        /// The connection, as its worker numbers it.
        connection: u64,
        /// The number of this parking.
        parking: u32,
    },
    /// A sleeping thread that may block.
    Thread(Arc<ThreadWaker>),
    /// A worker whose inbox has something new.
    Inbox(Arc<dyn Inbox>),
}

impl pantala_sync::lock::Ticket for Ticket {
    fn wake(self) {
        match self {
            Ticket::Connection { inbox, connection, parking } => inbox.unpark(connection, parking),
            Ticket::Thread(waker) => waker.wake(),
            Ticket::Inbox(inbox) => inbox.wake(),
        }
    }
}

/// Wakes one sleeping thread.
pub struct ThreadWaker {
    thread: Thread,
    woken: AtomicBool,
}

impl ThreadWaker {
    /// A waker for the calling thread.
    pub fn for_this_thread() -> Arc<Self> {
        Arc::new(ThreadWaker { thread: std::thread::current(), woken: AtomicBool::new(false) })
    }

    /// Wakes the thread.
    pub fn wake(&self) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }

    /// Sleeps until woken. Only on the thread it was made for.
    pub fn wait(&self) {
        while !self.woken.swap(false, Ordering::Acquire) {
            park();
        }
    }

    /// Sleeps until woken, for `at_most` at most; whether it was woken. Only on the thread it was
    /// made for.
    pub fn wait_at_most(&self, at_most: Duration) -> bool {
        let until = Instant::now() + at_most;
        loop {
            if self.woken.swap(false, Ordering::Acquire) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            park_timeout(left);
        }
    }

    /// Sleeps until woken or `at_most` is over; may return early. Only on the thread it was made
    /// for.
    pub fn wait_for(&self, at_most: Duration) {
        if !self.woken.swap(false, Ordering::Acquire) {
            park_timeout(at_most);
            self.woken.store(false, Ordering::Relaxed);
        }
    }
}

const WAITING: u8 = 0;
const CLAIMED: u8 = 1;
const ENDED: u8 = 2;

/// A blocked command that waits for one of its keys, in the queue of each.
pub struct Waiter {
    state: AtomicU8,
    /// The command to run then; only the engine knows its type.
    pub request: Box<dyn Any + Send + Sync>,
    /// The inbox of its worker.
    pub inbox: Arc<dyn Inbox>,
    /// The connection, as its worker numbers it.
    pub connection: u64,
    /// The number of the connection's parking.
    pub parking: u32,
    /// An ascending number that gives its place in the queues ([`crate::Keyspace::next_arrival`]).
    pub arrival: u64,
}

impl Waiter {
    /// A waiter that has not ended, with this place in the queues.
    pub fn new(
        request: Box<dyn Any + Send + Sync>,
        inbox: Arc<dyn Inbox>,
        (connection, parking): (u64, u32),
        arrival: u64,
    ) -> Arc<Waiter> {
        let state = AtomicU8::new(WAITING);
        Arc::new(Waiter { state, request, inbox, connection, parking, arrival })
    }

    /// Whether it still waits.
    pub fn is_waiting(&self) -> bool {
        self.state.load(Ordering::Acquire) != ENDED
    }

    /// Takes the right to serve it; false if it has ended. To be followed at once by
    /// [`Waiter::end`] or [`Waiter::let_go`]: other claimants spin meanwhile.
    pub fn claim(&self) -> bool {
        loop {
            match self.state.compare_exchange_weak(
                WAITING,
                CLAIMED,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return true,
                Err(ENDED) => return false,
                Err(_) => std::hint::spin_loop(),
            }
        }
    }

    /// Ends a claimed waiter: it was served, or no longer waits for another reason.
    pub fn end(&self) {
        debug_assert_eq!(
            self.state.load(Ordering::Relaxed),
            CLAIMED,
            "it was claimed, and ends once"
        );
        self.state.store(ENDED, Ordering::Release);
    }

    /// Releases a claimed waiter that could not be served: it goes on waiting.
    pub fn let_go(&self) {
        debug_assert_eq!(self.state.load(Ordering::Relaxed), CLAIMED, "who claimed it lets go");
        self.state.store(WAITING, Ordering::Release);
    }

    /// Ends it; false if it had ended before. Its worker is then to be told to run the command
    /// again ([`Waiter::ticket`]).
    pub fn ends_now(&self) -> bool {
        let did = self.claim();
        if did {
            self.end();
        }
        did
    }

    /// Ends it as [`Waiter::ends_now`] does, and tells its worker.
    pub fn call(&self) {
        if self.ends_now() {
            pantala_sync::lock::Ticket::wake(self.ticket());
        }
    }

    /// The ticket that tells its worker to run the command again.
    pub fn ticket(&self) -> Ticket {
        let inbox = Arc::clone(&self.inbox);
        Ticket::Connection { inbox, connection: self.connection, parking: self.parking }
    }
}
