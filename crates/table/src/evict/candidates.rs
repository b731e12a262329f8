//! The records of one segment that may be evicted, and the choice of victims among them.

use pantala_base::UnixMs;
use smallvec::SmallVec;

use super::duel::Sampling;
use super::{Choice, First, MOST_VICTIMS, TableTurn};
use crate::group::prefetch;
use crate::records::record::Record;
use crate::segment::{MOST_SLOTS, Segment};
use crate::word::{BucketWord, HOTTEST};

/// With fewer candidates than this in its segment, the share of cold records is taken from recent
/// turns of all segments.
pub(super) const FEW: usize = 64;
/// At most one in this many candidates of a segment is evicted before the next segment's turn.
const PART: usize = 24;
/// With fewer candidates than this, a segment is sometimes skipped.
const SMALL_PART: u64 = 8;

/// Slots of the records to evict, those of the stash first: a removal from a bucket may move an
/// item of the stash.
pub(super) type Victims = SmallVec<[*mut BucketWord; MOST_VICTIMS]>;

/// The number of records at each hotness, 16 bits a count: while counting, the sums stay in one
/// register.
#[derive(Clone, Copy, Default)]
struct Levels(u64);

const _: () = assert!(MOST_SLOTS < 1 << 16 && HOTTEST < 4, "counts have room");

impl Levels {
    fn add(&mut self, word: BucketWord) {
        self.0 += 1 << (16 * u32::from(word.hotness()));
    }

    /// The number of records at this hotness.
    fn at(self, hotness: u8) -> usize {
        usize::from((self.0 >> (16 * u32::from(hotness))) as u16)
    }

    /// The number of all records.
    fn sum(self) -> usize {
        (0..=HOTTEST).map(|hotness| self.at(hotness)).sum()
    }
}

impl Sampling {
    /// Of the candidates of a segment, one in this many should be at hotness 0.
    fn reserve(self) -> usize {
        match self {
            Sampling::Recency => 20,
            Sampling::Between => 40,
            Sampling::Frequency => 10,
        }
    }
}

pub(super) fn is_candidate(word: BucketWord, only_deadlines: bool) -> bool {
    !word.is_sticky() && (word.has_deadline() || !only_deadlines)
}

/// The evictable records of a segment.
#[derive(Clone, Copy)]
pub(super) struct Candidates {
    pub(super) segment: Segment,
    pub(super) only_deadlines: bool,
}

impl Candidates {
    fn each(self, mut each: impl FnMut(*mut BucketWord)) {
        self.segment.for_each(|slot| {
            // SAFETY: S2.
            if is_candidate(unsafe { *slot }, self.only_deadlines) {
                each(slot);
            }
        });
    }

    /// The records to evict, and the number of candidates they were chosen from.
    pub(super) fn choose(
        self,
        choice: Choice,
        way: Option<Sampling>,
        among: TableTurn<'_>,
        random: &mut dyn FnMut(u64) -> u64,
    ) -> (Victims, usize) {
        let mut levels = Levels::default();
        // SAFETY: S2.
        self.each(|slot| levels.add(unsafe { *slot }));
        let count = levels.sum();
        if count == 0 {
            return (Victims::new(), 0);
        }
        let wanted = (count / PART).clamp(1, MOST_VICTIMS);
        let rests = !choice.in_need && random(SMALL_PART) >= count as u64;
        let victims = match way {
            Some(_) if choice.in_need && count < FEW => self.least_hot(levels, random),
            Some(way) => self.coldest(wanted, levels, (way, choice.first, among), random),
            // A small segment has its turn as often as a large one, but does not lose a record each
            // time.
            None if rests => Victims::new(),
            None if choice.first == First::Nearest => self.nearest(wanted),
            None => self.some(wanted, count, |_| true, random),
        };
        (victims, count)
    }

    /// One of the least hot records, whatever their hotness.
    fn least_hot(self, levels: Levels, random: &mut dyn FnMut(u64) -> u64) -> Victims {
        let level = (0..=HOTTEST).find(|&hotness| levels.at(hotness) > 0).unwrap_or(0);
        self.some(1, levels.at(level), |word| word.hotness() == level, random)
    }

    fn coldest(
        self,
        wanted: usize,
        levels: Levels,
        (way, first, among): (Sampling, First, TableTurn<'_>),
        random: &mut dyn FnMut(u64) -> u64,
    ) -> Victims {
        let (count, lately) = (levels.sum(), among.lately);
        let (mut zeroes, mut steps) = (levels.at(0), 0);
        if count >= FEW {
            while zeroes < (count / way.reserve()).max(wanted) && steps < HOTTEST {
                steps += 1;
                zeroes += levels.at(steps);
            }
        } else if lately.has_fewer_zeroes_than_one_in(way.reserve(), way)
            || zeroes == 0 && first == First::Coldest && lately.duel.is_fuller(among.number)
        {
            steps = 1;
            zeroes += levels.at(1);
        }
        if steps > 0 {
            // SAFETY: S2.
            self.each(|slot| unsafe {
                (*slot).set_hotness((*slot).hotness().saturating_sub(steps));
            });
            lately.note_ageing(count * usize::from(steps));
        }
        let wanted = wanted.min(zeroes);
        lately.note_zeroes(zeroes - wanted, count, way);
        self.some(wanted, zeroes, |word| word.hotness() == 0, random)
    }

    /// `wanted` records at random, of the `count` for which `may_go` holds.
    fn some(
        self,
        wanted: usize,
        count: usize,
        may_go: impl Fn(BucketWord) -> bool,
        random: &mut dyn FnMut(u64) -> u64,
    ) -> Victims {
        debug_assert!(wanted <= count, "as many may go");
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

    /// The `wanted` records with the nearest deadlines.
    fn nearest(self, wanted: usize) -> Victims {
        // SAFETY: S2.
        self.each(|slot| prefetch(unsafe { *slot }.pointer()));
        let mut all: Vec<(UnixMs, *mut BucketWord)> = Vec::with_capacity(self.segment.count());
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
