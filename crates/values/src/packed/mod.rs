//! A packed sequence of small elements: one allocation, no pointers.
//!
//! ```text
//! | u32 bytes | u32 elements | entry | entry | ... |
//! entry: | head and text or number | its length, readable from the end |
//! ```
//!
//! Entries have the format of Redis's listpack, so snapshots take them unchanged and sizes in
//! settings mean the same. Every text has exactly one encoding here (numbers are stored as numbers,
//! in the fewest bytes), so equal elements are equal bytes, and a search compares bytes.
//!
//! | file | what |
//! |---|---|
//! | `entry` | one entry: encoding and decoding |
//! | `view` | reading: walks from both ends, search |
//! | this | the owned buffer: all changes are one splice |
//!
//! Invariants
//! - P1. `at` is none, for no entries, or a live block of `size_class(HEAD_BYTES + bytes)` bytes.
//! - P2. The first `HEAD_BYTES + bytes` bytes of the block are initialised.
//! - P3. The entries are whole: everything that [`entry::decode`] reads lies inside. Bytes from
//!   elsewhere go through [`Packed::from_untrusted`].
//!
//! Not here: the meaning of elements (pairs, scores), and when a collection is too large for this.
//! Tests: at the foot of the files, and `fuzz/src/packed_main.rs`.

pub mod entry;
mod view;

use std::alloc::{self, Layout};
use std::ptr::{self, NonNull};

use pantala_table::{Renewal, size_class};
use smallvec::SmallVec;

pub use entry::Element;
pub use view::{Entries, View};

const HEAD_BYTES: usize = 8;
/// The largest packed value in bytes; settings that ask for more get tables.
pub const MAX_BYTES: usize = 1 << 30;

/// Bytes of a listpack in Redis beyond its entries, for settings that count them.
const LISTPACK_FRAME_BYTES: usize = 7;

/// Buffer for encoding an entry before it is inserted.
pub type Encoded = SmallVec<[u8; 80]>;

/// A packed sequence of small elements in one allocation. An empty one owns nothing.
pub struct Packed {
    at: Option<NonNull<u8>>,
}

// SAFETY: the block belongs to this value alone (P1) and holds plain bytes.
unsafe impl Send for Packed {}
// SAFETY: a shared reference only reads.
unsafe impl Sync for Packed {}

impl Packed {
    /// An empty sequence.
    pub const fn new() -> Packed {
        Packed { at: None }
    }

    /// Entries from elsewhere (a snapshot, RESTORE), if they are whole and canonical.
    pub fn from_untrusted(entries: &[u8]) -> Option<Packed> {
        let count = entry::count_canonical(entries)?;
        let mut packed = Packed::new();
        packed.splice(0, 0, entries, count as isize);
        Some(packed)
    }

