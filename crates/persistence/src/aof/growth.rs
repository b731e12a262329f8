//! The size of an append-only file, and whether it should be rewritten.
//!
//! As in Redis: a rewrite is due when all files together are larger than
//! `auto-aof-rewrite-min-size` and have grown by `auto-aof-rewrite-percentage` since the last
//! rewrite, or over the base that was loaded. After a failed rewrite the next one waits, longer
//! each time.
//!
//! Tests: at the foot.

/// The settings that trigger a rewrite.
#[derive(Clone, Copy, Debug)]
pub struct GrowthRules {
    /// `auto-aof-rewrite-percentage`; 0: never.
    pub percentage: u64,
    /// `auto-aof-rewrite-min-size`.
    pub min_bytes: u64,
}

/// The pause after the first failure, in milliseconds.
const RETRY_MIN_MS: u64 = 1_000;
/// The longest pause after a failure, in milliseconds.
const RETRY_MAX_MS: u64 = 60_000;
const _: () = assert!(RETRY_MIN_MS <= RETRY_MAX_MS && RETRY_MIN_MS << 16 > RETRY_MAX_MS);

/// The size of the append-only file and the failed rewrites, to decide when a rewrite is due.
#[derive(Clone, Copy, Debug, Default)]
pub struct Growth {
    bytes: u64,
    base_bytes: u64,
    failures: u32,
}

impl Growth {
    /// Starts with files of this size, as loaded.
    pub fn loaded(&mut self, base_bytes: u64, bytes: u64) {
        debug_assert!(base_bytes <= bytes, "the base is one of the files");
        *self = Growth { bytes, base_bytes, failures: 0 };
    }

    /// Reports a successful rewrite that left files of this size.
    pub fn rewritten(&mut self, bytes: u64) {
        self.loaded(bytes, bytes);
    }

    /// Reports a failed rewrite.
    pub fn failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    /// Reports appended bytes.
    pub fn grew(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// The size of all current files (`aof_current_size`).
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The size that growth is measured against (`aof_base_size`).
    pub fn base_bytes(&self) -> u64 {
        self.base_bytes
    }

    /// How long after the last rewrite an automatic one may begin, in milliseconds.
    pub fn retry_after_ms(&self) -> u64 {
        match self.failures {
            0 => 0,
            failures => (RETRY_MIN_MS << (failures - 1).min(16)).min(RETRY_MAX_MS),
        }
    }

    /// Whether the files have grown enough for a rewrite.
    pub fn is_due(&self, rules: GrowthRules) -> bool {
        let base = u128::from(self.base_bytes.max(1));
        let wanted = base * (100 + u128::from(rules.percentage));
        rules.percentage > 0
            && self.bytes > rules.min_bytes
            && u128::from(self.bytes) * 100 >= wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(base_bytes: u64, bytes: u64, percentage: u64, min_bytes: u64, expected: bool) {
        let mut growth = Growth::default();
        growth.loaded(base_bytes, base_bytes);
        growth.grew(bytes - base_bytes);
        assert_eq!(growth.is_due(GrowthRules { percentage, min_bytes }), expected);
    }

    #[test]
    fn a_rewrite_is_due_when_the_files_have_grown_enough() {
        check(100, 199, 100, 10, false);
        check(100, 200, 100, 10, true);
        check(100, 200, 100, 200, false);
        check(100, 1 << 40, 0, 0, false);
        check(0, 100, 100, 99, true);
        check(0, 0, 100, 0, false);
        check(1, 1 << 40, u64::MAX, 0, false);
    }

    #[test]
    fn after_failures_it_waits_longer_each_time_up_to_a_minute() {
        let mut growth = Growth::default();
        let waits = [0, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000];
        for expected in waits {
            assert_eq!(growth.retry_after_ms(), expected);
            growth.failed();
        }
        growth.rewritten(5);
        assert_eq!(growth.retry_after_ms(), 0);
    }
}
