//! The slow lane: a few threads that own no connection and run what would hold up a worker.
//!
//! A worker gives a command's arguments and its session away ([`Job`]) and parks the connection; a
//! thread of the lane runs the command from its start, and sends reply and session back through the
//! worker's inbox.
//!
//! ```text
//! submit --> queue --> a thread: run --> answered
//!              ^                  |----> a key is busy, or the token: laid aside, without a thread
//!              '------------------'      whoever frees it, or is too slow to, puts it back
//! submit --> queue of operators --> a thread of its own
//! ```
//!
//! Invariants
//! 1. A lane thread is inside the gate while it runs a command, except for commands marked
//!    `OUTSIDE`, which close the gate themselves or only wait, and `OPERATOR`, which take nothing.
//! 2. Each job is answered exactly once, also when its command panics.
//! 3. At most so many jobs run at a time as the setting `slow_lane_threads` says, not counting
//!    those that have shown to be very long, or wait for one that is: for each of these a
//!    compensating thread runs, so that some endless scripts do not shut the lane.
//! 4. A job that has nothing yet, and needs a partition or the token while somebody else has it,
//!    lies aside and takes no thread. One that has met busy partitions many times takes the token
//!    and waits for them on its thread, so that it is not starved. One that waits in its midst with
//!    nothing in hand (KEYS) gives its thread up when there are no more and others need it.
//! 5. What waits for something that a script has had for longer than `busy-reply-threshold` is
//!    answered BUSY: aside ([`Lane::recheck`]) or on a thread (`LongWaitObserver::is_aborted`).
//! 6. A job whose client has left before it began does not begin (`presence`).
//! 7. Commands of operators (`OPERATOR`) wait for each other only.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use pantala_base::clock::{monotonic_us, unix_ms};
use pantala_commands::{CommandRef, Flags, Locking, OwnedArgs, Park, Server, Session};
use pantala_keyspace::{ALL_OR_NONE_TRIES, Awaited, Busy, Ticket};
use pantala_sync::gate::Role;

use crate::engine::Engine;
use crate::execute::{Turn, Verdict, report_panic};
use crate::limits::Limited;
use crate::mailbox::{Mailbox, Message};
use crate::presence::{self, Applicant, AtHand};
use crate::stats::tallies::ThreadTally;
use crate::waiting::{Blocked, ReplyTarget};

/// The most threads the lane can have.
pub const LANE_SLOTS: usize = 64;

/// A command on its way through the lane.
pub struct Job {
    /// The arguments.
    pub args: OwnedArgs,
    /// The row.
    pub found: CommandRef,
    /// The session at the time.
    pub session: Box<Session>,
    /// Where the answer goes.
    pub inbox: Arc<dyn Mailbox>,
    /// The connection.
    pub connection: u64,
    /// Which of its parkings.
    pub parking: u32,
    /// What it begins with.
    pub locking: Locking,
    /// How often it has met a busy partition.
    pub tries: u32,
    /// When it ends in vain, if it waits for keys: of one that has waited before.
    pub until_us: Option<u64>,
    /// Whose it is, and since when it waits.
    pub applicant: Applicant,
}

/// Jobs that wait for a thread, and the threads.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Those that never wait behind others.
    of_operators: VecDeque<Job>,
    /// Threads that run a job.
    active: usize,
    /// Those whose job is very long.
    compensating: usize,
    /// All threads; they live as long as the server.
    threads: usize,
    /// What `active` may be, without the compensating ones.
    most_active: usize,
}

impl Queue {
    fn may_start(&self) -> bool {
        self.active < self.most_active + self.compensating
    }
}

/// See the module.
#[derive(Default)]
pub struct Lane {
    queue: Mutex<Queue>,
    arrived: Condvar,
    operator_arrived: Condvar,
    aside: Mutex<Aside>,
}

/// A job that is very long: while this lives, another thread runs in its place.
pub struct CompensatingThread<'l>(&'l Lane);

impl Drop for CompensatingThread<'_> {
    fn drop(&mut self) {
        self.0.end_compensating();
    }
}

/// Threads of the lane that wait for a partition for long are compensated for, too.
pub struct Compensate(pub Weak<Engine>);

impl pantala_keyspace::LongWaitObserver for Compensate {
    fn wait_started(&self) {
        if let Some(engine) = self.0.upgrade() {
            engine.lane.begin_compensating(&engine);
        }
    }

    fn wait_ended(&self) {
        if let Some(engine) = self.0.upgrade() {
            engine.lane.end_compensating();
        }
    }

    fn is_aborted(&self, awaited: Awaited) -> bool {
        self.0.upgrade().is_some_and(|engine| {
            // Who waits for the gate has not begun; who waits for a partition may have.
            let is_in_vain = awaited == Awaited::Gate && presence::has_left(&engine);
            is_in_vain || engine.scripts.busy.error(awaited).is_some()
        })
    }

