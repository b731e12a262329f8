//! EXEC: the commands since MULTI, all at one moment.
//!
//! ```text
//! keys of all commands and of WATCH --> one lock plan --> has a watched key changed? --> run all
//! ```
//!
//! A transaction that goes through the whole keyspace (KEYS, FLUSHALL) cannot name its keys: it
//! takes all partitions. One with a script cannot name all of them: it takes the keyspace's token
//! before anything else, and waits for the partitions it meets. If one of them is held by a script
//! that runs too long, the transaction is put back and answered BUSY, unless it has changed too
//! much for that.
//!
//! Invariants
//! 1. No client sees a state between two commands of a transaction.
//! 2. A client blocked on a key is served when the whole transaction has run.
//! 3. A transaction runs once, or parks or moves to the lane with nothing changed: neither data nor
//!    session nor counts nor logs, and no client told of anything. It is an [`Attempt`] as long as
//!    only commands have run that can be put back: on a worker those that change no data; on the
//!    lane, if it has a script, also those whose changes can be copied. The first other command
//!    makes it final.
//!
//! Tests: compat/transcripts/transaction, compat's `serial`.

use std::mem::replace;
use std::sync::Arc;

use pantala_acl::Context;
use pantala_commands::{
    ClientError, CommandRef, Flags, Lane, Locking, QueuedCommand, ReplyMode, Session,
    TransactionQueue, Watching, error, key_positions,
};
use pantala_keyspace::{DbIndex, Key, LockPlan, Locked};
use pantala_protocol::Reply;
use smallvec::SmallVec;

use crate::clients::monitors::Monitors;
use crate::execute::attempt::Attempt;
use crate::execute::{CommandRequest, Hashes, Turn, Verdict, suppress_reply};
use crate::scripts::UNDO_LIMITS;
use crate::stats::telemetry::FinishedCommand;
use crate::tracking::reading::forget_caching;

/// A transaction with more commands, or more arguments, runs on the slow lane.
const WORKER_COMMANDS: usize = 512;
const WORKER_ARGUMENTS: usize = 4096;

/// How one command of a transaction has ended.
enum MemberOutcome<'a> {
    Finished(Note<'a>),
    /// It has done nothing: it needs the lane, or waits in vain for a script that is too slow.
    Again(Verdict),
    Refused,
}

