//! The 80-bit floats of the x87, with which the reference computes INCRBYFLOAT and HINCRBYFLOAT, on
//! every processor.
//!
//! 1. Values round to nearest, ties to even, with a 64-bit significand.
//! 2. `push_human` is exact: the binary value rounded to 17 decimal places, ties to even.
//!
//! Not here: which results are refused (nan, infinity); callers check. Tests: foot of the file,
//! tests/numbers.rs with sums read off valkey-server 9.1.2.

use rustc_apfloat::ieee::{Double, X87DoubleExtended};
use rustc_apfloat::{Float as _, FloatConvert as _, Round, Status};

/// The shortest text that is refused for its length.
const TEXT_LIMIT_BYTES: usize = 5 * 1024;
/// Exponents are clamped here: no text within the limit can bring such a number back into range.
const EXPONENT_LIMIT: i32 = 100_000;
/// 10^27 is the largest power of ten that 64 bits of significand hold exactly (5^27 < 2^63).
const EXACT_POWER_MAX: i32 = 27;

/// An 80-bit float.
#[derive(Clone, Copy, Debug)]
pub struct LongDouble(X87DoubleExtended);

impl LongDouble {
    /// The number that `text` spells: an optional sign, then "inf" or "infinity" in any case,
    /// decimal digits with an optional point and exponent, or "0x" with hexadecimal ones and a
    /// binary exponent. Refused: nan, spaces, overflow, and numbers that round to zero without
    /// being zero.
    pub fn parse(text: &[u8]) -> Option<LongDouble> {
        if text.len() >= TEXT_LIMIT_BYTES {
            return None;
        }
        let (negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        let value = match text {
            _ if text.eq_ignore_ascii_case(b"inf") || text.eq_ignore_ascii_case(b"infinity") => {
                X87DoubleExtended::INFINITY
            }
            [b'0', b'x' | b'X', rest @ ..] => Mantissa::scan(rest, 16)?.hexadecimal()?,
            _ => Mantissa::scan(text, 10)?.decimal()?,
        };
        Some(LongDouble(if negative { -value } else { value }))
    }

    /// Exactly `value`.
    pub fn from_i64(value: i64) -> LongDouble {
        LongDouble(X87DoubleExtended::from_i128(i128::from(value)).value)
    }

    /// Exactly `value`.
    pub fn from_f64(value: f64) -> LongDouble {
        const BIAS_DIFFERENCE: u64 = 16_383 - 1023;
        if !value.is_normal() {
            let narrow = Double::from_bits(u128::from(value.to_bits()));
            return LongDouble(narrow.convert(&mut false).value);
        }
        let bits = value.to_bits();
        let head = bits >> 63 << 15 | ((bits >> 52 & 0x7ff) + BIAS_DIFFERENCE);
        // Here the bit before the point is explicit.
        let significand = 1 << 63 | bits << 11;
        LongDouble(X87DoubleExtended::from_bits(u128::from(head) << 64 | u128::from(significand)))
    }

    /// Whether it is NaN, as infinity minus infinity.
    pub fn is_nan(self) -> bool {
        self.0.is_nan()
    }

    /// Whether it is infinite.
    pub fn is_infinite(self) -> bool {
        self.0.is_infinite()
    }

    /// The least integer at or above it, clamped below to the least `i64`; `None` above the range.
    pub fn ceil_i64(self) -> Option<i64> {
        let whole = self.0.to_i128_r(64, Round::TowardPositive, &mut false);
        let is_beyond = whole.status.contains(Status::INVALID_OP);
        if is_beyond && !self.0.is_negative() { None } else { i64::try_from(whole.value).ok() }
    }

    /// Appends the human-readable form: at most 17 decimal places, no trailing zeros, never "-0".
    pub fn push_human(self, out: &mut Vec<u8>) {
        if self.0.is_nan() {
            return out.extend_from_slice(b"nan");
        }
        let start = out.len();
        if self.0.is_negative() {
            out.push(b'-');
        }
        if self.0.is_infinite() {
            return out.extend_from_slice(b"inf");
        }
        let bits = self.0.to_bits();
        let significand = bits as u64;
        let exponent = ((bits >> 64) as i32 & 0x7fff).max(1) - 16_383 - 63;
        if exponent >= 0 {
            push_shifted(out, significand, exponent as u32);
        } else {
            push_fixed(out, significand, exponent.unsigned_abs());
        }
        if out[start..] == *b"-0" {
            out.remove(start);
        }
    }
}

/// The rounded sum.
impl std::ops::Add for LongDouble {
    type Output = LongDouble;

    fn add(self, other: LongDouble) -> LongDouble {
        LongDouble((self.0 + other.0).value)
    }
}

/// The rounded product.
impl std::ops::Mul for LongDouble {
    type Output = LongDouble;

