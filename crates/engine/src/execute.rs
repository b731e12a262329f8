//! Running one command: the same for workers and for the slow lane.
//!
//! ```text
//! admit: known? arity? password? memory? paused? too long for a worker?
//! lock:  all partitions of its keys, or none
//! run:   the handler ; its reply or its error ; the counts
//! ```
//!
//! Invariants
//! 1. A command that ends with an error, parks or moves to the lane leaves no byte in the output.
//! 2. Nothing here blocks on a worker; `Lane::Slow` may.

use std::sync::Arc;

use pantala_base::UnixMs;
use pantala_base::clock::monotonic_us;
use pantala_commands::{
    Call, ClientError, CommandRef, Done, Flags, Lane, Locking, OwnedArgs, Park, Queue, ReplyMode,
    Server, Session, Standing, Stop, error, key_positions,
};
use pantala_keyspace::{DbIndex, LockPlan, Locked, Scope};
use pantala_protocol::Reply;
use smallvec::SmallVec;

use crate::engine::Engine;
use crate::limits::Limited;
use crate::stats::tallies::ThreadTally;
use crate::waiting::{Blocked, ReplyTarget};

/// What holds for all commands of one turn.
#[derive(Clone, Copy)]
pub struct Turn<'r> {
    /// What it runs on.
    pub engine: &'r Engine,
    /// What stands around that: for commands about the server itself.
    pub server: &'r dyn Server,
    /// The counters of this thread.
    pub tally: &'r ThreadTally,
    /// The settings.
    pub limited: &'r Limited,
    /// Where this is.
    pub lane: Lane,
    /// The time.
    pub now: UnixMs,
    /// Commands that need memory are refused.
    pub is_full: bool,
    /// Somebody uses MONITOR.
    pub is_monitored: bool,
    /// Every command is timed by itself.
    pub is_timed: bool,
    /// CLIENT PAUSE: commands with one of these flags wait.
    pub paused: Paused,
    /// Whether commands may wait for keys; not inside a transaction.
    pub may_wait: bool,
    /// What a script begins with.
    pub locking: Locking,
    /// Some partition was busy each time, many times: now it waits for them, with the token.
    pub is_starved: bool,
}

/// What CLIENT PAUSE holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paused {
    /// Nothing.
    Nothing,
    /// Commands that change data.
    Writes,
    /// All commands.
    All,
}

/// Why a command does not run now.
pub enum Refusal {
    /// An error for the client.
    Error(Option<CommandRef>, ClientError),
    /// It runs on the slow lane.
    Lane(CommandRef),
    /// CLIENT PAUSE.
    Pause,
    /// It waits for EXEC.
    Queue(CommandRef),
}

/// What is to be run.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The row.
    pub found: CommandRef,
    /// The arguments, the name first.
    pub args: &'a [&'a [u8]],
    /// The hashes of its keys.
    pub hashes: &'a [u64],
}

/// How running ended.
pub enum Verdict {
    /// There is a reply (or none is wanted).
    Finished,
    /// To the slow lane with it.
    Lane,
    /// Later.
    Parked(Park),
    /// It waits in the queues of its keys.
    Blocked(Blocked),
}

impl<'r> Turn<'r> {
    /// Everything that is decided before locks are taken. Of the arguments the first will do.
    #[inline]
    pub fn admit(
        &self,
        session: &Session,
        found: Option<CommandRef>,
        args: &[&[u8]],
        arg_count: usize,
    ) -> Result<CommandRef, Refusal> {
        if session.standing != Standing::Authenticated {
            self.admit_others(session, found, arg_count)?;
        }
        let Some(found) = found else {
            return Err(Refusal::Error(None, error::unknown_command(args)));
        };
        let row = found.row;
        if !row.accepts(arg_count) {
            return Err(Refusal::Error(Some(found), error::wrong_arity(&row.full_name())));
        }
        if let Some(queue) = &session.multi {
            return self.admit_to_queue(queue, found, args);
        }
        if self.is_full && row.flags.has(Flags::DENYOOM) {
            return Err(Refusal::Error(Some(found), error::OUT_OF_MEMORY));
        }
        if self.paused != Paused::Nothing && self.holds_back(row.flags) {
            return Err(Refusal::Pause);
        }
        if self.lane == Lane::Worker && row.flags.has(Flags::LANE) {
            return Err(Refusal::Lane(found));
        }
        Ok(found)
    }

