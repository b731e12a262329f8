//! Switches that DEBUG sets, for tests.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// One switch: off at the start.
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
    /// SET-ACTIVE-EXPIRE 0: expired keys stay until a command meets them.
    pub no_sweep: Switch,
    /// PAUSE-CRON 1: no background work that no client has asked for.
    pub no_housekeeping: Switch,
    /// SET-DISABLE-DENY-SCRIPTS 1: scripts may call DEBUG.
    pub scripts_may_debug: Switch,
    /// AOF-FLUSH-SLEEP: how long a write to the append-only file waits, in microseconds.
    file_wait_us: AtomicU64,
}

impl Switches {
    /// From now on a write to the append-only file waits so long.
    pub fn set_file_wait(&self, wait_us: u64) {
        self.file_wait_us.store(wait_us, Ordering::Relaxed);
    }

    /// How long a write to the append-only file waits.
    pub fn file_wait(&self) -> Duration {
        Duration::from_micros(self.file_wait_us.load(Ordering::Relaxed))
    }

    /// Whether the expiry sweep is stopped.
    pub fn does_sweep_rest(&self) -> bool {
        self.no_sweep.is_on() || self.no_housekeeping.is_on()
    }
}
