//! Strings as rows of bits. Bit 0 is the highest bit of the first byte.
//!
//! | file | what |
//! |---|---|
//! | here | one bit; counting and finding in a range of bits |
//! | `field` | numbers of up to 64 bits anywhere in the row |
//! | `fold` | several rows made into one |
//!
//! Invariants
//! 1. Offsets and lengths are of bits, as `usize`: a string has less than 2^32 bytes.
//! 2. What lies beyond the end of a string reads as zero.
//!
//! Not here: the loops over long strings (`pantala_base::simd::bits`), how a string grows
//! (`table`). Tests: at the foot of each file, against loops over single bits.

mod field;
mod fold;

use std::ops::Range;

use pantala_base::simd::bits::find_other;
use pantala_base::simd::ones::count_ones;

pub use field::{Field, Overflow};
pub use fold::{BitOp, Fold};

/// The bit at an offset.
#[inline]
pub fn bit(bytes: &[u8], offset: usize) -> bool {
    bytes.get(offset / 8).is_some_and(|byte| byte >> (7 - offset % 8) & 1 == 1)
}

/// Sets the bit at an offset inside the string; returns its old value.
#[inline]
pub fn set_bit(bytes: &mut [u8], offset: usize, on: bool) -> bool {
    let (byte, shift) = (&mut bytes[offset / 8], 7 - offset % 8);
    let old = *byte >> shift & 1 == 1;
    *byte = *byte & !(1 << shift) | u8::from(on) << shift;
    old
}

/// A range of bits inside a string, divided at byte boundaries.
struct Cut<'b> {
    /// The byte in which the range begins, if it begins inside a byte or lies in one, and a mask of
    /// the range's bits.
    head: Option<(u8, u8)>,
    whole: &'b [u8],
    /// The byte in which the range ends, if it ends inside a byte, and a mask of the range's bits.
    tail: Option<(u8, u8)>,
}

/// A mask of the bits of a byte from `first` on.
fn from(first: usize) -> u8 {
    0xff >> first
}

/// A mask of the bits of a byte before `end`, which is at least 1.
fn before(end: usize) -> u8 {
    0xff << (8 - end)
}

/// Divides a range, which lies inside the string and is not empty.
fn cut(bytes: &[u8], range: Range<usize>) -> Cut<'_> {
    let (first, last) = (range.start / 8, (range.end - 1) / 8);
    let end_in_last = range.end - last * 8;
    if first == last {
        let mask = from(range.start % 8) & before(end_in_last);
        return Cut { head: Some((bytes[first], mask)), whole: &[], tail: None };
    }
    let head = (!range.start.is_multiple_of(8)).then(|| (bytes[first], from(range.start % 8)));
    let tail = (end_in_last != 8).then(|| (bytes[last], before(end_in_last)));
    let whole = first + usize::from(head.is_some())..last + usize::from(tail.is_none());
    Cut { head, whole: &bytes[whole], tail }
}

/// How many bits of a range are set. Bits beyond the string count as zeros.
pub fn count(bytes: &[u8], range: Range<usize>) -> u64 {
    let range = range.start..range.end.min(bytes.len() * 8);
    if range.is_empty() {
        return 0;
    }
    let cut = cut(bytes, range);
    let edge = |part: Option<(u8, u8)>| {
        part.map_or(0, |(byte, mask)| u64::from((byte & mask).count_ones()))
    };
    edge(cut.head) + count_ones(cut.whole) + edge(cut.tail)
}

/// The offset of the first bit in a range with the value `wanted`. The range is cut at the string's
/// end.
pub fn find(bytes: &[u8], range: Range<usize>, wanted: bool) -> Option<usize> {
    let range = range.start..range.end.min(bytes.len() * 8);
    if range.is_empty() {
        return None;
    }
    let skipped = if wanted { 0 } else { 0xff };
    let first_in = |byte: u8, mask: u8| {
        let fitting = (byte ^ skipped) & mask;
        (fitting != 0).then(|| fitting.leading_zeros() as usize)
    };
    let (start, end) = (range.start, range.end);
    let cut = cut(bytes, range);
    if let Some((byte, mask)) = cut.head
        && let Some(at) = first_in(byte, mask)
    {
        return Some(start / 8 * 8 + at);
    }
    let whole_at = start.div_ceil(8);
    if let Some(at) = find_other(cut.whole, skipped) {
        return first_in(cut.whole[at], 0xff).map(|bit| (whole_at + at) * 8 + bit);
    }
    let (byte, mask) = cut.tail?;
    first_in(byte, mask).map(|at| (end - 1) / 8 * 8 + at)
}

#[cfg(test)]
mod tests {
    use pantala_base::rng::Rng;

    use super::*;

    #[test]
    fn sets_and_gets() {
        let mut bytes = vec![0; 3];
        assert!(!set_bit(&mut bytes, 7, true));
        assert!(set_bit(&mut bytes, 7, true));
        assert!(!set_bit(&mut bytes, 8, true));
        assert_eq!(bytes, [1, 128, 0]);
        assert!(bit(&bytes, 7) && bit(&bytes, 8) && !bit(&bytes, 9) && !bit(&bytes, 1000));
        assert!(set_bit(&mut bytes, 7, false));
        assert_eq!(bytes, [0, 128, 0]);
    }

    #[test]
    fn ranges_are_as_bit_by_bit() {
        let mut rng = Rng::from_seed(9);
        for round in 0..2000 {
            let length = rng.below(40) as usize + usize::from(round % 7 == 0) * 200;
            let mut bytes = vec![0; length];
            match round % 3 {
                0 => rng.bytes(&mut bytes),
                1 => bytes.fill(0xff),
                _ => {}
            }
            if length > 0 && round % 2 == 0 {
                let at = rng.below(length as u64 * 8) as usize;
                let old = bit(&bytes, at);
                set_bit(&mut bytes, at, !old);
            }
            let bits = length * 8;
            let start = rng.below(bits as u64 + 3) as usize;
            let range = start..start + rng.below(bits as u64 + 20) as usize;
            let inside = range.start..range.end.min(bits);
            let set = inside.clone().filter(|at| bit(&bytes, *at)).count();
            assert_eq!(count(&bytes, range.clone()), set as u64, "{range:?} {length}");
            for wanted in [false, true] {
                let found = inside.clone().find(|at| bit(&bytes, *at) == wanted);
                assert_eq!(find(&bytes, range.clone(), wanted), found, "{range:?} {length}");
            }
        }
    }
}
