//! The current run of this thread: its host, for functions that Lua calls.
//!
//! Functions in a VM live as long as the VM; the host is borrowed for one run. So a run stores it
//! here and removes it at its end, and `redis.call` finds it without a closure made for each run.
//!
//! 1. One run per thread at a time: a script cannot run a script.
//!
//! Tests: crates/scripting/tests.

use scoped_tls_hkt::scoped_thread_local;

use crate::globals::api::Shared;
use crate::{Abort, ScriptHost, TICK_INSTRUCTIONS};

/// The parts of a run that functions called by Lua need.
pub trait ScriptRun {
    /// The host and the shared state.
    fn parts(&mut self) -> (&mut dyn ScriptHost, &Shared);
}

struct Parts<'a> {
    host: &'a mut dyn ScriptHost,
    shared: &'a Shared,
}

impl ScriptRun for Parts<'_> {
    #[inline]
    fn parts(&mut self) -> (&mut dyn ScriptHost, &Shared) {
        (self.host, self.shared)
    }
}

scoped_thread_local!(static mut RUN: for<'a> &'a mut (dyn ScriptRun + 'a));

/// Runs `work` while `host` is stored here.
#[inline]
pub fn with_host<R>(host: &mut dyn ScriptHost, shared: &Shared, work: impl FnOnce() -> R) -> R {
    RUN.set(&mut Parts { host, shared }, work)
}

/// Calls `ask` with the run of this thread, if there is one.
#[inline]
pub fn run<R>(ask: impl FnOnce(&mut dyn ScriptHost, &Shared) -> R) -> Option<R> {
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
