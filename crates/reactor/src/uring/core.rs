//! Requests and connections of the io_uring engine: everything but the receive buffers.
//!
//! The story and the invariants cited here are in `uring`.

use super::ring::{Features, Ring};
use crate::Receipt;
use crate::event::{ReactorEvent, Token};
use crate::listeners::Listeners;
use crate::table::{
    CLOSING, CONNECTING, HELD, LEAVING, NOT_TO_READ, QUEUED, QUICK, RECEIVING, SENDING, STOPPING,
    Table, WATCHED,
};
use io_uring::types::Fd;
use io_uring::{cqueue, opcode, squeue};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Longer outputs are sent in parts: where the peer reads as fast as the kernel copies, one send of
/// 200 MB keeps the thread in the kernel for half a second.
const MOST_BYTES_PER_SEND: usize = 512 << 10;

/// When buffers are scarce, this many connections per turn get at them before those with a standing
/// request: each may take a good part, so arming more would mostly be useless.
const MOST_ARMS_WHEN_STARVED: usize = 8;

/// The purpose of a request, in the top byte of its `user_data`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Receive,
    QuickSend,
    Send,
    Accept,
    CancelReceive,
    CancelSend,
    Wake,
    AcceptAgain,
    HangUp,
    CancelHangUp,
    Connect,
    CancelConnect,
    Other,
}

/// The target of a request, packed into `user_data`: kind 8 bits, index 24, generation 32.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    pub(crate) token: Token,
}

impl Target {
    #[inline]
    pub(super) fn user_data(kind: Kind, token: Token) -> u64 {
        u64::from(kind as u8) << 56 | u64::from(token.index) << 32 | u64::from(token.generation)
    }

    #[inline]
    pub(crate) fn from_user_data(data: u64) -> Target {
        const KINDS: [Kind; 12] = [
            Kind::Receive,
            Kind::QuickSend,
            Kind::Send,
            Kind::Accept,
            Kind::CancelReceive,
            Kind::CancelSend,
            Kind::Wake,
            Kind::AcceptAgain,
            Kind::HangUp,
            Kind::CancelHangUp,
            Kind::Connect,
            Kind::CancelConnect,
        ];
        let kind = KINDS.get((data >> 56) as usize).copied().unwrap_or(Kind::Other);
        let index = (data >> 32) as u32 & 0xff_ffff;
        Target { kind, token: Token { index, generation: data as u32 } }
    }
}

pub(super) const NOBODY: Token = Token { index: 0, generation: 0 };

pub(crate) struct Core {
    pub(crate) ring: Ring,
    pub(crate) features: Features,
    pub(crate) connections: Table,
    pub(super) listeners: Listeners,
    /// The epoll set of the listeners.
    pub(super) listening: Option<RawFd>,
    quick_sends: Vec<Token>,
    to_arm: VecDeque<Token>,
    /// Receives found no buffer in the last turn.
    starved: bool,
    pub(super) resting_listeners: bool,
    watched: Option<RawFd>,
}

impl Core {
    pub(crate) fn new(ring: Ring, features: Features) -> Core {
        Core {
            ring,
            features,
            connections: Table::new(),
            listeners: Listeners::new(),
            listening: None,
            quick_sends: Vec::new(),
            to_arm: VecDeque::new(),
            starved: false,
            resting_listeners: false,
            watched: None,
        }
    }

    #[inline]
    pub(crate) fn end_turn(&mut self) {
        self.connections.end_turn();
        self.listeners.end_turn();
    }

    /// Whether receives found no buffer in the last turn.
    #[inline]
    pub(crate) fn was_starved(&self) -> bool {
        self.starved
    }

    /// Whether the next turn must not sleep.
    #[inline]
    pub(crate) fn is_hurried(&mut self) -> bool {
        self.connections.is_hurried() || !self.to_arm.is_empty() || self.ring.overflowed()
    }

    // ---- operations ----

