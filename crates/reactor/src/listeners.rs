//! The listening sockets of a reactor, for both engines: an epoll set of their own, which the
//! engine polls like any descriptor.
//!
//! ```text
//! engine: the set is readable --> Listeners::accept --> Accepted, Accepted, AcceptFailed ...
//! ```
//!
//! An accept that waits in an io_uring would hold its socket. The ring of a killed process lives up
//! to 45 ms longer than the process; until then the port would be taken, and clients that connect
//! would be reset in the end. An epoll set holds no socket, so a listener ends with its process.
//!
//! The set is level-triggered: connections that are not accepted in one turn are reported again in
//! the next. When the kernel cannot accept, mostly for lack of descriptors, such a socket would
//! make every wait return at once. So the listener is taken out of the set until some time has
//! passed or a connection is closed.
//!
//! Invariants
//! 1. The set is opened with the first listener: most reactors have none.
//! 2. Buffers given to system calls are locals, and a descriptor that a call returns has no other
//!    owner.
//!
//! Tests: `tests/engines`.

use crate::event::{Event, ListenerId, ReactorEvent, Token};
use crate::slab::Slab;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// A limit, so that a burst does not keep a worker from its connections, nor take all descriptors
/// at once.
const MOST_ACCEPTS_PER_TURN: usize = 64;
const MOST_EVENTS_PER_TURN: usize = 16;
/// How long a listener rests that cannot accept, unless a connection closes earlier.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const LISTENING: u32 = (libc::EPOLLIN | libc::EPOLLEXCLUSIVE) as u32;

struct Listener {
    id: ListenerId,
    socket: OwnedFd,
    /// Accepting fails, which was reported.
    failing: bool,
    /// It is out of the set until the pause ends or a connection closes.
    resting: bool,
}

/// The listening sockets of one reactor and their epoll set.
pub(crate) struct Listeners {
    set: Option<OwnedFd>,
    slots: Slab<Listener>,
}

impl Listeners {
    pub(crate) fn new() -> Listeners {
        Listeners { set: None, slots: Slab::new() }
    }

    #[inline]
    pub(crate) fn end_turn(&mut self) {
        self.slots.end_turn();
    }

    /// Whether a listener could not accept and rests.
    pub(crate) fn are_resting(&mut self) -> bool {
        self.slots.iter_mut().any(|(_, listener)| listener.resting)
    }

    /// Adds a listening socket. Returns the set to poll, if it is new.
    pub(crate) fn listen(&mut self, socket: OwnedFd, id: ListenerId) -> io::Result<Option<RawFd>> {
        crate::net::set_nonblocking(&socket)?;
        let is_first = self.set.is_none();
        let set = match self.set.take() {
            Some(set) => set,
            None => new_set()?,
        };
        let fd = set.as_raw_fd();
        self.set = Some(set);
        let token = self.slots.insert(Listener { id, socket, failing: false, resting: false });
        self.watch(token).inspect_err(|_| drop(self.slots.remove(token)))?;
        Ok(is_first.then_some(fd))
    }

    /// Closes a listener; returns whether it existed.
    pub(crate) fn unlisten(&mut self, id: ListenerId) -> bool {
        let found = self.slots.iter_mut().find(|(_, one)| one.id == id).map(|(token, _)| token);
        let Some(listener) = found.and_then(|token| self.slots.remove(token)) else { return false };
        // Others may hold the same socket, so closing alone would leave it in the set.
        let _absent = self.control(libc::EPOLL_CTL_DEL, listener.socket.as_raw_fd(), 0, 0);
        true
    }

    /// Accepts waiting peers, up to the limit of a turn. The set stays readable while there are
    /// more.
    pub(crate) fn accept(&mut self, out: &mut Vec<ReactorEvent>) {
        let Some(set) = self.set.as_ref().map(AsRawFd::as_raw_fd) else { return };
        let mut arrivals = [libc::epoll_event { events: 0, u64: 0 }; MOST_EVENTS_PER_TURN];
        let start = arrivals.as_mut_ptr();
        // SAFETY: at most as many events are written as there is room for (2).
        let count = unsafe { libc::epoll_wait(set, start, MOST_EVENTS_PER_TURN as i32, 0) };
        for arrival in arrivals.iter().take(usize::try_from(count).unwrap_or_default()) {
            let data = arrival.u64;
            let token = Token { index: (data >> 32) as u32, generation: data as u32 };
            self.accept_from(token, out);
        }
    }

    fn accept_from(&mut self, token: Token, out: &mut Vec<ReactorEvent>) {
        for _ in 0..MOST_ACCEPTS_PER_TURN {
            let Some(listener) = self.slots.get(token) else { return };
            let fd = listener.socket.as_raw_fd();
            let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
            let (none, no_length) = (std::ptr::null_mut(), std::ptr::null_mut());
            // SAFETY: the peer's address is not asked for, so no pointers are involved (2).
            let accepted = unsafe { libc::accept4(fd, none, no_length, flags) };
            if accepted >= 0 {
                // SAFETY: the descriptor is new (2).
                let socket = unsafe { OwnedFd::from_raw_fd(accepted) };
                listener.failing = false;
                out.push(ReactorEvent::Other(Event::Accepted { listener: listener.id, socket }));
                continue;
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EAGAIN) => return,
                Some(code) if crate::net::is_passing_accept_error(code) => {}
                _ => return self.failed(token, error, out),
            }
        }
    }

    fn failed(&mut self, token: Token, error: io::Error, out: &mut Vec<ReactorEvent>) {
        let Some(listener) = self.slots.get(token) else { return };
        let fd = listener.socket.as_raw_fd();
        listener.resting = true;
        if !listener.failing {
            listener.failing = true;
            let listener = listener.id;
            out.push(ReactorEvent::Other(Event::AcceptFailed { listener, error }));
        }
        let _absent = self.control(libc::EPOLL_CTL_DEL, fd, 0, 0);
    }

    /// Puts resting listeners back into the set.
    pub(crate) fn rouse(&mut self, out: &mut Vec<ReactorEvent>) {
        let resting = |(token, one): (Token, &mut Listener)| {
            std::mem::take(&mut one.resting).then_some(token)
        };
        let resting: Vec<Token> = self.slots.iter_mut().filter_map(resting).collect();
        for token in resting {
            if let Err(error) = self.watch(token) {
                self.failed(token, error, out);
            }
        }
    }

    fn watch(&mut self, token: Token) -> io::Result<()> {
        let Some(listener) = self.slots.get(token) else { return Ok(()) };
        let fd = listener.socket.as_raw_fd();
        let data = u64::from(token.index) << 32 | u64::from(token.generation);
        self.control(libc::EPOLL_CTL_ADD, fd, LISTENING, data)
    }

    /// Changes the watched events of a descriptor.
    fn control(&self, act: i32, fd: RawFd, events: u32, data: u64) -> io::Result<()> {
        let Some(set) = &self.set else { return Ok(()) };
        let mut event = libc::epoll_event { events, u64: data };
        // SAFETY: the event is a local (2).
        let result = unsafe { libc::epoll_ctl(set.as_raw_fd(), act, fd, &raw mut event) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

fn new_set() -> io::Result<OwnedFd> {
    // SAFETY: no pointers involved.
    let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new (2).
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
