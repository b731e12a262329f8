//! The meaning of `exptime`.
//!
//! | exptime | the value lives |
//! |---|---|
//! | 0 | forever |
//! | negative | not at all |
//! | up to 30 days | this many seconds from now |
//! | more | until this many seconds after 1970 |

use pantala_base::UnixMs;

/// The longest relative time, in seconds.
const MOST_FROM_NOW_S: i64 = 60 * 60 * 24 * 30;

/// How long a value lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expires {
    /// It never expires.
    Never,
    /// It expires at once.
    Now,
    /// It expires at this time.
    At(UnixMs),
}

impl Expires {
    /// The meaning of `exptime` at this time.
    pub fn of(exptime_s: i64, now: UnixMs) -> Expires {
        let at = match exptime_s {
            0 => return Expires::Never,
            ..0 => return Expires::Now,
            1..=MOST_FROM_NOW_S => UnixMs(now.0.saturating_add(exptime_s * 1000)),
            _ => UnixMs(exptime_s.saturating_mul(1000)),
        };
        if at.0 <= now.0 { Expires::Now } else { Expires::At(at) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirty_days_part_spans_from_moments() {
        let now = UnixMs(1_700_000_000_500);
        for (exptime_s, expires) in [
            (0, Expires::Never),
            (-1, Expires::Now),
            (i64::MIN, Expires::Now),
            (1, Expires::At(UnixMs(1_700_000_001_500))),
            (2_592_000, Expires::At(UnixMs(1_702_592_000_500))),
            (2_592_001, Expires::Now),
            (1_700_000_000, Expires::Now),
            (1_700_000_001, Expires::At(UnixMs(1_700_000_001_000))),
            (i64::MAX, Expires::At(UnixMs(i64::MAX))),
        ] {
            assert_eq!(Expires::of(exptime_s, now), expires, "{exptime_s}");
        }
    }
}
