//! CLIENT PAUSE: until when which commands wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::execute::Paused;

/// The end of the pause in microseconds, shifted, with one bit for what is paused; 0: no pause.
#[derive(Default)]
pub struct Pause(AtomicU64);

const WRITES_ONLY: u64 = 1;

impl Pause {
    /// Pauses until `until_us` (monotonic). A pause in force is only ever extended, and one of all
    /// commands stays one.
    pub fn begin(&self, until_us: u64, paused: Paused, now_us: u64) {
        let wanted = match paused {
            Paused::Nothing => return,
            Paused::Writes => WRITES_ONLY,
            Paused::All => 0,
        };
        let now = self.0.load(Ordering::Acquire);
        let in_force = now >> 1 > now_us;
        let until_us = if in_force { until_us.max(now >> 1) } else { until_us };
        let writes_only = if in_force { wanted & now } else { wanted };
        self.0.store(until_us << 1 | writes_only, Ordering::Release);
    }

    /// Ends the pause.
    pub fn end(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// What is paused at this time.
    #[inline]
    pub fn state(&self, now_us: u64) -> Paused {
        let word = self.0.load(Ordering::Relaxed);
        if word == 0 {
            return Paused::Nothing;
        }
        match (word >> 1 > now_us, word & WRITES_ONLY) {
            (false, _) => Paused::Nothing,
            (true, WRITES_ONLY) => Paused::Writes,
            (true, _) => Paused::All,
        }
    }

    /// How long it still lasts; `None` if there is none. The clock is read only if there is one.
    pub fn ends_in(&self, clock: impl FnOnce() -> u64) -> Option<Duration> {
        let word = self.0.load(Ordering::Relaxed);
        if word == 0 {
            return None;
        }
        Some(Duration::from_micros((word >> 1).saturating_sub(clock())))
    }

    /// Whether a pause was set and its time is over: the paused are to be woken.
    pub fn is_over(&self, now_us: u64) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        word != 0 && word >> 1 <= now_us
    }
}
