//! What the engine tells the threads that own connections.
//!
//! A worker has one mailbox. It is left a message with partitions held, and woken after they are
//! free, because waking costs a system call.

use std::sync::Arc;

use pantala_commands::Session;
use pantala_journal::Stamp;
use pantala_keyspace::ClientId;

use crate::waiting::blocked::Blocked;

/// One message.
pub enum Message {
    /// The slow lane has run a command.
    LaneDone {
        /// The connection.
        connection: u64,
        /// Which of its parkings.
        parking: u32,
        /// The session after the command.
        session: Box<Session>,
        /// The reply.
        reply: Vec<u8>,
    },
    /// The command of a connection that waited for a key was run by whoever changed the key.
    Served {
        /// The connection.
        connection: u64,
        /// Which of its parkings.
        parking: u32,
        /// The reply.
        reply: Vec<u8>,
        /// How long its run took.
        took_us: u64,
        /// The step of the journal in which it ran.
        step: Stamp,
    },
    /// A command on the slow lane waits for keys now.
    LaneBlocked {
        /// The connection.
        connection: u64,
        /// Which of its parkings.
        parking: u32,
        /// How it waits.
        blocked: Blocked,
    },
    /// Word for one client: keys it may remember have changed.
    Tell {
        /// The connection.
        connection: u64,
        /// The client's number.
        client: u64,
        /// What it is told.
        word: Word,
    },
    /// A script has held partitions for so long that who waits for them is told.
    ScriptIsBusy,
    /// There are other users, or other rules.
    UsersChanged,
}

/// Keys that have changed; shared by all who are told.
pub type Keys = Arc<[Arc<[u8]>]>;

/// What one client is told.
#[derive(Clone)]
pub enum Word {
    /// These keys have changed; `None`: all may have.
    Stale {
        /// The keys.
        keys: Option<Keys>,
        /// It is told in another client's place.
        is_redirected: bool,
    },
    /// The client that was told in its place is gone.
    Broken(ClientId),
}

/// Where one worker gets its messages.
pub trait Mailbox: pantala_keyspace::Inbox {
    /// Puts a message in; the worker is to be woken later.
    fn leave(&self, message: Message);

    /// Puts a message in and wakes the worker.
    fn post(&self, message: Message) {
        self.leave(message);
        self.wake();
    }
}

/// Of who never waits, so that nobody calls it: what is replayed, or applied as a replica.
pub struct NoMailbox;

impl pantala_keyspace::Inbox for NoMailbox {
    fn unpark(&self, _connection: u64, _parking: u32) {}

    fn wake(&self) {}
}

impl Mailbox for NoMailbox {
    fn leave(&self, _message: Message) {}
}

/// The most workers there can be.
pub const MAX_WORKERS: usize = 256;

/// All workers, by number. None is numbered [`MAX_WORKERS`] or higher.
pub trait WorkerSet: Send + Sync {
    /// Puts a message into a worker's mailbox without waking it; whether there is such a worker.
    fn leave(&self, worker: usize, message: Message) -> bool;

    /// Puts a message into a worker's mailbox and wakes it; whether there is such a worker.
    fn post(&self, worker: usize, message: Message) -> bool;

    /// Puts a message into every worker's mailbox and wakes the workers.
    fn post_all(&self, message: &dyn Fn() -> Message);

    /// Wakes a worker, if it sleeps.
    fn wake(&self, worker: usize);

    /// A worker's mailbox.
    fn mailbox(&self, worker: usize) -> Option<Arc<dyn Mailbox>>;
}

/// No worker at all, for an engine that one thread drives by itself.
pub struct NoWorkers;

impl WorkerSet for NoWorkers {
    fn leave(&self, _worker: usize, _message: Message) -> bool {
        false
    }

    fn post(&self, _worker: usize, _message: Message) -> bool {
        false
    }

    fn post_all(&self, _message: &dyn Fn() -> Message) {}

    fn wake(&self, _worker: usize) {}

    fn mailbox(&self, _worker: usize) -> Option<Arc<dyn Mailbox>> {
        None
    }
}
