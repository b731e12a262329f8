//! A chunk that is not at hand: texts without their entries' frames, eight characters in seven
//! bytes.
//!
//! ```text
//! | u16 bytes of the lengths | lengths, one or two bytes each | texts, 7 bits a character |
//! ```
//!
//! A full chunk of 8,192 bytes becomes one of 7,168 at most, in about a microsecond, and one
//! element of it is read in less. Only chunks between the ends are kept so, see `chunks`.
//!
//! Invariants
//! 1. All elements are texts of ASCII characters; a number is kept as a number elsewhere.
//! 2. A length is below [`MOST_TEXT_BYTES`]: chunks with longer ones are not folded.
//! 3. Texts are filled up with zeros to a multiple of eight characters.
//!
//! Tests: at the foot.

use std::ops::ControlFlow;

use pantala_table::size_class;

use super::Way;
use crate::packed::{Element, Packed};

/// A longer text is no small element of a chunk.
const MOST_TEXT_BYTES: usize = 1 << 15;
/// Bytes that say how long the lengths are.
const HEAD_BYTES: usize = 2;

/// See the module.
#[derive(Clone, Debug)]
pub struct Folded {
    bytes: Box<[u8]>,
}

impl Folded {
    /// The same elements folded, if that is possible and takes less room.
    pub fn of(packed: &Packed) -> Option<Folded> {
        let view = packed.view();
        let mut lens: Vec<u8> = Vec::with_capacity(HEAD_BYTES + view.len());
        let mut text: Vec<u8> = Vec::with_capacity(view.bytes().len());
        lens.extend([0; HEAD_BYTES]);
        for (_, element) in view.iter() {
            let Element::Bytes(bytes) = element else { return None };
            if !bytes.is_ascii() || bytes.len() >= MOST_TEXT_BYTES {
                return None;
            }
            push_len(bytes.len(), &mut lens);
            text.extend_from_slice(bytes);
        }
        let room = lens.len() + text.len().div_ceil(8) * 7;
        let column = u16::try_from(lens.len() - HEAD_BYTES).ok()?;
        if size_class(room) >= packed.heap_bytes() {
            return None;
        }
        lens[..HEAD_BYTES].copy_from_slice(&column.to_le_bytes());
        let mut bytes = lens;
        bytes.reserve_exact(room - bytes.len());
        squeeze(&text, &mut bytes);
        Some(Folded { bytes: bytes.into_boxed_slice() })
    }

    /// The elements as they were.
    pub fn unfold(&self) -> Packed {
        let mut packed = Packed::new();
        let text = self.text();
        let mut entries = Vec::with_capacity(text.len() + text.len() / 4);
        let (mut at, mut count) = (0, 0);
        for len in self.lens() {
            let mut entry = crate::packed::Encoded::new();
            crate::packed::entry::encode(Element::Bytes(&text[at..at + len]), &mut entry);
            entries.extend_from_slice(&entry);
            at += len;
            count += 1;
        }
        packed.splice(0, 0, &entries, count);
        packed
    }

    /// Allocated bytes.
    pub fn heap_bytes(&self) -> usize {
        size_class(self.bytes.len())
    }

