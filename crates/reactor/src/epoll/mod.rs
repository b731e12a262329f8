//! The epoll engine.
//!
//! Everything is registered once, edge-triggered: a socket costs no system call but its reads and
//! writes. An edge makes a connection *ready*; it stays in the queue of ready connections until a
//! read came back short, which on a stream means that nothing is left. Ready connections take
//! turns: one read each, as long as the turn's receive area has room.
//!
//! A send is tried at once. Only if the socket is full does the engine ask for `EPOLLOUT`. A
//! finished send is reported in the next turn; see `Receipt`.
//!
//! Invariants
//! 1. A connection that may have unread data and is to be read is in `ready`, or an edge for it is
//!    still to come.
//! 2. After a hang-up (`EPOLLRDHUP`, `EPOLLHUP`, `EPOLLERR`) a short read proves nothing: the
//!    connection stays ready until a read returns 0 or fails.
//! 3. The read area of a turn is allocated from its start; nothing is written to it later in the
//!    turn except after the allocated part.
//! 4. A slot is freed only in `finish`, after its events are out, and its socket leaves the epoll
//!    set by being closed (or explicitly, if it lives on): `epoll_wait` never names a freed slot,
//!    and generations would tell.
//! 5. System calls get pointers to locals, live slices and the room of a vector, and keep none; a
//!    descriptor that a call returns has no other owner.
//!
//! Tests: `tests/engines`.

use crate::area::Area;
use crate::event::{Event, ListenerId, ReactorEvent, Token};
use crate::listeners::{ACCEPT_PAUSE, Listeners};
use crate::table::{
    BLOCKED, CONNECTING, HUNG_UP, NOT_TO_READ, PAUSED, QUEUED, READABLE, SENDING, Table,
};
use crate::wake::Alarm;
use crate::{ReactorConfig, Receipt};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

const MOST_EVENTS_PER_WAIT: usize = 512;
/// The most bytes of one write: where the peer reads as fast as the kernel copies, a write of 200
/// MB keeps the thread in the kernel for half a second.
const MOST_BYTES_PER_WRITE: usize = 256 << 10;
const MOST_WRITES_PER_TURN: usize = 8;
/// With less room than this in the area, the remaining ready connections wait for the next turn.
const LEAST_READ_BYTES: usize = 4096;

const INPUT: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET) as u32;
const OUTPUT: u32 = libc::EPOLLOUT as u32;
const HANG_UP: u32 = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;

/// Marks in the upper bits of an index: the kind of descriptor an event is for.
const ARE_LISTENERS: u32 = 1 << 30;
const IS_ALARM: u32 = 1 << 31;

pub(crate) struct Epoll {
    pub(crate) core: Core,
    pub(crate) area: Area,
    pub(crate) sent: Vec<ReactorEvent>,
    pub(crate) happenings: Vec<ReactorEvent>,
    alarm: Arc<Alarm>,
    arrivals: Vec<libc::epoll_event>,
    most_bytes_per_read: usize,
    area_bytes: usize,
}

pub(crate) struct Core {
    epoll: OwnedFd,
    pub(crate) connections: Table,
    listeners: Listeners,
    /// Finished sends, reported in the next turn.
    sent: Vec<ReactorEvent>,
    ready: VecDeque<Token>,
    /// When to try resting listeners again.
    accept_again: Option<Instant>,
}

