//! Those who wait: for a partition, a parked connection or a thread of the slow lane ([`Ticket`]);
//! for a change of a key, a command ([`Waiter`]).
//!
//! Invariant
//! 1. A waiter ends exactly once: served by whoever changed the key, or ended by its own worker
//!    (timeout, CLIENT UNBLOCK, disconnect). [`Waiter::claim`] decides which.

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

/// Where a parked connection is called: the inbox of its worker.
pub trait Inbox: Send + Sync {
    /// The reason for which `connection` parked for the `parking`-th time may be gone.
    fn unpark(&self, connection: u64, parking: u32);

    /// There is something new in it.
    fn wake(&self);
}

/// What is left with a lock that was busy, or with a key that was not there.
pub enum Ticket {
    /// A connection, with the number of its parking so that late calls are told apart.
    Connection {
        /// Its worker's inbox.
        inbox: Arc<dyn Inbox>,
        /// The connection, by its worker's own number.
        connection: u64,
        /// Which parking of this connection.
        parking: u32,
    },
    /// A thread that may block.
    Thread(Arc<Waker>),
    /// A worker that was left something in its inbox.
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

/// Rings once for a thread that sleeps.
pub struct Waker {
    thread: Thread,
    woken: AtomicBool,
}

impl Waker {
    /// A waker for the calling thread.
    pub fn for_this_thread() -> Arc<Self> {
        Arc::new(Waker { thread: std::thread::current(), woken: AtomicBool::new(false) })
    }

    /// Wakes the thread.
    pub fn wake(&self) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }

    /// Sleeps until the waker was called. Only on the thread it was made for.
    pub fn wait(&self) {
        while !self.woken.swap(false, Ordering::Acquire) {
            park();
        }
    }

    /// Sleeps until the waker was called, `at_most` at most; whether it was. Only on the thread it
    /// was made for.
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

    /// Sleeps until the waker was called or `at_most` is over. Only on the thread it was made for.
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

/// A command that waits for something to appear under one of its keys, in the queue of each.
pub struct Waiter {
    state: AtomicU8,
    /// What is to be run when there is something; only the server knows what that is.
    pub request: Box<dyn Any + Send + Sync>,
    /// The inbox of its worker.
    pub inbox: Arc<dyn Inbox>,
    /// The connection, by its worker's own number.
    pub connection: u64,
    /// Which parking of this connection.
    pub parking: u32,
    /// When it came, as a number that grows ([`Keyspace::next_arrival`]): its place in the queues.
    pub arrival: u64,
}

impl Waiter {
    /// A waiter that waits, and came when `arrival` says.
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

    /// Takes the right to serve it. False when it has ended. Followed at once by [`Waiter::end`]
    /// or [`Waiter::let_go`]; whoever else wants to claim it spins for so long.
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

    /// It was served, or waits no longer for another reason.
    pub fn end(&self) {
        self.state.store(ENDED, Ordering::Release);
    }

    /// It could not be served: it goes on waiting.
    pub fn let_go(&self) {
        self.state.store(WAITING, Ordering::Release);
    }

    /// Ends it, if it waits; whether it did. Its worker is to be told to run the command again from
    /// its start ([`Waiter::ticket`]).
    pub fn ends_now(&self) -> bool {
        let did = self.claim();
        if did {
            self.end();
        }
        did
    }

    /// [`Waiter::ends_now`], and tells its worker.
    pub fn call(&self) {
        if self.ends_now() {
            pantala_sync::lock::Ticket::wake(self.ticket());
        }
    }

    /// Tells its worker to run the command again.
    pub fn ticket(&self) -> Ticket {
        let inbox = Arc::clone(&self.inbox);
        Ticket::Connection { inbox, connection: self.connection, parking: self.parking }
    }
}

/// A key that changed while somebody waits for it.
pub struct Ready {
    /// Its database.
    pub db: DbIndex,
    /// The key.
    pub key: Box<[u8]>,
}

/// Keys that changed while somebody waits for them, each once, in the order they changed.
#[derive(Default)]
pub(crate) struct ReadyKeys {
    queue: VecDeque<Ready>,
    /// Those in the queue: they may be as many as a command has keys.
    known: HashSet<(DbIndex, Box<[u8]>)>,
}

impl ReadyKeys {
    fn add(&mut self, db: DbIndex, key: &[u8]) {
        if self.known.insert((db, key.into())) {
            self.queue.push_back(Ready { db, key: key.into() });
        }
    }

