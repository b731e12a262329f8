//! Which threads may wait for a partition, the token, or the gate.
//!
//! A worker never does: all its clients would wait with it. So a worker says so of itself
//! ([`NeverWaits`]), and whatever waits asks ([`check`]); debug builds, which all tests are, stop
//! there.

use std::cell::Cell;

thread_local! {
    static NEVER_WAITS: Cell<bool> = const { Cell::new(false) };
}

/// While it lives this thread is a worker.
#[must_use]
pub struct NeverWaits {
    before: bool,
}

impl NeverWaits {
    /// From now on.
    #[expect(clippy::new_without_default, reason = "it acts on the thread, it is no value")]
    pub fn new() -> Self {
        NeverWaits { before: NEVER_WAITS.replace(true) }
    }
}

impl Drop for NeverWaits {
    fn drop(&mut self) {
        NEVER_WAITS.set(self.before);
    }
}

/// Something is about to wait.
#[inline]
pub(crate) fn check() {
    debug_assert!(!NEVER_WAITS.get(), "a worker waits for a partition, the token or the gate");
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn only_who_may_wait_waits() {
        check();
        let worker = NeverWaits::new();
        drop(NeverWaits::new());
        assert!(std::panic::catch_unwind(check).is_err());
        drop(worker);
        check();
    }
}
