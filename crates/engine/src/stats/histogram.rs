//! How long something took, counted in buckets.
//!
//! ```text
//! nanoseconds   0 .. 256   256 .. 288   288 .. 320   ...   1024 .. 1152   1152 .. 1280   ...
//! bucket            0           1            2                  17             18
//! ```
//!
//! A time of 2^n nanoseconds begins an *octave*; each octave has [`PARTS`] buckets of equal width.
//! So a percentile is at most an eighth too high, from a quarter of a microsecond to a minute;
//! longer times are counted in the last bucket.
//!
//! Invariants
//! 1. One thread counts, any may read: each bucket is a [`Count`].
//! 2. A histogram in which nothing was counted takes a pointer: most commands are never called.
//!
//! Not here: whose times they are (`tallies`). Tests: at the foot.

use std::sync::OnceLock;

use pantala_keyspace::{Count, CountClass};

/// Buckets of an octave, as a power of two.
const PARTS_BITS: u32 = 3;
/// Buckets of an octave.
const PARTS: usize = 1 << PARTS_BITS;
/// Times below 2 to this power, in nanoseconds, share the first bucket.
const FIRST_OCTAVE: u32 = 8;
/// Times of 2 to this power and more, in nanoseconds, share the last bucket.
const AFTER_LAST_OCTAVE: u32 = 36;
/// Octaves that are divided into buckets.
const OCTAVES: usize = (AFTER_LAST_OCTAVE - FIRST_OCTAVE) as usize;
/// Buckets of a histogram.
const BUCKETS: usize = 1 + OCTAVES * PARTS;

type Buckets = [Count; BUCKETS];

/// A histogram of durations in nanoseconds. One thread counts, any thread may read.
#[derive(Default)]
pub struct Histogram(OnceLock<Box<Buckets>>);

impl Histogram {
    /// Counts one time; only the owner calls this.
    #[inline]
    pub fn add(&self, nanoseconds: u64) {
        self.buckets()[bucket_of(nanoseconds)].add(1);
    }

    #[inline]
    fn buckets(&self) -> &Buckets {
        self.0.get_or_init(|| Box::new(std::array::from_fn(|_| Count::default())))
    }

    /// How many times were counted.
    pub fn total(&self) -> u64 {
        self.counts().sum()
    }

    /// The count of each bucket; empty if nothing was counted.
    fn counts(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.get().into_iter().flat_map(|buckets| buckets.iter().map(Count::get))
    }

    /// The time, in nanoseconds, that `percent` of the counted ones do not exceed; 0 if there is
    /// none.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        let total = self.total();
        let rank = ((total as f64 * percent / 100.0).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0;
        let reaches = |count: u64| {
            seen += count;
            seen >= rank
        };
        self.counts().position(reaches).map_or(0, |bucket| end_ns(bucket) - 1)
    }

    /// Adds these counts to those of `sums`, by octave.
    pub fn add_to(&self, sums: &mut Octaves) {
        for (bucket, count) in self.counts().enumerate() {
            sums.0[bucket.div_ceil(PARTS)] += count;
        }
    }

    /// Visits each bucket together with the other's, as far as the other has any.
    pub fn each_with(&self, other: &Histogram, see: &mut dyn FnMut(&Count, &Count)) {
        let Some(others) = other.0.get() else { return };
        for (mine, other) in self.buckets().iter().zip(others.iter()) {
            see(mine, other);
        }
    }

    /// Adds what was counted `inside` by something that took `most_ns` as a whole, or drops it.
    #[inline]
    pub fn settle(&self, inside: &Histogram, most_ns: u64, has_happened: bool) {
        let Some(counted) = inside.0.get() else { return };
        let buckets = bucket_of(most_ns) + 1;
        for (mine, inside) in self.buckets().iter().zip(counted.iter()).take(buckets) {
            CountClass::Script.settle(mine, inside, has_happened);
        }
    }
}

/// The bucket of a time.
#[inline]
fn bucket_of(nanoseconds: u64) -> usize {
    if nanoseconds < 1 << FIRST_OCTAVE {
        return 0;
    }
    let octave = nanoseconds.ilog2();
    let part = (nanoseconds >> (octave - PARTS_BITS)) as usize & (PARTS - 1);
    let bucket = 1 + (octave - FIRST_OCTAVE) as usize * PARTS + part;
    bucket.min(BUCKETS - 1)
}

