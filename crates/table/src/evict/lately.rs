//! Statistics of recent evictions, over all tables.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::duel::{Duel, Sampling, WAYS};

/// An exponentially weighted share, in 2^32ths. Concurrent updates may be lost.
#[derive(Debug, Default)]
struct Share(AtomicU32);

impl Share {
    fn is_below_one_in(&self, part: usize) -> bool {
        self.0.load(Ordering::Relaxed) < u32::MAX / part as u32
    }

    /// Adds an observation: `some` of `all`; the past weighs as much as `lately` observations.
    fn note(&self, some: usize, all: usize, lately: u32) {
        if all == 0 {
            return;
        }
        let lately = u64::from(lately);
        let share = u64::from(self.0.load(Ordering::Relaxed));
        let of_these = some as u64 * u64::from(u32::MAX) / all as u64;
        let weight = (all as u64).min(lately / 2);
        let next = (share * (lately - weight) + of_these * weight) / lately;
        self.0.store(next as u32, Ordering::Relaxed);
    }
}

/// How many records the share of those at hotness 0 averages over.
const RECORDS: u32 = 512;
/// How many new records the share of returning ones averages over.
const NEWCOMERS: u32 = 8_192;

/// Statistics shared by the tables that are evicted from in turn.
#[derive(Debug, Default)]
pub struct EvictionClock {
    /// The share of records at hotness 0, by policy; for segments that are too small to have a
    /// share of their own.
    zeroes: [Share; WAYS],
    /// The share of new records that had been evicted not long before.
    came_back: Share,
    /// Which policy has fewer misses.
    pub(super) duel: Duel,
    /// How often ageing has lowered a record by a step.
    aged: AtomicU64,
}

impl EvictionClock {
    pub(super) fn has_fewer_zeroes_than_one_in(&self, part: usize, way: Sampling) -> bool {
        self.zeroes[way as usize].is_below_one_in(part)
    }

    pub(super) fn note_zeroes(&self, zeroes: usize, records: usize, way: Sampling) {
        self.zeroes[way as usize].note(zeroes, records, RECORDS);
    }

    /// Whether a returning record means something: not when most return, as in a loop. Then each is
    /// as good as any other, and it is best to keep some of them and leave the rest alone.
    pub(super) fn is_return_rare(&self) -> bool {
        self.came_back.is_below_one_in(2)
    }

    pub(super) fn note_newcomers(&self, came_back: usize, newcomers: usize) {
        self.came_back.note(came_back, newcomers, NEWCOMERS);
    }

    pub(super) fn note_ageing(&self, records: usize) {
        self.aged.fetch_add(records as u64, Ordering::Relaxed);
    }

    /// How often ageing has lowered a record by a step, over all tables.
    pub fn aged(&self) -> u64 {
        self.aged.load(Ordering::Relaxed)
    }
}
