//! The slow lane: a few threads that own no connection and run what would hold up a worker.
//!
//! A worker gives a command's arguments and its session away ([`Job`]) and parks the connection; a
//! thread of the lane runs the command from its start, waiting for locks where it must, and sends
//! reply and session back through the worker's inbox.
//!
//! Invariants
//! 1. A lane thread is inside the gate while it runs a command, except for commands marked
//!    `OUTSIDE`, which close the gate themselves or only wait.
//! 2. Each job is answered exactly once, also when its command panics.
//! 3. At most so many jobs run at a time as the setting `slow_lane_threads` says, not counting
//!    those that have shown to be very long, or wait for one that is: for each of these a
//!    compensating thread runs, so that some endless scripts do not shut the lane.
//! 4. A job that needs the keyspace's token while somebody else has it waits for it and takes no
//!    thread: whoever frees the token puts it back into the queue.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use pantala_base::clock::{monotonic_us, unix_ms};
use pantala_commands::{CommandRef, Flags, Locking, OwnedArgs, Park, Session};
use pantala_keyspace::Ticket;
use pantala_sync::gate::Role;

use crate::execute::{Turn, Verdict, report_panic};
use crate::inbox::{Inbox, Message};
use crate::limits::Limited;
use crate::shared::Shared;
use crate::tallies::ThreadTally;
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
    pub inbox: Arc<Inbox>,
    /// The connection.
    pub connection: u64,
    /// Which of its parkings.
    pub parking: u32,
    /// What it begins with.
    pub locking: Locking,
}

/// Jobs that wait for a thread, and the threads.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
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
    for_token: Mutex<TokenQueue>,
}

/// A job that is very long: while this lives, another thread runs in its place.
pub struct CompensatingThread<'l>(&'l Lane);

impl Drop for CompensatingThread<'_> {
    fn drop(&mut self) {
        self.0.end_compensating();
    }
}

/// Threads of the lane that wait for a partition for long are compensated for, too.
pub struct Compensate(pub Weak<Shared>);

impl pantala_keyspace::LongWaitObserver for Compensate {
    fn wait_started(&self) {
        if let Some(shared) = self.0.upgrade() {
            shared.lane.begin_compensating(&shared);
        }
    }

    fn wait_ended(&self) {
        if let Some(shared) = self.0.upgrade() {
            shared.lane.end_compensating();
        }
    }

    fn is_aborted(&self) -> bool {
        self.0.upgrade().is_some_and(|shared| shared.scripts.busy.is_any())
    }
}

/// Jobs that wait for the token, by a number each.
#[derive(Default)]
struct TokenQueue {
    jobs: HashMap<u64, Job>,
    count: u64,
}

/// Where the token calls a job that waits.
struct TokenWaiter(Arc<Shared>);

impl pantala_keyspace::Inbox for TokenWaiter {
    fn unpark(&self, job: u64, _parking: u32) {
        self.0.lane.take_back(job);
    }

    fn wake(&self) {}
}

impl Lane {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets how many jobs run at a time; once, at the start. The caller starts as many threads.
    pub fn open(&self, threads: usize) {
        let mut queue = self.queue();
        (queue.threads, queue.most_active) = (threads, threads);
    }

