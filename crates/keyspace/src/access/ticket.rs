//! Waiting: parked connections and threads of the slow lane that wait for a partition ([`Ticket`]),
//! and blocked commands that wait for a change of a key ([`Waiter`]).
//!
//! Invariant
//! 1. A waiter ends exactly once: served by the command that changed the key, or ended by its own
//!    worker (timeout, CLIENT UNBLOCK, disconnect). [`Waiter::claim`] decides which.

use std::any::Any;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread::{Thread, park, park_timeout};
use std::time::{Duration, Instant};

use crate::Keyspace;
use crate::changes::effects::{ClientId, Effects};
use crate::changes::undo::Undo;
use crate::key::DbIndex;

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
    /// An ascending number that gives its place in the queues ([`Keyspace::next_arrival`]).
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
        self.state.store(ENDED, Ordering::Release);
    }

    /// Releases a claimed waiter that could not be served: it goes on waiting.
    pub fn let_go(&self) {
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

/// A changed key that a client is blocked on.
pub struct ReadyKey {
    /// Its database.
    pub db: DbIndex,
    /// The key.
    pub key: Box<[u8]>,
}

/// Changed keys that clients are blocked on, each once, in the order of the changes.
#[derive(Default)]
pub(crate) struct ReadyKeys {
    queue: VecDeque<ReadyKey>,
    /// The keys in the queue, as a set: they may be as many as a command has keys.
    known: HashSet<(DbIndex, Box<[u8]>)>,
}

impl ReadyKeys {
    fn add(&mut self, db: DbIndex, key: &[u8]) {
        if self.known.insert((db, key.into())) {
            self.queue.push_back(ReadyKey { db, key: key.into() });
        }
    }

    fn next(&mut self) -> Option<ReadyKey> {
        let ReadyKey { db, key } = self.queue.pop_front()?;
        let (_, key) = self.known.take(&(db, key))?;
        Some(ReadyKey { db, key })
    }
}

/// What follows a command: keys to serve and effects to publish while its partitions are held, and
/// tickets to redeem once they are free, because waking may be a system call.
#[derive(Default)]
pub(crate) struct FollowUps {
    tickets: Vec<Ticket>,
    ready: Option<Box<ReadyKeys>>,
    pub(crate) effects: Option<Box<Effects>>,
    /// The command may still be undone: no effect is published before its end, however many there
    /// are.
    pub(crate) holds_back: bool,
    /// The keys as they were before they changed, while that can be undone.
    pub(crate) undo: Option<Undo>,
}

impl FollowUps {
    pub(crate) fn add(&mut self, tickets: impl IntoIterator<Item = Ticket>) {
        self.tickets.extend(tickets);
    }

    /// The effects so far.
    pub(crate) fn effects(&mut self) -> &mut Effects {
        self.effects.get_or_insert_default()
    }

    /// Whether keys are copied for undo before they change: the only cost for a change that need
    /// not.
    #[inline]
    pub(crate) fn keeps(&self) -> bool {
        self.undo.is_some()
    }

    /// The client that causes the effects.
    pub(crate) fn author(&self) -> ClientId {
        self.effects.as_ref().map_or(0, |effects| effects.author())
    }

    /// Publishes the effects so far. The partitions are still held.
    #[cold]
    pub(crate) fn tell(&mut self, space: &Keyspace) {
        if let Some(effects) = &mut self.effects {
            effects.hand_over(space, &mut self.tickets);
        }
    }

    /// Publishes the effects so far if they are very many and cannot be undone.
    pub(crate) fn tell_if_too_many(&mut self, space: &Keyspace) {
        if !self.holds_back && self.effects.as_ref().is_some_and(|all| all.is_too_long()) {
            self.tell(space);
        }
    }

    /// Redeems the tickets. The partitions are free.
    #[inline]
    pub(crate) fn wake(&mut self) {
        for ticket in self.tickets.drain(..) {
            pantala_sync::lock::Ticket::wake(ticket);
        }
    }

    /// Notes that a key has changed which a client is blocked on.
    #[cold]
    pub(crate) fn is_ready(&mut self, db: DbIndex, key: &[u8]) {
        self.ready.get_or_insert_default().add(db, key);
    }

    /// Whether there is such a key.
    #[inline]
    pub(crate) fn has_ready(&self) -> bool {
        self.ready.is_some()
    }

    /// Removes and returns the first of them.
    pub(crate) fn next_ready(&mut self) -> Option<ReadyKey> {
        let next = self.ready.as_mut()?.next();
        self.ready.take_if(|ready| ready.queue.is_empty());
        next
    }
}

impl Drop for FollowUps {
    #[inline]
    fn drop(&mut self) {
        self.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_ready_once_until_it_is_served() {
        let mut woken = FollowUps::default();
        for key in [b"a", b"b", b"a"] {
            woken.is_ready(DbIndex(0), key);
        }
        woken.is_ready(DbIndex(1), b"a");
        let next = |woken: &mut FollowUps| woken.next_ready().map(|ready| (ready.db.0, ready.key));
        assert_eq!(next(&mut woken), Some((0, b"a"[..].into())));
        woken.is_ready(DbIndex(0), b"a");
        for wanted in [(0, b"b"), (1, b"a"), (0, b"a")] {
            assert!(woken.has_ready());
            assert_eq!(next(&mut woken), Some((wanted.0, wanted.1[..].into())));
        }
        assert!(!woken.has_ready() && woken.next_ready().is_none());
    }
}