    pub(crate) fn adopt(&mut self, socket: OwnedFd) -> io::Result<Token> {
        let token = self.connections.insert(socket, QUEUED);
        self.to_arm.push_back(token);
        Ok(token)
    }

    /// Waits until `connect` ends: then there is room to write, or an error.
    pub(crate) fn adopt_connecting(&mut self, socket: OwnedFd) -> io::Result<Token> {
        let fd = socket.as_raw_fd();
        let token = self.connections.insert(socket, CONNECTING);
        self.poll(fd, libc::POLLOUT, Kind::Connect, token);
        Ok(token)
    }

    #[inline]
    pub(crate) fn send(&mut self, conn: Token, buffer: Vec<u8>, receipt: Receipt) {
        let Some(connection) = self.connections.begin_send(conn, buffer) else { return };
        if connection.output.len() > MOST_BYTES_PER_SEND {
            // A quick send does not report the bytes beyond its part.
            return self.send_rest(conn);
        }
        connection.state |= QUICK;
        let entry = quick_send_entry(&connection.socket, &connection.output)
            .user_data(Target::user_data(Kind::QuickSend, conn));
        // SAFETY: `output` stays in its slot until the send is settled (1).
        unsafe { self.ring.push(entry) };
        self.quick_sends.push(conn);
        self.connections.prompt |= receipt == Receipt::Prompt;
    }

    pub(crate) fn pause_reading(&mut self, conn: Token) {
        self.connections.pause(conn);
        self.stop_receiving(conn);
        self.watch_for_hang_up(conn);
    }

    pub(crate) fn resume_reading(&mut self, conn: Token) {
        self.connections.resume(conn);
        self.want_receive(conn);
    }

    pub(crate) fn close(&mut self, conn: Token) {
        if self.connections.begin_close(conn) {
            let connection = self.connections.get(conn);
            if connection.is_some_and(|one| one.is(SENDING) && !one.is(QUICK)) {
                self.cancel(Kind::CancelSend, Kind::Send, conn);
            }
            self.take_back(conn);
        }
    }

    pub(crate) fn detach(&mut self, conn: Token) {
        if self.connections.begin_detach(conn) {
            self.take_back(conn);
        }
    }

    /// Cancels the kernel's requests that would keep a connection from ending, except a send.
    fn take_back(&mut self, conn: Token) {
        self.stop_receiving(conn);
        self.stop_waiting(conn, WATCHED, Kind::CancelHangUp, Kind::HangUp);
        self.stop_waiting(conn, CONNECTING, Kind::CancelConnect, Kind::Connect);
        self.connections.finish_if_idle(conn);
    }

    // ---- requests ----

    /// Polls the waker's eventfd, edge-triggered, forever.
    pub(crate) fn watch(&mut self, fd: RawFd) {
        self.watched = Some(fd);
        let entry = opcode::PollAdd::new(Fd(fd), libc::POLLIN as u32)
            .multi(true)
            .build()
            .user_data(Target::user_data(Kind::Wake, NOBODY));
        // SAFETY: no memory of ours is involved (5).
        unsafe { self.ring.push(entry) };
    }

    /// Requests one report of these events of a socket, or of an error.
    pub(super) fn poll(&mut self, fd: RawFd, events: i16, kind: Kind, conn: Token) {
        let entry = opcode::PollAdd::new(Fd(fd), events as u32)
            .build()
            .user_data(Target::user_data(kind, conn));
        // SAFETY: no memory of ours is involved (5).
        unsafe { self.ring.push(entry) };
    }

