//! What a running script asks of the server: `redis.call`, and whether it may go on.
//!
//! Invariants
//! 1. A command runs only with the partitions of its keys held; missing ones are taken first.
//! 2. A command that writes runs only where its changes can be undone, or once nothing can stop the
//!    script any more (its [`Attempt`] has ended).
//! 3. Effects that can still be undone are not published. With very many of them (`MOST_EFFECTS`) a
//!    script goes on only when nothing can stop it any more.

use std::sync::Arc;

use pantala_acl::Context;
use pantala_base::clock::monotonic_us;
use pantala_commands::{
    ClientError, CommandRef, Flags, Lane, Locking, Park, Session, error, key_positions,
};
use pantala_journal::Audience;
use pantala_keyspace::PinWait;
use pantala_keyspace::snapshot::SnapshotWait;
use pantala_keyspace::{Aborted, Busy, Key, Locked, PartitionId, UndoLimits, WaitTarget};
use pantala_protocol::Version;
use pantala_scripting::{Abort, LogLevel, ScriptHost};
use smallvec::SmallVec;

use super::running::{KillState, Kind, Running};
use crate::clients::mailbox::Message;
use crate::clients::monitors::Monitors;
use crate::condition::states::{PAUSED, RefusalAnswer, RefusalScope, States};
use crate::execute::attempt::Attempt;
use crate::execute::{CommandRequest, SlotBound, Turn, Verdict, asked, park_before};
use crate::lane::queue::CompensatingThread;

/// A script that runs for longer on a worker, in microseconds, is undone and moves to the lane.
pub(super) const WORKER_US: u64 = 2000;
/// A script that has run for this long is listed for SCRIPT KILL.
const LISTED_US: u64 = 1000;
/// A script that has run for this long is very long: a compensating thread runs in its place.
const VERY_LONG_US: u64 = 100_000;
/// The number of commands between two clock reads.
const COMMANDS_A_LOOK: u32 = 64;
/// The most that a script, or a transaction with one, may have changed and still be undone. Copying
/// a list of a thousand jobs (45 KB) takes some microseconds; on the lane a script that pushes and
/// trims costs twice as much (9 against 4 us of CPU), and only one at a time has the token.
pub(crate) const UNDO_LIMITS: UndoLimits = UndoLimits { keys: 32, bytes: 256 << 10 };

/// Why a script was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// SCRIPT KILL, FUNCTION KILL, or the server stops.
    Killed,
    /// A partition is busy.
    Busy(PartitionId),
    /// It is to begin again with these locks, on the lane.
    Locking(Locking),
    /// It takes too long for a worker, or is not known to be quick.
    Slow,
    /// Something that it waits for has been held by another script for too long.
    Aborted(WaitTarget),
    /// A snapshot has to write first what the script is about to change.
    Snapshot(SnapshotWait),
    /// A key that the script is about to change is pinned.
    Pin(PinWait),
}

/// What a script may do, by its flags and by the command that calls it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rights {
    /// It may write.
    pub writes: bool,
    /// It may allocate although memory is full.
    pub grows: bool,
}

/// One run of a script.
pub(super) struct Run<'s, 'r> {
    pub turn: Turn<'r>,
    pub locked: &'s mut Locked<'r>,
    pub session: Session,
    /// The client that runs the script.
    pub client: &'s Session,
    pub rights: Rights,
    /// The slots whose keys it may use, in a cluster.
    pub slots: SlotBound,
    /// While the attempt is open the script can be stopped, and what it changes is copied for undo;
    /// with the token it waits for keys that it names. Once it has ended, something was changed
    /// that cannot be put back: the script has the token, and runs to its end.
    pub attempt: &'s mut Attempt<'r>,
    pub reason: Option<Reason>,
    /// It has written.
    pub has_written: bool,
    pub began_us: u64,
    pub kind: Kind,
    pub name: &'s [u8],
    /// The command that runs it.
    pub command: &'s [&'s [u8]],
    pub listed: Option<Arc<Running>>,
    pub compensation: Option<CompensatingThread<'r>>,
    /// How many of its partitions were declared busy, and whether the token was.
    pub told_busy: Option<(usize, bool)>,
    pub commands: u32,
    /// The version of the users that its rights come from.
    pub users_version: u64,
    /// The user of its client was deleted since it began.
    pub is_orphan: bool,
    /// Its last command took so long that the clock is read before the next.
    pub was_long: bool,
}

