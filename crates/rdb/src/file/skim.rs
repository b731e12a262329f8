//! Walks a shape over bytes that come in windows, to find where it ends.
//!
//! Invariants
//! 1. `at` is always at the end of a whole item. It may lie beyond the window: the bytes of a
//!    string are skipped, not waited for.
//! 2. The next item begins at `at`; earlier bytes are not read again, so for every division into
//!    windows each byte is read once, except the few of an item's head.
//! 3. There is no recursion, and the number of frames is the depth of nested shapes.

use smallvec::SmallVec;

use super::damage::DamageFinding;
use super::shape::{EntryShape, Item};
use crate::input::{Input, Malformed, TOO_SHORT};
use crate::scalars::length::{self, Length};
use crate::scalars::text;

/// The end opcode of a module's data.
const PART_END: u64 = 0;
const PART_SIGNED: u64 = 1;
const PART_UNSIGNED: u64 = 2;
const PART_FLOAT: u64 = 3;
const PART_DOUBLE: u64 = 4;
const PART_STRING: u64 = 5;

/// The bit of `KeyBits` that announces a number.
const HAS_NUMBER: u32 = 1 << 1;
/// From this length on, the length byte of a score as text stands for a score without text.
const FIRST_WITHOUT_TEXT: u8 = 253;

/// How far the walk came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkimOutcome {
    /// All shapes were skipped.
    Whole,
    /// The window ended, or was passed.
    Part,
}

/// A violation of the shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkimFault {
    /// Its position, counted like `at`.
    pub at: u64,
    pub expected: &'static str,
    pub found: DamageFinding,
}

/// The remaining items of a shape, to be repeated `times` times including this one.
#[derive(Clone, Copy, Debug)]
struct Frame {
    shape: EntryShape,
    next: usize,
    times: u64,
}

/// The position inside nested shapes while skipping a value.
#[derive(Debug, Default)]
pub struct Skimmer {
    frames: SmallVec<[Frame; 6]>,
    at: u64,
}

impl Skimmer {
    /// How many bytes have been skipped.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Skips bytes that the caller has read.
    pub fn pass(&mut self, count: u64) {
        self.at += count;
    }

    /// Adds a shape to be walked over before the pending ones.
    pub fn begin(&mut self, shape: EntryShape) {
        self.frames.push(Frame { shape, next: 0, times: 1 });
    }

    /// The next expected item, in words; `None` at the end of all shapes.
    pub fn expected(&self) -> Option<&'static str> {
        let frame = self.frames.iter().rev().find(|frame| frame.next < frame.shape.len())?;
        Some(frame.shape[frame.next].in_words())
    }

    /// Continues. `window` begins where `at` was 0, and at most `most` bytes can come in total.
    pub fn go_on(&mut self, window: &[u8], most: u64) -> Result<SkimOutcome, SkimFault> {
        while let Some(frame) = self.frames.last_mut() {
            let Some(&item) = frame.shape.get(frame.next) else {
                (frame.next, frame.times) = (0, frame.times - 1);
                if frame.times == 0 {
                    self.frames.pop();
                }
                continue;
            };
            let at = self.at;
            let fault = |found| Err(SkimFault { at, expected: item.in_words(), found });
            let rest = usize::try_from(at).ok().and_then(|at| window.get(at..));
            let (len, after) = match walk(item, rest.unwrap_or_default()) {
                Ok(walked) => walked,
                Err(why) if why == TOO_SHORT => return Ok(SkimOutcome::Part),
                Err(why) => return fault(DamageFinding::Value(why)),
            };
            match at.checked_add(len) {
                Some(end) if end <= most => self.at = end,
                _ => return fault(DamageFinding::TooMany(len)),
            }
            match after {
                HeadAction::Next => frame.next += 1,
                HeadAction::Again => {}
                HeadAction::Into(_, times) if times > most - self.at => {
                    return fault(DamageFinding::TooMany(times));
                }
                HeadAction::Into(shape, times) => {
                    frame.next += 1;
                    if times > 0 {
                        self.frames.push(Frame { shape, next: 0, times });
                    }
                }
            }
        }
        Ok(if self.at > window.len() as u64 { SkimOutcome::Part } else { SkimOutcome::Whole })
    }
}

impl Item {
    fn in_words(self) -> &'static str {
        match self {
            Item::String => "a string",
            Item::Length => "a number",
            Item::Bytes(_) => "some bytes",
            Item::OldScore => "a score",
            Item::KeyBits => "bits that tell of a key",
            Item::Times(_) => "a count",
            Item::ModuleParts => "a part of a module's value",
        }
    }
}

/// What follows the head of an item.
enum HeadAction {
    Next,
    /// The current item once more.
    Again,
    /// This shape, this many times, then the next item.
    Into(EntryShape, u64),
}

