//! Authentication limits: how long a client may take to log in, and what a wrong password costs.
//!
//! The reply to a wrong password is held back for `auth_failure_delay`, and with it the
//! connection's next commands, also those of the same pipeline; a transaction checks no further
//! password. Only that connection waits: it is in the worker's list of timeouts, as one in BLPOP
//! is. A right password is never delayed, whatever others send, so a legitimate client gets in
//! during a flood of guesses. A guesser that opens a new connection each time pays for the
//! connections.
//!
//! A client that guesses (`Connection::is_guessing`) and closes its side while it is held back is
//! dropped at once, to free its place. Input beyond what may wait is thrown away, and the
//! connection ends after its replies (`sending.rs`).
//!
//! A client that has not authenticated within `auth_timeout` is closed; one that was logged in and
//! has said RESET, as connection pools do, is not. Each worker knows the earliest such deadline and
//! checks then, at most once a second; a server without passwords never checks.
//!
//! Tests: the bad days in `compat/bad_days/scenarios/unauthenticated.py`.

use std::mem::replace;

use pantala_commands::Session;
use pantala_reactor::Ops;

use crate::worker::Worker;
use crate::worker::connection::ParkReason;

/// A client that gives many wrong passwords at once waits for all of them, but no longer than this.
const LONGEST_PENALTY_US: u64 = 10_000_000;
/// The shortest time between two passes over all connections.
const INTERVAL_US: u64 = 1_000_000;

impl Worker {
    /// Holds a connection back if it has given a wrong password. True: its peer has closed its side
    /// meanwhile, so the connection must be dropped.
    #[inline]
    pub(crate) fn has_given_up_guessing(&mut self, index: u32) -> bool {
        let Some(connection) = self.at(index) else { return false };
        if connection.session.is_unpunished() {
            self.hold_back(index);
        }
        self.at(index).is_some_and(|connection| connection.has_given_up_guessing())
    }

    /// Holds back the replies of a connection for its wrong passwords.
    #[cold]
    pub(crate) fn hold_back(&mut self, index: u32) {
        let delay_us = u64::from(self.settings.auth_failure_delay_ms) * 1000;
        let now_us = self.now_us;
        let Some(connection) = self.at(index).filter(|one| one.waits.parked.is_none()) else {
            // It is parked for another reason: this happens afterwards.
            return;
        };
        let session = &mut connection.session;
        let given = session.wrong_passwords;
        let fresh = given.wrapping_sub(replace(&mut session.punished_passwords, given));
        let delay_us = (delay_us * u64::from(fresh)).min(LONGEST_PENALTY_US);
        if delay_us == 0 {
            return;
        }
        let (handle, number) = (connection.handle(), connection.park(ParkReason::Penalty));
        self.timeouts.due.insert((now_us + delay_us, handle), number);
    }

    /// Notes the login deadline of a connection that has just come.
    pub(crate) fn expect_login(&mut self, session: &Session) {
        let timeout_us = u64::from(self.settings.auth_timeout_s) * 1_000_000;
        if session.is_authenticated() || timeout_us == 0 {
            return;
        }
        let until_us = session.since_us + timeout_us;
        let next = &mut self.chores.next_login_us;
        *next = Some(next.map_or(until_us, |next_us| next_us.min(until_us)));
    }

    /// Closes the connections that have missed their login deadline.
    pub(crate) fn end_late_logins(&mut self, ops: &mut Ops<'_>) {
        if self.chores.next_login_us.is_none_or(|next_us| self.now_us < next_us) {
            return;
        }
        let timeout_us = u64::from(self.settings.auth_timeout_s) * 1_000_000;
        self.chores.next_login_us = None;
        if timeout_us == 0 {
            return;
        }
        let mut next_us = u64::MAX;
        for index in 0..self.connections.len() as u32 {
            let now_us = self.now_us;
            let Some(connection) = self.at(index) else { continue };
            if connection.session.is_authenticated() || connection.session.was_let_in {
                continue;
            }
            let until_us = connection.session.since_us + timeout_us;
            if now_us < until_us {
                next_us = next_us.min(until_us);
                continue;
            }
            let token = connection.token;
            self.tally.late_logins.add(1);
            self.drop_connection(token, ops);
        }
        let soonest_us = self.now_us + INTERVAL_US;
        self.chores.next_login_us = (next_us != u64::MAX).then_some(next_us.max(soonest_us));
    }
}
