//! A leaf: up to [`MOST`] entries in order, in one buffer of just the size class they need.
//!
//! ```text
//! | marks: n bytes | scores: n x 8 | ends: n x 2, or n x 4 | members, one after the other |
//! ```
//!
//! A mark is eight bits of a member's hash: a lookup compares marks first. An end is the offset at
//! which a member ends.
//!
//! Invariants
//! 1. `bytes` holds exactly the four regions for `count` entries.
//! 2. Entries are in ascending order of (score, member); ends ascend.
//! 3. Ends take four bytes exactly while `is_wide`, and always if the members exceed 64 KiB.
//!
//! Not here: the order between leaves. Tests: foot of the file, against a vector.

use std::cmp::Ordering;

use pantala_base::simd::find_byte;
use pantala_table::{Renewal, size_class};

use super::arena::NONE;

/// The most entries of a leaf.
pub const MOST: usize = 64;
/// A leaf with more bytes of members than this is split.
pub const MOST_MEMBER_BYTES: usize = 4096;
/// An entry that would bring a leaf to more bytes of members than this gets a leaf of its own.
pub const HUGE_BYTES: usize = 1 << 16;

/// A leaf of the tree: entries in order in one buffer.
#[derive(Clone, Debug)]
pub struct Leaf {
    bytes: Vec<u8>,
    count: u16,
    is_wide: bool,
    /// The parent node, or none.
    pub parent: u32,
    /// The previous leaf.
    pub previous: u32,
    /// The next leaf.
    pub next: u32,
}

impl Default for Leaf {
    fn default() -> Self {
        let (parent, previous, next) = (NONE, NONE, NONE);
        Leaf { bytes: Vec::new(), count: 0, is_wide: false, parent, previous, next }
    }
}

/// An entry to be put into a leaf, or read from one.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Eight bits of the member's hash.
    pub mark: u8,
    /// The score.
    pub score: f64,
    /// The member.
    pub member: &'a [u8],
}