/// The length of an item; for counted shapes only of the count.
fn walk(item: Item, bytes: &[u8]) -> Result<(u64, HeadAction), Malformed> {
    let mut input = Input::new(bytes);
    let mut after = HeadAction::Next;
    let passed = match item {
        Item::String => string(&mut input)?,
        Item::Length => length::read(&mut input).map(|_| 0)?,
        Item::Bytes(count) => input.take(usize::from(count)).map(|_| 0)?,
        Item::KeyBits => {
            let bits = u32::from_le_bytes(input.array()?);
            if bits & HAS_NUMBER != 0 { input.array::<4>().map(|_| 0)? } else { 0 }
        }
        Item::OldScore => match input.byte()? {
            FIRST_WITHOUT_TEXT.. => 0,
            len => u64::from(len),
        },
        Item::Times(shape) => {
            after = HeadAction::Into(shape, length::read(&mut input)?);
            0
        }
        Item::ModuleParts => {
            let mark = length::read(&mut input)?;
            if mark != PART_END {
                after = HeadAction::Again;
            }
            match mark {
                PART_END => 0,
                PART_SIGNED | PART_UNSIGNED => length::read(&mut input).map(|_| 0)?,
                PART_FLOAT => input.array::<4>().map(|_| 0)?,
                PART_DOUBLE => input.array::<8>().map(|_| 0)?,
                PART_STRING => string(&mut input)?,
                _ => return Err(Malformed("an unknown mark in a module's value")),
            }
        }
    };
    let read = bytes.len() - input.rest().len();
    Ok((passed.saturating_add(read as u64), after))
}

/// Reads a string's head, and returns how many bytes follow.
fn string(input: &mut Input<'_>) -> Result<u64, Malformed> {
    Ok(match length::read_any(input)? {
        Length::Is(len) => len,
        Length::Mark(text::INT8) => 1,
        Length::Mark(text::INT16) => 2,
        Length::Mark(text::INT32) => 4,
        Length::Mark(text::LZF) => {
            let compressed = length::read(input)?;
            length::read(input)?;
            compressed
        }
        Length::Mark(_) => return Err(text::UNKNOWN_FORM),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Item::{Bytes, Length, ModuleParts, OldScore, String, Times};

    /// Walks over `bytes`, one more at a time.
    fn skim(shape: EntryShape, bytes: &[u8]) -> Result<u64, SkimFault> {
        let mut skimmer = Skimmer::default();
        skimmer.begin(shape);
        for len in 0..=bytes.len() {
            if skimmer.go_on(&bytes[..len], bytes.len() as u64)? == SkimOutcome::Whole {
                assert_eq!(skimmer.expected(), None);
                return Ok(skimmer.at());
            }
        }
        panic!("{} is not enough: {:?}", bytes.escape_ascii(), skimmer.expected());
    }

    #[test]
    fn every_item() {
        for (shape, bytes) in [
            (&[String][..], &b"\x03abc"[..]),
            (&[String], b"\x40\x03abc"),
            (&[String], b"\xc0a"),
            (&[String], b"\xc1ab"),
            (&[String], b"\xc2abcd"),
            (&[String], b"\xc3\x03\x20abc"),
            (&[Length], b"\x81abcdefgh"),
            (&[Bytes(3)], b"abc"),
            (&[OldScore], b"\x021."),
            (&[OldScore], b"\xff"),
            (&[Times(&[String, Bytes(1)])], b"\x02\x01ab\0b"),
            (&[Times(&[String])], b"\0"),
            (&[Times(&[Times(&[Length]), Bytes(1)])], b"\x02\x02\x01\x01x\0x"),
            (&[ModuleParts], b"\0"),
            (&[ModuleParts], b"\x01\x05\x02\x40\x05\x03abcd\x04abcdefgh\x05\x02ab\0"),
        ] {
            assert_eq!(skim(shape, bytes), Ok(bytes.len() as u64), "{}", bytes.escape_ascii());
            let longer = [bytes, b"x"].concat();
            assert_eq!(skim(shape, &longer), Ok(bytes.len() as u64));
        }
    }

    #[test]
    fn what_cannot_be_is_told() {
        let fault = |shape, bytes: &[u8]| skim(shape, bytes).expect_err("it is wrong");
        let found = fault(&[Bytes(1), String], b"x\x19");
        assert_eq!((found.at, found.expected), (1, "a string"));
        assert_eq!(found.found, DamageFinding::TooMany(26), "with the head");
        assert_eq!(fault(&[String], b"\xc4").found, DamageFinding::Value(text::UNKNOWN_FORM));
        assert_eq!(fault(&[Times(&[String])], b"\x03ab").found, DamageFinding::TooMany(3));
        let most = b"\x81\xff\xff\xff\xff\xff\xff\xff\xff";
        assert_eq!(fault(&[String], most).found, DamageFinding::TooMany(u64::MAX));
        assert_eq!(fault(&[Times(&[String])], most).found, DamageFinding::TooMany(u64::MAX));
        assert!(matches!(fault(&[ModuleParts], b"\x06").found, DamageFinding::Value(_)));
    }
}
