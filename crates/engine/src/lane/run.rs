//! The threads of the lane: each runs one job after the other.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use pantala_base::clock::{monotonic_us, unix_ms};
use pantala_base::rests::Rests;
use pantala_commands::{AsyncRequest, CommandRef, Flags, Park, ResumeGuard, Server, Session};
use pantala_journal::Recorder;
use pantala_keyspace::{ALL_OR_NONE_TRIES, Busy, Ticket, WaitTarget};
use pantala_protocol::Reply;
use pantala_sync::gate::Role;

use super::queue::{DeferReason, Job, LANE_SLOTS, Task};
use crate::clients::mailbox::Message;
use crate::clients::presence::{self, RunningMark};
use crate::condition::states::States;
use crate::engine::Engine;
use crate::engine::limits::Limited;
use crate::engine::slots_cell::WritePermit;
use crate::execute::{Turn, Verdict, report_panic};
use crate::stats::tallies::ThreadTally;
use crate::waiting::{BlockedCommand, ReplyTarget};

thread_local! {
    static RESTS: RefCell<Rests> = RefCell::default();
}

/// Starts compensating threads for lane threads that wait for a partition for long.
pub struct Compensate(pub Weak<Engine>);

impl pantala_keyspace::LongWaitObserver for Compensate {
    fn wait_started(&self) {
        if let Some(engine) = self.0.upgrade() {
            engine.lane.begin_compensating();
        }
    }

    fn wait_ended(&self) {
        if let Some(engine) = self.0.upgrade() {
            engine.lane.end_compensating();
        }
    }

    fn is_aborted(&self, awaited: WaitTarget) -> bool {
        self.0.upgrade().is_some_and(|engine| {
            // A job that waits for the gate has not begun; one that waits for a partition may have.
            let is_in_vain =
                awaited == WaitTarget::Gate && presence::has_left(&engine.scripts.running);
            is_in_vain || engine.scripts.busy.error(awaited).is_some()
        })
    }

    fn is_between_steps(&self) {
        RESTS.with_borrow_mut(Rests::when_due);
    }

    fn is_crowded(&self) -> bool {
        self.0.upgrade().is_some_and(|engine| engine.lane.is_crowded())
    }
}

/// Requeues a job that was set aside, when what it waits for is freed.
struct DeferredWaiter(Arc<Engine>);

impl pantala_keyspace::Inbox for DeferredWaiter {
    fn unpark(&self, job: u64, _parking: u32) {
        self.0.lane.take_back(job);
    }

    fn wake(&self) {}
}

impl Engine {
    /// Sets a job aside until what it waits for is freed, or is held for too long.
    fn put_aside(&self, awaited: WaitTarget, job: Job) {
        let Some(myself) = self.arc() else { return self.lane.submit(job) };
        let number = self.lane.lay_aside(DeferReason::Awaits(awaited), job);
        let inbox = Arc::new(DeferredWaiter(myself));
        let ticket = Ticket::Connection { inbox, connection: number, parking: 0 };
        let is_parked = match awaited {
            WaitTarget::Partition(id) => self.space.park(Busy(id), ticket).is_ok(),
            WaitTarget::Token => self.space.park_at_token(ticket).is_ok(),
            WaitTarget::Snapshot(wait) => self.space.park_for_snapshot(wait, ticket).is_ok(),
            WaitTarget::Pin(wait) => self.space.park_at_pin(wait, ticket).is_ok(),
            WaitTarget::Gate => false,
        };
        // A script may have become too slow just before the job was set aside.
        if !is_parked || self.scripts.busy.error(awaited).is_some() {
            self.lane.take_back(number);
        }
    }

    /// Begins a job's errand; the job runs again when the errand has ended.
    fn send_out(&self, mut job: Job) {
        let (Some(myself), Some(errand)) = (self.arc(), job.session.errand.clone()) else {
            return self.lane.submit(job);
        };
        job.has_begun = true;
        let presence = Arc::clone(&job.applicant.presence);
        let number = self.lane.lay_aside(DeferReason::Errand, job);
        let of_end = Arc::clone(&myself);
        let is_unwanted = move || presence.has_gone() || myself.condition.shutdown.is_final();
        errand.begin(ResumeGuard::new(move || of_end.lane.take_back(number), is_unwanted));
    }

    /// Begins the errand that a transaction has left behind; the transaction is answered when it
    /// has ended.
    fn conclude(&self, errand: Arc<dyn AsyncRequest>, mut job: Job) {
        job.session.errand = Some(errand);
        self.send_out(job);
    }

    /// Sets a job aside while writes are held back.
    fn hold_back(&self, job: Job) {
        let number = self.lane.lay_aside(DeferReason::Pause, job);
        if !self.holds_writes_back() {
            self.lane.take_back(number);
        }
    }

    /// Whether writes are held back, by the states that workers see when a turn begins.
    fn holds_writes_back(&self) -> bool {
        self.condition.lasting.now().intersects(States::PAUSED_WRITES)
    }

