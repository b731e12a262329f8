//! Running steps of the stream within one turn: in groups of those with one key, or alone.
//!
//! Tests: compat/replication.

use std::sync::Arc;

use pantala_base::clock::monotonic_us;
use pantala_commands::{
    CommandRef, Databases, Flags, Locking, OwnedArgs, Park, Session, TransactionQueue,
    options::is_word,
};
use pantala_engine::Mailbox;
use pantala_engine::execute::{CommandRequest, FinishedCommand, Turn, Verdict};
use pantala_engine::waiting::ReplyTarget;
use pantala_keyspace::{DbIndex, Locked, PartitionId};
use pantala_psync::link::CutStep;
use pantala_settings::field::PropagationErrors;
use smallvec::SmallVec;

use super::batch::{Args, Batch, StepKind, args_of};
use super::share::{Share, Work};
use crate::Replication;

/// The most steps whose partitions are held together: as many as a worker's.
const GROUP: usize = 12;

/// How running a step has ended.
pub(super) enum StepOutcome {
    Done,
    /// It has done nothing: a partition that it needs is busy.
    Again(Locking),
}

/// What steps are run with.
pub(super) struct ApplyContext<'t> {
    pub replication: &'t Replication,
    pub turn: Turn<'t>,
    /// Each command is timed on its own.
    pub runs_alone: bool,
    /// The last clock reading.
    pub clock_us: u64,
    pub session: &'t mut Session,
    pub inbox: &'t Arc<dyn Mailbox>,
    pub output: &'t mut Vec<u8>,
    /// The primary has asked for an acknowledgement.
    pub asks: &'t mut bool,
}

/// Steps whose partitions are held together.
struct Group<'t> {
    locked: Locked<'t>,
    count: usize,
    /// The number of each step, and the index of its partition among those held.
    members: [(usize, usize); GROUP],
}

impl<'t> Group<'t> {
    /// Takes the partitions of the next steps and prefetches their keys, up to the first step that
    /// cannot join a group or whose partition is busy.
    fn fill(&mut self, mut work: Work<'_>) {
        while self.count < GROUP
            && let Some((number, look)) = work.peek()
            && look.kind == StepKind::Grouped
            && let Some(at) = self.locked.try_add(PartitionId::of(look.hash))
        {
            self.locked.prefetch_bucket(at, look.hash);
            self.members[self.count] = (number, at);
            self.count += 1;
            work.has_run(number);
        }
        for &(number, at) in &self.members[..self.count] {
            self.locked.prefetch_record(at, work.batch.looks[number].hash);
        }
    }
}

impl<'t> ApplyContext<'t> {
    /// Runs the next steps with their partitions held together; returns how many. The step after
    /// them runs alone.
    pub fn run_group(&mut self, work: &mut Work<'_>) -> usize {
        if self.runs_alone {
            return 0;
        }
        let scope = self.turn.scope(self.session);
        let locked = self.turn.engine.space.lock_none(scope);
        let mut group = Group { locked, count: 0, members: [(0, 0); GROUP] };
        group.fill(work.clone());
        let (mut done, mut slow) = (0, Vec::new());
        for &(number, at) in &group.members[..group.count] {
            group.locked.turn_to(at, scope);
            if !self.run_member(work.batch, number, &mut group.locked, &mut slow) {
                break;
            }
            work.has_run(number);
            done += 1;
            debug_assert!(done <= group.count, "they are in the group");
        }
        debug_assert!(group.count <= GROUP, "a group has room");
        let ran = group.members;
        drop(group);
        self.count_times(work.batch, &ran[..done]);
        for (number, took_us) in slow {
            self.log(work.batch, number, took_us);
        }
        done
    }

    /// Runs one step of a group; false: it has done nothing, and is to run alone.
    fn run_member(
        &mut self,
        batch: &Batch,
        number: usize,
        locked: &mut Locked<'t>,
        slow: &mut Vec<(usize, u64)>,
    ) -> bool {
        let look = &batch.looks[number];
        let (Some(found), args) = (look.found, batch.args(number)) else { return false };
        let request = CommandRequest { found, args: &args, hashes: &[look.hash], frame: &[] };
        self.output.clear();
        let verdict = self.turn.run_member(self.session, request, locked, self.output);
        if !matches!(verdict, Verdict::Finished) {
            self.session.errand = None;
            return false;
        }
        self.ran(&args);
        let limits = self.turn.limited;
        let bytes = args.iter().map(|arg| arg.len()).sum::<usize>();
        let is_large = bytes.max(self.output.len()) >= limits.large_bytes;
        if is_large || !is_steady(found) {
            let began_us = std::mem::replace(&mut self.clock_us, monotonic_us());
            let took_us = self.clock_us - began_us;
            if !is_steady(found) {
                self.turn.count_time(found, took_us * 1000);
            }
            if is_large || took_us >= limits.slow_us {
                slow.push((number, took_us));
            }
        }
        true
    }

    /// Spreads the time of a group over the steps that were not timed on their own.
    fn count_times(&mut self, batch: &Batch, members: &[(usize, usize)]) {
        let began_us = std::mem::replace(&mut self.clock_us, monotonic_us());
        let found = members.iter().filter_map(|(number, _)| batch.looks[*number].found);
        let steady: SmallVec<[CommandRef; GROUP]> = found.filter(|one| is_steady(*one)).collect();
        let share = (self.clock_us - began_us) * 1000 / steady.len().max(1) as u64;
        steady.iter().for_each(|found| self.turn.count_time(*found, share));
    }

