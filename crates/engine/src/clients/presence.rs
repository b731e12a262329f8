//! Whether the client of a command is still there, for commands that wait on the lane.
//!
//! A command whose client has gone before it began does not begin: nobody would hear of it, and
//! what was meant for a moment long past would happen at another. Who has gone is known after a
//! reset or CLIENT KILL. A FIN can also be the end of what a client has to send, who gets its
//! answers all the same; but not one that has been held up by a script, which may be killed or go
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

/// What the worker of a connection tells those who run its command.
#[derive(Debug, Default)]
pub struct Presence(AtomicU8);

impl Presence {
    /// The client has closed its side, or all of the connection.
    pub fn sends_no_more(&self) {
        self.0.fetch_max(SENDS_NO_MORE, Ordering::Release);
    }

    /// Whether the connection is closed.
    pub fn has_gone(&self) -> bool {
        self.0.load(Ordering::Acquire) == GONE
    }

    /// The connection is closed.
    pub fn is_gone(&self) {
        self.0.store(GONE, Ordering::Release);
    }
}

/// A command that waits since some moment (monotonic, microseconds), and its client.
#[derive(Clone, Debug)]
pub struct Applicant {
    /// The client.
    pub presence: Arc<Presence>,
    /// Since when.
    pub since_us: u64,
}

impl Applicant {
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
    /// Whose command this thread is about to run.
    static AT_HAND: RefCell<Option<Applicant>> = const { RefCell::new(None) };
}

/// While it lives this thread runs the command of that client.
pub(crate) struct AtHand(());

impl AtHand {
    pub(crate) fn new(applicant: &Applicant) -> AtHand {
        AT_HAND.set(Some(applicant.clone()));
        AtHand(())
    }
}

impl Drop for AtHand {
    fn drop(&mut self) {
        AT_HAND.set(None);
    }
}

/// Whether the command of this thread, which has not begun, is not to begin any more.
pub(crate) fn has_left(running: &RunningNow) -> bool {
    AT_HAND.with_borrow(|applicant| applicant.as_ref().is_some_and(|one| one.has_left(running)))
}