    /// Ends the holding back of writes on the lane. The caller tells the workers.
    pub fn resume_writes(&self) {
        self.condition.lasting.end(States::PAUSED_WRITES);
        self.lane.take_back_if(|why| why == DeferReason::Pause);
    }

    /// Requeues the jobs that wait for something a script has held for too long: they are answered
    /// BUSY.
    pub fn recheck_lane(&self) {
        let busy = &self.scripts.busy;
        let is_busy = |awaited| busy.error(awaited).is_some();
        self.lane
            .take_back_if(|why| matches!(why, DeferReason::Awaits(awaited) if is_busy(awaited)));
        self.lane.wake_operators();
    }
}

/// The main loop of a lane thread with its own slot of the gate. `server` is the server as its
/// commands see it.
pub fn run(server: &dyn Server, slot: usize) {
    let engine = Engine::of_server(server);
    let (tally, recorder) = (engine.stats.tallies.join(), engine.journal.join());
    pantala_base::os::yield_to_others();
    while let Some(job) = engine.lane.next(|| engine.condition.shutdown.is_final()) {
        run_job(server, (&tally, &recorder), slot, job);
        engine.lane.ended();
    }
    pantala_memory::release_seat();
}

/// The main loop of the thread that runs operators' commands. It does not pass the gate.
pub fn run_operators(server: &dyn Server) {
    let engine = Engine::of_server(server);
    let (tally, recorder) = (engine.stats.tallies.join(), engine.journal.join());
    let thread = (&*tally, &recorder);
    let is_over = || engine.condition.shutdown.is_final();
    while let Some(task) = engine.lane.next_of_operators(is_over, || engine.scripts.busy.count()) {
        match task {
            Task::Run(job) => run_job(server, thread, LANE_SLOTS, job),
            Task::Refuse(job) => refuse_job(server, thread, job),
        }
    }
    pantala_memory::release_seat();
}

/// Answers BUSY to a job that no thread could take.
fn refuse_job(server: &dyn Server, thread: (&ThreadTally, &Recorder), mut job: Job) {
    let engine = Engine::of_server(server);
    // All these scripts are inside the gate. By now a thread may be free.
    let Some(error) = engine.scripts.busy.error(WaitTarget::Gate) else {
        return engine.lane.submit(job);
    };
    let limited = Limited::of(engine);
    let lane = pantala_commands::Lane::Slow;
    let turn = Turn::new(server, thread, &limited, lane, (unix_ms(), monotonic_us()));
    let mut reply = Vec::new();
    let concerned = (Some(job.found), &*job.args.slices());
    turn.refuse(&mut job.session, concerned, error, &mut reply);
    let Job { session, inbox, connection, parking, permit, .. } = job;
    inbox.post(Message::LaneDone { connection, parking, session, reply, permit });
}

/// Runs one job and answers it, on a thread with these counters and this recorder.
pub fn run_job(server: &dyn Server, thread: (&ThreadTally, &Recorder), slot: usize, mut job: Job) {
    let engine = Engine::of_server(server);
    if let Some(answer) = job.answer.take() {
        return answer_concluded(job, answer);
    }
    let mut reply = Vec::new();
    let at_hand = (!job.has_begun).then(|| RunningMark::new(&job.applicant));
    let has_gone = |job: &mut Job| {
        job.applicant.has_left(&engine.scripts.running) || !engine.renew(&mut job.session)
    };
    let ran = match !job.has_begun && has_gone(&mut job) {
        true => Ok(JobProgress::CalledOff),
        false => catch_unwind(AssertUnwindSafe(|| {
            run_command(server, thread, slot, &mut job, &mut reply)
        })),
    };
    drop(at_hand);
    let (connection, parking) = (job.connection, job.parking);
    match ran {
        Ok(JobProgress::Blocked(blocked)) => {
            return job.inbox.post(Message::LaneBlocked { connection, parking, blocked });
        }
        Ok(JobProgress::Aside(awaited)) => return engine.put_aside(awaited, job),
        Ok(JobProgress::Sent) => return engine.send_out(job),
        Ok(JobProgress::HeldBack) => return engine.hold_back(job),
        Ok(JobProgress::CalledOff) => job.session.closing = true,
        Ok(JobProgress::Answered) | Err(_) => {}
    }
    if ran.is_err() {
        thread.1.hand_over();
        reply.clear();
        let concerned = (Some(job.found), &*job.args.slices());
        report_panic(engine, thread.0, &job.session, concerned, &mut reply);
        job.session.closing = true;
    }
    if let Some(errand) = job.session.epilogue.take() {
        return engine.conclude(errand, Job { answer: Some(reply), ..job });
    }
    let (mut session, permit) = (job.session, job.permit);
    session.errand = None;
    job.inbox.post(Message::LaneDone { connection, parking, session, reply, permit });
}

