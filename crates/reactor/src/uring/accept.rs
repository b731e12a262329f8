//! Accepting: a standing poll of the set of listening sockets (`listeners`).
//!
//! When the kernel cannot accept, the listener rests until a timer ends or a connection is closed.
//!
//! The rest of the engine is in `core`, the invariants cited here in `uring`. Tests:
//! `tests/engines`.

use super::core::{Core, Kind, NOBODY, Target};
use crate::event::{Event, ListenerId, ReactorEvent};
use crate::listeners::ACCEPT_PAUSE;
use io_uring::opcode;
use io_uring::types::Timespec;
use std::io;
use std::os::fd::{OwnedFd, RawFd};

static PAUSE: Timespec = Timespec::new().nsec(ACCEPT_PAUSE.subsec_nanos());

impl Core {
    pub(crate) fn listen(&mut self, socket: OwnedFd, id: ListenerId) -> io::Result<()> {
        if let Some(set) = self.listeners.listen(socket, id)? {
            self.listening = Some(set);
            self.poll_listeners(set);
        }
        Ok(())
    }

    pub(crate) fn unlisten(&mut self, id: ListenerId) {
        if self.listeners.unlisten(id) {
            self.connections.queued.push(ReactorEvent::Other(Event::Unlistened { listener: id }));
        }
    }

    fn poll_listeners(&mut self, set: RawFd) {
        self.poll(set, libc::POLLIN, Kind::Accept, NOBODY);
    }

    /// The poll has ended: a peer has connected.
    pub(super) fn accept(&mut self, out: &mut Vec<ReactorEvent>) {
        self.listeners.accept(out);
        if !self.resting_listeners && self.listeners.are_resting() {
            self.resting_listeners = true;
            let entry = opcode::Timeout::new(&raw const PAUSE)
                .build()
                .user_data(Target::user_data(Kind::AcceptAgain, NOBODY));
            // SAFETY: the duration is a static (5).
            unsafe { self.ring.push(entry) };
        }
        if let Some(set) = self.listening {
            self.poll_listeners(set);
        }
    }

    pub(super) fn accept_again(&mut self, out: &mut Vec<ReactorEvent>) {
        self.resting_listeners = false;
        self.listeners.rouse(out);
    }
}