impl Leaf {
    /// A leaf of these entries.
    pub fn of<'a>(entries: impl Iterator<Item = Entry<'a>> + Clone) -> Leaf {
        let (mut count, mut member_bytes) = (0, 0);
        for entry in entries.clone() {
            count += 1;
            member_bytes += entry.member.len();
        }
        let is_wide = member_bytes > usize::from(u16::MAX);
        let mut leaf = Leaf { count: count as u16, is_wide, ..Leaf::default() };
        let total = leaf.members_from() + member_bytes;
        leaf.bytes.reserve_exact(size_class(total));
        leaf.bytes.resize(leaf.members_from(), 0);
        for (index, entry) in entries.enumerate() {
            leaf.bytes[index] = entry.mark;
            leaf.set_score(index, entry.score);
            leaf.bytes.extend_from_slice(entry.member);
            leaf.set_end(index, leaf.bytes.len() - leaf.members_from());
        }
        leaf
    }

    /// How many entries there are.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of all members.
    #[inline]
    pub fn member_bytes(&self) -> usize {
        self.bytes.len() - self.members_from()
    }

    /// Whether it must be split.
    #[inline]
    pub fn is_too_large(&self) -> bool {
        self.len() > MOST || self.is_heavy()
    }

    /// Whether it is too large in bytes; a single entry never is.
    #[inline]
    pub fn is_heavy(&self) -> bool {
        self.member_bytes() > MOST_MEMBER_BYTES && self.len() > 1
    }

    /// Reallocates the buffer if it lies in sparse pages.
    pub fn renew(&mut self, renewal: &mut Renewal<'_>) {
        if !self.bytes.is_empty() {
            renewal.renew(self.bytes.as_ptr(), &mut self.bytes);
        }
    }

    /// Allocated bytes.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        if self.bytes.is_empty() { 0 } else { size_class(self.bytes.len()) }
    }

    #[inline]
    fn end_bytes(&self) -> usize {
        if self.is_wide { 4 } else { 2 }
    }

    /// The offset at which the members begin.
    #[inline]
    fn members_from(&self) -> usize {
        self.len() * (9 + self.end_bytes())
    }

    /// The score of an entry.
    #[inline]
    pub fn score(&self, index: usize) -> f64 {
        let at = self.len() + 8 * index;
        let bytes = self.bytes[at..].first_chunk::<8>().expect("the ends lie after the scores");
        f64::from_le_bytes(*bytes)
    }

    /// Sets the score of an entry; the order must not change.
    #[inline]
    pub fn set_score(&mut self, index: usize, score: f64) {
        let at = self.len() + 8 * index;
        self.bytes[at..at + 8].copy_from_slice(&score.to_le_bytes());
    }

    #[inline]
    fn end(&self, index: usize) -> usize {
        let at = 9 * self.len() + self.end_bytes() * index;
        if self.is_wide {
            let bytes = &self.bytes[at..at + 4];
            return u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
        }
        let bytes = &self.bytes[at..at + 2];
        usize::from(u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    fn set_end(&mut self, index: usize, end: usize) {
        let at = 9 * self.len() + self.end_bytes() * index;
        if self.is_wide {
            self.bytes[at..at + 4].copy_from_slice(&(end as u32).to_le_bytes());
        } else {
            self.bytes[at..at + 2].copy_from_slice(&(end as u16).to_le_bytes());
        }
    }

    /// The offset of a member among the members; their total length for the index after the last.
    #[inline]
    fn start(&self, index: usize) -> usize {
        if index == 0 { 0 } else { self.end(index - 1) }
    }

    /// The member of an entry.
    #[inline]
    pub fn member(&self, index: usize) -> &[u8] {
        let from = self.members_from();
        &self.bytes[from + self.start(index)..from + self.end(index)]
    }

    /// An entry.
    #[inline]
    pub fn entry(&self, index: usize) -> Entry<'_> {
        Entry { mark: self.bytes[index], score: self.score(index), member: self.member(index) }
    }

    /// Entries from one index to another.
    pub fn entries(&self, from: usize, to: usize) -> impl Iterator<Item = Entry<'_>> + Clone {
        (from..to).map(|index| self.entry(index))
    }

    /// The index of a member, which has this mark.
    #[inline]
    pub fn find(&self, mark: u8, member: &[u8]) -> Option<usize> {
        self.find_marked(mark, |found| found == member)
    }

    /// The index of the first entry with this mark for which `wanted` holds.
    #[inline]
    pub fn find_marked(&self, mark: u8, wanted: impl Fn(&[u8]) -> bool) -> Option<usize> {
        let marks = &self.bytes[..self.len()];
        let mut from = 0;
        while let Some(at) = find_byte(&marks[from..], mark) {
            if wanted(self.member(from + at)) {
                return Some(from + at);
            }
            from += at + 1;
        }
        None
    }

    /// Compares an entry with a pair of score and member.
    #[inline]
    pub fn compare(&self, index: usize, score: f64, member: &[u8]) -> Ordering {
        let own = self.score(index);
        if own < score {
            Ordering::Less
        } else if own > score {
            Ordering::Greater
        } else {
            self.member(index).cmp(member)
        }
    }

    /// The first index for which `is_before` is false; it must be true for all indices before.
    #[inline]
    pub fn partition_point(&self, is_before: impl Fn(&Leaf, usize) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            if is_before(self, middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The index that divides it into halves of about equal bytes, or of equal number where that is
    /// the reason to split.
    pub fn middle(&self) -> usize {
        if !self.is_heavy() {
            return self.len() / 2;
        }
        let half = self.member_bytes() / 2;
        self.partition_point(|leaf, index| leaf.end(index) <= half).clamp(1, self.len() - 1)
    }

    /// Inserts an entry at an index.
    pub fn insert(&mut self, index: usize, entry: Entry<'_>) {
        let length = entry.member.len();
        if !self.is_wide && self.member_bytes() + length > usize::from(u16::MAX) {
            self.widen();
        }
        let (n, w, old_len) = (self.len(), self.end_bytes(), self.bytes.len());
        let (members, start) = (self.members_from(), self.start(index));
        let head = 9 + w;
        self.make_room(old_len + head + length);
        self.bytes.resize(old_len + head + length, 0);
        let bytes = &mut self.bytes[..];
        // From the end, so that nothing is overwritten before it has moved.
        bytes.copy_within(members + start..old_len, members + start + head + length);
        bytes[members + start + head..][..length].copy_from_slice(entry.member);
        bytes.copy_within(members..members + start, members + head);
        bytes.copy_within(9 * n + w * index..9 * n + w * n, 9 * n + w * index + head);
        bytes.copy_within(9 * n..9 * n + w * index, 9 * n + 9);
        bytes.copy_within(n + 8 * index..9 * n, n + 8 * index + 9);
        bytes.copy_within(n..n + 8 * index, n + 1);
        bytes.copy_within(index..n, index + 1);
        bytes[index] = entry.mark;
        self.count += 1;
        self.set_score(index, entry.score);
        self.set_end(index, start + length);
        self.shift_ends(index + 1, length.cast_signed());
    }

    /// Removes an entry.
    pub fn remove(&mut self, index: usize) {
        let (n, w, old_len) = (self.len(), self.end_bytes(), self.bytes.len());
        let (members, start) = (self.members_from(), self.start(index));
        let length = self.end(index) - start;
        let head = 9 + w;
        let bytes = &mut self.bytes[..];
        // From the front, for the same reason.
        bytes.copy_within(index + 1..n, index);
        bytes.copy_within(n..n + 8 * index, n - 1);
        bytes.copy_within(n + 8 * (index + 1)..9 * n, n - 1 + 8 * index);
        bytes.copy_within(9 * n..9 * n + w * index, 9 * n - 9);
        bytes.copy_within(9 * n + w * (index + 1)..9 * n + w * n, 9 * n - 9 + w * index);
        bytes.copy_within(members..members + start, members - head);
        bytes.copy_within(members + start + length..old_len, members - head + start);
        self.bytes.truncate(old_len - head - length);
        self.count -= 1;
        self.shift_ends(index, -length.cast_signed());
        let class = size_class(self.bytes.len());
        if class < self.bytes.capacity() {
            self.bytes.shrink_to(class);
        }
    }

    /// Removes the entries from index `from` up to `to`.
    pub fn remove_span(&mut self, from: usize, to: usize) {
        let left = self.entries(0, from).chain(self.entries(to, self.len()));
        self.replace(Leaf::of(left));
    }

    /// Cuts off the entries from an index on.
    pub fn split_off(&mut self, index: usize) -> Leaf {
        let right = Leaf::of(self.entries(index, self.len()));
        self.replace(Leaf::of(self.entries(0, index)));
        right
    }

    /// Appends all entries of the next leaf.
    pub fn append(&mut self, right: &Leaf) {
        let both = self.entries(0, self.len()).chain(right.entries(0, right.len()));
        self.replace(Leaf::of(both));
    }

    /// Takes over the entries of another leaf.
    fn replace(&mut self, other: Leaf) {
        let Leaf { parent, previous, next, .. } = *self;
        *self = Leaf { parent, previous, next, ..other };
    }

    fn make_room(&mut self, length: usize) {
        if length > self.bytes.capacity() {
            self.bytes.reserve_exact(size_class(length) - self.bytes.len());
        }
    }

    fn shift_ends(&mut self, from: usize, by: isize) {
        let (at, to) = (9 * self.len() + self.end_bytes() * from, self.members_from());
        if self.is_wide {
            for end in self.bytes[at..to].as_chunks_mut::<4>().0 {
                *end = u32::from_le_bytes(*end).wrapping_add(by as u32).to_le_bytes();
            }
        } else {
            for end in self.bytes[at..to].as_chunks_mut::<2>().0 {
                *end = u16::from_le_bytes(*end).wrapping_add(by as u16).to_le_bytes();
            }
        }
    }

    /// Widens the ends to four bytes.
    fn widen(&mut self) {
        let (from, to) = (9 * self.len(), self.members_from());
        let wide: Vec<u8> =
            (0..self.len()).flat_map(|index| (self.end(index) as u32).to_le_bytes()).collect();
        self.bytes.splice(from..to, wide);
        self.is_wide = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantala_base::rng::Rng;

    fn check(leaf: &Leaf, model: &[(f64, Vec<u8>)]) {
        assert_eq!(leaf.len(), model.len());
        for (index, (score, member)) in model.iter().enumerate() {
            let entry = leaf.entry(index);
            assert_eq!((entry.score, entry.member), (*score, &member[..]));
            assert_eq!(entry.mark, mark(member));
            assert_eq!(leaf.find(mark(member), member), Some(index));
        }
        assert_eq!(leaf.member_bytes(), model.iter().map(|(_, member)| member.len()).sum());
        assert_eq!(leaf.find(1, b"nobody"), None);
    }

    fn mark(member: &[u8]) -> u8 {
        member.iter().fold(member.len() as u8, |mark, byte| mark.wrapping_mul(31) ^ byte)
    }

    #[test]
    fn it_does_what_a_vec_does() {
        for seed in 0..8 {
            let mut random = Rng::from_seed(seed);
            let (mut leaf, mut model) = (Leaf::default(), Vec::<(f64, Vec<u8>)>::new());
            for step in 0..120 {
                let index = random.below(model.len() as u64 + 1) as usize;
                let length = if random.below(40) == 0 { 70_000 } else { random.below(40) };
                let mut member = vec![b'a'; length as usize];
                member.extend_from_slice(format!("{step}").as_bytes());
                match random.below(8) {
                    0..=3 => {
                        let score = random.unit_f64();
                        let entry = Entry { mark: mark(&member), score, member: &member };
                        leaf.insert(index, entry);
                        model.insert(index, (score, member));
                    }
                    4..=5 if index < model.len() => {
                        leaf.remove(index);
                        model.remove(index);
                    }
                    6 => {
                        let to = (index + random.below(3) as usize).min(model.len());
                        leaf.remove_span(index, to);
                        model.drain(index..to);
                    }
                    _ => {
                        let mut right = leaf.split_off(index);
                        check(&leaf, &model[..index]);
                        check(&right, &model[index..]);
                        right.append(&leaf);
                        leaf = right;
                        model.rotate_left(index);
                    }
                }
                check(&leaf, &model);
            }
        }
    }
}