    fn is_crowded(&self) -> bool {
        self.0.upgrade().is_some_and(|engine| engine.lane.is_crowded())
    }
}

/// Jobs that wait for something somebody has, by a number each.
#[derive(Default)]
struct Aside {
    jobs: HashMap<u64, (Awaited, Job)>,
    count: u64,
}

/// Where the token or a partition calls a job that waits for it.
struct AsideWaiter(Arc<Engine>);

impl pantala_keyspace::Inbox for AsideWaiter {
    fn unpark(&self, job: u64, _parking: u32) {
        self.0.lane.take_back(job);
    }

    fn wake(&self) {}
}

impl Lane {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn aside(&self) -> MutexGuard<'_, Aside> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets how many jobs run at a time; once, at the start. The caller starts as many threads.
    pub fn open(&self, threads: usize) {
        let mut queue = self.queue();
        (queue.threads, queue.most_active) = (threads, threads);
    }

    /// The job of this thread is very long: another thread is to run in its place, and is started
    /// if there is none.
    pub fn compensate(&self, engine: &Engine) -> CompensatingThread<'_> {
        self.begin_compensating(engine);
        CompensatingThread(self)
    }

    fn end_compensating(&self) {
        self.queue().compensating -= 1;
    }

    fn begin_compensating(&self, engine: &Engine) {
        let mut queue = self.queue();
        queue.compensating += 1;
        if queue.threads < (queue.most_active + queue.compensating).min(LANE_SLOTS)
            && engine.start_lane_thread(queue.threads)
        {
            queue.threads += 1;
        }
        drop(queue);
        self.arrived.notify_one();
    }

    /// Puts a job in.
    pub fn submit(&self, job: Job) {
        if job.found.row.flags.has(Flags::OPERATOR) {
            self.queue().of_operators.push_back(job);
            self.operator_arrived.notify_one();
        } else {
            self.queue().jobs.push_back(job);
            self.arrived.notify_one();
        }
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        let aside = self.aside().jobs.len();
        let queue = self.queue();
        aside + queue.jobs.len() + queue.of_operators.len()
    }

    /// Whether jobs wait for a thread, and there can be no more threads.
    fn is_crowded(&self) -> bool {
        let queue = self.queue();
        !queue.jobs.is_empty() && queue.active >= LANE_SLOTS
    }

    /// How many run.
    pub fn running(&self) -> usize {
        self.queue().active
    }

    /// Keeps a job until somebody lets go of what it waits for, or is too slow.
    fn put_aside(&self, engine: &Engine, awaited: Awaited, job: Job) {
        let Some(myself) = engine.arc() else { return self.submit(job) };
        let mut aside = self.aside();
        aside.count += 1;
        let number = aside.count;
        aside.jobs.insert(number, (awaited, job));
        drop(aside);
        let inbox = Arc::new(AsideWaiter(myself));
        let ticket = Ticket::Connection { inbox, connection: number, parking: 0 };
        let is_parked = match awaited {
            Awaited::Partition(id) => engine.space.park(Busy(id), ticket).is_ok(),
            Awaited::Token => engine.space.park_at_token(ticket).is_ok(),
            Awaited::Gate => false,
        };
        // A script may have become too slow before the job was here to be told so.
        if !is_parked || engine.scripts.busy.error(awaited).is_some() {
            self.take_back(number);
        }
    }

    fn take_back(&self, number: u64) {
        let job = self.aside().jobs.remove(&number);
        if let Some((_, job)) = job {
            self.submit(job);
        }
    }

    /// A script has run for too long: the jobs that wait for what it has begin again, and are told.
    pub fn recheck(&self, engine: &Engine) {
        let busy = &engine.scripts.busy;
        let mut aside = self.aside();
        let in_vain = aside.jobs.extract_if(|_, (awaited, _)| busy.error(*awaited).is_some());
        let in_vain: Vec<Job> = in_vain.map(|(_, (_, job))| job).collect();
        drop(aside);
        in_vain.into_iter().for_each(|job| self.submit(job));
    }

    fn next(&self, engine: &Engine) -> Option<Job> {
        let mut queue = self.queue();
        loop {
            if engine.shutdown.is_final() {
                return None;
            }
            if queue.may_start()
                && let Some(job) = queue.jobs.pop_front()
            {
                queue.active += 1;
                return Some(job);
            }
            queue = self.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A thread's job has ended.
    fn ended(&self) {
        let mut queue = self.queue();
        queue.active -= 1;
        let has_more = queue.may_start() && !queue.jobs.is_empty();
        drop(queue);
        // This thread may have begun in place of another, which waits.
        if has_more {
            self.arrived.notify_one();
        }
    }

    /// The next job of an operator.
    fn next_of_operators(&self, engine: &Engine) -> Option<Job> {
        let mut queue = self.queue();
        loop {
            if engine.shutdown.is_final() {
                return None;
            }
            if let Some(job) = queue.of_operators.pop_front() {
                return Some(job);
            }
            queue = self.operator_arrived.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The next job, if one waits.
    pub fn try_next(&self) -> Option<Job> {
        let mut queue = self.queue();
        queue.of_operators.pop_front().or_else(|| queue.jobs.pop_front())
    }

    /// Wakes all threads, to see that the server stops.
    pub fn wake_all(&self) {
        let _queue = self.queue();
        self.arrived.notify_all();
        self.operator_arrived.notify_all();
    }
}

/// The life of a lane thread with its own slot of the gate.
/// `server` is what its commands see of what stands around the engine.
pub fn run(server: &dyn Server, slot: usize) {
    let engine = Engine::behind(server);
    let tally = engine.stats.tallies.join();
    pantala_base::os::yield_to_others();
    while let Some(job) = engine.lane.next(engine) {
        run_job(server, &tally, slot, job);
        engine.lane.ended();
    }
    pantala_memory::release_seat();
}

/// The life of the thread that runs operators' commands alone. It passes no gate.
pub fn run_operators(server: &dyn Server) {
    let engine = Engine::behind(server);
    let tally = engine.stats.tallies.join();
    while let Some(job) = engine.lane.next_of_operators(engine) {
        run_job(server, &tally, LANE_SLOTS, job);
    }
    pantala_memory::release_seat();
}

/// Runs one job and answers it.
pub fn run_job(server: &dyn Server, tally: &ThreadTally, slot: usize, mut job: Job) {
    let engine = Engine::behind(server);
    let mut reply = Vec::new();
    let at_hand = AtHand::new(&job.applicant);
    let ran = match job.applicant.has_left(engine) {
        true => Ok(Ran::CalledOff),
        false => catch_unwind(AssertUnwindSafe(|| {
            run_command(server, tally, slot, &mut job, &mut reply)
        })),
    };
    drop(at_hand);
    let (connection, parking) = (job.connection, job.parking);
    match ran {
        Ok(Ran::Blocked(blocked)) => {
            return job.inbox.post(Message::LaneBlocked { connection, parking, blocked });
        }
        Ok(Ran::Aside(awaited)) => return engine.lane.put_aside(engine, awaited, job),
        Ok(Ran::CalledOff) => job.session.closing = true,
        Ok(Ran::Answered) | Err(_) => {}
    }
    if ran.is_err() {
        reply.clear();
        report_panic(engine, tally, &job.session, Some(job.found), &mut reply);
        job.session.closing = true;
    }
    let session = job.session;
    job.inbox.post(Message::LaneDone { connection, parking, session, reply });
}

/// How far a job has come.
enum Ran {
    Answered,
    /// Its client left before it began.
    CalledOff,
    Blocked(Blocked),
    Aside(Awaited),
}

fn run_command(
    server: &dyn Server,
    tally: &ThreadTally,
    slot: usize,
    job: &mut Job,
    reply: &mut Vec<u8>,
) -> Ran {
    let Job { args, found, session, inbox, connection, parking, locking, tries, until_us, .. } =
        job;
    let place =
        ReplyTarget { inbox, connection: *connection, parking: *parking, until_us: *until_us };
    let (found, session) = (*found, &mut **session);
    let args = args.slices();
    let engine = Engine::behind(server);
    let settings = engine.settings.current();
    let limited = Limited::new(settings);
    let is_outside = found.row.flags.has(Flags::OUTSIDE.and(Flags::OPERATOR));
    let inside = (!is_outside).then(|| engine.space.gate().enter(Role::Lane, slot));
    let lane = pantala_commands::Lane::Slow;
    let turn = Turn {
        locking: *locking,
        is_starved: *tries >= ALL_OR_NONE_TRIES,
        ..Turn::new(server, tally, &limited, lane, (unix_ms(), monotonic_us()))
    };
    let awaited = match turn.run(session, found, &args, reply, &place) {
        Verdict::Finished => None,
        Verdict::Blocked(blocked) => return Ran::Blocked(blocked),
        Verdict::Parked(Park::Token(wanted)) => {
            *locking = wanted;
            Some(Awaited::Token)
        }
        Verdict::Parked(Park::Partition(Busy(id))) => {
            *tries = tries.saturating_add(1);
            Some(Awaited::Partition(id))
        }
        Verdict::Parked(Park::Aborted(awaited)) => Some(awaited),
        Verdict::Lane | Verdict::Parked(_) => {
            tracing::error!(command = found.row.name, "asks for the lane on the lane");
            None
        }
    };
    if let Some(awaited) = awaited {
        let Some(error) = engine.scripts.busy.error(awaited) else { return Ran::Aside(awaited) };
        turn.refuse(session, Some(found), error, reply);
    }
    if inside.is_some() {
        turn.shrink_tracked();
    }
    drop(inside);
    Ran::Answered
}
