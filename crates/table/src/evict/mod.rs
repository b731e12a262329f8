//! Which records are evicted: one segment at a time, with no order kept anywhere.
//!
//! A record's hotness is two bits of its word. It goes up when the record is used, and a step down
//! when its segment ages; victims are taken at random among those at 0. A segment ages when too few
//! of its records are at 0. Three policies (`Sampling`) differ in these numbers:
//!
//! | policy | a new record | a returning one | a use | at 0 should be |
//! |---|---|---|---|---|
//! | recency | 2 | 2 | to the top | one in 20 |
//! | between | 1 | 2 | to the top | one in 40 |
//! | frequency | 0 | 1 | a step | one in 10 |
//!
//! Recency is a clock of four ages: what was unused for three of them is evicted. With frequency a
//! new record is on probation until it is used: so a scan goes through that tenth and leaves the
//! rest alone, and a loop larger than the cache keeps its share.
//!
//! A *returning* record was evicted not long ago: segments remember evictions in slots that are
//! free (`segment/ghosts`). A return means nothing while most new records return, as in a loop.
//!
//! [`First::Coldest`] uses the policy with fewer misses, which a few tables find out for all
//! (`duel`).
//!
//! Victims are random because a segment has no order (places come from the hash), and an order
//! would let nothing of a loop survive. `examples/hit_rate` measures this beside LRU, LFU, S3-FIFO,
//! SIEVE and the optimum.
//!
//! In a segment of few records a tenth is not meaningful. There the share of zeroes is that of all
//! recent segments ([`EvictionClock`]), and a table of few records uses frequency.
//!
//! Invariants
//! - E1. Nothing sticky is handed out, and with `only_deadlines` nothing without a deadline.
//! - E2. One call looks at the words of one segment that has candidates, and reads the records of
//!   those only whose deadlines it compares.
//! - E3. What a policy needs for inserting and using a record (its [`PolicyNeeds`]) is in the
//!   table, so neither reads anything shared.
//!
//! Not here: when to evict, locks, notifications (the keyspace). Tests: `tests/eviction.rs`, and
//! what cannot be seen from there at the foot of these files.

mod candidates;
mod duel;
mod lately;

use std::ops::ControlFlow;

pub use lately::EvictionClock;

use crate::directory::Entry;
use crate::group::prefetch;
use crate::hash::{PREFIX_BITS, position};
use crate::records::owned::OwnedRecord;
use crate::segment::{Ghost, Segment, home_of};
use crate::word::{BucketWord, HOTTEST};
use crate::{Object, Table};
use candidates::{Candidates, Victims, is_candidate};
use duel::Sampling;

/// The most records that one call hands out.
pub const MOST_VICTIMS: usize = 32;

/// Which records are evicted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// The records unused for longest.
    LeastRecent,
    /// The least used records.
    LeastFrequent,
    /// What the better of these two would evict.
    Coldest,
    /// Any record.
    Any,
    /// The records with the nearest deadlines.
    Nearest,
}

/// Which records may be evicted, and in what order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The order.
    pub first: First,
    /// Only records with a deadline may be evicted.
    pub only_deadlines: bool,
    /// Few evictable records are left: a segment with few of them gives one each time.
    pub in_need: bool,
}

/// The group of tables that are evicted from in turn, and this table's place in it.
#[derive(Clone, Copy, Debug)]
pub struct TableTurn<'l> {
    /// The statistics that the group shares.
    pub lately: &'l EvictionClock,
    /// This table's number in the group.
    pub number: usize,
}

impl TableTurn<'_> {
    fn way(&self, first: First) -> Option<Sampling> {
        match first {
            First::LeastRecent => Some(Sampling::Recency),
            First::LeastFrequent => Some(Sampling::Frequency),
            First::Coldest => Some(self.lately.duel.way(self.number)),
            First::Any | First::Nearest => None,
        }
    }
}

/// The result of one call.
#[derive(Clone, Copy, Debug, Default)]
pub struct EvictionCount {
    /// Evictable records that were looked at.
    pub candidates: usize,
    /// Records that were handed out.
    pub taken: usize,
}

/// What a policy asks of a table between two turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PolicyNeeds {
    /// Hotness of a new record.
    fresh: u8,
    /// Hotness of a new record that was evicted not long ago.
    returned: u8,
    /// How much hotter a use makes it.
    step: u8,
}

