//! Active defragmentation: a thread that moves what lies in mostly empty pages.
//!
//! From time to time it checks how much memory jemalloc's pages hold unused. If that is more than
//! `active-defrag-ignore-bytes` and `-threshold-lower`, it goes through the whole keyspace once and
//! reallocates what lies in sparse slabs (`keyspace::whole::renewal`, `memory::SparseSlabs`), with
//! a share
//! of one core between `-cycle-min` and `-cycle-max`: `-cycle-us` of work, then a pause.
//!
//! What is wasted elsewhere (buffers of clients, pages with a block in some thread's cache) cannot
//! be moved. So after a walk that has moved next to nothing it does not begin again until more is
//! wasted than then.
//!
//! Tests: `compat/bad_days/scenarios/memory.py`, and at the foot.

use std::sync::Arc;
use std::time::Duration;

use pantala_base::clock::monotonic_us;
use pantala_engine::stats::tallies::ThreadTally;
use pantala_keyspace::{RenewalResult, RenewalWalk};
use pantala_memory::SparseSlabs;
use pantala_settings::Settings;

use crate::shared::Shared;

/// The interval of checks while memory use changes; while it does not, up to the longer one.
const LOOK: Duration = Duration::from_secs(1);
const RAREST_LOOK: Duration = Duration::from_secs(10);
/// How often the share of a core is computed again during a walk.
const WEIGH_EVERY_US: u64 = 100_000;
/// The shortest work between two pauses, in microseconds.
const SHORTEST_WORK_US: u64 = 50;
/// A walk that has moved less than this fraction (1/100) of what it has looked at was in vain.
const WORTH_PART: u64 = 100;
/// How much more must be wasted after a walk in vain: this fraction (1/10), and at least so many
/// bytes.
const MORE_PART: u64 = 10;
const MORE_BYTES: u64 = 1 << 20;

/// Unused memory in jemalloc's pages.
#[derive(Clone, Copy)]
struct Waste {
    bytes: u64,
    percent: u64,
}

impl Waste {
    fn now() -> Option<Waste> {
        let report = pantala_memory::report()?;
        let bytes = report.active.saturating_sub(report.allocated);
        Some(Waste { bytes, percent: bytes * 100 / report.allocated.max(1) })
    }

    /// Whether a walk is worthwhile.
    fn is_too_much(self, settings: &Settings) -> bool {
        settings.activedefrag
            && self.bytes >= settings.active_defrag_ignore_bytes
            && self.percent >= u64::from(settings.active_defrag_threshold_lower)
    }

    /// The share of a core to use, in percent.
    fn share(self, settings: &Settings) -> u64 {
        let lower = u64::from(settings.active_defrag_threshold_lower);
        let upper = u64::from(settings.active_defrag_threshold_upper).max(lower + 1);
        let least = u64::from(settings.active_defrag_cycle_min);
        let most = u64::from(settings.active_defrag_cycle_max).max(least);
        let above = self.percent.clamp(lower, upper) - lower;
        least + (most - least) * above / (upper - lower)
    }
}

/// The main loop of the thread.
pub fn defragment(shared: &Arc<Shared>) {
    let tally = shared.engine.stats.tallies.join();
    if let Some(mut slabs) = SparseSlabs::for_this_thread() {
        let shutdown = &shared.engine.condition.shutdown;
        let (mut allocated, mut nap, mut enough) = (0, LOOK, 0);
        while !shutdown.pause_for(nap) {
            let now = pantala_memory::allocated();
            nap = if now == allocated { (2 * nap).min(RAREST_LOOK) } else { LOOK };
            allocated = now;
            if !shared.engine.settings.current().activedefrag {
                enough = 0;
                continue;
            }
            let Some(waste) = Waste::now() else { break };
            if waste.bytes >= enough && waste.is_too_much(&shared.engine.settings.current()) {
                enough = walk(shared, &tally, &mut slabs);
                nap = LOOK;
            }
        }
    }
    pantala_memory::release_seat();
}

/// Walks through the keyspace once; returns how many bytes must be wasted before the next walk.
fn walk(shared: &Shared, tally: &ThreadTally, slabs: &mut SparseSlabs) -> u64 {
    let began_us = monotonic_us();
    tally.defrag_since_us.set(began_us);
    let (mut walk, mut all) = (RenewalWalk::default(), RenewalResult::default());
    let (mut weighed_us, mut share) = (0, 1);
    loop {
        let settings = shared.engine.settings.current();
        let from_us = monotonic_us();
        if from_us - weighed_us >= WEIGH_EVERY_US {
            weighed_us = from_us;
            share = Waste::now().map_or(1, |waste| waste.share(&settings));
            tally.defrag_percent.set(share);
        }
        let most_us = u64::from(settings.active_defrag_cycle_us).max(SHORTEST_WORK_US);
        let mut renewed = RenewalResult::default();
        let has_more = loop {
            if !shared.engine.space.renew(&mut walk, &mut |block| slabs.has(block), &mut renewed) {
                break false;
            }
            if monotonic_us() - from_us >= most_us {
                break true;
            }
        };
        count(tally, renewed);
        all.blocks_moved += renewed.blocks_moved;
        all.blocks_left += renewed.blocks_left;
        let worked_us = monotonic_us() - from_us;
        let rest = Duration::from_micros(worked_us * (100 - share) / share.max(1));
        let is_over = !has_more || !settings.activedefrag;
        if is_over || shared.engine.condition.shutdown.pause_for(rest) {
            break;
        }
    }
    tally.defrag_percent.set(0);
    tally.defrag_since_us.set(0);
    tally.defrag_us.add(monotonic_us() - began_us);
    if all.blocks_moved * WORTH_PART >= all.blocks_moved + all.blocks_left {
        return 0;
    }
    let wasted = Waste::now().map_or(0, |waste| waste.bytes);
    wasted + wasted / MORE_PART + MORE_BYTES
}

fn count(tally: &ThreadTally, renewed: RenewalResult) {
    tally.blocks_moved.add(renewed.blocks_moved);
    tally.blocks_left.add(renewed.blocks_left);
    tally.keys_moved.add(renewed.keys_moved);
    tally.keys_left.add(renewed.keys_left);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_a_core_grows_with_what_is_wasted() {
        let settings = Settings::defaults();
        let share = |percent| Waste { bytes: 1 << 30, percent }.share(&settings);
        assert_eq!([0, 10, 55, 100, 900].map(share), [1, 1, 13, 25, 25]);
        let worth = |bytes, percent| Waste { bytes, percent }.is_too_much(&settings);
        let limit = settings.active_defrag_ignore_bytes;
        assert!(worth(limit, 10) && !worth(limit - 1, 90) && !worth(1 << 40, 9));
        let mut odd = Settings::defaults();
        (odd.active_defrag_threshold_upper, odd.active_defrag_cycle_min) = (0, 60);
        assert_eq!(Waste { bytes: 1, percent: 50 }.share(&odd), 60);
    }
}
