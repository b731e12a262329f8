//! EXEC: the commands since MULTI, all at one moment.
//!
//! ```text
//! keys of all commands and of WATCH --> one lock plan --> has a watched key changed? --> run all
//! ```
//!
//! A transaction that goes through the whole keyspace (KEYS, FLUSHALL) can not name its keys: it
//! takes all partitions. One with a script in it can not name all of them: it takes the keyspace's
//! token before anything else, and waits for those it meets.
//!
//! Invariants
//! 1. Nobody sees a state between two commands of a transaction.
//! 2. Who waits for a key is served when the whole transaction has run.
//! 3. A transaction runs once, or parks or moves to the lane with nothing changed: neither data nor
//!    session nor counts nor logs, and nobody told of anything. On a worker it is an [`Attempt`] as
//!    long as only commands have run that can be put back; the first other one makes it final.
//!
//! Tests: compat/transcripts/transaction, compat's `serial`.

use std::mem::{replace, take};
use std::sync::Arc;

use pantala_commands::{
    CommandRef, Flags, Lane, Queue, Queued, ReplyMode, Session, error, key_positions,
};
use pantala_keyspace::{DbIndex, Key, LockPlan, Locked};
use pantala_protocol::Reply;
use smallvec::SmallVec;

use crate::execute::finish::Ended;
use crate::execute::{Hashes, Request, Turn, Verdict, suppress_reply};
use crate::tracking::reading::forget_caching;

/// A transaction with more commands, or more arguments, than this runs on the slow lane.
const WORKER_COMMANDS: usize = 512;
const WORKER_ARGUMENTS: usize = 4096;

/// How a transaction goes on.
#[derive(PartialEq, Eq)]
enum Next {
    Command,
    Lane,
}

/// How one of its commands ended.
enum Ran<'a> {
    Finished(Note<'a>),
    /// It asks for the lane and has done nothing.
    Lane,
    Refused,
}

/// What is to be counted and logged of a command.
struct Note<'a> {
    request: Request<'a>,
    /// The database in which it ran.
    db: DbIndex,
    took_us: u64,
    reply_bytes: usize,
}

/// What a transaction has done on a worker, while all of it can be put back.
struct Attempt<'a, 'r> {
    turn: Turn<'r>,
    is_open: bool,
    /// The session before the first command that may have changed it.
    session: Option<Box<Session>>,
    /// The rows of its commands, which have counted in `ThreadTally::inside`.
    rows: SmallVec<[u16; 8]>,
    notes: SmallVec<[Note<'a>; 4]>,
}

impl<'r> Attempt<'_, 'r> {
    /// Keeps what a command may change, so that it can be put back; false if it can not.
    fn keep(&mut self, session: &Session, found: CommandRef) -> bool {
        if !found.row.flags.has(Flags::READONLY.and(Flags::REVERSIBLE)) {
            return false;
        }
        if !found.row.flags.has(Flags::READONLY) && self.session.is_none() {
            self.session = Some(Box::new(session.clone()));
        }
        if !self.rows.contains(&found.number) {
            self.rows.push(found.number);
        }
        true
    }

    /// All is as it was before the first command.
    fn put_back(&mut self, session: &mut Session, locked: &mut Locked<'r>) {
        self.settle(false);
        locked.discard_effects(0);
        locked.hold_back_effects(false);
        if let Some(before) = self.session.take() {
            *session = *before;
        }
    }

    fn settle(&mut self, has_happened: bool) {
        self.is_open = false;
        if !self.rows.is_empty() {
            let Turn { tally, engine, .. } = self.turn;
            tally.settle_inside(&self.rows, has_happened, &engine.stats.errors);
        }
    }
}

impl Drop for Attempt<'_, '_> {
    /// After a panic.
    fn drop(&mut self) {
        if self.is_open {
            self.settle(false);
        }
    }
}

