//! A segment: one block of buckets with a small stash, 256 bytes to 8 KiB.
//!
//! ```text
//! | bucket 0 | ... | bucket N-1 | header, stash homes, stash fingerprints, stash words |
//! bucket: | 14 fingerprints | tail u16 | 14 words |        128 bytes, two cache lines
//! tail:   14 membership bits | an item of mine is in the next bucket | ... is in the stash
//! ```
//!
//! An item lies in its home bucket, or in the next one (membership bit; the last bucket's next is
//! the first), or in the stash (which knows its home). A lookup in the home bucket needs neither
//! header nor stash. A full neighbourhood is opened by moving items one bucket on, or back to their
//! home ("displacement").
//!
//! Sizes are the allocator's classes, so a segment grows in steps of an eighth to a quarter; a
//! word's trail and the fingerprint give the position back (see `hash`), so growing reads no
//! record.
//!
//! Invariants
//! - S1. `base` is a live block of `class.units * 128` bytes, 128-aligned; the header after the N
//!   buckets tells the class.
//! - S2. A slot's word is not empty exactly where its fingerprint (stash: its home) says so; that
//!   word owns a live record, and its trail is that of the record's key at the segment's depth.
//! - S3. An item with home h lies in bucket h without membership bit, in bucket h+1 (mod N) with
//!   it, or in the stash with home h; the two hint bits of bucket h are set exactly when there are
//!   such items.
//! - S4. `count` and `deadlines` of the header count all items, and those whose word has a
//!   deadline.
//!
//! Words of free slots may hold ghosts of evicted records: S5, in `ghosts`.
//!
//! Not here: the directory, splitting and merging (`directory`, `structure`).
//! Tests: `tests/model.rs`, and `check` of this file, which proves S2..S4 for a segment.

mod ghosts;

use std::alloc::{self, Layout};

use crate::group::{BUCKET_SLOTS, SLOT_BITS, equal_bytes, equal_bytes_64, prefetch};
use crate::hash::{POSITIONS, position, trail, window_shift};
use crate::records::record::Record;
use crate::word::{BucketWord, HashBits, POSITION_BITS};

pub(crate) use ghosts::Ghost;

/// A unit of a segment: a bucket, or the header with the first stash slots.
pub(crate) const UNIT_BYTES: usize = 128;
const WORDS_AT: usize = 16;
const TAIL_AT: usize = 14;
/// Tail bit: an item of this home lies in the next bucket.
const IN_NEXT: u16 = 1 << 14;
/// Tail bit: an item of this home lies in the stash.
const IN_STASH: u16 = 1 << 15;
const HEADER_BYTES: usize = 8;
/// The home byte of an empty stash slot.
const NO_HOME: u8 = 0xFF;
/// Longest chain of items moved to open a place.
const CHAIN: usize = 2;

/// The shape of a segment of one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Buckets.
    pub(crate) homes: u8,
    /// Stash slots.
    stash: u8,
    /// Where the stash words begin, from the header.
    stash_words_at: u8,
    /// All slots.
    pub(crate) slots: u16,
    /// Size of the block in units.
    pub(crate) units: u8,
    /// With fewer items than this, the segment should shrink.
    pub(crate) sparse_below: u16,
}

const fn shape(units: u8, stash_units: u8) -> Shape {
    let homes = units - 1 - stash_units;
    let region = UNIT_BYTES * (1 + stash_units as usize);
    // Each stash slot takes a home, a fingerprint and a word.
    let stash = (region - HEADER_BYTES) / 10;
    let words_at = (HEADER_BYTES + 2 * stash).next_multiple_of(8);
    assert!(words_at + 8 * stash <= region && stash < 64 && words_at < 256);
    // `equal_bytes_64` reads whole groups of 16.
    assert!(HEADER_BYTES + stash + stash.next_multiple_of(16) <= region);
    Shape {
        homes,
        stash: stash as u8,
        stash_words_at: words_at as u8,
        slots: homes as u16 * BUCKET_SLOTS as u16 + stash as u16,
        units,
        sparse_below: 0,
    }
}

/// Target fill of a new segment, in percent of its slots.
pub(crate) const FRESH_FILL_PERCENT: usize = 82;
/// Fill, in percent of the next smaller class's slots, under which a segment shrinks.
const SPARSE_FILL_PERCENT: usize = 75;

