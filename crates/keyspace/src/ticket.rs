//! Who waits for a partition: a parked connection, or a thread of the slow lane.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Thread, park, park_timeout};
use std::time::Duration;

/// Where a parked connection is called: the inbox of its worker.
pub trait Inbox: Send + Sync {
    /// The reason for which `connection` parked for the `parking`-th time may be gone.
    fn unpark(&self, connection: u64, parking: u32);
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
    Thread(Arc<Bell>),
}

impl pantala_sync::lock::Ticket for Ticket {
    fn wake(self) {
        match self {
            Ticket::Connection { inbox, connection, parking } => inbox.unpark(connection, parking),
            Ticket::Thread(bell) => bell.ring(),
        }
    }
}

/// Rings once for a thread that sleeps.
pub struct Bell {
    thread: Thread,
    rung: AtomicBool,
}

impl Bell {
    /// A bell for the calling thread.
    pub fn for_this_thread() -> Arc<Self> {
        Arc::new(Bell { thread: std::thread::current(), rung: AtomicBool::new(false) })
    }

    /// Wakes the thread.
    pub fn ring(&self) {
        self.rung.store(true, Ordering::Release);
        self.thread.unpark();
    }

    /// Sleeps until the bell was rung. Only on the thread it was made for.
    pub fn wait(&self) {
        while !self.rung.swap(false, Ordering::Acquire) {
            park();
        }
    }

    /// Sleeps until the bell was rung or `patience` is over. Only on the thread it was made for.
    pub fn wait_for(&self, patience: Duration) {
        if !self.rung.swap(false, Ordering::Acquire) {
            park_timeout(patience);
            self.rung.store(false, Ordering::Relaxed);
        }
    }
}

/// Tickets to wake once no partition is held any more: waking may be a system call.
#[derive(Default)]
pub(crate) struct Woken(Vec<Ticket>);

impl Woken {
    pub(crate) fn add(&mut self, tickets: impl IntoIterator<Item = Ticket>) {
        self.0.extend(tickets);
    }
}

impl Drop for Woken {
    #[inline]
    fn drop(&mut self) {
        for ticket in self.0.drain(..) {
            pantala_sync::lock::Ticket::wake(ticket);
        }
    }
}