impl PolicyNeeds {
    /// The habit of a table from which nothing was evicted by hotness.
    const NONE: PolicyNeeds = PolicyNeeds { fresh: 0, returned: 0, step: 1 };

    fn of(way: Option<Sampling>, lately: &EvictionClock) -> PolicyNeeds {
        match way {
            Some(Sampling::Recency) => {
                PolicyNeeds { fresh: HOTTEST - 1, returned: HOTTEST - 1, step: HOTTEST }
            }
            Some(Sampling::Between) => PolicyNeeds { fresh: 1, returned: 2, step: HOTTEST },
            Some(Sampling::Frequency) => {
                PolicyNeeds { returned: u8::from(lately.is_return_rare()), ..PolicyNeeds::NONE }
            }
            None => PolicyNeeds::NONE,
        }
    }
}

/// The eviction state of a table between two turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EvictionState {
    /// Prefix of the segment that is next; any value is safe.
    hand: u32,
    /// Records added since the last turn.
    added: u32,
    /// How many of them had been evicted before.
    came_back: u16,
    /// Whether records have been evicted by hotness.
    has_begun: bool,
    habit: PolicyNeeds,
}

impl EvictionState {
    pub(crate) const START: EvictionState = EvictionState {
        hand: 0,
        added: 0,
        came_back: 0,
        has_begun: false,
        habit: PolicyNeeds::NONE,
    };

    /// Whether inserting must call [`Table::welcome`].
    #[inline]
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// By how much a use raises the hotness.
    #[inline]
    pub(crate) fn step(&self) -> u8 {
        self.habit.step
    }

    /// Initial hotness of a new record.
    pub(crate) fn fresh(&self) -> u8 {
        self.habit.fresh
    }
}

impl<O: Object> Table<O> {
    /// Hands out records of the next segment that has candidates, until `out` breaks off. The
    /// caller calls [`Table::tidy_after_remove`] for the keys it was given, as after any removal.
    pub fn evict(
        &mut self,
        choice: Choice,
        among: TableTurn<'_>,
        random: &mut dyn FnMut(u64) -> u64,
        out: &mut dyn FnMut(OwnedRecord<O>) -> ControlFlow<()>,
    ) -> EvictionCount {
        let way = match among.way(choice.first) {
            Some(Sampling::Recency | Sampling::Between) if !self.ages_evenly() => {
                Some(Sampling::Frequency)
            }
            way => way,
        };
        self.take_stock(way, among);
        let Some((segment, victims, candidates)) = self.choose(choice, way, among, random) else {
            return self.evict_stray(choice, out);
        };
        self.outdate_places();
        for &slot in &victims {
            // SAFETY: S2: the slot is taken; see `Victims` for why it still is.
            prefetch(unsafe { *slot }.pointer());
        }
        let mut taken = 0;
        for slot in victims {
            let (home, ghost) = segment.ghost_of_slot(slot);
            let word = segment.remove(slot);
            if way.is_some() {
                segment.remember(home, ghost);
            }
            taken += 1;
            debug_assert!(is_candidate(word, choice.only_deadlines), "E1: it may go");
            if out(self.disown(word)).is_break() {
                break;
            }
        }
        debug_assert!(taken <= candidates && taken <= MOST_VICTIMS, "they were looked at");
        EvictionCount { candidates, taken }
    }

    /// Whether the table has enough records for a segment's turn to tell something about each. In a
    /// smaller table several ages may pass between two uses of a record in constant use: it always
    /// uses frequency.
    fn ages_evenly(&self) -> bool {
        self.len >= candidates::FEW
    }

    /// Whether hotness tells how long a record was unused, where eviction uses recency.
    pub fn tells_idleness(&self) -> bool {
        self.ages_evenly() || !self.eviction.has_begun
    }

    /// Reports what was added since the last turn, and sets the habit until the next.
    fn take_stock(&mut self, way: Option<Sampling>, among: TableTurn<'_>) {
        let standing = &mut self.eviction;
        if standing.has_begun {
            let (added, came_back) = (standing.added as usize, usize::from(standing.came_back));
            among.lately.duel.note(among.number, self.len, added);
            among.lately.note_newcomers(came_back, added.max(came_back));
        }
        standing.has_begun = way.is_some();
        standing.habit = PolicyNeeds::of(way, among.lately);
        (standing.added, standing.came_back) = (0, 0);
    }