impl<'r> Turn<'r> {
    /// Runs EXEC.
    pub fn run_transaction(
        &self,
        session: &mut Session,
        found: CommandRef,
        output: &mut Vec<u8>,
    ) -> Verdict {
        let Some(queue) = session.multi.clone() else {
            return self.fail(session, found, &error::EXEC_WITHOUT_MULTI, output);
        };
        if queue.is_aborted {
            (session.multi, session.watching) = (None, None);
            return self.fail(session, found, &error::EXEC_ABORTED, output);
        }
        if self.lane == Lane::Worker && is_long(&queue) {
            return Verdict::Lane;
        }
        let (before, mode) = (output.len(), session.reply_mode);
        session.reply_mode = ReplyMode::On;
        let verdict = self.run_together(session, &queue, output);
        if session.reply_mode == ReplyMode::On {
            session.reply_mode = mode;
        }
        if !matches!(verdict, Verdict::Finished) {
            output.truncate(before);
            return verdict;
        }
        if mode != ReplyMode::On {
            suppress_reply(session, mode, before, output);
        }
        (session.multi, session.watching) = (None, None);
        forget_caching(session);
        self.tally.commands[usize::from(found.number)].calls.add(1);
        verdict
    }

    fn fail(
        &self,
        session: &mut Session,
        found: CommandRef,
        error: &pantala_commands::ClientError,
        output: &mut Vec<u8>,
    ) -> Verdict {
        let (before, mode) = (output.len(), session.reply_mode);
        let tally = &self.tally.commands[usize::from(found.number)];
        tally.calls.add(1);
        tally.failed.add(1);
        self.reply_error(session, error, output);
        if mode != ReplyMode::On {
            suppress_reply(session, mode, before, output);
        }
        Verdict::Finished
    }

    /// All commands under one lock plan.
    fn run_together(
        &self,
        session: &mut Session,
        queue: &Arc<Queue>,
        output: &mut Vec<u8>,
    ) -> Verdict {
        let scope = self.scope(session);
        let args: Vec<_> = queue.commands.iter().map(|one| one.args.slices()).collect();
        let commands = queue.commands.iter().zip(&args);
        let hashes: Vec<Hashes> =
            commands.map(|(one, args)| self.hashes_of_queued(one, args)).collect();
        let watched = session.watching.iter().flat_map(|watching| watching.keys());
        let watched = watched.map(|(_, key)| scope.space.hash(key));
        let plan = LockPlan::of(hashes.iter().flatten().copied().chain(watched));
        let mut locked = scope.space.lock_none(scope);
        if let Err(park) = self.lock(&plan, &mut locked, queue.locking()) {
            return Verdict::Parked(park);
        }
        if self.has_changed(session, &mut locked) {
            Reply::new(output, session.version).null_array();
            return Verdict::Finished;
        }
        let watching = session.watching.take();
        Reply::new(output, session.version).array(queue.commands.len());
        let mut attempt = self.begin_attempt(&mut locked);
        for ((queued, args), hashes) in queue.commands.iter().zip(&args).zip(&hashes) {
            let request = Request { found: queued.found, args, hashes };
            if self.run_next(&mut attempt, session, request, &mut locked, output) == Next::Lane {
                session.watching = watching;
                return Verdict::Lane;
            }
        }
        self.end_attempt(&mut attempt, session, &mut locked);
        if locked.has_ready() {
            self.serve_ready(&mut locked);
        }
        Verdict::Finished
    }

