//! Finds the leaf of a member: an open-addressed table of 8 bytes a member. It keeps only hashes;
//! the members are in the leaves, once.
//!
//! ```text
//! slot:  32 bits of the member's hash | the leaf's number       (all ones: free)
//!        its low bits: which segment; its high bits: where in the segment
//! ```
//!
//! The table is a row of segments that grows by one at a time (linear hashing: Witold Litwin,
//! "Linear hashing: a new tool for file and table addressing", VLDB 1980), each with linear
//! probing, and with as many slots as its entries need, in steps of the allocator's size classes.
//!
//! Invariants
//! 1. An entry lies in the segment that [`Index::segment_of`] names, and no free slot lies between
//!    its home slot and it.
//! 2. A segment has at least one free slot.
//! 3. No operation touches more than two segments: some thousand slots.
//!
//! Not here: which member it is; callers look into the leaf. Tests: foot of the file, and the
//! tree's.

use std::sync::OnceLock;

use pantala_base::hash::HashSeed;
use pantala_table::{Renewal, size_class};

const FREE: u64 = u64::MAX;
/// A segment is added when the mean number of entries per segment exceeds this.
const SEGMENT_ENTRIES: usize = 512;

/// 32 bits of a member's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash(u32);

impl Hash {
    /// The hash of a member, under the secret key of this process.
    #[inline]
    pub fn of(member: &[u8]) -> Hash {
        static SEED: OnceLock<HashSeed> = OnceLock::new();
        Hash(SEED.get_or_init(HashSeed::random).hash(member) as u32)
    }

    /// The eight bits that a leaf keeps: neither the lowest nor the highest, which choose the slot.
    #[inline]
    pub fn mark(self) -> u8 {
        (self.0 >> 13) as u8
    }

    /// Its place in the order of a scan, which no split changes.
    #[inline]
    pub fn place(self) -> u32 {
        self.0.reverse_bits()
    }
}

/// The index of a tree: hash of a member to the number of its leaf.
#[derive(Clone, Debug, Default)]
pub struct Index {
    segments: Vec<Segment>,
    len: usize,
    slot_bytes: usize,
}

#[derive(Clone, Debug, Default)]
struct Segment {
    slots: Box<[u64]>,
    len: usize,
}

#[inline]
fn slot_of(hash: Hash, leaf: u32) -> u64 {
    u64::from(hash.0) << 32 | u64::from(leaf)
}

#[inline]
fn hash_of(slot: u64) -> Hash {
    Hash((slot >> 32) as u32)
}

impl Index {
    /// Reallocates segments that lie in sparse pages: see [`pantala_table::Object::renew`].
    pub fn renew(&mut self, from: usize, most: usize, renewal: &mut Renewal<'_>) -> Option<usize> {
        let end = from.saturating_add(most);
        for segment in self.segments.iter_mut().take(end).skip(from) {
            renewal.renew(segment.slots.as_ptr().cast(), &mut segment.slots);
        }
        (end < self.segments.len()).then_some(end)
    }

    /// An index with room for this many members.
    pub fn with_room(count: usize) -> Index {
        let mut index = Index::default();
        let segments = (count / SEGMENT_ENTRIES).max(1);
        let each = count / segments;
        // Segments that the current doubling has not reached get twice as much.
        let (half, rest) = (1 << segments.ilog2(), segments - (1 << segments.ilog2()));
        for number in 0..segments {
            let is_split = number < rest || number >= half;
            let share = if rest == 0 { each } else { count / half / if is_split { 2 } else { 1 } };
            index.segments.push(Segment::with_room(share));
        }
        index.slot_bytes = index.segments.iter().map(|segment| 8 * segment.slots.len()).sum();
        index
    }

    /// Allocated bytes.
    pub fn heap_bytes(&self) -> usize {
        self.slot_bytes + self.segments.capacity() * size_of::<Segment>()
    }