const fn with_sparse(mut shapes: [Shape; CLASSES]) -> [Shape; CLASSES] {
    // The smallest does not shrink, but it merges, and is freed when the table is empty.
    shapes[0].sparse_below = 8;
    let mut class = 1;
    while class < CLASSES {
        shapes[class].sparse_below =
            (shapes[class - 1].slots as usize * SPARSE_FILL_PERCENT / 100) as u16;
        class += 1;
    }
    shapes
}

pub(crate) const CLASSES: usize = 13;
/// The sizes a segment goes through.
pub(crate) const SHAPES: [Shape; CLASSES] = with_sparse([
    shape(2, 0),
    shape(4, 0),
    shape(8, 0),
    shape(12, 0),
    shape(16, 0),
    shape(20, 0),
    shape(24, 1),
    shape(28, 1),
    shape(32, 1),
    shape(40, 1),
    shape(48, 2),
    shape(56, 2),
    shape(64, 2),
]);
/// The largest class; a fuller segment splits.
pub(crate) const LARGEST: u8 = CLASSES as u8 - 1;
/// Most items one segment holds.
pub(crate) const MOST_SLOTS: usize = SHAPES[LARGEST as usize].slots as usize;

const _: () = assert!(BUCKET_SLOTS * 8 + WORDS_AT == UNIT_BYTES);
const _: () = assert!(size_of::<Header>() == HEADER_BYTES);
const _: () = assert!(TAIL_AT == BUCKET_SLOTS && TAIL_AT + size_of::<u16>() == WORDS_AT);
const _: () = assert!(IN_NEXT as u32 > SLOT_BITS && IN_STASH as u32 > SLOT_BITS, "hints are apart");
const _: () = assert!(MOST_SLOTS <= u16::MAX as usize, "the header counts all items");
const _: () = assert!(SHAPES[LARGEST as usize].homes < NO_HOME, "no bucket has its number");

/// The first bytes after the buckets.
#[repr(C)]
pub(crate) struct Header {
    pub(crate) class: u8,
    pub(crate) depth: u8,
    /// Neither growing nor splitting makes room: more keys share one hash than fit.
    pub(crate) stuck: bool,
    /// Free slots may remember evicted records (S5).
    ghosts: bool,
    pub(crate) count: u16,
    pub(crate) deadlines: u16,
}

/// A segment as an address and its number of buckets (S1).
#[derive(Clone, Copy)]
pub(crate) struct Segment {
    base: *mut u8,
    homes: usize,
}

/// The home bucket of a position among `homes`.
#[inline]
pub(crate) fn home_of(position: u16, homes: usize) -> usize {
    (usize::from(position) * homes) >> 16
}

/// The first position whose home is `home` (or the end of positions).
#[inline]
pub(crate) fn first_position(home: usize, homes: usize) -> u32 {
    debug_assert!(home <= homes, "there is no further bucket");
    (home as u32 * POSITIONS).div_ceil(homes as u32)
}

/// One bucket.
#[derive(Clone, Copy)]
struct Bucket(*mut u8);

impl Bucket {
    #[inline]
    fn matches(self, fingerprint: u8) -> u32 {
        // SAFETY: S1: the bucket's head is inside the block.
        unsafe { equal_bytes(self.0, fingerprint) & SLOT_BITS }
    }

    #[inline]
    fn free(self) -> u32 {
        self.matches(0)
    }

    #[inline]
    fn tail(self) -> u16 {
        // SAFETY: S1; aligned, as buckets are.
        unsafe { *self.0.add(TAIL_AT).cast::<u16>() }
    }

    #[inline]
    fn set_tail(self, tail: u16) {
        // SAFETY: S1; aligned, as buckets are.
        unsafe { self.0.add(TAIL_AT).cast::<u16>().write(tail) }
    }

    /// The slots whose item's home is the previous bucket.
    #[inline]
    fn members(self) -> u32 {
        u32::from(self.tail()) & SLOT_BITS
    }

    #[inline]
    fn word(self, slot: usize) -> *mut BucketWord {
        debug_assert!(slot < BUCKET_SLOTS);
        // SAFETY: S1.
        unsafe { self.0.add(WORDS_AT + 8 * slot).cast() }
    }

