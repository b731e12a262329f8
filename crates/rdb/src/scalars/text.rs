//! Strings: plain bytes, short numbers as numbers, and compressed bytes.

use std::collections::VecDeque;

use pantala_base::number::parse_i64;
use pantala_table::{IntText, StrRef};

use crate::Part;
use crate::input::{Input, Malformed};
use crate::scalars::length::{self, Length};
use crate::scalars::lzf;

/// The encodings in place of a length.
pub const INT8: u8 = 0;
pub const INT16: u8 = 1;
pub const INT32: u8 = 2;
pub const LZF: u8 = 3;

/// The error of an unknown encoding.
pub const UNKNOWN_FORM: Malformed = Malformed("a string written in an unknown way");

/// The bit pattern of an encoding.
const MARK: u8 = 0xc0;
/// A text longer than this is not a 32-bit number.
const INT_TEXT_BYTES: usize = 11;

/// The shortest text that is compressed, where compression is requested.
const LEAST_COMPRESSED: usize = 21;
/// The fewest bytes that compression must save.
const LEAST_GAIN: usize = 4;
/// Longer texts are compressed in parts, and the result is kept until the end: its length precedes
/// it. Above `MOST_COMPRESSED` they are not compressed.
const MOST_AT_ONCE: usize = 4 * lzf::BLOCK_BYTES;
const MOST_COMPRESSED: usize = 64 << 20;
/// Bytes of the encoding and two lengths.
const MOST_HEAD_BYTES: usize = 1 + 2 * length::MOST_BYTES;

/// The encoding of strings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strings {
    /// Not compressed.
    #[default]
    Plain,
    /// Compressed, if that makes them shorter.
    Compressed,
}

/// How values are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// The encoding of strings.
    pub strings: Strings,
    /// Only kinds that other servers know, without data that these lack: see
    /// [`RdbKind::portable`](crate::Kind::portable).
    pub is_portable: bool,
    /// Only kinds that Redis 7.0 knows, see [`RdbKind::old`](crate::Kind::old), and long entries of
    /// listpacks in its form.
    pub is_old: bool,
}

impl From<Strings> for Style {
    fn from(strings: Strings) -> Style {
        Style { strings, ..Style::default() }
    }
}

/// A decoded string.
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
pub fn write(text: StrRef<'_>, strings: Strings, out: &mut Vec<u8>) {
    match text {
        StrRef::Int(number) => write_int(number, out),
        StrRef::Bytes(bytes) => write_bytes(bytes, strings, out),
    }
}

/// Appends a string that may be the text of a number.
#[inline]
pub fn write_bytes(bytes: &[u8], strings: Strings, out: &mut Vec<u8>) {
    let number = if bytes.len() <= INT_TEXT_BYTES { parse_i64(bytes) } else { None };
    match number {
        Some(number) if i32::try_from(number).is_ok() => write_int(number, out),
        _ => write_raw(bytes, strings, out),
    }
}