    /// The segment of a hash among `count` segments.
    #[inline]
    fn segment_of(hash: Hash, count: usize) -> usize {
        let doubled = 1usize << (usize::BITS - count.leading_zeros());
        let low = hash.0 as usize & (doubled - 1);
        if low < count { low } else { low & (doubled / 2).wrapping_sub(1) }
    }

    /// Calls `ask` with each leaf that may have a member with this hash, until it returns
    /// something.
    #[inline]
    pub fn find<R>(&self, hash: Hash, mut ask: impl FnMut(u32) -> Option<R>) -> Option<R> {
        let segment = self.segments.get(Self::segment_of(hash, self.segments.len()))?;
        let mut at = segment.home(hash)?;
        loop {
            let slot = segment.slots[at];
            if slot == FREE {
                return None;
            }
            if hash_of(slot) == hash
                && let Some(found) = ask(slot as u32)
            {
                return Some(found);
            }
            at = segment.next(at);
        }
    }

    /// Records that a leaf has a member with this hash.
    pub fn insert(&mut self, hash: Hash, leaf: u32) {
        if self.segments.is_empty() {
            self.segments.push(Segment::default());
        }
        let count = self.segments.len();
        self.change(Self::segment_of(hash, count), |segment| {
            segment.make_room();
            segment.put(slot_of(hash, leaf));
        });
        self.len += 1;
        if self.len > count * SEGMENT_ENTRIES {
            self.split();
        }
    }

    /// Removes the record of a member with this hash in a leaf.
    pub fn remove(&mut self, hash: Hash, leaf: u32) {
        let count = self.segments.len();
        self.change(Self::segment_of(hash, count), |segment| {
            segment.remove(slot_of(hash, leaf));
            segment.give_back();
        });
        self.len -= 1;
        if count > 1 && self.len < count * SEGMENT_ENTRIES / 2 {
            self.merge();
        }
    }

    /// Records that a member with this hash has moved to another leaf.
    pub fn repoint(&mut self, hash: Hash, from: u32, to: u32) {
        let number = Self::segment_of(hash, self.segments.len());
        let segment = &mut self.segments[number];
        if let Some(at) = segment.position(slot_of(hash, from)) {
            segment.slots[at] = slot_of(hash, to);
        }
    }

    fn change<R>(&mut self, number: usize, act: impl FnOnce(&mut Segment) -> R) -> R {
        let segment = &mut self.segments[number];
        let before = segment.slots.len();
        let result = act(segment);
        self.slot_bytes = self.slot_bytes + 8 * segment.slots.len() - 8 * before;
        result
    }

    /// Adds a segment: it takes its part of the entries of the next segment that the current
    /// doubling has not reached.
    #[cold]
    fn split(&mut self) {
        let count = self.segments.len();
        let old = count - (1 << count.ilog2());
        let whole = std::mem::take(&mut self.segments[old]);
        let goes = |slot: &u64| Self::segment_of(hash_of(*slot), count + 1) == count;
        let moved: Vec<u64> = whole.entries().filter(goes).collect();
        let stays = whole.entries().filter(|slot| !goes(slot));
        self.segments[old] = Segment::of(stays, whole.len - moved.len());
        let right = Segment::of(moved.iter().copied(), moved.len());
        let left = self.segments[old].slots.len();
        self.slot_bytes = self.slot_bytes + 8 * (left + right.slots.len()) - 8 * whole.slots.len();
        self.segments.push(right);
    }

    /// Removes the last segment: its entries go back to the segment they came from.
    #[cold]
    fn merge(&mut self) {
        let Some(last) = self.segments.pop() else { return };
        let count = self.segments.len();
        let to = count - (1 << count.ilog2());
        let whole = std::mem::take(&mut self.segments[to]);
        let both = whole.entries().chain(last.entries());
        let joined = Segment::of(both, whole.len + last.len);
        let before = whole.slots.len() + last.slots.len();
        self.slot_bytes = self.slot_bytes + 8 * joined.slots.len() - 8 * before;
        self.segments[to] = joined;
        if self.segments.capacity() > 4 * self.segments.len() {
            self.segments.shrink_to(2 * self.segments.len());
        }
    }

