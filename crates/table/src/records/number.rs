//! Integers as text: which strings may be kept as an `i64`, and how they are formatted again.
//!
//! A string is kept as a number only when writing the number gives back the same bytes, so no
//! client can tell the difference.
//!
//! Tests: at the foot of this file; the text itself is tested in `pantala_base::number`.

use pantala_base::number::{I64_TEXT_MAX_BYTES, fmt_i64, parse_i64};

/// Room for the text of an integer; see [`crate::StrRef::bytes`].
#[derive(Clone, Copy, Debug)]
pub struct IntText([u8; I64_TEXT_MAX_BYTES]);

impl IntText {
    /// Empty room.
    #[inline]
    pub const fn new() -> Self {
        Self([0; I64_TEXT_MAX_BYTES])
    }

    /// Writes `value` and returns its text.
    #[inline]
    pub fn write(&mut self, value: i64) -> &[u8] {
        fmt_i64(value, &mut self.0)
    }
}

impl Default for IntText {
    fn default() -> Self {
        Self::new()
    }
}

/// The fewest bytes (1, 2, 4 or 8) that hold the number: never more than its text has.
#[inline]
pub(crate) fn int_width(value: i64) -> usize {
    match value {
        -0x80..0x80 => 1,
        -0x8000..0x8000 => 2,
        -0x8000_0000..0x8000_0000 => 4,
        _ => 8,
    }
}

/// The number that may be stored in place of this string.
#[inline]
pub(crate) fn as_int(text: &[u8]) -> Option<i64> {
    let may_be = text.len() <= I64_TEXT_MAX_BYTES && text.first().is_some_and(|byte| *byte <= b'9');
    if may_be { parse_i64(text) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_text_is_a_number() {
        for text in ["0", "7", "-1", "10", "9223372036854775807", "-9223372036854775808"] {
            let value = as_int(text.as_bytes()).expect(text);
            assert_eq!(IntText::new().write(value), text.as_bytes());
        }
        for text in ["", "-", "-0", "00", "01", "+1", " 1", "1 ", "1a", "9223372036854775808", "/"]
        {
            assert_eq!(as_int(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_number_is_never_wider_than_its_text() {
        let mut power = 1i64;
        for _ in 0..19 {
            for value in [power - 1, power, power + 1, -power, 1 - power, i64::MIN, i64::MAX] {
                let mut room = IntText::new();
                let text = room.write(value);
                assert!(int_width(value) <= text.len(), "{value}");
                assert_eq!(as_int(text), Some(value));
            }
            power = power.saturating_mul(10);
        }
    }
}
