//! Numbers as text: what clients may send and what the servers send back.
//!
//! - integers: strict, one text per number (this file);
//! - `double`: scores and other 64-bit floats;
//! - `grisu`: the digits of a double;
//! - `long_double`: the 80-bit floats of INCRBYFLOAT and HINCRBYFLOAT.
//!
//! 1. A parser takes the whole text or nothing: no spaces, no rest.
//! 2. `push_*` appends; it never looks at what the buffer held.
//!
//! Tests: foot of each file; tests/numbers.rs holds them against answers of valkey-server 9.1.2.

mod double;
mod grisu;
mod long_double;

pub use double::{parse_f64, push_f64};
pub use long_double::LongDouble;

/// Most bytes a 64-bit integer takes, sign included.
pub const I64_TEXT_MAX_BYTES: usize = 20;

static DIGIT_PAIRS: [u8; 200] = digit_pairs();

const fn digit_pairs() -> [u8; 200] {
    let mut pairs = [0; 200];
    let mut n = 0;
    while n < 100 {
        pairs[2 * n] = b'0' + (n / 10) as u8;
        pairs[2 * n + 1] = b'0' + (n % 10) as u8;
        n += 1;
    }
    pairs
}

/// A signed integer in its only spelling: no `+`, no leading zero, no "-0".
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    match text {
        [b'-', b'0', ..] => None,
        [b'-', digits @ ..] => {
            let magnitude = parse_u64(digits)?;
            (magnitude <= 1 << 63).then_some((magnitude as i64).wrapping_neg())
        }
        _ => i64::try_from(parse_u64(text)?).ok(),
    }
}

/// An unsigned integer in its only spelling.
#[inline]
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    // Nineteen digits always fit; the twentieth is added with care.
    let (head, last) = match text {
        [] => return None,
        [b'0', _, ..] => return None,
        _ if text.len() < 20 => (text, None),
        [head @ .., last] if text.len() == 20 => (head, Some(*last)),
        _ => return None,
    };
    let mut value = 0u64;
    for byte in head {
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit(*byte)?));
    }
    match last {
        None => Some(value),
        Some(byte) => value.checked_mul(10)?.checked_add(u64::from(digit(byte)?)),
    }
}

#[inline(always)]
fn digit(byte: u8) -> Option<u8> {
    let digit = byte.wrapping_sub(b'0');
    (digit < 10).then_some(digit)
}

/// The text of `value`, in the end of `out`.
#[inline]
pub fn fmt_i64(value: i64, out: &mut [u8; I64_TEXT_MAX_BYTES]) -> &[u8] {
    let mut at = digits_from_end(value.unsigned_abs(), out);
    if value < 0 {
        at -= 1;
        out[at] = b'-';
    }
    &out[at..]
}

/// The text of `value`, in the end of `out`.
#[inline]
pub fn fmt_u64(value: u64, out: &mut [u8; I64_TEXT_MAX_BYTES]) -> &[u8] {
    let at = digits_from_end(value, out);
    &out[at..]
}

/// Appends the text of `value`.
#[inline]
pub fn push_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(fmt_i64(value, &mut [0; I64_TEXT_MAX_BYTES]));
}

/// Appends the text of `value`.
#[inline]
pub fn push_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(fmt_u64(value, &mut [0; I64_TEXT_MAX_BYTES]));
}

/// Bytes that `fmt_i64` gives.
pub fn i64_text_len(value: i64) -> usize {
    let digits = value.unsigned_abs().checked_ilog10().map_or(1, |log| log as usize + 1);
    digits + usize::from(value < 0)
}

/// Writes digits up to the end of `out`, two at a time; where they begin.
#[inline(always)]
fn digits_from_end(mut value: u64, out: &mut [u8; I64_TEXT_MAX_BYTES]) -> usize {
    let mut at = I64_TEXT_MAX_BYTES;
    while value >= 100 {
        let pair = 2 * (value % 100) as usize;
        value /= 100;
        at -= 2;
        out[at + 1] = DIGIT_PAIRS[pair + 1];
        out[at] = DIGIT_PAIRS[pair];
    }
    if value >= 10 {
        let pair = 2 * value as usize;
        at -= 2;
        out[at + 1] = DIGIT_PAIRS[pair + 1];
        out[at] = DIGIT_PAIRS[pair];
    } else {
        at -= 1;
        out[at] = b'0' + value as u8;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn spellings() {
        for text in [
            "",
            "-",
            "+1",
            "01",
            "-01",
            "00",
            "-0",
            " 1",
            "1 ",
            "1\0",
            "a",
            "1a",
            "--1",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999",
            "100000000000000000000",
        ] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse_i64(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_i64(b"0"), Some(0));
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), None);
        assert_eq!(parse_u64(b"20446744073709551615"), None);
        assert_eq!(parse_u64(b"-1"), None);
    }

    #[test]
    fn there_and_back() {
        let mut rng = Rng::from_seed(1);
        let edges = (0..64).flat_map(|bit| {
            let power = 1i64 << bit;
            [power, power.wrapping_sub(1), power.wrapping_neg(), !power]
        });
        let random: Vec<i64> =
            (0..20_000).map(|_| (rng.next_u64() as i64) >> rng.below(64)).collect();
        for value in edges.chain(random).chain(-1200..1200) {
            let mut text = Vec::new();
            push_i64(&mut text, value);
            assert_eq!(text, value.to_string().as_bytes());
            assert_eq!(text.len(), i64_text_len(value));
            assert_eq!(parse_i64(&text), Some(value));
            text.clear();
            push_u64(&mut text, value as u64);
            assert_eq!(text, (value as u64).to_string().as_bytes());
            assert_eq!(parse_u64(&text), Some(value as u64));
        }
    }
}
