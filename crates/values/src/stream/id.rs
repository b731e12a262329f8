//! The id of an entry: a time in milliseconds and a sequence number, ordered.
//!
//! Parsing accepts what the reference's `strtoull` accepts: leading blanks, a sign, leading zeros,
//! and anything after a zero byte is ignored.

use pantala_base::number::{fmt_u64, parse_u64};

/// The id of a stream entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Unix time in milliseconds, or whatever the client chose.
    pub ms: u64,
    /// The sequence number among entries with the same time.
    pub seq: u64,
}

/// A longer text is not an id.
const TEXT_MAX_BYTES: usize = 127;
/// Bytes of the longest id's text: two numbers of 20 digits and the dash.
pub const ID_TEXT_MAX_BYTES: usize = 41;

/// The second half of an id as a client gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequence {
    /// A given number.
    Given(u64),
    /// Missing: `ms` alone.
    Missing,
    /// To be chosen: `ms-*`
    Any,
}

impl StreamId {
    /// The smallest id.
    pub const MIN: StreamId = StreamId { ms: 0, seq: 0 };
    /// The largest id.
    pub const MAX: StreamId = StreamId { ms: u64::MAX, seq: u64::MAX };

    /// An id from its parts.
    pub const fn new(ms: u64, seq: u64) -> StreamId {
        StreamId { ms, seq }
    }

    /// The id after this one; `None` after the last.
    #[inline]
    pub fn next(self) -> Option<StreamId> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(StreamId { ms: self.ms, seq }),
            None => Some(StreamId { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// The id before this one; `None` before the first.
    #[inline]
    pub fn previous(self) -> Option<StreamId> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(StreamId { ms: self.ms, seq }),
            None => Some(StreamId { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }

    /// Formats the id as `ms-seq` at the end of `out`.
    #[inline]
    pub fn write(self, out: &mut [u8; ID_TEXT_MAX_BYTES]) -> &[u8] {
        let mut digits = [0; 20];
        let seq = fmt_u64(self.seq, &mut digits);
        let mut at = ID_TEXT_MAX_BYTES - seq.len();
        out[at..].copy_from_slice(seq);
        at -= 1;
        out[at] = b'-';
        let mut digits = [0; 20];
        let ms = fmt_u64(self.ms, &mut digits);
        let from = at - ms.len();
        out[from..at].copy_from_slice(ms);
        &out[from..]
    }

    /// Parses both halves; `None` if the text is not an id. `-` and `+` are not.
    pub fn parse(text: &[u8]) -> Option<(u64, Sequence)> {
        if text.len() > TEXT_MAX_BYTES {
            return None;
        }
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let Some(dash) = text.iter().position(|byte| *byte == b'-') else {
            return Some((parse_half(text)?, Sequence::Missing));
        };
        let ms = parse_half(&text[..dash])?;
        match &text[dash + 1..] {
            b"*" => Some((ms, Sequence::Any)),
            seq => Some((ms, Sequence::Given(parse_half(seq)?))),
        }
    }

    /// Parses an id; `missing` replaces an absent second half. `None` if the text is not an id.
    pub fn parse_strict(text: &[u8], missing: u64) -> Option<StreamId> {
        let (ms, seq) = StreamId::parse(text)?;
        match seq {
            Sequence::Given(seq) => Some(StreamId { ms, seq }),
            Sequence::Missing => Some(StreamId { ms, seq: missing }),
            Sequence::Any => None,
        }
    }
}

fn parse_half(text: &[u8]) -> Option<u64> {
    parse_u64(text).or_else(|| parse_odd(text))
}

/// Parses a number as `strtoull` does.
#[cold]
fn parse_odd(text: &[u8]) -> Option<u64> {
    // A negative number in its usual spelling is out of range; in another it wraps around.
    if pantala_base::number::parse_i64(text).is_some_and(|number| number < 0) {
        return None;
    }
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let begin = text.iter().position(|byte| !is_blank(byte))?;
    let (is_negative, digits) = match &text[begin..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0_u64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(if is_negative { value.wrapping_neg() } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_ids() {
        let mut room = [0; ID_TEXT_MAX_BYTES];
        for (id, text) in [
            (StreamId::MIN, "0-0"),
            (StreamId::new(1526919030474, 55), "1526919030474-55"),
            (StreamId::MAX, "18446744073709551615-18446744073709551615"),
        ] {
            assert_eq!(id.write(&mut room), text.as_bytes());
            assert_eq!(StreamId::parse_strict(text.as_bytes(), 9), Some(id));
        }
        assert_eq!(StreamId::parse_strict(b"5", 9), Some(StreamId::new(5, 9)));
        assert_eq!(StreamId::parse(b"5-*"), Some((5, Sequence::Any)));
        for text in ["", "-", "+", "-5", "a", "5-", "5-a", "5-1-1", "5-*x", "18446744073709551616"]
        {
            assert_eq!(StreamId::parse(text.as_bytes()), None, "{text}");
        }
        for (text, id) in [
            (&b"007-01"[..], StreamId::new(7, 1)),
            (b" 5-+1", StreamId::new(5, 1)),
            (b"5\0x", StreamId::new(5, 0)),
            (b"5--03", StreamId::new(5, 3_u64.wrapping_neg())),
        ] {
            assert_eq!(StreamId::parse_strict(text, 0), Some(id));
        }
        assert_eq!(StreamId::parse(b"5--3"), None);
        assert_eq!(StreamId::parse(&[b'1'; 128]), None);
    }

    #[test]
    fn neighbours() {
        assert_eq!(StreamId::MAX.next(), None);
        assert_eq!(StreamId::MIN.previous(), None);
        let edge = StreamId::new(7, u64::MAX);
        assert_eq!(edge.next(), Some(StreamId::new(8, 0)));
        assert_eq!(StreamId::new(8, 0).previous(), Some(edge));
    }
}
