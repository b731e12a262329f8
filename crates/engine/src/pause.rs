//! CLIENT PAUSE: until when which commands wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What CLIENT PAUSE holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paused {
    /// Nothing.
    Nothing,
    /// Commands that change data.
    Writes,
    /// All commands.
    All,
}

/// The end of the pause in microseconds, shifted, with one bit for what is paused; 0: no pause.
#[derive(Default)]
pub struct Pause(AtomicU64);

const WRITES_ONLY: u64 = 1;
/// The latest end there can be: some 292,000 years.
const LAST_US: u64 = u64::MAX >> 1;

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
        let until_us = until_us.min(LAST_US);
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

    /// Whether a pause was set and its time is over: then it is taken away, and the one caller who
    /// is told so wakes the paused.
    #[inline]
    pub fn take_over(&self, now_us: u64) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        let is_over = word != 0 && word >> 1 <= now_us;
        let (order, failed) = (Ordering::AcqRel, Ordering::Relaxed);
        is_over && self.0.compare_exchange(word, 0, order, failed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ever_extends() {
        let pause = Pause::default();
        pause.begin(100, Paused::Writes, 0);
        assert_eq!(pause.state(50), Paused::Writes);
        pause.begin(60, Paused::All, 50);
        assert_eq!(pause.state(99), Paused::All);
        pause.begin(200, Paused::Writes, 50);
        assert_eq!(pause.state(199), Paused::All);
        assert_eq!(pause.state(200), Paused::Nothing);
    }

    #[test]
    fn a_pause_beyond_all_time_is_one() {
        for until_us in [LAST_US, LAST_US + 1, LAST_US + 12_345, u64::MAX] {
            let pause = Pause::default();
            pause.begin(until_us, Paused::Writes, 7);
            assert_eq!(pause.state(1 << 60), Paused::Writes, "{until_us}");
            assert_eq!(pause.ends_in(|| 7), Some(Duration::from_micros(LAST_US - 7)));
        }
    }

    #[test]
    fn one_caller_learns_that_it_is_over() {
        let pause = Pause::default();
        assert!(!pause.take_over(1));
        pause.begin(100, Paused::All, 0);
        assert!(!pause.take_over(99));
        assert!(pause.take_over(100));
        assert!(!pause.take_over(100));
    }
}