const UNKNOWN: ClientError = ClientError::text("ERR Unknown command called from script");
const WRONG_ARITY: ClientError =
    ClientError::text("ERR Wrong number of args calling command from script");
const NOT_FROM_SCRIPT: ClientError =
    ClientError::text("ERR This Valkey command is not allowed from script");
const ORPHAN: ClientError =
    ClientError::text("ERR ACL failure in script: its user has been deleted");
const STALE: ClientError = ClientError::text("ERR Can not execute the command on a stale replica");
const READ_ONLY: ClientError =
    ClientError::text("ERR Write commands are not allowed from read-only scripts.");

impl Run<'_, '_> {
    fn stop<T>(&mut self, reason: Reason) -> Result<T, Abort> {
        self.reason = Some(reason);
        Err(Abort)
    }

    fn admit(&mut self, args: &[&[u8]]) -> Result<CommandRef, ClientError> {
        let found = self.turn.engine.registry.resolve(args).ok_or(UNKNOWN)?;
        self.attempt.counts(found);
        if found.row.flags.intersects(Flags::CONTAINER) && args.len() > 1 {
            return Err(error::unknown_subcommand(found.row.name, args[1]));
        }
        self.judge(found, args).inspect_err(|_| {
            self.turn.tally.commands[usize::from(found.number)].rejected.add(1);
        })?;
        Ok(found)
    }

    /// Whether a command may run.
    fn judge(&mut self, found: CommandRef, args: &[&[u8]]) -> Result<(), ClientError> {
        let flags = found.row.flags;
        if !found.row.accepts(args.len()) {
            return Err(WRONG_ARITY);
        }
        if flags.intersects(Flags::NOSCRIPT) && !self.may_debug(flags) {
            return Err(NOT_FROM_SCRIPT);
        }
        if self.turn.engine.acl.version() != self.users_version {
            self.look_at_users();
        }
        if self.is_orphan {
            return Err(ORPHAN);
        }
        if self.session.has_rules()
            && let Err(refused) =
                self.turn.engine.ask(&self.session, self.session.db, (found, args))
        {
            let error = refused.script_error(self.client);
            let runs = self.turn.engine.registry.resolve(self.command).unwrap_or(found).row;
            self.attempt.note_refusal(refused.told(self.client, Context::Script, runs));
            return Err(error);
        }
        if flags.intersects(Flags::WRITE.union(Flags::MAY_REPLICATE)) && !self.rights.writes {
            return Err(READ_ONLY);
        }
        // As in the reference, a script that has begun to write goes on to its end.
        let may_grow = self.rights.grows || self.has_written;
        let states = self.turn.states.difference(PAUSED);
        let states = if may_grow { states.difference(States::FULL) } else { states };
        self.turn.judge_call(self.client, (found, args), &mut self.slots)?;
        match states.refusal(RefusalScope::one(flags)) {
            Some(RefusalAnswer::Error(told)) if *told == error::PRIMARY_LOST => return Err(STALE),
            Some(RefusalAnswer::Error(error)) => return Err(error.clone()),
            Some(RefusalAnswer::Wait) | None => {}
        }
        Ok(())
    }

    /// Users have changed since it began: takes over the present rights of its client's user.
    #[cold]
    fn look_at_users(&mut self) {
        let now = self.turn.engine.acl.in_force();
        self.users_version = now.version;
        self.session.clone_login(self.client);
        self.is_orphan = !self.session.renew_login(&now);
    }

    /// Whether this is DEBUG, and DEBUG SET-DISABLE-DENY-SCRIPTS lets scripts call it.
    fn may_debug(&self, flags: Flags) -> bool {
        let is_debug = flags.intersects(Flags::ADMIN) && flags.intersects(Flags::WHOLE);
        is_debug && self.turn.engine.condition.switches.scripts_may_debug.is_on()
    }

