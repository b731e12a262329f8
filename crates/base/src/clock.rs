//! Time as an argument: a Unix time in milliseconds, and the two places that read a clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch; negative before it. Deadlines use the whole 64-bit range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMs(pub i64);

/// The wall clock in microseconds since the Unix epoch.
pub fn unix_us() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |us| -us),
    }
}

/// The wall clock in milliseconds.
pub fn unix_ms() -> UnixMs {
    UnixMs(unix_us().div_euclid(1000))
}

/// Microseconds of a monotonic clock, since the first call in this process.
pub fn monotonic_us() -> u64 {
    u64::try_from(since_start().as_micros()).unwrap_or(u64::MAX)
}

/// Nanoseconds of the same clock; it lasts for nearly six centuries.
pub fn monotonic_ns() -> u64 {
    u64::try_from(since_start().as_nanos()).unwrap_or(u64::MAX)
}

fn since_start() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}
