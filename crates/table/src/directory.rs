//! The directory: maps the top bits of a hash to a segment.
//!
//! An array of 2^depth entries of 8 bytes, or, while there is one segment, the entry itself. An
//! entry holds the segment's address, its number of buckets and its depth, so a lookup does not
//! read the segment's header:
//!
//! ```text
//!  61-56 window shift | 52-48 depth of the segment | 47-7 address of the segment | 6-0 buckets
//! ```
//!
//! Invariants
//! - D1. While depth is 0, `root` is an entry (0: the table is empty); otherwise it is the address
//!   of 2^depth entries allocated with `entries_layout(depth)`.
//! - D2. Every entry but the empty root describes a live segment (S1) and says its buckets and
//!   depth.
//! - D3. A segment of depth d has exactly the 2^(depth-d) entries of its prefix.
//!
//! Tests: `tests/model.rs` through `Table::check`.

use std::alloc::{self, Layout};
use std::ptr;

use crate::hash::{PREFIX_BITS, prefix, window_shift};
use crate::segment::Segment;

/// One directory entry: address, depth and bucket count of a segment.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Entry(u64);

const ADDRESS: u64 = 0x0000_FFFF_FFFF_FF80;

impl Entry {
    fn new(segment: Segment) -> Entry {
        let address = segment.base().expose_provenance() as u64;
        assert!(address & !ADDRESS == 0, "a segment lies in the low 48 bits, 128-aligned");
        let depth = segment.depth();
        debug_assert!(depth <= PREFIX_BITS && segment.homes() < 128, "they have room");
        let shift = u64::from(window_shift(depth));
        Entry(address | segment.homes() as u64 | u64::from(depth) << 48 | shift << 56)
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub(crate) fn segment(self) -> Segment {
        debug_assert!(!self.is_empty());
        let base = ptr::with_exposed_provenance_mut((self.0 & ADDRESS) as usize);
        // SAFETY: D2.
        unsafe { Segment::from_raw(base, (self.0 & 0x7F) as usize) }
    }

    #[inline]
    pub(crate) fn depth(self) -> u32 {
        (self.0 >> 48) as u32 & 31
    }

    #[inline]
    pub(crate) fn window_shift(self) -> u32 {
        (self.0 >> 56) as u32
    }
}

/// The directory of one table.
pub(crate) struct Directory {
    root: u64,
    depth: u8,
}

impl Directory {
    pub(crate) const fn new() -> Directory {
        Directory { root: 0, depth: 0 }
    }

    #[inline]
    pub(crate) fn depth(&self) -> u32 {
        u32::from(self.depth)
    }

    /// Allocated bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        if self.depth == 0 { 0 } else { size_of::<Entry>() << self.depth }
    }

    fn entries(&self) -> *mut Entry {
        debug_assert!(self.depth > 0);
        ptr::with_exposed_provenance_mut(self.root as usize)
    }

    /// The entry for a hash.
    #[inline]
    pub(crate) fn entry(&self, hash: u64) -> Entry {
        if self.depth == 0 {
            return Entry(self.root);
        }
        let entries: *const Entry = ptr::with_exposed_provenance(self.root as usize);
        // SAFETY: D1: the index has `depth` bits.
        unsafe { *entries.add((hash >> (64 - u32::from(self.depth))) as usize) }
    }

    /// The entry for a 28-bit prefix.
    #[inline]
    pub(crate) fn entry_of_prefix(&self, prefix: u32) -> Entry {
        debug_assert!(prefix < 1 << PREFIX_BITS, "a prefix has 28 bits");
        self.entry(u64::from(prefix) << (64 - PREFIX_BITS))
    }

