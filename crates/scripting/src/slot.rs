//! The run that is going on in this thread: its host, for functions that Lua calls.
//!
//! Functions in a VM live as long as it; the host is borrowed for one run. So a run puts it here
//! and takes it away at its end, and `redis.call` finds it without a closure made for each run.
//!
//! 1. One run a thread at a time: a script cannot run a script.
//!
//! Tests: crates/scripting/tests.

use scoped_tls_hkt::scoped_thread_local;

use crate::globals::api::Shared;
use crate::{Abort, Host, TICK_INSTRUCTIONS};

/// What functions that Lua calls need of the run.
pub trait Run {
    /// Both its parts.
    fn parts(&mut self) -> (&mut dyn Host, &Shared);
}

struct Parts<'a> {
    host: &'a mut dyn Host,
    shared: &'a Shared,
}

impl Run for Parts<'_> {
    #[inline]
    fn parts(&mut self) -> (&mut dyn Host, &Shared) {
        (self.host, self.shared)
    }
}

scoped_thread_local!(static mut RUN: for<'a> &'a mut (dyn Run + 'a));

/// Does `work` while `host` is here.
#[inline]
pub fn with_host<R>(host: &mut dyn Host, shared: &Shared, work: impl FnOnce() -> R) -> R {
    RUN.set(&mut Parts { host, shared }, work)
}

/// The run of this thread, if one is going on.
#[inline]
pub fn run<R>(ask: impl FnOnce(&mut dyn Host, &Shared) -> R) -> Option<R> {
    RUN.is_set().then(|| {
        RUN.with(|run| {
            let (host, shared) = run.parts();
            ask(host, shared)
        })
    })
}

/// The host of this thread's run, if one is going on.
#[inline]
pub fn host<R>(ask: impl FnOnce(&mut dyn Host) -> R) -> Option<R> {
    run(|host, _| ask(host))
}

/// Whether to go on; yes where nobody is asked, as while a VM is made.
pub fn tick() -> Result<(), Abort> {
    let asked = run(|host, shared| {
        let asked = host.tick(TICK_INSTRUCTIONS);
        shared.has_aborted.set(asked.is_err());
        asked
    });
    asked.unwrap_or(Ok(()))
}
