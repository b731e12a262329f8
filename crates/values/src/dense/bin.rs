//! One bin of the table: a block of bytes.
//!
//! ```text
//! | count u8 | 0 or 1 | used u16 | tags | rooms | free ...  | entry n-1 | ... | entry 0 |
//! ```
//!
//! Each entry has a tag and a room of one byte each; tags and rooms grow upwards, and the entries
//! grow downwards from the end. So an insert moves at most `count` bytes, and a lookup reads tags
//! and rooms in one line or two. The byte of a room gives its length: exactly up to 191, above that
//! in steps of eight ([`room_of`]).
//!
//! Invariants
//! 1. A bin without entries owns nothing; otherwise the block has a length that is a size class of
//!    the allocator.
//! 2. `used` is the sum of all rooms; head, tags, rooms and entries do not overlap.
//! 3. The second byte is 0 only if no room is longer than [`EXACT_BYTES`], so that their bytes can
//!    be added up as they are.
//!
//! Not here: what lies in a room (`entry`). Tests: `tests/dense.rs`.

use pantala_base::simd;
use pantala_table::{Renewal, size_class};

const HEAD_BYTES: usize = 4;
/// The most entries of a bin.
pub(super) const MAX_ENTRIES: usize = u8::MAX as usize;
/// The bit of a tag that marks a room beginning with flags.
pub(super) const MARK: u8 = 0x80;

/// Up to this size a room may have any length.
const EXACT_BYTES: usize = 191;
/// The largest room.
pub(super) const MAX_ROOM: usize = room_of(u8::MAX);

/// Bytes of the room with this code.
#[inline]
pub(super) const fn room_of(code: u8) -> usize {
    code as usize + 7 * code.saturating_sub(EXACT_BYTES as u8) as usize
}

/// The code of the smallest room for this many bytes, at most [`MAX_ROOM`].
#[inline]
pub(super) const fn code_of(bytes: usize) -> u8 {
    if bytes <= EXACT_BYTES {
        bytes as u8
    } else {
        (EXACT_BYTES + (bytes - EXACT_BYTES).div_ceil(8)) as u8
    }
}

/// Bytes of the first `count` rooms.
#[inline]
fn sum_of(codes: &[u8], count: usize, has_long: bool) -> usize {
    match codes.first_chunk::<32>() {
        Some(chunk) if count <= 32 && !has_long => simd::sum_below(chunk, count),
        _ => codes[..count].iter().map(|&code| room_of(code)).sum(),
    }
}

/// One bin: entries whose hashes share the low bits, in one block.
#[derive(Clone, Debug, Default)]
pub(super) struct Bin {
    bytes: Box<[u8]>,
}

/// An entry of a bin: its index and the location of its room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    index: usize,
    begin: usize,
    end: usize,
}