/// A command to be counted and logged.
struct Note<'a> {
    request: CommandRequest<'a>,
    /// The database in which it ran.
    db: DbIndex,
    took_us: u64,
    reply_bytes: usize,
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
        let verdict = self.run_together(session, found, &queue, output);
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
        session.asks = false;
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
        self.reply_error(session, &[], error, output);
        if mode != ReplyMode::On {
            suppress_reply(session, mode, before, output);
        }
        Verdict::Finished
    }

    /// Runs all commands under one lock plan.
    fn run_together(
        &self,
        session: &mut Session,
        exec: CommandRef,
        queue: &Arc<TransactionQueue>,
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
        if let Err(error) = self.find_keys(session, exec, &[], &mut locked) {
            drop(locked);
            self.refuse(session, (Some(exec), &[]), &error, output);
            return Verdict::Finished;
        }
        if self.has_changed(session, &mut locked) {
            Reply::new(output, session.version).null_array();
            return Verdict::Finished;
        }
        if self.writes_ask
            && let Some(park) =
                self.transaction_waits_to_write(session.id, queue, &hashes, &mut locked)
        {
            return Verdict::Parked(park);
        }
        let watching = session.watching.take();
        Reply::new(output, session.version).array(queue.commands.len());
        let mut attempt = Attempt::begin(self, self.can_be_put_back(queue), &mut locked);
        let mut again = None;
        for ((queued, args), hashes) in queue.commands.iter().zip(&args).zip(&hashes) {
            let request = CommandRequest { found: queued.found, args, hashes, frame: &[] };
            attempt.counts(queued.found);
            if let Err(error) = self.permit_kept(&mut attempt, session, queue, (queued.found, args))
            {
                Turn { tally: attempt.tally(), ..*self }.reply_error(session, args, &error, output);
                continue;
            }
            again = self.run_next(&mut attempt, session, request, &mut locked, output).err();
            if again.is_some() {
                attempt.put_back(session, &mut locked);
                session.watching = watching.map(|one| watch_again(one, &mut locked));
                break;
            }
        }
        attempt.end(&mut locked);
        if locked.has_ready() {
            self.serve_ready(&mut locked);
        }
        again.unwrap_or(Verdict::Finished)
    }

    /// On the lane only a transaction with a script may have to be put back.
    fn can_be_put_back(&self, queue: &TransactionQueue) -> bool {
        self.lane == Lane::Worker || queue.locking() == Locking::Incremental
    }

    /// Whether the client's user may still run a queued command: an earlier command of the
    /// transaction may have changed the user or its rules.
    ///
    /// # Errors
    /// The error reply.
    fn permit_kept(
        &self,
        attempt: &mut Attempt<'r>,
        session: &mut Session,
        queue: &TransactionQueue,
        command: (CommandRef, &[&[u8]]),
    ) -> Result<(), ClientError> {
        if queue.flags.intersects(Flags::ADMIN) {
            // If the user is gone, its connection is closed afterwards.
            session.closing |= !self.engine.renew(session);
        }
        if !session.has_rules() {
            return Ok(());
        }
        self.engine.ask(session, session.db, command).map_err(|refused| {
            let exec = self.engine.registry.find_own(b"EXEC").unwrap_or(command.0);
            attempt.note_refusal(refused.told(session, Context::Multi, exec.row));
            refused.exec_error()
        })
    }

    /// Runs one of the commands. `Err`: all of it must be put back, and begins again this way.
    fn run_next(
        &self,
        attempt: &mut Attempt<'r>,
        session: &mut Session,
        request: CommandRequest<'_>,
        locked: &mut Locked<'r>,
        output: &mut Vec<u8>,
    ) -> Result<(), Verdict> {
        let is_reversible = attempt.is_open() && self.keep(attempt, session, request, locked);
        if !is_reversible && self.lane == Lane::Slow {
            attempt.end(locked);
        }
        let tally = if is_reversible { attempt.tally() } else { self.tally };
        let inside = Turn { may_wait: false, tally, ..*self };
        let mut ran = inside.run_one(attempt, session, request, locked, output);
        if let MemberOutcome::Again(verdict) = ran {
            if attempt.is_open() {
                return Err(verdict);
            }
            // Too late to move to the lane: earlier commands cannot be put back.
            let here = Turn { lane: Lane::Slow, ..inside };
            ran = here.run_one(attempt, session, request, locked, output);
        }
        if let Some(refusal) = session.refused_login.take() {
            attempt.note_refusal(*refusal);
        }
        // On a worker, commands that read change nothing, unless a key has expired.
        let has_changed = self.lane == Lane::Worker && tally.keys.changes.get() > 0;
        if !is_reversible || has_changed {
            attempt.end(locked);
        }
        if let MemberOutcome::Finished(note) = ran {
            self.note(attempt, session, note);
        }
        Ok(())
    }

    /// Keeps what a command may change, so that it can be put back; false if it cannot.
    fn keep(
        &self,
        attempt: &mut Attempt<'r>,
        session: &Session,
        request: CommandRequest<'_>,
        locked: &mut Locked<'r>,
    ) -> bool {
        let flags = request.found.row.flags;
        let is_kept = match self.lane {
            Lane::Worker => flags.intersects(Flags::READONLY.union(Flags::REVERSIBLE)),
            Lane::Slow => !locked.has_many_effects() && self.can_undo(session, request, locked),
        };
        if is_kept {
            attempt.counts(request.found);
            if !flags.intersects(Flags::READONLY) || flags.intersects(Flags::SCRIPT) {
                attempt.keep_session(session);
            }
        }
        is_kept
    }

    /// Whether a command that may change data can be put back. A script cares for that itself.
    fn can_undo(
        &self,
        session: &Session,
        request: CommandRequest<'_>,
        locked: &mut Locked<'r>,
    ) -> bool {
        let CommandRequest { found, args, hashes, .. } = request;
        let flags = found.row.flags;
        if flags.intersects(Flags::READONLY.union(Flags::REVERSIBLE).union(Flags::SCRIPT)) {
            return true;
        }
        // Libraries of functions are written too, and are no keys.
        let elsewhere = Flags::WHOLE.union(Flags::OTHER_DB).union(Flags::NOSCRIPT);
        if !flags.intersects(Flags::WRITE) || flags.intersects(elsewhere) {
            return false;
        }
        let positions = key_positions(found.row, args).unwrap_or_default();
        let keys = positions.iter().zip(hashes);
        let keys = keys.map(|(&position, &hash)| Key { bytes: args[position], hash });
        let keys: SmallVec<[Key<'_>; 4]> = keys.collect();
        locked.set_scope(self.scope(session));
        locked.can_undo(&keys, UNDO_LIMITS)
    }

    fn run_one<'a>(
        &self,
        attempt: &mut Attempt<'r>,
        session: &mut Session,
        request: CommandRequest<'a>,
        locked: &mut Locked<'r>,
        output: &mut Vec<u8>,
    ) -> MemberOutcome<'a> {
        let (before, db) = (output.len(), session.db);
        let began_us = pantala_base::clock::monotonic_us();
        locked.set_scope(self.scope(session));
        let is_script = request.found.row.flags.intersects(Flags::SCRIPT);
        let verdict = if is_script {
            self.run_script_inside(session, request, locked, attempt, output)
        } else {
            self.run_locked(session, request, locked, output)
        };
        match verdict {
            Verdict::Finished => {
                let took_us = pantala_base::clock::monotonic_us() - began_us;
                let reply_bytes = output.len().saturating_sub(before);
                MemberOutcome::Finished(Note { request, db, took_us, reply_bytes })
            }
            Verdict::Lane if self.lane == Lane::Worker => MemberOutcome::Again(Verdict::Lane),
            Verdict::Parked(_) if is_script => MemberOutcome::Again(verdict),
            // It walks the keyspace and met a busy partition: its row lacks `WHOLE`.
            _ => {
                let error = error::not_in_multi(&request.found.row.full_name());
                self.reply_error(session, request.args, &error, output);
                MemberOutcome::Refused
            }
        }
    }

    /// Counts and logs a command that has run, and sends it to the monitors.
    fn note(&self, attempt: &mut Attempt<'r>, session: &mut Session, note: Note<'_>) {
        let Note { request: CommandRequest { found, args, .. }, db, took_us, reply_bytes } = note;
        session.inner_commands += 1;
        Turn { tally: attempt.tally(), ..*self }.count_time(found, took_us * 1000);
        let ended = FinishedCommand { found, args, took_us, reply_bytes };
        self.note_keys(ended);
        attempt.note(session, ended);
        if self.is_monitored {
            let now = replace(&mut session.db, db);
            if let Some(line) = Monitors::line_inside(session, found, args) {
                attempt.log.show_own(line);
            }
            session.db = now;
        }
    }

    fn hashes_of_queued(&self, queued: &QueuedCommand, args: &[&[u8]]) -> Hashes {
        let positions = key_positions(queued.found.row, args).unwrap_or_default();
        self.hashes(args, &positions)
    }

    /// Whether a watched key has changed or expired since WATCH. All of them are held.
    fn has_changed(&self, session: &Session, locked: &mut Locked<'_>) -> bool {
        let Some(watching) = &session.watching else { return false };
        let mut has_expired = false;
        for (db, bytes) in watching.keys() {
            let key = Key { bytes, hash: self.engine.space.hash(bytes) };
            has_expired |= locked.has_expired_since(db, key, &watching.watch);
        }
        has_expired || watching.watch.is_touched()
    }
}

/// The watch of a transaction that was put back. No other client can have touched it meanwhile: the
/// partitions of its keys are held.
fn watch_again(mut watching: Arc<Watching>, locked: &mut Locked<'_>) -> Arc<Watching> {
    if watching.watch.is_touched() {
        let again = Arc::make_mut(&mut watching);
        again.watch = Arc::default();
        for (db, bytes) in again.keys() {
            let hash = locked.scope().space.hash(bytes);
            locked.watch_in(db, Key { bytes, hash }, &again.watch);
        }
    }
    watching
}

fn is_long(queue: &TransactionQueue) -> bool {
    let flags = queue.flags;
    flags.intersects(Flags::LANE.union(Flags::WHOLE).union(Flags::SCRIPT))
        || queue.commands.len() > WORKER_COMMANDS
        || queue.arg_count > WORKER_ARGUMENTS
}
