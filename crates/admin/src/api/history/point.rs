//! Counters of one moment, and a point: what has happened between two of them.
//!
//! Rates and times of a point are kept in 16 bits, the upper half of an `f32`: a chart needs no
//! more than the eight bits of precision that these have.
//!
//! Tests: at the foot.

use pantala_base::clock::unix_ms;
use pantala_commands::Group;
use pantala_engine::stats::tallies::ThreadTally;
use pantala_keyspace::DbIndex;

use crate::host::{AdminHost, Figures};

/// The command families, by [`Group`]'s order.
pub(super) const FAMILIES: usize = 17;
/// Workers whose load a point keeps one by one; of more workers it keeps the least, the middle and
/// the highest load.
pub(super) const LOADS: usize = 8;

/// The names of the counters in [`Counters::rates`], of which a point keeps the rate by second.
pub(super) const RATES: [&str; 11] = [
    "hits",
    "misses",
    "expired",
    "evicted",
    "netIn",
    "netOut",
    "newConnections",
    "cpuUser",
    "cpuSys",
    "laneJobs",
    "lockParks",
];
/// The names of the levels in [`Counters::levels`], which a point keeps as they are.
pub(super) const LEVELS: [&str; 6] = ["used", "rss", "keys", "clients", "blocked", "laneWaiting"];
/// The names of a point's quantiles of the time of commands, in microseconds, and their shares.
pub(super) const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)];

/// The counters of a moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    /// The time (Unix, milliseconds).
    pub at_ms: i64,
    /// Counts since the start, by [`RATES`].
    pub rates: [f64; RATES.len()],
    /// Levels, by [`LEVELS`].
    pub levels: [f64; LEVELS.len()],
    /// Calls by family.
    pub calls: [u64; FAMILIES],
    /// The names of the families that were called.
    pub names: [Option<&'static str>; FAMILIES],
    /// Executions by duration: upper bounds in microseconds, with the number in each bucket.
    pub histogram: Vec<(f64, u64)>,
    /// The time that each worker was busy, in microseconds, where that is known.
    pub busy_us: Vec<u64>,
}

impl Counters {
    /// Reads a server's counters.
    pub fn read(&mut self, host: &dyn AdminHost) {
        let (engine, now) = (host.engine(), host.figures());
        let sum = |pick: fn(&ThreadTally) -> u64| engine.stats.tallies.sum_ever(pick) as f64;
        let Figures { memory, lane, clients, cpu_s: [user_s, system_s], workers, .. } = now;
        let all = (0..engine.space.database_count()).map(DbIndex);
        let keys: u64 = all.filter_map(|db| engine.space.sizes(db)).map(|sizes| sizes.keys()).sum();
        self.at_ms = unix_ms().0;
        self.rates = [
            sum(|tally| tally.keys.hits.get()),
            sum(|tally| tally.keys.misses.get()),
            sum(|tally| tally.keys.expired.get()),
            sum(|tally| tally.keys.evicted.get()),
            sum(|tally| tally.received_bytes.get()),
            sum(|tally| tally.sent_bytes.get()),
            sum(|tally| tally.accepted.get()),
            user_s,
            system_s,
            lane.jobs as f64,
            workers.iter().map(|worker| worker.lock_parks).sum::<u64>() as f64,
        ];
        let levels = [memory.used, memory.rss, keys, clients, engine.blocked.get(), lane.waiting];
        self.levels = levels.map(|level| level as f64);
        self.busy_us = workers.iter().map_while(|worker| worker.busy_us).collect();
        for family in engine.stats.tallies.families(&engine.registry) {
            self.add_family(family.group, family.calls, &family.histogram_us());
        }
    }

    /// CPU time since the start, in seconds.
    pub fn cpu_s(&self) -> f64 {
        RATES
            .iter()
            .zip(self.rates)
            .filter(|(name, _)| name.starts_with("cpu"))
            .map(|(_, s)| s)
            .sum()
    }

    fn add_family(&mut self, group: Group, calls: u64, histogram: &[(f64, u64)]) {
        let at = group as usize;
        debug_assert!(at < FAMILIES, "there are more families");
        if let (Some(of_family), Some(name)) = (self.calls.get_mut(at), self.names.get_mut(at)) {
            (*of_family, *name) = (calls, Some(group.name()));
        }
        if self.histogram.is_empty() {
            self.histogram = histogram.to_vec();
            return;
        }
        for ((_, all), (_, count)) in self.histogram.iter_mut().zip(histogram) {
            *all += count;
        }
    }
}

/// A number in 16 bits: the upper half of an `f32`. The default is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Short(u16);

impl Default for Short {
    fn default() -> Self {
        Short::new(f64::NAN)
    }
}

impl Short {
    pub fn new(number: f64) -> Short {
        let bits = (number as f32).to_bits();
        if number.is_nan() {
            return Short((bits >> 16) as u16 | 0x40);
        }
        // To the nearest; what is rounded beyond the largest number is infinite.
        Short((bits.saturating_add(0x8000) >> 16) as u16)
    }

    pub fn get(self) -> f64 {
        f64::from(f32::from_bits(u32::from(self.0) << 16))
    }
}

