//! Parses numbers as C's `strtod` does, which accepts more than JSON: hexadecimal with a binary
//! exponent, "inf", "infinity", "nan" and "nan(...)" in any case, a plus, leading zeros.
//!
//! 1. The longest prefix that is a number counts; the rest is ignored.
//! 2. Decimal results are rounded to the nearest double, ties to even; so are hexadecimal ones.
//!
//! Tests: at the foot; tests/libs_answers.rs against the reference.

/// The number at the start of `text`, and its length. `None`: there is none.
pub(super) fn number(text: &[u8]) -> Option<(f64, usize)> {
    if let Some(found) = small_integer(text) {
        return Some(found);
    }
    let negative = text.first() == Some(&b'-');
    let sign_len = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let rest = &text[sign_len..];
    let (magnitude, len) = if let Some(len) = decimal_len(rest) {
        match hexadecimal(rest) {
            Some(found) => found,
            // Digits with a point or an exponent: Rust accepts no other forms.
            None => (std::str::from_utf8(&rest[..len]).ok()?.parse().ok()?, len),
        }
    } else {
        named(rest)?
    };
    Some((if negative { -magnitude } else { magnitude }, sign_len + len))
}

/// An integer that a double holds exactly, of few enough digits.
#[inline]
fn small_integer(text: &[u8]) -> Option<(f64, usize)> {
    let negative = text.first() == Some(&b'-');
    let digits = &text[usize::from(negative)..];
    let mut sum = 0u64;
    let mut len = 0;
    for byte in digits.iter().take(16) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        sum = sum * 10 + u64::from(digit);
        len += 1;
    }
    let more = matches!(digits.get(len), Some(b'.' | b'e' | b'E' | b'x' | b'X' | b'0'..=b'9'));
    if len == 0 || len > 15 || more {
        return None;
    }
    let value = sum as f64;
    Some((if negative { -value } else { value }, len + usize::from(negative)))
}

fn digits_len(text: &[u8], is_digit: fn(&u8) -> bool) -> usize {
    text.iter().take_while(|byte| is_digit(byte)).count()
}

/// Digits with at most one point among them: how many bytes, and how many digits.
fn pointed_len(text: &[u8], is_digit: fn(&u8) -> bool) -> (usize, usize) {
    let whole = digits_len(text, is_digit);
    if text.get(whole) != Some(&b'.') {
        return (whole, whole);
    }
    let fraction = digits_len(&text[whole + 1..], is_digit);
    (whole + 1 + fraction, whole + fraction)
}

/// The length of an exponent at the start of `text`, 0 if there is none.
fn exponent_len(text: &[u8], letter: u8) -> usize {
    if text.first().map(u8::to_ascii_lowercase) != Some(letter) {
        return 0;
    }
    let sign = usize::from(matches!(text.get(1), Some(b'+' | b'-')));
    match digits_len(&text[1 + sign..], u8::is_ascii_digit) {
        0 => 0,
        digits => 1 + sign + digits,
    }
}

fn decimal_len(text: &[u8]) -> Option<usize> {
    let (len, digits) = pointed_len(text, u8::is_ascii_digit);
    (digits > 0).then(|| len + exponent_len(&text[len..], b'e'))
}

