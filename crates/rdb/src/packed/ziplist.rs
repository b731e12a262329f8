//! Ziplists and zipmaps: the packed forms before listpacks. Only read.
//!
//! ```text
//! ziplist: | u32 bytes | u32 place of the last entry | u16 entries | entry | ... | 0xff |
//! entry:   | length of the entry before: one byte, or 0xfe and u32 | head | text or number |
//! zipmap:  | count | length | field | length | unused | value | unused bytes | ... | 0xff |
//! ```

use pantala_table::IntText;
use pantala_values::packed::{Element, Encoded, Packed, entry};

use crate::input::{Input, Malformed};
use crate::packed::listpack::read_text;

const END: u8 = 0xff;
/// The length is in the next four bytes.
const LONG: u8 = 0xfe;
/// The count of ziplists with this many entries or more.
const UNCOUNTED: u16 = u16::MAX;
/// The count of zipmaps with this many fields or more.
const UNCOUNTED_MAP: u8 = 0xfe;

/// Reads a ziplist from a string.
pub fn read(input: &mut Input<'_>) -> Result<Packed, Malformed> {
    parse(read_text(input)?.bytes(&mut IntText::new()))
}

/// Reads a zipmap from a string: alternating fields and values.
pub fn read_map(input: &mut Input<'_>) -> Result<Packed, Malformed> {
    parse_map(read_text(input)?.bytes(&mut IntText::new()))
}

fn parse(bytes: &[u8]) -> Result<Packed, Malformed> {
    const WRONG: Malformed = Malformed("a ziplist that is not what it says");
    let mut input = Input::new(bytes);
    let len = u32::from_le_bytes(input.array()?);
    let last = u32::from_le_bytes(input.array()?);
    let told = u16::from_le_bytes(input.array()?);
    let begin = bytes.len() - input.rest().len();
    if len as usize != bytes.len() {
        return Err(WRONG);
    }
    let mut entries = Encoded::new();
    let (mut count, mut before, mut at) = (0, 0, begin);
    while input.rest().len() > 1 {
        at = bytes.len() - input.rest().len();
        let told_before = match input.byte()? {
            LONG => u32::from_le_bytes(input.array()?) as usize,
            END => return Err(WRONG),
            short => usize::from(short),
        };
        if told_before != before {
            return Err(WRONG);
        }
        entry::encode(element(&mut input)?, &mut entries);
        before = bytes.len() - input.rest().len() - at;
        count += 1;
    }
    let counts = told == UNCOUNTED || usize::from(told) == count;
    if input.rest() != [END] || last as usize != at || !counts {
        return Err(WRONG);
    }
    Packed::from_untrusted(&entries).ok_or(WRONG)
}

/// Reads an element, after the length of the previous entry.
fn element<'a>(input: &mut Input<'a>) -> Result<Element<'a>, Malformed> {
    let head = input.byte()?;
    let text_len = match head >> 6 {
        0 => usize::from(head),
        1 => usize::from(head & 0x3f) << 8 | usize::from(input.byte()?),
        2 => u32::from_be_bytes(input.array()?) as usize,
        _ => return number(head, input).map(Element::Int),
    };
    Ok(Element::of(input.take(text_len)?))
}

fn number(head: u8, input: &mut Input<'_>) -> Result<i64, Malformed> {
    Ok(match head {
        0xc0 => i64::from(i16::from_le_bytes(input.array()?)),
        0xd0 => i64::from(i32::from_le_bytes(input.array()?)),
        0xe0 => input.i64()?,
        0xf0 => {
            let [low, middle, high] = input.array()?;
            i64::from(i32::from_le_bytes([0, low, middle, high]) >> 8)
        }
        0xfe => i64::from(i8::from_le_bytes(input.array()?)),
        0xf1..=0xfd => i64::from(head & 0x0f) - 1,
        _ => return Err(Malformed("a ziplist with an unknown entry")),
    })
}

fn parse_map(bytes: &[u8]) -> Result<Packed, Malformed> {
    const WRONG: Malformed = Malformed("a zipmap that is not what it says");
    let mut input = Input::new(bytes);
    let told = input.byte()?;
    let mut entries = Encoded::new();
    let mut count = 0_usize;
    while input.rest().len() > 1 {
        let field_len = map_len(&mut input)?;
        entry::encode(Element::of(input.take(field_len)?), &mut entries);
        let value_len = map_len(&mut input)?;
        let unused = usize::from(input.byte()?);
        entry::encode(Element::of(input.take(value_len)?), &mut entries);
        input.take(unused)?;
        count += 1;
    }
    if input.rest() != [END] || (told < UNCOUNTED_MAP && usize::from(told) != count) {
        return Err(WRONG);
    }
    Packed::from_untrusted(&entries).ok_or(WRONG)
}

fn map_len(input: &mut Input<'_>) -> Result<usize, Malformed> {
    match input.byte()? {
        LONG => input.array().map(|len| u32::from_le_bytes(len) as usize),
        END => Err(Malformed("a zipmap that ends too early")),
        short => Ok(usize::from(short)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(packed: &Packed) -> Vec<String> {
        let text = |element: Element<'_>| String::from_utf8_lossy(&element.to_vec()).into_owned();
        packed.view().iter().map(|(_, element)| text(element)).collect()
    }

    fn ziplist(entries: &[&[u8]]) -> Vec<u8> {
        let mut bytes = vec![0; 10];
        let (mut before, mut last) = (0, 10);
        for entry in entries {
            last = bytes.len();
            if before < 254 {
                bytes.push(before as u8);
            } else {
                bytes.push(LONG);
                bytes.extend_from_slice(&(before as u32).to_le_bytes());
            }
            bytes.extend_from_slice(entry);
            before = bytes.len() - last;
        }
        bytes.push(END);
        let len = bytes.len() as u32;
        bytes[..4].copy_from_slice(&len.to_le_bytes());
        bytes[4..8].copy_from_slice(&(last as u32).to_le_bytes());
        bytes[8..10].copy_from_slice(&(entries.len() as u16).to_le_bytes());
        bytes
    }

    #[test]
    fn every_entry_of_a_ziplist() {
        let mut long = vec![0x41, 0x2c];
        long.extend_from_slice(&[b'x'; 300]);
        let bytes = ziplist(&[
            b"\x03abc",
            &long,
            b"\x80\0\0\0\x01z",
            b"\xc0\xff\x7f",
            b"\xd0\0\0\0\x80",
            b"\xe0\xff\xff\xff\xff\xff\xff\xff\x7f",
            b"\xf0\xff\xff\xff",
            b"\xfe\x80",
            b"\xf1",
            b"\xfd",
            b"\x02-5",
        ]);
        let packed = parse(&bytes).expect("legal");
        let x = "x".repeat(300);
        let expected = [
            "abc",
            &x,
            "z",
            "32767",
            "-2147483648",
            "9223372036854775807",
            "-1",
            "-128",
            "0",
            "12",
            "-5",
        ];
        assert_eq!(texts(&packed), expected);
        for cut in 0..bytes.len() {
            assert!(parse(&bytes[..cut]).is_err());
        }
        for at in 0..10 {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            assert!(parse(&wrong).is_err(), "{at}");
        }
    }

    #[test]
    fn a_zipmap() {
        let bytes = b"\x02\x03foo\x03\x00bar\x05hello\x05\x02worldxx\xff";
        assert_eq!(texts(&parse_map(bytes).expect("legal")), ["foo", "bar", "hello", "world"]);
        for cut in 0..bytes.len() {
            assert!(parse_map(&bytes[..cut]).is_err());
        }
        assert!(parse_map(b"\x01\xff").is_err());
    }
}