impl Bin {
    /// How many entries there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.bytes.first().map_or(0, |&count| usize::from(count))
    }

    #[inline]
    fn used(&self) -> usize {
        match self.bytes.first_chunk::<HEAD_BYTES>() {
            Some(head) => usize::from(u16::from_le_bytes([head[2], head[3]])),
            None => 0,
        }
    }

    fn set_head(&mut self, count: usize, used: usize) {
        let [low, high] = (used as u16).to_le_bytes();
        self.bytes[0] = count as u8;
        self.bytes[2] = low;
        self.bytes[3] = high;
    }

    /// Reallocates the block if it lies in sparse pages.
    pub fn renew(&mut self, renewal: &mut Renewal<'_>) {
        if !self.bytes.is_empty() {
            renewal.renew(self.bytes.as_ptr(), &mut self.bytes);
        }
    }

    /// Allocated bytes.
    #[inline]
    pub fn allocated(&self) -> usize {
        self.bytes.len()
    }

    /// The first entry with this tag, marked or not, for which `is_it` holds.
    #[inline]
    pub fn find(&self, tag: u8, is_it: impl Fn(bool, &[u8]) -> bool) -> Option<Slot> {
        let bytes = &self.bytes[..];
        let count = self.count();
        let mut from = 0;
        while from < count {
            // Sixteen bytes from `from` on; bytes after the tags do not count.
            let hay = &bytes[HEAD_BYTES + from..];
            let mask = match hay.first_chunk() {
                Some(chunk) => simd::mask_either(chunk, tag, tag | MARK),
                None => {
                    let mut chunk = [0; 16];
                    chunk[..hay.len()].copy_from_slice(hay);
                    simd::mask_either(&chunk, tag, tag | MARK)
                }
            };
            let mut mask = u32::from(mask) & ((1 << (count - from).min(16)) - 1);
            while mask != 0 {
                let slot = self.slot(count, from + mask.trailing_zeros() as usize);
                let is_marked = bytes[HEAD_BYTES + slot.index] & MARK != 0;
                if is_it(is_marked, &bytes[slot.begin..slot.end]) {
                    return Some(slot);
                }
                mask &= mask - 1;
            }
            from += 16;
        }
        None
    }

    /// The entry with this number, which is below `count`.
    #[inline]
    pub fn slot(&self, count: usize, index: usize) -> Slot {
        let rooms = &self.bytes[HEAD_BYTES + count..];
        let end = self.bytes.len() - sum_of(rooms, index, self.bytes[1] != 0);
        Slot { index, begin: end - room_of(rooms[index]), end }
    }

    /// Whether the room begins with flags, and the room.
    #[inline]
    pub fn raw(&self, slot: Slot) -> (bool, &[u8]) {
        let is_marked = self.bytes[HEAD_BYTES + slot.index] & MARK != 0;
        (is_marked, &self.bytes[slot.begin..slot.end])
    }

    /// As [`Bin::raw`], mutable.
    #[inline]
    pub fn raw_mut(&mut self, slot: Slot) -> (bool, &mut [u8]) {
        let is_marked = self.bytes[HEAD_BYTES + slot.index] & MARK != 0;
        (is_marked, &mut self.bytes[slot.begin..slot.end])
    }

    /// All rooms in order, each with whether it begins with flags.
    #[inline]
    pub fn iter(&self) -> Raws<'_> {
        Raws { bin: self, index: 0, count: self.count(), end: self.bytes.len() }
    }

    /// Whether any entry is marked. In most bins none is, so there is no deadline to look for.
    #[inline]
    pub fn has_marks(&self) -> bool {
        let tags = self.bytes.get(HEAD_BYTES..HEAD_BYTES + self.count()).unwrap_or_default();
        tags.iter().fold(0, |all, tag| all | tag) & MARK != 0
    }

    /// Adds an entry and returns its room, to be filled; `None` if the bin is full.
    #[inline]
    pub fn push(&mut self, tag: u8, code: u8) -> Option<&mut [u8]> {
        let (count, used, room) = (self.count(), self.used(), room_of(code));
        if count == MAX_ENTRIES || used + room > usize::from(u16::MAX) {
            return None;
        }
        let needed = HEAD_BYTES + 2 * (count + 1) + used + room;
        if needed > self.bytes.len() {
            self.resize(size_class(needed));
        }
        let bytes = &mut self.bytes;
        let rooms = HEAD_BYTES + count;
        bytes.copy_within(rooms..rooms + count, rooms + 1);
        bytes[rooms] = tag;
        bytes[rooms + 1 + count] = code;
        bytes[1] |= u8::from(usize::from(code) > EXACT_BYTES);
        self.set_head(count + 1, used + room);
        let end = self.bytes.len() - used;
        Some(&mut self.bytes[end - room..end])
    }

    /// Moves to another block, large enough for the content.
    fn resize(&mut self, new_len: usize) {
        let (count, used) = (self.count(), self.used());
        let mut bytes = Vec::with_capacity(new_len);
        bytes.extend_from_slice(self.bytes.get(..HEAD_BYTES + 2 * count).unwrap_or_default());
        bytes.resize(new_len - used, 0);
        bytes.extend_from_slice(&self.bytes[self.bytes.len() - used..]);
        self.bytes = bytes.into_boxed_slice();
    }

    /// Removes an entry; the entries after it move up.
    pub fn remove(&mut self, slot: Slot) {
        let (count, used) = (self.count(), self.used());
        if count == 1 {
            *self = Bin::default();
            return;
        }
        let room = slot.end - slot.begin;
        let low = self.bytes.len() - used;
        self.bytes.copy_within(low..slot.begin, low + room);
        let tag = HEAD_BYTES + slot.index;
        let end = HEAD_BYTES + 2 * count;
        self.bytes.copy_within(tag + 1..end, tag);
        let code = tag + count - 1;
        self.bytes.copy_within(code + 1..end - 1, code);
        self.set_head(count - 1, used - room);
        let needed = HEAD_BYTES + 2 * (count - 1) + used - room;
        // Keeps a quarter more than needed: otherwise alternating removals and inserts would always
        // resize.
        if size_class(needed + needed / 4) < self.bytes.len() {
            self.resize(size_class(needed));
        }
    }

    /// A bin with the entries whose index `is_wanted`.
    pub fn part(&self, is_wanted: impl Fn(usize) -> bool) -> Bin {
        let all = self.iter().enumerate().filter(|(index, _)| is_wanted(*index));
        let (count, used) =
            all.clone().fold((0, 0), |(count, used), (_, (_, raw))| (count + 1, used + raw.len()));
        let mut part = Bin::default();
        if count == 0 {
            return part;
        }
        part.reserve(count, used);
        for (index, (_, raw)) in all {
            part.push_raw(self.bytes[HEAD_BYTES + index], self.code(index), raw);
        }
        part
    }

    /// Copies all entries of another bin; returns whether there was room.
    pub fn absorb(&mut self, other: &Bin) -> bool {
        let (count, used) = (self.count() + other.count(), self.used() + other.used());
        if count > MAX_ENTRIES || used > usize::from(u16::MAX) {
            return false;
        }
        if other.count() > 0 {
            self.reserve(count, used);
            for (index, (_, raw)) in other.iter().enumerate() {
                self.push_raw(other.bytes[HEAD_BYTES + index], other.code(index), raw);
            }
        }
        true
    }

    fn code(&self, index: usize) -> u8 {
        self.bytes[HEAD_BYTES + self.count() + index]
    }

    /// Makes the block large enough for this many entries and this many bytes of rooms.
    fn reserve(&mut self, count: usize, used: usize) {
        let needed = HEAD_BYTES + 2 * count + used;
        if needed > self.bytes.len() {
            self.resize(size_class(needed));
        }
    }

    fn push_raw(&mut self, tag: u8, code: u8, raw: &[u8]) {
        if let Some(room) = self.push(tag, code) {
            room.copy_from_slice(raw);
        }
    }
}