    /// Takes the partitions of these keys.
    fn reach(&mut self, hashes: &[u64]) -> Result<(), Abort> {
        for &hash in hashes {
            if self.locked.reach(hash) {
                continue;
            }
            self.begin_waiting(Reason::Busy(PartitionId::of(hash)))?;
            if let Err(aborted) = self.locked.reach_waiting(hash) {
                self.give_up(aborted)?;
                self.locked.reach_at_last(hash);
            }
        }
        Ok(())
    }

    /// Takes the token, so that the script may wait; stops the script for this reason if it cannot.
    fn begin_waiting(&mut self, otherwise: Reason) -> Result<(), Abort> {
        if self.turn.lane == Lane::Worker {
            return self.stop(otherwise);
        }
        if !self.locked.try_take_token() {
            return self.stop(Reason::Locking(Locking::Incremental));
        }
        Ok(())
    }

    /// A script that runs for too long holds what this one waits for. Stops this script, if it can
    /// be undone, to answer BUSY; otherwise it waits on, and its own keys count as busy, too.
    fn give_up(&mut self, Aborted(awaited): Aborted) -> Result<(), Abort> {
        if self.attempt.is_open() {
            return self.stop(Reason::Aborted(awaited));
        }
        self.tell_busy();
        Ok(())
    }

    /// Makes the script's changes final: nothing can stop it from here on. Needs the token, and a
    /// thread that may wait: never a worker.
    fn end_undoing(&mut self, otherwise: Reason) -> Result<(), Abort> {
        if self.turn.lane == Lane::Worker {
            return self.stop(Reason::Slow);
        }
        if !self.locked.try_take_token() {
            return self.stop(otherwise);
        }
        self.attempt.end(self.locked);
        self.turn.tally = self.attempt.tally();
        Ok(())
    }

    fn reach_everything(&mut self) -> Result<(), Abort> {
        if !self.locked.holds_everything() {
            self.begin_waiting(Reason::Locking(Locking::Everything))?;
            if let Err(aborted) = self.locked.reach_everything() {
                self.give_up(aborted)?;
                PartitionId::all().for_each(|id| self.locked.reach_at_last(u64::from(id.0)));
            }
        }
        Ok(())
    }

