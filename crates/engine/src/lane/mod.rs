//! The slow lane: a few threads that own no connection and run commands that would hold up a
//! worker.
//!
//! A worker hands over a command's arguments and its session ([`Job`]) and parks the connection. A
//! thread of the lane runs the command from its start, and returns the reply and the session
//! through the worker's inbox.
//!
//! ```text
//! submit --> queue --> a thread: run --> answered
//!              ^                  |----> a key or the token is busy: set aside, without a thread
//!              '------------------'      freed, or held for too long: requeued
//! submit --> queue of operators --> a thread of its own
//! ```
//!
//! Invariants
//! 1. A lane thread is inside the gate while it runs a command, except for commands marked
//!    `OUTSIDE`, which close the gate themselves or only wait, and `OPERATOR`, which lock nothing.
//! 2. Each job is answered exactly once, also when its command panics.
//! 3. At most `slow_lane_threads` jobs run at a time. Jobs that turn out to be very long, and jobs
//!    that wait for such a job, do not count: a compensating thread runs for each of them, so a few
//!    endless scripts do not block the lane.
//! 4. A job that holds nothing, and needs a busy partition or the token, or waits for a snapshot to
//!    write something, is set aside and takes no thread. A job that has met busy partitions many
//!    times takes the token and waits for them on its thread, so it does not starve. A job that
//!    waits half-way while holding nothing (KEYS) gives up its thread if no other thread is free
//!    and other jobs need one.
//! 5. A job that waits for something that a script has held for longer than `busy-reply-threshold`
//!    is answered BUSY: while set aside ([`Engine::recheck_lane`]) or on a thread
//!    (`LongWaitObserver::is_aborted`). So is a job that waits for a thread while such scripts have
//!    all of them; the operators' thread answers it.
//! 6. A job does not begin if its client has left by then (`clients::presence`). A job that has
//!    started an errand has begun; it is set aside meanwhile.
//! 7. While writes are held back (a stopping server saves) a job that may write is set aside. This
//!    is checked inside the gate, so everything that ran before the snapshot's cut is in it.
//! 8. Commands of operators (`OPERATOR`) wait for each other only.
//!
//! [`Engine::recheck_lane`]: crate::Engine::recheck_lane

pub mod queue;
mod run;

pub use queue::{CompensatingThread, GATE_SLOTS, Job, LANE_SLOTS, LINK_SLOTS, Lane};
pub use run::{Compensate, run, run_job, run_operators};
