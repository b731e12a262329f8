//! The connections of a reactor and their state: one table for both engines.
//!
//! The engines differ in their system calls; the operations on a connection, its events and their
//! order, and how a connection ends, are the same and are here.
//!
//! Invariants
//! 1. A connection is *held* while the kernel may read or write memory of ours for it, or has a
//!    request that bears its token: the bits of [`HELD`]. Only when it is not held is its slot
//!    freed and its socket closed or released, in [`Table::finish`], after its events are out.
//! 2. After CLOSING or DETACHING nothing is reported but its `Closed` or `Detached`; except that a
//!    send in progress at `detach` is reported as `Sent` before.
//! 3. `Eof`, `Failed` and `Connected` are reported once, `HungUp` once per pause and not after
//!    `Eof`.
//!
//! Not here: system calls of the hot path (`epoll`, `uring`). Tests: `tests/engines`.

use crate::event::{Event, ReactorEvent, Token};
use crate::slab::Slab;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// It waits in the engine's queue to be read from, or to be armed.
pub(crate) const QUEUED: u32 = 1 << 0;
/// `output` is not sent yet; io_uring: the kernel holds it, or is about to get it.
pub(crate) const SENDING: u32 = 1 << 1;
pub(crate) const PAUSED: u32 = 1 << 2;
/// The peer sends nothing more.
pub(crate) const ENDED: u32 = 1 << 3;
pub(crate) const FAILED: u32 = 1 << 4;
pub(crate) const CLOSING: u32 = 1 << 5;
pub(crate) const DETACHING: u32 = 1 << 6;
/// `shutdown` follows when the send is over.
pub(crate) const SHUT_AFTER_SEND: u32 = 1 << 7;
/// It is in `finishing`.
const FINISHING: u32 = 1 << 8;
/// `HungUp` was reported in this pause.
const HANG_UP_TOLD: u32 = 1 << 9;
/// Its `connect` is in progress; io_uring: the kernel holds a request that reports its end.
pub(crate) const CONNECTING: u32 = 1 << 10;

/// epoll: there may be something to read.
pub(crate) const READABLE: u32 = 1 << 16;
/// epoll: the peer hung up.
pub(crate) const HUNG_UP: u32 = 1 << 17;
/// epoll: `EPOLLOUT` is asked for.
pub(crate) const BLOCKED: u32 = 1 << 18;
/// io_uring: the kernel holds a receive request.
pub(crate) const RECEIVING: u32 = 1 << 24;
/// io_uring: that request is being cancelled.
pub(crate) const STOPPING: u32 = 1 << 25;
/// io_uring: `output` is being sent by a quick send.
pub(crate) const QUICK: u32 = 1 << 26;
/// io_uring: the kernel holds a request that ends when the peer hangs up. It stays when reading
/// resumes, for the next pause: it costs nothing.
pub(crate) const WATCHED: u32 = 1 << 27;

/// While any of these is set the connection is held (1).
pub(crate) const HELD: u32 = SENDING | RECEIVING | WATCHED | CONNECTING;
/// The caller has asked to close or detach it.
pub(crate) const LEAVING: u32 = CLOSING | DETACHING;
/// While any of these is set nothing is received.
pub(crate) const NOT_TO_READ: u32 = PAUSED | ENDED | FAILED | LEAVING | CONNECTING;

pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    pub(crate) state: u32,
    /// Bytes of `output` that the kernel has taken.
    pub(crate) written: usize,
    pub(crate) output: Vec<u8>,
}

impl Connection {
    /// Whether any of these bits is set.
    #[inline]
    pub(crate) fn is(&self, any: u32) -> bool {
        self.state & any != 0
    }

    /// Whether a hang-up must be reported: nobody reads, so no read would find it.
    pub(crate) fn is_deaf(&self) -> bool {
        self.is(PAUSED) && !self.is(ENDED | FAILED | LEAVING | CONNECTING | HANG_UP_TOLD)
    }
}

