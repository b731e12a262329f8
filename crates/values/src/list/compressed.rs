//! A chunk far from both ends, compressed, as `list-compress-depth` asks for.
//!
//! The chunk's entries are one block of LZ4. Compressing 8 KB takes some twenty microseconds.
//! Reading any element takes one or two, because the whole block is decompressed into a buffer that
//! lives as long as the element is used.
//!
//! Invariants
//! 1. The bytes were made by [`Compressed::of`] from whole entries; they never come from elsewhere
//!    (a snapshot stores the entries themselves).
//!
//! Not here: which chunks are compressed (`chunks`). Tests: at the foot, and `tests/list.rs`.

use lz4_flex::block;
use pantala_table::{Renewal, size_class};

use crate::packed::View;

/// Larger chunks are not compressed: work under a partition's lock is bounded, and this is the
/// largest size that `list-max-listpack-size` offers.
pub const MOST_BYTES: usize = (64 << 10) + 64;
/// Fewer bytes are not worth compressing (Redis's number).
const LEAST_BYTES: usize = 48;

/// The entries of one chunk as an LZ4 block.
#[derive(Clone, Debug)]
pub struct Compressed {
    bytes: Box<[u8]>,
}

impl Compressed {
    /// Reallocates the block if it lies in sparse pages.
    pub fn renew(&mut self, renewal: &mut Renewal<'_>) {
        renewal.renew(self.bytes.as_ptr(), &mut self.bytes);
    }

    /// Compresses entries if that saves at least a quarter.
    pub fn of(view: View<'_>) -> Option<Compressed> {
        let entries = view.bytes();
        if !(LEAST_BYTES..=MOST_BYTES).contains(&entries.len()) {
            return None;
        }
        let bytes = block::compress(entries);
        let pays = bytes.len() <= entries.len() / 4 * 3;
        pays.then(|| Compressed { bytes: bytes.into_boxed_slice() })
    }

    /// The decompressed entries, `bytes` long.
    pub fn entries(&self, bytes: usize) -> Vec<u8> {
        let mut entries = vec![0; bytes];
        let len = block::decompress_into(&self.bytes, &mut entries);
        assert_eq!(len.ok(), Some(bytes), "what was compressed here can be read (invariant 1)");
        entries
    }

    /// Allocated bytes.
    pub fn heap_bytes(&self) -> usize {
        size_class(self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use pantala_base::rng::Rng;

    use super::*;
    use crate::packed::{Element, Packed};

    fn packed(texts: impl Iterator<Item = Vec<u8>>) -> Packed {
        let mut packed = Packed::new();
        texts.for_each(|text| packed.push(Element::of(&text)));
        packed
    }

    #[test]
    fn entries_come_back() {
        for count in [3, 100, 1000] {
            let texts =
                (0..count).map(|number| format!("{{\"name\":\"user {number}\"}}").into_bytes());
            let packed = packed(texts);
            let compressed = Compressed::of(packed.view()).expect("it repeats itself");
            assert!(compressed.bytes.len() * 4 <= packed.entry_bytes() * 3);
            assert_eq!(compressed.entries(packed.entry_bytes()), packed.view().bytes());
        }
    }

    #[test]
    fn what_does_not_pay_stays() {
        let mut random = Rng::from_seed(1);
        let noise = packed((0..300).map(|_| {
            let mut text = vec![0; 20];
            random.bytes(&mut text);
            text
        }));
        assert!(Compressed::of(noise.view()).is_none());
        let short = |len: usize| packed([vec![b'x'; len]].into_iter());
        assert!(Compressed::of(short(40).view()).is_none(), "too few bytes");
        assert!(Compressed::of(short(4000).view()).is_some());
        assert!(Compressed::of(short(MOST_BYTES).view()).is_none(), "too many bytes");
    }
}
