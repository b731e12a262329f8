//! Elements between the ends of a list: texts without the framing of entries, in a shorter code
//! where their characters allow one.
//!
//! ```text
//! | u32 elements | u32 bytes of the lengths | u16 length of each | u8 bits | u8 symbols, numbers |
//! | symbols | lengths, one or two bytes each | texts |
//! ```
//!
//! | file | what |
//! |---|---|
//! | `code` | characters in fewer bits |
//! | this | which elements, and the location of each |
//!
//! A random text of 20 bytes takes 20 here and 22 as an entry; 20 hexadecimal digits take 10.
//! Folding 8 KB takes some ten microseconds; reading one element is faster than finding it among
//! entries. Which elements are folded: see `chunks`.
//!
//! Invariants
//! 1. If all texts have one length, it is in the head, and no lengths follow; otherwise the head
//!    says [`VARIED`].
//! 2. A length is below [`MOST_TEXT_BYTES`]: elements next to longer ones are not folded.
//! 3. A number is stored as its text, and the head says whether there are any. If they are more
//!    than one in [`ELEMENTS_PER_NUMBER`], nothing is folded: numbers are read faster as entries.
//!
//! Tests: at the foot.

mod code;

use std::ops::{ControlFlow, Range};

use pantala_table::{IntText, Renewal, size_class};

use super::{End, ListEnd};
use crate::packed::{Element, Encoded, Packed, View, entry};
use code::{Code, GROUP, Reader};

/// A chunk with a text of this length or more is not folded.
const MOST_TEXT_BYTES: usize = 1 << 15;
/// With more numbers than one in this many elements, nothing is folded.
const ELEMENTS_PER_NUMBER: usize = 8;
const HEAD_BYTES: usize = 12;
/// In place of the common length: the lengths differ.
const VARIED: u16 = u16::MAX;
/// A flag in the head's last byte, beside the count of symbols.
const HAS_NUMBERS: u8 = 0x80;
/// How many characters are decoded at once where several elements are read.
const WINDOW: usize = 256;

/// The elements of one chunk, folded into one block.
#[derive(Clone, Debug)]
pub struct FoldedList {
    bytes: Box<[u8]>,
}

impl FoldedList {
    /// Reallocates the block if it lies in sparse pages.
    pub fn renew(&mut self, renewal: &mut Renewal<'_>) {
        renewal.renew(self.bytes.as_ptr(), &mut self.bytes);
    }
}

/// The outcome of folding.
pub enum FoldOutcome {
    /// Not folded: impossible, or hardly smaller.
    No,
    /// It would pay, but the elements do not fill the room yet.
    Waits,
    /// The folded block, and how many elements it took from the starting end.
    Done(FoldedList, usize),
}

