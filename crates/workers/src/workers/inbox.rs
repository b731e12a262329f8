//! The inbox of a worker: messages from other threads.
//!
//! A queue and a waker. The queue is lock-free for the many writers; waking costs a system call
//! only while the worker sleeps (see `pantala_reactor::Waker`).

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use crossbeam_queue::SegQueue;
use pantala_commands::Session;
use pantala_engine::Mailbox;
use pantala_psync::Waiters;
use pantala_reactor::{ListenerId, Waker};

use crate::listener_kind::ListenerKind;
use crate::worker::connection::Connection;
use pantala_engine::clients::filter::ClientFilter;

/// One message.
pub enum Message {
    /// A message of the engine's.
    Engine(pantala_engine::Message),
    /// A newly accepted socket for this worker.
    Accepted {
        /// The socket.
        socket: OwnedFd,
        /// Its session.
        session: Box<Session>,
        /// The kind of listener that accepted it.
        kind: ListenerKind,
    },
    /// A connection that another worker has handed over.
    Moved {
        /// The socket.
        socket: OwnedFd,
        /// Everything that belongs to it.
        connection: Box<Connection>,
    },
    /// The reason for parking may be gone.
    Unpark {
        /// The connection.
        connection: u64,
        /// The number of the parking.
        parking: u32,
    },
    /// Describe the connections that the filter accepts, as CLIENT LIST does.
    List {
        /// The filter.
        filter: Arc<ClientFilter>,
        /// Receives the lines with the clients' ids.
        answer: Sender<Vec<(u64, String)>>,
    },
    /// Close the connections that the filter accepts; the asking client's own is left to itself.
    Kill {
        /// The filter.
        filter: Arc<ClientFilter>,
        /// Receives the clients' ids.
        answer: Sender<Vec<u64>>,
    },
    /// Unblock this client, by CLIENT UNBLOCK.
    Unblock {
        /// The client's number.
        client: u64,
        /// With an error instead of a timeout.
        with_error: bool,
        /// Receives whether it was blocked.
        answer: Sender<bool>,
    },
    /// Clients take too much memory together, and the largest may be one of this worker's.
    EvictClients,
    /// Drop this: a thread waits until all workers have done so.
    Look {
        /// Nothing is sent.
        _until_seen: Sender<()>,
    },
    /// Accept connections on these sockets, too.
    Listen(Vec<(ListenerId, OwnedFd)>),
    /// Close these listeners.
    Unlisten(Vec<ListenerId>),
}

impl From<pantala_engine::Message> for Message {
    fn from(message: pantala_engine::Message) -> Message {
        Message::Engine(message)
    }
}

/// A worker's inbox.
pub struct Inbox {
    queue: SegQueue<Message>,
    waker: Waker,
    /// Clients of the worker that wait until replicas have their writes.
    pub for_replicas: Waiters,
}

impl Inbox {
    /// The inbox of the reactor with this waker.
    pub fn new(waker: Waker) -> Self {
        Inbox { queue: SegQueue::new(), waker, for_replicas: Waiters::default() }
    }

    /// Puts a message in and wakes the worker.
    pub fn post(&self, message: Message) {
        self.leave(message);
        self.waker.wake();
    }

    /// Puts a message in; the caller wakes the worker later.
    pub fn leave(&self, message: Message) {
        self.queue.push(message);
    }

    /// Wakes the worker, if it sleeps.
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// The next message.
    pub fn take(&self) -> Option<Message> {
        self.queue.pop()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

impl pantala_keyspace::Inbox for Inbox {
    fn unpark(&self, connection: u64, parking: u32) {
        self.post(Message::Unpark { connection, parking });
    }

    fn wake(&self) {
        self.waker.wake();
    }
}

impl Mailbox for Inbox {
    fn leave(&self, message: pantala_engine::Message) {
        self.leave(Message::Engine(message));
    }
}
