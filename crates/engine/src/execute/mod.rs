//! From a command to its reply: the same for workers and for the slow lane.
//!
//! ```text
//! admit   known? arity? password? in this state of the server? too long for a worker?
//! lock    all partitions of its keys, or none                                          (here)
//! invoke  the handler; its reply or its error
//! finish  counts, logs, MONITOR, CLIENT REPLY
//! ```
//!
//! | file | what |
//! |---|---|
//! | here | a turn, and one command of it that runs by itself |
//! | `admit` | whether it may run |
//! | `invoke` | the one place where a handler is called |
//! | `saving` | whether it waits for a snapshot first, or for a pinned key |
//! | `finish` | what follows |
//! | `transaction` | EXEC: several commands, all at one moment |
//! | `attempt` | what a transaction or script leaves while it can be put back |
//!
//! Invariants
//! 1. A command that ends with an error, parks or moves to the lane leaves no byte in the output.
//! 2. Nothing here blocks on a worker; `Lane::Slow` may.

pub mod admit;
pub(crate) mod attempt;
pub mod finish;
pub mod invoke;
mod saving;
pub mod transaction;

use pantala_base::UnixMs;
use pantala_base::clock::monotonic_us;
use pantala_commands::{
    CommandRef, Flags, Lane, Locking, Park, Server, Session, error, key_positions,
};
use pantala_journal::Recorder;
use pantala_keyspace::{Awaited, DbIndex, LockPlan, Locked, Missed, Scope};
use smallvec::SmallVec;

use crate::clients::presence;
use crate::condition::states::States;
use crate::engine::Engine;
use crate::engine::limits::Limited;
use crate::stats::hot_keys::Plan;
use crate::stats::tallies::ThreadTally;
use crate::stats::telemetry::is_sampled;
use crate::waiting::{Blocked, ReplyTarget};

/// How often a thread of the lane looks at a partition that visitors share, before it waits for its
/// end.
const LANE_LOOKS: u32 = 1_000;

pub use admit::{Refusal, keep_for_exec};
pub use finish::{Ended, report_panic, suppress_reply};
pub(crate) use saving::{asked, park_before};

/// Hashes of one command's keys.
pub type Hashes = SmallVec<[u64; 8]>;

