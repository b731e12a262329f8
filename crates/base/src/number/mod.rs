//! Numbers as text: what clients may send and what is sent back.
//!
//! - integers: strict, one text per number (this file);
//! - `double`: scores and other 64-bit floats;
//! - `general`: doubles as `%.14g`, for Lua;
//! - `grisu`: the digits of a double;
//! - `long_double`: the 80-bit floats of INCRBYFLOAT and HINCRBYFLOAT.
//!
//! 1. A parser takes the whole text or nothing: no spaces, no remainder.
//! 2. `push_*` appends; it never reads the buffer's content.
//!
//! Tests: foot of each file; tests/numbers.rs compares with answers of valkey-server 9.1.2.

mod double;
mod general;
mod grisu;
mod long_double;

pub use double::{parse_f64, push_f64};
pub use general::{GENERAL_DIGITS_MAX, push_general};
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
    // Nineteen digits always fit; the twentieth is added with a check.
    let (head, last) = match text {
        [] => return None,
        [b'0', _, ..] => return None,
        _ if text.len() < 20 => (text, None),
        [head @ .., last] if text.len() == 20 => (head, Some(*last)),
        _ => return None,
    };
    let (eights, tail) = head.as_chunks::<8>();
    let mut value = 0u64;
    for eight in eights {
        value = value.wrapping_mul(100_000_000).wrapping_add(eight_digits(*eight)?);
    }
    for byte in tail {
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

/// Eight digits at once: pairs, then fours, then the whole, each with one multiplication.
#[inline(always)]
fn eight_digits(text: [u8; 8]) -> Option<u64> {
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    let word = u64::from_le_bytes(text);
    // A digit has 3 in its upper half, and still has when 6 is added.
    let halves = (word & 0xf0f0_f0f0_f0f0_f0f0)
        | ((word.wrapping_add(0x0606_0606_0606_0606) & 0xf0f0_f0f0_f0f0_f0f0) >> 4);
    if halves != 0x3333_3333_3333_3333 {
        return None;
    }
    let ones = word - ZEROS;
    let pairs = (ones.wrapping_mul(10 << 8 | 1) >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100 << 16 | 1) >> 16) & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(10_000 << 32 | 1) >> 32)
}

/// Formats `value` at the end of `out`.
#[inline]
pub fn fmt_i64(value: i64, out: &mut [u8; I64_TEXT_MAX_BYTES]) -> &[u8] {
    let mut at = write_digits(value.unsigned_abs(), out, I64_TEXT_MAX_BYTES);
    if value < 0 {
        at -= 1;
        out[at] = b'-';
    }
    &out[at..]
}

/// Formats `value` at the end of `out`.
#[inline]
pub fn fmt_u64(value: u64, out: &mut [u8; I64_TEXT_MAX_BYTES]) -> &[u8] {
    let at = write_digits(value, out, I64_TEXT_MAX_BYTES);
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

/// The number of decimal digits of `value`.
#[inline]
pub fn digit_count(value: u64) -> usize {
    // Zero counts as one, which has as many.
    let value = value | 1;
    // 1233 / 4096 is close to log10(2): a number of this many bits has `guess` digits or one more.
    let guess = ((u64::BITS - value.leading_zeros()) as usize * 1233) >> 12;
    guess + usize::from(value >= POWERS_OF_TEN[guess])
}

static POWERS_OF_TEN: [u64; 20] = powers_of_ten();

const fn powers_of_ten() -> [u64; 20] {
    let mut powers = [1; 20];
    let mut i = 1;
    while i < 20 {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
}

/// The length of the text that `fmt_i64` gives.
#[inline]
pub fn i64_text_len(value: i64) -> usize {
    digit_count(value.unsigned_abs()) + usize::from(value < 0)
}

/// Writes the digits of `value`, two at a time, so that they end before `out[end]`. Returns where
/// they begin. Panics when there is too little room.
#[inline(always)]
pub fn write_digits(mut value: u64, out: &mut [u8], end: usize) -> usize {
    let mut at = end;
    while value >= 100 {
        let pair = 2 * (value % 100) as usize;
        value /= 100;
        at -= 2;
        out[at..at + 2].copy_from_slice(&DIGIT_PAIRS[pair..pair + 2]);
    }
    if value >= 10 {
        let pair = 2 * value as usize;
        at -= 2;
        out[at..at + 2].copy_from_slice(&DIGIT_PAIRS[pair..pair + 2]);
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
        // Every byte in every place of eight digits at once.
        for at in 0..8 {
            for byte in 0..=255u8 {
                let mut text = *b"12345678";
                text[at] = byte;
                let expected =
                    byte.is_ascii_digit() && (at > 0 || byte != b'0') || (at == 0 && byte == b'-');
                assert_eq!(parse_i64(&text).is_some(), expected, "{}", text.escape_ascii());
            }
        }
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
        let tens = POWERS_OF_TEN.iter().flat_map(|&p| [p as i64, (p - 1) as i64]);
        for value in edges.chain(random).chain(tens).chain(-1200..1200) {
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