    /// The job of this thread is very long: another thread is to run in its place, and is started
    /// if there is none.
    pub fn compensate(&self, shared: &Shared) -> CompensatingThread<'_> {
        self.begin_compensating(shared);
        CompensatingThread(self)
    }

    fn end_compensating(&self) {
        self.queue().compensating -= 1;
    }

    fn begin_compensating(&self, shared: &Shared) {
        let mut queue = self.queue();
        queue.compensating += 1;
        if queue.threads < (queue.most_active + queue.compensating).min(LANE_SLOTS)
            && let Some(shared) = shared.arc()
            && crate::start::open_lane_thread(&shared, queue.threads)
        {
            queue.threads += 1;
        }
        drop(queue);
        self.arrived.notify_one();
    }

    /// Puts a job in.
    pub fn submit(&self, job: Job) {
        self.queue().jobs.push_back(job);
        self.arrived.notify_one();
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        let for_token = self.for_token.lock().unwrap_or_else(PoisonError::into_inner).jobs.len();
        for_token + self.queue().jobs.len()
    }

    /// How many run.
    pub fn running(&self) -> usize {
        self.queue().active
    }

    /// Keeps a job until the token is free.
    fn put_in_token_queue(&self, shared: &Shared, job: Job) {
        let Some(myself) = shared.arc() else { return self.submit(job) };
        let mut for_token = self.for_token.lock().unwrap_or_else(PoisonError::into_inner);
        for_token.count += 1;
        let number = for_token.count;
        for_token.jobs.insert(number, job);
        drop(for_token);
        let inbox = Arc::new(TokenWaiter(myself));
        let ticket = Ticket::Connection { inbox, connection: number, parking: 0 };
        if shared.space.park_at_token(ticket).is_err() {
            self.take_back(number);
        }
    }

    fn take_back(&self, number: u64) {
        let mut for_token = self.for_token.lock().unwrap_or_else(PoisonError::into_inner);
        let job = for_token.jobs.remove(&number);
        drop(for_token);
        if let Some(job) = job {
            self.submit(job);
        }
    }

    fn next(&self, shared: &Shared) -> Option<Job> {
        let mut queue = self.queue();
        loop {
            if shared.shutdown.is_final() {
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

    /// The next job, if one waits.
    pub fn try_next(&self) -> Option<Job> {
        self.queue().jobs.pop_front()
    }

    /// Wakes all threads, to see that the server stops.
    pub fn wake_all(&self) {
        let _queue = self.queue();
        self.arrived.notify_all();
    }
}

/// The life of a lane thread with its own slot of the gate.
pub fn run(shared: &Shared, slot: usize) {
    let tally = shared.tallies.join();
    pantala_base::os::yield_to_others();
    while let Some(job) = shared.lane.next(shared) {
        run_job(shared, &tally, slot, job);
        shared.lane.ended();
    }
    pantala_memory::release_seat();
}

/// Runs one job and answers it.
pub fn run_job(shared: &Shared, tally: &ThreadTally, slot: usize, mut job: Job) {
    let mut reply = Vec::new();
    let ran =
        catch_unwind(AssertUnwindSafe(|| run_command(shared, tally, slot, &mut job, &mut reply)));
    let (connection, parking) = (job.connection, job.parking);
    match ran {
        Ok(Ran::Blocked(blocked)) => {
            return job.inbox.post(Message::LaneBlocked { connection, parking, blocked });
        }
        Ok(Ran::NeedsToken(locking)) => {
            job.locking = locking;
            return shared.lane.put_in_token_queue(shared, job);
        }
        Ok(Ran::Answered) | Err(_) => {}
    }
    if ran.is_err() {
        reply.clear();
        report_panic(shared, tally, &job.session, Some(job.found), &mut reply);
        job.session.closing = true;
    }
    let session = job.session;
    job.inbox.post(Message::LaneDone { connection, parking, session, reply });
}

/// How far a job has come.
enum Ran {
    Answered,
    Blocked(Blocked),
    NeedsToken(Locking),
}

fn run_command(
    shared: &Shared,
    tally: &ThreadTally,
    slot: usize,
    job: &mut Job,
    reply: &mut Vec<u8>,
) -> Ran {
    let Job { args, found, session, inbox, connection, parking, locking } = job;
    let place = ReplyTarget { inbox, connection: *connection, parking: *parking };
    let (found, session) = (*found, &mut **session);
    let args = args.slices();
    let settings = shared.settings.current();
    let limited = Limited::new(settings);
    let is_outside = found.row.flags.has(Flags::OUTSIDE);
    let inside = (!is_outside).then(|| shared.space.gate().enter(Role::Lane, slot));
    let turn = Turn {
        shared,
        tally,
        limited: &limited,
        lane: pantala_commands::Lane::Slow,
        now: unix_ms(),
        is_full: shared.memory.is_full(limited.settings.maxmemory),
        is_monitored: shared.monitors.is_used(),
        is_timed: limited.is_timed,
        paused: shared.pause.state(monotonic_us()),
        may_wait: true,
        locking: *locking,
    };
    loop {
        match turn.run(session, found, &args, reply, &place) {
            Verdict::Finished => break,
            Verdict::Blocked(blocked) => return Ran::Blocked(blocked),
            Verdict::Parked(Park::Token(locking)) => return Ran::NeedsToken(locking),
            // A walk met a busy partition: here one may wait for it.
            Verdict::Parked(Park::Partition(busy)) => {
                shared.space.wait_for(busy);
            }
            Verdict::Lane | Verdict::Parked(_) => {
                tracing::error!(command = found.row.name, "asks for the lane on the lane");
                break;
            }
        }
    }
    if inside.is_some() {
        turn.shrink_tracked();
    }
    drop(inside);
    Ran::Answered
}
