//! Growing and shrinking of a table: one segment at a time, never a rehash of everything.
//!
//! A segment grows through the sizes of `segment::SHAPES`; at the largest it splits, and each half
//! starts at the smallest size with sensible room, so that utilisation stays between about 0.7 and
//! 0.95, not between 0.45 and 0.9. After removals, a sparse segment merges with its buddy or
//! shrinks.
//!
//! The work of one call is bounded by the items of two segments, and by the directory when it
//! doubles or halves (8 bytes for hundreds of keys). Records are read only where positions are
//! unknown (small segments) and by one split in five; they are prefetched then.
//!
//! Not here: when to call these (the keyspace). Tests: `tests/model.rs`.

use pantala_base::UnixMs;

use crate::directory::segment_prefix;
use crate::group::prefetch;
use crate::hash::{PREFIX_BITS, position, trail, window_of_prefix, window_shift};
use crate::records::owned::OwnedRecord;
use crate::records::record::Record;
use crate::segment::{FRESH_FILL_PERCENT, Item, LARGEST, MOST_SLOTS, SHAPES, Segment};
use crate::word::{BucketWord, WINDOW_BITS};
use crate::{Object, Table, is_expired};

/// Buddies merge when they hold at most this many items together.
const MERGE_AT_MOST: usize = MOST_SLOTS / 2;
const _: () =
    assert!(MERGE_AT_MOST * 100 < MOST_SLOTS * FRESH_FILL_PERCENT, "it does not split at once");
/// The directory doubles only while it has at most this many entries for each segment: keys that
/// share a long prefix would make it huge for nothing.
const ENTRIES_PER_SEGMENT: usize = 16;
/// How many records are prefetched while keys are hashed again.
const AHEAD: usize = 12;
/// Expired records make enough room when they are at least one in this many slots.
const EXPIRED_PART: usize = 32;

/// Hashes a key again.
type Rehash<'r> = &'r mut dyn FnMut(&[u8]) -> u64;

impl<O: Object> Table<O> {
    /// Makes room for a key that found its segment full. Expired records of that segment are handed
    /// out first; only when they are few does the segment grow or split. The caller then tries the
    /// insert again; a handful of rounds is enough.
    pub fn make_room(
        &mut self,
        hash: u64,
        now: UnixMs,
        rehash: &mut dyn FnMut(&[u8]) -> u64,
        expired: &mut dyn FnMut(OwnedRecord<O>),
    ) {
        self.outdate_places();
        let entry = self.directory.entry(hash);
        if entry.is_empty() {
            self.install(0, None, Segment::allocate(0, 0));
            return;
        }
        let segment = entry.segment();
        if segment.deadlines() > 0 {
            let removed = self.expire_segment(segment, now, expired).removed;
            if removed > 0 && removed * EXPIRED_PART >= usize::from(segment.shape().slots) {
                return;
            }
        }
        if !self.grow(hash, segment, rehash) && !self.split(hash, segment, rehash) {
            segment.set_stuck();
        }
    }

    /// Lets the segment of a removed key shrink or merge, and the directory halve, if it has become
    /// sparse. A cheap check otherwise.
    pub fn tidy_after_remove(&mut self, hash: u64, rehash: &mut dyn FnMut(&[u8]) -> u64) {
        let entry = self.directory.entry(hash);
        if entry.is_empty() {
            return;
        }
        let segment = entry.segment();
        if segment.count() >= usize::from(segment.shape().sparse_below) {
            return;
        }
        self.tidy(hash, rehash);
    }

    #[cold]
    fn tidy(&mut self, hash: u64, rehash: Rehash<'_>) {
        self.outdate_places();
        if self.len == 0 {
            self.release_segments();
            return;
        }
        loop {
            let segment = self.directory.entry(hash).segment();
            let sparse = segment.count() < usize::from(segment.shape().sparse_below);
            if !sparse || !self.merge(hash, segment, rehash) {
                break;
            }
        }
        self.shrink(hash, rehash);
    }

    /// Frees all segments of an empty table.
    fn release_segments(&mut self) {
        debug_assert!(self.len == 0 && self.deadlines == 0, "T2: nothing is left");
        self.directory.for_each(|_, segment| {
            debug_assert_eq!(segment.count(), 0, "S4: it is empty");
            // SAFETY: the segment is empty and its entries are cleared below.
            unsafe { segment.release() }
        });
        self.directory.clear();
        (self.segments, self.units) = (0, 0);
    }

    /// Puts a segment into the directory, in the place of `old` if there is one.
    fn install(&mut self, prefix: u32, old: Option<Segment>, new: Segment) {
        if let Some(old) = old {
            self.retire(old);
        }
        debug_assert_eq!(prefix, aligned_prefix(prefix, new.depth()), "D3: it is its prefix");
        self.directory.set(prefix, new);
        self.segments += 1;
        self.units += u32::from(new.shape().units);
    }