    /// Before a command that may change these keys: makes sure that this can be undone, or that
    /// nothing can stop the script any more.
    fn prepare_write(&mut self, found: CommandRef, keys: &[Key<'_>]) -> Result<(), Abort> {
        if self.turn.writes_ask && self.attempt.is_open() {
            self.locked.set_scope(self.turn.scope(&self.session));
            let asked = asked(found.row);
            match park_before(self.locked, keys, asked, self.client.id) {
                Some(Park::Snapshot(wait)) => return self.stop(Reason::Snapshot(wait)),
                Some(Park::Pin(wait)) => return self.stop(Reason::Pin(wait)),
                _ => {}
            }
        }
        self.has_written = true;
        if self.listed.as_ref().is_some_and(|listed| !listed.fate.write()) {
            return self.stop(Reason::Killed);
        }
        if !self.attempt.is_open() {
            return Ok(());
        }
        self.locked.set_scope(self.turn.scope(&self.session));
        let is_elsewhere = found.row.flags.intersects(Flags::WHOLE.union(Flags::OTHER_DB));
        if is_elsewhere || !self.locked.can_undo(keys, UNDO_LIMITS) {
            return self.end_undoing(Reason::Locking(Locking::Incremental));
        }
        Ok(())
    }

    /// Runs a command whose partitions are held.
    fn run_held(&mut self, request: CommandRequest<'_>, reply: &mut Vec<u8>) -> Result<(), Abort> {
        let is_steady = request.found.row.flags.intersects(Flags::FAST.union(Flags::STEADY));
        let began_us = (self.turn.is_timed || !is_steady).then(monotonic_us);
        let verdict = self.turn.run_locked(&mut self.session, request, self.locked, reply);
        match verdict {
            Verdict::Finished => {}
            Verdict::Lane if self.attempt.is_open() && self.turn.lane == Lane::Worker => {
                return self.stop(Reason::Slow);
            }
            Verdict::Lane => {
                // It is on the lane, or it is too late to move there.
                let here = Turn { lane: Lane::Slow, ..self.turn };
                here.run_locked(&mut self.session, request, self.locked, reply);
            }
            Verdict::Parked(Park::Partition(Busy(id))) if !self.locked.has_token() => {
                return self.stop(Reason::Busy(id));
            }
            Verdict::Parked(_) | Verdict::Blocked(_) => {
                self.refuse(&NOT_FROM_SCRIPT, self.session.version, reply);
                return Ok(());
            }
        }
        self.measure(request, began_us, reply.len());
        Ok(())
    }

    /// Counts the time of a command that has run. Only commands that may take long are timed, as in
    /// a worker's groups: the others are too quick for the clock.
    fn measure(&mut self, request: CommandRequest<'_>, began_us: Option<u64>, reply_bytes: usize) {
        self.session.inner_commands += 1;
        let CommandRequest { found, args, .. } = request;
        let engine = self.turn.engine;
        let took_us = began_us.map(|began_us| monotonic_us() - began_us);
        match took_us {
            Some(took_us) => {
                self.turn.count_time(found, took_us * 1000);
                engine.stats.latency_monitor.note(found.row, took_us);
                self.was_long |= took_us > LISTED_US;
            }
            None => self.turn.count_quick(found),
        }
        self.attempt.note_inside(self.client, (found, args), took_us, reply_bytes);
    }

    fn refuse(&mut self, error: &ClientError, version: Version, reply: &mut Vec<u8>) {
        self.session.version = version;
        self.turn.reply_error(&self.session, &[], error, reply);
    }

    /// Lists the script among those that take long.
    fn list(&mut self) -> Arc<Running> {
        let running = Arc::new(Running {
            kind: self.kind,
            name: self.name.to_vec(),
            command: self.command.iter().map(|arg| arg.to_vec()).collect(),
            since_us: self.began_us,
            fate: KillState::new(self.has_written),
        });
        self.turn.engine.scripts.running.enter(Arc::clone(&running));
        self.listed = Some(Arc::clone(&running));
        running
    }

    /// Declares what it holds as busy: commands that wait for it are answered BUSY from now on.
    fn tell_busy(&mut self) {
        let engine = self.turn.engine;
        let (held, has_token) = (self.locked.partitions(), self.locked.has_token());
        let now = Some((held.len(), has_token));
        if self.told_busy == now {
            return;
        }
        if self.told_busy.is_none() {
            engine.scripts.busy.enter(self.kind);
            self.log_slow();
        }
        self.told_busy = now;
        engine.scripts.busy.holds(held, has_token, self.kind);
        engine.recheck_lane();
        engine.workers.post_all(&|| Message::ScriptIsBusy);
    }

    /// In the words of Redis and Valkey, which people and tools look for.
    fn log_slow(&self) {
        let took_ms = monotonic_us().saturating_sub(self.began_us) / 1000;
        let killer = match self.kind {
            Kind::Script => "SCRIPT KILL",
            Kind::Function => "FUNCTION KILL",
        };
        let name = String::from_utf8_lossy(self.name);
        tracing::warn!(
            "Slow script detected: still in execution after {took_ms} milliseconds. You can try \
             killing the script using the {killer} command. Script name is: {name}."
        );
    }

    fn look_at_clock(&mut self) -> Result<(), Abort> {
        let took_us = monotonic_us().saturating_sub(self.began_us);
        if self.turn.lane == Lane::Worker && self.attempt.is_open() && took_us > WORKER_US {
            return self.stop(Reason::Slow);
        }
        if took_us < LISTED_US {
            return Ok(());
        }
        let listed = match &self.listed {
            Some(listed) => Arc::clone(listed),
            None => self.list(),
        };
        if took_us > VERY_LONG_US && self.compensation.is_none() && self.turn.lane == Lane::Slow {
            self.compensation = Some(self.turn.engine.lane.compensate());
        }
        let busy_after_ms = self.turn.limited.settings.busy_reply_threshold_ms;
        if busy_after_ms > 0 && took_us / 1000 >= busy_after_ms {
            self.tell_busy();
            self.session.time_goes_on = true;
        }
        // SHUTDOWN NOSAVE is the last way out. A script that has changed nothing yet does not hold
        // up a server that saves before it stops, either.
        let shutdown = &self.turn.engine.condition.shutdown;
        let is_over = shutdown.is_final() || (shutdown.is_preparing() && !self.has_written);
        if listed.fate.is_killed() || is_over {
            return self.stop(Reason::Killed);
        }
        Ok(())
    }
}

impl ScriptHost for Run<'_, '_> {
    fn call(&mut self, args: &[&[u8]], version: Version, reply: &mut Vec<u8>) -> Result<(), Abort> {
        self.commands += 1;
        if self.was_long || self.commands.is_multiple_of(COMMANDS_A_LOOK) {
            self.was_long = false;
            self.look_at_clock()?;
        }
        if self.attempt.is_open() && self.locked.has_many_effects() {
            self.end_undoing(Reason::Locking(Locking::Incremental))?;
        }
        let found = match self.admit(args) {
            Ok(found) => found,
            Err(error) => {
                self.refuse(&error, version, reply);
                return Ok(());
            }
        };
        let flags = found.row.flags;
        let positions = key_positions(found.row, args).unwrap_or_default();
        let hashes = self.turn.hashes(args, &positions);
        if flags.intersects(Flags::WHOLE) {
            self.reach_everything()?;
        } else {
            self.reach(&hashes)?;
        }
        if flags.intersects(Flags::WRITE) {
            let keys: SmallVec<[Key<'_>; 4]> = positions
                .iter()
                .zip(&hashes)
                .map(|(&position, &hash)| Key { bytes: args[position], hash })
                .collect();
            self.prepare_write(found, &keys)?;
        }
        self.session.version = version;
        self.locked.set_scope(self.turn.scope(&self.session));
        let request = CommandRequest { found, args, hashes: &hashes, frame: &[] };
        self.run_held(request, reply)?;
        if self.turn.is_monitored
            && let Some(line) = Monitors::line_from_script(&self.session, found, args)
        {
            self.attempt.log.show(line);
        }
        Ok(())
    }

    fn may_run(&mut self, args: &[&[u8]]) -> Result<bool, Vec<u8>> {
        match self.turn.engine.registry.resolve(args) {
            Some(found) if args.len() == 1 || !found.row.flags.intersects(Flags::CONTAINER) => {
                Ok(self.turn.engine.ask(&self.session, self.session.db, (found, args)).is_ok())
            }
            _ => Err(b"ERR Invalid command passed to server.acl_check_cmd()".to_vec()),
        }
    }

    fn log(&mut self, level: LogLevel, message: &[u8]) {
        self.attempt.log.add(level, message);
    }

    fn tell(&mut self, files: bool, replicas: bool) {
        if let Some(recorder) = self.turn.recorder {
            recorder.tell(match (files, replicas) {
                (true, true) => Some(Audience::All),
                (true, false) => Some(Audience::Files),
                (false, true) => Some(Audience::Replicas),
                (false, false) => None,
            });
        }
    }

    fn tick(&mut self, _instructions: u64) -> Result<(), Abort> {
        self.look_at_clock()
    }
}

impl Drop for Run<'_, '_> {
    fn drop(&mut self) {
        self.tell(true, true);
        if let Some(listed) = self.listed.take() {
            self.turn.engine.scripts.running.leave(&listed);
        }
        if let Some((_, has_token)) = self.told_busy {
            self.turn.engine.scripts.busy.leave(self.locked.partitions(), has_token, self.kind);
        }
    }
}

/// The session of a script's commands: in the client's database, and otherwise its own.
pub(super) fn session_for(client: &Session) -> Session {
    let mut session = Session::new(client.id);
    session.is_script = true;
    session.db = client.db;
    // WAIT in a script concerns what its client has written before.
    session.last_step = client.last_step;
    session.no_touch = client.no_touch;
    session.is_import_source = client.is_import_source;
    // It acts as its client's user.
    if client.has_rules() {
        session.clone_login(client);
    }
    // What a script reads, its client has read.
    session.tracking = client.tracking.clone();
    session
}
