//! Waking a reactor from another thread.
//!
//! One word holds the worker's state: AWAKE, ASLEEP (or about to be), NOTIFIED. Both sides only
//! ever *exchange* it, so every pair of exchanges is ordered:
//! 1. `wake` that finds AWAKE or NOTIFIED needs no system call: the worker will exchange the word
//!    before it sleeps, find NOTIFIED, and not sleep.
//! 2. `wake` that finds ASLEEP writes the eventfd, on which the engine waits edge-triggered (so the
//!    counter is never read).
//! 3. The worker sees what a thread wrote before `wake` after the exchange that found NOTIFIED
//!    (acquire and release).
//! 4. System calls get pointers to locals only; a descriptor that a call returns has no other
//!    owner.
//!
//! Tests: below and `tests/engines`.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
const NOTIFIED: u32 = 2;

/// Wakes its reactor out of `wait`, now or when it next gets there. Cheap when the worker is awake:
/// one atomic exchange, no system call.
#[derive(Clone)]
pub struct Waker(Arc<Alarm>);

impl Waker {
    /// Makes the reactor deliver `Event::Woken`; several calls may be reported as one.
    pub fn wake(&self) {
        if self.0.state.swap(NOTIFIED, Ordering::AcqRel) == ASLEEP {
            self.0.notify();
        }
    }
}

pub(crate) struct Alarm {
    state: AtomicU32,
    eventfd: OwnedFd,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Arc<Alarm>> {
        // SAFETY: no pointers involved (4).
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new (4).
        let eventfd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Arc::new(Alarm { state: AtomicU32::new(AWAKE), eventfd }))
    }

    pub(crate) fn waker(self: &Arc<Alarm>) -> Waker {
        Waker(Arc::clone(self))
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.eventfd.as_raw_fd()
    }

    /// Called before a wait that may sleep. `true`: a wake-up is pending; do not sleep.
    #[inline]
    pub(crate) fn before_sleep(&self) -> bool {
        self.state.swap(ASLEEP, Ordering::AcqRel) == NOTIFIED
    }

    /// Called after any wait. `true`: a wake-up came.
    #[inline]
    pub(crate) fn after_sleep(&self) -> bool {
        self.state.swap(AWAKE, Ordering::AcqRel) == NOTIFIED
    }

    fn notify(&self) {
        let one = 1u64;
        // SAFETY: eight bytes are read from a local (4). The counter cannot overflow in practice
        // (2^64 writes), and if it did, the descriptor would be readable all the same.
        unsafe { libc::write(self.eventfd.as_raw_fd(), (&raw const one).cast(), 8) };
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn notified(alarm: &Alarm) -> u64 {
        let mut count = 0u64;
        // SAFETY: eight bytes into a local (4).
        let got = unsafe { libc::read(alarm.fd(), (&raw mut count).cast(), 8) };
        if got == 8 { count } else { 0 }
    }

    #[test]
    fn only_a_sleeper_costs_a_system_call() {
        let alarm = Alarm::new().unwrap();
        let waker = alarm.waker();
        waker.wake();
        waker.wake();
        assert_eq!(notified(&alarm), 0);
        assert!(alarm.before_sleep());
        assert!(!alarm.after_sleep());
        assert!(!alarm.before_sleep());
        waker.wake();
        waker.wake();
        assert_eq!(notified(&alarm), 1);
        assert!(alarm.after_sleep());
        assert!(!alarm.after_sleep());
    }
}