    /// Makes a segment the target of its prefix at its depth (D3).
    pub(crate) fn set(&mut self, prefix: u32, segment: Segment) {
        let entry = Entry::new(segment);
        if self.depth == 0 {
            debug_assert!(entry.depth() == 0);
            self.root = entry.0;
            return;
        }
        let depth = entry.depth();
        debug_assert!(depth <= self.depth());
        let spread = self.depth() - depth;
        let first = ((prefix >> (PREFIX_BITS - depth)) as usize) << spread;
        debug_assert!(first + (1 << spread) <= 1 << self.depth, "D3: its entries are there");
        for index in first..first + (1 << spread) {
            // SAFETY: D1: the index has `depth` bits.
            unsafe { self.entries().add(index).write(entry) }
        }
    }

    /// Forgets the only segment of a table that has become empty.
    pub(crate) fn clear(&mut self) {
        *self = Directory::new();
    }

    /// Doubles the number of entries.
    pub(crate) fn double(&mut self) {
        let old = Directory { root: self.root, depth: self.depth };
        let depth = self.depth + 1;
        let grown = allocate_entries(depth);
        for index in 0..1usize << depth {
            let entry = match old.depth {
                0 => Entry(old.root),
                // SAFETY: D1: half of the new index is an old one.
                _ => unsafe { *old.entries().add(index / 2) },
            };
            // SAFETY: freshly allocated with room for all.
            unsafe { grown.add(index).write(entry) }
        }
        self.root = grown.expose_provenance() as u64;
        self.depth = depth;
        // `old` frees the old entries here.
    }

    /// Halves the directory as long as no segment is as deep as the directory.
    pub(crate) fn halve(&mut self) {
        while self.depth > 0 {
            let deep = (0..1usize << self.depth)
                // SAFETY: D1.
                .any(|index| unsafe { *self.entries().add(index) }.depth() == self.depth());
            if deep {
                return;
            }
            let old = Directory { root: self.root, depth: self.depth };
            self.depth -= 1;
            if self.depth == 0 {
                // SAFETY: D1.
                self.root = unsafe { *old.entries() }.0;
            } else {
                let halved = allocate_entries(self.depth);
                for index in 0..1usize << self.depth {
                    // SAFETY: D1; freshly allocated with room for all.
                    unsafe { halved.add(index).write(*old.entries().add(2 * index)) }
                }
                self.root = halved.expose_provenance() as u64;
            }
            // `old` frees the old entries here.
        }
    }

    /// Calls `each` with every segment and its prefix, in the order of prefixes.
    pub(crate) fn for_each(&self, mut each: impl FnMut(u32, Segment)) {
        let mut prefix: u64 = 0;
        while prefix < 1 << PREFIX_BITS {
            let entry = self.entry_of_prefix(prefix as u32);
            if entry.is_empty() {
                return;
            }
            each(prefix as u32, entry.segment());
            prefix += 1 << (PREFIX_BITS - entry.depth());
        }
        debug_assert_eq!(prefix, 1 << PREFIX_BITS, "D3: the segments have all prefixes");
    }
}

/// Frees the entries, not the segments.
impl Drop for Directory {
    fn drop(&mut self) {
        if self.depth > 0 {
            // SAFETY: D1.
            unsafe { alloc::dealloc(self.entries().cast(), entries_layout(self.depth)) }
        }
    }
}

/// The prefix of the segment of this depth that holds `hash`.
#[inline]
pub(crate) fn segment_prefix(hash: u64, depth: u32) -> u32 {
    debug_assert!(depth <= PREFIX_BITS, "no segment is deeper");
    let unused = PREFIX_BITS - depth;
    prefix(hash) >> unused << unused
}

fn entries_layout(depth: u8) -> Layout {
    debug_assert!((1..=PREFIX_BITS).contains(&u32::from(depth)), "D1: the root is the entry");
    // SAFETY: the alignment is a power of two; at most 2^28 entries.
    unsafe { Layout::from_size_align_unchecked(size_of::<Entry>() << depth, align_of::<Entry>()) }
}

fn allocate_entries(depth: u8) -> *mut Entry {
    let layout = entries_layout(depth);
    // SAFETY: the layout is not empty.
    let entries = unsafe { alloc::alloc(layout) };
    if entries.is_null() {
        alloc::handle_alloc_error(layout);
    }
    entries.cast()
}
