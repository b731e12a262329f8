//! The lane's queues: jobs, its threads and how many may run, and jobs set aside.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

use pantala_commands::{CommandRef, Flags, Locking, OwnedArgs, Session};
use pantala_keyspace::WaitTarget;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::clients::mailbox::Mailbox;
use crate::clients::presence::WaitingCommand;
use crate::engine::slots_cell::WritePermit;
use crate::waiting::WaitedState;

/// The most threads the lane can have.
pub const LANE_SLOTS: usize = 64;
/// The most threads that apply the stream of a primary.
pub const LINK_SLOTS: usize = 16;
/// Slots of the gate for long work: first those of the lane, then those of a replica's link.
pub const GATE_SLOTS: usize = LANE_SLOTS + LINK_SLOTS;

/// A command that is given to the lane.
pub struct Job {
    /// The arguments.
    pub args: OwnedArgs,
    /// The row.
    pub found: CommandRef,
    /// A copy of the session.
    pub session: Box<Session>,
    /// The mailbox of the connection's worker, for the answer.
    pub inbox: Arc<dyn Mailbox>,
    /// The connection, as its worker numbers it.
    pub connection: u64,
    /// The number of the connection's parking.
    pub parking: u32,
    /// The locks that it begins with.
    pub locking: Locking,
    /// How often it has met a busy partition.
    pub tries: u32,
    /// Set if it was blocked on keys before: its timeout and place in the queues.
    pub waited: Option<WaitedState>,
    /// Whose command it is, and since when it waits.
    pub applicant: WaitingCommand,
    /// It was on an errand: it runs to its end even if its client has left.
    pub has_begun: bool,
    /// The permission under which it has run so far.
    pub permit: WritePermit,
    /// It has run, and is answered with this when its errand has ended.
    pub answer: Option<Vec<u8>>,
}

/// The jobs that wait for a thread, and counts of the threads.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Jobs of operators, which never wait for the others.
    of_operators: VecDeque<Job>,
    /// Threads that run a job.
    active: usize,
    /// Of these, threads whose job is very long.
    compensating: usize,
    /// All threads. They live as long as the server.
    threads: usize,
    /// The limit of `active`, compensating threads not counted.
    most_active: usize,
}

impl Queue {
    fn may_start(&self) -> bool {
        self.active < self.most_active + self.compensating
    }

    /// Whether as many threads as there can be run a job.
    fn is_full(&self) -> bool {
        self.active >= LANE_SLOTS
    }
}

/// What the operators' thread is to do with a job.
pub(super) enum Task {
    Run(Job),
    /// No thread is left for it: scripts that run for too long have all of them.
    Refuse(Job),
}

/// Starts one more thread, for this slot of the gate; false if it could not.
pub type StartThread = Box<dyn Fn(usize) -> bool + Send + Sync>;

/// The slow lane: its queues of jobs, the jobs set aside, and how many threads may run.
#[derive(Default)]
pub struct Lane {
    queue: Mutex<Queue>,
    arrived: Condvar,
    operator_arrived: Condvar,
    aside: Mutex<DeferredJobs>,
    starter: OnceLock<StartThread>,
}

/// While this lives another thread runs in the place of a very long job's thread.
pub struct CompensatingThread<'l>(&'l Lane);

impl Drop for CompensatingThread<'_> {
    fn drop(&mut self) {
        self.0.end_compensating();
    }
}

/// Why a job is set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeferReason {
    /// Something that it needs is held by another.
    Awaits(WaitTarget),
    /// Its errand is under way.
    Errand,
    /// Writes are held back.
    Pause,
}

/// The jobs set aside, by a number each.
#[derive(Default)]
struct DeferredJobs {
    jobs: HashMap<u64, (DeferReason, Job)>,
    count: u64,
}

