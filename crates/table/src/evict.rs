//! Which records go when there is no room: one segment at a time, with no order kept anywhere.
//!
//! A record's hotness is two bits of its word. It is 0 for a new record, a step more each time the
//! record is used, and a step less when its segment ages. Victims are taken at random among those
//! at 0, so what is new and not used again goes soon, and what is used stays until the segment has
//! aged below it. A segment ages when fewer than [`RESERVE`] of its records are at 0: so a scan
//! goes through that tenth and leaves the rest alone, a loop larger than the cache keeps its share,
//! and when popularity shifts the old goes as fast as the new is used.
//!
//! At random and not in an order: in a segment there is none (places come from the hash), and an
//! order would let nothing of a loop survive. Measured beside LRU, LFU, S3-FIFO, SIEVE and the
//! optimum by `examples/hit_rate`.
//!
//! In a segment of few records a tenth is no number. There the share of zeroes is that of all
//! segments looked at lately, which the caller keeps ([`Reserve`]).
//!
//! Invariants
//! - E1. Nothing sticky is handed out, and with `only_deadlines` nothing without a deadline.
//! - E2. One call looks at the words of one segment that has candidates, and reads the records of
//!   those only whose deadlines it compares.
//!
//! Not here: when there is no room, locks, who is told (the keyspace). Tests: `tests/eviction.rs`.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, Ordering};

use pantala_base::UnixMs;
use smallvec::SmallVec;

use crate::directory::Entry;
use crate::group::prefetch;
use crate::hash::PREFIX_BITS;
use crate::owned::OwnedRecord;
use crate::record::Record;
use crate::segment::Segment;
use crate::word::{HOTTEST, Word};
use crate::{Object, Table};

/// The part of a segment's candidates that should be at 0: the share of those on probation.
const RESERVE: usize = 10;
/// With fewer candidates than this in its segment, the share is that of all lately.
const FEW: usize = 64;
/// Of a segment's candidates at most this part goes before the next segment has its turn.
const PART: usize = 48;
/// With fewer candidates than this, a segment is sometimes left alone.
const SMALL_PART: u64 = 8;
/// Records handed out by one call, at most.
pub const MOST_VICTIMS: usize = 32;
/// How many records the share of all lately is about.
const LATELY: u32 = 512;

/// Which records go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// Those used least, lately.
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

/// The share of records at hotness 0 among those looked at lately, in 2^32ths: for segments too
/// small to have a share of their own. Threads that update it at once may lose an update.
#[derive(Debug, Default)]
pub struct Reserve(AtomicU32);

impl Reserve {
    fn is_short(&self) -> bool {
        self.0.load(Ordering::Relaxed) < u32::MAX / RESERVE as u32
    }