/// Answers a transaction whose errand has ended, with success or in vain.
fn answer_concluded(job: Job, mut reply: Vec<u8>) {
    let Job { mut session, inbox, connection, parking, permit, .. } = job;
    let failure = session.errand.take().and_then(|errand| errand.failure());
    if let Some(error) = failure.filter(|_| !reply.is_empty()) {
        reply.clear();
        Reply::new(&mut reply, session.version).error(&*error.0);
    }
    inbox.post(Message::LaneDone { connection, parking, session, reply, permit });
}

/// The permission that a job needs which runs in this turn, and needed that one before. What
/// operators ask of the server itself needs none: CLUSTER commands end it.
fn permit_of(before: WritePermit, turn: &Turn<'_>, found: CommandRef) -> WritePermit {
    match found.row.flags.intersects(Flags::OPERATOR) {
        true => before,
        false => before.and(turn.permit),
    }
}

/// How far a job has come.
enum JobProgress {
    Answered,
    /// It is not to run: its client left before it began, or its user is gone.
    CalledOff,
    Blocked(BlockedCommand),
    Aside(WaitTarget),
    /// Its errand is under way.
    Sent,
    /// It would write while writes are held back.
    HeldBack,
}

fn run_command(
    server: &dyn Server,
    thread: (&ThreadTally, &Recorder),
    slot: usize,
    job: &mut Job,
    reply: &mut Vec<u8>,
) -> JobProgress {
    // An errand under way is finished, whatever has become of its user.
    let is_new = !job.has_begun;
    let Job { args, found, session, inbox, connection, parking, locking, tries, waited, .. } = job;
    let place = ReplyTarget { inbox, connection: *connection, parking: *parking, waited: *waited };
    let (found, session, args) = (*found, &mut **session, args.slices());
    let engine = Engine::of_server(server);
    let limited = Limited::of(engine);
    let is_outside = found.row.flags.intersects(Flags::OUTSIDE.union(Flags::OPERATOR));
    let inside = (!is_outside).then(|| engine.space.gate().enter(Role::Lane, slot));
    if engine.holds_writes_back() && may_write(found, session) {
        return JobProgress::HeldBack;
    }
    let now = (unix_ms(), monotonic_us());
    let turn = Turn::new(server, thread, &limited, pantala_commands::Lane::Slow, now);
    job.permit = permit_of(job.permit, &turn, found);
    let turn = turn.sampled(now.1).unwrap_or(turn);
    let turn = Turn { locking: *locking, is_starved: *tries >= ALL_OR_NONE_TRIES, ..turn };
    // Outside the gate the journal may be turned on at any moment: the recorder is always passed.
    let mut turn = if is_outside { Turn { recorder: Some(thread.1), ..turn } } else { turn };
    if !is_outside {
        turn.look_at_memory(false);
    }
    if is_new && turn.refuses(session, (found, &args), reply) {
        // Hands over the evictions that made room for it.
        thread.1.hand_over();
        return JobProgress::Answered;
    }
    let verdict = turn.run(session, found, &args, reply, &place);
    // Before the gate is left.
    thread.1.hand_over();
    let awaited = match verdict {
        Verdict::Finished => None,
        Verdict::Blocked(blocked) => return JobProgress::Blocked(blocked),
        Verdict::Parked(Park::Token(wanted)) => {
            *locking = wanted;
            Some(WaitTarget::Token)
        }
        Verdict::Parked(Park::Partition(Busy(id))) => {
            *tries = tries.saturating_add(1);
            Some(WaitTarget::Partition(id))
        }
        Verdict::Parked(Park::Aborted(awaited)) => Some(awaited),
        Verdict::Parked(Park::Snapshot(wait)) => Some(WaitTarget::Snapshot(wait)),
        Verdict::Parked(Park::Pin(wait)) => Some(WaitTarget::Pin(wait)),
        Verdict::Parked(Park::Errand) => return JobProgress::Sent,
        Verdict::Lane | Verdict::Parked(_) => {
            tracing::error!(command = found.row.name, "a job of the slow lane asks for it");
            None
        }
    };
    if let Some(awaited) = awaited {
        let Some(error) = engine.scripts.busy.error(awaited) else {
            return JobProgress::Aside(awaited);
        };
        turn.refuse(session, (Some(found), &args), error, reply);
    }
    if inside.is_some() {
        turn.shrink_tracked();
    }
    drop(inside);
    JobProgress::Answered
}

/// Whether a command may write; a script may always.
fn may_write(found: CommandRef, session: &Session) -> bool {
    const WRITES: Flags = Flags::WRITE.union(Flags::MAY_REPLICATE).union(Flags::SCRIPT);
    let flags = found.row.flags;
    match &session.multi {
        Some(queue) if flags.intersects(Flags::TRANSACTION) => queue.flags.intersects(WRITES),
        _ => flags.intersects(WRITES) && !flags.intersects(Flags::READONLY),
    }
}