impl Epoll {
    pub(crate) fn new(config: &ReactorConfig, alarm: &Arc<Alarm>) -> io::Result<Epoll> {
        // SAFETY: no pointers involved; the descriptor is new (5).
        let epoll = unsafe {
            let fd = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        let area_bytes = config.turn_bytes.clamp(1, 1 << 31);
        let core = Core {
            epoll,
            connections: Table::new(),
            listeners: Listeners::new(),
            sent: Vec::new(),
            ready: VecDeque::new(),
            accept_again: None,
        };
        let edge = (libc::EPOLLIN | libc::EPOLLET) as u32;
        core.control(libc::EPOLL_CTL_ADD, alarm.fd(), edge, u64::from(IS_ALARM) << 32)?;
        Ok(Epoll {
            core,
            area: Area::new(area_bytes)?,
            sent: Vec::new(),
            happenings: Vec::new(),
            alarm: Arc::clone(alarm),
            arrivals: Vec::with_capacity(MOST_EVENTS_PER_WAIT),
            most_bytes_per_read: config.most_bytes_per_read.max(1),
            area_bytes,
        })
    }

    /// Runs one turn; its events are then in `sent` and `happenings`.
    pub(crate) fn turn(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.core.connections.end_turn();
        self.core.listeners.end_turn();
        std::mem::swap(&mut self.happenings, &mut self.core.connections.queued);
        let hurried = self.core.connections.is_hurried()
            || !self.happenings.is_empty()
            || !self.core.ready.is_empty();
        let called = self.alarm.before_sleep();
        let timeout_ms = if hurried || called { 0 } else { self.core.timeout_ms(timeout) };
        let arrived = self.wait(timeout_ms);
        if self.alarm.after_sleep() | called {
            self.happenings.push(ReactorEvent::Other(Event::Woken));
        }
        arrived?;
        std::mem::swap(&mut self.sent, &mut self.core.sent);
        self.sort_arrivals();
        self.read_ready();
        self.core.finish(&mut self.happenings);
        self.core.accept_if_time(&mut self.happenings);
        Ok(())
    }

    fn wait(&mut self, timeout_ms: i32) -> io::Result<()> {
        self.arrivals.clear();
        let epoll = self.core.epoll.as_raw_fd();
        let start = self.arrivals.as_mut_ptr();
        // SAFETY: at most as many events are written as there is room for (5), and `set_len`
        // covers exactly those written.
        unsafe {
            let count = libc::epoll_wait(epoll, start, MOST_EVENTS_PER_WAIT as i32, timeout_ms);
            if count < 0 {
                let error = io::Error::last_os_error();
                return if error.kind() == io::ErrorKind::Interrupted {
                    Ok(())
                } else {
                    Err(error)
                };
            }
            self.arrivals.set_len(count as usize);
        }
        Ok(())
    }

    fn sort_arrivals(&mut self) {
        for arrival in &self.arrivals {
            let (events, data) = (arrival.events, arrival.u64);
            let (high, generation) = ((data >> 32) as u32, data as u32);
            if high & IS_ALARM != 0 {
                continue;
            }
            if high & ARE_LISTENERS != 0 {
                self.core.accept(&mut self.happenings);
                continue;
            }
            let token = Token { index: high, generation };
            if events & OUTPUT != 0 {
                self.core.write(token, &mut self.sent, &mut self.happenings);
            }
            if events & !OUTPUT != 0 {
                self.core.arrived(token, events & HANG_UP != 0, &mut self.happenings);
            }
        }
    }

    /// Reads once from each connection that was ready when the turn began, while there is room.
    fn read_ready(&mut self) {
        let mut used = 0;
        let least = LEAST_READ_BYTES.min(self.area_bytes);
        for _ in 0..self.core.ready.len() {
            if self.area_bytes - used < least {
                return;
            }
            let Some(conn) = self.core.ready.pop_front() else { return };
            let most = self.most_bytes_per_read.min(self.area_bytes - used);
            used += self.read(conn, used, most);
        }
    }

    /// Reads once, to `offset` in the area; returns how many bytes.
    #[inline]
    fn read(&mut self, conn: Token, offset: usize, most: usize) -> usize {
        let Some(connection) = self.core.connections.get(conn) else { return 0 };
        connection.state &= !QUEUED;
        if connection.is(NOT_TO_READ) {
            return 0;
        }
        let fd = connection.socket.as_raw_fd();
        // SAFETY: `offset + most` is within the area, and nobody holds that part of it (3).
        let result = unsafe {
            let place = self.area.start().add(offset);
            libc::recv(fd, place.cast(), most, libc::MSG_DONTWAIT)
        };
        if result > 0 {
            let length = result as usize;
            if length == most || connection.is(HUNG_UP) {
                connection.state |= QUEUED;
                self.core.ready.push_back(conn);
            } else {
                connection.state &= !READABLE;
            }
            let (offset, length) = (offset as u32, length as u32);
            self.happenings.push(ReactorEvent::Data { conn, offset, length });
            return length as usize;
        }
        if result == 0 {
            self.core.connections.ended(conn, &mut self.happenings);
            return 0;
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock => connection.state &= !(READABLE | HUNG_UP),
            io::ErrorKind::Interrupted => {
                connection.state |= QUEUED;
                self.core.ready.push_back(conn);
            }
            _ => self.core.fail(conn, error, &mut self.happenings),
        }
        0
    }
}

impl Core {
    fn control(&self, act: i32, fd: RawFd, events: u32, data: u64) -> io::Result<()> {
        control(self.epoll.as_fd(), act, fd, events, data)
    }

    /// The timeout in milliseconds, as epoll counts; rounded up, so that no wait ends too early and
    /// spins.
    fn timeout_ms(&self, timeout: Option<Duration>) -> i32 {
        let pause = self.accept_again.map(|at| at.saturating_duration_since(Instant::now()));
        let shorter = match (timeout, pause) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        match shorter {
            None => -1,
            Some(time) => i32::try_from(time.as_micros().div_ceil(1000)).unwrap_or(i32::MAX),
        }
    }

    // ---- operations ----

