//! Listpacks: a head, entries, an end mark.
//!
//! ```text
//! | u32 bytes of all this | u16 entries, 65535: count them | entry | entry | ... | 0xff |
//! ```
//!
//! The entries are those of `values::packed`, except for Redis 7.0, which needs some in another
//! form. Servers may have encoded an element in another legal way: such listpacks are re-encoded.

use pantala_table::IntText;
use pantala_values::packed::{self, Element, Encoded, Packed, View, entry};

use crate::input::{Input, Malformed};
use crate::scalars::text::{self, Style, Text};

const HEAD_BYTES: usize = 6;
const END: u8 = 0xff;
/// The count of listpacks with this many entries or more.
pub const UNCOUNTED: u16 = u16::MAX;

/// Appends a listpack of these entries as a string.
pub fn write(view: View<'_>, style: Style, out: &mut Vec<u8>) {
    write_parts(&[view.bytes()], view.len(), style, out);
}

/// Appends a listpack of `count` entries, given in several pieces, as a string.
pub fn write_parts(parts: &[&[u8]], count: usize, style: Style, out: &mut Vec<u8>) {
    let length = |parts: &[&[u8]]| parts.iter().map(|part| part.len()).sum::<usize>();
    let mut again = Vec::new();
    if style.is_old && entry::may_differ_for_redis(length(parts)) {
        parts.iter().for_each(|part| entry::push_as_redis(part, &mut again));
    }
    let anew = [&again[..]];
    let parts = if again.is_empty() { parts } else { &anew };
    let bytes = HEAD_BYTES + length(parts) + 1;
    text::write_made(bytes, style.strings, out, |out| {
        out.extend_from_slice(&(bytes as u32).to_le_bytes());
        let count = u16::try_from(count).unwrap_or(UNCOUNTED);
        out.extend_from_slice(&count.to_le_bytes());
        parts.iter().for_each(|part| out.extend_from_slice(part));
        out.push(END);
    });
}

/// Reads a listpack from a string.
pub fn read(input: &mut Input<'_>) -> Result<Packed, Malformed> {
    parse(read_text(input)?.bytes(&mut IntText::new()))
}

/// A string that holds packed elements.
pub fn read_text<'a>(input: &mut Input<'a>) -> Result<Text<'a>, Malformed> {
    text::read(input, packed::MAX_BYTES)
}

/// The elements of a listpack.
fn parse(bytes: &[u8]) -> Result<Packed, Malformed> {
    let (entries, told) = unwrap(bytes)?;
    let packed = match Packed::from_untrusted(entries) {
        Some(packed) => packed,
        None => rewrite(entries)?,
    };
    if told != UNCOUNTED && packed.len() != usize::from(told) {
        return Err(Malformed("a listpack of another count than it says"));
    }
    Ok(packed)
}

/// The entries of a listpack, unchecked, and the count in its head.
pub fn unwrap(bytes: &[u8]) -> Result<(&[u8], u16), Malformed> {
    const WRONG: Malformed = Malformed("a listpack of another length than it says");
    let mut input = Input::new(bytes);
    let told = u32::from_le_bytes(input.array()?);
    let count = u16::from_le_bytes(input.array()?);
    let (end, entries) = input.rest().split_last().ok_or(WRONG)?;
    if told as usize != bytes.len() || *end != END {
        return Err(WRONG);
    }
    Ok((entries, count))
}

/// The elements in our own encoding.
fn rewrite(entries: &[u8]) -> Result<Packed, Malformed> {
    let mut again = Encoded::new();
    each(entries, |element| {
        entry::encode(Element::of(element.text(&mut IntText::new())), &mut again);
        Ok(())
    })?;
    Packed::from_untrusted(&again).ok_or(Malformed("a listpack that cannot be written anew"))
}

/// Calls `show` with each element of these entries.
pub fn each<'a>(
    entries: &'a [u8],
    mut show: impl FnMut(Element<'a>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut rest = entries;
    while !rest.is_empty() {
        let (entry, behind) =
            entry::split_first(rest).ok_or(Malformed("a listpack with a broken entry"))?;
        show(entry::decode(entry))?;
        rest = behind;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listpacks_come_back() {
        let mut packed = Packed::new();
        for text in [&b"a"[..], b"1", b"200", b"-5", &[b'x'; 5000]] {
            packed.push(Element::of(text));
        }
        let mut out = Vec::new();
        write(packed.view(), Style::default(), &mut out);
        let back = read(&mut Input::new(&out)).expect("it was written just now");
        assert_eq!(back.view().bytes(), packed.view().bytes());
        assert_eq!(back.len(), packed.len());
        for cut in 0..out.len() {
            assert!(read(&mut Input::new(&out[..cut])).is_err());
        }
        // RPUSH a 1 200, read off Valkey.
        let bytes = b"\x0f\0\0\0\x03\0\x81a\x02\x01\x01\xc0\xc8\x02\xff";
        assert_eq!(parse(bytes).map(|packed| packed.len()), Ok(3));
    }

    #[test]
    fn odd_entries_are_written_anew() {
        let odd = b"\x0a\0\0\0\x01\0\x817\x02\xff";
        let packed = parse(odd).expect("legal");
        assert_eq!(packed.view().at(0), Element::Int(7));
        assert!(parse(b"\x0a\0\0\0\x02\0\x817\x02\xff").is_err(), "the count");
        assert!(parse(b"\x0a\0\0\0\xff\xff\x817\x02\xff").is_ok(), "no count");
        assert!(parse(b"\x0b\0\0\0\x01\0\x817\x02\xff").is_err(), "the length");
        assert!(parse(b"\x0a\0\0\0\x01\0\x817\x03\xff").is_err(), "the length behind an entry");
        assert!(parse(b"\x0a\0\0\0\x01\0\xf5\x01\x02\xff").is_err(), "an unknown entry");
        assert!(parse(b"").is_err());
    }
}
