//! The current run of this thread: its host, for functions that Lua calls.
//!
//! Functions in a VM live as long as the VM; the host is borrowed for one run. So a run stores it
//! here and removes it at its end, and `redis.call` finds it without a closure made for each run.
//!
//! 1. One run per thread at a time: a script cannot run a script.
//!
//! Tests: crates/scripting/tests.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::resume_unwind;

use pantala_protocol::Version;
use scoped_tls_hkt::scoped_thread_local;

use crate::{Abort, ScriptHost, TICK_INSTRUCTIONS};

/// The state of a run that its VM shares with the functions that Lua calls.
#[derive(Default)]
pub struct RunState {
    /// The version set by `redis.setresp`.
    pub version: Cell<Version>,
    /// The bytes of the last reply.
    pub reply: RefCell<Vec<u8>>,
    /// The output of the run.
    pub out: RefCell<Vec<u8>>,
    /// The client's protocol version.
    pub wire: Cell<Version>,
    /// The limit of the output.
    pub most_bytes: Cell<usize>,
    /// The line at which the host aborted the last run; 0: unknown.
    pub aborted_line: Cell<u32>,
    /// Whether the host has ended the run at a tick.
    pub has_aborted: Cell<bool>,
    /// A panic that is carried over C frames.
    pub panic: Cell<Option<Panic>>,
}

/// What a panic carries.
pub type Panic = Box<dyn Any + Send>;

impl RunState {
    /// Cleans up between two runs: drops a large reply, and resumes a panic.
    pub fn settle(&self) {
        let mut reply = self.reply.borrow_mut();
        if reply.capacity() > REPLY_KEEP_BYTES {
            *reply = Vec::new();
        }
        drop(reply);
        if let Some(panic) = self.panic.take() {
            resume_unwind(panic);
        }
    }
}

/// The largest reply buffer that is kept.
const REPLY_KEEP_BYTES: usize = 64 << 10;

/// The parts of a run that functions called by Lua need.
pub trait ScriptRun {
    /// The host and the shared state.
    fn parts(&mut self) -> (&mut dyn ScriptHost, &RunState);
}

struct Parts<'a> {
    host: &'a mut dyn ScriptHost,
    shared: &'a RunState,
}

impl ScriptRun for Parts<'_> {
    #[inline]
    fn parts(&mut self) -> (&mut dyn ScriptHost, &RunState) {
        (self.host, self.shared)
    }
}

scoped_thread_local!(static mut RUN: for<'a> &'a mut (dyn ScriptRun + 'a));

/// Runs `work` while `host` is stored here.
#[inline]
pub fn with_host<R>(host: &mut dyn ScriptHost, shared: &RunState, work: impl FnOnce() -> R) -> R {
    RUN.set(&mut Parts { host, shared }, work)
}

/// Calls `ask` with the run of this thread, if there is one.
#[inline]
pub fn run<R>(ask: impl FnOnce(&mut dyn ScriptHost, &RunState) -> R) -> Option<R> {
    RUN.is_set().then(|| {
        RUN.with(|run| {
            let (host, shared) = run.parts();
            ask(host, shared)
        })
    })
}

/// Calls `ask` with the host of this thread's run, if there is one.
#[inline]
pub fn host<R>(ask: impl FnOnce(&mut dyn ScriptHost) -> R) -> Option<R> {
    run(|host, _| ask(host))
}

/// Asks the host whether to continue; `Ok` without a host, as while a VM is made.
pub fn tick() -> Result<(), Abort> {
    let asked = run(|host, shared| {
        let asked = host.tick(TICK_INSTRUCTIONS);
        shared.has_aborted.set(asked.is_err());
        asked
    });
    asked.unwrap_or(Ok(()))
}
