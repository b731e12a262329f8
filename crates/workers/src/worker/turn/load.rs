//! How busy workers are: the share of time for which each is awake.

use crate::WorkerContext;

/// The shortest time between two looks, in microseconds.
pub const LOOK_US: u64 = 100_000;

/// How long a worker had been awake at a moment, both in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    pub(crate) at_us: u64,
    pub(crate) awake_us: u64,
}

impl Sample {
    /// How long the worker has been awake until now.
    pub fn of(context: &WorkerContext, worker: usize, at_us: u64) -> Option<Sample> {
        context.workers.awake_us(worker).map(|awake_us| Sample { at_us, awake_us })
    }

    /// The share of the time since `before` for which it was awake.
    pub fn percent_since(self, before: Sample) -> u64 {
        let passed_us = self.at_us.saturating_sub(before.at_us).max(1);
        (self.awake_us.saturating_sub(before.awake_us) * 100 / passed_us).min(100)
    }
}

/// The loads that INFO shows: means since the previous INFO, like its rates.
#[derive(Default)]
pub struct Loads {
    at_us: u64,
    samples: Vec<(usize, Sample)>,
    percents: Vec<(usize, u64)>,
}

impl Loads {
    /// The serving workers, and the share of the time for which each was awake, in percent.
    pub fn sample(&mut self, context: &WorkerContext, now_us: u64) -> Vec<(usize, u64)> {
        let workers = context.workers.serving();
        if now_us.saturating_sub(self.at_us) >= LOOK_US {
            self.at_us = now_us;
            let sample = |&worker: &usize| Some((worker, Sample::of(context, worker, now_us)?));
            let samples: Vec<_> = workers.iter().filter_map(sample).collect();
            self.percents = loads(&self.samples, &samples);
            self.samples = samples;
        }
        let percent_of = |worker: usize| {
            self.percents.iter().find(|(one, _)| *one == worker).map_or(0, |(_, percent)| *percent)
        };
        workers.into_iter().map(|worker| (worker, percent_of(worker))).collect()
    }
}

/// The share of the time, in percent, for which each worker was awake between two samples.
pub fn loads(before: &[(usize, Sample)], after: &[(usize, Sample)]) -> Vec<(usize, u64)> {
    let of = |&(worker, now): &(usize, Sample)| {
        let (_, then) = before.iter().find(|(one, _)| *one == worker)?;
        Some((worker, now.percent_since(*then)))
    };
    after.iter().filter_map(of).collect()
}