    pub(crate) fn adopt(&mut self, socket: OwnedFd) -> io::Result<Token> {
        let fd = socket.as_raw_fd();
        let conn = self.connections.insert(socket, 0);
        // If something is there already, adding the socket reports it as an edge.
        self.control(libc::EPOLL_CTL_ADD, fd, INPUT, connection_data(conn))
            .inspect_err(|_| self.connections.remove(conn))?;
        Ok(conn)
    }

    /// Waits until `connect` ends: then there is room to write, or an error.
    pub(crate) fn adopt_connecting(&mut self, socket: OwnedFd) -> io::Result<Token> {
        let fd = socket.as_raw_fd();
        let conn = self.connections.insert(socket, CONNECTING | BLOCKED);
        self.control(libc::EPOLL_CTL_ADD, fd, INPUT | OUTPUT, connection_data(conn))
            .inspect_err(|_| self.connections.remove(conn))?;
        Ok(conn)
    }

    #[inline]
    pub(crate) fn send(&mut self, conn: Token, buffer: Vec<u8>, receipt: Receipt) {
        if self.connections.begin_send(conn, buffer).is_none() {
            return;
        }
        self.connections.prompt |= receipt == Receipt::Prompt;
        let mut sent = std::mem::take(&mut self.sent);
        self.with_queued(|core, queued| core.write(conn, &mut sent, queued));
        self.sent = sent;
    }

    #[inline]
    fn with_queued(&mut self, act: impl FnOnce(&mut Core, &mut Vec<ReactorEvent>)) {
        let mut queued = std::mem::take(&mut self.connections.queued);
        act(self, &mut queued);
        self.connections.queued = queued;
    }

    pub(crate) fn pause_reading(&mut self, conn: Token) {
        self.connections.pause(conn);
        self.with_queued(|core, queued| core.tell_of_hang_up(conn, queued));
    }

    pub(crate) fn resume_reading(&mut self, conn: Token) {
        self.connections.resume(conn);
        self.queue(conn);
    }

    pub(crate) fn close(&mut self, conn: Token) {
        self.connections.begin_close(conn);
        // Nothing is waited for: the kernel holds no memory of ours.
        self.let_go(conn, SENDING | CONNECTING);
    }

    pub(crate) fn detach(&mut self, conn: Token) {
        if self.connections.begin_detach(conn) {
            self.let_go(conn, CONNECTING);
        }
    }

    fn let_go(&mut self, conn: Token, of: u32) {
        if let Some(connection) = self.connections.get(conn) {
            connection.state &= !of;
        }
        self.connections.finish_if_idle(conn);
    }

    // ---- reading ----

    /// An edge: the connection has something to read, possibly an end or an error.
    #[inline]
    fn arrived(&mut self, conn: Token, hung_up: bool, out: &mut Vec<ReactorEvent>) {
        let Some(connection) = self.connections.get(conn) else { return };
        connection.state |= READABLE | if hung_up { HUNG_UP } else { 0 };
        if connection.is(CONNECTING) {
            // Refused: `HUNG_UP` tells, with or without room to write.
            return if hung_up {
                self.connected(conn, out)
            };
        }
        if connection.is(PAUSED) {
            return self.tell_of_hang_up(conn, out);
        }
        self.queue(conn);
    }

    /// Reports a hang-up while reading is paused: no read would find it.
    fn tell_of_hang_up(&mut self, conn: Token, out: &mut Vec<ReactorEvent>) {
        let Some(connection) = self.connections.get(conn) else { return };
        if connection.is(HUNG_UP) && connection.is_deaf() {
            self.connections.hung_up(conn, out);
        }
    }

    /// Queues the connection for reading, if it may have unread data (1).
    #[inline]
    fn queue(&mut self, conn: Token) {
        let Some(connection) = self.connections.get(conn) else { return };
        if connection.is(READABLE) && !connection.is(QUEUED | NOT_TO_READ) {
            connection.state |= QUEUED;
            self.ready.push_back(conn);
        }
    }

    fn fail(&mut self, conn: Token, error: io::Error, out: &mut Vec<ReactorEvent>) {
        self.connections.fail(conn, error, out);
        self.let_go(conn, SENDING);
    }

    /// Its `connect` ended: there was an edge for room to write, or for an error.
    fn connected(&mut self, conn: Token, out: &mut Vec<ReactorEvent>) {
        self.connections.connected(conn, out);
        self.ask_for_room_no_more(conn, out);
        self.tell_of_hang_up(conn, out);
        self.queue(conn);
    }

    // ---- writing ----

