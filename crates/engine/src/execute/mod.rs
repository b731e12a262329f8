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
//! | here | a turn, and one command of it that runs alone |
//! | `admit` | whether a command may run |
//! | `invoke` | the one place where a handler is called |
//! | `routing` | whether the keys of a command are at this node of a cluster |
//! | `saving` | whether a command waits for a snapshot or a pinned key first |
//! | `finish` | counts and logs after a command |
//! | `transaction` | EXEC: several commands at one moment |
//! | `attempt` | the traces of a transaction or script while it can be put back |
//!
//! Invariants
//! 1. A command that ends with an error, parks or moves to the lane leaves no byte of its reply in
//!    the output.
//! 2. Nothing here blocks on a worker; on the lane (`Lane::Slow`) it may.

pub mod admit;
pub(crate) mod attempt;
pub mod finish;
pub mod invoke;
pub(crate) mod routing;
mod saving;
pub mod transaction;

use pantala_base::UnixMs;
use pantala_base::clock::monotonic_us;
use pantala_cluster::SlotTable;
use pantala_commands::{
    CommandRef, Flags, Lane, Locking, Park, Server, Session, error, key_positions,
};
use pantala_journal::Recorder;
use pantala_keyspace::{DbIndex, LockPlan, Locked, Scope, VisitFailure, WaitTarget};
use smallvec::SmallVec;

use crate::clients::presence;
use crate::condition::states::States;
use crate::engine::Engine;
use crate::engine::limits::Limited;
use crate::engine::slots_cell::WritePermit;
use crate::stats::hot_keys::Plan;
use crate::stats::hot_keys::sample::KeySample;
use crate::stats::tallies::ThreadTally;
use crate::stats::telemetry::is_sampled;
use crate::waiting::{BlockedCommand, ReplyTarget};

/// How often a thread of the lane tries a partition that visitors share before it waits until it is
/// free.
const LANE_LOOKS: u32 = 1_000;

pub use crate::stats::telemetry::FinishedCommand;
pub use admit::{Refusal, keep_for_exec};
pub use finish::{report_panic, suppress_reply};
pub(crate) use routing::SlotBound;
pub(crate) use saving::{asked, park_before};

/// The hashes of one command's keys.
pub type Hashes = SmallVec<[u64; 8]>;

/// The context of one turn: what holds for all of its commands.
#[derive(Clone, Copy)]
pub struct Turn<'r> {
    /// The engine.
    pub engine: &'r Engine,
    /// The server around it, for commands about the server itself.
    pub server: &'r dyn Server,
    /// The counters of this thread.
    pub tally: &'r ThreadTally,
    /// The journal's recorder of this thread, if changes are recorded.
    pub recorder: Option<&'r Recorder>,
    /// The settings and limits.
    pub limited: &'r Limited,
    /// Whether this thread is a worker or of the slow lane.
    pub lane: Lane,
    /// The time (Unix, milliseconds).
    pub now: UnixMs,
    /// The server's states in which commands are refused.
    pub states: States,
    /// Some client uses MONITOR.
    pub is_monitored: bool,
    /// Every command is timed on its own.
    pub is_timed: bool,
    /// Its commands are kept for traces.
    pub is_traced: bool,
    /// What HOTKEYS tracks.
    pub hot_keys: Plan,
    /// Its commands are noted by key, as this sample.
    pub key_sample: Option<KeySample>,
    /// What this node of a cluster does with each slot; `None`: no cluster.
    pub slots: Option<&'r SlotTable>,
    /// The permission to write that this node has.
    pub permit: WritePermit,
    /// A snapshot runs or keys are pinned: commands that write ask first. See `saving`.
    pub writes_ask: bool,
    /// Whether commands may block on keys; not inside a transaction.
    pub may_wait: bool,
    /// The locks that a script begins with.
    pub locking: Locking,
    /// Its partitions were busy too many times: now it waits for them, with the token.
    pub is_starved: bool,
    /// Keys stay visible until another server says that they are gone: see `Scope::sees_expired`.
    pub sees_expired: bool,
}

/// A command to run.
#[derive(Clone, Copy)]
pub struct CommandRequest<'a> {
    /// The row.
    pub found: CommandRef,
    /// The arguments, the name first.
    pub args: &'a [&'a [u8]],
    /// The hashes of its keys.
    pub hashes: &'a [u64],
    /// The bytes that it was parsed from if they are at hand, to be recorded as they are; else
    /// empty.
    pub frame: &'a [u8],
}

/// How running a command has ended.
pub enum Verdict {
    /// It has run: its reply, if any, is written.
    Finished,
    /// It is to run on the slow lane.
    Lane,
    /// It is to run again later.
    Parked(Park),
    /// It is blocked, in the queues of its keys.
    Blocked(BlockedCommand),
}