    /// What is decided of a command of a client that has not given its password, or that has
    /// subscribed to something.
    #[cold]
    fn admit_others(
        &self,
        session: &Session,
        found: Option<CommandRef>,
        arg_count: usize,
    ) -> Result<(), Refusal> {
        let flags = found.map_or(Flags::NONE, |found| found.row.flags);
        // Who has not given the password learns nothing, not even which commands there are.
        if session.standing == Standing::Unauthenticated && !flags.has(Flags::NO_AUTH) {
            return Err(Refusal::Error(found, error::NO_AUTH));
        }
        let Some(found) = found.filter(|found| found.row.accepts(arg_count)) else {
            return Ok(());
        };
        let is_refused = self.is_full && flags.has(Flags::DENYOOM);
        if session.is_confined() && !flags.has(Flags::SUBSCRIBED) && !is_refused {
            let error = error::not_while_subscribed(&found.row.full_name());
            return Err(Refusal::Error(Some(found), error));
        }
        Ok(())
    }

    /// What is decided of a command between MULTI and EXEC.
    #[cold]
    fn admit_to_queue(
        &self,
        queue: &Queue,
        found: CommandRef,
        args: &[&[u8]],
    ) -> Result<CommandRef, Refusal> {
        let row = found.row;
        let at_once = row.flags.has(Flags::UNQUEUED);
        if row.flags.has(Flags::NO_MULTI) && !at_once {
            return Err(Refusal::Error(Some(found), error::not_in_multi(&row.full_name())));
        }
        if row.flags.has(Flags::CONTAINER) {
            let word = args.get(1).copied().unwrap_or_default();
            return Err(Refusal::Error(Some(found), error::unknown_subcommand(row.name, word)));
        }
        let flags = match row.flags.has(Flags::TRANSACTION) {
            true => queue.flags,
            false => row.flags,
        };
        if self.is_full && flags.has(Flags::DENYOOM) && !queue.is_aborted {
            return Err(Refusal::Error(Some(found), error::OUT_OF_MEMORY));
        }
        if self.paused != Paused::Nothing && at_once && self.holds_back(flags) {
            return Err(Refusal::Pause);
        }
        if at_once { Ok(found) } else { Err(Refusal::Queue(found)) }
    }

    fn holds_back(&self, flags: Flags) -> bool {
        match self.paused {
            Paused::Nothing => false,
            Paused::Writes => flags.has(Flags::WRITE.and(Flags::MAY_REPLICATE)),
            Paused::All => !flags.has(Flags::ADMIN.and(Flags::ALLOW_BUSY)),
        }
    }