    /// Shows an element that is there.
    pub fn at<R>(&self, index: usize, show: impl FnOnce(Element<'_>) -> R) -> R {
        let (mut offset, mut len) = (0, 0);
        for (number, found) in self.lens().enumerate() {
            len = found;
            if number == index {
                break;
            }
            offset += found;
        }
        let (first, skip) = (offset / 8, offset % 8);
        let mut text = Vec::with_capacity(skip + len + 8);
        let groups = self.squeezed().chunks_exact(7).skip(first);
        for group in groups.take((skip + len).div_ceil(8)) {
            text.extend_from_slice(&spread(group));
        }
        show(Element::Bytes(&text[skip..skip + len]))
    }

    /// Shows elements from one that is there on, until told to stop.
    pub fn visit(
        &self,
        from: usize,
        way: Way,
        show: &mut dyn FnMut(Element<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let text = self.text();
        let mut at = 0;
        let spans = self.lens().map(|len| {
            at += len;
            at - len..at
        });
        let mut show = |span| show(Element::Bytes(&text[span]));
        match way {
            Way::Forward => spans.skip(from).try_for_each(&mut show),
            Way::Backward => {
                let spans: Vec<_> = spans.take(from + 1).collect();
                spans.into_iter().rev().try_for_each(&mut show)
            }
        }
    }

    /// The place of the first element that is this text. The texts are looked at only if one is
    /// as long.
    pub fn find(&self, wanted: &[u8]) -> Option<usize> {
        if self.lens().all(|len| len != wanted.len()) {
            return None;
        }
        let text = self.text();
        let mut at = 0;
        self.lens().position(|len| {
            at += len;
            len == wanted.len() && text[at - len..at] == *wanted
        })
    }

    /// Bytes of the lengths.
    fn column(&self) -> usize {
        usize::from(u16::from_le_bytes([self.bytes[0], self.bytes[1]]))
    }

    fn lens(&self) -> impl Iterator<Item = usize> {
        let mut column = self.bytes[HEAD_BYTES..HEAD_BYTES + self.column()].iter();
        std::iter::from_fn(move || {
            let first = usize::from(*column.next()?);
            match first & 0x80 {
                0 => Some(first),
                _ => Some((first & 0x7f) << 8 | usize::from(*column.next()?)),
            }
        })
    }

    fn squeezed(&self) -> &[u8] {
        &self.bytes[HEAD_BYTES + self.column()..]
    }

    /// All texts one after the other, with the zeros behind them.
    fn text(&self) -> Vec<u8> {
        let squeezed = self.squeezed();
        let mut text = Vec::with_capacity(squeezed.len() / 7 * 8);
        for group in squeezed.chunks_exact(7) {
            text.extend_from_slice(&spread(group));
        }
        text
    }
}

fn push_len(len: usize, out: &mut Vec<u8>) {
    if len < 0x80 {
        out.push(len as u8);
    } else {
        out.extend([0x80 | (len >> 8) as u8, len as u8]);
    }
}

/// Appends texts with eight characters in seven bytes: neighbours move together by one bit, pairs
/// by two, fours by four.
fn squeeze(text: &[u8], out: &mut Vec<u8>) {
    for group in text.chunks(8) {
        let mut eight = [0; 8];
        eight[..group.len()].copy_from_slice(group);
        let mut word = u64::from_le_bytes(eight);
        word = word & 0x007f_007f_007f_007f | (word & 0x7f00_7f00_7f00_7f00) >> 1;
        word = word & 0x0000_3fff_0000_3fff | (word & 0x3fff_0000_3fff_0000) >> 2;
        word = word & 0x0000_0000_0fff_ffff | (word & 0x0fff_ffff_0000_0000) >> 4;
        out.extend_from_slice(&word.to_le_bytes()[..7]);
    }
}

/// The eight characters of seven bytes.
#[inline]
fn spread(seven: &[u8]) -> [u8; 8] {
    let mut eight = [0; 8];
    eight[..7].copy_from_slice(seven);
    let mut word = u64::from_le_bytes(eight);
    word = word & 0x0000_0000_0fff_ffff | (word & 0x00ff_ffff_f000_0000) << 4;
    word = word & 0x0000_3fff_0000_3fff | (word & 0x0fff_c000_0fff_c000) << 2;
    word = word & 0x007f_007f_007f_007f | (word & 0x3f80_3f80_3f80_3f80) << 1;
    word.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(texts: &[Vec<u8>]) -> Packed {
        let mut packed = Packed::new();
        texts.iter().for_each(|text| packed.push(Element::of(text)));
        packed
    }

    fn visited(folded: &Folded, from: usize, way: Way) -> Vec<Vec<u8>> {
        let mut seen = Vec::new();
        let _end = folded.visit(from, way, &mut |element| {
            seen.push(element.to_vec());
            ControlFlow::Continue(())
        });
        seen
    }

    fn check(texts: &[Vec<u8>]) {
        let packed = packed(texts);
        let folded = Folded::of(&packed).expect("it is smaller");
        assert!(folded.heap_bytes() < packed.heap_bytes());
        assert_eq!(folded.unfold().view().bytes(), packed.view().bytes());
        assert_eq!(folded.unfold().len(), texts.len());
        assert_eq!(folded.find(b"another"), None);
        for index in [0, 1, texts.len() / 2, texts.len() - 1] {
            let first = texts.iter().position(|text| *text == texts[index]);
            assert_eq!(folded.find(&texts[index]), first);
            assert_eq!(folded.at(index, |element| element.to_vec()), texts[index]);
            assert_eq!(visited(&folded, index, Way::Forward), texts[index..]);
            let mut back = texts[..=index].to_vec();
            back.reverse();
            assert_eq!(visited(&folded, index, Way::Backward), back);
        }
    }

    #[test]
    fn texts_come_back() {
        let text = |len: usize, shift: usize| {
            (0..len).map(|at| (at * 31 + shift * 7) as u8 & 0x7f | 0x40).collect::<Vec<u8>>()
        };
        for len in [9, 20, 63, 64, 127, 128, 300, 2000] {
            check(&(0..8160 / (len + 3)).map(|number| text(len, number)).collect::<Vec<_>>());
        }
        check(&(0..400).map(|number| text(number % 40, number)).collect::<Vec<_>>());
        check(&[vec![0x7f; 4000], vec![0; 4000], Vec::new(), vec![b'x'; 80]]);
    }

    #[test]
    fn what_does_not_pay_or_is_no_ascii_stays() {
        let some = |text: &[u8]| vec![text.to_vec(); 300];
        assert!(
            Folded::of(&packed(&[b"ab".to_vec(), b"c".to_vec()])).is_none(),
            "no smaller class"
        );
        assert!(Folded::of(&packed(&some(b"1234567890123456"))).is_none(), "a number");
        assert!(Folded::of(&packed(&some(b"a character of \xc3\xa9"))).is_none());
        assert!(Folded::of(&packed(&some(b"a text of some length"))).is_some());
    }
}