    /// Replaces a segment by its copy.
    pub(crate) fn replace_segment(&mut self, prefix: u32, segment: Segment, copy: Segment) {
        debug_assert_eq!(segment.depth(), copy.depth(), "it takes its place");
        debug_assert_eq!(segment.count(), copy.count(), "it has the same items");
        self.install(prefix, Some(segment), copy);
    }

    /// Frees a segment whose items have moved.
    fn retire(&mut self, segment: Segment) {
        let units = u32::from(segment.shape().units);
        debug_assert!(self.segments > 0 && self.units >= units, "T2: it was counted");
        self.segments -= 1;
        self.units -= units;
        // SAFETY: its words have been copied to a segment that takes its place in the directory at
        // once (R4, D3).
        unsafe { segment.release() }
    }

    /// Rebuilds a segment in a larger class.
    fn grow(&mut self, hash: u64, segment: Segment, rehash: Rehash<'_>) -> bool {
        if segment.class() == LARGEST {
            return false;
        }
        let items = gather(&[segment], rehash);
        self.rebuild(hash, segment, &items, segment.class() + 1)
    }

    /// Rebuilds a segment in the smallest class with sensible room.
    fn shrink(&mut self, hash: u64, rehash: Rehash<'_>) {
        let segment = self.directory.entry(hash).segment();
        let class = fresh_class(segment.count());
        if class < segment.class() {
            let items = gather(&[segment], rehash);
            self.rebuild(hash, segment, &items, class);
        }
    }

    fn rebuild(&mut self, hash: u64, segment: Segment, items: &[Item], class: u8) -> bool {
        let depth = segment.depth();
        let Some(new) = fit(items, class, depth) else {
            return false;
        };
        debug_assert_eq!(new.count(), segment.count(), "S4: no item is lost");
        debug_assert_eq!(new.deadlines(), segment.deadlines(), "S4: no deadline is lost");
        self.install(segment_prefix(hash, depth), Some(segment), new);
        true
    }

    fn may_split(&self, depth: u32) -> bool {
        let doubled = 2usize << self.directory.depth();
        depth < PREFIX_BITS
            && (depth < self.directory.depth()
                || doubled <= ENTRIES_PER_SEGMENT * (self.segments as usize + 1))
    }

    /// Replaces a segment by two, one bit deeper.
    fn split(&mut self, hash: u64, segment: Segment, rehash: Rehash<'_>) -> bool {
        let depth = segment.depth();
        if !self.may_split(depth) {
            return false;
        }
        let (left, right) = part(segment, rehash);
        let Some(left) = fit(&left, fresh_class(left.len()), depth + 1) else {
            return false;
        };
        let Some(right) = fit(&right, fresh_class(right.len()), depth + 1) else {
            // SAFETY: nobody knows the new segment; its words are still the old segment's.
            unsafe { left.release() };
            return false;
        };
        debug_assert_eq!(left.count() + right.count(), segment.count(), "S4: no item is lost");
        debug_assert_eq!(
            left.deadlines() + right.deadlines(),
            segment.deadlines(),
            "S4: no deadline is lost"
        );
        if depth == self.directory.depth() {
            self.directory.double();
        }
        let prefix = segment_prefix(hash, depth);
        self.install(prefix, Some(segment), left);
        self.install(prefix | 1 << (PREFIX_BITS - 1 - depth), None, right);
        true
    }

    /// Joins a segment with its buddy when both are small.
    fn merge(&mut self, hash: u64, segment: Segment, rehash: Rehash<'_>) -> bool {
        let depth = segment.depth();
        if depth == 0 {
            return false;
        }
        let bit = 1 << (PREFIX_BITS - depth);
        let prefix = segment_prefix(hash, depth);
        let buddy = self.directory.entry_of_prefix(prefix ^ bit);
        if buddy.depth() != depth || segment.count() + buddy.segment().count() > MERGE_AT_MOST {
            return false;
        }
        let buddy = buddy.segment();
        let mut items = gather(&[segment, buddy], rehash);
        if depth.is_multiple_of(WINDOW_BITS) {
            let (own, others) = items.split_at_mut(segment.count());
            renew_windows(own, window_of_prefix(prefix, depth));
            renew_windows(others, window_of_prefix(prefix ^ bit, depth));
        }
        let Some(merged) = fit(&items, fresh_class(items.len()), depth - 1) else {
            return false;
        };
        debug_assert_eq!(merged.count(), segment.count() + buddy.count(), "S4: no item is lost");
        debug_assert_eq!(
            merged.deadlines(),
            segment.deadlines() + buddy.deadlines(),
            "S4: no deadline is lost"
        );
        self.retire(buddy);
        self.install(prefix & !bit, Some(segment), merged);
        if depth == self.directory.depth() {
            self.directory.halve();
        }
        true
    }