/// What holds for all commands of one turn.
#[derive(Clone, Copy)]
pub struct Turn<'r> {
    /// What it runs on.
    pub engine: &'r Engine,
    /// What stands around that: for commands about the server itself.
    pub server: &'r dyn Server,
    /// The counters of this thread.
    pub tally: &'r ThreadTally,
    /// Where this thread records changes, if they are recorded.
    pub recorder: Option<&'r Recorder>,
    /// The settings.
    pub limited: &'r Limited,
    /// Where this is.
    pub lane: Lane,
    /// The time.
    pub now: UnixMs,
    /// States in which commands are refused.
    pub states: States,
    /// Somebody uses MONITOR.
    pub is_monitored: bool,
    /// Every command is timed by itself.
    pub is_timed: bool,
    /// Its commands are kept for traces.
    pub is_traced: bool,
    /// What HOTKEYS tracks, if anything.
    pub hot_keys: Plan,
    /// A snapshot runs, or keys are pinned: see `saving`.
    pub writes_ask: bool,
    /// Whether commands may wait for keys; not inside a transaction.
    pub may_wait: bool,
    /// What a script begins with.
    pub locking: Locking,
    /// Some partition was busy each time, many times: now it waits for them, with the token.
    pub is_starved: bool,
    /// Keys are there until somebody else says that they are gone: see `Scope::sees_expired`.
    pub sees_expired: bool,
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
    /// What holds from now on, for a thread of `lane` with these counters, at this moment (Unix,
    /// and monotonic in microseconds). It records there, if there is a journal.
    pub fn new(
        server: &'r dyn Server,
        (tally, recorder): (&'r ThreadTally, &'r Recorder),
        limited: &'r Limited,
        lane: Lane,
        (now, now_us): (UnixMs, u64),
    ) -> Self {
        let engine = Engine::of_server(server);
        let hot_keys = engine.stats.hot_keys.plan(now);
        let is_traced = is_sampled(limited.traced_turns, now_us);
        Turn {
            engine,
            server,
            tally,
            recorder: engine.journal.is_on().then_some(recorder),
            limited,
            lane,
            now,
            states: engine.states(limited.memory.most_bytes, now_us),
            is_monitored: engine.notices.monitors.is_used(),
            is_timed: limited.is_timed || hot_keys.is_on() || is_traced,
            is_traced,
            hot_keys,
            writes_ask: engine.space.writes_ask(),
            may_wait: true,
            locking: Locking::Upfront,
            is_starved: false,
            sees_expired: false,
        }
    }

    /// What lookups need before it is known whose they are.
    #[inline]
    pub fn plain_scope(&self) -> Scope<'r> {
        let (space, tally) = (&self.engine.space, &self.tally.keys);
        Scope {
            space,
            db: DbIndex(0),
            now: self.now,
            tally,
            touch: true,
            sees_expired: self.sees_expired,
            recorder: self.recorder,
        }
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
            sees_expired: self.sees_expired
                || session.is_import_source && self.limited.settings.import_mode,
            recorder: self.recorder,
        }
    }

    /// The hashes of the keys at these positions, most often one.
    #[inline]
    pub fn hashes(&self, args: &[&[u8]], positions: &[usize]) -> Hashes {
        let hash = |&position: &usize| self.engine.space.hash(args[position]);
        match positions {
            [position] => SmallVec::from_slice(&[hash(position)]),
            _ => positions.iter().map(hash).collect(),
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
            let began_us = self.is_traced.then(monotonic_us);
            let verdict = self.run_transaction(session, found, output);
            self.note_step(session);
            if let Some(began_us) = began_us {
                // The log and the counts have its commands; a trace shows the whole.
                let took_us = monotonic_us() - began_us;
                self.trace(session, Ended { found, args, took_us, reply_bytes: 0 });
            }
            if self.is_monitored {
                self.show(session, found, args, &verdict);
            }
            return verdict;
        }
        let positions = key_positions(found.row, args).unwrap_or_default();
        let hashes = self.hashes(args, &positions);
        let request = Request { found, args, hashes: &hashes };
        let is_script = found.row.flags.has(Flags::SCRIPT);
        if self.states.has(States::FULL) && is_script && self.has_no_memory_for(request) {
            self.refuse(session, (Some(found), args), &error::OUT_OF_MEMORY, output);
            return Verdict::Finished;
        }
        let (began_us, before) = (monotonic_us(), output.len());
        let verdict = if is_script {
            self.run_script(session, request, output, began_us)
        } else {
            self.run_plain(session, request, output, target)
        };
        self.note_step(session);
        if matches!(verdict, Verdict::Finished) {
            let took_us = monotonic_us() - began_us;
            let reply_bytes = output.len().saturating_sub(before);
            self.finish(session, Ended { found, args, took_us, reply_bytes });
        }
        if self.is_monitored {
            self.show(session, found, args, &verdict);
        }
        verdict
    }

    /// Runs one command of a group, for which `locked` was turned to its partition: a step of its
    /// own. Always inline: workers and replicas call it, and either loop pays for a call.
    #[inline(always)]
    pub fn run_member(
        &self,
        session: &mut Session,
        request: Request<'_>,
        locked: &mut Locked<'r>,
        output: &mut Vec<u8>,
    ) -> Verdict {
        let verdict = self.run_locked(session, request, locked, output);
        if locked.has_ready() {
            self.serve_ready(locked);
            locked.end_step();
        }
        locked.end_grouped_step();
        self.note_step(session);
        verdict
    }

    /// The session's command has run, and its partitions are free or its step has ended: which step
    /// that was.
    #[inline]
    pub fn note_step(&self, session: &mut Session) {
        if let Some(step) = self.recorder.and_then(Recorder::take_ended) {
            session.last_step = step;
        }
    }

    /// Takes the partitions of a plan: all or none. Only with the token it waits for them.
    pub fn lock(
        &self,
        plan: &LockPlan,
        locked: &mut Locked<'r>,
        locking: Locking,
    ) -> Result<(), Park> {
        if locking == Locking::Upfront && !self.is_starved {
            return locked.take(plan).map_err(Park::Partition);
        }
        let (space, scope) = (&self.engine.space, *locked.scope());
        let token = space.try_token().ok_or(Park::Token(locking))?;
        *locked = space.lock_incrementally(token, plan, scope)?;
        match locking {
            Locking::Upfront => locked.drop_token(),
            Locking::Incremental => {}
            Locking::Everything => locked.reach_everything()?,
        }
        // It may have waited.
        if presence::has_left(&self.engine.scripts.running) {
            return Err(Park::Aborted(Awaited::Token));
        }
        Ok(())
    }

    /// Takes the partitions of a plan that was not to be had, if what is busy is open to visitors
    /// and the command names nothing that is barred.
    #[cold]
    fn visit(
        &self,
        hashes: &[u64],
        plan: &LockPlan,
        locked: &mut Locked<'r>,
        park: Park,
    ) -> Result<(), Park> {
        let Park::Partition(busy) = park else { return Err(park) };
        if !self.engine.space.is_open(busy) {
            return Err(park);
        }
        let mut looks = 0;
        loop {
            match locked.visit(plan, hashes) {
                Ok(()) => return Ok(()),
                Err(Missed::Barred(busy)) => return Err(Park::Partition(busy)),
                Err(Missed::Occupied(busy)) if self.lane == Lane::Worker => {
                    return Err(Park::Visit(busy));
                }
                // Mostly for moments.
                Err(Missed::Occupied(busy)) if looks == LANE_LOOKS => {
                    return Err(Park::Partition(busy));
                }
                Err(Missed::Occupied(_)) => std::thread::yield_now(),
            }
            looks += 1;
        }
    }

    /// Locks what a command names and runs it; it may begin to wait for its keys.
    fn run_plain(
        &self,
        session: &mut Session,
        request: Request<'_>,
        output: &mut Vec<u8>,
        target: &ReplyTarget<'_>,
    ) -> Verdict {
        let plan = LockPlan::of_command(request.hashes);
        let mut locked = self.engine.space.lock_none(self.scope(session));
        if let Err(park) = self.lock(&plan, &mut locked, Locking::Upfront)
            && let Err(park) = self.visit(request.hashes, &plan, &mut locked, park)
        {
            return Verdict::Parked(park);
        }
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
}

fn is_exec(found: CommandRef) -> bool {
    found.row.flags.has(Flags::TRANSACTION)
}