impl<'r> Turn<'r> {
    /// A turn of a thread of `lane` with these counters, at these times (Unix in milliseconds,
    /// monotonic in microseconds). Changes are recorded with `recorder`, if there is a journal.
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
        let (permit, slots) = match &limited.slots {
            None => (WritePermit::Unfenced, None),
            Some(tables) => {
                let (permit, table) = tables.at(&engine.slots.fence, now_us);
                (permit, Some(table))
            }
        };
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
            key_sample: None,
            slots,
            permit,
            writes_ask: engine.space.writes_ask(),
            may_wait: true,
            locking: Locking::Upfront,
            is_starved: false,
            sees_expired: false,
        }
    }

    /// This turn for commands that begin at this time (monotonic, microseconds), if they are drawn
    /// for the sample of keys: each is timed on its own. Most are not drawn, which takes a
    /// multiplication and a comparison.
    #[inline]
    pub fn sampled(&self, now_us: u64) -> Option<Turn<'r>> {
        let key_sample = Some(self.limited.sampled_keys.take(now_us)?);
        Some(Turn { key_sample, is_timed: true, ..*self })
    }

    /// The scope of lookups before the session is known.
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

    /// The scope of lookups for this session.
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

    /// The hashes of the keys at these positions; most often one.
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
        if found.row.flags.intersects(Flags::TRANSACTION) {
            let began_us = self.is_traced.then(monotonic_us);
            let verdict = self.run_transaction(session, found, output);
            self.note_step(session);
            if let Some(began_us) = began_us {
                // Log and counts have its commands; the trace has the whole.
                let took_us = monotonic_us() - began_us;
                self.trace(session, FinishedCommand { found, args, took_us, reply_bytes: 0 });
            }
            if self.is_monitored {
                self.show(session, found, args, &verdict);
            }
            return verdict;
        }
        let positions = key_positions(found.row, args).unwrap_or_default();
        let hashes = self.hashes(args, &positions);
        let request = CommandRequest { found, args, hashes: &hashes, frame: &[] };
        let is_script = found.row.flags.intersects(Flags::SCRIPT);
        if self.states.intersects(States::FULL) && is_script && self.has_no_memory_for(request) {
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
            self.end_asking(session, found);
            let took_us = monotonic_us() - began_us;
            let reply_bytes = output.len().saturating_sub(before);
            self.finish(session, FinishedCommand { found, args, took_us, reply_bytes });
        }
        if self.is_monitored {
            self.show(session, found, args, &verdict);
        }
        verdict
    }

    /// Runs one command of a group, to whose partition `locked` was turned: it is a step of its
    /// own. Always inline: both callers are hot loops, of workers and of replicas.
    #[inline(always)]
    pub fn run_member(
        &self,
        session: &mut Session,
        request: CommandRequest<'_>,
        locked: &mut Locked<'r>,
        output: &mut Vec<u8>,
    ) -> Verdict {
        let verdict = self.run_locked(session, request, locked, output);
        let has_finished = matches!(verdict, Verdict::Finished);
        if locked.has_ready() {
            self.serve_ready(locked);
            locked.end_step();
        }
        locked.end_grouped_step();
        self.note_step(session);
        // Moving the verdict would wait for all stores so far, those of the journal among them.
        if has_finished { Verdict::Finished } else { verdict }
    }

    /// Notes in the session the journal step of its command, which has run; its partitions are
    /// free, or its step has ended.
    #[inline]
    pub fn note_step(&self, session: &mut Session) {
        if let Some(step) = self.recorder.and_then(Recorder::take_ended) {
            session.last_step = step;
        }
    }

    /// Takes the partitions of a plan: all or none. It waits for them only with the token.
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
        // The client may have left while this waited.
        if presence::has_left(&self.engine.scripts.running) {
            return Err(Park::Aborted(WaitTarget::Token));
        }
        Ok(())
    }

    /// Takes a plan's partitions after `lock` failed, if the busy one is open to visitors and the
    /// command names no barred key.
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
                Err(VisitFailure::Barred(busy)) => return Err(Park::Partition(busy)),
                Err(VisitFailure::Occupied(busy)) if self.lane == Lane::Worker => {
                    return Err(Park::Visit(busy));
                }
                // Most visitors stay for a moment only.
                Err(VisitFailure::Occupied(busy)) if looks == LANE_LOOKS => {
                    return Err(Park::Partition(busy));
                }
                Err(VisitFailure::Occupied(_)) => std::thread::yield_now(),
            }
            looks += 1;
        }
    }

    /// Locks what a command names and runs it; it may block on its keys.
    fn run_plain(
        &self,
        session: &mut Session,
        request: CommandRequest<'_>,
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
        if let Err(error) = self.find_keys(session, request.found, request.args, &mut locked) {
            drop(locked);
            self.refuse(session, (Some(request.found), request.args), &error, output);
            return Verdict::Finished;
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

impl Turn<'_> {
    /// ASKING holds for one command, or for a transaction up to its EXEC.
    #[inline]
    fn end_asking(&self, session: &mut Session, found: CommandRef) {
        if session.asks && session.multi.is_none() && found.row.name != "ASKING" {
            session.asks = false;
        }
    }
}

fn is_exec(found: CommandRef) -> bool {
    found.row.flags.intersects(Flags::TRANSACTION)
}
