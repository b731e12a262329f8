//! `incr` and `decr`: numbers of 64 bits without a sign, kept as text.
//!
//! Up goes around at the end, down stops at zero. A value never becomes shorter: what is left of
//! its room is filled with blanks, and a client that reads `9 ` after `decr` from 10 counts on it.

use crate::number::unsigned;

/// The longest text that is taken for a number.
const MOST_DIGITS: usize = 20;

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `incr`.
    Up,
    /// `decr`.
    Down,
}

/// What a value becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// As it is answered.
    pub number: u64,
    /// As it is kept.
    pub text: String,
}

/// Counts from a value; `None`: it is no number.
pub fn count(value: &[u8], delta: u64, direction: Direction) -> Option<Counted> {
    if value.len() > MOST_DIGITS {
        return None;
    }
    let before = unsigned(value)?;
    let number = match direction {
        Direction::Up => before.wrapping_add(delta),
        Direction::Down => before.saturating_sub(delta),
    };
    Some(Counted { number, text: format!("{number:<width$}", width = value.len()) })
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
            ("000000000000000000001", 1, Up, None),
            ("12a", 1, Up, None),
            ("-1", 1, Up, None),
            ("", 1, Up, None),
        ] {
            let counted = count(value.as_bytes(), delta, direction);
            let expected = expected.map(|(number, text)| Counted { number, text: text.to_owned() });
            assert_eq!(counted, expected, "{value:?} {direction:?} {delta}");
        }
    }
}