    fn note(&self, zeroes: usize, seen: usize) {
        let share = u64::from(self.0.load(Ordering::Relaxed));
        let of_these = zeroes as u64 * u64::from(u32::MAX) / seen as u64;
        let weight = (seen as u64).min(u64::from(LATELY) / 2);
        let rest = u64::from(LATELY) - weight;
        let next = (share * rest + of_these * weight) / u64::from(LATELY);
        self.0.store(next as u32, Ordering::Relaxed);
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

/// Where eviction stands in a table; any value is safe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EvictionHand(u32);

impl EvictionHand {
    pub(crate) const START: EvictionHand = EvictionHand(0);
}

/// Slots of the records that go, those of the stash first: a removal from a bucket may move an item
/// of the stash.
type Victims = SmallVec<[*mut Word; MOST_VICTIMS]>;

impl<O: Object> Table<O> {
    /// Hands out some records of the next segment that has candidates, until `out` breaks off. The
    /// caller tidies up after the keys it was given, as after any removal.
    pub fn evict(
        &mut self,
        choice: Choice,
        reserve: &Reserve,
        random: &mut dyn FnMut(u64) -> u64,
        out: &mut dyn FnMut(OwnedRecord<O>) -> ControlFlow<()>,
    ) -> Evicted {
        let Some((segment, victims, candidates)) = self.choose(choice, reserve, random) else {
            return self.evict_stray(choice, out);
        };
        self.outdate_places();
        for &slot in &victims {
            // SAFETY: S2: the slot is taken; see `Victims` for why it still is.
            prefetch(unsafe { *slot }.pointer());
        }
        let mut taken = 0;
        for slot in victims {
            let word = segment.remove(slot);
            taken += 1;
            if out(self.disown(word)).is_break() {
                break;
            }
        }
        Evicted { candidates, taken }
    }

    /// The next segment with candidates, and who of them goes.
    fn choose(
        &mut self,
        choice: Choice,
        reserve: &Reserve,
        random: &mut dyn FnMut(u64) -> u64,
    ) -> Option<(Segment, Victims, usize)> {
        for _ in 0..self.segments {
            let entry = self.next_segment()?;
            let segment = entry.segment();
            if segment.count() == 0 || choice.only_deadlines && segment.deadlines() == 0 {
                continue;
            }
            let candidates = Candidates { segment, only_deadlines: choice.only_deadlines };
            let (victims, count) = candidates.choose(choice, reserve, random);
            if count > 0 {
                return Some((segment, victims, count));
            }
        }
        None
    }

    fn next_segment(&mut self) -> Option<Entry> {
        let EvictionHand(at) = self.eviction_hand;
        let entry = self.directory.entry_of_prefix(at);
        if entry.is_empty() {
            return None;
        }
        let span = 1 << (PREFIX_BITS - entry.depth());
        let next = (at & !(span - 1)) + span;
        self.eviction_hand = EvictionHand(if next < 1 << PREFIX_BITS { next } else { 0 });
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

fn is_candidate(word: Word, only_deadlines: bool) -> bool {
    !word.is_sticky() && (word.has_deadline() || !only_deadlines)
}

/// The records of a segment that may go.
#[derive(Clone, Copy)]
struct Candidates {
    segment: Segment,
    only_deadlines: bool,
}

impl Candidates {
    fn each(self, mut each: impl FnMut(*mut Word)) {
        self.segment.for_each(|slot| {
            // SAFETY: S2.
            if is_candidate(unsafe { *slot }, self.only_deadlines) {
                each(slot);
            }
        });
    }

    /// Who goes, and how many there were to choose from.
    fn choose(
        self,
        choice: Choice,
        reserve: &Reserve,
        random: &mut dyn FnMut(u64) -> u64,
    ) -> (Victims, usize) {
        let mut levels = [0; HOTTEST as usize + 1];
        // SAFETY: S2.
        self.each(|slot| levels[usize::from(unsafe { *slot }.hotness())] += 1);
        let count: usize = levels.iter().sum();
        if count == 0 {
            return (Victims::new(), 0);
        }
        let wanted = (count / PART).clamp(1, MOST_VICTIMS);
        let rests = !choice.in_need && random(SMALL_PART) >= count as u64;
        let victims = match choice.first {
            First::Coldest if choice.in_need && count < FEW => self.least_hot(levels, random),
            First::Coldest => self.coldest(wanted, levels, reserve, random),
            // A small segment has its turn as often as a large one, but not each time a victim.
            First::Any | First::Nearest if rests => Victims::new(),
            First::Any => self.some(wanted, count, |_| true, random),
            First::Nearest => self.nearest(wanted),
        };
        (victims, count)
    }

    /// One of those that are least hot, however hot that is.
    fn least_hot(
        self,
        levels: [usize; HOTTEST as usize + 1],
        random: &mut dyn FnMut(u64) -> u64,
    ) -> Victims {
        let level = levels.iter().position(|&count| count > 0).unwrap_or(0);
        self.some(1, levels[level], |word| usize::from(word.hotness()) == level, random)
    }

    fn coldest(
        self,
        wanted: usize,
        levels: [usize; HOTTEST as usize + 1],
        reserve: &Reserve,
        random: &mut dyn FnMut(u64) -> u64,
    ) -> Victims {
        let count: usize = levels.iter().sum();
        let mut zeroes = levels[0];
        let mut steps = 0;
        if count >= FEW {
            while zeroes < (count / RESERVE).max(wanted) && steps < HOTTEST {
                steps += 1;
                zeroes += levels[usize::from(steps)];
            }
        } else if reserve.is_short() {
            steps = 1;
            zeroes += levels[1];
        }
        if steps > 0 {
            // SAFETY: S2.
            self.each(|slot| unsafe {
                (*slot).set_hotness((*slot).hotness().saturating_sub(steps));
            });
        }
        let wanted = wanted.min(zeroes);
        reserve.note(zeroes - wanted, count);
        self.some(wanted, zeroes, |word| word.hotness() == 0, random)
    }

    /// `wanted` at random of those `count` that `may_go`.
    fn some(
        self,
        wanted: usize,
        count: usize,
        may_go: impl Fn(Word) -> bool,
        random: &mut dyn FnMut(u64) -> u64,
    ) -> Victims {
        let (mut victims, mut left) = (Victims::new(), count);
        self.each(|slot| {
            // SAFETY: S2.
            if victims.len() == wanted || left == 0 || !may_go(unsafe { *slot }) {
                return;
            }
            if random(left as u64) < (wanted - victims.len()) as u64 {
                victims.push(slot);
            }
            left -= 1;
        });
        victims
    }

    /// Those `wanted` whose deadlines are nearest.
    fn nearest(self, wanted: usize) -> Victims {
        // SAFETY: S2.
        self.each(|slot| prefetch(unsafe { *slot }.pointer()));
        let mut all: Vec<(UnixMs, *mut Word)> = Vec::with_capacity(self.segment.count());
        self.each(|slot| {
            // SAFETY: S2: a taken slot owns a live record.
            if let Some(deadline) = unsafe { Record::of(*slot) }.deadline() {
                all.push((deadline, slot));
            }
        });
        if wanted < all.len() {
            all.select_nth_unstable(wanted);
            all.truncate(wanted);
        }
        // The stash lies after the buckets.
        all.sort_unstable_by_key(|&(_, slot)| std::cmp::Reverse(slot.addr()));
        all.into_iter().map(|(_, slot)| slot).collect()
    }
}