    /// Starts the postponed receives, in order.
    #[inline]
    pub(crate) fn arm_receives(&mut self) {
        let most = if self.starved { MOST_ARMS_WHEN_STARVED } else { usize::MAX };
        self.starved = false;
        for _ in 0..most {
            let Some(conn) = self.to_arm.pop_front() else { return };
            let Some(connection) = self.connections.get(conn) else { continue };
            connection.state &= !QUEUED;
            if connection.is(NOT_TO_READ | RECEIVING) {
                continue;
            }
            connection.state |= RECEIVING;
            let fd = Fd(connection.socket.as_raw_fd());
            let entry = if self.features.multishot_receive {
                opcode::RecvMulti::new(fd, 0).build()
            } else {
                opcode::Recv::new(fd, std::ptr::null_mut(), u32::MAX >> 1)
                    .buf_group(0)
                    .build()
                    .flags(squeue::Flags::BUFFER_SELECT)
            };
            let entry = entry.user_data(Target::user_data(Kind::Receive, conn));
            // SAFETY: it writes only to provided buffers, which outlive the ring (5).
            unsafe { self.ring.push(entry) };
        }
    }

    fn want_receive(&mut self, conn: Token) {
        let Some(connection) = self.connections.get(conn) else { return };
        if !connection.is(NOT_TO_READ | RECEIVING | QUEUED) {
            connection.state |= QUEUED;
            self.to_arm.push_back(conn);
        }
    }

    fn stop_receiving(&mut self, conn: Token) {
        let Some(connection) = self.connections.get(conn) else { return };
        if connection.is(RECEIVING) && !connection.is(STOPPING) {
            connection.state |= STOPPING;
            self.cancel(Kind::CancelReceive, Kind::Receive, conn);
        }
    }

    /// Requests a report of the peer's hang-up while reading is paused.
    fn watch_for_hang_up(&mut self, conn: Token) {
        let Some(connection) = self.connections.get(conn) else { return };
        if connection.is_deaf() {
            self.poll_for_hang_up(conn);
        }
    }

    /// Requests a report of the peer's hang-up, also while it is read from: see `hung_up`.
    pub(crate) fn watch_peer(&mut self, conn: Token) {
        let Some(connection) = self.connections.get(conn) else { return };
        if !connection.is(NOT_TO_READ) {
            self.poll_for_hang_up(conn);
        }
    }

    fn poll_for_hang_up(&mut self, conn: Token) {
        let Some(connection) = self.connections.get(conn) else { return };
        if !connection.is(WATCHED) {
            connection.state |= WATCHED;
            let fd = connection.socket.as_raw_fd();
            self.poll(fd, libc::POLLRDHUP, Kind::HangUp, conn);
        }
    }

    /// Cancels a poll, if the kernel holds it.
    fn stop_waiting(&mut self, conn: Token, held: u32, cancel: Kind, request: Kind) {
        if self.connections.get(conn).is_some_and(|connection| connection.is(held)) {
            self.cancel(cancel, request, conn);
        }
    }

