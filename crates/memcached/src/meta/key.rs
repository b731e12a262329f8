//! Keys of meta commands: plain, or in base64 (flag `b`).
//!
//! The decoder is as lenient as memcached's: bytes that are not base64 are skipped, and nothing
//! after the padding is read.

use crate::request::MOST_KEY_BYTES;

/// A buffer for the bytes of any key.
pub type KeyRoom = [u8; MOST_KEY_BYTES];

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// In the table of values: not a letter of base64.
const NONE: u8 = 0x80;
const VALUES: [u8; 256] = values();

/// The key of a meta command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    /// Plain, as in the line.
    Plain(&'a [u8]),
    /// In base64, as in the line.
    Base64(&'a [u8]),
    /// Decoded bytes of a key that came as base64, and is returned so.
    Decoded(&'a [u8]),
}

impl<'a> Key<'a> {
    /// The bytes. The parser has refused invalid base64, so there is always a key.
    pub fn bytes<'r>(self, room: &'r mut KeyRoom) -> &'r [u8]
    where
        'a: 'r,
    {
        match self {
            Key::Plain(bytes) | Key::Decoded(bytes) => bytes,
            Key::Base64(text) => {
                let length = decode(text, room).unwrap_or(0);
                &room[..length]
            }
        }
    }

    /// Writes the key in the form for a reply.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        match self {
            Key::Plain(text) | Key::Base64(text) => out.extend_from_slice(text),
            Key::Decoded(bytes) => encode(bytes, out),
        }
    }

    /// Whether it is returned as base64.
    pub(super) fn is_base64(self) -> bool {
        !matches!(self, Key::Plain(_))
    }
}

/// Decodes; `None`: invalid, empty, or too long.
pub(super) fn decode(text: &[u8], room: &mut KeyRoom) -> Option<usize> {
    let letters = || text.iter().copied().filter(|byte| VALUES[usize::from(*byte)] != NONE);
    let count = letters().count();
    if count == 0 || !count.is_multiple_of(4) || count / 4 * 3 > room.len() {
        return None;
    }
    let (mut quad, mut filled, mut padding, mut length) = (0_u32, 0, 0, 0);
    for letter in letters() {
        quad = quad << 6 | u32::from(VALUES[usize::from(letter)]);
        filled += 1;
        padding += usize::from(letter == b'=');
        if filled < 4 {
            continue;
        }
        room[length..length + 3].copy_from_slice(&quad.to_be_bytes()[1..]);
        length += 3;
        match padding {
            0 => (quad, filled) = (0, 0),
            1 | 2 => return Some(length - padding),
            _ => return None,
        }
    }
    Some(length)
}

/// Writes the bytes as base64.
fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for part in bytes.chunks(3) {
        let mut quad = [0; 4];
        quad[1..=part.len()].copy_from_slice(part);
        let quad = u32::from_be_bytes(quad);
        for place in 0..4 {
            let letter = LETTERS[(quad >> (18 - 6 * place)) as usize & 63];
            out.push(if place <= part.len() { letter } else { b'=' });
        }
    }
}

const fn values() -> [u8; 256] {
    let mut values = [NONE; 256];
    let mut index = 0;
    while index < LETTERS.len() {
        values[LETTERS[index] as usize] = index as u8;
        index += 1;
    }
    values[b'=' as usize] = 0;
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        for length in 1..=187 {
            let bytes: Vec<u8> = (0..length).map(|index| (index * 37 + length) as u8).collect();
            let mut text = Vec::new();
            Key::Decoded(&bytes).write(&mut text);
            let mut room = [0; MOST_KEY_BYTES];
            assert_eq!(Key::Base64(&text).bytes(&mut room), bytes, "{length}");
        }
    }

    #[test]
    fn the_decoder_is_lenient_and_has_limits() {
        for (text, bytes) in [
            ("Zm9v", Some("foo")),
            ("Zm8=", Some("fo")),
            ("Zg==", Some("f")),
            ("Z*m9v", Some("foo")),
            ("Zg==Zm9v", Some("f")),
            ("Zm9", None),
            ("Z===", None),
            ("====", None),
            ("****", None),
            ("", None),
        ] {
            let mut room = [0; MOST_KEY_BYTES];
            let length = decode(text.as_bytes(), &mut room);
            let found = length.map(|length| &room[..length]);
            assert_eq!(found, bytes.map(str::as_bytes), "{text:?}");
        }
    }
}
