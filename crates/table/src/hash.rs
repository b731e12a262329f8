//! The meaning of the bits of a key's hash.
//!
//! ```text
//!  63 .. 36 directory prefix, top bit first | 33 .. 18 position in the segment | 9 .. 0 partition
//! ```
//!
//! The position decides the home bucket, `position * N >> 16`, so buckets are in the order of
//! positions for every N. The fingerprint is the low byte of the position, where the positions
//! within one home bucket mostly differ. Bucket number and 12 low bits give the whole position
//! back, so growing a segment reads no record. A position whose low byte is 0 gets 1 there, because
//! fingerprint 0 marks an empty slot.
//!
//! Words keep five bits of the directory prefix: the *window* at depth d begins at bit `d - d % 5`,
//! so four splits in five read no record either.

use crate::word::{BucketWord, HashBits, WINDOW_BITS};

/// Bits of the directory prefix, which bound the depth of a segment.
pub(crate) const PREFIX_BITS: u32 = 28;
/// Positions in a segment.
pub(crate) const POSITIONS: u32 = 1 << 16;
const _: () = assert!(64 - PREFIX_BITS >= 18 + POSITIONS.ilog2(), "prefix and position are apart");

/// The position of a key in its segment.
#[inline]
pub(crate) fn position(hash: u64) -> u16 {
    let position = (hash >> 18) as u16;
    position | u16::from(position as u8 == 0)
}

/// The directory prefix, in the low 28 bits.
#[inline]
pub(crate) fn prefix(hash: u64) -> u32 {
    (hash >> (64 - PREFIX_BITS)) as u32
}

/// The shift that extracts the window of a hash at this depth.
#[inline]
pub(crate) fn window_shift(depth: u32) -> u32 {
    debug_assert!(depth <= PREFIX_BITS, "no segment is deeper");
    64 - WINDOW_BITS - depth / WINDOW_BITS * WINDOW_BITS
}

/// The window of a hash, given [`window_shift`].
#[inline]
pub(crate) fn window(hash: u64, shift: u32) -> u8 {
    (hash >> shift) as u8 & ((1 << WINDOW_BITS) - 1)
}

/// The bits of a hash that a word keeps at this depth.
#[inline]
pub(crate) fn trail(hash: u64, shift: u32) -> HashBits {
    BucketWord::trail(position(hash), window(hash, shift))
}

/// The window that all keys of a segment share up to its depth, when `depth` is a multiple of five:
/// the last five bits of the segment's prefix. Merging needs it.
pub(crate) fn window_of_prefix(prefix: u32, depth: u32) -> u8 {
    debug_assert!(depth > 0 && depth.is_multiple_of(WINDOW_BITS));
    (prefix >> (PREFIX_BITS - depth)) as u8 & ((1 << WINDOW_BITS) - 1)
}
