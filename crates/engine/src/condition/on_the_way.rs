//! Bytes of invalidations that are queued for clients and not sent yet, or were sent just now.
//!
//! When a key is evicted, every client that tracks it gets an invalidation. Until that is sent it
//! takes memory, which would cause the next eviction and further invalidations. So recent
//! invalidations are not counted. After some time they are: the output of a client that does not
//! read counts like any other.
//!
//! ```text
//! |--- before ---|--- current --|      not counted: what was told in both
//!                     ^ now
//! ```
//!
//! Tests: at the foot; the bad day `trackers_cost_no_more_keys`.

use std::sync::atomic::{AtomicU64, Ordering};

/// Invalidations begin to count after one to two of these periods, in microseconds.
const PERIOD_US: u64 = 20_000;

/// Bytes told to clients in the current and the last period. Threads that add at the border of two
/// periods may count a little into the wrong one.
#[derive(Debug, Default)]
pub struct BytesInTransit {
    period: AtomicU64,
    current: AtomicU64,
    before: AtomicU64,
}

impl BytesInTransit {
    /// Adds bytes that are told at this time (monotonic, microseconds).
    pub fn add(&self, bytes: u64, now_us: u64) {
        let period = now_us / PERIOD_US;
        let last = self.period.swap(period, Ordering::Relaxed);
        if last != period {
            let current = self.current.swap(0, Ordering::Relaxed);
            let is_next = last.abs_diff(period) == 1;
            self.before.store(if is_next { current } else { 0 }, Ordering::Relaxed);
        }
        self.current.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The bytes told in the current and the previous period.
    pub fn bytes(&self, now_us: u64) -> u64 {
        let current = self.current.load(Ordering::Relaxed);
        match (now_us / PERIOD_US).saturating_sub(self.period.load(Ordering::Relaxed)) {
            0 => current + self.before.load(Ordering::Relaxed),
            1 => current,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_lately_is_on_its_way() {
        let told = BytesInTransit::default();
        assert_eq!(told.bytes(5 * PERIOD_US), 0);
        told.add(100, 5 * PERIOD_US);
        told.add(10, 6 * PERIOD_US - 1);
        assert_eq!(told.bytes(6 * PERIOD_US - 1), 110);
        assert_eq!(told.bytes(7 * PERIOD_US - 1), 110);
        told.add(1, 6 * PERIOD_US);
        assert_eq!(told.bytes(6 * PERIOD_US), 111);
        assert_eq!(told.bytes(7 * PERIOD_US), 1);
        assert_eq!(told.bytes(8 * PERIOD_US), 0);
        told.add(2, 9 * PERIOD_US);
        assert_eq!(told.bytes(9 * PERIOD_US), 2, "the periods between were silent");
    }
}