    /// Writes until the output is done, the socket is full, or the connection has had its share.
    #[inline]
    fn write(&mut self, conn: Token, sent: &mut Vec<ReactorEvent>, out: &mut Vec<ReactorEvent>) {
        for _ in 0..MOST_WRITES_PER_TURN {
            let Some(connection) = self.connections.get(conn) else { return };
            if connection.is(CONNECTING) {
                return self.connected(conn, out);
            }
            if !connection.is(SENDING) {
                return;
            }
            let rest = &connection.output[connection.written..];
            let rest = &rest[..rest.len().min(MOST_BYTES_PER_WRITE)];
            let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
            let fd = connection.socket.as_raw_fd();
            // SAFETY: the kernel copies from a live slice (5).
            let result = unsafe { libc::send(fd, rest.as_ptr().cast(), rest.len(), flags) };
            if result < 0 {
                let error = io::Error::last_os_error();
                match error.kind() {
                    io::ErrorKind::WouldBlock => return self.ask_for_room(conn, false, out),
                    io::ErrorKind::Interrupted => {}
                    _ => return self.fail(conn, error, out),
                }
                continue;
            }
            connection.written += result as usize;
            if connection.written == connection.output.len() {
                return self.send_ended(conn, sent, out);
            }
        }
        self.ask_for_room(conn, true, out);
    }

    /// Asks for `EPOLLOUT`. Asking `again` makes the kernel check anew, and report the result as an
    /// edge.
    fn ask_for_room(&mut self, conn: Token, again: bool, out: &mut Vec<ReactorEvent>) {
        let Some(connection) = self.connections.get(conn) else { return };
        if connection.is(BLOCKED) && !again {
            return;
        }
        connection.state |= BLOCKED;
        let fd = connection.socket.as_raw_fd();
        let events = INPUT | OUTPUT;
        if let Err(error) = self.control(libc::EPOLL_CTL_MOD, fd, events, connection_data(conn)) {
            // A connection that is not watched would be silent forever.
            self.fail(conn, error, out);
        }
    }

    #[inline]
    fn send_ended(
        &mut self,
        conn: Token,
        sent: &mut Vec<ReactorEvent>,
        out: &mut Vec<ReactorEvent>,
    ) {
        self.connections.send_ended(conn, sent);
        self.ask_for_room_no_more(conn, out);
    }

    /// Stops asking for `EPOLLOUT`, if it was asked for.
    #[inline]
    fn ask_for_room_no_more(&mut self, conn: Token, out: &mut Vec<ReactorEvent>) {
        let Some(connection) = self.connections.get(conn) else { return };
        if !connection.is(BLOCKED) {
            return;
        }
        connection.state &= !BLOCKED;
        let fd = connection.socket.as_raw_fd();
        if let Err(error) = self.control(libc::EPOLL_CTL_MOD, fd, INPUT, connection_data(conn)) {
            self.fail(conn, error, out);
        }
    }

    // ---- endings ----

    #[inline]
    fn finish(&mut self, out: &mut Vec<ReactorEvent>) {
        let epoll = self.epoll.as_fd();
        let is_any = self.connections.finish(out, |socket| {
            let _ = control(epoll, libc::EPOLL_CTL_DEL, socket.as_raw_fd(), 0, 0);
        });
        if is_any && self.accept_again.is_some() {
            self.rouse_listeners(out);
        }
    }

    // ---- accepting ----

    pub(crate) fn listen(&mut self, socket: OwnedFd, id: ListenerId) -> io::Result<()> {
        if let Some(set) = self.listeners.listen(socket, id)? {
            let data = u64::from(ARE_LISTENERS) << 32;
            self.control(libc::EPOLL_CTL_ADD, set, libc::EPOLLIN as u32, data)?;
        }
        Ok(())
    }

    pub(crate) fn unlisten(&mut self, id: ListenerId) {
        if self.listeners.unlisten(id) {
            self.connections.queued.push(ReactorEvent::Other(Event::Unlistened { listener: id }));
        }
    }

    fn accept(&mut self, out: &mut Vec<ReactorEvent>) {
        self.listeners.accept(out);
        if self.accept_again.is_none() && self.listeners.are_resting() {
            self.accept_again = Some(Instant::now() + ACCEPT_PAUSE);
        }
    }

    /// Reads the clock, while a listener rests; nothing else here does.
    #[inline]
    fn accept_if_time(&mut self, out: &mut Vec<ReactorEvent>) {
        if self.accept_again.is_some_and(|at| at <= Instant::now()) {
            self.rouse_listeners(out);
        }
    }

    fn rouse_listeners(&mut self, out: &mut Vec<ReactorEvent>) {
        self.accept_again = None;
        self.listeners.rouse(out);
    }
}

/// Changes the watched events of a descriptor.
fn control(epoll: BorrowedFd<'_>, act: i32, fd: RawFd, events: u32, data: u64) -> io::Result<()> {
    let mut event = libc::epoll_event { events, u64: data };
    // SAFETY: the event is a local (5).
    let result = unsafe { libc::epoll_ctl(epoll.as_raw_fd(), act, fd, &raw mut event) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn connection_data(token: Token) -> u64 {
    u64::from(token.index) << 32 | u64::from(token.generation)
}
