//! Accepting: one standing request per listening socket.
//!
//! When the kernel cannot accept, mostly for lack of descriptors, the request ends. Asking again at
//! once would spin, so the listener rests until a timer ends or a connection is closed. The kernel
//! notes the limit of descriptors when it is asked, not when it accepts.
//!
//! The rest of the engine is in `core`, the invariants cited here in `uring`. Tests:
//! `tests/engines`.

use super::core::{Core, Kind, NOBODY, Target};
use crate::event::{Event, Happening, ListenerId, Token};
use io_uring::opcode;
use io_uring::types::{Fd, Timespec};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// How long to leave a listener alone that cannot accept, unless a connection closes earlier.
static ACCEPT_PAUSE: Timespec = Timespec::new().nsec(100_000_000);

pub(crate) struct Listener {
    id: ListenerId,
    socket: OwnedFd,
    /// The kernel holds the request.
    pub(super) accepting: bool,
    removed: bool,
    /// Accepting failed; told already.
    failing: bool,
    /// Waits for the timer or for a closed connection.
    resting: bool,
}

impl Core {
    pub(crate) fn listen(&mut self, socket: OwnedFd, id: ListenerId) -> io::Result<()> {
        let token = self.listeners.insert(Listener {
            id,
            socket,
            accepting: false,
            removed: false,
            failing: false,
            resting: false,
        });
        self.accept(token);
        Ok(())
    }

    pub(crate) fn unlisten(&mut self, id: ListenerId) {
        let Some((token, listener)) =
            self.listeners.iter_mut().find(|(_, l)| l.id == id && !l.removed)
        else {
            return;
        };
        listener.removed = true;
        if listener.accepting {
            self.cancel(Kind::CancelAccept, Kind::Accept, token);
        } else {
            self.listeners.remove(token);
            self.connections.queued.push(Happening::Other(Event::Unlistened { listener: id }));
        }
    }

    /// Asks anew at every socket: the kernel's note of the limit of descriptors is old.
    pub(crate) fn renew_accepts(&mut self) {
        let accepting: Vec<Token> = self
            .listeners
            .iter_mut()
            .filter(|(_, listener)| listener.accepting && !listener.removed)
            .map(|(token, _)| token)
            .collect();
        for token in accepting {
            // That it was cancelled counts as passing: it is asked again.
            self.cancel(Kind::CancelAccept, Kind::Accept, token);
        }
    }

    fn accept(&mut self, token: Token) {
        let Some(listener) = self.listeners.get(token) else { return };
        listener.accepting = true;
        listener.resting = false;
        let entry = opcode::AcceptMulti::new(Fd(listener.socket.as_raw_fd()))
            .flags(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK)
            .build()
            .user_data(Target::user_data(Kind::Accept, token));
        // SAFETY: no memory of ours is involved (5).
        unsafe { self.ring.push(entry) };
    }

    pub(super) fn accepted(
        &mut self,
        token: Token,
        result: i32,
        more: bool,
        out: &mut Vec<Happening>,
    ) {
        let socket = (result >= 0).then(|| {
            // SAFETY: the kernel made this descriptor for us (6).
            unsafe { OwnedFd::from_raw_fd(result) }
        });
        let Some(listener) = self.listeners.get(token) else { return };
        let id = listener.id;
        listener.accepting = more;
        if listener.removed {
            drop(socket);
            if !more {
                self.listeners.remove(token);
                out.push(Happening::Other(Event::Unlistened { listener: id }));
            }
            return;
        }
        if let Some(socket) = socket {
            listener.failing = false;
            out.push(Happening::Other(Event::Accepted { listener: id, socket }));
            if !more {
                self.accept(token);
            }
        } else if !more {
            self.accept_failed(token, -result, out);
        }
    }

    fn accept_failed(&mut self, token: Token, error: i32, out: &mut Vec<Happening>) {
        let Some(listener) = self.listeners.get(token) else { return };
        // The peer was gone before we came, and the like: nothing to tell.
        if crate::net::is_passing_accept_error(error) {
            return self.accept(token);
        }
        listener.resting = true;
        if !listener.failing {
            listener.failing = true;
            let error = io::Error::from_raw_os_error(error);
            out.push(Happening::Other(Event::AcceptFailed { listener: listener.id, error }));
        }
        if !self.resting_listeners {
            self.resting_listeners = true;
            let entry = opcode::Timeout::new(&raw const ACCEPT_PAUSE)
                .build()
                .user_data(Target::user_data(Kind::AcceptAgain, NOBODY));
            // SAFETY: the duration is a static (5).
            unsafe { self.ring.push(entry) };
        }
    }

    pub(super) fn accept_again(&mut self) {
        self.resting_listeners = false;
        self.rouse_listeners();
    }

    pub(super) fn rouse_listeners(&mut self) {
        let resting: Vec<Token> =
            self.listeners.iter_mut().filter(|(_, l)| l.resting).map(|(token, _)| token).collect();
        for token in resting {
            self.accept(token);
        }
    }
}