    /// Sets the initial hotness of a record that is about to be inserted, higher if the segment
    /// remembers it.
    #[inline(never)]
    pub(crate) fn welcome(&mut self, segment: Segment, hash: u64, word: &mut BucketWord) {
        let position = position(hash);
        let ghost = Ghost::of(*word, position as u8);
        let standing = &mut self.eviction;
        standing.added = standing.added.saturating_add(1);
        let hotness = match segment.recall(home_of(position, segment.homes()), ghost) {
            true => {
                standing.came_back = standing.came_back.saturating_add(1);
                standing.habit.returned
            }
            false => standing.habit.fresh,
        };
        word.set_hotness(word.hotness().max(hotness));
    }

    /// The next segment with candidates, and the victims in it.
    fn choose(
        &mut self,
        choice: Choice,
        way: Option<Sampling>,
        among: TableTurn<'_>,
        random: &mut dyn FnMut(u64) -> u64,
    ) -> Option<(Segment, Victims, usize)> {
        for _ in 0..self.segments {
            let entry = self.next_segment()?;
            let segment = entry.segment();
            if segment.count() == 0 || choice.only_deadlines && segment.deadlines() == 0 {
                continue;
            }
            let candidates = Candidates { segment, only_deadlines: choice.only_deadlines };
            let (victims, count) = candidates.choose(choice, way, among, random);
            if count > 0 {
                return Some((segment, victims, count));
            }
        }
        None
    }

    fn next_segment(&mut self) -> Option<Entry> {
        let at = self.eviction.hand;
        let entry = self.directory.entry_of_prefix(at);
        if entry.is_empty() {
            return None;
        }
        let span = 1 << (PREFIX_BITS - entry.depth());
        let next = (at & !(span - 1)) + span;
        self.eviction.hand = if next < 1 << PREFIX_BITS { next } else { 0 };
        Some(entry)
    }

    /// Evicts a stray, where no segment has a candidate.
    #[cold]
    fn evict_stray(
        &mut self,
        choice: Choice,
        out: &mut dyn FnMut(OwnedRecord<O>) -> ControlFlow<()>,
    ) -> EvictionCount {
        let strays = self.strays.as_deref_mut().map_or(&mut [][..], |strays| strays);
        let may_go = |word: BucketWord| is_candidate(word, choice.only_deadlines);
        let found = strays.iter_mut().find(|stray| may_go(stray.word));
        let Some(slot) = found.map(|stray| std::ptr::from_mut(&mut stray.word)) else {
            return EvictionCount::default();
        };
        let place = self.place(slot, std::ptr::null_mut());
        let _one_is_enough = out(self.remove(place));
        EvictionCount { candidates: 1, taken: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The collection type of these tests, which have no collections.
    enum Nothing {}

    impl Object for Nothing {
        fn type_tag(&self) -> u8 {
            match *self {}
        }

        fn heap_bytes(&self) -> usize {
            match *self {}
        }
    }

    fn hash_of(key: &[u8]) -> u64 {
        key.iter()
            .fold(7, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    #[test]
    fn what_comes_and_is_gone_before_the_next_turn_was_added_all_the_same() {
        let mut table = Table::<Nothing>::new();
        let lately = EvictionClock::default();
        let number = (0..).find(|&number| lately.duel.way(number) == Sampling::Recency);
        let among = TableTurn { lately: &lately, number: number.expect("there are such tables") };
        let choice = Choice { first: First::Coldest, only_deadlines: false, in_need: false };
        for turn in 0..200_u32 {
            for number in 0..4_u32 {
                let key = [turn.to_le_bytes(), number.to_le_bytes()].concat();
                let hash = hash_of(&key);
                while table.insert_string(hash, &key, b"", None).is_err() {
                    table.make_room(hash, pantala_base::UnixMs(0), &mut hash_of, &mut drop);
                }
                if table.len() > 100 {
                    let place = table.find(hash, &key).expect("it is there");
                    table.remove(place);
                }
            }
            table.evict(choice, among, &mut |bound| bound / 2, &mut |_| ControlFlow::Break(()));
        }
        assert_eq!(
            lately.duel.way(0),
            Sampling::Frequency,
            "much is added to those that go by recency"
        );
    }
}
