//! What other threads tell a worker.
//!
//! A queue and a waker. The queue is lock-free for the many writers; the waker costs a system call
//! only while the worker sleeps (see `pantala_reactor::Waker`).

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use crossbeam_queue::SegQueue;
use pantala_commands::Session;
use pantala_engine::Mailbox;
use pantala_reactor::{ListenerId, Waker};
use pantala_replication::Waiters;

use crate::clients::filter::ClientFilter;
use crate::process::listening::ListenerKind;
use crate::worker::connection::Connection;

/// One message.
pub enum Message {
    /// The engine's.
    Engine(pantala_engine::Message),
    /// A socket that was accepted and is this worker's now.
    Accepted {
        /// The socket.
        socket: OwnedFd,
        /// What is known of it.
        session: Box<Session>,
        /// Where it was accepted.
        kind: ListenerKind,
    },
    /// A connection that another worker gave up.
    Moved {
        /// The socket.
        socket: OwnedFd,
        /// All that belongs to it.
        connection: Box<Connection>,
    },
    /// The reason for parking may be gone.
    Unpark {
        /// The connection.
        connection: u64,
        /// Which of its parkings.
        parking: u32,
    },
    /// Describe the connections that the filter accepts, as CLIENT LIST does.
    List {
        /// Which.
        filter: Arc<ClientFilter>,
        /// Where the lines go, with the client's number.
        answer: Sender<Vec<(u64, String)>>,
    },
    /// Close the connections that the filter accepts; the asker's own is left to the asker.
    Kill {
        /// Which.
        filter: Arc<ClientFilter>,
        /// Where the clients' numbers go.
        answer: Sender<Vec<u64>>,
    },
    /// End the parking of this client by CLIENT UNBLOCK.
    Unblock {
        /// The client's number.
        client: u64,
        /// With an error instead of a timeout.
        with_error: bool,
        /// Whether it was parked.
        answer: Sender<bool>,
    },
    /// CLIENT PAUSE has ended or changed: try the paused again.
    PauseChanged,
    /// More of the journal is durable.
    JournalKept,
    /// This server follows another one from now on: who waits for keys waits no longer.
    RoleChanged,
    /// There is more to be sent to replicas.
    StreamGrew,
    /// Clients take too much memory together, and the largest may be one of this worker.
    EvictClients,
    /// Take this, and drop it: whoever waits for all workers to have looked waits for that.
    Look {
        /// Nothing is sent.
        _until_seen: Sender<()>,
    },
    /// Accept connections at these sockets, too.
    Listen(Vec<(ListenerId, OwnedFd)>),
    /// Close these.
    Unlisten(Vec<ListenerId>),
    /// The settings have changed, or this worker is to give up its connections, or to stop.
    LookUp,
}

/// A worker's inbox.
pub struct Inbox {
    queue: SegQueue<Message>,
    waker: Waker,
    /// Clients of the worker that wait until replicas have what they have written.
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

    /// Puts a message in; the worker is to be woken later.
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
