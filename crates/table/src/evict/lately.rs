//! What eviction has seen lately, in all tables together.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::duel::{Duel, WAYS, Way};

/// A share of what was seen lately, in 2^32ths. Threads that update it at once may lose an update.
#[derive(Debug, Default)]
struct Share(AtomicU32);

impl Share {
    fn is_below_one_in(&self, part: usize) -> bool {
        self.0.load(Ordering::Relaxed) < u32::MAX / part as u32
    }

    /// `some` of `all` it was this time; what was before weighs as much as `lately`.
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

/// How many records the share of those at hotness 0 is about.
const RECORDS: u32 = 512;
/// How many new records the share of those that come back is about.
const NEWCOMERS: u32 = 8_192;

/// What all tables that are evicted from in turn share.
#[derive(Debug, Default)]
pub struct Lately {
    /// Records at hotness 0, among those of tables that go one way; for segments that are too
    /// small to have a share of their own.
    zeroes: [Share; WAYS],
    /// New records that had been evicted not long before.
    came_back: Share,
    /// Which way has fewer misses.
    pub(super) duel: Duel,
    /// Records lowered by ageing, each as often as it was.
    aged: AtomicU64,
}

impl Lately {
    pub(super) fn has_fewer_zeroes_than_one_in(&self, part: usize, way: Way) -> bool {
        self.zeroes[way as usize].is_below_one_in(part)
    }

    pub(super) fn note_zeroes(&self, zeroes: usize, records: usize, way: Way) {
        self.zeroes[way as usize].note(zeroes, records, RECORDS);
    }

    /// Whether it means something that a record comes back: not when most do, as in a loop. Then
    /// each is as good as any other, and it is best to keep some of them and leave the rest alone.
    pub(super) fn is_return_rare(&self) -> bool {
        self.came_back.is_below_one_in(2)
    }

    pub(super) fn note_newcomers(&self, came_back: usize, newcomers: usize) {
        self.came_back.note(came_back, newcomers, NEWCOMERS);
    }

    pub(super) fn note_ageing(&self, records: usize) {
        self.aged.fetch_add(records as u64, Ordering::Relaxed);
    }

    /// How many records ageing has lowered by a step, in all; a record counts as often as it was.
    pub fn aged(&self) -> u64 {
        self.aged.load(Ordering::Relaxed)
    }
}
