//! 64-bit floats as text.
//!
//! Accepted, as in valkey-server 9.1.2 for scores and increments: an optional sign, then "inf" or
//! "infinity" in any case, or decimal digits with an optional point and exponent. Refused: nan,
//! hexadecimal, spaces, and numbers that overflow or that round to zero without being zero.
//!
//! Written: an integer of at most 62 bits as such; otherwise the digits of `grisu`, in positional
//! form while few zeros are needed, else as d.ddde±x.

use super::grisu;

/// The double that `text` spells; `None` where the reference answers "value is not a valid float".
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    if value.is_normal() {
        return Some(value);
    }
    let keep = if value.is_nan() {
        false
    } else if value.is_infinite() {
        !text.iter().any(u8::is_ascii_digit)
    } else if value == 0.0 {
        // Truly zero: no other digit before the exponent.
        let mantissa = text.iter().take_while(|byte| !matches!(byte, b'e' | b'E'));
        !mantissa.into_iter().any(|byte| (b'1'..=b'9').contains(byte))
    } else {
        true
    };
    keep.then_some(value)
}

/// Above this an integral double is shown by its shortest digits, not by all of them.
const INTEGER_MAX: f64 = (i64::MAX / 2) as f64;

/// Appends `value` as a score or a RESP3 double shows it, including "inf", "-inf" and "nan".
pub fn push_f64(out: &mut Vec<u8>, value: f64) {
    if value.abs() <= INTEGER_MAX {
        let integer = value as i64;
        if integer as f64 == value {
            if integer == 0 && value.is_sign_negative() {
                out.push(b'-');
            }
            return super::push_i64(out, integer);
        }
    } else if value.is_nan() {
        return out.extend_from_slice(b"nan");
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    if value.is_infinite() {
        return out.extend_from_slice(b"inf");
    }
    let mut buffer = [0; grisu::DIGITS_MAX];
    let (len, exponent) = grisu::shortest(value.abs(), &mut buffer);
    push_digits(out, &buffer[..len], exponent);
}

/// Appends `digits` x 10^`exponent`.
fn push_digits(out: &mut Vec<u8>, digits: &[u8], exponent: i32) {
    let len = digits.len() as i32;
    // The exponent if the point were after the first digit.
    let scientific = exponent + len - 1;
    let zeros = |out: &mut Vec<u8>, count: i32| {
        out.resize(out.len() + usize::try_from(count).unwrap_or(0), b'0');
    };
    if exponent >= 0 && scientific < len + 7 {
        out.extend_from_slice(digits);
        zeros(out, exponent);
    } else if exponent < 0 && (exponent > -7 || scientific.abs() < 4) {
        let point = len + exponent;
        if point <= 0 {
            out.extend_from_slice(b"0.");
            zeros(out, -point);
            out.extend_from_slice(digits);
        } else {
            let (whole, fraction) = digits.split_at(point as usize);
            out.extend_from_slice(whole);
            out.push(b'.');
            out.extend_from_slice(fraction);
        }
    } else {
        out.push(digits[0]);
        if len > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.extend_from_slice(if scientific < 0 { b"e-" } else { b"e+" });
        super::push_i64(out, i64::from(scientific.abs()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn accepted() {
        for (text, value) in [
            ("1", 1.0),
            ("+1", 1.0),
            ("-1", -1.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("1e5", 1e5),
            ("1E+5", 1e5),
            ("00012", 12.0),
            ("1e-320", 1e-320),
            ("2.4703282292062328e-324", 5e-324),
            ("0e99999999999999999999", 0.0),
            ("inf", f64::INFINITY),
            ("+inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("INF", f64::INFINITY),
            ("1.7976931348623157e308", f64::MAX),
        ] {
            assert_eq!(parse_f64(text.as_bytes()), Some(value), "{text}");
        }
        assert!(parse_f64(b"-0").is_some_and(|zero| zero.is_sign_negative()));
        let long = [b"0".repeat(5000), b"1".to_vec()].concat();
        assert_eq!(parse_f64(&long), Some(1.0));
    }

    #[test]
    fn refused() {
        for text in [
            "",
            ".",
            "nan",
            "-nan",
            "NaN",
            "nan(1)",
            "infin",
            "0x10",
            "0x1p3",
            "1e",
            "1e+",
            " 1",
            "1 ",
            "\t1",
            "1\0",
            "1.2.3",
            "1_0",
            "1d",
            "1f",
            "++1",
            "+-1",
            "1e400",
            "-1e400",
            "1e-400",
            "2.4703282292062327e-324",
            "1e99999999999999999999",
            "1e-99999999999",
            "é",
        ] {
            assert_eq!(parse_f64(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse_f64(b"\xff"), None);
    }

    #[test]
    fn sent() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (4e18, "4000000000000000000"),
            (9e18, "9e+18"),
            (-9.223_372_036_854_776e18, "-9223372036854776000"),
            (1e20, "1e+20"),
            (1e23, "99999999999999990000000"),
            (123456789e20, "1.23456789e+28"),
            (0.1, "0.1"),
            (0.000001, "0.000001"),
            (0.0000001, "1e-7"),
            (0.00012345678901234, "1.2345678901234e-4"),
            (1234567.1234567, "1.2345671234567e+6"),
            (123.456, "123.456"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (-f64::NAN, "nan"),
        ] {
            let mut out = Vec::new();
            push_f64(&mut out, value);
            assert_eq!(out, text.as_bytes(), "{value:e}");
        }
    }

    #[test]
    fn there_and_back() {
        let mut rng = Rng::from_seed(2);
        let mut out = Vec::new();
        for _ in 0..200_000 {
            let value = f64::from_bits(rng.next_u64());
            if value.is_finite() {
                out.clear();
                push_f64(&mut out, value);
                assert_eq!(parse_f64(&out), Some(value));
            }
        }
    }
}
