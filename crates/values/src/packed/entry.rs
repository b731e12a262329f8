//! One entry of a packed sequence: a text or a number, and its length after it.
//!
//! | first byte | what follows |
//! |---|---|
//! | `0xxxxxxx` | nothing: a number from 0 to 127 |
//! | `10xxxxxx` | a text of up to 63 bytes |
//! | `110xxxxx` | one byte: a number of 13 bits, signed |
//! | `1110xxxx` | one byte of length, a text of up to 4,095 bytes |
//! | `11110000` | four bytes of length, little-endian, a text |
//! | `11110001` .. `11110100` | a number of 2, 3, 4 or 8 bytes, little-endian, signed |
//!
//! Its total length follows, seven bits a byte, the lowest last; all bytes but the first have the
//! top bit set, so it is read from the end.
//!
//! The format is that of listpack.md, published with Redis.

use pantala_base::number::parse_i64;
use pantala_table::{IntText, StrRef};

use super::Encoded;

/// An element: a text, or the number that it is the text of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element<'a> {
    /// The text of this number.
    Int(i64),
    /// These bytes, which are not the text of a number.
    Bytes(&'a [u8]),
}

impl<'a> Element<'a> {
    /// The element for a text.
    #[inline]
    pub fn of(text: &'a [u8]) -> Element<'a> {
        match parse_i64(text) {
            Some(number) => Element::Int(number),
            None => Element::Bytes(text),
        }
    }

    /// The text; a number is written into `scratch`.
    #[inline]
    pub fn text<'b>(&self, scratch: &'b mut IntText) -> &'b [u8]
    where
        'a: 'b,
    {
        match *self {
            Element::Int(number) => scratch.write(number),
            Element::Bytes(bytes) => bytes,
        }
    }

    /// Length of the text in bytes.
    pub fn len(&self) -> usize {
        StrRef::from(*self).len()
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        matches!(self, Element::Bytes([]))
    }

    /// A copy of the text.
    pub fn to_vec(&self) -> Vec<u8> {
        StrRef::from(*self).to_vec()
    }

    /// The number, if the element is one.
    pub fn int(&self) -> Option<i64> {
        match *self {
            Element::Int(number) => Some(number),
            Element::Bytes(_) => None,
        }
    }
}

impl<'a> From<Element<'a>> for StrRef<'a> {
    fn from(element: Element<'a>) -> StrRef<'a> {
        match element {
            Element::Int(number) => StrRef::Int(number),
            Element::Bytes(bytes) => StrRef::Bytes(bytes),
        }
    }
}

/// Appends the entry of an element.
pub fn encode(element: Element<'_>, out: &mut Encoded) {
    let before = out.len();
    match element {
        Element::Int(number) => encode_int(number, out),
        Element::Bytes(text) => {
            encode_text_head(text.len(), out);
            out.extend_from_slice(text);
        }
    }
    encode_back_len(out.len() - before, out);
}

fn encode_int(number: i64, out: &mut Encoded) {
    let bytes = number.to_le_bytes();
    match number {
        0..=127 => out.push(number as u8),
        -4096..=4095 => {
            out.push(0b1100_0000 | (number >> 8) as u8 & 0b1_1111);
            out.push(number as u8);
        }
        -32_768..=32_767 => {
            out.push(0xf1);
            out.extend_from_slice(&bytes[..2]);
        }
        -8_388_608..=8_388_607 => {
            out.push(0xf2);
            out.extend_from_slice(&bytes[..3]);
        }
        -2_147_483_648..=2_147_483_647 => {
            out.push(0xf3);
            out.extend_from_slice(&bytes[..4]);
        }
        _ => {
            out.push(0xf4);
            out.extend_from_slice(&bytes);
        }
    }
}

fn encode_text_head(len: usize, out: &mut Encoded) {
    match len {
        0..=63 => out.push(0b1000_0000 | len as u8),
        64..=4095 => out.extend_from_slice(&[0b1110_0000 | (len >> 8) as u8, len as u8]),
        _ => {
            out.push(0xf0);
            out.extend_from_slice(&(len as u32).to_le_bytes());
        }
    }
}

fn encode_back_len(len: usize, out: &mut Encoded) {
    write_back_len(len, back_len_bytes(len), &mut |byte| out.push(byte));
}

/// Pushes the length in this many bytes.
fn write_back_len(len: usize, bytes: usize, push: &mut dyn FnMut(u8)) {
    for byte in (0..bytes).rev() {
        let more = if byte + 1 == bytes { 0 } else { 0x80 };
        push((len >> (7 * byte)) as u8 & 0x7f | more);
    }
}

/// The longest entries whose length takes two, three and four bytes.
const LAST_THAT_FIT: [usize; 3] = [16_383, 2_097_151, 268_435_455];

