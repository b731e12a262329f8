//! The rates per second in INFO.
//!
//! No timer takes samples: an idle server does nothing. Each INFO compares the counts with those of
//! the previous INFO, so a rate is the mean since then (since the start for the first). An INFO
//! within [`SHORTEST_US`] of the last sample repeats its rates.

/// The shortest time between two samples, in microseconds.
const SHORTEST_US: u64 = 100_000;

/// How many counts become rates; the caller knows which they are.
pub const RATES: usize = 5;

/// The last sample and its rates.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    at_us: u64,
    counts: [u64; RATES],
    per_s: [f64; RATES],
}

impl Rates {
    /// The rates per second, from these present counts.
    pub fn sample(&mut self, now_us: u64, counts: [u64; RATES]) -> [f64; RATES] {
        let passed_us = now_us.saturating_sub(self.at_us);
        if passed_us >= SHORTEST_US {
            let seconds = passed_us as f64 / 1e6;
            for (rate, (now, before)) in self.per_s.iter_mut().zip(counts.iter().zip(&self.counts))
            {
                *rate = now.saturating_sub(*before) as f64 / seconds;
            }
            (self.at_us, self.counts) = (now_us, counts);
        }
        self.per_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_the_mean_since_the_last_sample() {
        let mut rates = Rates::default();
        assert_eq!(rates.sample(2_000_000, [10, 0, 0, 4, 0]), [5.0, 0.0, 0.0, 2.0, 0.0]);
        assert_eq!(rates.sample(2_050_000, [99, 9, 9, 9, 9]), [5.0, 0.0, 0.0, 2.0, 0.0]);
        assert_eq!(rates.sample(3_000_000, [110, 1, 0, 4, 0]), [100.0, 1.0, 0.0, 0.0, 0.0]);
    }
}
