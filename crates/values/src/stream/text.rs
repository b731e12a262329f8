//! Texts and numbers inside a block, read from the front only.
//!
//! | first byte | what follows |
//! |---|---|
//! | `0xxxxxxx` | a text of this many bytes |
//! | `10xxxxxx` | nothing: a number from 0 to 63 |
//! | `1100xxxx` | one more byte of length, a text of up to 4,095 bytes |
//! | `0xd0` | four bytes of length, little-endian, a text |
//! | `0xd1` .. `0xd8` | a number of 1 to 8 bytes, little-endian, signed |
//!
//! Lengths that are not part of this stand as LEB128: seven bits a byte, the lowest first, all
//! bytes but the last with the top bit set.
//!
//! Invariant
//! 1. A text has one encoding, and the text of a number is kept as the number.

use crate::packed::{Element, entry};

const LONGER: u8 = 0xc0;
const LONGEST: u8 = 0xd0;
/// The most bytes in front of a text.
pub const HEAD_MAX_BYTES: usize = 5;
/// The most bytes of an LEB128 number.
pub const LEB_MAX_BYTES: usize = 10;

/// Appends a text; returns how many bytes a listpack would take for it.
#[inline]
pub fn push(out: &mut Vec<u8>, text: &[u8]) -> usize {
    let element = Element::of(text);
    match element {
        Element::Int(number) => push_int(out, number),
        Element::Bytes(_) => {
            match text.len() {
                len @ 0..=0x7f => out.push(len as u8),
                len @ 0x80..=0xfff => {
                    out.extend_from_slice(&[LONGER | (len >> 8) as u8, len as u8]);
                }
                len => {
                    out.push(LONGEST);
                    out.extend_from_slice(&(len as u32).to_le_bytes());
                }
            }
            out.extend_from_slice(text);
        }
    }
    entry::encoded_len(element)
}

fn push_int(out: &mut Vec<u8>, number: i64) {
    if (0..64).contains(&number) {
        return out.push(0x80 | number as u8);
    }
    let len = int_len(number);
    out.push(LONGEST + len as u8);
    out.extend_from_slice(&number.to_le_bytes()[..len]);
}

/// Bytes of a signed number.
#[inline]
fn int_len(number: i64) -> usize {
    let magnitude = number ^ (number >> 63);
    (72 - magnitude.leading_zeros() as usize) / 8
}

/// Bytes that [`push`] appends.
pub fn len(text: &[u8]) -> usize {
    match Element::of(text) {
        Element::Int(0..=63) => 1,
        Element::Int(number) => 1 + int_len(number),
        Element::Bytes(_) => {
            text.len()
                + match text.len() {
                    0..=0x7f => 1,
                    0x80..=0xfff => 2,
                    _ => HEAD_MAX_BYTES,
                }
        }
    }
}

/// The first text and the remaining bytes. Panics on bytes that [`push`] does not write.
#[inline]
pub fn take(bytes: &[u8]) -> (Element<'_>, &[u8]) {
    let first = bytes[0];
    if first < 0x80 {
        let (text, rest) = bytes[1..].split_at(usize::from(first));
        return (Element::Bytes(text), rest);
    }
    if first < LONGER {
        return (Element::Int(i64::from(first & 0x3f)), &bytes[1..]);
    }
    let (begin, len) = match first {
        LONGER..LONGEST => (2, usize::from(first & 0xf) << 8 | usize::from(bytes[1])),
        LONGEST => (5, u32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]) as usize),
        _ => {
            let (digits, rest) = bytes[1..].split_at(usize::from(first - LONGEST));
            let mut word = [0; 8];
            word[8 - digits.len()..].copy_from_slice(digits);
            let number = i64::from_le_bytes(word) >> (64 - 8 * digits.len());
            return (Element::Int(number), rest);
        }
    };
    let (text, rest) = bytes[begin..].split_at(len);
    (Element::Bytes(text), rest)
}

/// Appends a number as LEB128.
#[inline]
pub fn push_leb(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that [`push_leb`] appends.
pub fn leb_len(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// The first LEB128 number and the remaining bytes.
#[inline]
pub fn take_leb(bytes: &[u8]) -> (u64, &[u8]) {
    let first = bytes[0];
    if first < 0x80 {
        return (u64::from(first), &bytes[1..]);
    }
    let (mut value, mut shift, mut at) = (u64::from(first & 0x7f), 7, 1);
    loop {
        let byte = bytes[at];
        value |= u64::from(byte & 0x7f) << shift;
        at += 1;
        shift += 7;
        if byte < 0x80 {
            return (value, &bytes[at..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &[u8], expected_len: usize) {
        let mut out = Vec::new();
        push(&mut out, text);
        assert_eq!(out.len(), expected_len, "{}", String::from_utf8_lossy(text));
        assert_eq!(len(text), expected_len);
        out.push(9);
        let (element, rest) = take(&out);
        assert_eq!((element.to_vec().as_slice(), rest), (text, &[9][..]));
    }

    #[test]
    fn texts_come_back() {
        for (len, expected) in [(0, 1), (127, 128), (128, 130), (4095, 4097), (4096, 4101)] {
            check(&vec![b'x'; len], expected);
        }
        check(b"007", 4);
        check(b"-0", 3);
        for (number, len) in [
            (0_i64, 1),
            (63, 1),
            (64, 2),
            (127, 2),
            (128, 3),
            (-1, 2),
            (-128, 2),
            (-129, 3),
            (32_767, 3),
            (32_768, 4),
            (i64::from(i32::MIN), 5),
            (i64::MIN, 9),
            (i64::MAX, 9),
        ] {
            check(number.to_string().as_bytes(), len);
        }
    }

    #[test]
    fn lengths_come_back() {
        for shift in 0..64 {
            for value in [1_u64 << shift, (1_u64 << shift) - 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                push_leb(&mut out, value);
                assert_eq!(out.len(), leb_len(value), "{value}");
                out.push(1);
                assert_eq!(take_leb(&out), (value, &[1][..]));
            }
        }
    }
}
