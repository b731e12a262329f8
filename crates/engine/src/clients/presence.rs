//! Presence: whether the client of a command that waits on the lane is still there.
//!
//! A command does not begin if its client has gone by then: nobody would get the reply, and the
//! command would take effect long after it was sent. After a reset or CLIENT KILL it is known that
//! the client has gone. A FIN may also be the end of a client's input, and then the client still
//! gets its replies; but not for a command that was held up by a script, which may be killed or go
//! on for hours.
//!
//! Invariant
//! 1. A command is called off before it begins, or not at all.
//!
//! Tests: the server's `in_process`; the bad days `waiting`.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use pantala_base::clock::monotonic_us;

use crate::scripts::running::RunningNow;

const THERE: u8 = 0;
const SENDS_NO_MORE: u8 = 1;
const GONE: u8 = 2;

/// What a connection's worker tells the threads that run its commands.
#[derive(Debug, Default)]
pub struct ClientPresence(AtomicU8);

impl ClientPresence {
    /// Notes that the client has closed its side, or the whole connection.
    pub fn sends_no_more(&self) {
        self.0.fetch_max(SENDS_NO_MORE, Ordering::Release);
    }

    /// Whether the connection is closed.
    pub fn has_gone(&self) -> bool {
        self.0.load(Ordering::Acquire) == GONE
    }

    /// Notes that the connection is closed.
    pub fn is_gone(&self) {
        self.0.store(GONE, Ordering::Release);
    }
}

/// The client of a waiting command, and since when it waits (monotonic, microseconds).
#[derive(Clone, Debug)]
pub struct WaitingCommand {
    /// The client.
    pub presence: Arc<ClientPresence>,
    /// When the command began to wait.
    pub since_us: u64,
}

impl WaitingCommand {
    /// Whether the command is not to begin any more.
    pub fn has_left(&self, running: &RunningNow) -> bool {
        match self.presence.0.load(Ordering::Acquire) {
            THERE => false,
            SENDS_NO_MORE => running.has_held_up(self.since_us, monotonic_us()),
            _ => true,
        }
    }
}

thread_local! {
    /// The applicant of the command that this thread is about to run.
    static AT_HAND: RefCell<Option<WaitingCommand>> = const { RefCell::new(None) };
}

/// While it lives, this thread runs the command of an applicant.
pub(crate) struct RunningMark(());

impl RunningMark {
    pub(crate) fn new(applicant: &WaitingCommand) -> RunningMark {
        AT_HAND.set(Some(applicant.clone()));
        RunningMark(())
    }
}

impl Drop for RunningMark {
    fn drop(&mut self) {
        AT_HAND.set(None);
    }
}

/// Whether this thread's command, which has not begun, is not to begin any more.
pub(crate) fn has_left(running: &RunningNow) -> bool {
    AT_HAND.with_borrow(|applicant| applicant.as_ref().is_some_and(|one| one.has_left(running)))
}