    fn next(&mut self) -> Option<Ready> {
        let Ready { db, key } = self.queue.pop_front()?;
        let (_, key) = self.known.take(&(db, key))?;
        Some(Ready { db, key })
    }
}

/// What is to follow when a command has run: waiters to serve and others to tell while its
/// partitions are held, and tickets to wake once they are free, because waking may be a system
/// call.
#[derive(Default)]
pub(crate) struct Woken {
    tickets: Vec<Ticket>,
    ready: Option<Box<ReadyKeys>>,
    pub(crate) effects: Option<Box<Effects>>,
    /// The command may still be undone: nothing leaves before its end, however much there is.
    pub(crate) holds_back: bool,
    /// What keys were before they changed, while that can be undone.
    pub(crate) undo: Option<Undo>,
}

impl Woken {
    pub(crate) fn add(&mut self, tickets: impl IntoIterator<Item = Ticket>) {
        self.tickets.extend(tickets);
    }

    /// What others are told.
    pub(crate) fn effects(&mut self) -> &mut Effects {
        self.effects.get_or_insert_default()
    }

    /// Whether somebody keeps what a key was before it changes: the one look a change pays for.
    #[inline]
    pub(crate) fn keeps(&self) -> bool {
        self.undo.is_some()
    }

    /// Who causes what is told.
    pub(crate) fn author(&self) -> ClientId {
        self.effects.as_ref().map_or(0, |effects| effects.author())
    }

    /// Tells others what has happened so far. The partitions are still held.
    #[cold]
    pub(crate) fn tell(&mut self, space: &Keyspace) {
        if let Some(effects) = &mut self.effects {
            effects.hand_over(space, &mut self.tickets);
        }
    }

    /// Tells others what has happened so far if it is very much and cannot be undone.
    pub(crate) fn tell_if_too_many(&mut self, space: &Keyspace) {
        if !self.holds_back && self.effects.as_ref().is_some_and(|all| all.is_too_long()) {
            self.tell(space);
        }
    }

    /// Wakes who is to be woken. The partitions are free.
    #[inline]
    pub(crate) fn wake(&mut self) {
        for ticket in self.tickets.drain(..) {
            pantala_sync::lock::Ticket::wake(ticket);
        }
    }

    /// A key changed that somebody waits for.
    #[cold]
    pub(crate) fn is_ready(&mut self, db: DbIndex, key: &[u8]) {
        self.ready.get_or_insert_default().add(db, key);
    }

    /// Whether there is such a key.
    #[inline]
    pub(crate) fn has_ready(&self) -> bool {
        self.ready.is_some()
    }

    /// The first of them.
    pub(crate) fn next_ready(&mut self) -> Option<Ready> {
        let next = self.ready.as_mut()?.next();
        self.ready.take_if(|ready| ready.queue.is_empty());
        next
    }
}

impl Drop for Woken {
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
        let mut woken = Woken::default();
        for key in [b"a", b"b", b"a"] {
            woken.is_ready(DbIndex(0), key);
        }
        woken.is_ready(DbIndex(1), b"a");
        let next = |woken: &mut Woken| woken.next_ready().map(|ready| (ready.db.0, ready.key));
        assert_eq!(next(&mut woken), Some((0, b"a"[..].into())));
        woken.is_ready(DbIndex(0), b"a");
        for wanted in [(0, b"b"), (1, b"a"), (0, b"a")] {
            assert!(woken.has_ready());
            assert_eq!(next(&mut woken), Some((wanted.0, wanted.1[..].into())));
        }
        assert!(!woken.has_ready() && woken.next_ready().is_none());
    }
}