    /// Read access.
    #[inline]
    pub fn view(&self) -> View<'_> {
        let Some(at) = self.at else { return View::new(&[], 0) };
        let (bytes, count) = self.head();
        // SAFETY: P1, P2.
        let entries = unsafe { std::slice::from_raw_parts(at.as_ptr().add(HEAD_BYTES), bytes) };
        View::new(entries, count)
    }

    /// Bytes of the entries, and how many there are.
    #[inline]
    fn head(&self) -> (usize, usize) {
        let Some(at) = self.at else { return (0, 0) };
        let head = at.cast::<u32>();
        // SAFETY: P1, P2: the head is there and aligned.
        let (bytes, count) = unsafe { (*head.as_ptr(), *head.as_ptr().add(1)) };
        (bytes as usize, count as usize)
    }

    /// How many elements there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.head().1
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.at.is_none()
    }

    /// Bytes of all entries.
    #[inline]
    pub fn entry_bytes(&self) -> usize {
        self.head().0
    }

    /// Bytes of a listpack of these entries in Redis.
    pub fn listpack_bytes(&self) -> usize {
        self.entry_bytes() + LISTPACK_FRAME_BYTES
    }

    /// Allocated bytes.
    pub fn heap_bytes(&self) -> usize {
        match self.at {
            None => 0,
            Some(_) => size_class(HEAD_BYTES + self.entry_bytes()),
        }
    }

    /// Reallocates the block if it lies in sparse pages.
    pub fn renew(&mut self, renewal: &mut Renewal<'_>) {
        if let Some(block) = self.at {
            renewal.renew(block.as_ptr(), self);
        }
    }

    /// Appends an element.
    #[inline]
    pub fn push(&mut self, element: Element<'_>) {
        self.insert(self.entry_bytes(), element);
    }

    /// Inserts an element before the entry at `at`, which is an entry's offset or the end.
    pub fn insert(&mut self, at: usize, element: Element<'_>) {
        let mut encoded = Encoded::new();
        entry::encode(element, &mut encoded);
        self.splice(at, 0, &encoded, 1);
    }

    /// Replaces the element at `at`.
    pub fn replace(&mut self, at: usize, element: Element<'_>) {
        let mut encoded = Encoded::new();
        entry::encode(element, &mut encoded);
        let old = self.view().entry_len(at);
        self.splice(at, old, &encoded, 0);
    }

    /// Removes `count` elements from `at` on, or as many as there are.
    pub fn remove(&mut self, at: usize, count: usize) {
        let (span, removed) = self.view().span(at, count);
        self.splice(at, span, &[], -(removed as isize));
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        *self = Packed::new();
    }

    /// Cuts off everything from `at` on and returns it.
    pub fn split_off(&mut self, at: usize) -> Packed {
        let mut tail = Packed::new();
        let view = self.view();
        let rest = &view.bytes()[at..];
        let moved = View::new(rest, 0).iter().count();
        tail.splice(0, 0, rest, moved as isize);
        self.splice(at, rest_len(self.entry_bytes(), at), &[], -(moved as isize));
        tail
    }

    /// Appends all elements of another sequence.
    pub fn append(&mut self, other: View<'_>) {
        self.splice(self.entry_bytes(), 0, other.bytes(), other.len() as isize);
    }

    /// Replaces `removed` bytes at `at` by `insert`, which are whole entries; `elements` is the
    /// change in the number of elements. Every change goes through here.
    pub fn splice(&mut self, at: usize, removed: usize, insert: &[u8], elements: isize) {
        let (bytes, count) = self.head();
        assert!(at <= bytes && removed <= bytes - at, "a splice lies inside the entries");
        let new_bytes = bytes - removed + insert.len();
        assert!(new_bytes <= MAX_BYTES, "callers turn to a table long before");
        let new_count = count.wrapping_add_signed(elements);
        if new_bytes == 0 {
            return self.clear();
        }
        let tail = bytes - at - removed;
        if new_bytes > bytes {
            self.make_room(bytes, new_bytes);
        }
        let Some(block) = self.at else { return };
        // SAFETY: P1, P2: both spans of the move lie inside the block, which has room for the
        // larger of the two states; what is inserted is not part of the block, because the block
        // is borrowed mutably.
        unsafe {
            let entries = block.as_ptr().add(HEAD_BYTES);
            ptr::copy(entries.add(at + removed), entries.add(at + insert.len()), tail);
            ptr::copy_nonoverlapping(insert.as_ptr(), entries.add(at), insert.len());
            block.cast::<u32>().write(new_bytes as u32);
            block.cast::<u32>().add(1).write(new_count as u32);
        }
        if new_bytes < bytes {
            self.shrink(bytes, new_bytes);
        }
    }

    /// Makes the block large enough for `new_bytes` of entries. The head still says `bytes`.
    fn make_room(&mut self, bytes: usize, new_bytes: usize) {
        let new_room = size_class(HEAD_BYTES + new_bytes);
        let block = match self.at {
            None => {
                // SAFETY: a room is never empty.
                unsafe { alloc::alloc(layout(new_room)) }
            }
            Some(block) => {
                let room = size_class(HEAD_BYTES + bytes);
                if room == new_room {
                    return;
                }
                // SAFETY: P1; the new room is not empty.
                unsafe { alloc::realloc(block.as_ptr(), layout(room), new_room) }
            }
        };
        let Some(block) = NonNull::new(block) else { alloc::handle_alloc_error(layout(new_room)) };
        self.at = Some(block);
    }

    /// Frees the room that `new_bytes` of entries do not need. The head already says `new_bytes`.
    fn shrink(&mut self, bytes: usize, new_bytes: usize) {
        let (room, new_room) = (size_class(HEAD_BYTES + bytes), size_class(HEAD_BYTES + new_bytes));
        let Some(block) = self.at.filter(|_| room != new_room) else { return };
        // SAFETY: P1 held for the old room; the entries fit the new one.
        let block = unsafe { alloc::realloc(block.as_ptr(), layout(room), new_room) };
        let Some(block) = NonNull::new(block) else { alloc::handle_alloc_error(layout(new_room)) };
        self.at = Some(block);
    }
}