/// An iterator over the raw bytes of a bin's entries, see [`Bin::iter`].
#[derive(Clone, Debug)]
pub(super) struct Raws<'a> {
    bin: &'a Bin,
    index: usize,
    count: usize,
    end: usize,
}

impl Raws<'_> {
    /// The tag of the entry that came last, without its mark.
    #[inline]
    pub fn last_tag(&self) -> u8 {
        self.bin.bytes[HEAD_BYTES + self.index.saturating_sub(1)] & !MARK
    }
}

impl<'a> Iterator for Raws<'a> {
    type Item = (bool, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.index >= self.count {
            return None;
        }
        let tag = self.bin.bytes[HEAD_BYTES + self.index];
        let room = room_of(self.bin.bytes[HEAD_BYTES + self.count + self.index]);
        let raw = &self.bin.bytes[self.end - room..self.end];
        self.index += 1;
        self.end -= room;
        Some((tag & MARK != 0, raw))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_has_the_smallest_room() {
        assert_eq!(MAX_ROOM, 703);
        for bytes in 0..=MAX_ROOM {
            let code = code_of(bytes);
            assert!(room_of(code) >= bytes && room_of(code) < bytes + 8, "{bytes}");
            assert!(code == 0 || room_of(code - 1) < bytes, "{bytes}");
        }
    }

    #[test]
    fn rooms_are_added_up() {
        let codes: Vec<u8> = (0..=255).map(|n: u8| n.wrapping_mul(77) % 192).collect();
        for len in [1, 7, 8, 9, 30, 255] {
            for count in 0..=len {
                let plain: usize = codes[..count].iter().map(|&code| room_of(code)).sum();
                assert_eq!(sum_of(&codes[..len], count, false), plain);
                assert_eq!(sum_of(&codes[..len], count, true), plain);
            }
        }
    }

    #[test]
    fn a_bin_gets_full() {
        let mut bin = Bin::default();
        assert!((0..MAX_ENTRIES).all(|n| bin.push(n as u8, 3).is_some()));
        assert!(bin.push(0, 3).is_none());
        let mut other = Bin::default();
        assert!(other.push(1, 1).is_some());
        assert!(!bin.absorb(&other));
        let mut bin = Bin::default();
        assert_eq!((0..).take_while(|_| bin.push(0, u8::MAX).is_some()).count(), 93);
    }
}
