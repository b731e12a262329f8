//! Parses numbers as memcached does: by strtoul and its kin, which allow a sign, and blanks around.

/// This many digits always fit 64 bits.
const SAFE_DIGITS: usize = 19;

/// An unsigned number of 64 bits; a minus sign is invalid.
#[inline]
pub fn unsigned(text: &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    // Nearly all are a few digits and nothing else.
    if text.is_empty() || text.len() > SAFE_DIGITS {
        return unsigned_of_any(text);
    }
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return unsigned_of_any(text);
        }
        number = number * 10 + u64::from(digit);
    }
    Some(number)
}

#[cold]
fn unsigned_of_any(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_start();
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    let (digits, rest) = digits.split_at(end);
    if digits.is_empty() || !rest.first().is_none_or(u8::is_ascii_whitespace) {
        return None;
    }
    digits
        .iter()
        .try_fold(0_u64, |number, byte| number.checked_mul(10)?.checked_add(u64::from(byte - b'0')))
}

/// A signed number of 64 bits.
#[inline]
pub fn signed(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(digits) if digits.first().is_some_and(u8::is_ascii_digit) => {
            0_i64.checked_sub_unsigned(unsigned(digits)?)
        }
        Some(_) => None,
        None => i64::try_from(unsigned(text)?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_strtoul() {
        for (text, number) in [
            ("0", Some(0)),
            ("9999999999999999999", Some(9_999_999_999_999_999_999)),
            ("1234x", None),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            (" 1", Some(1)),
            ("1 ", Some(1)),
            ("1 x", Some(1)),
            ("+7", Some(7)),
            ("007", Some(7)),
            ("12a", None),
            ("-1", None),
            ("+-1", None),
            ("", None),
            ("+", None),
            ("x", None),
        ] {
            assert_eq!(unsigned(text.as_bytes()), number, "{text:?}");
        }
        for (text, number) in [
            ("-9223372036854775808", Some(i64::MIN)),
            ("-9223372036854775809", None),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("-1", Some(-1)),
            ("--1", None),
            ("-+1", None),
            ("-", None),
        ] {
            assert_eq!(signed(text.as_bytes()), number, "{text:?}");
        }
    }
}