/// Bytes of the length after an entry of `len` bytes, as Valkey writes it.
#[inline]
fn back_len_bytes(len: usize) -> usize {
    match len {
        0..=127 => 1,
        128..=16_383 => 2,
        16_384..=2_097_151 => 3,
        2_097_152..=268_435_455 => 4,
        _ => 5,
    }
}

/// Bytes of the entry of a text of this length.
#[inline]
pub fn text_entry_len(text_len: usize) -> usize {
    let len = text_len
        + match text_len {
            0..=63 => 1,
            64..=4095 => 2,
            _ => 5,
        };
    len + back_len_bytes(len)
}

/// Bytes of the entry of an element.
#[inline]
pub fn encoded_len(element: Element<'_>) -> usize {
    let len = match element {
        Element::Int(0..=127) => 1,
        Element::Int(-4096..=4095) => 2,
        Element::Int(-32_768..=32_767) => 3,
        Element::Int(-8_388_608..=8_388_607) => 4,
        Element::Int(-2_147_483_648..=2_147_483_647) => 5,
        Element::Int(_) => 9,
        Element::Bytes(text) => return text_entry_len(text.len()),
    };
    len + back_len_bytes(len)
}

/// The offset and length of the text or number in the first entry.
#[inline]
fn extent(bytes: &[u8]) -> (usize, usize) {
    let first = bytes[0];
    match first {
        0..=0x7f => (0, 1),
        0x80..=0xbf => (1, usize::from(first & 0x3f)),
        0xc0..=0xdf => (0, 2),
        0xe0..=0xef => (2, usize::from(first & 0x0f) << 8 | usize::from(bytes[1])),
        0xf0 => {
            let len = u32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
            (5, len as usize)
        }
        0xf1 => (1, 2),
        0xf2 => (1, 3),
        0xf3 => (1, 4),
        _ => (1, 8),
    }
}

/// Bytes of the first entry, with the length after it.
#[inline]
pub fn total_len(bytes: &[u8]) -> usize {
    let (begin, len) = extent(bytes);
    let len = begin + len;
    len + back_len_bytes(len)
}

/// The text of the first entry and the remaining bytes, if it is a text of up to 63 bytes, as most
/// are: its head and its trailing length are a byte each.
#[inline]
pub fn split_short_text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first @ 0x80..=0xbf, rest) = bytes.split_first()? else { return None };
    let (text, behind) = rest.split_at_checked(usize::from(first & 0x3f))?;
    Some((text, behind.get(1..)?))
}

/// The first element of some entries. Panics on bytes that are not whole entries.
#[inline]
pub fn decode(bytes: &[u8]) -> Element<'_> {
    let first = bytes[0];
    let (begin, len) = extent(bytes);
    let text = &bytes[begin..begin + len];
    match first {
        0..=0x7f => Element::Int(i64::from(first)),
        0x80..=0xbf | 0xe0..=0xf0 => Element::Bytes(text),
        0xc0..=0xdf => {
            let number = i64::from(first & 0x1f) << 8 | i64::from(text[1]);
            Element::Int(number << 51 >> 51)
        }
        _ => {
            let mut number = [0; 8];
            number[8 - len..].copy_from_slice(text);
            Element::Int(i64::from_le_bytes(number) >> (64 - 8 * len))
        }
    }
}

/// Bytes of the last entry, with the length after it. Panics on no bytes.
#[inline]
pub fn last_len(bytes: &[u8]) -> usize {
    let (mut len, mut taken) = (0, 0);
    for byte in bytes.iter().rev().take(5) {
        len |= usize::from(byte & 0x7f) << (7 * taken);
        taken += 1;
        if byte & 0x80 == 0 {
            break;
        }
    }
    len + taken
}

/// How many entries these bytes are, if they are whole and as [`encode`] writes them.
pub fn count_canonical(bytes: &[u8]) -> Option<usize> {
    let (mut rest, mut count) = (bytes, 0);
    while !rest.is_empty() {
        let (entry, behind) = split_first(rest)?;
        let element = decode(entry);
        let is_number = matches!(element, Element::Bytes(text) if parse_i64(text).is_some());
        // No two forms of one number or text have the same length.
        if is_number || encoded_len(element) != entry.len() {
            return None;
        }
        rest = behind;
        count += 1;
    }
    Some(count)
}

/// The first entry and the remaining bytes, if the entry is whole and its trailing length is right.
/// It need not be as [`encode`] writes it.
pub fn split_first(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let head = match bytes.first()? {
        0xe0..=0xef => 2,
        0xf0 => 5,
        0xf5.. => return None,
        _ => 1,
    };
    bytes.get(..head)?;
    let (begin, len) = extent(bytes);
    let len = begin.checked_add(len)?;
    let split = |back_bytes: usize| {
        let (entry, behind) = bytes.split_at_checked(len + back_bytes)?;
        let back = entry.get(len..)?;
        let is_right = back.iter().rev().enumerate().all(|(index, byte)| {
            let more = if index + 1 == back.len() { 0 } else { 0x80 };
            *byte == (len >> (7 * index)) as u8 & 0x7f | more
        });
        is_right.then_some((entry, behind))
    };
    let usual = back_len_bytes(len);
    // Redis takes a byte more than Valkey for the last length that would fit.
    split(usual).or_else(|| LAST_THAT_FIT.contains(&len).then(|| split(usual + 1))?)
}