/// The connections of a reactor, by token.
pub(crate) struct Table {
    slots: Slab<Connection>,
    finishing: Vec<Token>,
    /// Events caused by `Ops`, reported in the next turn.
    pub(crate) queued: Vec<ReactorEvent>,
    /// Whether the next turn must not sleep: a receipt is wanted promptly.
    pub(crate) prompt: bool,
}

impl Table {
    pub(crate) fn new() -> Table {
        Table { slots: Slab::new(), finishing: Vec::new(), queued: Vec::new(), prompt: false }
    }

    pub(crate) fn insert(&mut self, socket: OwnedFd, state: u32) -> Token {
        self.slots.insert(Connection { socket, state, written: 0, output: Vec::new() })
    }

    /// Removes a connection that the engine could not start to serve.
    pub(crate) fn remove(&mut self, conn: Token) {
        self.slots.remove(conn);
    }

    #[inline]
    pub(crate) fn get(&mut self, conn: Token) -> Option<&mut Connection> {
        self.slots.get(conn)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Token, &mut Connection)> {
        self.slots.iter_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub(crate) fn end_turn(&mut self) {
        self.slots.end_turn();
    }

    /// Whether the next turn must not sleep. To be asked once a turn.
    #[inline]
    pub(crate) fn is_hurried(&mut self) -> bool {
        std::mem::take(&mut self.prompt) || !self.finishing.is_empty()
    }

    // ---- operations ----

    /// Takes the buffer to be sent; `None` if the connection is leaving or dead.
    #[inline]
    pub(crate) fn begin_send(&mut self, conn: Token, buffer: Vec<u8>) -> Option<&mut Connection> {
        let connection = self.slots.get(conn)?;
        assert!(!connection.is(SENDING), "one send at a time on a connection");
        assert!(!connection.is(CONNECTING), "a connection is made before it sends");
        if connection.is(LEAVING) {
            return None;
        }
        connection.state |= SENDING;
        connection.written = 0;
        connection.output = buffer;
        Some(connection)
    }

    pub(crate) fn pause(&mut self, conn: Token) {
        if let Some(connection) = self.slots.get(conn) {
            connection.state |= PAUSED;
        }
    }

    pub(crate) fn resume(&mut self, conn: Token) {
        if let Some(connection) = self.slots.get(conn) {
            connection.state &= !(PAUSED | HANG_UP_TOLD);
        }
    }

    /// Marks it as closing; false if it was closing already, or is dead.
    pub(crate) fn begin_close(&mut self, conn: Token) -> bool {
        let Some(connection) = self.slots.get(conn) else { return false };
        let is_first = !connection.is(CLOSING);
        connection.state |= CLOSING;
        connection.state &= !DETACHING;
        is_first
    }

    /// Marks its socket to be released; false if it is leaving already, or is dead.
    pub(crate) fn begin_detach(&mut self, conn: Token) -> bool {
        let Some(connection) = self.slots.get(conn) else { return false };
        let is_first = !connection.is(LEAVING);
        if is_first {
            connection.state |= DETACHING;
        }
        is_first
    }

    pub(crate) fn shutdown_write(&mut self, conn: Token) {
        let Some(connection) = self.slots.get(conn) else { return };
        if connection.is(SENDING | CONNECTING) {
            connection.state |= SHUT_AFTER_SEND;
        } else {
            crate::net::shutdown_write(&connection.socket);
        }
    }

    pub(crate) fn fd(&mut self, conn: Token) -> Option<BorrowedFd<'_>> {
        self.slots.get(conn).map(|connection| connection.socket.as_fd())
    }

    // ---- events ----

    /// The peer has ended: reported unless the connection is leaving.
    pub(crate) fn ended(&mut self, conn: Token, out: &mut Vec<ReactorEvent>) {
        let Some(connection) = self.slots.get(conn) else { return };
        connection.state |= ENDED;
        if !connection.is(LEAVING) {
            out.push(ReactorEvent::Other(Event::Eof { conn }));
        }
    }

