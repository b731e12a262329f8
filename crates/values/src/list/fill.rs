//! The limits of one packed buffer of a list, from the setting `list-max-listpack-size`, and how
//! many buffers at each end stay uncompressed, from `list-compress-depth`.
//!
//! The numbers are Redis's, because OBJECT ENCODING shows them: from -1 to -5 bytes, 4 KB to 64 KB;
//! from 1 on elements, and then never more than 8 KB.

use super::chunk::Chunk;
use crate::packed::entry;

/// Bytes that the codes -1 to -5 stand for.
const BYTES: [usize; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
/// The byte limit of a chunk where the setting counts elements.
const SAFE_BYTES: usize = 8 << 10;
/// Estimated overhead of an entry beyond its text, a lower bound.
const ENTRY_BYTES: usize = 8;
/// The frame of a listpack.
pub const FRAME_BYTES: usize = 7;

/// The two list settings: size limit of a chunk, and compression depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    size: i32,
    depth: u32,
}

impl Fill {
    /// Limits from the value of `list-max-listpack-size`.
    pub fn new(setting: i64) -> Fill {
        let most = i64::from(i32::MAX);
        Fill { size: setting.clamp(-most, most) as i32, depth: 0 }
    }

    /// Sets that chunks farther from both ends than `depth` are compressed; 0: none.
    pub fn compressing(self, depth: u32) -> Fill {
        Fill { depth, ..self }
    }

    /// How many chunks at each end are not compressed; 0: compression is off.
    #[inline]
    pub fn depth(self) -> u32 {
        self.depth
    }

    fn most_bytes(self) -> Option<usize> {
        let code = usize::try_from(self.size.checked_neg()?).ok()?.checked_sub(1)?;
        Some(BYTES[code.min(BYTES.len() - 1)])
    }

    fn most_elements(self) -> usize {
        usize::try_from(self.size).unwrap_or(0).max(1)
    }

    /// Whether a listpack of this many bytes and elements would be too large.
    #[inline]
    pub fn is_exceeded(self, bytes: usize, elements: usize) -> bool {
        match self.most_bytes() {
            Some(most) => bytes > most,
            None => bytes > SAFE_BYTES || elements > self.most_elements(),
        }
    }

    /// Whether a shrunken list of this size fits one listpack with room to spare, so that it does
    /// not change back and forth.
    pub fn has_room(self, bytes: usize, elements: usize) -> bool {
        match self.most_bytes() {
            Some(most) => bytes <= most / 2,
            None => elements <= self.most_elements() / 2,
        }
    }

    /// Whether a text of this length gets a chunk of its own.
    #[inline]
    pub fn is_large(self, text_len: usize) -> bool {
        text_len > self.most_bytes().unwrap_or(SAFE_BYTES)
    }

    /// Whether a chunk is a single large text, judged by its entry, which grows with the text.
    pub fn is_single(self, chunk: &Chunk) -> bool {
        let most = self.most_bytes().unwrap_or(SAFE_BYTES);
        chunk.len() == 1 && chunk.entry_bytes() > entry::text_entry_len(most)
    }

    /// Bytes of elements that fill a folded block; `None` where elements are counted, and each
    /// chunk is folded by itself. It is an allocator size, and for random bytes no more than a
    /// chunk holds.
    pub fn block_bytes(self) -> Option<usize> {
        self.most_bytes().map(|most| most / 8 * 7)
    }

    /// Whether a text of this length goes into a chunk.
    #[inline]
    pub fn takes(self, chunk: &Chunk, text_len: usize) -> bool {
        let bytes = chunk.entry_bytes() + FRAME_BYTES + text_len + ENTRY_BYTES;
        !self.is_large(text_len) && !self.is_exceeded(bytes, chunk.len() + 1)
    }

    /// Whether two chunks may become one.
    pub fn joins(self, left: &Chunk, right: &Chunk) -> bool {
        let bytes = left.entry_bytes() + right.entry_bytes() + FRAME_BYTES;
        !self.is_exceeded(bytes, left.len() + right.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_bytes_and_numbers_are_elements() {
        assert!(!Fill::new(-2).is_exceeded(8192, 5000));
        assert!(Fill::new(-2).is_exceeded(8193, 1));
        assert!(Fill::new(-100).is_exceeded(65_537, 1) && !Fill::new(-100).is_exceeded(65_536, 1));
        assert!(Fill::new(i64::MIN).is_exceeded(65_537, 1));
        assert!(!Fill::new(10).is_exceeded(8192, 10) && Fill::new(10).is_exceeded(10, 11));
        assert!(Fill::new(10).is_exceeded(8193, 1));
        assert!(Fill::new(0).is_exceeded(10, 2) && !Fill::new(0).is_exceeded(10, 1));
    }

    #[test]
    fn a_list_shrinks_at_half() {
        assert!(Fill::new(-1).has_room(2048, 1000) && !Fill::new(-1).has_room(2049, 1));
        assert!(Fill::new(10).has_room(9000, 5) && !Fill::new(10).has_room(1, 6));
        assert!(Fill::new(-1).is_large(4097) && !Fill::new(-1).is_large(4096));
        assert!(Fill::new(5).is_large(8193) && !Fill::new(5).is_large(8192));
    }
}
