//! Which records go when there is no room: one segment at a time, with no order kept anywhere.
//!
//! A record's hotness is two bits of its word. It goes up when the record is used, and a step down
//! when its segment ages; victims are taken at random among those at 0. A segment ages when too few
//! of its records are at 0. Three ways differ in where a record stands (`Way`):
//!
//! | way | a new record | one that comes back | a use | at 0 should be |
//! |---|---|---|---|---|
//! | recency | 2 | 2 | to the top | one in 20 |
//! | between | 1 | 2 | to the top | one in 40 |
//! | frequency | 0 | 1 | a step | one in 10 |
//!
//! Recency is a clock of four ages: what was not used in three of them goes. With frequency what is
//! new is on probation until it is used: so a scan goes through that tenth and leaves the rest
//! alone, and a loop larger than the cache keeps its share.
//!
//! *One that comes back* was evicted not long ago: segments remember that in slots that are free
//! (`segment/ghosts`). It means nothing while most of the new come back, as in a loop.
//!
//! [`First::Coldest`] goes the way with fewer misses, which a few tables find out for all (`duel`).
//!
//! At random and not in an order: in a segment there is none (places come from the hash), and an
//! order would let nothing of a loop survive. Measured beside LRU, LFU, S3-FIFO, SIEVE and the
//! optimum by `examples/hit_rate`.
//!
//! In a segment of few records a tenth is no number. There the share of zeroes is that of all
//! segments looked at lately ([`Lately`]), and a table of few goes by frequency.
//!
//! Invariants
//! - E1. Nothing sticky is handed out, and with `only_deadlines` nothing without a deadline.
//! - E2. One call looks at the words of one segment that has candidates, and reads the records of
//!   those only whose deadlines it compares.
//! - E3. What a way asks of inserting and using a record (its [`Habit`]) is in the table, so that
//!   neither reads anything that is shared.
//!
//! Not here: when there is no room, locks, who is told (the keyspace). Tests: `tests/eviction.rs`,
//! and what cannot be seen from there at the foot of these files.

mod candidates;
mod duel;
mod lately;

use std::ops::ControlFlow;

pub use lately::Lately;

use crate::directory::Entry;
use crate::group::prefetch;
use crate::hash::{PREFIX_BITS, position};
use crate::records::owned::OwnedRecord;
use crate::segment::{Ghost, Segment, home_of};
use crate::word::{HOTTEST, Word};
use crate::{Object, Table};
use candidates::{Candidates, Victims, is_candidate};
use duel::Way;

/// Records handed out by one call, at most.
pub const MOST_VICTIMS: usize = 32;

/// Which records go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// Those not used for longest.
    LeastRecent,
    /// Those used least.
    LeastFrequent,
    /// Those that the better of these two would take.
    Coldest,
    /// Any.
    Any,
    /// Those whose deadline is nearest.
    Nearest,
}

/// Which records may go, and which first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Which first.
    pub first: First,
    /// Only records with a deadline may go.
    pub only_deadlines: bool,
    /// Few are left that may go: a segment with few of them gives one each time.
    pub in_need: bool,
}

/// The tables that are evicted from in turn, and which of them this is.
#[derive(Clone, Copy, Debug)]
pub struct Among<'l> {
    /// What they share.
    pub lately: &'l Lately,
    /// The number of this one.
    pub number: usize,
}

impl Among<'_> {
    fn way(&self, first: First) -> Option<Way> {
        match first {
            First::LeastRecent => Some(Way::Recency),
            First::LeastFrequent => Some(Way::Frequency),
            First::Coldest => Some(self.lately.duel.way(self.number)),
            First::Any | First::Nearest => None,
        }
    }
}

/// What one call did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evicted {
    /// Records that may go and were looked at.
    pub candidates: usize,
    /// Records handed out.
    pub taken: usize,
}

/// What a way asks of a table between two turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Habit {
    /// Hotness of a new record.
    fresh: u8,
    /// Hotness of a new record that was evicted not long ago.
    returned: u8,
    /// How much hotter a use makes it.
    step: u8,
}

impl Habit {
    /// Where nothing was evicted by hotness.
    const NONE: Habit = Habit { fresh: 0, returned: 0, step: 1 };