    #[inline]
    fn fingerprint(self, slot: usize) -> u8 {
        debug_assert!(slot < BUCKET_SLOTS);
        // SAFETY: S1.
        unsafe { *self.0.add(slot) }
    }

    fn put(self, slot: usize, fingerprint: u8, word: BucketWord) {
        // SAFETY: S1.
        unsafe {
            *self.0.add(slot) = fingerprint;
            self.word(slot).write(word);
        }
    }

    /// The item among `candidates` with this trail and key.
    #[inline(always)]
    fn probe(self, mut candidates: u32, trail: HashBits, key: &[u8]) -> Option<*mut BucketWord> {
        while candidates != 0 {
            let slot = self.word(candidates.trailing_zeros() as usize);
            // SAFETY: S2: a slot with a fingerprint owns a live record.
            unsafe {
                if (*slot).has_trail(trail) && Record::of(*slot).has_key(key) {
                    return Some(slot);
                }
            }
            candidates &= candidates - 1;
        }
        None
    }
}

/// Calls `each` for every set bit, lowest first.
fn for_bits(mut bits: u64, mut each: impl FnMut(usize)) {
    while bits != 0 {
        each(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}

impl Segment {
    /// # Safety
    /// `base` and `homes` are those of a live segment (S1).
    #[inline]
    pub(crate) unsafe fn from_raw(base: *mut u8, homes: usize) -> Segment {
        debug_assert!(base.addr().is_multiple_of(UNIT_BYTES) && homes > 0, "S1");
        Segment { base, homes }
    }

    /// An empty segment.
    pub(crate) fn allocate(class: u8, depth: u8) -> Segment {
        let shape = &SHAPES[usize::from(class)];
        let layout = segment_layout(class);
        // SAFETY: the layout is not empty.
        let base = unsafe { alloc::alloc(layout) };
        if base.is_null() {
            alloc::handle_alloc_error(layout);
        }
        debug_assert!(u32::from(depth) <= crate::hash::PREFIX_BITS, "no segment is deeper");
        let segment = Segment { base, homes: usize::from(shape.homes) };
        // SAFETY: S1; zero is "empty" in buckets, `NO_HOME` is in the stash; words of empty slots
        // are not read (S5).
        unsafe {
            for home in 0..segment.homes {
                base.add(home * UNIT_BYTES).write_bytes(0, WORDS_AT);
            }
            let header =
                Header { class, depth, stuck: false, ghosts: false, count: 0, deadlines: 0 };
            segment.header().write(header);
            let stash = segment.header().cast::<u8>().add(HEADER_BYTES);
            stash.write_bytes(NO_HOME, usize::from(shape.stash));
        }
        segment
    }

    /// A copy with the same words; the caller frees one of the two.
    pub(crate) fn duplicate(self) -> Segment {
        let layout = segment_layout(self.class());
        // SAFETY: the layout is not empty.
        let base = unsafe { alloc::alloc(layout) };
        if base.is_null() {
            alloc::handle_alloc_error(layout);
        }
        // SAFETY: S1: both blocks have this layout. Words of empty slots are copied as they are.
        unsafe { std::ptr::copy_nonoverlapping(self.base, base, layout.size()) };
        Segment { base, homes: self.homes }
    }

    /// Frees the block, not the records.
    ///
    /// # Safety
    /// Nothing uses the segment after.
    pub(crate) unsafe fn release(self) {
        let layout = segment_layout(self.class());
        // SAFETY: S1, and the caller's promise.
        unsafe { alloc::dealloc(self.base, layout) }
    }

    #[inline]
    pub(crate) fn base(self) -> *mut u8 {
        self.base
    }

    #[inline]
    pub(crate) fn homes(self) -> usize {
        self.homes
    }

    #[inline]
    pub(crate) fn header(self) -> *mut Header {
        // SAFETY: S1.
        unsafe { self.base.add(self.homes * UNIT_BYTES).cast() }
    }

    pub(crate) fn class(self) -> u8 {
        // SAFETY: S1.
        unsafe { (*self.header()).class }
    }

    pub(crate) fn depth(self) -> u32 {
        // SAFETY: S1.
        unsafe { u32::from((*self.header()).depth) }
    }

    pub(crate) fn count(self) -> usize {
        // SAFETY: S1.
        unsafe { usize::from((*self.header()).count) }
    }

    pub(crate) fn deadlines(self) -> usize {
        // SAFETY: S1.
        unsafe { usize::from((*self.header()).deadlines) }
    }

    pub(crate) fn is_stuck(self) -> bool {
        // SAFETY: S1.
        unsafe { (*self.header()).stuck }
    }

    pub(crate) fn set_stuck(self) {
        // SAFETY: S1.
        unsafe { (*self.header()).stuck = true }
    }

    pub(crate) fn shape(self) -> &'static Shape {
        let shape = &SHAPES[usize::from(self.class())];
        debug_assert_eq!(usize::from(shape.homes), self.homes, "S1: the header tells its size");
        shape
    }

    #[inline]
    fn bucket(self, home: usize) -> Bucket {
        debug_assert!(home < self.homes);
        // SAFETY: S1.
        Bucket(unsafe { self.base.add(home * UNIT_BYTES) })
    }

    #[inline]
    fn next(self, home: usize) -> usize {
        if home + 1 == self.homes { 0 } else { home + 1 }
    }

    #[inline]
    fn previous(self, home: usize) -> usize {
        if home == 0 { self.homes - 1 } else { home - 1 }
    }

    /// Fetches the home bucket.
    #[inline]
    pub(crate) fn prefetch(self, position: u16) {
        let at = self.base.wrapping_add(home_of(position, self.homes) * UNIT_BYTES);
        prefetch(at);
        prefetch(at.wrapping_add(64));
    }

    /// Fetches the records that may have this hash.
    #[inline]
    pub(crate) fn prefetch_record(self, position: u16, trail: HashBits) {
        let home = home_of(position, self.homes);
        let bucket = self.bucket(home);
        let tail = bucket.tail();
        let own = bucket.matches(position as u8) & !u32::from(tail);
        let mut found = bucket.prefetch_candidates(own, trail);
        if !found && tail & IN_NEXT != 0 {
            let next = self.bucket(self.next(home));
            found = next.prefetch_candidates(next.matches(position as u8) & next.members(), trail);
        }
        let _ = found;
    }

    /// The slot of the item with this key.
    #[inline(always)]
    pub(crate) fn find(
        self,
        position: u16,
        trail: HashBits,
        key: &[u8],
    ) -> Option<*mut BucketWord> {
        let home = home_of(position, self.homes);
        let bucket = self.bucket(home);
        let tail = bucket.tail();
        let own = bucket.matches(position as u8) & !u32::from(tail);
        if let Some(slot) = bucket.probe(own, trail, key) {
            return Some(slot);
        }
        if tail & (IN_NEXT | IN_STASH) == 0 {
            return None;
        }
        self.find_away(home, position as u8, trail, key)
    }

    /// The slot of an item that lies outside its home bucket.
    #[inline(never)]
    fn find_away(
        self,
        home: usize,
        fingerprint: u8,
        trail: HashBits,
        key: &[u8],
    ) -> Option<*mut BucketWord> {
        let tail = self.bucket(home).tail();
        if tail & IN_NEXT != 0 {
            let next = self.bucket(self.next(home));
            let members = next.matches(fingerprint) & next.members();
            if let Some(slot) = next.probe(members, trail, key) {
                return Some(slot);
            }
        }
        if tail & IN_STASH == 0 {
            return None;
        }
        let mut candidates = self.stash_of(home) & self.stash_matches(fingerprint);
        while candidates != 0 {
            let slot = self.stash_word(candidates.trailing_zeros() as usize);
            // SAFETY: S2: a stash slot with a home owns a live record.
            unsafe {
                if (*slot).has_trail(trail) && Record::of(*slot).has_key(key) {
                    return Some(slot);
                }
            }
            candidates &= candidates - 1;
        }
        None
    }

    /// The stash slots with this home.
    fn stash_of(self, home: usize) -> u64 {
        self.stash_homes_equal(home as u8)
    }

    fn stash_homes_equal(self, home: u8) -> u64 {
        let len = usize::from(self.shape().stash);
        // SAFETY: S1; `shape` asserts that whole groups may be read.
        unsafe { equal_bytes_64(self.header().cast::<u8>().add(HEADER_BYTES), len, home) }
    }

    fn stash_matches(self, fingerprint: u8) -> u64 {
        let len = usize::from(self.shape().stash);
        // SAFETY: S1; `shape` asserts that whole groups may be read.
        unsafe {
            equal_bytes_64(self.header().cast::<u8>().add(HEADER_BYTES + len), len, fingerprint)
        }
    }

    fn stash_used(self) -> u64 {
        !self.stash_homes_equal(NO_HOME) & (u64::MAX >> (64 - self.shape().stash))
    }

    fn stash_word(self, slot: usize) -> *mut BucketWord {
        debug_assert!(slot < usize::from(self.shape().stash));
        // SAFETY: S1.
        unsafe {
            let words = self.header().cast::<u8>().add(usize::from(self.shape().stash_words_at));
            words.cast::<BucketWord>().add(slot)
        }
    }

    fn stash_home(self, slot: usize) -> *mut u8 {
        // SAFETY: S1.
        unsafe { self.header().cast::<u8>().add(HEADER_BYTES + slot) }
    }

    fn stash_fingerprint(self, slot: usize) -> *mut u8 {
        self.stash_home(slot + usize::from(self.shape().stash))
    }

    /// An empty slot for a new item at this position; other items may have been moved for it.
    pub(crate) fn vacate(self, position: u16) -> Option<*mut BucketWord> {
        let home = home_of(position, self.homes);
        let bucket = self.bucket(home);
        let free = bucket.free();
        if free != 0 {
            return Some(bucket.word(free.trailing_zeros() as usize));
        }
        if self.homes > 1 {
            let next = self.bucket(self.next(home));
            let free = next.free();
            if free != 0 {
                return Some(next.word(free.trailing_zeros() as usize));
            }
            if let Some(slot) = self.send_back(home).or_else(|| self.send_on(self.next(home))) {
                return Some(slot);
            }
        }
        let free = self.stash_homes_equal(NO_HOME);
        (free != 0).then(|| self.stash_word(free.trailing_zeros() as usize))
    }

    /// Frees a slot in a full bucket by moving members back to their homes, along a chain.
    fn send_back(self, bucket: usize) -> Option<*mut BucketWord> {
        let mut length = 0;
        let mut at = bucket;
        // Find the nearest bucket before with room, such that each on the way has a member.
        loop {
            if self.bucket(at).members() == 0 {
                return None;
            }
            at = self.previous(at);
            length += 1;
            if self.bucket(at).free() != 0 {
                break;
            }
            if length == CHAIN.min(self.homes - 1) {
                return None;
            }
        }
        // Shift, beginning at the far end.
        loop {
            let from = self.next(at);
            let slot = self.bucket(from).members().trailing_zeros() as usize;
            let to = self.bucket(at).free().trailing_zeros() as usize;
            self.shift(from, slot, at, to);
            if self.bucket(from).members() == 0 {
                self.bucket(at).set_tail(self.bucket(at).tail() & !IN_NEXT);
            }
            at = from;
            if at == bucket {
                return Some(self.bucket(at).word(slot));
            }
        }
    }

    /// Frees a slot in a full bucket by moving items at home to the next bucket, along a chain.
    fn send_on(self, bucket: usize) -> Option<*mut BucketWord> {
        let mut length = 0;
        let mut at = bucket;
        loop {
            if self.bucket(at).members() == SLOT_BITS {
                return None;
            }
            at = self.next(at);
            length += 1;
            if self.bucket(at).free() != 0 {
                break;
            }
            if length == CHAIN.min(self.homes - 1) {
                return None;
            }
        }
        loop {
            let from = self.previous(at);
            let slot = (!self.bucket(from).members() & SLOT_BITS).trailing_zeros() as usize;
            let to = self.bucket(at).free().trailing_zeros() as usize;
            self.shift(from, slot, at, to);
            self.bucket(at).set_tail(self.bucket(at).tail() | 1 << to);
            self.bucket(from).set_tail(self.bucket(from).tail() | IN_NEXT);
            at = from;
            if at == bucket {
                return Some(self.bucket(at).word(slot));
            }
        }
    }

    /// Moves an item; its membership bit in `from` is cleared, the rest of S3 is the caller's.
    fn shift(self, from: usize, slot: usize, to: usize, to_slot: usize) {
        let (from, to) = (self.bucket(from), self.bucket(to));
        debug_assert_ne!(from.fingerprint(slot), 0, "S2: it is taken");
        debug_assert_eq!(to.fingerprint(to_slot), 0, "S2: it is free");
        // SAFETY: S2: the slot is taken.
        to.put(to_slot, from.fingerprint(slot), unsafe { *from.word(slot) });
        from.put(slot, 0, BucketWord::EMPTY);
        from.set_tail(from.tail() & !(1 << slot));
    }

    /// Fills a slot that `vacate` gave for this position.
    pub(crate) fn occupy(self, slot: *mut BucketWord, position: u16, word: BucketWord) {
        debug_assert_ne!(position as u8, 0, "an empty slot has fingerprint 0");
        let home = home_of(position, self.homes);
        let own = self.bucket(home);
        match self.locate(slot) {
            At::Bucket(bucket, index) => {
                debug_assert_eq!(self.bucket(bucket).fingerprint(index), 0, "S2: it is free");
                self.bucket(bucket).put(index, position as u8, word);
                if bucket != home {
                    debug_assert!(bucket == self.next(home));
                    self.bucket(bucket).set_tail(self.bucket(bucket).tail() | 1 << index);
                    own.set_tail(own.tail() | IN_NEXT);
                }
            }
            At::Stash(index) => self.stash_put(index, home, position as u8, word),
        }
        // SAFETY: S1.
        unsafe {
            (*self.header()).count += 1;
            (*self.header()).deadlines += u16::from(word.has_deadline());
        }
        debug_assert!(self.count() <= usize::from(self.shape().slots), "S4: no more than slots");
        debug_assert!(self.deadlines() <= self.count(), "S4: no more than items");
    }

    fn stash_put(self, index: usize, home: usize, fingerprint: u8, word: BucketWord) {
        // SAFETY: S1.
        unsafe {
            debug_assert_eq!(*self.stash_home(index), NO_HOME, "S2: it is free");
            *self.stash_home(index) = home as u8;
            *self.stash_fingerprint(index) = fingerprint;
            *self.stash_word(index) = word;
        }
        self.bucket(home).set_tail(self.bucket(home).tail() | IN_STASH);
    }

    fn locate(self, slot: *mut BucketWord) -> At {
        let offset = slot.addr() - self.base.addr();
        let bucket = offset / UNIT_BYTES;
        if bucket < self.homes {
            debug_assert!(offset % UNIT_BYTES >= WORDS_AT, "it is a word");
            At::Bucket(bucket, (offset % UNIT_BYTES - WORDS_AT) / 8)
        } else {
            At::Stash((slot.addr() - self.stash_word(0).addr()) / 8)
        }
    }

    /// The home bucket of the item in a slot.
    pub(crate) fn home_of_slot(self, slot: *mut BucketWord) -> usize {
        match self.locate(slot) {
            At::Bucket(bucket, index) if self.bucket(bucket).members() >> index & 1 != 0 => {
                self.previous(bucket)
            }
            At::Bucket(bucket, _) => bucket,
            // SAFETY: S1.
            At::Stash(index) => usize::from(unsafe { *self.stash_home(index) }),
        }
    }

    /// Takes an item out. An item of the stash may move into the freed slot.
    pub(crate) fn remove(self, slot: *mut BucketWord) -> BucketWord {
        debug_assert!(self.count() > 0, "S4: it was counted");
        // SAFETY: S1, S2: the slot is taken.
        let word = unsafe {
            (*self.header()).count -= 1;
            (*self.header()).deadlines -= u16::from((*slot).has_deadline());
            *slot
        };
        match self.locate(slot) {
            At::Bucket(bucket, index) => self.clear(bucket, index),
            At::Stash(index) => self.stash_clear(index),
        }
        word
    }

    fn clear(self, bucket: usize, index: usize) {
        let at = self.bucket(bucket);
        debug_assert_ne!(at.fingerprint(index), 0, "S2: it is taken");
        at.put(index, 0, BucketWord::EMPTY);
        let was_member = at.members() >> index & 1 != 0;
        if was_member {
            at.set_tail(at.tail() & !(1 << index));
            if at.members() == 0 {
                let home = self.bucket(self.previous(bucket));
                home.set_tail(home.tail() & !IN_NEXT);
            }
        }
        if at.tail() & IN_STASH != 0 {
            debug_assert_ne!(self.stash_of(bucket), 0, "S3: the hint bit says so");
            let from = self.stash_of(bucket).trailing_zeros() as usize;
            // SAFETY: S1, S3: the hint bit says there is such a stash slot.
            unsafe { at.put(index, *self.stash_fingerprint(from), *self.stash_word(from)) };
            self.stash_clear(from);
        }
    }

    fn stash_clear(self, index: usize) {
        // SAFETY: S1.
        let home = unsafe {
            *self.stash_word(index) = BucketWord::EMPTY;
            self.stash_home(index).replace(NO_HOME)
        };
        debug_assert!(usize::from(home) < self.homes, "S2: it was taken");
        if self.stash_homes_equal(home) == 0 {
            let bucket = self.bucket(usize::from(home));
            bucket.set_tail(bucket.tail() & !IN_STASH);
        }
    }

    /// Calls `each` with every taken slot: the stash first, so that a removal inside the call
    /// (which may pull a stash item into a bucket) hides no item from it.
    pub(crate) fn for_each(self, mut each: impl FnMut(*mut BucketWord)) {
        for_bits(self.stash_used(), |index| each(self.stash_word(index)));
        for home in 0..self.homes {
            let bucket = self.bucket(home);
            for_bits(u64::from(!bucket.free() & SLOT_BITS), |index| each(bucket.word(index)));
        }
    }

    /// Calls `each` with the slot of every item of this home bucket, wherever it lies.
    pub(crate) fn for_home(self, home: usize, mut each: impl FnMut(*mut BucketWord)) {
        let bucket = self.bucket(home);
        let own = !bucket.free() & !bucket.members() & SLOT_BITS;
        for_bits(u64::from(own), |index| each(bucket.word(index)));
        if bucket.tail() & IN_NEXT != 0 {
            let next = self.bucket(self.next(home));
            for_bits(u64::from(next.members()), |index| each(next.word(index)));
        }
        if bucket.tail() & IN_STASH != 0 {
            for_bits(self.stash_of(home), |index| each(self.stash_word(index)));
        }
    }

    /// The item in the slot with this number, if the slot is taken; for a random choice.
    pub(crate) fn slot(self, number: usize) -> Option<*mut BucketWord> {
        let buckets = self.homes * BUCKET_SLOTS;
        if number < buckets {
            let bucket = self.bucket(number / BUCKET_SLOTS);
            let index = number % BUCKET_SLOTS;
            (bucket.fingerprint(index) != 0).then(|| bucket.word(index))
        } else {
            let index = number - buckets;
            let taken = index < usize::from(self.shape().stash)
                // SAFETY: S1.
                && unsafe { *self.stash_home(index) } != NO_HOME;
            taken.then(|| self.stash_word(index))
        }
    }

    /// Whether fingerprint, trail and home give every position back; if not, the records must be
    /// read.
    pub(crate) fn knows_positions(self) -> bool {
        self.homes >= 1 << (16 - 8 - POSITION_BITS)
    }

    /// Appends all items with their positions; where those are not known they are 0.
    pub(crate) fn gather(self, items: &mut Vec<Item>) {
        let known = self.knows_positions();
        let mut push = |home: usize, fingerprint: u8, word: BucketWord| {
            let position = if known {
                let low = u32::from(word.position_bits()) << 8 | u32::from(fingerprint);
                let first = first_position(home, self.homes);
                let position = (first + (low.wrapping_sub(first) & 0xFFF)) as u16;
                debug_assert_eq!(home_of(position, self.homes), home, "S3: it is its home");
                debug_assert_eq!(position as u8, fingerprint, "S2: it is its fingerprint");
                position
            } else {
                0
            };
            items.push(Item { word, position });
        };
        for home in 0..self.homes {
            let bucket = self.bucket(home);
            let members = bucket.members();
            for_bits(u64::from(!bucket.free() & SLOT_BITS), |index| {
                let away = members >> index & 1 != 0;
                let of = if away { self.previous(home) } else { home };
                // SAFETY: S2.
                push(of, bucket.fingerprint(index), unsafe { *bucket.word(index) });
            });
        }
        for_bits(self.stash_used(), |index| {
            // SAFETY: S1, S2.
            unsafe {
                let home = usize::from(*self.stash_home(index));
                push(home, *self.stash_fingerprint(index), *self.stash_word(index));
            }
        });
    }

    /// A segment of this class with these items, or `None` when they do not fit.
    pub(crate) fn build(items: &[Item], class: u8, depth: u32) -> Option<Segment> {
        if items.len() > usize::from(SHAPES[usize::from(class)].slots) {
            return None;
        }
        let segment = Segment::allocate(class, depth as u8);
        for item in items {
            match segment.vacate(item.position) {
                Some(slot) => segment.occupy(slot, item.position, item.word),
                None => {
                    // SAFETY: nobody else knows the segment; the items stay the caller's.
                    unsafe { segment.release() };
                    return None;
                }
            }
        }
        debug_assert_eq!(segment.count(), items.len(), "S4: all items");
        Some(segment)
    }

    /// Items at home, in the next bucket, in the stash.
    pub(crate) fn spread(self) -> [usize; 3] {
        let next: u32 = (0..self.homes).map(|home| self.bucket(home).members().count_ones()).sum();
        let stash = self.stash_used().count_ones();
        [self.count() - (next + stash) as usize, next as usize, stash as usize]
    }

    /// Panics unless S2..S4 hold, given the hash of keys.
    #[doc(hidden)]
    pub(crate) fn check(self, rehash: &mut dyn FnMut(&[u8]) -> u64) {
        let (mut count, mut deadlines) = (0, 0);
        let shift = window_shift(self.depth());
        self.for_each(|slot| {
            // SAFETY: S2.
            let (word, record) = unsafe { (*slot, Record::of(*slot)) };
            let hash = rehash(record.key());
            assert!(word.has_trail(trail(hash, shift)), "S2: trail");
            assert_eq!(self.home_of_slot(slot), home_of(position(hash), self.homes), "S3: home");
            count += 1;
            deadlines += usize::from(word.has_deadline());
        });
        assert_eq!((count, deadlines), (self.count(), self.deadlines()), "S4");
        for home in 0..self.homes {
            let (bucket, next) = (self.bucket(home), self.bucket(self.next(home)));
            assert_eq!(bucket.members() & bucket.free(), 0, "S3: members are taken");
            assert_eq!(bucket.tail() & IN_NEXT != 0, next.members() != 0, "S3: next hint");
            assert_eq!(bucket.tail() & IN_STASH != 0, self.stash_of(home) != 0, "S3: stash hint");
            for_bits(u64::from(!bucket.free() & SLOT_BITS), |index| {
                // SAFETY: S1.
                assert!(!unsafe { *bucket.word(index) }.is_empty(), "S2: word");
            });
        }
    }
}

impl Bucket {
    /// Fetches the records of the candidates with this trail; returns whether there was one.
    #[inline(always)]
    fn prefetch_candidates(self, mut candidates: u32, trail: HashBits) -> bool {
        let mut found = false;
        while candidates != 0 {
            // SAFETY: S2.
            let word = unsafe { *self.word(candidates.trailing_zeros() as usize) };
            if word.has_trail(trail) {
                prefetch(word.pointer());
                prefetch(word.pointer().wrapping_add(64));
                found = true;
            }
            candidates &= candidates - 1;
        }
        found
    }
}

/// The location of a slot.
enum At {
    /// Bucket and index.
    Bucket(usize, usize),
    /// Index in the stash.
    Stash(usize),
}

/// An item being moved between segments.
#[derive(Clone, Copy)]
pub(crate) struct Item {
    pub(crate) word: BucketWord,
    pub(crate) position: u16,
}

fn segment_layout(class: u8) -> Layout {
    let bytes = usize::from(SHAPES[usize::from(class)].units) * UNIT_BYTES;
    // SAFETY: the alignment is a power of two; at most 8 KiB.
    unsafe { Layout::from_size_align_unchecked(bytes, UNIT_BYTES) }
}