impl Lane {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    fn aside(&self) -> MutexGuard<'_, DeferredJobs> {
        self.aside.lock()
    }

    /// Sets what starts a further thread of the lane; once, at the start. Without it the lane gets
    /// none.
    pub fn set_thread_starter(&self, start: StartThread) {
        let _already = self.starter.set(start);
    }

    /// Sets how many jobs run at a time; once, at the start. The caller starts as many threads.
    pub fn open(&self, threads: usize) {
        let mut queue = self.queue();
        (queue.threads, queue.most_active) = (threads, threads);
    }

    /// Declares the job of this thread very long: another thread runs in its place, and is started
    /// if none is idle.
    pub fn compensate(&self) -> CompensatingThread<'_> {
        self.begin_compensating();
        CompensatingThread(self)
    }

    /// Ends one compensation.
    pub(super) fn end_compensating(&self) {
        self.queue().compensating -= 1;
    }

    /// Allows one more thread to run, in the place of one that waits for long.
    pub(super) fn begin_compensating(&self) {
        let mut queue = self.queue();
        queue.compensating += 1;
        if queue.threads < (queue.most_active + queue.compensating).min(LANE_SLOTS)
            && self.starter.get().is_some_and(|start| start(queue.threads))
        {
            queue.threads += 1;
        }
        drop(queue);
        self.arrived.notify_one();
    }

    /// Puts a job into the queue.
    pub fn submit(&self, job: Job) {
        if job.found.row.flags.intersects(Flags::OPERATOR) {
            self.queue().of_operators.push_back(job);
            self.operator_arrived.notify_one();
            return;
        }
        let mut queue = self.queue();
        queue.jobs.push_back(job);
        let is_full = queue.is_full();
        drop(queue);
        self.arrived.notify_one();
        if is_full {
            self.operator_arrived.notify_one();
        }
    }

    /// How many jobs wait, in the queues or set aside.
    pub fn waiting(&self) -> usize {
        let aside = self.aside().jobs.len();
        let queue = self.queue();
        aside + queue.jobs.len() + queue.of_operators.len()
    }

    /// Whether jobs wait for a thread, and no more threads can be started.
    pub(super) fn is_crowded(&self) -> bool {
        let queue = self.queue();
        !queue.jobs.is_empty() && queue.is_full()
    }

    /// How many threads run a job.
    pub fn running(&self) -> usize {
        self.queue().active
    }

    /// Sets a job aside; returns its number.
    pub(super) fn lay_aside(&self, why: DeferReason, job: Job) -> u64 {
        let mut aside = self.aside();
        aside.count += 1;
        let number = aside.count;
        aside.jobs.insert(number, (why, job));
        number
    }

    /// Requeues a job, if it is still set aside.
    pub(super) fn take_back(&self, number: u64) {
        let job = self.aside().jobs.remove(&number);
        if let Some((_, job)) = job {
            self.submit(job);
        }
    }

    /// Requeues the jobs that are set aside for such a reason.
    pub(super) fn take_back_if(&self, is_meant: impl Fn(DeferReason) -> bool) {
        let mut aside = self.aside();
        let meant = aside.jobs.extract_if(|_, (why, _)| is_meant(*why));
        let meant: Vec<Job> = meant.map(|(_, (_, job))| job).collect();
        drop(aside);
        meant.into_iter().for_each(|job| self.submit(job));
    }

    /// Takes the job of this connection's parking back, if no thread has begun it.
    pub fn withdraw(&self, inbox: &Arc<dyn Mailbox>, connection: u64, parking: u32) -> Option<Job> {
        let is_meant = |job: &Job| {
            job.connection == connection
                && job.parking == parking
                && std::ptr::addr_eq(Arc::as_ptr(&job.inbox), Arc::as_ptr(inbox))
        };
        let mut aside = self.aside();
        let number = aside.jobs.iter().find(|(_, (_, job))| is_meant(job)).map(|(&at, _)| at);
        if let Some((_, job)) = number.and_then(|number| aside.jobs.remove(&number)) {
            return Some(job);
        }
        drop(aside);
        let mut queue = self.queue();
        let at = queue.jobs.iter().position(is_meant)?;
        queue.jobs.remove(at)
    }

    /// Waits for the next job of a lane thread; `None` once `is_over`.
    pub(super) fn next(&self, is_over: impl Fn() -> bool) -> Option<Job> {
        let mut queue = self.queue();
        loop {
            if is_over() {
                return None;
            }
            if queue.may_start()
                && let Some(job) = queue.jobs.pop_front()
            {
                queue.active += 1;
                return Some(job);
            }
            self.arrived.wait(&mut queue);
        }
    }

    /// A thread has ended its job.
    pub(super) fn ended(&self) {
        let mut queue = self.queue();
        queue.active -= 1;
        let has_more = queue.may_start() && !queue.jobs.is_empty();
        drop(queue);
        // It may have compensated for another thread, which still waits.
        if has_more {
            self.arrived.notify_one();
        }
    }

    /// Waits for the next job of an operator, or for a job to refuse while too many scripts run for
    /// too long.
    pub(super) fn next_of_operators(
        &self,
        is_over: impl Fn() -> bool,
        busy_scripts: impl Fn() -> usize,
    ) -> Option<Task> {
        let mut queue = self.queue();
        loop {
            if is_over() {
                return None;
            }
            if let Some(job) = queue.of_operators.pop_front() {
                return Some(Task::Run(job));
            }
            if queue.is_full()
                && busy_scripts() >= LANE_SLOTS
                && let Some(job) = queue.jobs.pop_front()
            {
                return Some(Task::Refuse(job));
            }
            self.operator_arrived.wait(&mut queue);
        }
    }

    /// The next job, if one waits.
    pub fn try_next(&self) -> Option<Job> {
        let mut queue = self.queue();
        queue.of_operators.pop_front().or_else(|| queue.jobs.pop_front())
    }

    /// Wakes the operators' thread: waiting jobs may have to be refused.
    pub(super) fn wake_operators(&self) {
        let _queue = self.queue();
        self.operator_arrived.notify_one();
    }

    /// Wakes all threads, so that they see that the server stops.
    pub fn wake_all(&self) {
        let _queue = self.queue();
        self.arrived.notify_all();
        self.operator_arrived.notify_all();
    }
}
