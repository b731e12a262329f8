//! Ways to choose who goes, and which of them has fewer misses.
//!
//! *Recency* puts a new record high, so that it goes only when it was not used for long: best where
//! what is popular changes. *Frequency* puts it lowest: best where it stays, and where a scan or a
//! loop passes. What the requests are like cannot be seen from a record, but the result can: of
//! every [`EVERY`] tables one always goes by recency and one by frequency, and all others follow
//! the one to which fewer records are added, as in a cache that is where less is missed. ("Set
//! dueling": Qureshi and others, ISCA 2007; Jaleel and others, ISCA 2010.)
//!
//! A wrong decision is soon put right, but what it has cost comes back slowly: frequency needs to
//! have seen many uses. So until one side leads clearly ([`CLEAR_LEAD`]) the others go a way
//! *between*, which is never far behind the better one.
//!
//! Keys are spread evenly over tables, and all tables have their turn equally often, so the two
//! sides are asked for equally much. What an application deletes is deleted on both sides. A side
//! must not win because it holds more: where records go in proportion to what there is, it cannot;
//! in small tables, from which a record goes only when one is at 0, the fuller side ages faster.
//!
//! Tests: at the foot of this file; `tests/eviction.rs`.

use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};

/// One table of so many goes always the same way, for each way.
const EVERY: usize = 16;
const BY_RECENCY: usize = 3;
const BY_FREQUENCY: usize = 11;
/// A side with so many records fewer has won: about two standard deviations of what chance makes of
/// 8,000 additions on each side, and a tenth of their difference where one way is much better.
const CLEAR_LEAD: i32 = 1 << 8;
/// The score goes no further, so that it can come back when requests change.
const MOST: i32 = 4 * CLEAR_LEAD;

/// How it is chosen who goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Those not used for longest.
    Recency,
    /// Those not used for long, and what is new and not used soon.
    Between,
    /// Those used least.
    Frequency,
}

/// How many ways there are.
pub(crate) const WAYS: usize = 3;

/// Tables that the mean of what a side holds is about.
const LATELY: i64 = 256;
/// Parts of a record in that mean.
const PARTS: i64 = 1 << 20;

/// How it stands. Threads that update it at once may lose an update.
#[derive(Debug, Default)]
pub(crate) struct Duel {
    /// How many more records were added to tables that always go by recency than to those that
    /// always go by frequency.
    score: AtomicI32,
    /// How many records a table of each side holds, in [`PARTS`].
    held: [AtomicI64; WAYS],
}

/// The way that a table always goes, if it is one of those.
fn fixed_way(number: usize) -> Option<Way> {
    match number % EVERY {
        BY_RECENCY => Some(Way::Recency),
        BY_FREQUENCY => Some(Way::Frequency),
        _ => None,
    }
}

impl Duel {
    /// How the table with this number chooses.
    pub(crate) fn way(&self, number: usize) -> Way {
        fixed_way(number).unwrap_or_else(|| match self.score.load(Ordering::Relaxed) {
            CLEAR_LEAD.. => Way::Frequency,
            score if score <= -CLEAR_LEAD => Way::Recency,
            _ => Way::Between,
        })
    }

    /// The table with this number holds so many records, and so many were added to it since its
    /// last turn.
    pub(crate) fn note(&self, number: usize, held: usize, added: usize) {
        let Some(way) = fixed_way(number) else { return };
        let added = i32::try_from(added).unwrap_or(MOST).min(MOST);
        let change = if way == Way::Recency { added } else { -added };
        let score = self.score.load(Ordering::Relaxed) + change;
        self.score.store(score.clamp(-MOST, MOST), Ordering::Relaxed);
        let mean = self.held[way as usize].load(Ordering::Relaxed);
        let held = i64::from(u32::try_from(held).unwrap_or(u32::MAX)) * PARTS;
        self.held[way as usize].store(mean + (held - mean) / LATELY, Ordering::Relaxed);
    }

    /// Whether the table with this number always goes one way, and the tables that do so hold more
    /// than those of the other side.
    pub(crate) fn is_fuller(&self, number: usize) -> bool {
        let held = |way: Way| self.held[way as usize].load(Ordering::Relaxed);
        match fixed_way(number) {
            Some(Way::Recency) => held(Way::Recency) > held(Way::Frequency),
            Some(Way::Frequency) => held(Way::Frequency) > held(Way::Recency),
            Some(Way::Between) | None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways(duel: &Duel) -> [usize; WAYS] {
        let count = |wanted| (0..1024).filter(|&number| duel.way(number) == wanted).count();
        [Way::Recency, Way::Between, Way::Frequency].map(count)
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
        assert_eq!(duel.way(0), Way::Between);
        duel.note(BY_RECENCY, 0, CLEAR);
        assert_eq!(duel.way(0), Way::Frequency);
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