fn named(text: &[u8]) -> Option<(f64, usize)> {
    let begins =
        |name: &[u8]| text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    if begins(b"infinity") {
        return Some((f64::INFINITY, 8));
    }
    if begins(b"inf") {
        return Some((f64::INFINITY, 3));
    }
    if !begins(b"nan") {
        return None;
    }
    let mut len = 3;
    if text.get(3) == Some(&b'(') {
        let inner = digits_len(&text[4..], |byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        if text.get(4 + inner) == Some(&b')') {
            len = 5 + inner;
        }
    }
    Some((f64::NAN, len))
}

/// "0x" and digits, a point among them, and a power of two.
fn hexadecimal(text: &[u8]) -> Option<(f64, usize)> {
    let digits = match text {
        [b'0', b'x' | b'X', digits @ ..] => digits,
        _ => return None,
    };
    let (len, count) = pointed_len(digits, u8::is_ascii_hexdigit);
    if count == 0 {
        return None;
    }
    // The first 16 significant digits, and whether any further one is not zero.
    let mut significand = 0u64;
    let mut sticky = false;
    let mut power = 0i64;
    let mut behind_point = false;
    for byte in &digits[..len] {
        let Some(digit) = char::from(*byte).to_digit(16) else {
            behind_point = true;
            continue;
        };
        if significand >> 60 == 0 {
            significand = significand << 4 | u64::from(digit);
            power -= if behind_point { 4 } else { 0 };
        } else {
            sticky |= digit != 0;
            power += if behind_point { 0 } else { 4 };
        }
    }
    let exponent = exponent_len(&digits[len..], b'p');
    if exponent > 0 {
        power = power.saturating_add(saturated(&digits[len + 1..len + exponent]));
    }
    Some((scaled(significand, sticky, power), 2 + len + exponent))
}

/// A signed decimal integer, saturated far away.
fn saturated(text: &[u8]) -> i64 {
    const FAR: i64 = 1 << 40;
    let magnitude = text
        .iter()
        .filter(|byte| byte.is_ascii_digit())
        .fold(0i64, |sum, digit| (sum * 10 + i64::from(digit - b'0')).min(FAR));
    if text.first() == Some(&b'-') { -magnitude } else { magnitude }
}

/// `significand` x 2^`power`, rounded once; `sticky`: there is a bit below it.
fn scaled(significand: u64, sticky: bool, power: i64) -> f64 {
    if significand == 0 {
        return 0.0;
    }
    let zeros = significand.leading_zeros();
    let significand = significand << zeros;
    // The exponent of the first bit.
    let exponent = power + 63 - i64::from(zeros);
    if exponent > 1_023 {
        return f64::INFINITY;
    }
    if exponent < -1_075 {
        return 0.0;
    }
    let kept_bits = if exponent >= -1_022 { 53 } else { exponent + 1_075 };
    let dropped_bits = 64 - kept_bits as u32;
    let kept = significand.checked_shr(dropped_bits).unwrap_or(0);
    let half = 1u64 << (dropped_bits - 1);
    let rest = if dropped_bits == 64 { significand } else { significand & ((half << 1) - 1) };
    let up = rest > half || rest == half && (sticky || kept & 1 == 1);
    // Rounding up carries into the exponent by itself.
    let biased = if exponent >= -1_022 { (exponent + 1_022) as u64 } else { 0 };
    f64::from_bits((biased << 52) + kept + u64::from(up))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_strtod_does() {
        for (text, value, len) in [
            ("1", 1.0, 1),
            ("-0", -0.0, 2),
            ("007,", 7.0, 3),
            ("1.", 1.0, 2),
            ("-.5x", -0.5, 3),
            ("+5", 5.0, 2),
            ("1e", 1.0, 1),
            ("1e+", 1.0, 1),
            ("1e5", 1e5, 3),
            ("1e400", f64::INFINITY, 5),
            ("12345678901234567890", 12345678901234567890.0, 20),
            ("9007199254740993", 9007199254740992.0, 16),
            ("0x", 0.0, 1),
            ("0xg", 0.0, 1),
            ("0x10", 16.0, 4),
            ("-0X.8p1", -1.0, 7),
            ("0x1p-1074", 5e-324, 9),
            ("0x1p-1075", 0.0, 9),
            ("0x1.8p-1075", 5e-324, 11),
            ("0x1.00000000000008p0", 1.0, 20),
            ("0x1.000000000000081p0", 1.0 + f64::EPSILON, 21),
            ("0x1.fffffffffffffp1023", f64::MAX, 22),
            ("0x1.fffffffffffff8p1023", f64::INFINITY, 23),
            ("0x1p99999999999999999999", f64::INFINITY, 24),
            ("0x1p", 1.0, 3),
            ("inf", f64::INFINITY, 3),
            ("-Infinity", f64::NEG_INFINITY, 9),
            ("infinit", f64::INFINITY, 3),
        ] {
            let (found, found_len) = number(text.as_bytes()).unwrap();
            assert_eq!((found.to_bits(), found_len), (f64::to_bits(value), len), "{text}");
        }
        for (text, len) in [("nan", 3), ("NaN(1_a)", 8), ("nan(", 3), ("-nan(-)", 4)] {
            let (found, found_len) = number(text.as_bytes()).unwrap();
            assert!(found.is_nan() && found_len == len, "{text}");
        }
        for text in ["", "-", "+", ".", "-.", "e5", "in", "na", "x"] {
            assert!(number(text.as_bytes()).is_none(), "{text}");
        }
    }
}
