//! Integers as text: which strings may be kept as an `i64`, and how they are written again.
//!
//! A string is kept as a number only when writing the number gives back the same bytes, so no client can
//! tell the difference.
//!
//! Tests: at the foot of this file.

/// Longest decimal text of an `i64`: a sign and 19 digits.
pub const INT_TEXT_BYTES: usize = 20;

/// Room for the text of an integer; see [`crate::StrRef::bytes`].
#[derive(Clone, Copy, Debug)]
pub struct IntText([u8; INT_TEXT_BYTES]);

impl IntText {
    /// Empty room.
    pub const fn new() -> Self {
        Self([0; INT_TEXT_BYTES])
    }

    /// Writes `value` and returns its text.
    pub fn write(&mut self, value: i64) -> &[u8] {
        let mut at = INT_TEXT_BYTES;
        let mut rest = value.unsigned_abs();
        loop {
            at -= 1;
            self.0[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if value < 0 {
            at -= 1;
            self.0[at] = b'-';
        }
        &self.0[at..]
    }
}

impl Default for IntText {
    fn default() -> Self {
        Self::new()
    }
}

/// Bytes of the text of `value`.
pub fn int_text_len(value: i64) -> usize {
    usize::from(value < 0) + value.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1
}

/// Fewest bytes (1, 2, 4 or 8) that hold the number: never more than its text has.
pub(crate) fn int_width(value: i64) -> usize {
    match value {
        -0x80..0x80 => 1,
        -0x8000..0x8000 => 2,
        -0x8000_0000..0x8000_0000 => 4,
        _ => 8,
    }
}

/// The number whose canonical text is exactly `text`: no plus sign, no leading zero, no `-0`.
#[inline]
pub fn parse_int(text: &[u8]) -> Option<i64> {
    if text.is_empty() || text.len() > INT_TEXT_BYTES || text[0] > b'9' {
        return None;
    }
    parse_digits(text)
}

fn parse_digits(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        all => (false, all),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    let mut magnitude: u64 = 0;
    for &digit in digits {
        let value = digit.wrapping_sub(b'0');
        if value > 9 {
            return None;
        }
        magnitude = magnitude.checked_mul(10)?.checked_add(u64::from(value))?;
    }
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_text_is_a_number() {
        for text in ["0", "7", "-1", "10", "9223372036854775807", "-9223372036854775808"] {
            let value = parse_int(text.as_bytes()).expect(text);
            assert_eq!(IntText::new().write(value), text.as_bytes());
            assert_eq!(int_text_len(value), text.len());
        }
        for text in [
            "",
            "-",
            "-0",
            "00",
            "01",
            "+1",
            " 1",
            "1 ",
            "1a",
            "9223372036854775808",
            "1.0",
            "abc",
            "-9223372036854775809",
            "18446744073709551616",
            "99999999999999999999",
            "\u{1}",
            "/",
            "--1",
        ] {
            assert_eq!(parse_int(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn every_power_of_ten_and_its_neighbours_round_trip() {
        let mut power = 1i64;
        for _ in 0..19 {
            for value in [power - 1, power, power + 1, -power, 1 - power] {
                let mut room = IntText::new();
                let text = room.write(value);
                assert_eq!(text, value.to_string().as_bytes());
                assert_eq!(parse_int(text), Some(value));
                assert_eq!(int_text_len(value), text.len());
            }
            power = power.saturating_mul(10);
        }
    }
}
