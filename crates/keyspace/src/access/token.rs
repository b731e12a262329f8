//! The token: for commands that learn their keys only while they run, that is scripts, and
//! transactions with scripts.
//!
//! All other commands take all locks or none, so they never wait while holding something. A script
//! cannot do this: it holds the partitions it has met so far, and finds that it needs one more.
//! There are two ways:
//!
//! ```text
//! try:    take it if it is free now (`Locked::reach`); if not, undo everything (see
//!         `changes/undo`), let go, and run again later
//! wait:   hold the one *token* of the keyspace, and wait with locks in hand
//! ```
//!
//! Invariants
//! 1. Only the holder of the token waits for a partition while holding others. The holders of that
//!    partition wait for nothing, so they finish, and there is no deadlock.
//! 2. The token is never waited for while a partition is held ([`Locked::try_take_token`] only
//!    tries).
//! 3. The token is released after the partitions.
//!
//! Not here: which scripts take the token, and when (the engine's `scripts`). Tests:
//! `tests/token.rs`.

use pantala_sync::lock::Guard;

use crate::Keyspace;
use crate::access::may_wait::{self, Aborted, WaitTarget};
use crate::access::ticket::{ThreadWaker, Ticket};

/// The right to wait for a partition while holding others; one for each keyspace.
pub struct WaitToken<'k>(
    #[expect(dead_code, reason = "held, never looked at")] Guard<'k, (), Ticket>,
);

impl Keyspace {
    /// The token, if it is free. To be called with no partition held.
    pub fn try_token(&self) -> Option<WaitToken<'_>> {
        self.token.spin_lock().map(WaitToken)
    }

    /// Leaves a ticket with the token. `Err`: it is free by now, try again.
    ///
    /// # Errors
    /// The ticket, unchanged.
    pub fn park_at_token(&self, ticket: Ticket) -> Result<(), Ticket> {
        self.token.park(ticket)
    }

    /// The token, waiting for it. Only for threads that may block, with no partition held.
    ///
    /// # Errors
    /// It has been held for too long.
    pub fn wait_for_token(&self) -> Result<WaitToken<'_>, Aborted> {
        may_wait::check();
        loop {
            if let Some(token) = self.try_token() {
                return Ok(token);
            }
            let waker = ThreadWaker::for_this_thread();
            let is_aborted = || self.is_aborted(WaitTarget::Token);
            if self.token.park(Ticket::Thread(waker.clone())).is_ok()
                && !self.wait_at(&waker, &is_aborted, &is_aborted)
            {
                return Err(Aborted(WaitTarget::Token));
            }
        }
    }
}