impl FoldedList {
    /// Folds the elements of neighbouring chunks: as many as fill `room` bytes, or all without a
    /// room, if they then take a smaller allocation class. `end` is where the list grows, so the
    /// block starts at the other end.
    pub fn fill(views: &[View<'_>], end: End, room: Option<usize>) -> FoldOutcome {
        let Some(texts) = Texts::of(views) else { return FoldOutcome::No };
        let code = Code::of(&texts.bytes);
        let each = texts.each();
        let total = texts.lens.len();
        let most = room.unwrap_or(usize::MAX);
        let taken = texts.fitting(&code, each, end, most);
        let (lens, bytes) = texts.part(taken, end);
        let size = texts.size(&code, each, lens, bytes.len());
        let entries: usize = views.iter().map(|view| view.bytes().len()).sum();
        let (pays, is_full) = match room {
            Some(room) => (size * total * 32 < entries * taken * 31, size > room - room / 16),
            None => (size_class(size) < size_class(entries), true),
        };
        match taken == total && !is_full {
            _ if taken == 0 || !pays => FoldOutcome::No,
            true => FoldOutcome::Waits,
            false => FoldOutcome::Done(texts.fold(&code, each, lens, bytes, size), taken),
        }
    }

    /// The unfolded elements.
    pub fn unfold(&self) -> Packed {
        let mut entries = Vec::with_capacity(self.bytes.len() * 2);
        let mut entry = Encoded::new();
        let _end = self.visit(0, ListEnd::Forward, &mut |element| {
            entry.clear();
            entry::encode(element, &mut entry);
            entries.extend_from_slice(&entry);
            ControlFlow::Continue(())
        });
        let mut packed = Packed::new();
        packed.splice(0, 0, &entries, self.layout().count as isize);
        packed
    }

    /// Allocated bytes.
    pub fn heap_bytes(&self) -> usize {
        size_class(self.bytes.len())
    }

    /// Shows an element, which must exist.
    pub fn at<R>(&self, index: usize, show: impl FnOnce(Element<'_>) -> R) -> R {
        let layout = self.layout();
        let span = layout.spans_from(index).next().unwrap_or(0..0);
        show(layout.element(Window::of(layout.reader, 0).text(span)))
    }

    /// Shows elements from an existing one on, until told to stop.
    pub fn visit(
        &self,
        from: usize,
        way: ListEnd,
        show: &mut dyn FnMut(Element<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let layout = self.layout();
        let mut window = Window::of(layout.reader, WINDOW);
        match way {
            ListEnd::Forward => {
                layout.spans_from(from).try_for_each(|span| show(layout.element(window.text(span))))
            }
            ListEnd::Backward => {
                let mut spans = layout.spans_from(0).take(from + 1).collect::<Vec<_>>();
                spans.reverse();
                window.is_backward = true;
                spans.into_iter().try_for_each(|span| show(layout.element(window.text(span))))
            }
        }
    }

    /// The index of the first element equal to `wanted`. Only texts of the same length are decoded.
    pub fn find(&self, wanted: Element<'_>) -> Option<usize> {
        let layout = self.layout();
        if wanted.int().is_some() && !layout.has_numbers {
            return None;
        }
        let mut scratch = IntText::new();
        let wanted = wanted.text(&mut scratch);
        let mut window = Window::of(layout.reader, WINDOW);
        layout
            .spans_from(0)
            .position(|span| span.len() == wanted.len() && window.text(span) == wanted)
    }

    fn layout(&self) -> Layout<'_> {
        let (head, rest) = self.bytes.split_at(HEAD_BYTES);
        let word = |at: usize| {
            u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize
        };
        let each = u16::from_le_bytes([head[8], head[9]]);
        let (symbols, rest) = rest.split_at(usize::from(head[11] & !HAS_NUMBERS));
        let (lens, texts) = rest.split_at(word(4));
        Layout {
            count: word(0),
            each: (each != VARIED).then_some(usize::from(each)),
            has_numbers: head[11] & HAS_NUMBERS != 0,
            lens,
            reader: Reader::new(usize::from(head[10]), symbols, texts),
        }
    }
}

/// The parsed parts of a folded chunk.
struct Layout<'a> {
    count: usize,
    /// The length of all texts, if they share one.
    each: Option<usize>,
    has_numbers: bool,
    lens: &'a [u8],
    reader: Reader<'a>,
}

impl<'a> Layout<'a> {
    /// The locations of the texts, from one on.
    fn spans_from(&self, index: usize) -> Spans<'a> {
        let mut spans =
            Spans { each: self.each, left: self.count, lens: self.lens.iter(), offset: 0 };
        if let Some(each) = self.each {
            spans.left = self.count.saturating_sub(index);
            spans.offset = each * index;
        } else if index > 0 {
            spans.nth(index - 1);
        }
        spans
    }

    #[inline]
    fn element<'b>(&self, text: &'b [u8]) -> Element<'b> {
        match self.has_numbers {
            true => Element::of(text),
            false => Element::Bytes(text),
        }
    }
}

/// The locations of consecutive texts, in characters.
struct Spans<'a> {
    each: Option<usize>,
    left: usize,
    lens: std::slice::Iter<'a, u8>,
    offset: usize,
}

impl Iterator for Spans<'_> {
    type Item = Range<usize>;

    #[inline]
    fn next(&mut self) -> Option<Range<usize>> {
        self.left = self.left.checked_sub(1)?;
        let len = match self.each {
            Some(each) => each,
            None => match *self.lens.next()? {
                short @ 0..=0x7f => usize::from(short),
                high => usize::from(high & 0x7f) << 8 | usize::from(*self.lens.next()?),
            },
        };
        self.offset += len;
        Some(self.offset - len..self.offset)
    }
}

/// Texts that are decoded a window at a time.
struct Window<'a> {
    reader: Reader<'a>,
    /// The least number of characters decoded at once.
    ahead: usize,
    is_backward: bool,
    text: Vec<u8>,
    /// The index of the first character of `text`.
    first: usize,
}

