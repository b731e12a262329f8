//! Accepting: level-triggered, so that what is not accepted in one turn comes again in the next.
//!
//! When the kernel cannot accept, mostly for lack of descriptors, a level-triggered socket would
//! make every wait return at once. So the listener is taken out of the set until some time has
//! passed (the only place that reads a clock) or a connection is closed.
//!
//! The rest of the engine, and the invariants cited here, are in `epoll`. Tests: `tests/engines`.

use super::{Core, IS_LISTENER};
use crate::event::{Event, Happening, ListenerId, Token};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

const MOST_ACCEPTS_PER_WAIT: usize = 64;
/// How long to leave a listener alone that cannot accept, unless a connection closes earlier.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const LISTENING: u32 = (libc::EPOLLIN | libc::EPOLLEXCLUSIVE) as u32;

pub(crate) struct Listener {
    id: ListenerId,
    socket: OwnedFd,
    failing: bool,
    resting: bool,
}

impl Core {
    pub(crate) fn listen(&mut self, socket: OwnedFd, id: ListenerId) -> io::Result<()> {
        let fd = socket.as_raw_fd();
        crate::net::set_nonblocking(&socket)?;
        let token = self.listeners.insert(Listener { id, socket, failing: false, resting: false });
        self.control(libc::EPOLL_CTL_ADD, fd, LISTENING, listener_data(token))
            .inspect_err(|_| drop(self.listeners.remove(token)))
    }

    pub(crate) fn unlisten(&mut self, id: ListenerId) {
        let found = self.listeners.iter_mut().find(|(_, l)| l.id == id).map(|(token, _)| token);
        let Some(listener) = found.and_then(|token| self.listeners.remove(token)) else { return };
        // Others may hold the same socket, so closing alone would leave it in the set.
        let _ = self.control(libc::EPOLL_CTL_DEL, listener.socket.as_raw_fd(), 0, 0);
        self.connections.queued.push(Happening::Other(Event::Unlistened { listener: id }));
    }

    pub(super) fn accept(&mut self, token: Token, out: &mut Vec<Happening>) {
        for _ in 0..MOST_ACCEPTS_PER_WAIT {
            let Some(listener) = self.listeners.get(token) else { return };
            let fd = listener.socket.as_raw_fd();
            let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
            let (none, no_length) = (std::ptr::null_mut(), std::ptr::null_mut());
            // SAFETY: the peer's address is not asked for, so no pointers are involved (5).
            let accepted = unsafe { libc::accept4(fd, none, no_length, flags) };
            if accepted >= 0 {
                // SAFETY: the descriptor is new (5).
                let socket = unsafe { OwnedFd::from_raw_fd(accepted) };
                listener.failing = false;
                out.push(Happening::Other(Event::Accepted { listener: listener.id, socket }));
                continue;
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EAGAIN) => return,
                Some(code) if crate::net::is_passing_accept_error(code) => {}
                _ => return self.accept_failed(token, error, out),
            }
        }
    }

    fn accept_failed(&mut self, token: Token, error: io::Error, out: &mut Vec<Happening>) {
        let Some(listener) = self.listeners.get(token) else { return };
        let fd = listener.socket.as_raw_fd();
        listener.resting = true;
        if !listener.failing {
            listener.failing = true;
            let listener = listener.id;
            out.push(Happening::Other(Event::AcceptFailed { listener, error }));
        }
        let _ = self.control(libc::EPOLL_CTL_DEL, fd, 0, 0);
        self.accept_again.get_or_insert_with(|| Instant::now() + ACCEPT_PAUSE);
    }

    /// The only place that reads a clock: while a listener rests.
    #[inline]
    pub(super) fn accept_if_time(&mut self, out: &mut Vec<Happening>) {
        if self.accept_again.is_some_and(|at| at <= Instant::now()) {
            self.rouse_listeners(out);
        }
    }

    pub(super) fn rouse_listeners(&mut self, out: &mut Vec<Happening>) {
        self.accept_again = None;
        let resting: Vec<(Token, RawFd)> = self
            .listeners
            .iter_mut()
            .filter(|(_, listener)| listener.resting)
            .map(|(token, listener)| {
                listener.resting = false;
                (token, listener.socket.as_raw_fd())
            })
            .collect();
        for (token, fd) in resting {
            let added = self.control(libc::EPOLL_CTL_ADD, fd, LISTENING, listener_data(token));
            if let Err(error) = added {
                self.accept_failed(token, error, out);
            }
        }
    }
}

fn listener_data(token: Token) -> u64 {
    u64::from(token.index | IS_LISTENER) << 32 | u64::from(token.generation)
}
