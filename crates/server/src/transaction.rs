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
//! 3. A transaction runs once, or parks or moves to the lane with nothing changed.
//!
//! Tests: compat/transcripts/transaction, compat's `serial`.

use std::sync::Arc;

use pantala_commands::{
    CommandRef, Flags, Lane, Queue, Queued, ReplyMode, Session, error, key_positions,
};
use pantala_keyspace::{Key, LockPlan, Locked};
use pantala_protocol::Reply;
use smallvec::SmallVec;

use crate::execute::{Request, Turn, Verdict, suppress_reply};
use crate::tracking::reading::forget_caching;

/// A transaction with more commands, or more arguments, than this runs on the slow lane.
const WORKER_COMMANDS: usize = 512;
const WORKER_ARGUMENTS: usize = 4096;

type Hashes = SmallVec<[u64; 4]>;

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
        let hashes: Vec<Hashes> = commands.map(|(one, args)| self.hashes(one, args)).collect();
        let watched = session.watching.iter().flat_map(|watching| &watching.keys);
        let watched = watched.map(|(_, key)| scope.space.hash(key));
        let plan = LockPlan::of(hashes.iter().flatten().copied().chain(watched));
        let mut locked = match self.lock(&plan, scope, queue.locking()) {
            Ok(locked) => locked,
            Err(park) => return Verdict::Parked(park),
        };
        if self.has_changed(session, &mut locked) {
            Reply::new(output, session.version).null_array();
            return Verdict::Finished;
        }
        let watching = session.watching.take();
        Reply::new(output, session.version).array(queue.commands.len());
        let changes_before = self.tally.keys.changes.get();
        for ((queued, args), hashes) in queue.commands.iter().zip(&args).zip(&hashes) {
            let request = Request { found: queued.found, args, hashes };
            locked.set_scope(self.scope(session));
            let verdict = self.run_one(session, request, &mut locked, output);
            if !matches!(verdict, Verdict::Lane) {
                continue;
            }
            if self.lane == Lane::Worker && self.tally.keys.changes.get() == changes_before {
                session.watching = watching;
                return Verdict::Lane;
            }
            // Too late to go elsewhere: what ran before has changed something.
            let here = Turn { lane: Lane::Slow, ..*self };
            here.run_one(session, request, &mut locked, output);
        }
        if locked.has_ready() {
            self.serve_ready(&mut locked);
        }
        Verdict::Finished
    }

    fn run_one(
        &self,
        session: &mut Session,
        request: Request<'_>,
        locked: &mut Locked<'r>,
        output: &mut Vec<u8>,
    ) -> Verdict {
        let inside = Turn { may_wait: false, ..*self };
        let Request { found, args, .. } = request;
        let before = output.len();
        let began_us = pantala_base::clock::monotonic_us();
        let verdict = if found.row.flags.has(Flags::SCRIPT) {
            inside.run_script_inside(session, request, locked, output)
        } else {
            inside.run_locked(session, request, locked, output)
        };
        match verdict {
            Verdict::Finished => {
                let took_us = pantala_base::clock::monotonic_us() - began_us;
                self.count_time(found, took_us * 1000);
                let reply_bytes = output.len().saturating_sub(before);
                self.shared.logs.note(session, found, args, took_us, reply_bytes);
                self.shared.latency_monitor.note(found.row, took_us);
                if self.is_monitored {
                    self.shared.monitors.feed_inside(session, found, args);
                }
            }
            Verdict::Lane if self.lane == Lane::Worker => {}
            // A walk that met a busy partition: its row lacks `WHOLE`.
            _ => {
                let error = error::not_in_multi(&found.row.full_name());
                self.reply_error(session, &error, output);
            }
        }
        verdict
    }

    fn hashes(&self, queued: &Queued, args: &[&[u8]]) -> Hashes {
        let positions = key_positions(queued.found.row, args).unwrap_or_default();
        positions.iter().map(|&position| self.shared.space.hash(args[position])).collect()
    }

    /// Whether a watched key has changed, or expired, since WATCH. All of them are held.
    fn has_changed(&self, session: &Session, locked: &mut Locked<'_>) -> bool {
        let Some(watching) = &session.watching else { return false };
        for (db, bytes) in &watching.keys {
            let hash = self.shared.space.hash(bytes);
            locked.peek_in(*db, Key { bytes, hash });
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