impl<'a> Window<'a> {
    fn of(reader: Reader<'a>, ahead: usize) -> Window<'a> {
        Window { reader, ahead, is_backward: false, text: Vec::new(), first: 0 }
    }

    #[inline]
    fn text(&mut self, span: Range<usize>) -> &[u8] {
        if let Some(all) = self.reader.plain() {
            return &all[span];
        }
        if span.start < self.first || span.end > self.first + self.text.len() {
            self.decode(span.clone());
        }
        &self.text[span.start - self.first..span.end - self.first]
    }

    fn decode(&mut self, span: Range<usize>) {
        let (start, end) = match self.is_backward {
            true => (span.end.saturating_sub(self.ahead).min(span.start), span.end),
            false => (span.start, span.end.max(span.start + self.ahead)),
        };
        let (first, last) = (start / GROUP, end.div_ceil(GROUP));
        self.text.clear();
        self.text.reserve((last - first) * GROUP);
        self.reader.read(first, last - first, &mut self.text);
        self.first = first * GROUP;
    }
}

/// The texts to be folded, in order.
struct Texts {
    bytes: Vec<u8>,
    lens: Vec<u16>,
    has_numbers: bool,
}

impl Texts {
    fn of(views: &[View<'_>]) -> Option<Texts> {
        let count: usize = views.iter().map(View::len).sum();
        let bytes = Vec::with_capacity(views.iter().map(|view| view.bytes().len()).sum());
        let mut texts = Texts { bytes, lens: Vec::with_capacity(count), has_numbers: false };
        let mut numbers = 0;
        for view in views {
            let mut rest = view.bytes();
            while !rest.is_empty() {
                if let Some((text, behind)) = entry::split_short_text(rest) {
                    texts.push(text);
                    rest = behind;
                    continue;
                }
                let element = entry::decode(rest);
                numbers += usize::from(element.int().is_some());
                if element.len() >= MOST_TEXT_BYTES || numbers * ELEMENTS_PER_NUMBER > count {
                    return None;
                }
                texts.push(element.text(&mut IntText::new()));
                rest = &rest[entry::total_len(rest)..];
            }
        }
        texts.has_numbers = numbers > 0;
        Some(texts)
    }

    #[inline]
    fn push(&mut self, text: &[u8]) {
        self.lens.push(text.len() as u16);
        self.bytes.extend_from_slice(text);
    }

    /// The common length, if there is one.
    fn each(&self) -> Option<u16> {
        let first = *self.lens.first()?;
        self.lens.iter().all(|len| *len == first).then_some(first)
    }

    /// How many texts fit into `room` bytes.
    fn fitting(&self, code: &Code, each: Option<u16>, end: End, room: usize) -> usize {
        if self.size(code, each, &self.lens, self.bytes.len()) <= room {
            return self.lens.len();
        }
        let mut size = (0, 0);
        let mut fits = |len: u16| {
            let column = if each.is_some() { 0 } else { len_bytes(len) };
            size = (size.0 + column, size.1 + usize::from(len));
            HEAD_BYTES + code.symbols().len() + size.0 + code.bytes(size.1) <= room
        };
        match end {
            End::Tail => self.lens.iter().take_while(|len| fits(**len)).count(),
            End::Head => self.lens.iter().rev().take_while(|len| fits(**len)).count(),
        }
    }

    /// This many texts, from the end at which the list does not grow.
    fn part(&self, count: usize, end: End) -> (&[u16], &[u8]) {
        let bytes = |lens: &[u16]| lens.iter().map(|len| usize::from(*len)).sum::<usize>();
        match end {
            End::Tail => {
                let lens = &self.lens[..count];
                (lens, &self.bytes[..bytes(lens)])
            }
            End::Head => {
                let lens = &self.lens[self.lens.len() - count..];
                (lens, &self.bytes[self.bytes.len() - bytes(lens)..])
            }
        }
    }

    /// The size in bytes of these texts when folded.
    fn size(&self, code: &Code, each: Option<u16>, lens: &[u16], characters: usize) -> usize {
        let column = match each {
            Some(_) => 0,
            None => lens.iter().map(|len| len_bytes(*len)).sum(),
        };
        HEAD_BYTES + code.symbols().len() + column + code.bytes(characters)
    }

    fn fold(
        &self,
        code: &Code,
        each: Option<u16>,
        lens: &[u16],
        text: &[u8],
        size: usize,
    ) -> FoldedList {
        let mut bytes = Vec::with_capacity(size);
        bytes.extend_from_slice(&(lens.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&each.unwrap_or(VARIED).to_le_bytes());
        let numbers = if self.has_numbers { HAS_NUMBERS } else { 0 };
        bytes.extend_from_slice(&[code.bits() as u8, code.symbols().len() as u8 | numbers]);
        bytes.extend_from_slice(code.symbols());
        if each.is_none() {
            let before = bytes.len();
            lens.iter().for_each(|len| push_len(*len, &mut bytes));
            let column = (bytes.len() - before) as u32;
            bytes[4..8].copy_from_slice(&column.to_le_bytes());
        }
        code.write(text, &mut bytes);
        debug_assert_eq!(bytes.len(), size, "it is as large as was computed");
        FoldedList { bytes: bytes.into_boxed_slice() }
    }
}

/// How many bytes a length takes.
fn len_bytes(len: u16) -> usize {
    1 + usize::from(len >= 0x80)
}

fn push_len(len: u16, out: &mut Vec<u8>) {
    if len < 0x80 {
        out.push(len as u8);
    } else {
        out.extend_from_slice(&[0x80 | (len >> 8) as u8, len as u8]);
    }
}

#[cfg(test)]
mod tests {
    use pantala_base::rng::Rng;

    use super::*;

    fn packed(texts: &[Vec<u8>]) -> Packed {
        let mut packed = Packed::new();
        texts.iter().for_each(|text| packed.push(Element::of(text)));
        packed
    }

    fn visited(folded: &FoldedList, from: usize, way: ListEnd) -> Vec<Vec<u8>> {
        let mut seen = Vec::new();
        let _end = folded.visit(from, way, &mut |element| {
            seen.push(element.to_vec());
            ControlFlow::Continue(())
        });
        seen
    }

    fn alone(packed: &Packed) -> Option<FoldedList> {
        match FoldedList::fill(&[packed.view()], End::Tail, None) {
            FoldOutcome::Done(folded, taken) => {
                assert_eq!(taken, packed.len());
                Some(folded)
            }
            _ => None,
        }
    }

    fn check(texts: &[Vec<u8>]) {
        let packed = packed(texts);
        let folded = alone(&packed).expect("it is smaller");
        assert!(folded.heap_bytes() < packed.heap_bytes());
        assert_eq!(folded.unfold().view().bytes(), packed.view().bytes());
        assert_eq!(folded.unfold().len(), texts.len());
        assert_eq!(folded.find(Element::Bytes(b"another")), None);
        for index in [0, 1, texts.len() / 2, texts.len() - 1] {
            let first = texts.iter().position(|text| *text == texts[index]);
            assert_eq!(folded.find(Element::of(&texts[index])), first);
            assert_eq!(folded.at(index, |element| element.to_vec()), texts[index]);
            assert_eq!(visited(&folded, index, ListEnd::Forward), texts[index..]);
            let mut back = texts[..=index].to_vec();
            back.reverse();
            assert_eq!(visited(&folded, index, ListEnd::Backward), back);
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
    fn numbers_and_other_bytes_come_back() {
        let mut texts: Vec<Vec<u8>> =
            (0..300).map(|number| format!("{number:0>19}").into_bytes()).collect();
        texts[7] = b"1234567890123456789".to_vec();
        texts[8] = b"-7".to_vec();
        check(&texts);
        let random = |seed: u64| {
            let mut text = vec![0; 20];
            Rng::from_seed(seed).bytes(&mut text);
            text
        };
        check(&(0..350).map(random).collect::<Vec<_>>());
        assert_eq!(alone(&packed(&[b"1".to_vec(), b"x".repeat(99)])).map(|_| ()), None, "numbers");
    }

    #[test]
    fn what_does_not_pay_stays() {
        let some = |text: &[u8]| vec![text.to_vec(); 300];
        assert!(alone(&packed(&[b"ab".to_vec(), b"c".to_vec()])).is_none(), "no smaller class");
        assert!(alone(&packed(&some(b"1234567890123456"))).is_none(), "numbers");
        assert!(alone(&packed(&some(b"a text of some length"))).is_some());
        assert!(alone(&packed(&[vec![b'x'; MOST_TEXT_BYTES], b"y".to_vec()])).is_none());
    }

    #[test]
    fn a_block_is_filled_from_either_side() {
        let texts: Vec<Vec<u8>> = (0..370).map(|at| format!("{at:0>20x}g").into_bytes()).collect();
        let (one, two) = (packed(&texts[..200]), packed(&texts[200..]));
        let fill = |end, room| FoldedList::fill(&[one.view(), two.view()], end, Some(room));
        for (end, room) in [(End::Head, 1000), (End::Tail, 3000), (End::Head, 4000)] {
            let FoldOutcome::Done(folded, taken) = fill(end, room) else {
                panic!("it fills {room}")
            };
            assert!(folded.bytes.len() <= room && folded.bytes.len() > room * 31 / 32);
            let expected = match end {
                End::Head => &texts[370 - taken..],
                End::Tail => &texts[..taken],
            };
            assert_eq!(visited(&folded, 0, ListEnd::Forward), expected);
        }
        assert!(matches!(fill(End::Tail, 8000), FoldOutcome::Waits));
        assert!(matches!(fill(End::Tail, 30), FoldOutcome::No), "not one fits");
    }
}
