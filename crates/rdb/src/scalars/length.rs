//! Lengths and counts, and the string encodings in their place.
//!
//! | first byte | the number |
//! |---|---|
//! | `00xxxxxx` | six bits |
//! | `01xxxxxx` | 14 bits, with the next byte |
//! | `10000000` | four bytes follow, big-endian |
//! | `10000001` | eight bytes follow, big-endian |
//! | `11xxxxxx` | none: the string that follows has the special encoding x |

use crate::input::{Input, Malformed};

/// A length, or a special encoding of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// A number.
    Is(u64),
    /// The six bits that name an encoding.
    Mark(u8),
}

/// The most bytes that a number takes.
pub const MOST_BYTES: usize = 9;

/// Appends a number.
#[inline]
pub fn write(number: u64, out: &mut Vec<u8>) {
    if number <= 0x3f {
        out.push(number as u8);
    } else {
        let (bytes, len) = encode(number);
        out.extend_from_slice(&bytes[..len]);
    }
}

/// The encoding of a number, and how many of the bytes it takes.
pub fn encode(number: u64) -> ([u8; MOST_BYTES], usize) {
    let mut bytes = [0; MOST_BYTES];
    let len = match number {
        0..=0x3f => {
            bytes[0] = number as u8;
            1
        }
        0x40..=0x3fff => {
            bytes[..2].copy_from_slice(&(0x4000 | number as u16).to_be_bytes());
            2
        }
        0x4000..=0xffff_ffff => {
            bytes[0] = 0x80;
            bytes[1..5].copy_from_slice(&(number as u32).to_be_bytes());
            5
        }
        _ => {
            bytes[0] = 0x81;
            bytes[1..].copy_from_slice(&number.to_be_bytes());
            MOST_BYTES
        }
    };
    (bytes, len)
}

/// Reads a number or the name of an encoding.
pub fn read_any(input: &mut Input<'_>) -> Result<Length, Malformed> {
    let first = input.byte()?;
    let number = match (first >> 6, first & 0x3f) {
        (0, low) => u64::from(low),
        (1, high) => u64::from(high) << 8 | u64::from(input.byte()?),
        (2, 0) => u64::from(u32::from_be_bytes(input.array()?)),
        (2, 1) => u64::from_be_bytes(input.array()?),
        (3, mark) => return Ok(Length::Mark(mark)),
        _ => return Err(Malformed("a length of no known form")),
    };
    Ok(Length::Is(number))
}

/// Reads a number of any size.
pub fn read(input: &mut Input<'_>) -> Result<u64, Malformed> {
    match read_any(input)? {
        Length::Is(number) => Ok(number),
        Length::Mark(_) => Err(Malformed("a mark where a number must be")),
    }
}

/// Reads the count of elements that follow, each of at least `least` bytes: a count beyond the
/// input is refused before anything is allocated.
pub fn read_count(input: &mut Input<'_>, least: usize) -> Result<usize, Malformed> {
    let count = read(input)?;
    let most = input.rest().len() / least.max(1);
    match usize::try_from(count) {
        Ok(count) if count <= most => Ok(count),
        _ => Err(Malformed("more elements than bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_comes_back() {
        for (number, bytes) in [
            (0, 1),
            (63, 1),
            (64, 2),
            (16_383, 2),
            (16_384, 5),
            (u64::from(u32::MAX), 5),
            (u64::from(u32::MAX) + 1, 9),
            (u64::MAX, 9),
        ] {
            let mut out = Vec::new();
            write(number, &mut out);
            assert_eq!(out.len(), bytes);
            let mut input = Input::new(&out);
            assert_eq!(read(&mut input), Ok(number));
            assert!(input.is_empty());
            for cut in 0..out.len() {
                assert!(read(&mut Input::new(&out[..cut])).is_err());
            }
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        assert_eq!(read_any(&mut Input::new(&[0xc3])), Ok(Length::Mark(3)));
        assert!(read(&mut Input::new(&[0xc3])).is_err());
        assert!(read(&mut Input::new(&[0x82, 0, 0, 0, 0])).is_err());
        assert!(read_count(&mut Input::new(&[3, 1, 1]), 1).is_err());
        assert_eq!(read_count(&mut Input::new(&[2, 1, 1]), 1), Ok(2));
    }
}