    /// Shows about `count` entries in the order of [`Hash::place`], from a place on, always all
    /// entries of a place. Returns where to continue, or `None` at the end.
    pub fn scan(&self, from: u32, count: usize, show: &mut dyn FnMut(Hash, u32)) -> Option<u32> {
        let (mut from, mut shown) = (from, 0);
        loop {
            let segments = self.segments.len();
            let number = Self::segment_of(Hash(from.reverse_bits()), segments);
            let segment = self.segments.get(number)?;
            let mut found: Vec<u64> =
                segment.entries().filter(|slot| hash_of(*slot).place() >= from).collect();
            found.sort_unstable_by_key(|slot| hash_of(*slot).place());
            let wanted = count.max(1) - shown;
            if found.len() > wanted {
                let last = hash_of(found[wanted - 1]).place();
                let end = found.partition_point(|slot| hash_of(*slot).place() <= last);
                found[..end].iter().for_each(|slot| show(hash_of(*slot), *slot as u32));
                return last.checked_add(1);
            }
            found.iter().for_each(|slot| show(hash_of(*slot), *slot as u32));
            shown += found.len();
            from = Self::end_of(number, segments)?;
            if shown >= count {
                return Some(from);
            }
        }
    }

    /// The first place after those of a segment.
    fn end_of(number: usize, count: usize) -> Option<u32> {
        let half = 1usize << count.ilog2();
        let is_split = number >= half || number + half < count;
        let bits = half.trailing_zeros() + u32::from(is_split);
        let first = (number as u32).reverse_bits();
        let width = 1u64 << (32 - bits);
        u32::try_from(u64::from(first) + width).ok()
    }
}

impl Segment {
    fn with_room(count: usize) -> Segment {
        // At most four fifths are used, so that searches are short.
        let bytes = size_class((count + count / 4 + 4) * 8);
        Segment { slots: vec![FREE; bytes / 8].into(), len: 0 }
    }

    fn of(entries: impl Iterator<Item = u64>, count: usize) -> Segment {
        let mut segment = Segment::with_room(count);
        entries.for_each(|slot| segment.put(slot));
        segment
    }