/// The end of a bucket's times, in nanoseconds.
fn end_ns(bucket: usize) -> u64 {
    let octave = FIRST_OCTAVE + (bucket / PARTS) as u32;
    let part = (bucket % PARTS) as u64;
    (PARTS as u64 + part) << (octave - PARTS_BITS)
}

/// Times counted by octave, to be exported and compared between servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Octaves([u64; OCTAVES + 1]);

impl Default for Octaves {
    fn default() -> Self {
        Octaves([0; OCTAVES + 1])
    }
}

impl Octaves {
    /// The end of each octave, in microseconds (of the last: infinity), and how many times were
    /// counted in it.
    pub fn counts(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.0.iter().enumerate().map(|(at, &count)| match at {
            OCTAVES => (f64::INFINITY, count),
            _ => ((1_u64 << (FIRST_OCTAVE as usize + at)) as f64 / 1000.0, count),
        })
    }

    /// The rows of LATENCY HISTOGRAM: upper bounds in microseconds, and how many took no longer.
    /// Bounds that add nothing are left out.
    ///
    /// The bounds are Valkey's: powers of two from 1,024 nanoseconds on, rounded up to two
    /// significant digits, and then down to microseconds.
    pub fn cumulative_us(&self) -> Vec<(u64, u64)> {
        const FIRST_BOUND: u32 = 10;
        const DIGITS_BITS: u32 = 7;
        let mut rows = Vec::new();
        let (mut sum, mut told) = (0, 0);
        for (at, &count) in self.0.iter().enumerate() {
            sum += count;
            let bound = FIRST_OCTAVE + at as u32;
            if bound >= FIRST_BOUND && sum > told {
                let ns = (1_u64 << bound) + (1 << (bound - DIGITS_BITS)) - 1;
                rows.push((ns / 1000, sum));
                told = sum;
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times_ns: &[u64]) -> Histogram {
        let histogram = Histogram::default();
        times_ns.iter().for_each(|&time| histogram.add(time));
        histogram
    }

    fn octaves(histogram: &Histogram) -> Octaves {
        let mut octaves = Octaves::default();
        histogram.add_to(&mut octaves);
        octaves
    }

    #[test]
    fn a_bucket_ends_where_the_next_begins() {
        assert_eq!((bucket_of(0), bucket_of(255), bucket_of(256)), (0, 0, 1));
        for bucket in 0..BUCKETS - 1 {
            let end = end_ns(bucket);
            assert_eq!((bucket_of(end - 1), bucket_of(end)), (bucket, bucket + 1), "{bucket}");
        }
        assert_eq!((end_ns(BUCKETS - 1), bucket_of(u64::MAX)), (1 << 36, BUCKETS - 1));
    }

    #[test]
    fn a_percentile_is_at_most_an_eighth_too_high() {
        let times: Vec<u64> = (1..=1000).map(|n| n * 1000).collect();
        let histogram = of(&times);
        for (percent, exact) in [(0.0, 1_000), (50.0, 500_000), (99.0, 990_000), (100.0, 1_000_000)]
        {
            let found = histogram.percentile_ns(percent);
            assert!((exact..=exact + exact / 8).contains(&found), "{percent}: {found}");
        }
        assert_eq!(of(&[]).percentile_ns(50.0), 0);
    }

    #[test]
    fn rows_are_cumulative_with_the_bounds_of_the_reference() {
        let histogram = of(&[0, 900, 1023, 1024, 20_000, 40_000, 1 << 40]);
        let rows = octaves(&histogram).cumulative_us();
        assert_eq!(rows, [(1, 3), (2, 4), (33, 5), (66, 6), (69_256_347, 7)]);
        assert_eq!(octaves(&of(&[])).cumulative_us(), []);
    }

    #[test]
    fn octaves_end_at_powers_of_two() {
        let octaves = octaves(&of(&[255, 256, 511, 512, u64::MAX]));
        let counts: Vec<_> = octaves.counts().collect();
        assert_eq!(counts[..3], [(0.256, 1), (0.512, 2), (1.024, 1)]);
        assert_eq!(counts[OCTAVES], (f64::INFINITY, 1));
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 5);
    }

    #[test]
    fn what_was_counted_inside_is_taken_over_or_forgotten() {
        for has_happened in [false, true] {
            let (mine, inside) = (of(&[700]), of(&[300, 5_000]));
            mine.settle(&inside, 5_300, has_happened);
            assert_eq!((mine.total(), inside.total()), (if has_happened { 3 } else { 1 }, 0));
        }
    }
}
