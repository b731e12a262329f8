//! CLIENT PAUSE: which commands wait, and until when.
//!
//! While a pause is in force the data do not change: expired keys are hidden, and removed only
//! after it (`HideReason`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pantala_keyspace::{HideReason, Keyspace};
use parking_lot::{Mutex, MutexGuard};

/// The commands that CLIENT PAUSE holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseScope {
    /// Nothing.
    Nothing,
    /// Commands that change data.
    Writes,
    /// All commands.
    All,
}

/// The end of the pause (monotonic, microseconds), shifted, with one bit for the kind; 0: no pause.
#[derive(Default)]
pub struct Pause {
    word: AtomicU64,
    /// Held while a pause begins or ends, so that the keyspace is told of both in order.
    changing: Mutex<()>,
}

const WRITES_ONLY: u64 = 1;
/// The latest end possible: some 292,000 years.
const LAST_US: u64 = u64::MAX >> 1;

impl Pause {
    /// Pauses commands until `until_us` (monotonic). A pause in force is only ever extended, and
    /// one of all commands stays one.
    pub fn begin(&self, space: &Keyspace, until_us: u64, paused: PauseScope, now_us: u64) {
        let wanted = match paused {
            PauseScope::Nothing => return,
            PauseScope::Writes => WRITES_ONLY,
            PauseScope::All => 0,
        };
        let _changing = self.change();
        let now = self.word.load(Ordering::Relaxed);
        let in_force = now >> 1 > now_us;
        let until_us = until_us.min(LAST_US);
        let until_us = if in_force { until_us.max(now >> 1) } else { until_us };
        let writes_only = if in_force { wanted & now } else { wanted };
        self.word.store(until_us << 1 | writes_only, Ordering::Release);
        space.hide_expired(HideReason::Paused, true);
    }

    /// Ends the pause.
    pub fn end(&self, space: &Keyspace) {
        let _changing = self.change();
        self.word.store(0, Ordering::Release);
        space.hide_expired(HideReason::Paused, false);
    }

    /// Ends the pause if its time is over. True for one caller only, which then unparks the paused
    /// connections.
    #[inline]
    pub fn take_over(&self, space: &Keyspace, now_us: u64) -> bool {
        self.is_over(now_us) && self.end_if_over(space, now_us)
    }

    #[cold]
    fn end_if_over(&self, space: &Keyspace, now_us: u64) -> bool {
        let _changing = self.change();
        let is_over = self.is_over(now_us);
        if is_over {
            self.word.store(0, Ordering::Release);
            space.hide_expired(HideReason::Paused, false);
        }
        is_over
    }

    #[inline]
    fn is_over(&self, now_us: u64) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        word != 0 && word >> 1 <= now_us
    }

    fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    /// The commands that are held back at this time.
    #[inline]
    pub fn state(&self, now_us: u64) -> PauseScope {
        let word = self.word.load(Ordering::Relaxed);
        if word == 0 {
            return PauseScope::Nothing;
        }
        match (word >> 1 > now_us, word & WRITES_ONLY) {
            (false, _) => PauseScope::Nothing,
            (true, WRITES_ONLY) => PauseScope::Writes,
            (true, _) => PauseScope::All,
        }
    }

    /// The remaining time; `None` without a pause. The clock is read only if there is one.
    pub fn ends_in(&self, clock: impl FnOnce() -> u64) -> Option<Duration> {
        let word = self.word.load(Ordering::Relaxed);
        if word == 0 {
            return None;
        }
        Some(Duration::from_micros((word >> 1).saturating_sub(clock())))
    }
}

#[cfg(test)]
mod tests {
    use pantala_base::hash::HashSeed;
    use pantala_keyspace::KeyspaceConfig;

    use super::*;

    fn space() -> Keyspace {
        let seed = HashSeed::from_words(1, 2);
        Keyspace::new(KeyspaceConfig { seed, databases: 1, worker_slots: 1, lane_slots: 1 })
    }

    #[test]
    fn only_ever_extends() {
        let (space, pause) = (space(), Pause::default());
        pause.begin(&space, 100, PauseScope::Writes, 0);
        assert_eq!(pause.state(50), PauseScope::Writes);
        pause.begin(&space, 60, PauseScope::All, 50);
        assert_eq!(pause.state(99), PauseScope::All);
        pause.begin(&space, 200, PauseScope::Writes, 50);
        assert_eq!(pause.state(199), PauseScope::All);
        assert_eq!(pause.state(200), PauseScope::Nothing);
    }

    #[test]
    fn a_pause_beyond_all_time_is_one() {
        for until_us in [LAST_US, LAST_US + 1, LAST_US + 12_345, u64::MAX] {
            let (space, pause) = (space(), Pause::default());
            pause.begin(&space, until_us, PauseScope::Writes, 7);
            assert_eq!(pause.state(1 << 60), PauseScope::Writes, "{until_us}");
            assert_eq!(pause.ends_in(|| 7), Some(Duration::from_micros(LAST_US - 7)));
        }
    }

    #[test]
    fn one_caller_learns_that_it_is_over() {
        let (space, pause) = (space(), Pause::default());
        assert!(!pause.take_over(&space, 1));
        pause.begin(&space, 100, PauseScope::All, 0);
        assert!(!pause.take_over(&space, 99));
        assert!(space.hides_expired());
        assert!(pause.take_over(&space, 100));
        assert!(!space.hides_expired());
        assert!(!pause.take_over(&space, 100));
    }
}