    fn entries(&self) -> impl Iterator<Item = u64> + '_ {
        self.slots.iter().copied().filter(|slot| *slot != FREE)
    }

    /// The preferred slot of an entry; `None` in a segment without slots.
    #[inline]
    fn home(&self, hash: Hash) -> Option<usize> {
        let count = self.slots.len() as u64;
        (count > 0).then_some(((u64::from(hash.0) * count) >> 32) as usize)
    }

    #[inline]
    fn next(&self, at: usize) -> usize {
        if at + 1 < self.slots.len() { at + 1 } else { 0 }
    }

    fn position(&self, entry: u64) -> Option<usize> {
        let mut at = self.home(hash_of(entry))?;
        while self.slots[at] != FREE {
            if self.slots[at] == entry {
                return Some(at);
            }
            at = self.next(at);
        }
        None
    }

    /// Inserts an entry; there must be room.
    fn put(&mut self, entry: u64) {
        let Some(mut at) = self.home(hash_of(entry)) else { return };
        while self.slots[at] != FREE {
            at = self.next(at);
        }
        self.slots[at] = entry;
        self.len += 1;
    }

    fn make_room(&mut self) {
        if 6 * (self.len + 1) > 5 * self.slots.len() {
            *self = Segment::of(self.entries(), self.len + 1);
        }
    }

    fn give_back(&mut self) {
        if 2 * self.len + 8 < self.slots.len() {
            *self = Segment::of(self.entries(), self.len);
        }
    }

    /// Frees an entry's slot; entries after it move up where they may.
    fn remove(&mut self, entry: u64) {
        let Some(mut hole) = self.position(entry) else { return };
        self.len -= 1;
        let count = self.slots.len();
        let mut at = hole;
        loop {
            at = self.next(at);
            let slot = self.slots[at];
            let Some(home) = self.home(hash_of(slot)).filter(|_| slot != FREE) else { break };
            // The distance from the home slot, and from the hole.
            let way = (at + count - home) % count;
            if way >= (at + count - hole) % count {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = FREE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantala_base::rng::Rng;
    use std::collections::BTreeMap;

    fn all(index: &Index, count: usize) -> Vec<(u32, u32)> {
        let (mut found, mut from) = (Vec::new(), Some(0));
        while let Some(at) = from {
            from = index.scan(at, count, &mut |hash, leaf| found.push((hash.0, leaf)));
        }
        found
    }

    #[test]
    fn it_does_what_a_map_does() {
        let mut random = Rng::from_seed(3);
        let mut index = Index::default();
        let mut model = BTreeMap::new();
        for step in 0..60_000_u32 {
            // Grows, shrinks, grows.
            let wants_more = !(20_000..50_000).contains(&step);
            let hash = random.next_u64() as u32;
            if wants_more || random.below(4) == 0 {
                if model.insert(hash, step).is_none() {
                    index.insert(Hash(hash), step);
                } else if let Some(old) = model.get_mut(&hash) {
                    *old = step;
                }
            } else if let Some((&hash, &leaf)) = model.range(hash..).next() {
                if random.below(3) == 0 {
                    index.repoint(Hash(hash), leaf, step);
                    model.insert(hash, step);
                } else {
                    index.remove(Hash(hash), leaf);
                    model.remove(&hash);
                }
            }
            assert_eq!(index.len, model.len());
        }
        for (&hash, &leaf) in &model {
            assert_eq!(index.find(Hash(hash), Some), Some(leaf));
        }
        for count in [1, 10, 100_000] {
            let found = all(&index, count);
            assert!(found.is_sorted_by_key(|(hash, _)| hash.reverse_bits()));
            assert_eq!(found.into_iter().collect::<BTreeMap<_, _>>(), model);
        }
        let slots: usize = index.segments.iter().map(|segment| segment.slots.len()).sum();
        assert_eq!(slots * 8, index.slot_bytes);
    }

    #[test]
    fn a_scan_survives_growing_and_shrinking() {
        let mut random = Rng::from_seed(4);
        let stay: Vec<u32> = (0..2000).map(|_| random.next_u64() as u32).collect();
        let come: Vec<u32> = (0..30_000).map(|_| random.next_u64() as u32).collect();
        let mut index = Index::default();
        stay.iter().for_each(|hash| index.insert(Hash(*hash), 1));
        let (mut seen, mut from, mut rounds) = (Vec::new(), Some(0), 0);
        while let Some(at) = from {
            from = index.scan(at, 10, &mut |hash, leaf| {
                if leaf == 1 {
                    seen.push(hash.0);
                }
            });
            match rounds {
                50 => come.iter().for_each(|hash| index.insert(Hash(*hash), 2)),
                200 => come.iter().for_each(|hash| index.remove(Hash(*hash), 2)),
                _ => {}
            }
            rounds += 1;
        }
        let mut wanted = stay;
        wanted.sort_unstable();
        seen.sort_unstable();
        assert_eq!(seen, wanted, "each exactly once");
        assert!(rounds > 200);
    }

    #[test]
    fn room_is_made_for_what_is_announced() {
        for count in [0, 1, 100, 513, 5000, 100_000] {
            let mut index = Index::with_room(count);
            let mut random = Rng::from_seed(5);
            let segments = index.segments.len();
            for leaf in 0..count {
                index.insert(Hash(random.next_u64() as u32), leaf as u32);
            }
            assert!(index.segments.len() <= segments + 1, "{count}");
            assert_eq!(all(&index, 10).len(), count);
        }
    }
}