    /// Cancels a request. Silent on success; see (3) for a miss.
    fn cancel(&mut self, cancel: Kind, request: Kind, token: Token) {
        let entry = opcode::AsyncCancel::new(Target::user_data(request, token))
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS)
            .user_data(Target::user_data(cancel, token));
        // SAFETY: no memory of ours is involved (5).
        unsafe { self.ring.push(entry) };
    }

    // ---- completions ----

    /// Whether the caller still wants data of this connection.
    #[inline]
    pub(crate) fn takes_data(&mut self, conn: Token) -> bool {
        self.connections.get(conn).is_some_and(|connection| !connection.is(CLOSING))
    }

    /// The receive request has ended: end of stream, an error, a cancellation, no buffers, or the
    /// kernel wants to be asked again.
    pub(crate) fn receive_ended(&mut self, conn: Token, result: i32, out: &mut Vec<ReactorEvent>) {
        let Some(connection) = self.connections.get(conn) else { return };
        connection.state &= !(RECEIVING | STOPPING);
        match -result {
            ..0 => {}
            0 => self.connections.ended(conn, out),
            libc::ENOBUFS => self.starved = true,
            libc::ECANCELED | libc::EAGAIN | libc::EINTR => {}
            error => self.connections.fail(conn, io::Error::from_raw_os_error(error), out),
        }
        self.want_receive(conn);
        self.connections.finish_if_idle(conn);
    }

    /// Handles any completion but a receive's.
    pub(crate) fn completed(
        &mut self,
        target: Target,
        completion: &cqueue::Entry,
        sent: &mut Vec<ReactorEvent>,
        out: &mut Vec<ReactorEvent>,
    ) {
        let result = completion.result();
        let more = cqueue::more(completion.flags());
        let token = target.token;
        match target.kind {
            Kind::QuickSend | Kind::Send => self.send_completed(token, result, sent, out),
            Kind::Accept => self.accept(out),
            Kind::CancelReceive => {
                if self.connections.get(token).is_some_and(|c| c.is(STOPPING)) {
                    self.cancel(Kind::CancelReceive, Kind::Receive, token);
                }
            }
            Kind::CancelSend => self.stop_waiting(token, SENDING, Kind::CancelSend, Kind::Send),
            Kind::Wake if !more => {
                if let Some(fd) = self.watched {
                    self.watch(fd);
                }
            }
            Kind::AcceptAgain => self.accept_again(out),
            Kind::HangUp => self.hung_up(token, result, out),
            Kind::CancelHangUp => {
                self.stop_waiting(token, WATCHED, Kind::CancelHangUp, Kind::HangUp);
            }
            Kind::Connect => self.connected(token, result, out),
            Kind::CancelConnect => {
                self.stop_waiting(token, CONNECTING, Kind::CancelConnect, Kind::Connect);
            }
            Kind::Wake | Kind::Receive | Kind::Other => {}
        }
    }

    /// The request of `watch_for_hang_up` has ended.
    fn hung_up(&mut self, conn: Token, result: i32, out: &mut Vec<ReactorEvent>) {
        let Some(connection) = self.connections.get(conn) else { return };
        connection.state &= !WATCHED;
        if connection.is_deaf() {
            if result >= 0 {
                self.connections.hung_up(conn, out);
            } else {
                self.watch_for_hang_up(conn);
            }
        } else if !connection.is(NOT_TO_READ) {
            // A reader finds out by itself, except on a kernel that takes data and a reset that
            // wake it together for one event: its receive then sleeps forever. A new receive finds
            // it.
            self.stop_receiving(conn);
        }
        self.connections.finish_if_idle(conn);
    }

    /// The request of `adopt_connecting` has ended.
    fn connected(&mut self, conn: Token, result: i32, out: &mut Vec<ReactorEvent>) {
        let Some(connection) = self.connections.get(conn) else { return };
        if result < 0 && !connection.is(LEAVING) {
            let fd = connection.socket.as_raw_fd();
            return self.poll(fd, libc::POLLOUT, Kind::Connect, conn);
        }
        self.connections.connected(conn, out);
        self.watch_for_hang_up(conn);
        self.want_receive(conn);
        self.connections.finish_if_idle(conn);
    }

    fn send_completed(
        &mut self,
        conn: Token,
        result: i32,
        sent: &mut Vec<ReactorEvent>,
        out: &mut Vec<ReactorEvent>,
    ) {
        let Some(connection) = self.connections.get(conn) else { return };
        connection.state &= !QUICK;
        connection.written += result.max(0) as usize;
        if connection.written >= connection.output.len() {
            return self.connections.send_ended(conn, sent);
        }
        match -result {
            _ if connection.is(CLOSING) => self.send_given_up(conn),
            ..0 | libc::EAGAIN | libc::EINTR => self.send_rest(conn),
            // A stream takes at least one byte or reports why not.
            0 => self.send_rest(conn),
            error => {
                self.connections.fail(conn, io::Error::from_raw_os_error(error), out);
                self.send_given_up(conn);
            }
        }
    }

    /// The socket's buffer is full: an ordinary request waits in the kernel.
    fn send_rest(&mut self, conn: Token) {
        let Some(connection) = self.connections.get(conn) else { return };
        let rest = &connection.output[connection.written..];
        let entry = send_entry(&connection.socket, rest, libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .user_data(Target::user_data(Kind::Send, conn));
        // SAFETY: `output` stays in its slot until the final completion (1).
        unsafe { self.ring.push(entry) };
    }

    /// The kernel has released `output`, which stays in the slot for `Closed`.
    fn send_given_up(&mut self, conn: Token) {
        let Some(connection) = self.connections.get(conn) else { return };
        connection.state &= !(SENDING | QUICK);
        self.connections.finish_if_idle(conn);
    }

    /// Quick sends without a report are done, see the module and (4).
    #[inline]
    pub(crate) fn settle_quick_sends(&mut self, settled: bool, sent: &mut Vec<ReactorEvent>) {
        if self.quick_sends.is_empty() {
            return;
        }
        if !settled {
            self.connections.prompt = true;
            return;
        }
        let mut sends = std::mem::take(&mut self.quick_sends);
        for conn in sends.drain(..) {
            if self.connections.get(conn).is_some_and(|connection| connection.is(QUICK)) {
                self.connections.send_ended(conn, sent);
            }
        }
        self.quick_sends = sends;
    }

    // ---- endings ----

    /// Ends the connections for which the kernel holds nothing any more.
    #[inline]
    pub(crate) fn finish(&mut self, out: &mut Vec<ReactorEvent>) {
        if self.connections.finish(out, |_| {}) && self.resting_listeners {
            self.listeners.rouse(out);
        }
    }

    /// Cancels all requests. `false` if the result cannot be known.
    pub(crate) fn cancel_everything(&mut self) -> bool {
        if !self.ring.is_enabled() {
            return true;
        }
        let entry = opcode::AsyncCancel2::new(io_uring::types::CancelBuilder::any())
            .build()
            .user_data(Target::user_data(Kind::Other, NOBODY));
        for _ in 0..100 {
            // SAFETY: no memory of ours is involved (5).
            unsafe { self.ring.push(entry.clone()) };
            if self.ring.enter(true, Some(Duration::from_millis(10))).is_err() {
                return false;
            }
            self.reap();
            let unsettled = self.ring.has_unsubmitted();
            let busy = self.connections.iter_mut().any(|(_, c)| c.is(HELD));
            if !busy && !unsettled {
                return true;
            }
        }
        false
    }

    /// Reads completions only for the ends of requests.
    fn reap(&mut self) {
        let mut ended = Vec::new();
        loop {
            let Some(completion) = self.ring.completions().next() else { break };
            let target = Target::from_user_data(completion.user_data());
            let over = !cqueue::more(completion.flags());
            if over {
                ended.push(target);
            }
        }
        for target in ended {
            let Some(connection) = self.connections.get(target.token) else { continue };
            match target.kind {
                Kind::Receive => connection.state &= !RECEIVING,
                Kind::HangUp => connection.state &= !WATCHED,
                Kind::Connect => connection.state &= !CONNECTING,
                Kind::Send | Kind::QuickSend => connection.state &= !(SENDING | QUICK),
                _ => {}
            }
        }
        // A quick send ends with its submission, whatever its result.
        for (_, connection) in self.connections.iter_mut() {
            if connection.is(QUICK) {
                connection.state &= !(SENDING | QUICK);
            }
        }
    }

    /// Leaks the memory that the kernel may still read.
    pub(crate) fn leak_outputs(&mut self) {
        for (_, connection) in self.connections.iter_mut() {
            std::mem::forget(std::mem::take(&mut connection.output));
        }
    }
}

fn send_entry(socket: &impl AsRawFd, bytes: &[u8], flags: i32) -> squeue::Entry {
    let length = bytes.len().min(MOST_BYTES_PER_SEND) as u32;
    opcode::Send::new(Fd(socket.as_raw_fd()), bytes.as_ptr(), length).flags(flags).build()
}

/// A send that ends when it is submitted, silent if it took everything: see the module.
pub(super) fn quick_send_entry(socket: &impl AsRawFd, bytes: &[u8]) -> squeue::Entry {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT | libc::MSG_WAITALL;
    send_entry(socket, bytes, flags).flags(squeue::Flags::SKIP_SUCCESS)
}
