//! Jobs, and the threads that are to run them: who may start, who lies aside.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use pantala_commands::{CommandRef, Flags, Locking, OwnedArgs, Session};
use pantala_keyspace::Awaited;

use crate::clients::mailbox::Mailbox;
use crate::clients::presence::Applicant;
use crate::waiting::Waited;

/// The most threads the lane can have.
pub const LANE_SLOTS: usize = 64;
/// So many threads at most apply what a primary has sent.
pub const LINK_SLOTS: usize = 16;
/// Slots of the gate for long work: those of the lane, and behind them those of a link.
pub const GATE_SLOTS: usize = LANE_SLOTS + LINK_SLOTS;

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
    /// Of one that has waited for keys before.
    pub waited: Option<Waited>,
    /// Whose it is, and since when it waits.
    pub applicant: Applicant,
    /// It has been on an errand: it runs to its end, whoever has left.
    pub has_begun: bool,
    /// It has run, and is answered with this when its errand is over.
    pub answer: Option<Vec<u8>>,
}

/// Jobs that wait for a thread, and the threads.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Those that never wait for others.
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

    /// Whether all threads that there can be run a job.
    fn is_full(&self) -> bool {
        self.active >= LANE_SLOTS
    }
}

/// What the thread of operators is to do with a job.
pub(super) enum Task {
    Run(Job),
    /// There is no thread for it: scripts have all of them that run for too long.
    Refuse(Job),
}

/// Starts one more thread, for this slot of the gate; whether it could.
pub type StartThread = Box<dyn Fn(usize) -> bool + Send + Sync>;

/// The slow lane: its queues of jobs, the jobs set aside, and how many threads may run.
#[derive(Default)]
pub struct Lane {
    queue: Mutex<Queue>,
    arrived: Condvar,
    operator_arrived: Condvar,
    aside: Mutex<Aside>,
    starter: OnceLock<StartThread>,
}

/// A job that is very long: while this lives, another thread runs in its place.
pub struct CompensatingThread<'l>(&'l Lane);

impl Drop for CompensatingThread<'_> {
    fn drop(&mut self) {
        self.0.end_compensating();
    }
}

/// Why a job lies aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aloof {
    /// Somebody else has what it needs.
    Awaits(Awaited),
    /// It is on an errand.
    Errand,
    /// Changes of data wait.
    Pause,
}

/// Jobs that wait for something somebody has, by a number each.
#[derive(Default)]
struct Aside {
    jobs: HashMap<u64, (Aloof, Job)>,
    count: u64,
}

impl Lane {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn aside(&self) -> MutexGuard<'_, Aside> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the lane gets one more thread; once, at the start. Without it gets none.
    pub fn set_thread_starter(&self, start: StartThread) {
        let _already = self.starter.set(start);
    }

    /// Sets how many jobs run at a time; once, at the start. The caller starts as many threads.
    pub fn open(&self, threads: usize) {
        let mut queue = self.queue();
        (queue.threads, queue.most_active) = (threads, threads);
    }

    /// The job of this thread is very long: another thread is to run in its place, and is started
    /// if there is none.
    pub fn compensate(&self) -> CompensatingThread<'_> {
        self.begin_compensating();
        CompensatingThread(self)
    }

    /// That is over.
    pub(super) fn end_compensating(&self) {
        self.queue().compensating -= 1;
    }

    /// From now on another thread may run in place of one that waits for long.
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

    /// Puts a job in.
    pub fn submit(&self, job: Job) {
        if job.found.row.flags.has(Flags::OPERATOR) {
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

    /// How many wait.
    pub fn waiting(&self) -> usize {
        let aside = self.aside().jobs.len();
        let queue = self.queue();
        aside + queue.jobs.len() + queue.of_operators.len()
    }

    /// Whether jobs wait for a thread, and there can be no more threads.
    pub(super) fn is_crowded(&self) -> bool {
        let queue = self.queue();
        !queue.jobs.is_empty() && queue.is_full()
    }

    /// How many run.
    pub fn running(&self) -> usize {
        self.queue().active
    }

    /// Keeps a job without a thread; its number.
    pub(super) fn lay_aside(&self, why: Aloof, job: Job) -> u64 {
        let mut aside = self.aside();
        aside.count += 1;
        let number = aside.count;
        aside.jobs.insert(number, (why, job));
        number
    }

    /// Puts a job back into the queue, if it still lies aside.
    pub(super) fn take_back(&self, number: u64) {
        let job = self.aside().jobs.remove(&number);
        if let Some((_, job)) = job {
            self.submit(job);
        }
    }

    /// Puts those jobs back into the queue that lie aside for such a reason.
    pub(super) fn take_back_if(&self, is_meant: impl Fn(Aloof) -> bool) {
        let mut aside = self.aside();
        let meant = aside.jobs.extract_if(|_, (why, _)| is_meant(*why));
        let meant: Vec<Job> = meant.map(|(_, (_, job))| job).collect();
        drop(aside);
        meant.into_iter().for_each(|job| self.submit(job));
    }

    /// Takes back the job of this connection's parking, if no thread has begun it.
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

    /// The next job for a thread of the lane, which waits for it; `None` when all is over.
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
            queue = self.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A thread's job has ended.
    pub(super) fn ended(&self) {
        let mut queue = self.queue();
        queue.active -= 1;
        let has_more = queue.may_start() && !queue.jobs.is_empty();
        drop(queue);
        // This thread may have begun in place of another, which waits.
        if has_more {
            self.arrived.notify_one();
        }
    }

    /// The next job of an operator, in the same way; or one that nobody can run while so many
    /// scripts run for too long.
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
            queue = self.operator_arrived.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The next job, if one waits.
    pub fn try_next(&self) -> Option<Job> {
        let mut queue = self.queue();
        queue.of_operators.pop_front().or_else(|| queue.jobs.pop_front())
    }

    /// Wakes the thread of operators: jobs that wait may have to be refused.
    pub(super) fn wake_operators(&self) {
        let _queue = self.queue();
        self.operator_arrived.notify_one();
    }

    /// Wakes all threads, to see that the server stops.
    pub fn wake_all(&self) {
        let _queue = self.queue();
        self.arrived.notify_all();
        self.operator_arrived.notify_all();
    }
}