    /// Hands out the expired records of a segment.
    pub(crate) fn expire_segment(
        &mut self,
        segment: Segment,
        now: UnixMs,
        out: &mut dyn FnMut(OwnedRecord<O>),
    ) -> Expired {
        self.outdate_places();
        let mut expired = Expired::default();
        let deadlines = segment.deadlines();
        segment.for_each(|slot| {
            // SAFETY: S2.
            let word = unsafe { *slot };
            if word.has_deadline() {
                prefetch(word.pointer());
            }
        });
        segment.for_each(|slot| {
            // SAFETY: S2.
            let Some(deadline) = unsafe { Record::of(*slot) }.deadline() else {
                return;
            };
            expired.seen += 1;
            if is_expired(deadline, now) {
                let word = segment.remove(slot);
                out(self.disown(word));
                expired.removed += 1;
            } else {
                expired.note(deadline);
            }
        });
        debug_assert_eq!(expired.seen, deadlines, "S4: all that have a deadline");
        debug_assert_eq!(segment.deadlines(), deadlines - expired.removed, "S4: the others stay");
        expired
    }
}

/// The result of an expiry pass over a segment.
#[derive(Default)]
pub(crate) struct Expired {
    pub(crate) seen: usize,
    pub(crate) removed: usize,
    pub(crate) earliest: Option<UnixMs>,
}

impl Expired {
    pub(crate) fn note(&mut self, deadline: UnixMs) {
        self.earliest = Some(self.earliest.map_or(deadline, |earliest| earliest.min(deadline)));
    }
}

/// The smallest class that this many items fill sensibly.
fn fresh_class(count: usize) -> u8 {
    let fits = |class: &u8| {
        usize::from(SHAPES[usize::from(*class)].slots) * FRESH_FILL_PERCENT / 100 >= count
    };
    (0..LARGEST).find(fits).unwrap_or(LARGEST)
}

/// A segment of this class, or the next larger one that can take all items.
fn fit(items: &[Item], class: u8, depth: u32) -> Option<Segment> {
    (class..=LARGEST).find_map(|class| Segment::build(items, class, depth))
}

/// Collects all items of these segments, with their positions.
fn gather(segments: &[Segment], rehash: Rehash<'_>) -> Vec<Item> {
    let mut items = Vec::with_capacity(segments.iter().map(|segment| segment.count()).sum());
    for segment in segments {
        let from = items.len();
        segment.gather(&mut items);
        if !segment.knows_positions() {
            hash_again(&mut items[from..], rehash, |item, hash| item.position = position(hash));
        }
        debug_assert_eq!(items.len() - from, segment.count(), "S4: all its items");
    }
    items
}

/// Divides the items of a segment by their next prefix bit, with trails for the new depth.
fn part(segment: Segment, rehash: Rehash<'_>) -> (Vec<Item>, Vec<Item>) {
    let depth = segment.depth();
    let mut items = Vec::with_capacity(segment.count());
    segment.gather(&mut items);
    let shift = window_shift(depth + 1);
    let bit_is_known = shift == window_shift(depth);
    // The side is taken from the old window, before the trail is renewed.
    let bit = WINDOW_BITS - 1 - depth % WINDOW_BITS;
    let side = |item: &Item| item.word.window() >> bit & 1 != 0;
    let (mut left, mut right): (Vec<Item>, Vec<Item>) =
        items.into_iter().partition(|item| !side(item));
    if !bit_is_known || !segment.knows_positions() {
        for items in [&mut left, &mut right] {
            hash_again(items, rehash, |item, hash| {
                item.position = position(hash);
                item.word.set_trail(trail(hash, shift));
            });
        }
    }
    (left, right)
}

fn renew_windows(items: &mut [Item], window: u8) {
    for item in items {
        item.word.set_trail(BucketWord::trail(item.position, window));
    }
}

/// The prefix of the segment of this depth that has this one.
fn aligned_prefix(prefix: u32, depth: u32) -> u32 {
    segment_prefix(u64::from(prefix) << (64 - PREFIX_BITS), depth)
}

/// Hashes the keys of all items, fetching records ahead.
fn hash_again(items: &mut [Item], rehash: Rehash<'_>, mut with: impl FnMut(&mut Item, u64)) {
    for item in &items[..items.len().min(AHEAD)] {
        prefetch(item.word.pointer());
    }
    for index in 0..items.len() {
        if let Some(ahead) = items.get(index + AHEAD) {
            prefetch(ahead.word.pointer());
        }
        let item = &mut items[index];
        // SAFETY: S2: the word came out of a slot and still owns its record.
        let hash = rehash(unsafe { Record::of(item.word) }.key());
        with(item, hash);
    }
}
