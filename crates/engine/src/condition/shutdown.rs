//! Shutdown, in stages.
//!
//! ```text
//! running --prepare--> preparing --begin--> final
//!    ^                     |
//!    '--------give up------'      preparations have failed, or ABORT
//! running --begin--> final
//! ```
//!
//! Invariants
//! 1. Final is for ever, whichever thread sets it. From then on nothing new is served.
//! 2. Only one thread prepares at a time. Meanwhile writes wait, so everything that was
//!    acknowledged is saved.
//!
//! Not here: the save before the end (the server). Tests: at the foot.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

const RUNNING: u32 = 0;
const PREPARING: u32 = 1;
const FINAL: u32 = 2;

/// The stage of the shutdown; `main` waits here.
#[derive(Default)]
pub struct Shutdown {
    state: AtomicU32,
    changed: Condvar,
    /// The preparing thread is to give up.
    is_aborted: Mutex<bool>,
    /// Until when the preparing thread waits for replicas (monotonic, microseconds); 0: it does
    /// not.
    replicas_until_us: AtomicU64,
}

/// The right to prepare. When it is dropped the server runs on, unless it has stopped.
pub struct ShutdownPermit<'s>(&'s Shutdown);

impl Shutdown {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_aborted.lock()
    }

    /// Stops the server: nothing new is served.
    pub fn begin(&self) {
        let _held = self.lock();
        self.state.store(FINAL, Ordering::Release);
        self.changed.notify_all();
    }

    /// Begins to prepare; `None`: another thread does already, or the server stops.
    pub fn prepare(&self) -> Option<ShutdownPermit<'_>> {
        let mut is_aborted = self.lock();
        if self.state.load(Ordering::Acquire) != RUNNING {
            return None;
        }
        *is_aborted = false;
        self.state.store(PREPARING, Ordering::Release);
        Some(ShutdownPermit(self))
    }

    /// Tells the preparing thread to give up; false if there is none.
    pub fn abort(&self) -> bool {
        let mut is_aborted = self.lock();
        let is_preparing = self.is_preparing();
        *is_aborted |= is_preparing;
        self.changed.notify_all();
        is_preparing
    }

    /// Until when replicas are waited for (monotonic, microseconds), if they are.
    pub fn waits_for_replicas(&self) -> Option<u64> {
        let until_us = self.replicas_until_us.load(Ordering::Relaxed);
        (until_us != 0 && self.is_preparing()).then_some(until_us)
    }

    /// Whether a thread prepares.
    pub fn is_preparing(&self) -> bool {
        self.state.load(Ordering::Acquire) == PREPARING
    }

    /// Whether the server stops.
    #[inline]
    pub fn is_final(&self) -> bool {
        self.state.load(Ordering::Relaxed) == FINAL
    }

    /// Waits until the server is to stop.
    pub fn wait(&self) {
        self.wait_while(|state| state != FINAL);
    }

    /// Waits until no thread prepares; whether the server stops.
    pub fn wait_for_preparing(&self) -> bool {
        self.wait_while(|state| state == PREPARING);
        self.is_final()
    }

    /// Sleeps for `at_most`, or until something changes; whether the server is to stop.
    pub fn pause_for(&self, at_most: Duration) -> bool {
        let mut held = self.lock();
        if !self.is_final() {
            let _timed_out = self.changed.wait_for(&mut held, at_most);
        }
        self.is_final()
    }

    /// Wakes sleeping threads.
    pub fn wake(&self) {
        let _held = self.lock();
        self.changed.notify_all();
    }

    fn wait_while(&self, goes_on: impl Fn(u32) -> bool) {
        let mut held = self.lock();
        while goes_on(self.state.load(Ordering::Acquire)) {
            self.changed.wait(&mut held);
        }
    }
}

impl ShutdownPermit<'_> {
    /// Notes until when replicas are waited for (monotonic, microseconds).
    pub fn wait_for_replicas(&self, until_us: u64) {
        self.0.replicas_until_us.store(until_us, Ordering::Relaxed);
    }

    /// Whether this thread is to give up.
    pub fn is_aborted(&self) -> bool {
        *self.0.lock()
    }
}

impl Drop for ShutdownPermit<'_> {
    fn drop(&mut self) {
        let _held = self.0.lock();
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        _ = self.0.state.compare_exchange(PREPARING, RUNNING, success, failure);
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_prepares_at_a_time_and_may_give_up() {
        let shutdown = Shutdown::default();
        assert!(!shutdown.abort());
        let preparing = shutdown.prepare().expect("nobody else does");
        assert!(shutdown.prepare().is_none());
        assert!(shutdown.is_preparing() && !shutdown.is_final() && !preparing.is_aborted());
        assert!(shutdown.abort() && preparing.is_aborted());
        drop(preparing);
        assert!(!shutdown.is_preparing() && !shutdown.wait_for_preparing());
        assert!(!shutdown.prepare().expect("again").is_aborted());
    }

    #[test]
    fn final_is_for_ever() {
        let shutdown = Shutdown::default();
        let preparing = shutdown.prepare();
        shutdown.begin();
        drop(preparing);
        assert!(shutdown.is_final() && shutdown.prepare().is_none() && !shutdown.abort());
        shutdown.wait();
        assert!(shutdown.wait_for_preparing() && shutdown.pause_for(Duration::MAX));
    }
}
