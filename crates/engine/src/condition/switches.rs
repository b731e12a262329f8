//! What DEBUG turns off or on, for tests.

use std::sync::atomic::{AtomicBool, Ordering};

/// One of them: off at the start, on by any thread.
#[derive(Default)]
pub struct Switch(AtomicBool);

impl Switch {
    /// Turns it on or off.
    pub fn turn(&self, is_on: bool) {
        self.0.store(is_on, Ordering::Relaxed);
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// All of them.
#[derive(Default)]
pub struct Switches {
    /// SET-ACTIVE-EXPIRE 0: expired keys stay until somebody meets them.
    pub no_sweep: Switch,
    /// PAUSE-CRON 1: nothing is done that no client has asked for.
    pub no_housekeeping: Switch,
    /// SET-DISABLE-DENY-SCRIPTS 1: scripts may call DEBUG.
    pub scripts_may_debug: Switch,
}

impl Switches {
    /// Whether the sweep of expired keys rests.
    pub fn does_sweep_rest(&self) -> bool {
        self.no_sweep.is_on() || self.no_housekeeping.is_on()
    }
}