/// Appends these entries, which are as [`encode`] writes them, in the form that Redis reads: a
/// trailing length that just fits takes a byte more.
pub fn push_as_redis(entries: &[u8], out: &mut Vec<u8>) {
    let (mut rest, mut same_from) = (entries, entries);
    while let Some((entry, behind)) = split_first(rest) {
        let (begin, len) = extent(entry);
        let len = begin + len;
        if LAST_THAT_FIT.contains(&len) {
            let same = same_from.len() - rest.len() + len;
            out.extend_from_slice(&same_from[..same]);
            write_back_len(len, back_len_bytes(len) + 1, &mut |byte| out.push(byte));
            same_from = behind;
        }
        rest = behind;
    }
    out.extend_from_slice(same_from);
}

/// Whether [`push_as_redis`] may change anything in this many bytes.
pub fn may_differ_for_redis(bytes: usize) -> bool {
    bytes > LAST_THAT_FIT[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &[u8], expected_len: usize) {
        let mut out = Encoded::new();
        encode(Element::of(text), &mut out);
        assert_eq!(out.len(), expected_len, "{}", String::from_utf8_lossy(text));
        assert_eq!(encoded_len(Element::of(text)), expected_len);
        assert_eq!(decode(&out).to_vec(), text);
        assert_eq!(total_len(&out), out.len());
        out.insert(0, 0xff);
        assert_eq!(last_len(&out), expected_len);
    }

    #[test]
    fn what_redis_writes_with_a_byte_more_is_read() {
        for len in &LAST_THAT_FIT[..2] {
            let text = vec![b'x'; len - 5];
            let mut valkeys = Encoded::new();
            encode(Element::Bytes(&text), &mut valkeys);
            let mut redis = valkeys[..*len].to_vec();
            redis.push(0);
            redis.resize(len + back_len_bytes(*len), 0xff);
            redis.push(0xff);
            let (entry, behind) = split_first(&redis).expect("whole");
            assert_eq!((entry.len(), behind.len()), (redis.len(), 0));
            assert_eq!(decode(entry).to_vec(), text);
            assert_eq!(count_canonical(&redis), None, "it is encoded anew");
            let (short, mut ours, mut theirs) = (&b"\x81a\x02"[..], Vec::new(), Vec::new());
            for (part, as_redis) in [(short, short), (&valkeys, &redis), (short, short)] {
                ours.extend_from_slice(part);
                theirs.extend_from_slice(as_redis);
            }
            let mut out = Vec::new();
            push_as_redis(&ours, &mut out);
            assert!(out == theirs, "{len}");
        }
        let mut out = Vec::new();
        let mut near = Encoded::new();
        for len in [16_377, 16_379] {
            encode(Element::Bytes(&vec![b'x'; len]), &mut near);
        }
        push_as_redis(&near, &mut out);
        assert!(out[..] == near[..], "others are the same");
    }

    #[test]
    fn every_size_of_number_and_text_comes_back() {
        for (number, len) in [
            (0_i64, 2),
            (127, 2),
            (128, 3),
            (-1, 3),
            (4095, 3),
            (-4096, 3),
            (4096, 4),
            (-4097, 4),
            (32_767, 4),
            (32_768, 5),
            (-8_388_608, 5),
            (8_388_608, 6),
            (i64::from(i32::MIN), 6),
            (i64::from(i32::MAX) + 1, 10),
            (i64::MIN, 10),
            (i64::MAX, 10),
        ] {
            check(number.to_string().as_bytes(), len);
        }
        for (len, expected) in [(0, 2), (63, 65), (64, 67), (4095, 4099), (4096, 4103)] {
            check(&vec![b'x'; len], expected);
        }
        check(&vec![b'x'; 20_000], 20_008);
    }

    #[test]
    fn bytes_that_are_no_entries_are_refused() {
        assert_eq!(count_canonical(&[]), Some(0));
        assert_eq!(count_canonical(&[5, 1]), Some(1));
        for bad in [&[5][..], &[5, 2], &[0xff], &[0xf0, 1, 0, 0], &[0xe0], &[0xf1, 5, 0, 4]] {
            assert_eq!(count_canonical(bad), None, "{bad:x?}");
            assert_eq!(split_first(bad), None, "{bad:x?}");
        }
        // The text "7", which must be the number, and 5 in more bytes than it needs.
        for odd in [&[0x81, b'7', 2][..], &[0xf1, 5, 0, 3]] {
            assert_eq!(count_canonical(odd), None);
            assert_eq!(split_first(odd), Some((odd, &[][..])));
        }
    }
}
