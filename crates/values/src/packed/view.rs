//! Read access to packed entries, wherever they lie.

use super::Encoded;
use super::entry::{self, Element};

/// Packed entries and their number.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    bytes: &'a [u8],
    count: usize,
}

impl<'a> View<'a> {
    /// A view of whole entries. `count` must be right where [`View::len`] or [`View::seek`] is
    /// used.
    #[inline]
    pub fn new(bytes: &'a [u8], count: usize) -> View<'a> {
        View { bytes, count }
    }

    /// The encoded entries.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// How many elements there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The element at an offset.
    #[inline]
    pub fn at(&self, offset: usize) -> Element<'a> {
        entry::decode(&self.bytes[offset..])
    }

    /// Bytes of the entry at an offset.
    #[inline]
    pub fn entry_len(&self, offset: usize) -> usize {
        entry::total_len(&self.bytes[offset..])
    }

    /// The offset of the entry after the one at `offset`; the end for the last.
    #[inline]
    pub fn next(&self, offset: usize) -> usize {
        offset + self.entry_len(offset)
    }

    /// The offset of the entry before `offset`, which may be the end; `None` at the start.
    #[inline]
    pub fn previous(&self, offset: usize) -> Option<usize> {
        (offset > 0).then(|| offset - entry::last_len(&self.bytes[..offset]))
    }

    /// All elements with their offsets, from the front.
    #[inline]
    pub fn iter(&self) -> Entries<'a> {
        self.iter_from(0)
    }

    /// Elements from an offset on.
    #[inline]
    pub fn iter_from(&self, offset: usize) -> Entries<'a> {
        Entries { view: *self, offset }
    }

    /// All elements with their offsets, from the end.
    pub fn iter_back(&self) -> impl Iterator<Item = (usize, Element<'a>)> + use<'a> {
        let view = *self;
        let mut end = view.bytes.len();
        std::iter::from_fn(move || {
            end = view.previous(end)?;
            Some((end, view.at(end)))
        })
    }

    /// The offset of the element with this index; `None` after the last. Walks from the nearer end.
    pub fn seek(&self, index: usize) -> Option<usize> {
        if index >= self.count {
            return None;
        }
        if index <= self.count / 2 {
            let mut offset = 0;
            for _ in 0..index {
                offset = self.next(offset);
            }
            return Some(offset);
        }
        let mut offset = self.bytes.len();
        for _ in index..self.count {
            offset = self.previous(offset)?;
        }
        Some(offset)
    }

    /// How many elements precede an offset.
    pub fn index_of(&self, offset: usize) -> usize {
        View::new(&self.bytes[..offset], 0).iter().count()
    }

    /// Bytes of up to `count` entries from `offset` on, and how many entries they are.
    pub fn span(&self, offset: usize, count: usize) -> (usize, usize) {
        let (mut end, mut found) = (offset, 0);
        while found < count && end < self.bytes.len() {
            end = self.next(end);
            found += 1;
        }
        (end - offset, found)
    }

    /// The first entry from `from` on with this text, checking every `stride`-th.
    #[inline]
    pub fn find(&self, text: &[u8], stride: usize, from: usize) -> Option<usize> {
        let mut encoded = Encoded::new();
        entry::encode(Element::of(text), &mut encoded);
        self.find_encoded(&encoded, stride, from)
    }

    /// As [`View::find`], for an entry that is already encoded.
    pub fn find_encoded(&self, encoded: &[u8], stride: usize, from: usize) -> Option<usize> {
        let mut offset = from;
        while offset < self.bytes.len() {
            if self.bytes[offset..].starts_with(encoded) {
                return Some(offset);
            }
            for _ in 0..stride {
                if offset < self.bytes.len() {
                    offset = self.next(offset);
                }
            }
        }
        None
    }
}

/// An iterator over elements, see [`View::iter`].
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    view: View<'a>,
    offset: usize,
}

impl<'a> Iterator for Entries<'a> {
    type Item = (usize, Element<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.offset;
        let rest = self.view.bytes.get(offset..).filter(|rest| !rest.is_empty())?;
        self.offset += entry::total_len(rest);
        Some((offset, entry::decode(rest)))
    }
}