    /// Logs one step of a group, when nothing is held.
    #[cold]
    fn log(&self, batch: &Batch, number: usize, took_us: u64) {
        let Some(found) = batch.looks[number].found else { return };
        let (args, reply_bytes) = (batch.args(number), 0);
        let ended = FinishedCommand { found, args: &args, took_us, reply_bytes };
        self.turn.engine.log_ended(self.session, ended);
    }

    /// Runs one step alone.
    pub fn run_step(&mut self, batch: &Batch, number: usize, share: Share) -> StepOutcome {
        let (look, step) = (&batch.looks[number], batch.step(number));
        if step.is_transaction() {
            return self.run_together(&step);
        }
        if let StepKind::Selects(db) = look.kind
            && share != Share::ALL
        {
            self.session.db = DbIndex(db);
            return StepOutcome::Done;
        }
        let args: Args<'_> = batch.args(number);
        match &*args {
            [] => StepOutcome::Done,
            [name] if is_word(name, "PING") => StepOutcome::Done,
            [name, what, ..] if is_word(name, "REPLCONF") => {
                *self.asks |= is_word(what, "GETACK");
                StepOutcome::Done
            }
            args => match self.known(look.found, args) {
                Some(found) => self.run(found, args),
                None => StepOutcome::Done,
            },
        }
    }

    /// The command, if a primary may send it; otherwise that is logged.
    fn known(&mut self, found: Option<CommandRef>, args: &[&[u8]]) -> Option<CommandRef> {
        match found {
            None => self.note_error(args, b"this server knows no such command"),
            Some(found) if !is_about_data(found) => {
                self.note_error(args, b"no command for a stream");
                return None;
            }
            Some(_) => {}
        }
        found
    }

    /// Runs a transaction; nothing of it runs if one of its commands is unknown, as in Redis.
    fn run_together(&mut self, step: &CutStep<'_>) -> StepOutcome {
        let registry = &self.turn.engine.registry;
        let mut queue = TransactionQueue::default();
        for args in step.commands() {
            let args = args_of(args);
            let found = registry.resolve_recorded(&args);
            let found = found.filter(|found| found.row.accepts(args.len()));
            let Some(found) = self.known(found, &args) else { return StepOutcome::Done };
            queue.push(found, OwnedArgs::of(&args), args.len());
        }
        if queue.commands.is_empty() {
            return StepOutcome::Done;
        }
        let Some(exec) = registry.resolve_recorded(&[b"EXEC"]) else { return StepOutcome::Done };
        self.session.multi = Some(Arc::new(queue));
        self.run(exec, &[b"EXEC"])
    }

    fn run(&mut self, found: CommandRef, args: &[&[u8]]) -> StepOutcome {
        let target = ReplyTarget { inbox: self.inbox, connection: 0, parking: 0, waited: None };
        self.output.clear();
        match self.turn.run(self.session, found, args, self.output, &target) {
            Verdict::Finished => {}
            Verdict::Parked(Park::Token(wanted)) => return StepOutcome::Again(wanted),
            Verdict::Lane | Verdict::Blocked(_) | Verdict::Parked(Park::Errand | Park::Keys(_)) => {
                self.session.errand = None;
                self.note_error(args, b"it would wait");
                return StepOutcome::Done;
            }
            Verdict::Parked(_) => return StepOutcome::Again(Locking::Upfront),
        }
        self.ran(args);
        self.clock_us = monotonic_us();
        StepOutcome::Done
    }

    /// After a command: discards its reply, unless it is an error, which is noted.
    #[inline]
    fn ran(&mut self, args: &[&[u8]]) {
        if self.output.first() == Some(&b'-') {
            let answer = std::mem::take(self.output);
            self.note_error(args, answer.trim_ascii_end());
            *self.output = answer;
        }
        // Whatever the length of its reply.
        (self.session.closing, self.session.multi) = (false, None);
    }

    #[cold]
    fn note_error(&mut self, args: &[&[u8]], why: &[u8]) {
        let replication = &self.replication;
        replication.durability.failures.note(args, why);
        self.turn.tally.unexpected_errors.add(1);
        let settings = &self.turn.limited.settings;
        let stops = settings.propagation_error_behavior != PropagationErrors::Ignore;
        replication.following.step_failed(stops && settings.replica_read_only);
    }
}

/// Whether it is always so quick that it is not timed on its own.
fn is_steady(found: CommandRef) -> bool {
    found.row.flags.intersects(Flags::FAST.union(Flags::STEADY))
}

/// Whether a primary may send this to a replica: commands that change data or are published to
/// others, and SELECT.
fn is_about_data(found: CommandRef) -> bool {
    // Redis before 7.0 replicates script calls as they are, preceded by these.
    if matches!(found.row.full_name().as_str(), "script|load" | "script|flush") {
        return true;
    }
    let flags = found.row.flags;
    let is_meant = flags.intersects(Flags::WRITE.union(Flags::MAY_REPLICATE).union(Flags::SCRIPT))
        || matches!(found.row.databases, Databases::Selects);
    is_meant && !flags.intersects(Flags::ADMIN)
}
