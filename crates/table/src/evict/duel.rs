//! Set dueling: finds the eviction policy with fewer misses.
//!
//! *Recency* inserts a new record with high hotness, so it leaves only after it was unused for
//! long: best where popularity changes. *Frequency* inserts it at the lowest: best where popularity
//! is stable, and where a scan or a loop passes. A record does not show which pattern the requests
//! have, but the result does: of every [`EVERY`] tables one always uses recency and one frequency,
//! and all others follow the policy under which fewer records are added, which in a cache means
//! fewer misses. ("Set dueling": Qureshi and others, ISCA 2007; Jaleel and others, ISCA 2010.)
//!
//! A wrong decision is soon corrected, but what it cost comes back slowly: frequency needs to have
//! seen many uses. So until one side leads clearly ([`CLEAR_LEAD`]) the other tables use a policy
//! *between* the two, which is never far behind the better one.
//!
//! Keys are spread evenly over tables, and all tables have their turn equally often, so both sides
//! receive equally many requests. What an application deletes is deleted on both sides. A side must
//! not win because it holds more records: where eviction is in proportion to the records held, it
//! cannot; in small tables, which evict only a record at hotness 0, the fuller side ages faster.
//!
//! Tests: at the foot of this file; `tests/eviction.rs`.

use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};

/// Of this many tables, one always uses recency and one always frequency.
const EVERY: usize = 16;
const BY_RECENCY: usize = 3;
const BY_FREQUENCY: usize = 11;
/// A lead of this many records decides: about two standard deviations of what chance makes of 8,000
/// additions on each side, and a tenth of the difference where one policy is much better.
const CLEAR_LEAD: i32 = 1 << 8;
/// The score stops here, so that it can return when the requests change.
const MOST: i32 = 4 * CLEAR_LEAD;

/// An eviction policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sampling {
    /// Evicts the records that were unused for longest.
    Recency,
    /// Evicts records that were unused for long, and new ones that are not used soon.
    Between,
    /// Evicts the least used records.
    Frequency,
}

/// The number of policies.
pub(crate) const WAYS: usize = 3;

/// The weight of the past in the mean of what a side holds, in tables.
const LATELY: i64 = 256;
/// Fixed-point scale of that mean: parts per record.
const PARTS: i64 = 1 << 20;

/// The state of the duel. Concurrent updates may be lost.
#[derive(Debug, Default)]
pub(crate) struct Duel {
    /// How many more records were added to tables that always go by recency than to those that
    /// always go by frequency.
    score: AtomicI32,
    /// The mean number of records that a table of each side holds, in [`PARTS`].
    held: [AtomicI64; WAYS],
}

/// The policy of a table that always uses the same one; `None`: it follows the winner.
fn fixed_way(number: usize) -> Option<Sampling> {
    match number % EVERY {
        BY_RECENCY => Some(Sampling::Recency),
        BY_FREQUENCY => Some(Sampling::Frequency),
        _ => None,
    }
}

impl Duel {
    /// The policy that the table with this number uses now.
    pub(crate) fn way(&self, number: usize) -> Sampling {
        fixed_way(number).unwrap_or_else(|| match self.score.load(Ordering::Relaxed) {
            CLEAR_LEAD.. => Sampling::Frequency,
            score if score <= -CLEAR_LEAD => Sampling::Recency,
            _ => Sampling::Between,
        })
    }

    /// Reports that the table with this number holds `held` records and got `added` since its last
    /// turn.
    pub(crate) fn note(&self, number: usize, held: usize, added: usize) {
        let Some(way) = fixed_way(number) else { return };
        let added = i32::try_from(added).unwrap_or(MOST).min(MOST);
        let change = if way == Sampling::Recency { added } else { -added };
        let score = self.score.load(Ordering::Relaxed) + change;
        self.score.store(score.clamp(-MOST, MOST), Ordering::Relaxed);
        let mean = self.held[way as usize].load(Ordering::Relaxed);
        let held = i64::from(u32::try_from(held).unwrap_or(u32::MAX)) * PARTS;
        self.held[way as usize].store(mean + (held - mean) / LATELY, Ordering::Relaxed);
    }

    /// Whether the table with this number always uses one policy, and the tables of that side hold
    /// more records than those of the other side.
    pub(crate) fn is_fuller(&self, number: usize) -> bool {
        let held = |way: Sampling| self.held[way as usize].load(Ordering::Relaxed);
        match fixed_way(number) {
            Some(Sampling::Recency) => held(Sampling::Recency) > held(Sampling::Frequency),
            Some(Sampling::Frequency) => held(Sampling::Frequency) > held(Sampling::Recency),
            Some(Sampling::Between) | None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways(duel: &Duel) -> [usize; WAYS] {
        let count = |wanted| (0..1024).filter(|&number| duel.way(number) == wanted).count();
        [Sampling::Recency, Sampling::Between, Sampling::Frequency].map(count)
    }

    const CLEAR: usize = CLEAR_LEAD as usize;

    #[test]
    fn all_follow_the_side_to_which_clearly_less_is_added() {
        let duel = Duel::default();
        assert_eq!(ways(&duel), [64, 896, 64]);
        duel.note(BY_FREQUENCY, 0, CLEAR + 9);
        assert_eq!(ways(&duel), [960, 0, 64]);
        duel.note(BY_RECENCY + EVERY, 0, 10);
        assert_eq!(ways(&duel), [64, 896, 64]);
        duel.note(BY_RECENCY, 0, 2 * CLEAR - 2);
        duel.note(0, 0, 5_000);
        assert_eq!(ways(&duel), [64, 896, 64], "others do not count");
        duel.note(BY_RECENCY, 0, 1);
        assert_eq!(ways(&duel), [64, 0, 960]);
    }

    #[test]
    fn a_long_lead_is_soon_gone() {
        let duel = Duel::default();
        (0..100).for_each(|_| duel.note(BY_FREQUENCY, 0, usize::MAX));
        duel.note(BY_RECENCY, 0, MOST as usize);
        assert_eq!(duel.way(0), Sampling::Between);
        duel.note(BY_RECENCY, 0, CLEAR);
        assert_eq!(duel.way(0), Sampling::Frequency);
    }

    #[test]
    fn the_side_that_holds_more_is_known() {
        let duel = Duel::default();
        let fuller = || [BY_RECENCY, BY_FREQUENCY, 0].map(|number| duel.is_fuller(number));
        assert_eq!(fuller(), [false; 3]);
        duel.note(BY_RECENCY, 20, 0);
        assert_eq!(fuller(), [true, false, false]);
        (0..2).for_each(|_| duel.note(BY_FREQUENCY, 19, 0));
        assert_eq!(fuller(), [false, true, false]);
    }
}