    /// What lookups need before it is known whose they are.
    #[inline]
    pub fn plain_scope(&self) -> Scope<'r> {
        let (space, tally) = (&self.engine.space, &self.tally.keys);
        Scope { space, db: DbIndex(0), now: self.now, tally, touch: true }
    }

    /// What lookups of this session need.
    #[inline]
    pub fn scope(&self, session: &Session) -> Scope<'r> {
        Scope {
            space: &self.engine.space,
            db: session.db,
            now: self.now,
            tally: &self.tally.keys,
            touch: !session.no_touch,
        }
    }

    /// Locks what the command needs and runs it.
    pub fn run(
        &self,
        session: &mut Session,
        found: CommandRef,
        args: &[&[u8]],
        output: &mut Vec<u8>,
        target: &ReplyTarget<'_>,
    ) -> Verdict {
        if found.row.flags.has(Flags::TRANSACTION) {
            let verdict = self.run_transaction(session, found, output);
            if self.is_monitored {
                self.show(session, found, args, &verdict);
            }
            return verdict;
        }
        let positions = key_positions(found.row, args).unwrap_or_default();
        let hashes: SmallVec<[u64; 4]> =
            positions.iter().map(|&position| self.engine.space.hash(args[position])).collect();
        let request = Request { found, args, hashes: &hashes };
        let is_script = found.row.flags.has(Flags::SCRIPT);
        if self.is_full && is_script && self.has_no_memory_for(request) {
            self.refuse(session, Some(found), &error::OUT_OF_MEMORY, output);
            return Verdict::Finished;
        }
        let (began_us, before) = (monotonic_us(), output.len());
        let verdict = if is_script {
            self.run_script(session, request, output, began_us)
        } else {
            self.run_plain(session, request, output, target)
        };
        if matches!(verdict, Verdict::Finished) {
            let took_us = monotonic_us() - began_us;
            self.count_time(found, took_us * 1000);
            let reply_bytes = output.len().saturating_sub(before);
            self.engine.stats.logs.note(session, found, args, took_us, reply_bytes);
            self.engine.stats.latency_monitor.note(found.row, took_us);
        }
        if self.is_monitored {
            self.show(session, found, args, &verdict);
        }
        verdict
    }

    /// Shows a command to those who watch, unless it is to run again; no partition is held.
    #[cold]
    fn show(&self, session: &Session, found: CommandRef, args: &[&[u8]], verdict: &Verdict) {
        let (monitors, workers) = (&self.engine.notices.monitors, &*self.engine.workers);
        match verdict {
            Verdict::Finished | Verdict::Blocked(_) => monitors.feed(workers, session, found, args),
            Verdict::Lane | Verdict::Parked(_) => monitors.call(workers),
        }
    }

    /// Shows an EXEC that was refused: its MULTI was shown too.
    #[cold]
    pub fn show_refused_exec(&self, session: &Session, found: CommandRef, args: &[&[u8]]) {
        if is_exec(found) {
            self.engine.notices.monitors.feed(&*self.engine.workers, session, found, args);
        }
    }

    /// Takes the partitions of a plan: all or none. Only with the token it waits for them.
    pub fn lock(
        &self,
        plan: &LockPlan,
        scope: Scope<'r>,
        locking: Locking,
    ) -> Result<Locked<'r>, Park> {
        let space = scope.space;
        if locking == Locking::Upfront && !self.is_starved {
            return space.lock(plan, scope).map_err(Park::Partition);
        }
        let token = space.try_token().ok_or(Park::Token(locking))?;
        let mut locked = space.lock_incrementally(token, plan, scope)?;
        match locking {
            Locking::Upfront => locked.drop_token(),
            Locking::Incremental => {}
            Locking::Everything => locked.reach_everything()?,
        }
        Ok(locked)
    }

    /// Locks what a command names and runs it; it may begin to wait for its keys.
    fn run_plain(
        &self,
        session: &mut Session,
        request: Request<'_>,
        output: &mut Vec<u8>,
        target: &ReplyTarget<'_>,
    ) -> Verdict {
        let plan = LockPlan::of(request.hashes.iter().copied());
        let mut locked = match self.lock(&plan, self.scope(session), Locking::Upfront) {
            Ok(locked) => locked,
            Err(park) => return Verdict::Parked(park),
        };
        let mut verdict = self.run_locked(session, request, &mut locked, output);
        if let Verdict::Parked(Park::Keys(wait)) = verdict {
            let command = (request.found, request.args);
            let waiting = self.enqueue(session, command, *wait, &mut locked, target);
            verdict = Verdict::Blocked(waiting);
        }
        if locked.has_ready() {
            self.serve_ready(&mut locked);
        }
        verdict
    }

    /// Runs a command whose partitions are held.
    #[inline]
    pub fn run_locked(
        &self,
        session: &mut Session,
        request: Request<'_>,
        locked: &mut Locked<'r>,
        output: &mut Vec<u8>,
    ) -> Verdict {
        if session.tracking.is_some() {
            return self.run_tracked(session, request, locked, output);
        }
        self.run_untracked(session, request, locked, output)
    }

    /// The same for a client that remembers nothing of what it reads.
    #[inline]
    pub fn run_untracked(
        &self,
        session: &mut Session,
        request: Request<'_>,
        locked: &mut Locked<'r>,
        output: &mut Vec<u8>,
    ) -> Verdict {
        let Request { found, args, hashes } = request;
        let (before, mode) = (output.len(), session.reply_mode);
        // One key that is missing has no long reply: only of several something may be told in vain.
        let told = if hashes.len() > 1 { locked.effect_count() } else { usize::MAX };
        let mut call = Call {
            args,
            command: found.row,
            reply: self.reply(session, found, output),
            keys: locked,
            hashes,
            session,
            server: self.server,
            settings: &self.limited.settings,
            lane: self.lane,
            ready: None,
            may_wait: self.may_wait,
        };
        let mut done = (found.row.handler)(&mut call);
        if call.reply.is_short() {
            if call.reply.may_be_short() {
                locked.discard_effects(told);
                done = Err(Stop::Lane);
            } else if mode == ReplyMode::On {
                // It is over its output limit; nothing behind this command runs.
                session.closing = true;
            }
        }
        let verdict = self.settle(session, found, done, before, output);
        if mode != ReplyMode::On && matches!(verdict, Verdict::Finished) {
            // What is pushed is shown all the same.
            let before = if is_pushed(found) { output.len() } else { before };
            suppress_reply(session, mode, before, output);
        }
        verdict
    }

    /// Where a command writes its reply. A worker copies no long one: a command that reads stops
    /// there and is run on the slow lane.
    #[inline]
    fn reply<'o>(
        &self,
        session: &Session,
        found: CommandRef,
        output: &'o mut Vec<u8>,
    ) -> Reply<'o> {
        let limits = self.limited;
        let may_be_short = self.lane == Lane::Worker && found.row.flags.has(Flags::READONLY);
        let most = match may_be_short {
            true => limits.most_worker_bytes,
            false if session.is_script => usize::MAX,
            false => limits.most_output_bytes,
        };
        Reply::new(output, session.version).at_most(most).or_short(may_be_short)
    }

    #[inline]
    fn settle(
        &self,
        session: &Session,
        found: CommandRef,
        done: Done,
        before: usize,
        output: &mut Vec<u8>,
    ) -> Verdict {
        let tally = &self.tally.commands[usize::from(found.number)];
        let stop = match done {
            Ok(()) => {
                tally.calls.add(1);
                return Verdict::Finished;
            }
            Err(stop) => stop,
        };
        output.truncate(before);
        match stop {
            Stop::Error(error) => {
                tally.calls.add(1);
                tally.failed.add(1);
                self.reply_error(session, &error, output);
                Verdict::Finished
            }
            Stop::Lane => Verdict::Lane,
            Stop::Park(park) => Verdict::Parked(park),
        }
    }

    /// Refuses a command that did not run.
    #[cold]
    pub fn refuse(
        &self,
        session: &mut Session,
        found: Option<CommandRef>,
        error: &ClientError,
        output: &mut Vec<u8>,
    ) {
        if let Some(found) = found {
            self.tally.commands[usize::from(found.number)].rejected.add(1);
        }
        let before = output.len();
        if found.is_some_and(is_exec) {
            (session.multi, session.watching) = (None, None);
            self.reply_error(session, &error::exec_aborted_by(error), output);
        } else {
            if let Some(queue) = &mut session.multi {
                Arc::make_mut(queue).is_aborted = true;
            }
            self.reply_error(session, error, output);
        }
        let mode = session.reply_mode;
        if mode != ReplyMode::On {
            suppress_reply(session, mode, before, output);
        }
    }

    /// Writes and counts an error reply.
    #[cold]
    pub fn reply_error(&self, session: &Session, error: &ClientError, output: &mut Vec<u8>) {
        self.tally.count_error(&self.engine.stats.errors, error.code());
        Reply::new(output, session.version).error(&*error.0);
    }

    /// Counts a command that is so quick that nobody looks at the clock for it.
    #[inline]
    pub fn count_quick(&self, found: CommandRef) {
        self.tally.commands[usize::from(found.number)].latency[0].add(1);
    }

    /// Adds to the time and the histogram of a row.
    #[inline]
    pub fn count_time(&self, found: CommandRef, nanoseconds: u64) {
        self.tally.commands[usize::from(found.number)].took(nanoseconds);
    }
}

