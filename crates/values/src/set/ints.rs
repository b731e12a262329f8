//! A sorted array of distinct integers, all of them as wide as the widest needs.
//!
//! | 2 bytes | 4 bytes | 8 bytes |
//! |---|---|---|
//! | -32,768 to 32,767 | -2^31 to 2^31 - 1 | the rest |
//!
//! The bytes lie in a [`Packed`] buffer, which is one pointer and knows its bytes and elements; the
//! width is bytes divided by elements. They are not entries: only the buffer's splice is used.
//!
//! Tests: at the foot, and `tests/set.rs`.

use pantala_table::Renewal;

use crate::packed::Packed;

/// Distinct integers, sorted, with one width.
#[derive(Clone, Default)]
pub(super) struct Ints {
    buffer: Packed,
}

/// Sorted integers to be read.
#[derive(Clone, Copy)]
pub struct IntsRef<'a> {
    bytes: &'a [u8],
    len: usize,
}

/// The width in bytes that a number needs.
#[inline]
fn width_of(number: i64) -> usize {
    if i16::try_from(number).is_ok() {
        2
    } else if i32::try_from(number).is_ok() {
        4
    } else {
        8
    }
}

impl Ints {
    #[inline]
    pub fn view(&self) -> IntsRef<'_> {
        let view = self.buffer.view();
        IntsRef { bytes: view.bytes(), len: view.len() }
    }

    /// Allocated bytes.
    pub fn heap_bytes(&self) -> usize {
        self.buffer.heap_bytes()
    }

    /// Reallocates the block if it lies in sparse pages.
    pub fn renew(&mut self, renewal: &mut Renewal<'_>) {
        self.buffer.renew(renewal);
    }

    /// A set of ascending numbers.
    pub fn of_ascending(numbers: &[i64]) -> Ints {
        let width = numbers.iter().map(|number| width_of(*number)).max().unwrap_or(2);
        let mut bytes = Vec::with_capacity(numbers.len() * width);
        for number in numbers {
            bytes.extend_from_slice(&number.to_le_bytes()[..width]);
        }
        let mut ints = Ints::default();
        ints.buffer.splice(0, 0, &bytes, numbers.len() as isize);
        ints
    }

    /// Adds a number; returns whether it is new.
    pub fn add(&mut self, number: i64) -> bool {
        let view = self.view();
        let width = view.width().max(width_of(number));
        if width != view.width() && !view.is_empty() {
            self.widen(width);
        }
        let view = self.view();
        let Err(index) = view.search(number) else { return false };
        self.buffer.splice(index * width, 0, &number.to_le_bytes()[..width], 1);
        true
    }

    /// Rewrites all numbers with a larger width.
    fn widen(&mut self, width: usize) {
        let (old, len) = (self.buffer.entry_bytes(), self.buffer.len());
        let mut wide = Vec::with_capacity(len * width);
        for number in self.view().iter() {
            wide.extend_from_slice(&number.to_le_bytes()[..width]);
        }
        self.buffer.splice(0, old, &wide, 0);
    }

    /// Removes a number; returns whether it existed.
    pub fn remove(&mut self, number: i64) -> bool {
        let view = self.view();
        let (width, found) = (view.width(), view.search(number));
        if let Ok(index) = found {
            self.buffer.splice(index * width, width, &[], -1);
        }
        found.is_ok()
    }

    /// Removes the number at an index.
    pub fn remove_at(&mut self, index: usize) {
        let width = self.view().width();
        self.buffer.splice(index * width, width, &[], -1);
    }
}

impl<'a> IntsRef<'a> {
    /// How many there are.
    #[inline]
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    #[inline]
    fn width(self) -> usize {
        self.bytes.len().checked_div(self.len).unwrap_or(0)
    }

    /// The index of a number, or the index at which it would be inserted.
    #[inline]
    pub fn search(self, number: i64) -> Result<usize, usize> {
        match self.width() {
            2 => {
                search(self.bytes.as_chunks().0, number, |word| i64::from(i16::from_le_bytes(word)))
            }
            4 => {
                search(self.bytes.as_chunks().0, number, |word| i64::from(i32::from_le_bytes(word)))
            }
            _ => search(self.bytes.as_chunks().0, number, i64::from_le_bytes),
        }
    }

    /// Whether a number is in the set.
    #[inline]
    pub fn contains(self, number: i64) -> bool {
        self.search(number).is_ok()
    }

    /// The number at an index.
    #[inline]
    pub fn get(self, index: usize) -> Option<i64> {
        let width = self.width();
        let word = self.bytes.get(index * width..(index + 1) * width)?;
        match width {
            2 => word.first_chunk().map(|word| i64::from(i16::from_le_bytes(*word))),
            4 => word.first_chunk().map(|word| i64::from(i32::from_le_bytes(*word))),
            _ => word.first_chunk().map(|word| i64::from_le_bytes(*word)),
        }
    }

    /// All, in ascending order.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = i64> + use<'a> {
        (0..self.len).map_while(move |index| self.get(index))
    }
}

/// Binary search without a branch on what was read (as in Khuong and Morin, "Array layouts for
/// comparison-based searching", 2015).
#[inline]
fn search<const N: usize>(
    words: &[[u8; N]],
    number: i64,
    read: impl Fn([u8; N]) -> i64,
) -> Result<usize, usize> {
    let (mut begin, mut len) = (0, words.len());
    while len > 1 {
        let half = len / 2;
        begin += if read(words[begin + half - 1]) < number { half } else { 0 };
        len -= half;
    }
    match words.get(begin).map(|word| read(*word)) {
        Some(found) if found == number => Ok(begin),
        Some(found) if found < number => Err(begin + 1),
        _ => Err(begin),
    }
}

impl std::fmt::Debug for IntsRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl std::fmt::Debug for Ints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.view().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantala_base::rng::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn it_does_what_a_sorted_set_does() {
        for (seed, bits) in [(1, 4), (2, 15), (3, 16), (4, 17), (5, 33), (6, 64)] {
            let mut random = Rng::from_seed(seed);
            let (mut ints, mut model) = (Ints::default(), BTreeSet::new());
            for _ in 0..1500 {
                let number = (random.next_u64() as i64) >> (64 - 1 - random.below(bits));
                match random.below(3) {
                    0 => assert_eq!(ints.remove(number), model.remove(&number)),
                    _ => assert_eq!(ints.add(number), model.insert(number)),
                }
                assert_eq!(ints.view().contains(number), model.contains(&number));
                let index = model.range(..number).count();
                assert_eq!(ints.view().search(number).unwrap_or_else(|index| index), index);
            }
            assert!(ints.view().iter().eq(model.iter().copied()));
            assert_eq!(ints.view().get(model.len()), None);
        }
    }

    #[test]
    fn numbers_are_as_narrow_as_they_can_be() {
        let mut ints = Ints::default();
        for (number, width) in [(-32_768, 2), (32_767, 2), (32_768, 4), (1 << 31, 8), (i64::MIN, 8)]
        {
            assert!(ints.add(number));
            assert_eq!(ints.view().width(), width);
        }
    }
}
