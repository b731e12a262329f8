//! `incr` and `decr`: numbers of 64 bits without a sign, kept as text.
//!
//! `incr` wraps around, `decr` stops at zero. A value never becomes shorter: the rest of its room
//! is padded with blanks, as clients that read `9 ` after `decr` from 10 expect.

use pantala_base::number::{I64_TEXT_MAX_BYTES, fmt_u64};

use crate::number::unsigned;

/// The longest number as text.
const MOST_DIGITS: usize = 20;
/// A longer value is not a number: memcached keeps it in chunks.
const MOST_VALUE_BYTES: usize = 512 << 10;

/// The direction of counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `incr`.
    Up,
    /// `decr`.
    Down,
}

/// Buffer for the text of a number.
#[derive(Default)]
pub struct Text {
    short: [u8; MOST_DIGITS],
    /// Used for a value with more blanks than any number has digits.
    long: Vec<u8>,
}

/// Adds to or subtracts from a value: the number, and the text to store. `None`: the value is not a
/// number.
pub fn count<'t>(
    value: &[u8],
    delta: u64,
    direction: Direction,
    text: &'t mut Text,
) -> Option<(u64, &'t [u8])> {
    if value.len() > MOST_VALUE_BYTES {
        return None;
    }
    let before = unsigned(value)?;
    let number = match direction {
        Direction::Up => before.wrapping_add(delta),
        Direction::Down => before.saturating_sub(delta),
    };
    let digits = &mut [0; I64_TEXT_MAX_BYTES];
    let digits = fmt_u64(number, digits);
    let room = digits.len().max(value.len());
    let text = match text.short.get_mut(..room) {
        Some(text) => text,
        None => {
            text.long.resize(room, 0);
            &mut text.long
        }
    };
    text.fill(b' ');
    text[..digits.len()].copy_from_slice(digits);
    Some((number, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_keeps_its_room() {
        use Direction::{Down, Up};
        for (value, delta, direction, expected) in [
            ("10", 5, Up, Some((15, "15"))),
            ("10", 1, Down, Some((9, "9 "))),
            ("10", 100, Down, Some((0, "0 "))),
            ("99", 1, Up, Some((100, "100"))),
            ("18446744073709551615", 1, Up, Some((0, "0                   "))),
            ("0", u64::MAX, Up, Some((u64::MAX, "18446744073709551615"))),
            ("9 ", 1, Up, Some((10, "10"))),
            (" 1", 1, Up, Some((2, "2 "))),
            ("1 x", 1, Up, Some((2, "2  "))),
            ("18446744073709551616", 1, Up, None),
            ("000000000000000000001", 1, Up, Some((2, "2                    "))),
            ("1                      x", 1, Up, Some((2, "2                       "))),
            ("12a", 1, Up, None),
            ("-1", 1, Up, None),
            ("", 1, Up, None),
        ] {
            let text = &mut Text::default();
            let counted = count(value.as_bytes(), delta, direction, text);
            let expected = expected.map(|(number, text)| (number, text.as_bytes()));
            assert_eq!(counted, expected, "{value:?} {direction:?} {delta}");
        }
    }
}