/// What has happened in the time up to `at_s`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// The end of that time (Unix, seconds).
    pub at_s: u32,
    /// Levels, by [`LEVELS`].
    pub levels: [f32; LEVELS.len()],
    /// Rates by second, by [`RATES`].
    pub rates: [Short; RATES.len()],
    /// Quantiles, by [`QUANTILES`].
    pub quantiles: [Short; QUANTILES.len()],
    /// Calls by second, by family.
    pub families: [Short; FAMILIES],
    /// The load of workers, in 255ths.
    pub loads: [u8; LOADS],
    /// How many of `loads` are known.
    pub load_count: u8,
}

impl Point {
    /// What has happened between two moments, of which the second is later.
    pub fn between(before: &Counters, now: &Counters) -> Point {
        let seconds = (now.at_ms - before.at_ms) as f64 / 1e3;
        let rate = |now: f64, before: f64| {
            // A counter that has fallen was set back.
            Short::new(if now < before { f64::NAN } else { (now - before) / seconds })
        };
        let (loads, load_count) = loads(&now.busy_us, &before.busy_us, seconds);
        let histogram: Vec<(f64, u64)> = match before.histogram.is_empty() {
            true => now.histogram.clone(),
            false => {
                let both = now.histogram.iter().zip(&before.histogram);
                both.map(|((upper, now), (_, then))| (*upper, now.saturating_sub(*then))).collect()
            }
        };
        Point {
            at_s: u32::try_from(now.at_ms / 1_000).unwrap_or(0),
            levels: now.levels.map(|level| level as f32),
            rates: std::array::from_fn(|at| rate(now.rates[at], before.rates[at])),
            quantiles: QUANTILES.map(|(_, share)| Short::new(quantile(&histogram, share))),
            families: std::array::from_fn(|at| rate(now.calls[at] as f64, before.calls[at] as f64)),
            loads,
            load_count,
        }
    }
}

/// The loads of workers between two moments, and how many there are.
fn loads(now_us: &[u64], before_us: &[u64], seconds: f64) -> ([u8; LOADS], u8) {
    let load = |(now, before): (&u64, &u64)| {
        let share = now.saturating_sub(*before) as f64 / 1e6 / seconds;
        (share.min(1.0) * 255.0).round() as u8
    };
    let mut all: Vec<u8> = now_us.iter().zip(before_us).map(load).collect();
    if all.len() > LOADS {
        all.sort_unstable();
        all = vec![all[0], all[all.len() / 2], all[all.len() - 1]];
    }
    let mut kept = [0; LOADS];
    kept[..all.len()].copy_from_slice(&all);
    (kept, all.len() as u8)
}

/// The bound below which a share of the executions lies, in microseconds; NaN without executions.
/// Within a bucket they are taken to lie evenly.
fn quantile(histogram: &[(f64, u64)], share: f64) -> f64 {
    let total: u64 = histogram.iter().map(|(_, count)| count).sum();
    if total == 0 {
        return f64::NAN;
    }
    let (wanted, mut seen, mut lower) = (share * total as f64, 0.0, 0.0);
    for &(upper, count) in histogram {
        let count = count as f64;
        if count > 0.0 && seen + count >= wanted {
            // The last bucket has no bound.
            let upper = if upper.is_finite() { upper } else { lower * 2.0 };
            return lower + (upper - lower) * (wanted - seen) / count;
        }
        (seen, lower) = (seen + count, upper);
    }
    lower
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_number_is_about_the_number() {
        for number in [0.0, 1.0, 3.25, 1e-3, 123_456.0, 7.7e9, 2.5e12] {
            let short = Short::new(number).get();
            assert!((short - number).abs() <= number / 250.0, "{number}: {short}");
        }
        assert!(Short::default().get().is_nan());
        assert!(Short::new(f64::INFINITY).get().is_infinite());
    }

    #[test]
    fn a_point_has_rates_by_second() {
        let before = Counters { at_ms: 10_000, ..Counters::default() };
        let mut now = Counters { at_ms: 12_000, levels: [3.0; 6], ..Counters::default() };
        now.rates = [64.0; 11];
        now.add_family(Group::List, 8, &[(1.0, 0), (2.0, 8), (f64::INFINITY, 0)]);
        now.busy_us = vec![1_000_000, 9_000_000];
        let mut point = Point::between(&Counters { busy_us: vec![0, 0], ..before }, &now);
        assert_eq!((point.at_s, point.levels[0], point.rates[5].get()), (12, 3.0, 32.0));
        assert_eq!(point.families[Group::List as usize].get(), 4.0);
        assert_eq!(point.quantiles[0].get(), 1.5, "in the middle of its bucket");
        assert_eq!((point.load_count, point.loads[0], point.loads[1]), (2, 128, 255));
        now.rates[0] = 1.0;
        point = Point::between(&now, &Counters { at_ms: 13_000, ..Counters::default() });
        assert!(point.rates[0].get().is_nan(), "it was set back");
    }

    #[test]
    fn of_many_workers_three_loads_are_kept() {
        let now: Vec<u64> = (0..20).map(|at| at * 50_000).collect();
        let (loads, count) = loads(&now, &[0; 20], 1.0);
        assert_eq!((count, loads[0], loads[1], loads[2]), (3, 0, 128, 242));
    }

    #[test]
    fn every_family_has_a_place() {
        assert_eq!(Group::Memcached as usize, FAMILIES - 1, "the last one");
    }
}
