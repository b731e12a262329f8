//! Messages from the engine to the threads that own connections.
//!
//! A worker has one mailbox. A message is left there with partitions held, and the worker is woken
//! once they are free, because waking costs a system call.

use std::sync::Arc;

use pantala_commands::Session;
use pantala_journal::Stamp;
use pantala_keyspace::ClientId;

use crate::engine::slots_cell::WritePermit;
use crate::waiting::blocked::BlockedCommand;

/// One message.
pub enum Message {
    /// The slow lane has run a command.
    LaneDone {
        /// The connection.
        connection: u64,
        /// The number of its parking.
        parking: u32,
        /// The session after the command.
        session: Box<Session>,
        /// The reply.
        reply: Vec<u8>,
        /// The permission under which it ran.
        permit: WritePermit,
    },
    /// The command of a blocked connection was run by the command that changed the key.
    Served {
        /// The connection.
        connection: u64,
        /// The number of its parking.
        parking: u32,
        /// The reply.
        reply: Vec<u8>,
        /// The duration of its run, in microseconds.
        took_us: u64,
        /// The step of the journal in which it ran.
        step: Stamp,
        /// The permission under which it ran.
        permit: WritePermit,
    },
    /// A command on the slow lane has blocked on keys.
    LaneBlocked {
        /// The connection.
        connection: u64,
        /// The number of its parking.
        parking: u32,
        /// The blocked command.
        blocked: BlockedCommand,
    },
    /// For one client: keys that it may have cached have changed.
    Tell {
        /// The connection.
        connection: u64,
        /// The client's number.
        client: u64,
        /// The invalidation.
        word: Invalidation,
    },
    /// A script has held partitions for so long that commands waiting for them are answered BUSY.
    ScriptIsBusy,
    /// Users or their rules have changed.
    UsersChanged,
    /// CLIENT PAUSE has ended or changed: unpark the paused connections.
    PauseChanged,
    /// Serve nobody until this time (monotonic, microseconds): DEBUG SLEEP.
    Sleep {
        /// The time.
        until_us: u64,
    },
    /// More of the journal is durable.
    JournalKept,
    /// This server has become a replica: clients blocked on keys are unblocked.
    RoleChanged,
    /// This node of a cluster has other slots: clients blocked on keys of others are redirected.
    SlotsChanged,
    /// The stream of replicas has grown.
    StreamGrew,
    /// Check the settings, and whether to give up connections or to stop.
    LookUp,
}

/// Keys that have changed, shared by all clients that are told.
pub type ChangedKeys = Arc<[Arc<[u8]>]>;

/// A message of CLIENT TRACKING for one client.
#[derive(Clone)]
pub enum Invalidation {
    /// These cached keys are stale; `None`: all may be.
    Stale {
        /// The keys.
        keys: Option<ChangedKeys>,
        /// The client receives it for another one (REDIRECT).
        is_redirected: bool,
    },
    /// The client that received invalidations for it is gone.
    Broken(ClientId),
}

/// The mailbox of one worker.
pub trait Mailbox: pantala_keyspace::Inbox {
    /// Puts a message in; the caller wakes the worker later.
    fn leave(&self, message: Message);

    /// Puts a message in and wakes the worker.
    fn post(&self, message: Message) {
        self.leave(message);
        self.wake();
    }
}

/// The mailbox of commands that never wait: of a journal that is replayed, or a replica's stream.
pub struct NoMailbox;

impl pantala_keyspace::Inbox for NoMailbox {
    fn unpark(&self, _connection: u64, _parking: u32) {}

    fn wake(&self) {}
}

impl Mailbox for NoMailbox {
    fn leave(&self, _message: Message) {}
}

/// The most workers that a server may have.
pub const MAX_WORKERS: usize = 256;

/// All workers, by number. None is numbered [`MAX_WORKERS`] or higher.
pub trait WorkerSet: Send + Sync {
    /// Puts a message into a worker's mailbox without waking it; whether there is such a worker.
    fn leave(&self, worker: usize, message: Message) -> bool;

    /// Puts a message into a worker's mailbox and wakes it; whether there is such a worker.
    fn post(&self, worker: usize, message: Message) -> bool;

    /// Puts a message into every worker's mailbox and wakes the workers.
    fn post_all(&self, message: &dyn Fn() -> Message);

    /// Puts a message into the mailbox of each worker whose clients wait until replicas have their
    /// writes, and wakes these.
    fn post_to_waiting(&self, message: &dyn Fn() -> Message);

    /// Wakes a worker, if it sleeps.
    fn wake(&self, worker: usize);

    /// A worker's mailbox.
    fn mailbox(&self, worker: usize) -> Option<Arc<dyn Mailbox>>;
}

/// The empty set of workers, for an engine that one thread drives alone.
pub struct NoWorkers;

impl WorkerSet for NoWorkers {
    fn leave(&self, _worker: usize, _message: Message) -> bool {
        false
    }

    fn post(&self, _worker: usize, _message: Message) -> bool {
        false
    }

    fn post_all(&self, _message: &dyn Fn() -> Message) {}

    fn post_to_waiting(&self, _message: &dyn Fn() -> Message) {}

    fn wake(&self, _worker: usize) {}

    fn mailbox(&self, _worker: usize) -> Option<Arc<dyn Mailbox>> {
        None
    }
}
