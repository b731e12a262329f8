//! An attempt: the traces of a transaction or script while all of it can still be put back.
//!
//! ```text
//!            while it is open              it ends          it is put back
//! counts     in `ThreadTally::inside`      are added up     are forgotten
//! logs       in `Notes`, `Log`, `refusals` are written      are forgotten
//! effects    held back in `Locked`         are published    are discarded
//! session    a copy of what was before     is dropped       is restored
//! data       unchanged, or a copy (undo)   is dropped       is restored
//! ```
//!
//! On a worker a transaction is open as long as it has changed nothing; a script, and on the lane a
//! transaction with one, as long as what it changes can be copied.
//!
//! Invariants
//! 1. An attempt is open at first, and ends or is put back once. Afterwards everything is counted
//!    and published at once.
//! 2. Nothing of an open attempt is visible to others. For them, one that was put back never
//!    happened, except for what time has done: what has expired stays so.
//!
//! Not here: which command can be put back (`transaction`, `scripts::call`), and data
//! (`pantala_keyspace`'s undo). Tests: crates/server/tests/lane.rs and scripts.rs.

use std::mem::take;

use pantala_acl::AclRefusal;
use pantala_commands::{CommandRef, Session};
use pantala_keyspace::Locked;
use smallvec::SmallVec;

use crate::engine::Engine;
use crate::execute::Turn;
use crate::scripts::log::Log;
use crate::stats::logs::Notes;
use crate::stats::tallies::ThreadTally;
use crate::stats::telemetry::FinishedCommand;

/// The most refusals that are held back. Further ones are logged at once, and a second time if the
/// attempt is put back and runs again.
const HELD_REFUSALS: usize = 128;

/// What a transaction or script has done so far that can still be put back: counts, log entries,
/// effects and the session before it.
pub(crate) struct Attempt<'r> {
    engine: &'r Engine,
    tally: &'r ThreadTally,
    is_open: bool,
    /// The session as it was before the first command that may have changed it.
    session: Option<Box<Session>>,
    /// The rows counted in `ThreadTally::inside`.
    rows: SmallVec<[u16; 8]>,
    notes: Notes,
    /// Refusals by users' rules.
    refusals: Vec<AclRefusal>,
    /// Log lines for operators.
    pub log: Log<'r>,
}

impl<'r> Attempt<'r> {
    /// An attempt that is open, or one that cannot be put back from the start.
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

    /// Whether it can still be put back.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// The tally that its commands count in.
    pub fn tally(&self) -> &'r ThreadTally {
        if self.is_open { self.tally.inside() } else { self.tally }
    }

    /// Error replies of this thread, including those of the attempt.
    pub fn errors(&self) -> u64 {
        self.tally.errors.get() + self.tally.inside().errors.get()
    }

    /// Keeps a copy of the session, if there is none yet.
    pub fn keep_session(&mut self, session: &Session) {
        if self.session.is_none() {
            self.session = Some(Box::new(session.clone()));
        }
    }

    /// Notes that a command of this row is about to be counted.
    #[inline]
    pub fn counts(&mut self, found: CommandRef) {
        if self.is_open && !self.rows.contains(&found.number) {
            self.rows.push(found.number);
        }
    }

    /// Notes for the logs a command of the client's transaction that has run.
    pub fn note(&mut self, session: &Session, ended: FinishedCommand<'_>) {
        let FinishedCommand { found, args, took_us, reply_bytes } = ended;
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

    /// Counts and logs a refusal by users' rules.
    #[cold]
    pub fn note_refusal(&mut self, refusal: AclRefusal) {
        self.refusals.push(refusal);
        if !self.is_open || self.refusals.len() > HELD_REFUSALS {
            self.tell_refusals();
        }
    }

    /// Ends the attempt: nothing is put back from here on.
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

    /// Puts everything back as it was before the first command.
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
    /// An attempt that is dropped open: after a panic.
    fn drop(&mut self) {
        if self.is_open {
            self.settle(false);
        }
        self.log.tell();
        self.tell_refusals();
    }
}