/// Appends bytes without checking for a number.
#[inline]
pub fn write_raw(bytes: &[u8], strings: Strings, out: &mut Vec<u8>) {
    if strings == Strings::Compressed && write_compressed(bytes, out) {
        return;
    }
    length::write(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Appends a string of `len` bytes that `make` appends.
pub fn write_made(
    len: usize,
    strings: Strings,
    out: &mut Vec<u8>,
    make: impl FnOnce(&mut Vec<u8>),
) {
    if strings == Strings::Plain || !is_compressed(len) {
        length::write(len as u64, out);
        return make(out);
    }
    // It is made behind the room for its largest encoding.
    let begin = out.len();
    out.resize(begin + MOST_HEAD_BYTES + len - LEAST_GAIN, 0);
    let made_at = out.len();
    make(out);
    let (before, made) = out.split_at_mut(made_at);
    if let Some(compressed) = lzf::compress(made, &mut before[begin + MOST_HEAD_BYTES..]) {
        return settle(out, begin, compressed, len);
    }
    let (head, head_len) = length::encode(len as u64);
    out[begin..begin + head_len].copy_from_slice(&head[..head_len]);
    out.copy_within(made_at..made_at + len, begin + head_len);
    out.truncate(begin + head_len + len);
}

fn is_compressed(len: usize) -> bool {
    (LEAST_COMPRESSED..=MOST_COMPRESSED).contains(&len)
}

/// Compresses and writes the bytes; false if that saves nothing: then nothing is written.
fn write_compressed(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    if !is_compressed(bytes.len()) {
        return false;
    }
    let begin = out.len();
    out.resize(begin + MOST_HEAD_BYTES + bytes.len() - LEAST_GAIN, 0);
    match lzf::compress(bytes, &mut out[begin + MOST_HEAD_BYTES..]) {
        Some(compressed) => settle(out, begin, compressed, bytes.len()),
        None => out.truncate(begin),
    }
    out.len() > begin
}

/// Writes the head for compressed bytes, which are where the longest head would end, and moves them
/// to its end.
fn settle(out: &mut Vec<u8>, begin: usize, compressed: usize, len: usize) {
    let from = begin + MOST_HEAD_BYTES;
    let (head, head_len) = compressed_head(compressed, len);
    out[begin..begin + head_len].copy_from_slice(&head[..head_len]);
    out.copy_within(from..from + compressed, begin + head_len);
    out.truncate(begin + head_len + compressed);
}

/// The head of `compressed` bytes that were `len`, and its length.
fn compressed_head(compressed: usize, len: usize) -> ([u8; MOST_HEAD_BYTES], usize) {
    let mut head = [MARK | LZF; MOST_HEAD_BYTES];
    let mut end = 1;
    for number in [compressed, len] {
        let (bytes, count) = length::encode(number as u64);
        head[end..end + count].copy_from_slice(&bytes[..count]);
        end += count;
    }
    (head, end)
}

/// A string that is written in parts.
#[derive(Debug, Default)]
pub struct Writing {
    form: Form,
    /// How many bytes of the string were compressed or written.
    from: usize,
}

#[derive(Debug, Default)]
enum Form {
    /// Not decided yet.
    #[default]
    Unknown,
    Plain,
    Compressing(Compressed),
    Compressed(Compressed),
}

/// In pieces, so that finished bytes never move.
#[derive(Debug, Default)]
struct Compressed {
    pieces: VecDeque<Vec<u8>>,
    /// The total length of the pieces.
    len: usize,
}

impl Writing {
    /// Appends a part; returns whether it was the last.
    pub fn go_on(&mut self, text: StrRef<'_>, part: Part, out: &mut Vec<u8>) -> bool {
        let StrRef::Bytes(bytes) = text else {
            write(text, part.style.strings, out);
            return true;
        };
        if let Form::Unknown = self.form {
            if bytes.len() <= part.most_bytes.clamp(INT_TEXT_BYTES, MOST_AT_ONCE) {
                write_bytes(bytes, part.style.strings, out);
                return true;
            }
            self.form = match part.style.strings {
                Strings::Compressed if is_compressed(bytes.len()) => {
                    Form::Compressing(Compressed::default())
                }
                _ => Form::Plain,
            };
        }
        match &mut self.form {
            Form::Unknown | Form::Plain => return self.plain(bytes, part, out),
            Form::Compressing(made) => {
                let most = part.most_bytes.clamp(1, MOST_AT_ONCE);
                let end = self.from + most.next_multiple_of(lzf::BLOCK_BYTES);
                let end = end.min(bytes.len());
                if !made.add(&bytes[self.from..end], end) {
                    (self.form, self.from) = (Form::Plain, 0);
                    return false;
                }
                self.from = end;
                if end < bytes.len() {
                    return false;
                }
                let (head, head_len) = compressed_head(made.len, bytes.len());
                out.extend_from_slice(&head[..head_len]);
                self.form = Form::Compressed(std::mem::take(made));
            }
            Form::Compressed(_) => {}
        }
        let Form::Compressed(made) = &mut self.form else { return false };
        made.write(part, out)
    }

    fn plain(&mut self, bytes: &[u8], part: Part, out: &mut Vec<u8>) -> bool {
        if self.from == 0 {
            length::write(bytes.len() as u64, out);
        }
        let end = self.from.saturating_add(part.most_bytes).min(bytes.len());
        out.extend_from_slice(&bytes[self.from..end]);
        self.from = end;
        end == bytes.len()
    }
}

impl Compressed {
    /// Compresses further blocks, up to `end` of the string. Returns whether it is worth
    /// continuing: not if the last blocks, or all, have not become shorter.
    fn add(&mut self, blocks: &[u8], end: usize) -> bool {
        let mut piece = vec![0; blocks.len()];
        let Some(len) = lzf::compress(blocks, &mut piece) else { return false };
        piece.truncate(len);
        self.len += len;
        self.pieces.push_back(piece);
        self.len + LEAST_GAIN <= end
    }

    /// Appends a part; returns whether it was the last.
    fn write(&mut self, part: Part, out: &mut Vec<u8>) -> bool {
        let end = part.end(out);
        while out.len() < end
            && let Some(piece) = self.pieces.pop_front()
        {
            out.extend_from_slice(&piece);
        }
        self.pieces.is_empty()
    }
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
        write_raw(IntText::new().write(number), Strings::Plain, out);
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
        Length::Mark(_) => Err(UNKNOWN_FORM),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &[u8], expected_len: usize) {
        let mut out = Vec::new();
        write_bytes(text, Strings::Plain, &mut out);
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
        write(StrRef::Int(i64::MIN), Strings::Plain, &mut out);
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
