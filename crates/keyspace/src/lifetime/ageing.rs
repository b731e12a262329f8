//! The idle time of a key, as far as its hotness tells.
//!
//! No clock is kept with a key. But where eviction goes by recency (`pantala_table`, `evict`), a
//! use sets the hotness to the top, and each ageing of the key's part of the table takes it down
//! one step. When all keys have aged once a *round* has ended; the ends of the last two rounds are
//! known. So a key two steps below the top was not used since the last round ended, and a key three
//! steps below was not used since the round before ended.
//!
//! Not here: the commands that ask (OBJECT IDLETIME, RESTORE). Tests: at the foot of this file.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use pantala_base::UnixMs;
use pantala_table::HOTTEST;

/// Before any round has ended, a key idle for at least this long is one step colder.
const LATELY_MS: i64 = 60_000;

/// The ends of the last rounds.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// How many keys had aged in all when the last round ended.
    aged: AtomicU64,
    /// The ends of the last two rounds (Unix, milliseconds), the later first; 0: none.
    ended_ms: [AtomicI64; 2],
}

impl Rounds {
    /// Notes that `aged` keys have aged so far, while there are `keys`. Called by one thread at a
    /// time.
    pub(crate) fn note(&self, aged: u64, keys: u64, now: UnixMs) {
        let since = aged.saturating_sub(self.aged.load(Ordering::Relaxed));
        if since == 0 || since < keys {
            return;
        }
        self.aged.store(aged, Ordering::Relaxed);
        let [last, before] = &self.ended_ms;
        before.store(last.swap(now.0, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Forgets the rounds: use and ageing follow another policy from now on.
    pub(crate) fn forget(&self) {
        self.ended_ms.iter().for_each(|ended| ended.store(0, Ordering::Relaxed));
    }

    fn since_ms(&self, round: usize, now: UnixMs) -> Option<i64> {
        let ended_ms = self.ended_ms[round].load(Ordering::Relaxed);
        (ended_ms != 0).then(|| now.0.saturating_sub(ended_ms).max(0))
    }

    /// The shortest time for which a key of this hotness has been idle, in milliseconds.
    pub(crate) fn idle_ms(&self, hotness: u8, now: UnixMs) -> i64 {
        let last = self.since_ms(0, now).unwrap_or(0);
        match HOTTEST.saturating_sub(hotness) {
            0 | 1 => 0,
            2 => last,
            _ => self.since_ms(1, now).unwrap_or(last),
        }
    }

    /// The hotness of a key that has been idle for this long.
    pub(crate) fn hotness_of_idle(&self, idle_ms: i64, now: UnixMs) -> u8 {
        let last = self.since_ms(0, now).unwrap_or(LATELY_MS);
        let before = self.since_ms(1, now).unwrap_or(last.saturating_mul(2));
        const { assert!(HOTTEST >= 3, "three ages are told apart") };
        HOTTEST - 1 - u8::from(idle_ms >= last) - u8::from(idle_ms >= before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> UnixMs {
        UnixMs(1_000_000 + seconds * 1_000)
    }

    #[test]
    fn a_key_is_idle_since_the_rounds_that_it_aged_in() {
        let rounds = Rounds::default();
        assert_eq!([0, 1, 2, 3].map(|hotness| rounds.idle_ms(hotness, at(9))), [0; 4]);
        rounds.note(99, 100, at(1));
        rounds.note(100, 100, at(2));
        rounds.note(150, 100, at(5));
        assert_eq!(
            [0, 1, 2, 3].map(|hotness| rounds.idle_ms(hotness, at(9))),
            [7_000, 7_000, 0, 0]
        );
        rounds.note(230, 100, at(6));
        assert_eq!(
            [0, 1, 2, 3].map(|hotness| rounds.idle_ms(hotness, at(9))),
            [7_000, 3_000, 0, 0]
        );
    }

    #[test]
    fn what_another_policy_has_seen_tells_nothing() {
        let rounds = Rounds::default();
        rounds.note(100, 100, at(1));
        rounds.note(200, 100, at(2));
        assert_eq!(rounds.idle_ms(0, at(9)), 8_000);
        rounds.forget();
        assert_eq!([0, 1, 2, 3].map(|hotness| rounds.idle_ms(hotness, at(9))), [0; 4]);
        rounds.note(300, 100, at(10));
        assert_eq!(rounds.idle_ms(0, at(12)), 2_000);
    }

    #[test]
    fn what_was_idle_is_so_again() {
        let rounds = Rounds::default();
        let hotness = |idle_ms| rounds.hotness_of_idle(idle_ms, at(100));
        assert_eq!([0, 59_999, 60_000, 120_000].map(hotness), [2, 2, 1, 0]);
        rounds.note(100, 100, at(20));
        rounds.note(200, 100, at(90));
        assert_eq!([0, 9_999, 10_000, 79_999, 80_000, i64::MAX].map(hotness), [2, 2, 1, 1, 0, 0]);
    }

    #[test]
    fn nothing_ages_in_an_empty_keyspace() {
        let rounds = Rounds::default();
        rounds.note(0, 0, at(5));
        assert_eq!(rounds.idle_ms(0, at(9)), 0);
    }
}
