//! What a transaction or script leaves behind while all of it can still be put back.
//!
//! ```text
//!            while it is open              it ends          it is put back
//! counts     in `ThreadTally::inside`      are added up     are forgotten
//! logs       in `Notes`, `Log`, `refusals` are told         are forgotten
//! effects    held back in `Locked`         are told         are thrown away
//! session    a copy of what was before     is dropped       comes back
//! data       not changed, or a copy (undo) is dropped       comes back
//! ```
//!
//! On a worker a transaction is open as long as it has changed nothing; a script, and on the lane a
//! transaction with one, as long as what it changes can be copied.
//!
//! Invariants
//! 1. An attempt is open at first, and ends or is put back once. From then on everything is counted
//!    and told at once.
//! 2. Nobody else learns of anything while it is open. What is put back was, to everybody, never
//!    there, but for what time has done: what has expired stays so.
//!
//! Not here: which command can be put back (`transaction`, `scripts::call`), and data
//! (`pantala_keyspace`'s undo). Tests: crates/server/tests/lane.rs and scripts.rs.

use std::mem::take;

use pantala_acl::Refusal;
use pantala_commands::{CommandRef, Session};
use pantala_keyspace::Locked;
use smallvec::SmallVec;

use crate::engine::Engine;
use crate::execute::Turn;
use crate::execute::finish::Ended;
use crate::scripts::log::Log;
use crate::stats::logs::Notes;
use crate::stats::tallies::ThreadTally;

/// So many refusals wait. More are told at once, and come twice if they are put back after all.
const HELD_REFUSALS: usize = 128;

/// What a transaction or script has done so far that can still be put back: counts, log entries,
/// effects and the session before it.
pub(crate) struct Attempt<'r> {
    engine: &'r Engine,
    tally: &'r ThreadTally,
    is_open: bool,
    /// The session before the first command that may have changed it.
    session: Option<Box<Session>>,
    /// The rows that have counted in `ThreadTally::inside`.
    rows: SmallVec<[u16; 8]>,
    notes: Notes,
    /// What rules of users have refused.
    refusals: Vec<Refusal>,
    /// Lines for operators.
    pub log: Log<'r>,
}

impl<'r> Attempt<'r> {
    /// One that is open, or for which it is too late from the start.
    pub fn begin(turn: &Turn<'r>, is_open: bool, locked: &mut Locked<'r>) -> Self {
        let Turn { engine, tally, .. } = *turn;
        locked.hold_back_effects(is_open);
        Attempt {
            engine,
            tally,
            is_open,
            session: None,
            rows: SmallVec::new(),
            notes: Notes::default(),
            refusals: Vec::new(),
            log: Log::new(&engine.notices.monitors, is_open),
        }
    }

    /// Whether all of it can still be put back.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Where its commands count.
    pub fn tally(&self) -> &'r ThreadTally {
        if self.is_open { self.tally.inside() } else { self.tally }
    }

    /// Error replies of this thread, those of the attempt among them.
    pub fn errors(&self) -> u64 {
        self.tally.errors.get() + self.tally.inside().errors.get()
    }

    /// Keeps the session, unless that was done before.
    pub fn keep_session(&mut self, session: &Session) {
        if self.session.is_none() {
            self.session = Some(Box::new(session.clone()));
        }
    }

    /// A command of this row is about to count.
    #[inline]
    pub fn counts(&mut self, found: CommandRef) {
        if self.is_open && !self.rows.contains(&found.number) {
            self.rows.push(found.number);
        }
    }

    /// Notes for the logs a command of the client's transaction that has run.
    pub fn note(&mut self, session: &Session, ended: Ended<'_>) {
        let Ended { found, args, took_us, reply_bytes } = ended;
        if self.is_open {
            let logs = &self.engine.stats.logs;
            logs.note_later(&mut self.notes, session, (found, args), took_us, reply_bytes);
            self.engine.stats.latency_monitor.note(found.row, took_us);
        } else {
            self.engine.log_ended(session, ended);
        }
    }

    /// Notes for the logs a command that a script of this client has run; `took_us` is `None` if it
    /// was not timed.
    #[inline]
    pub fn note_inside(
        &mut self,
        client: &Session,
        command: (CommandRef, &[&[u8]]),
        took_us: Option<u64>,
        reply_bytes: usize,
    ) {
        let logs = &self.engine.stats.logs;
        logs.note_inside(&mut self.notes, client, command, took_us, reply_bytes);
        if !self.is_open {
            self.tell_notes();
        }
    }

    /// Counts and logs what rules have refused.
    #[cold]
    pub fn note_refusal(&mut self, refusal: Refusal) {
        self.refusals.push(refusal);
        if !self.is_open || self.refusals.len() > HELD_REFUSALS {
            self.tell_refusals();
        }
    }

    /// From here on nothing is put back.
    pub fn end(&mut self, locked: &mut Locked<'r>) {
        if self.is_open {
            locked.end_undo();
            locked.hold_back_effects(false);
            self.settle(true);
            self.log.tell();
            self.tell_notes();
            self.tell_refusals();
            self.session = None;
        }
    }

    /// All is as it was before the first command.
    pub fn put_back(&mut self, session: &mut Session, locked: &mut Locked<'r>) {
        debug_assert!(self.is_open, "it is too late to put anything back");
        self.settle(false);
        self.log.forget();
        self.notes = Notes::default();
        self.refusals.clear();
        locked.undo();
        locked.hold_back_effects(false);
        if let Some(before) = self.session.take() {
            *session = *before;
        }
    }

    fn settle(&mut self, has_happened: bool) {
        self.is_open = false;
        if !self.rows.is_empty() {
            let rows = take(&mut self.rows);
            self.tally.settle_inside(&rows, has_happened, &self.engine.stats.errors);
        }
    }

    fn tell_refusals(&mut self) {
        self.refusals.drain(..).for_each(|refusal| self.engine.log_refusal(refusal));
    }

    #[inline]
    fn tell_notes(&mut self) {
        if !self.notes.is_empty() {
            self.engine.stats.logs.add_all(take(&mut self.notes));
        }
    }
}

impl Drop for Attempt<'_> {
    /// After a panic.
    fn drop(&mut self) {
        if self.is_open {
            self.settle(false);
        }
        self.log.tell();
        self.tell_refusals();
    }
}