    pub(crate) fn fail(&mut self, conn: Token, error: io::Error, out: &mut Vec<ReactorEvent>) {
        let Some(connection) = self.slots.get(conn) else { return };
        let is_silent = connection.is(LEAVING | FAILED);
        connection.state |= FAILED;
        if !is_silent {
            out.push(ReactorEvent::Other(Event::Failed { conn, error }));
        }
    }

    /// The peer has hung up, or reset the connection, while reading is paused.
    pub(crate) fn hung_up(&mut self, conn: Token, out: &mut Vec<ReactorEvent>) {
        let Some(connection) = self.slots.get(conn) else { return };
        match crate::net::pending_error(&connection.socket) {
            Some(error) => self.fail(conn, error, out),
            None => {
                connection.state |= HANG_UP_TOLD;
                out.push(ReactorEvent::Other(Event::HungUp { conn }));
            }
        }
    }

    /// Its `connect` has ended, successfully or not.
    pub(crate) fn connected(&mut self, conn: Token, out: &mut Vec<ReactorEvent>) {
        let Some(connection) = self.slots.get(conn) else { return };
        connection.state &= !CONNECTING;
        if let Some(error) = crate::net::pending_error(&connection.socket) {
            return self.fail(conn, error, out);
        }
        if !connection.is(LEAVING) {
            out.push(ReactorEvent::Other(Event::Connected { conn }));
        }
        shut_if_asked(connection);
    }

    /// The kernel has taken the whole output and released it. Reports `Sent`, except for a closing
    /// connection, whose buffer comes back with `Closed`.
    #[inline]
    pub(crate) fn send_ended(&mut self, conn: Token, sent: &mut Vec<ReactorEvent>) {
        let Some(connection) = self.slots.get(conn) else { return };
        connection.state &= !(SENDING | QUICK);
        if connection.is(SHUT_AFTER_SEND | LEAVING) {
            shut_if_asked(connection);
            if connection.is(CLOSING) {
                return self.finish_if_idle(conn);
            }
        }
        let mut buffer = std::mem::take(&mut connection.output);
        let is_leaving = connection.is(DETACHING);
        buffer.clear();
        sent.push(ReactorEvent::Other(Event::Sent { conn, buffer }));
        if is_leaving {
            self.finish_if_idle(conn);
        }
    }

    // ---- endings ----

    /// Schedules it to end with this turn or the next, if it is leaving and not held (1).
    pub(crate) fn finish_if_idle(&mut self, conn: Token) {
        let Some(connection) = self.slots.get(conn) else { return };
        if connection.is(LEAVING) && !connection.is(HELD | FINISHING) {
            connection.state |= FINISHING;
            self.finishing.push(conn);
        }
    }

    /// Ends the scheduled connections; `give_up` gets each socket that lives on. Returns whether
    /// there were any.
    #[inline]
    pub(crate) fn finish(
        &mut self,
        out: &mut Vec<ReactorEvent>,
        mut give_up: impl FnMut(&OwnedFd),
    ) -> bool {
        if self.finishing.is_empty() {
            return false;
        }
        let mut finishing = std::mem::take(&mut self.finishing);
        for conn in finishing.drain(..) {
            let Some(connection) = self.slots.remove(conn) else { continue };
            let Connection { socket, state, mut output, .. } = connection;
            out.push(ReactorEvent::Other(if state & CLOSING != 0 {
                drop(socket);
                output.clear();
                let buffer = (output.capacity() > 0).then_some(output);
                Event::Closed { conn, buffer }
            } else {
                give_up(&socket);
                Event::Detached { conn, socket }
            }));
        }
        self.finishing = finishing;
        true
    }
}

fn shut_if_asked(connection: &mut Connection) {
    if connection.is(SHUT_AFTER_SEND) {
        connection.state &= !SHUT_AFTER_SEND;
        crate::net::shutdown_write(&connection.socket);
    }
}
