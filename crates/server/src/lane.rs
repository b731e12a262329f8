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

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use pantala_base::clock::{monotonic_us, unix_ms};
use pantala_commands::{ClientError, Flags, Found, Session};
use pantala_sync::gate::Role;

use crate::execute::{Turn, Verdict};
use crate::inbox::{Inbox, Message};
use crate::limits::Limited;
use crate::shared::Shared;
use crate::tallies::ThreadTally;

/// The most threads the lane can have.
pub const LANE_SEATS: usize = 64;

/// A command on its way through the lane.
pub struct Job {
    /// The arguments.
    pub args: Vec<Vec<u8>>,
    /// The row.
    pub found: Found,
    /// The session at the time.
    pub session: Box<Session>,
    /// Where the answer goes.
    pub inbox: Arc<Inbox>,
    /// The connection.
    pub connection: u64,
    /// Which of its parkings.
    pub parking: u32,
}

/// Jobs that wait for a thread.
#[derive(Default)]
pub struct Lane {
    queue: Mutex<VecDeque<Job>>,
    arrived: Condvar,
}

impl Lane {
    /// Puts a job in.
    pub fn submit(&self, job: Job) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(job);
        self.arrived.notify_one();
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn next(&self, shared: &Shared) -> Option<Job> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if shared.shutdown.is_final() {
                return None;
            }
            if let Some(job) = queue.pop_front() {
                return Some(job);
            }
            queue = self.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The next job, if one waits.
    pub fn try_next(&self) -> Option<Job> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Wakes all threads, to see that the server stops.
    pub fn wake_all(&self) {
        let _queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        self.arrived.notify_all();
    }
}

/// The life of a lane thread with its own seat at the gate.
pub fn run(shared: &Shared, seat: usize) {
    let tally = shared.tallies.join();
    while let Some(job) = shared.lane.next(shared) {
        run_job(shared, &tally, seat, job);
    }
    pantala_memory::release_seat();
}

/// Runs one job and answers it.
pub fn run_job(shared: &Shared, tally: &ThreadTally, seat: usize, mut job: Job) {
    let mut reply = Vec::new();
    let ran = catch_unwind(AssertUnwindSafe(|| {
        run_command(shared, tally, seat, &mut job, &mut reply);
    }));
    if ran.is_err() {
        tracing::error!("a command panicked on the slow lane; its connection is closed");
        tally.unexpected_errors.add(1);
        let error = ClientError::text("ERR internal error, see the log of the server");
        reply.clear();
        pantala_protocol::Reply::new(&mut reply, job.session.version).error(&*error.0);
        job.session.closing = true;
    }
    job.inbox.post(Message::LaneDone {
        connection: job.connection,
        parking: job.parking,
        session: job.session,
        reply,
    });
}

fn run_command(
    shared: &Shared,
    tally: &ThreadTally,
    seat: usize,
    job: &mut Job,
    reply: &mut Vec<u8>,
) {
    let Job { args, found, session, .. } = job;
    let (found, session) = (*found, &mut **session);
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let settings = shared.settings.current();
    let limited = Limited::new(&settings);
    let inside =
        (!found.row.flags.has(Flags::OUTSIDE)).then(|| shared.space.gate().enter(Role::Lane, seat));
    let turn = Turn {
        shared,
        tally,
        limits: &limited.for_handlers,
        lane: pantala_commands::Lane::Slow,
        now: unix_ms(),
        is_full: shared.memory.is_full(settings.maxmemory),
        is_monitored: shared.monitors.is_used(),
        paused: shared.pause.state(monotonic_us()),
    };
    loop {
        match turn.run(session, found, &args, reply) {
            Verdict::Finished => break,
            // A walk met a busy partition: here one may wait for it.
            Verdict::Parked(pantala_commands::Park::Partition(busy)) => {
                shared.space.wait_for(busy);
            }
            Verdict::Lane => {
                tracing::error!(command = found.row.name, "asks for the lane on the lane");
                break;
            }
        }
    }
    drop(inside);
}
