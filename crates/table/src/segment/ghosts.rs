//! Ghosts: traces of evicted records that a segment keeps in its free slots.
//!
//! ```text
//! | word of a free slot: four ghosts of 16 bits, the newest lowest; 0 is none                  |
//! ghost: | 4 bits of the window | bits 8..12 of the position | fingerprint |
//! ```
//!
//! A ghost lies in the home bucket of its record, or in the next one if the home is full. The free
//! slots of a bucket are one queue: a new ghost enters the highest slot and pushes the others on,
//! the last out of the lowest slot, which is also the slot that the next record gets. So the oldest
//! leave first, and ghosts use only bytes that were free. A full bucket remembers nothing; with a
//! fifth of the slots free there is about one ghost for each record.
//!
//! A record that was never here may look like a ghost: about one in a hundred does, as the home
//! tells six bits of a position that are also in the ghost. Segments that are rebuilt start without
//! ghosts.
//!
//! Invariant
//! - S5. If the header says that there are ghosts, the word of every free slot in a bucket is zero
//!   or holds ghosts. Otherwise it is undefined and not read.
//!
//! Not here: which records are remembered, and what a return means (`evict`). Tests:
//! `tests/eviction.rs`.

use super::{At, Bucket, Segment};
use crate::word::BucketWord;

const GHOST_BITS: u32 = 16;
const GHOST: u64 = (1 << GHOST_BITS) - 1;
/// Ghosts in one word.
const LANES: u32 = u64::BITS / GHOST_BITS;
/// The lowest bit of each lane.
const ONES: u64 = u64::MAX / GHOST;
/// The highest bit of each lane.
const TOPS: u64 = ONES << (GHOST_BITS - 1);

/// The trace of an evicted key; not 0, as no fingerprint is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ghost(u16);

impl Ghost {
    /// The ghost of the record with this word and fingerprint.
    pub(crate) fn of(word: BucketWord, fingerprint: u8) -> Ghost {
        debug_assert_ne!(fingerprint, 0, "no ghost is 0");
        let window = u16::from(word.window() & 15);
        Ghost(window << 12 | word.position_bits() << 8 | u16::from(fingerprint))
    }

    /// The lane of a word that holds this ghost.
    fn lane_in(self, word: u64) -> Option<u32> {
        let differs = word ^ (ONES * u64::from(self.0));
        // The lowest bit of these belongs to a lane that is 0.
        let zeroes = differs.wrapping_sub(ONES) & !differs & TOPS;
        (zeroes != 0).then(|| zeroes.trailing_zeros() / GHOST_BITS)
    }
}

impl Segment {
    fn has_ghosts(self) -> bool {
        // SAFETY: S1.
        unsafe { (*self.header()).ghosts }
    }

    /// The ghost of the record in a slot, and its home.
    pub(crate) fn ghost_of_slot(self, slot: *mut BucketWord) -> (usize, Ghost) {
        let fingerprint = match self.locate(slot) {
            At::Bucket(bucket, index) => self.bucket(bucket).fingerprint(index),
            // SAFETY: S1.
            At::Stash(index) => unsafe { *self.stash_fingerprint(index) },
        };
        // SAFETY: S2: the slot is taken.
        (self.home_of_slot(slot), Ghost::of(unsafe { *slot }, fingerprint))
    }

    /// Remembers a record of this home that has just been removed.
    pub(crate) fn remember(self, home: usize, ghost: Ghost) {
        if !self.has_ghosts() {
            self.begin_to_remember();
        }
        let own = self.bucket(home);
        let bucket = if own.free() == 0 { self.bucket(self.next(home)) } else { own };
        bucket.push(ghost);
    }

    #[cold]
    fn begin_to_remember(self) {
        for home in 0..self.homes {
            self.bucket(home).for_free(|word| {
                // SAFETY: see `for_free`.
                unsafe { word.write(0) };
                true
            });
        }
        // SAFETY: S1; S5 holds from here on.
        unsafe { (*self.header()).ghosts = true }
    }

    /// Whether such a record of this home is remembered; forgets it.
    pub(crate) fn recall(self, home: usize, ghost: Ghost) -> bool {
        self.has_ghosts()
            && (self.bucket(home).recall(ghost) || self.bucket(self.next(home)).recall(ghost))
    }
}

impl Bucket {
    /// Calls `each` with the words of free slots, the highest first, while it returns true. They
    /// may be written, and read where S5 holds.
    fn for_free(self, mut each: impl FnMut(*mut u64) -> bool) {
        let mut free = self.free();
        while free != 0 {
            let index = free.ilog2();
            if !each(self.word(index as usize).cast()) {
                return;
            }
            free ^= 1 << index;
        }
    }

    fn push(self, ghost: Ghost) {
        let mut carried = u64::from(ghost.0);
        self.for_free(|word| {
            // SAFETY: see `for_free`; S5.
            let before = unsafe { word.read() };
            // SAFETY: see `for_free`.
            unsafe { word.write(before << GHOST_BITS | carried) };
            carried = before >> (u64::BITS - GHOST_BITS);
            carried != 0
        });
    }

    fn recall(self, ghost: Ghost) -> bool {
        let mut found = false;
        self.for_free(|word| {
            // SAFETY: see `for_free`; S5.
            let ghosts = unsafe { word.read() };
            if let Some(lane) = ghost.lane_in(ghosts) {
                // SAFETY: see `for_free`.
                unsafe { word.write(ghosts & !(GHOST << (lane * GHOST_BITS))) };
                found = true;
            }
            !found
        });
        found
    }
}

const _: () = assert!(LANES == 4 && ONES == 0x0001_0001_0001_0001);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::SLOT_BITS;

    #[test]
    fn a_ghost_is_found_in_its_lane_and_nowhere_else() {
        let word = 0x0001_8000_FFFF_0100;
        for (lane, number) in [0x0100, 0xFFFF, 0x8000, 0x0001].into_iter().enumerate() {
            assert_eq!(Ghost(number).lane_in(word), Some(lane as u32));
        }
        for number in [0x0101, 0x7FFF, 0x8001, 0x0002, 0x00FF, 0xFF00] {
            assert_eq!(Ghost(number).lane_in(word), None, "{number:x}");
        }
    }

    #[test]
    fn the_oldest_is_forgotten_first() {
        let segment = Segment::allocate(0, 0);
        let most = SLOT_BITS.count_ones() as u16 * LANES as u16;
        (1..=most + 3).for_each(|number| segment.remember(0, Ghost(number)));
        assert!((1..=3).all(|number| !segment.recall(0, Ghost(number))));
        assert!((4..=most + 3).all(|number| segment.recall(0, Ghost(number))));
        assert!((4..=most + 3).all(|number| !segment.recall(0, Ghost(number))), "once only");
        // SAFETY: nobody else knows it.
        unsafe { segment.release() };
    }
}
