//! A log-linear histogram of latencies, in the manner of HdrHistogram (Tene): 128 steps within each
//! power of two, so a percentile is at most 1/128 = 0.8 % above the true one.
//!
//! Counts are `u64`; every `u64` of nanoseconds has a bucket.

const STEP_BITS: u32 = 7;
const STEPS: u64 = 1 << STEP_BITS;
const BUCKETS: usize = ((64 - STEP_BITS as usize) + 1) << STEP_BITS;

/// Latencies in nanoseconds.
#[derive(Clone)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max_ns: u64,
    sum_ns: u128,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; BUCKETS], total: 0, max_ns: 0, sum_ns: 0 }
    }
}

fn bucket_of(ns: u64) -> usize {
    if ns < STEPS {
        return ns as usize;
    }
    let shift = ns.ilog2() - STEP_BITS;
    let step = (ns >> shift) - STEPS;
    ((u64::from(shift) + 1) * STEPS + step) as usize
}

/// The largest value that falls into a bucket.
fn bucket_top(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let shift = bucket / STEPS - 1;
    let low = (STEPS + bucket % STEPS) << shift;
    low + ((1u64 << shift) - 1)
}

impl Histogram {
    /// Counts one latency.
    pub fn record(&mut self, ns: u64) {
        self.counts[bucket_of(ns)] += 1;
        self.total += 1;
        self.max_ns = self.max_ns.max(ns);
        self.sum_ns += u128::from(ns);
    }

    /// Adds another histogram's counts.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns += other.sum_ns;
    }

    /// The number of latencies counted.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The largest latency, exact, in ns.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The mean latency in ns; 0 when nothing was counted.
    pub fn mean_ns(&self) -> u64 {
        self.sum_ns.checked_div(u128::from(self.total)).unwrap_or(0) as u64
    }

    /// The smallest bucket bound that at least `percent` of the latencies do not exceed, in ns.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        let wanted = ((percent / 100.0 * self.total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return bucket_top(bucket).min(self.max_ns);
            }
        }
        self.max_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket_and_tops_are_close() {
        for ns in (0..1_000).chain([1 << 20, (1 << 20) + 12_345, u64::MAX / 3, u64::MAX]) {
            let top = bucket_top(bucket_of(ns));
            assert!(top >= ns, "{ns}: top {top}");
            assert!((top - ns) as f64 <= ns as f64 / 128.0, "{ns}: top {top} is too far");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_of_a_known_row() {
        let mut histogram = Histogram::default();
        (1..=100_000u64).for_each(|us| histogram.record(us * 1_000));
        for (percent, us) in [(50.0, 50_000.0), (99.0, 99_000.0), (99.9, 99_900.0)] {
            let got = histogram.percentile_ns(percent) as f64 / 1_000.0;
            assert!(got >= us && got <= us * 1.008, "p{percent}: {got}");
        }
        assert_eq!(histogram.percentile_ns(100.0), 100_000_000);
        assert_eq!(histogram.max_ns(), 100_000_000);
        assert_eq!(histogram.mean_ns(), 50_000_500);
    }

    #[test]
    fn merging_is_as_if_recorded_in_one() {
        let (mut a, mut b, mut both) =
            (Histogram::default(), Histogram::default(), Histogram::default());
        for ns in 0..5_000u64 {
            if ns % 3 == 0 {
                a.record(ns)
            } else {
                b.record(ns)
            }
            both.record(ns);
        }
        a.merge(&b);
        assert_eq!(a.counts, both.counts);
        assert_eq!((a.total, a.max_ns, a.sum_ns), (both.total, both.max_ns, both.sum_ns));
    }

    #[test]
    fn an_empty_histogram_has_zeros() {
        let empty = Histogram::default();
        assert_eq!((empty.percentile_ns(99.0), empty.mean_ns(), empty.count()), (0, 0, 0));
    }
}