fn rest_len(bytes: usize, at: usize) -> usize {
    bytes - at
}

/// The layout of a block of `room` bytes.
fn layout(room: usize) -> Layout {
    Layout::from_size_align(room, align_of::<u32>()).expect("a room is far below isize::MAX")
}

impl Drop for Packed {
    fn drop(&mut self) {
        let room = self.heap_bytes();
        if let Some(block) = self.at {
            // SAFETY: P1; nobody uses it again.
            unsafe { alloc::dealloc(block.as_ptr(), layout(room)) };
        }
    }
}

impl Clone for Packed {
    fn clone(&self) -> Packed {
        let mut copy = Packed::new();
        copy.append(self.view());
        copy
    }
}

impl Default for Packed {
    fn default() -> Packed {
        Packed::new()
    }
}

impl std::fmt::Debug for Packed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.view().iter().map(|(_, element)| element)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantala_base::rng::Rng;

    fn texts(packed: &Packed) -> Vec<Vec<u8>> {
        packed.view().iter().map(|(_, element)| element.to_vec()).collect()
    }

    fn text(random: &mut Rng) -> Vec<u8> {
        match random.below(5) {
            0 => random.below(200).to_string().into_bytes(),
            1 => (random.next_u64() as i64).to_string().into_bytes(),
            2 => vec![b'x'; random.below(70) as usize],
            3 => vec![b'y'; random.below(5000) as usize],
            _ => format!("-{}", random.below(70_000)).into_bytes(),
        }
    }

    #[test]
    fn it_does_what_a_vec_does() {
        for seed in 0..20 {
            let mut random = Rng::from_seed(seed);
            let (mut packed, mut model) = (Packed::new(), Vec::<Vec<u8>>::new());
            for _ in 0..300 {
                step(&mut random, &mut packed, &mut model);
                assert_eq!(packed.len(), model.len());
                assert_eq!(texts(&packed), model);
                let mut back: Vec<_> =
                    packed.view().iter_back().map(|(_, element)| element.to_vec()).collect();
                back.reverse();
                assert_eq!(back, model);
            }
        }
    }

    fn step(random: &mut Rng, packed: &mut Packed, model: &mut Vec<Vec<u8>>) {
        let one = text(random);
        let index = random.below(model.len() as u64 + 1) as usize;
        let at = packed.view().seek(index).unwrap_or(packed.entry_bytes());
        match random.below(6) {
            0..=2 => {
                packed.insert(at, Element::of(&one));
                model.insert(index, one);
            }
            3 if index < model.len() => {
                packed.replace(at, Element::of(&one));
                model[index] = one;
            }
            4 => {
                let count = random.below(4) as usize;
                packed.remove(at, count);
                let end = (index + count).min(model.len());
                model.drain(index..end);
            }
            5 => {
                let mut tail = packed.split_off(at);
                assert_eq!(texts(&tail), model[index..]);
                tail.append(packed.view());
                *packed = tail;
                model.rotate_left(index);
            }
            _ => {
                let found = packed.view().find(&one, 1, 0);
                let index = model.iter().position(|other| *other == one);
                assert_eq!(found.map(|at| packed.view().index_of(at)), index);
            }
        }
    }

    #[test]
    fn what_comes_from_elsewhere_is_looked_at() {
        let mut packed = Packed::new();
        packed.push(Element::of(b"12"));
        packed.push(Element::of(b"text"));
        let bytes = packed.view().bytes().to_vec();
        assert_eq!(Packed::from_untrusted(&bytes).map(|packed| packed.len()), Some(2));
        for cut in 1..bytes.len() {
            let one = Packed::from_untrusted(&bytes[..cut]);
            assert!(one.is_none_or(|packed| packed.len() == 1));
        }
        // The text "7" must be the number.
        assert!(Packed::from_untrusted(&[0x81, b'7', 2]).is_none());
        assert!(Packed::from_untrusted(&[7, 1]).is_some());
    }
}
