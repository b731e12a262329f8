//! Strings: bytes as they are, short numbers as numbers, and compressed bytes.

use pantala_base::number::parse_i64;
use pantala_table::{IntText, StrRef};

use crate::Part;
use crate::input::{Input, Malformed};
use crate::length::{self, Length};
use crate::lzf;

const INT8: u8 = 0;
const INT16: u8 = 1;
const INT32: u8 = 2;
const LZF: u8 = 3;

/// The bit pattern of a mark.
const MARK: u8 = 0xc0;
/// A text longer than this is no number of 32 bits.
const INT_TEXT_BYTES: usize = 11;

/// A string that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    /// The text of this number.
    Int(i64),
    /// Bytes of the input.
    Read(&'a [u8]),
    /// Bytes that were compressed.
    Made(Vec<u8>),
}

impl Text<'_> {
    /// The text.
    #[inline]
    pub fn view(&self) -> StrRef<'_> {
        match self {
            Text::Int(number) => StrRef::Int(*number),
            Text::Read(bytes) => StrRef::Bytes(bytes),
            Text::Made(bytes) => StrRef::Bytes(bytes),
        }
    }

    /// The bytes; a number is written into `scratch`.
    #[inline]
    pub fn bytes<'b>(&'b self, scratch: &'b mut IntText) -> &'b [u8] {
        self.view().bytes(scratch)
    }
}

/// Appends a string.
#[inline]
pub fn write(text: StrRef<'_>, out: &mut Vec<u8>) {
    match text {
        StrRef::Int(number) => write_int(number, out),
        StrRef::Bytes(bytes) => write_bytes(bytes, out),
    }
}

/// Appends a string that may be the text of a number.
#[inline]
pub fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    let number = if bytes.len() <= INT_TEXT_BYTES { parse_i64(bytes) } else { None };
    match number {
        Some(number) if i32::try_from(number).is_ok() => write_int(number, out),
        _ => write_raw(bytes, out),
    }
}

/// Appends a part of a string.
pub fn write_part(text: StrRef<'_>, part: Part, out: &mut Vec<u8>) -> Option<usize> {
    let StrRef::Bytes(bytes) = text else {
        write(text, out);
        return None;
    };
    if bytes.len() <= INT_TEXT_BYTES {
        write_bytes(bytes, out);
        return None;
    }
    if part.from == 0 {
        length::write(bytes.len() as u64, out);
    }
    let end = part.from.saturating_add(part.most_bytes).min(bytes.len());
    out.extend_from_slice(&bytes[part.from..end]);
    (end < bytes.len()).then_some(end)
}

/// Appends bytes that are not to be looked at.
#[inline]
pub fn write_raw(bytes: &[u8], out: &mut Vec<u8>) {
    length::write(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn write_int(number: i64, out: &mut Vec<u8>) {
    if let Ok(number) = i8::try_from(number) {
        out.push(MARK | INT8);
        out.extend_from_slice(&number.to_le_bytes());
    } else if let Ok(number) = i16::try_from(number) {
        out.push(MARK | INT16);
        out.extend_from_slice(&number.to_le_bytes());
    } else if let Ok(number) = i32::try_from(number) {
        out.push(MARK | INT32);
        out.extend_from_slice(&number.to_le_bytes());
    } else {
        write_raw(IntText::new().write(number), out);
    }
}

/// Reads a string of up to `most` bytes.
pub fn read<'a>(input: &mut Input<'a>, most: usize) -> Result<Text<'a>, Malformed> {
    const TOO_LONG: Malformed = Malformed("a string that is too long");
    match length::read_any(input)? {
        Length::Is(len) => {
            let len = usize::try_from(len).ok().filter(|len| *len <= most).ok_or(TOO_LONG)?;
            input.take(len).map(Text::Read)
        }
        Length::Mark(INT8) => Ok(Text::Int(i64::from(i8::from_le_bytes(input.array()?)))),
        Length::Mark(INT16) => Ok(Text::Int(i64::from(i16::from_le_bytes(input.array()?)))),
        Length::Mark(INT32) => Ok(Text::Int(i64::from(i32::from_le_bytes(input.array()?)))),
        Length::Mark(LZF) => {
            let compressed = length::read_count(input, 1);
            let len = usize::try_from(length::read(input)?).ok();
            let len = len.filter(|len| *len <= most).ok_or(TOO_LONG)?;
            lzf::decompress(input.take(compressed?)?, len).map(Text::Made)
        }
        Length::Mark(_) => Err(Malformed("a string written in an unknown way")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &[u8], expected_len: usize) {
        let mut out = Vec::new();
        write_bytes(text, &mut out);
        assert_eq!(out.len(), expected_len, "{}", text.escape_ascii());
        let mut input = Input::new(&out);
        let back = read(&mut input, 1 << 20).expect("it was written just now");
        assert_eq!(back.bytes(&mut IntText::new()), text);
        assert!(input.is_empty());
        for cut in 0..out.len() {
            assert!(read(&mut Input::new(&out[..cut]), 1 << 20).is_err());
        }
    }

    #[test]
    fn strings_come_back() {
        for (text, len) in [
            (&b""[..], 1),
            (b"abc", 4),
            (b"0", 2),
            (b"-128", 2),
            (b"128", 3),
            (b"-32768", 3),
            (b"32768", 5),
            (b"-2147483648", 5),
            (b"2147483648", 11),
            (b"01", 3),
            (b"-0", 3),
        ] {
            check(text, len);
        }
        check(&[0xff; 100], 102);
        check(&[0; 20_000], 20_005);
        let mut out = Vec::new();
        write(StrRef::Int(i64::MIN), &mut out);
        assert_eq!(out, b"\x14-9223372036854775808");
    }

    #[test]
    fn what_is_too_long_is_refused() {
        assert!(read(&mut Input::new(b"\x03abc"), 3).is_ok());
        assert!(read(&mut Input::new(b"\x03abc"), 2).is_err());
        assert!(read(&mut Input::new(b"\x81\xff\xff\xff\xff\xff\xff\xff\xff"), 1 << 20).is_err());
        let compressed = [0xc3, 6, 21, 1, b'a', b'a', 0xe0, 10, 0];
        assert!(read(&mut Input::new(&compressed), 21).is_ok());
        assert!(read(&mut Input::new(&compressed), 20).is_err());
        assert!(read(&mut Input::new(&[0xc4, 0]), 20).is_err());
    }
}