    fn of(way: Option<Way>, lately: &Lately) -> Habit {
        match way {
            Some(Way::Recency) => {
                Habit { fresh: HOTTEST - 1, returned: HOTTEST - 1, step: HOTTEST }
            }
            Some(Way::Between) => Habit { fresh: 1, returned: 2, step: HOTTEST },
            Some(Way::Frequency) => {
                Habit { returned: u8::from(lately.is_return_rare()), ..Habit::NONE }
            }
            None => Habit::NONE,
        }
    }
}

/// Where a table stands between two turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// The prefix of the segment whose turn it is; any value is safe.
    hand: u32,
    /// New records since the last turn.
    added: u32,
    /// Those of them that had been evicted before.
    came_back: u16,
    /// Records have gone by their hotness.
    has_begun: bool,
    habit: Habit,
}

impl Standing {
    pub(crate) const START: Standing =
        Standing { hand: 0, added: 0, came_back: 0, has_begun: false, habit: Habit::NONE };

    /// Whether a new record is to be looked at ([`Table::welcome`]).
    #[inline]
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// How much hotter a use makes a record.
    #[inline]
    pub(crate) fn step(&self) -> u8 {
        self.habit.step
    }

    /// Hotness of a new record.
    pub(crate) fn fresh(&self) -> u8 {
        self.habit.fresh
    }
}

impl<O: Object> Table<O> {
    /// Hands out some records of the next segment that has candidates, until `out` breaks off. The
    /// caller tidies up after the keys it was given, as after any removal.
    pub fn evict(
        &mut self,
        choice: Choice,
        among: Among<'_>,
        random: &mut dyn FnMut(u64) -> u64,
        out: &mut dyn FnMut(OwnedRecord<O>) -> ControlFlow<()>,
    ) -> Evicted {
        let way = match among.way(choice.first) {
            Some(Way::Recency | Way::Between) if !self.ages_evenly() => Some(Way::Frequency),
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
            if out(self.disown(word)).is_break() {
                break;
            }
        }
        Evicted { candidates, taken }
    }

    /// Whether there are enough records that a segment's turn says something about each. In a
    /// smaller table a few ages may pass between two uses of what is used all the time: it always
    /// goes by frequency.
    fn ages_evenly(&self) -> bool {
        self.len >= candidates::FEW
    }

    /// Whether hotness tells, where eviction goes by recency, for how long a record was not used.
    pub fn tells_idleness(&self) -> bool {
        self.ages_evenly() || !self.eviction.has_begun
    }

    /// Tells what has come since the last turn, and how it is to be from now on.
    fn take_stock(&mut self, way: Option<Way>, among: Among<'_>) {
        let standing = &mut self.eviction;
        if standing.has_begun {
            let (added, came_back) = (standing.added as usize, usize::from(standing.came_back));
            among.lately.duel.note(among.number, self.len, added);
            among.lately.note_newcomers(came_back, added.max(came_back));
        }
        standing.has_begun = way.is_some();
        standing.habit = Habit::of(way, among.lately);
        (standing.added, standing.came_back) = (0, 0);
    }

    /// How hot a new record begins, in a segment that may remember it; it is not there yet.
    #[inline(never)]
    pub(crate) fn welcome(&mut self, segment: Segment, hash: u64, word: &mut Word) {
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

    /// The next segment with candidates, and who of them goes.
    fn choose(
        &mut self,
        choice: Choice,
        way: Option<Way>,
        among: Among<'_>,
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

    /// Where no segment has a candidate there may be strays.
    #[cold]
    fn evict_stray(
        &mut self,
        choice: Choice,
        out: &mut dyn FnMut(OwnedRecord<O>) -> ControlFlow<()>,
    ) -> Evicted {
        let strays = self.strays.as_deref_mut().map_or(&mut [][..], |strays| strays);
        let may_go = |word: Word| is_candidate(word, choice.only_deadlines);
        let found = strays.iter_mut().find(|stray| may_go(stray.word));
        let Some(slot) = found.map(|stray| std::ptr::from_mut(&mut stray.word)) else {
            return Evicted::default();
        };
        let place = self.place(slot, std::ptr::null_mut());
        let _one_is_enough = out(self.remove(place));
        Evicted { candidates: 1, taken: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There are no collections here.
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
        let lately = Lately::default();
        let number = (0..).find(|&number| lately.duel.way(number) == Way::Recency);
        let among = Among { lately: &lately, number: number.expect("there are such tables") };
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
        assert_eq!(lately.duel.way(0), Way::Frequency, "much is added to those that go by recency");
    }
}