    fn mul(self, other: LongDouble) -> LongDouble {
        LongDouble((self.0 * other.0).value)
    }
}

/// A parsed number text.
struct Mantissa<'t> {
    /// Digits with at most one point, at least one digit.
    digits: &'t [u8],
    /// The power after the digits, clamped at `EXPONENT_LIMIT`.
    exponent: i32,
}

impl<'t> Mantissa<'t> {
    fn scan(text: &'t [u8], radix: u32) -> Option<Mantissa<'t>> {
        let (mut digits, mut points) = (0, 0);
        let len = text
            .iter()
            .take_while(|&&byte| match byte {
                b'.' => {
                    points += 1;
                    points == 1
                }
                _ => {
                    let fits = char::from(byte).is_digit(radix);
                    digits += usize::from(fits);
                    fits
                }
            })
            .count();
        let (mantissa, rest) = text.split_at(len);
        let exponent = match rest {
            [] => 0,
            [b'e' | b'E', rest @ ..] if radix == 10 => scan_exponent(rest)?,
            [b'p' | b'P', rest @ ..] if radix == 16 => scan_exponent(rest)?,
            _ => return None,
        };
        (digits > 0).then_some(Mantissa { digits: mantissa, exponent })
    }

    fn is_zero(&self) -> bool {
        self.digits.iter().all(|byte| matches!(byte, b'0' | b'.'))
    }

    fn decimal(self) -> Option<X87DoubleExtended> {
        self.exact().or_else(|| self.read("", 'e'))
    }

    fn hexadecimal(self) -> Option<X87DoubleExtended> {
        self.read("0x", 'p')
    }

    /// One exact integer multiplied or divided by one exact power of ten: a single, correct
    /// rounding.
    fn exact(&self) -> Option<X87DoubleExtended> {
        let mut integer = 0u64;
        let mut exponent = self.exponent;
        let mut fraction = false;
        for &byte in self.digits {
            if byte == b'.' {
                fraction = true;
                continue;
            }
            integer = integer.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
            exponent -= i32::from(fraction);
        }
        if !(-EXACT_POWER_MAX..=EXACT_POWER_MAX).contains(&exponent) {
            return None;
        }
        let integer = X87DoubleExtended::from_u128(u128::from(integer)).value;
        let power = X87DoubleExtended::from_u128(10u128.pow(exponent.unsigned_abs())).value;
        Some(if exponent < 0 { integer / power } else { integer * power }.value)
    }

    fn read(&self, prefix: &str, mark: char) -> Option<X87DoubleExtended> {
        if self.is_zero() {
            return Some(X87DoubleExtended::ZERO);
        }
        let digits = std::str::from_utf8(self.digits).ok()?;
        let text = format!("{prefix}{digits}{mark}{}", self.exponent);
        let value: X87DoubleExtended = text.parse().ok()?;
        (value.is_finite() && !value.is_zero()).then_some(value)
    }
}

fn scan_exponent(text: &[u8]) -> Option<i32> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    let mut exponent = 0i32;
    for &byte in digits {
        if !byte.is_ascii_digit() {
            return None;
        }
        exponent = (exponent * 10 + i32::from(byte - b'0')).min(EXPONENT_LIMIT);
    }
    Some(if negative { -exponent } else { exponent })
}