    /// Runs one of the commands, or puts back what those before it have done, for the lane.
    fn run_next<'a>(
        &self,
        attempt: &mut Attempt<'a, 'r>,
        session: &mut Session,
        request: Request<'a>,
        locked: &mut Locked<'r>,
        output: &mut Vec<u8>,
    ) -> Next {
        let is_reversible = attempt.is_open && attempt.keep(session, request.found);
        let tally = if is_reversible { self.tally.inside() } else { self.tally };
        let inside = Turn { may_wait: false, tally, ..*self };
        let mut ran = inside.run_one(session, request, locked, output);
        if matches!(ran, Ran::Lane) && attempt.is_open {
            attempt.put_back(session, locked);
            return Next::Lane;
        }
        if matches!(ran, Ran::Lane) {
            // Too late to go elsewhere: what ran before can not be put back.
            ran = Turn { lane: Lane::Slow, ..inside }.run_one(session, request, locked, output);
        }
        // What reads changes nothing, unless a key has expired.
        if !is_reversible || tally.keys.changes.get() > 0 {
            self.end_attempt(attempt, session, locked);
        }
        match ran {
            Ran::Finished(note) if attempt.is_open => attempt.notes.push(note),
            Ran::Finished(note) => self.note(session, note),
            Ran::Refused | Ran::Lane => {}
        }
        Next::Command
    }

    fn run_one<'a>(
        &self,
        session: &mut Session,
        request: Request<'a>,
        locked: &mut Locked<'r>,
        output: &mut Vec<u8>,
    ) -> Ran<'a> {
        let (before, db) = (output.len(), session.db);
        let began_us = pantala_base::clock::monotonic_us();
        locked.set_scope(self.scope(session));
        let verdict = if request.found.row.flags.has(Flags::SCRIPT) {
            self.run_script_inside(session, request, locked, output)
        } else {
            self.run_locked(session, request, locked, output)
        };
        match verdict {
            Verdict::Finished => {
                let took_us = pantala_base::clock::monotonic_us() - began_us;
                let reply_bytes = output.len().saturating_sub(before);
                Ran::Finished(Note { request, db, took_us, reply_bytes })
            }
            Verdict::Lane if self.lane == Lane::Worker => Ran::Lane,
            // A walk that met a busy partition: its row lacks `WHOLE`.
            _ => {
                let error = error::not_in_multi(&request.found.row.full_name());
                self.reply_error(session, &error, output);
                Ran::Refused
            }
        }
    }

    /// Counts, logs and shows a command that has run and is not put back any more.
    fn note(&self, session: &mut Session, note: Note<'_>) {
        let Note { request: Request { found, args, .. }, db, took_us, reply_bytes } = note;
        session.inner_commands += 1;
        self.finish(session, Ended { found, args, took_us, reply_bytes });
        if self.is_monitored {
            let now = replace(&mut session.db, db);
            self.engine.notices.monitors.feed_inside(session, found, args);
            session.db = now;
        }
    }

    fn begin_attempt<'a>(&self, locked: &mut Locked<'r>) -> Attempt<'a, 'r> {
        let is_open = self.lane == Lane::Worker;
        locked.hold_back_effects(is_open);
        let (rows, notes) = (SmallVec::new(), SmallVec::new());
        Attempt { turn: *self, is_open, session: None, rows, notes }
    }

    /// From here on nothing is put back.
    fn end_attempt(
        &self,
        attempt: &mut Attempt<'_, 'r>,
        session: &mut Session,
        locked: &mut Locked<'r>,
    ) {
        if attempt.is_open {
            locked.hold_back_effects(false);
            attempt.settle(true);
            for note in take(&mut attempt.notes) {
                self.note(session, note);
            }
        }
    }

    fn hashes_of_queued(&self, queued: &Queued, args: &[&[u8]]) -> Hashes {
        let positions = key_positions(queued.found.row, args).unwrap_or_default();
        self.hashes(args, &positions)
    }

    /// Whether a watched key has changed, or expired, since WATCH. All of them are held.
    fn has_changed(&self, session: &Session, locked: &mut Locked<'_>) -> bool {
        let Some(watching) = &session.watching else { return false };
        for (db, bytes) in watching.keys() {
            let hash = self.engine.space.hash(bytes);
            locked.peek_in(db, Key { bytes, hash });
        }
        watching.watch.is_touched()
    }
}

fn is_long(queue: &Queue) -> bool {
    let flags = queue.flags;
    flags.has(Flags::LANE.and(Flags::WHOLE).and(Flags::SCRIPT))
        || queue.commands.len() > WORKER_COMMANDS
        || queue.arg_count > WORKER_ARGUMENTS
}
