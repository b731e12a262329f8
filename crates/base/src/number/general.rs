//! Doubles in the format of C's `printf("%.14g")`, in which Lua shows its numbers: a fixed count of
//! significant digits, trailing zeros dropped, an exponent where the point would be far away.
//!
//! The fast way takes whole numbers by their digits, and rounds the digits of `grisu` for other
//! numbers. These digits differ from the exact value by at most one unit of the double's own
//! precision, some 22 units of the 17th digit. So only numbers that are this close to half way
//! between two results are computed exactly.
//!
//! Tests: at the foot, against exact formatting.

use super::grisu;

/// The most significant digits: with more, nearness to half way could not be told.
pub const GENERAL_DIGITS_MAX: usize = 15;

/// The digits in which the distance from half way is measured, and how near is too near.
const JUDGED_DIGITS: usize = 17;
const DOUBT: u64 = 30;

/// Appends `value` with at most `digits` significant digits (clamped to 1..=`GENERAL_DIGITS_MAX`),
/// as `%.{digits}g` does: "inf", "nan", "-nan" as in glibc.
pub fn push_general(out: &mut Vec<u8>, value: f64, digits: usize) {
    let digits = digits.clamp(1, GENERAL_DIGITS_MAX);
    if !value.is_finite() || value == 0.0 {
        return push_special(out, value);
    }
    if value.abs() < 1e15 && value.trunc() == value {
        let whole = value as i64;
        if digits == GENERAL_DIGITS_MAX || whole.unsigned_abs() < 10u64.pow(digits as u32) {
            return super::push_i64(out, whole);
        }
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let (rounded, exponent) = rounded(value.abs(), digits);
    push_rounded(out, rounded, exponent, digits);
}

fn push_special(out: &mut Vec<u8>, value: f64) {
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let text: &[u8] = if value.is_nan() {
        b"nan"
    } else if value == 0.0 {
        b"0"
    } else {
        b"inf"
    };
    out.extend_from_slice(text);
}

/// `value`, finite and above zero, as a number of exactly `digits` digits and the decimal exponent
/// of its first digit.
fn rounded(value: f64, digits: usize) -> (u64, i32) {
    // Below the normal numbers a unit of precision is more than DOUBT.
    if value.is_normal() {
        let mut buffer = [0; grisu::DIGITS_MAX];
        let (len, power) = grisu::shortest(value, &mut buffer);
        let exponent = power + len as i32 - 1;
        if let Some(found) = rounded_from(&buffer[..len], exponent, digits) {
            return found;
        }
    }
    rounded_exactly(value, digits)
}

fn rounded_from(text: &[u8], exponent: i32, digits: usize) -> Option<(u64, i32)> {
    let number = text.iter().fold(0u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    if text.len() > JUDGED_DIGITS {
        return None;
    }
    let judged = number * 10u64.pow((JUDGED_DIGITS - text.len()) as u32);
    let unit = 10u64.pow((JUDGED_DIGITS - digits) as u32);
    let (kept, rest) = (judged / unit, judged % unit);
    if rest.abs_diff(unit / 2) <= DOUBT {
        return None;
    }
    let kept = kept + u64::from(rest > unit / 2);
    Some(carried(kept, exponent, digits))
}

/// Rounding up 99.9 gives a digit more.
fn carried(number: u64, exponent: i32, digits: usize) -> (u64, i32) {
    if number == 10u64.pow(digits as u32) {
        (number / 10, exponent + 1)
    } else {
        (number, exponent)
    }
}

fn rounded_exactly(value: f64, digits: usize) -> (u64, i32) {
    let text = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let number = mantissa
        .bytes()
        .filter(u8::is_ascii_digit)
        .fold(0u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    (number, exponent.parse().unwrap_or(0))
}

fn push_rounded(out: &mut Vec<u8>, number: u64, exponent: i32, digits: usize) {
    let mut buffer = [0; super::I64_TEXT_MAX_BYTES];
    let text = super::fmt_u64(number, &mut buffer);
    let used = text.len() - text.iter().rev().take_while(|digit| **digit == b'0').count();
    let text = &text[..used];
    if exponent < -4 || exponent >= digits as i32 {
        push_pointed(out, text, 1);
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        if exponent.abs() < 10 {
            out.push(b'0');
        }
        super::push_u64(out, u64::from(exponent.unsigned_abs()));
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + (-exponent - 1) as usize, b'0');
        out.extend_from_slice(text);
    } else {
        push_pointed(out, text, exponent as usize + 1);
    }
}

/// Appends `digits` with a point after the first `whole` of them, zeros where they are fewer.
fn push_pointed(out: &mut Vec<u8>, digits: &[u8], whole: usize) {
    match digits.split_at_checked(whole) {
        Some((whole, [])) => out.extend_from_slice(whole),
        Some((whole, fraction)) => {
            out.extend_from_slice(whole);
            out.push(b'.');
            out.extend_from_slice(fraction);
        }
        None => {
            out.extend_from_slice(digits);
            out.resize(out.len() + whole - digits.len(), b'0');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn shown(value: f64, digits: usize) -> String {
        let mut out = Vec::new();
        push_general(&mut out, value, digits);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn as_printf_does() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-17.0, "-17"),
            (0.1, "0.1"),
            (1.0 / 3.0, "0.33333333333333"),
            (2.0 / 3.0, "0.66666666666667"),
            (99_999_999_999_999.0, "99999999999999"),
            (100_000_000_000_000.0, "1e+14"),
            (123_456_789_012_345.0, "1.2345678901234e+14"),
            (123_456_789_012_355.0, "1.2345678901236e+14"),
            (1e15, "1e+15"),
            (1e100, "1e+100"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.5e-10, "1.5e-10"),
            (9.999_999_999_999_99, "10"),
            (123.456, "123.456"),
            (1200.5, "1200.5"),
            (5e-324, "4.9406564584125e-324"),
            (f64::MAX, "1.7976931348623e+308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN.copysign(1.0), "nan"),
            (f64::NAN.copysign(-1.0), "-nan"),
        ] {
            assert_eq!(shown(value, 14), text);
        }
        assert_eq!(shown(123.456, 1), "1e+02");
        assert_eq!(shown(0.5, 1), "0.5");
        assert_eq!(shown(123.456, 4), "123.5");
        assert_eq!(shown(1234.0, 3), "1.23e+03");
        assert_eq!(shown(999_999_999_999_999.0, 15), "999999999999999");
    }

    #[test]
    fn rounds_like_the_exact_way() {
        let mut rng = Rng::from_seed(7);
        for round in 0..200_000u64 {
            let value = match round % 4 {
                0 => f64::from_bits(rng.next_u64()).abs(),
                1 => (rng.next_u64() >> 11) as f64 / 1e9,
                // On and beside half way.
                2 => (rng.next_u64() % 100_000_000_000_000) as f64 + 0.5,
                _ => ((rng.next_u64() % 1_000_000) as f64 + 0.5) / 1e3,
            };
            if !value.is_finite() || value == 0.0 {
                continue;
            }
            let digits = 1 + (round % 15) as usize;
            assert_eq!(rounded(value, digits), rounded_exactly(value, digits), "{value:e}");
        }
    }
}