/// Appends `significand` / 2^`shift`.
fn push_fixed(out: &mut Vec<u8>, significand: u64, shift: u32) {
    const ONE: u128 = 10u128.pow(17);
    // Below 2^121, so the bits shifted out and the carry are exact.
    let (mut whole, fraction) = match significand.checked_shr(shift) {
        Some(whole) => (whole, significand & ((1 << shift) - 1)),
        None => (0, significand),
    };
    let scaled = u128::from(fraction) * ONE;
    // Shifted by 128 or more it is below a half unit.
    let mut places = scaled.checked_shr(shift).unwrap_or(0);
    if shift < 128 {
        let rest = scaled & ((1 << shift) - 1);
        let half = 1u128 << (shift - 1);
        places += u128::from(rest > half || (rest == half && places % 2 == 1));
    }
    if places == ONE {
        places = 0;
        // The fraction is not empty, so `whole` is below 2^63.
        whole += 1;
    }
    super::push_u64(out, whole);
    if places != 0 {
        // A leading one keeps the zeros after the point; it becomes the point.
        let point = out.len();
        super::push_u64(out, (ONE + places) as u64);
        out[point] = b'.';
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
}

/// Appends `significand` x 2^`shift`, in limbs of nine decimal digits.
fn push_shifted(out: &mut Vec<u8>, significand: u64, shift: u32) {
    const LIMB: u64 = 1_000_000_000;
    let mut limbs: Vec<u32> = Vec::new();
    let mut rest = significand;
    while rest > 0 {
        limbs.push((rest % LIMB) as u32);
        rest /= LIMB;
    }
    let mut left = shift;
    while left > 0 {
        let step = left.min(32);
        let mut carry = 0;
        for limb in &mut limbs {
            let product = (u64::from(*limb) << step) + carry;
            *limb = (product % LIMB) as u32;
            carry = product / LIMB;
        }
        while carry > 0 {
            limbs.push((carry % LIMB) as u32);
            carry /= LIMB;
        }
        left -= step;
    }
    super::push_u64(out, u64::from(limbs.pop().unwrap_or(0)));
    for &limb in limbs.iter().rev() {
        let first = out.len();
        super::push_u64(out, LIMB + u64::from(limb));
        out.remove(first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn human(text: &str) -> Option<String> {
        let mut out = Vec::new();
        LongDouble::parse(text.as_bytes())?.push_human(&mut out);
        Some(String::from_utf8_lossy(&out).into_owned())
    }

    #[test]
    fn doubles_are_exact() {
        let check = |value: f64, expected: &str| {
            let mut out = Vec::new();
            LongDouble::from_f64(value).push_human(&mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        };
        check(13.361_389_338_970_184, "13.36138933897018433");
        check(-85.05112751263943, "-85.05112751263942528");
        check(0.1, "0.10000000000000001");
        check(180.0, "180");
        check(-0.0, "0");
        check(0.0, "0");
        check(f64::MIN_POSITIVE / 2.0, "0");
        check(-1e-300, "0");
        check(1e22, "10000000000000000000000");
    }

    #[test]
    fn accepted() {
        for (text, shown) in [
            ("0", "0"),
            ("-0", "0"),
            ("+1", "1"),
            (".5", "0.5"),
            ("5.", "5"),
            ("-.5", "-0.5"),
            ("00012", "12"),
            ("1e5", "100000"),
            ("0x10", "16"),
            ("0X1A", "26"),
            ("0x1p3", "8"),
            ("-0x1P-2", "-0.25"),
            ("0x.8", "0.5"),
            ("0x0p99999999999", "0"),
            ("0e99999999999", "0"),
            ("1e-400", "0"),
            ("-1e-400", "0"),
            ("3.14", "3.14"),
            (
                "1111111111111111111111111111111111111111",
                "1111111111111111111111671891239418986496",
            ),
            ("0.000000000000000005", "0"),
            ("0.99999999999999999999", "1"),
            ("18446744073709551615", "18446744073709551615"),
            ("inf", "inf"),
            ("-INFINITY", "-inf"),
        ] {
            assert_eq!(human(text).as_deref(), Some(shown), "{text}");
        }
    }

    #[test]
    fn refused() {
        for text in [
            "",
            "-",
            ".",
            "1e",
            "1e+",
            "0x",
            "0x.",
            "0x1p",
            "0xp1",
            "nan",
            "infin",
            " 1",
            "1 ",
            "1\0",
            "1.2.3",
            "1e1.5",
            "++1",
            "1_0",
            "1f",
            "1p3",
            "0b1",
            "1e99999999999999999999",
            "0x1p99999",
            "1e-99999999999",
            "é",
        ] {
            assert_eq!(human(text), None, "{text:?}");
        }
        assert_eq!(human(&"1".repeat(5 * 1024)), None);
        assert!(human(&format!("{}1", "0".repeat(5 * 1024 - 2))).is_some());
    }

    #[test]
    fn whole_numbers_above() {
        let ceil = |text: &str| LongDouble::parse(text.as_bytes()).expect("a number").ceil_i64();
        for (text, whole) in [
            ("0", 0),
            ("-0", 0),
            ("1.25", 2),
            ("-1.25", -1),
            ("1e-4000", 1),
            ("9223372036854775806.5", i64::MAX),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
            ("-inf", i64::MIN),
        ] {
            assert_eq!(ceil(text), Some(whole), "{text}");
        }
        for text in ["9223372036854775808", "1e400", "inf"] {
            assert_eq!(ceil(text), None, "{text}");
        }
        let product = LongDouble::from_i64(3) * LongDouble::from_f64(0.5);
        assert_eq!(product.ceil_i64(), Some(2));
    }

    #[test]
    fn sums() {
        let inf = LongDouble::parse(b"inf").expect("accepted above");
        let minus_inf = LongDouble::parse(b"-inf").expect("accepted above");
        assert!((inf + minus_inf).is_nan());
        assert!((inf + LongDouble::from_i64(1)).is_infinite());
        let mut out = Vec::new();
        let tenth = LongDouble::parse(b"0.1").expect("accepted above");
        (LongDouble::from_i64(i64::MIN) + tenth).push_human(&mut out);
        assert_eq!(out, b"-9223372036854775808");
    }
}
