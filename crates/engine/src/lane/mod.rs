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
//! 4. A job that has nothing yet, and needs a partition or the token while somebody else has it, or
//!    what a snapshot has to write first, lies aside and takes no thread. One that has met busy
//!    partitions many times takes the token and waits for them on its thread, so that it is not
//!    starved. One that waits in its midst with nothing in hand (KEYS) gives its thread up when
//!    there are no more and others need it.
//! 5. What waits for something that a script has had for longer than `busy-reply-threshold` is
//!    answered BUSY: aside ([`Engine::recheck_lane`]) or on a thread
//!    (`LongWaitObserver::is_aborted`). So is what waits for a thread while such scripts have all
//!    that there can be; the thread of operators tells it.
//! 6. A job whose client has left before it began does not begin (`clients::presence`). One that
//!    has sent an errand out has begun; meanwhile it lies aside.
//! 7. While changes of data wait (a server that stops saves) a job that may change some lies aside:
//!    it is asked inside the gate, so what ran before the snapshot's moment is in it.
//! 8. Commands of operators (`OPERATOR`) wait for each other only.
//!
//! [`Engine::recheck_lane`]: crate::Engine::recheck_lane

pub mod queue;
mod run;

pub use queue::{CompensatingThread, GATE_SLOTS, Job, LANE_SLOTS, LINK_SLOTS, Lane};
pub use run::{Compensate, run, run_job, run_operators};