/// Keeps a command for EXEC.
#[cold]
pub fn keep_for_exec(
    session: &mut Session,
    found: CommandRef,
    (args, arg_count): (OwnedArgs, usize),
    output: &mut Vec<u8>,
) {
    let Some(queue) = &mut session.multi else { return };
    Arc::make_mut(queue).push(found, args, arg_count);
    let before = output.len();
    Reply::new(output, session.version).simple("QUEUED");
    let mode = session.reply_mode;
    if mode != ReplyMode::On {
        suppress_reply(session, mode, before, output);
    }
}

/// A command has panicked, which is a fault of ours: it is logged and counted, and the client is
/// told. Its connection is to be closed.
#[cold]
pub fn report_panic(
    engine: &Engine,
    tally: &ThreadTally,
    session: &Session,
    found: Option<CommandRef>,
    output: &mut Vec<u8>,
) {
    const ERROR: ClientError = ClientError::text("ERR internal error, see the log of the server");
    let command = found.map(|found| found.row.full_name()).unwrap_or_default();
    tracing::error!(command, "a command panicked; its connection is closed");
    tally.unexpected_errors.add(1);
    tally.count_error(&engine.stats.errors, ERROR.code());
    Reply::new(output, session.version).error(&*ERROR.0);
}

/// Whether its replies are pushes, which CLIENT REPLY leaves alone.
#[cold]
fn is_pushed(found: CommandRef) -> bool {
    found.row.flags.has(Flags::SUBSCRIBED) && found.row.flags.has(Flags::PUBSUB)
}

fn is_exec(found: CommandRef) -> bool {
    found.row.flags.has(Flags::TRANSACTION)
}

/// Takes a reply back that CLIENT REPLY does not want.
#[cold]
pub fn suppress_reply(
    session: &mut Session,
    mode_before: ReplyMode,
    before: usize,
    output: &mut Vec<u8>,
) {
    match session.reply_mode {
        // By this very command, which is answered.
        ReplyMode::On => return,
        ReplyMode::SkipNext if mode_before == ReplyMode::SkipNext => {
            session.reply_mode = ReplyMode::On;
        }
        ReplyMode::SkipAgain => session.reply_mode = ReplyMode::SkipNext,
        ReplyMode::SkipNext | ReplyMode::Off => {}
    }
    output.truncate(before);
}
