//! Intsets: small sets of numbers, ascending, all in the fewest bytes that the widest needs.
//!
//! ```text
//! | u32 bytes of a number: 2, 4 or 8 | u32 numbers | number | number | ...
//! ```

use pantala_table::IntText;

use crate::input::{Input, Malformed};
use crate::packed::listpack::read_text;
use crate::scalars::text::{self, Strings};

const HEAD_BYTES: usize = 8;

/// Appends an intset of these ascending numbers as a string.
pub fn write<N: Iterator<Item = i64>>(
    numbers: impl Fn() -> N,
    strings: Strings,
    out: &mut Vec<u8>,
) {
    let width = numbers().map(width).max().unwrap_or(2);
    let count = numbers().count();
    text::write_made(HEAD_BYTES + count * width, strings, out, |out| {
        out.extend_from_slice(&(width as u32).to_le_bytes());
        out.extend_from_slice(&(count as u32).to_le_bytes());
        for number in numbers() {
            out.extend_from_slice(&number.to_le_bytes()[..width]);
        }
    });
}

/// How many bytes a number needs.
fn width(number: i64) -> usize {
    if i16::try_from(number).is_ok() {
        2
    } else if i32::try_from(number).is_ok() {
        4
    } else {
        8
    }
}

/// Reads an intset from a string, and calls `show` with its ascending numbers.
pub fn read(input: &mut Input<'_>, show: impl FnMut(i64)) -> Result<(), Malformed> {
    parse(read_text(input)?.bytes(&mut IntText::new()), show)
}

fn parse(bytes: &[u8], mut show: impl FnMut(i64)) -> Result<(), Malformed> {
    const WRONG: Malformed = Malformed("an intset that is not what it says");
    let mut input = Input::new(bytes);
    let width = u32::from_le_bytes(input.array()?) as usize;
    let count = u32::from_le_bytes(input.array()?) as usize;
    if !matches!(width, 2 | 4 | 8) || count.checked_mul(width) != Some(input.rest().len()) {
        return Err(WRONG);
    }
    let mut last = None;
    for chunk in input.rest().chunks_exact(width) {
        let mut number = [0; 8];
        number[8 - width..].copy_from_slice(chunk);
        let number = i64::from_le_bytes(number) >> (64 - 8 * width);
        if last.is_some_and(|last| last >= number) {
            return Err(Malformed("an intset whose numbers do not ascend"));
        }
        last = Some(number);
        show(number);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_comes_back() {
        for numbers in [
            &[1, 2, 3][..],
            &[-32_768, 32_767],
            &[-32_769, 0],
            &[1, 70_000],
            &[i64::from(i32::MIN) - 1, 0, 1],
            &[i64::MIN, i64::MAX],
        ] {
            let mut out = Vec::new();
            write(|| numbers.iter().copied(), Strings::Plain, &mut out);
            let mut back = Vec::new();
            assert_eq!(read(&mut Input::new(&out), |number| back.push(number)), Ok(()));
            assert_eq!(back, numbers);
            for cut in 0..out.len() {
                assert!(read(&mut Input::new(&out[..cut]), |_| {}).is_err());
            }
        }
        // SADD 1 70000, read off Valkey.
        let mut out = Vec::new();
        write(|| [1, 70_000].into_iter(), Strings::Plain, &mut out);
        assert_eq!(out, b"\x10\x04\0\0\0\x02\0\0\0\x01\0\0\0\x70\x11\x01\0");
    }

    #[test]
    fn order_and_widths_are_looked_at() {
        let none = |_: i64| {};
        assert!(parse(b"\x02\0\0\0\x02\0\0\0\x05\0\x01\0", none).is_err());
        assert!(parse(b"\x02\0\0\0\x02\0\0\0\x05\0\x05\0", none).is_err());
        assert!(parse(b"\x03\0\0\0\x01\0\0\0\x05\0\x01", none).is_err());
        assert!(parse(b"\x08\0\0\0\xff\xff\xff\xff", none).is_err());
    }
}
