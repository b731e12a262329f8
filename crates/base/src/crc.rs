//! Checksums fixed by external formats: CRC-16/XMODEM (cluster slots) and the CRC-64 of Jones (RDB
//! files and DUMP payloads). Tables are made at compile time.
//!
//! 1. `crc64` can be fed in pieces: `crc64(crc64(0, a), b)` is the checksum of `a` then `b`.
//! 2. `crc64_of_two` combines the checksums of `a` and `b`, which different threads may have made.
//!
//! Tests: foot of the file, with the published check values and a bit-at-a-time twin.

use crate::simd::folding::{self, FoldKeys};

/// Slots of a cluster.
pub const SLOT_COUNT: u16 = 16_384;

const CRC16_POLYNOMIAL: u16 = 0x1021;
/// 0xad93d23594c935a9 with its bits in reverse: this CRC works from the low bit.
const CRC64_POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

static CRC16_TABLES: [[u16; 256]; 8] = crc16_tables();
static CRC64_TABLES: [[u64; 256]; 8] = crc64_tables();

/// Table `i` holds the effect of a byte that `i` more bytes follow ("slicing by eight").
const fn crc16_tables() -> [[u16; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ CRC16_POLYNOMIAL } else { crc << 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut behind = 1;
    while behind < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[behind - 1][byte];
            tables[behind][byte] = tables[0][(before >> 8) as usize] ^ (before << 8);
            byte += 1;
        }
        behind += 1;
    }
    tables
}

/// Table `i` holds the effect of a byte that `i` more bytes follow ("slicing by eight").
const fn crc64_tables() -> [[u64; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 != 0 { (crc >> 1) ^ CRC64_POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut behind = 1;
    while behind < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[behind - 1][byte];
            tables[behind][byte] = tables[0][(before & 0xff) as usize] ^ (before >> 8);
            byte += 1;
        }
        behind += 1;
    }
    tables
}

/// CRC-16/XMODEM of `bytes`.
#[inline]
pub fn crc16(bytes: &[u8]) -> u16 {
    let (words, tail) = bytes.as_chunks::<8>();
    let mut crc = 0u16;
    for &[b0, b1, b2, b3, b4, b5, b6, b7] in words {
        let [high, low] = crc.to_be_bytes();
        crc = CRC16_TABLES[7][usize::from(b0 ^ high)]
            ^ CRC16_TABLES[6][usize::from(b1 ^ low)]
            ^ CRC16_TABLES[5][usize::from(b2)]
            ^ CRC16_TABLES[4][usize::from(b3)]
            ^ CRC16_TABLES[3][usize::from(b4)]
            ^ CRC16_TABLES[2][usize::from(b5)]
            ^ CRC16_TABLES[1][usize::from(b6)]
            ^ CRC16_TABLES[0][usize::from(b7)];
    }
    let step =
        |crc: u16, &byte: &u8| (crc << 8) ^ CRC16_TABLES[0][usize::from((crc >> 8) as u8 ^ byte)];
    tail.iter().fold(crc, step)
}

/// The cluster slot of a key: of the part between its first `{` and the next `}`, if that is not
/// empty.
#[inline]
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) & (SLOT_COUNT - 1)
}

/// The part of a key that determines its slot.
#[inline]
pub fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = crate::simd::find_byte(key, b'{') else { return key };
    let rest = &key[open + 1..];
    match crate::simd::find_byte(rest, b'}') {
        Some(len) if len > 0 => &rest[..len],
        _ => key,
    }
}

/// Continues the CRC-64 `crc` (0 at the start) over `bytes`.
pub fn crc64(crc: u64, bytes: &[u8]) -> u64 {
    match folding::fold(&FOLDING_KEYS, crc, bytes) {
        Some((folded, rest)) => crc64_by_tables(crc64_by_tables(0, &folded), rest),
        None => crc64_by_tables(crc, bytes),
    }
}

fn crc64_by_tables(mut crc: u64, bytes: &[u8]) -> u64 {
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        let [b0, b1, b2, b3, b4, b5, b6, b7] = (crc ^ u64::from_le_bytes(*word)).to_le_bytes();
        crc = CRC64_TABLES[7][usize::from(b0)]
            ^ CRC64_TABLES[6][usize::from(b1)]
            ^ CRC64_TABLES[5][usize::from(b2)]
            ^ CRC64_TABLES[4][usize::from(b3)]
            ^ CRC64_TABLES[3][usize::from(b4)]
            ^ CRC64_TABLES[2][usize::from(b5)]
            ^ CRC64_TABLES[1][usize::from(b6)]
            ^ CRC64_TABLES[0][usize::from(b7)];
    }
    tail.iter().fold(crc, |crc, &byte| CRC64_TABLES[0][usize::from(crc as u8 ^ byte)] ^ (crc >> 8))
}

const FOLDING_KEYS: FoldKeys =
    FoldKeys { step: [power(512 + 63), power(512 - 1)], next: [power(128 + 63), power(128 - 1)] };

/// x to the power of `exponent`, modulo the polynomial.
const fn power(exponent: u64) -> u64 {
    let (mut power, mut i) = (1 << 63, 0);
    while i < 64 {
        if exponent >> i & 1 == 1 {
            power = product(power, POWERS[i]);
        }
        i += 1;
    }
    power
}

/// x to the power of 2 to the power of `i`, modulo the polynomial; its highest bit is x to the
/// power of 0.
const POWERS: [u64; 64] = powers();

const fn powers() -> [u64; 64] {
    let mut powers = [1 << 62; 64];
    let mut i = 1;
    while i < 64 {
        powers[i] = product(powers[i - 1], powers[i - 1]);
        i += 1;
    }
    powers
}

/// The product of two polynomials, modulo that of the CRC.
const fn product(one: u64, other: u64) -> u64 {
    let (mut sum, mut shifted, mut bit) = (0, other, 1 << 63);
    while bit != 0 {
        if one & bit != 0 {
            sum ^= shifted;
        }
        shifted = if shifted & 1 != 0 { (shifted >> 1) ^ CRC64_POLYNOMIAL } else { shifted >> 1 };
        bit >>= 1;
    }
    sum
}

/// The checksum of two pieces, the second of `len` bytes, from the checksums of both.
pub fn crc64_of_two(first: u64, second: u64, len: u64) -> u64 {
    // Each bit after the first piece multiplies its remainder by x. Nothing has 2^61 bytes.
    let bits = len << 3;
    let powers = POWERS.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1);
    powers.fold(first, |crc, (_, &power)| product(crc, power)) ^ second
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_values() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        let bit_by_bit = |bytes: &[u8]| {
            bytes.iter().fold(0u16, |crc, &byte| {
                (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
                    if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ CRC16_POLYNOMIAL }
                })
            })
        };
        let bytes: Vec<u8> = (0..99u8).map(|byte| byte.wrapping_mul(151)).collect();
        for length in 0..bytes.len() {
            assert_eq!(crc16(&bytes[..length]), bit_by_bit(&bytes[..length]), "{length}");
        }
        assert_eq!(crc64(0, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        assert_eq!(crc64(0, b""), 0);
    }

    #[test]
    fn many_at_a_time_is_one_at_a_time() {
        let bytes: Vec<u8> = (0..500u32).map(|i| (i * i % 251) as u8).collect();
        for end in 0..bytes.len() {
            let slow = bytes[..end].iter().fold(0, |crc, &byte| crc64(crc, &[byte]));
            assert_eq!(crc64(0, &bytes[..end]), slow);
            assert_eq!(crc64_by_tables(0, &bytes[..end]), slow);
            assert_eq!(crc64(crc64(0, &bytes[..end / 3]), &bytes[end / 3..end]), slow);
        }
    }

    #[test]
    fn two_checksums_are_one() {
        let bytes: Vec<u8> = (0..5000u32).map(|i| (i * i % 251) as u8).collect();
        for cut in [0, 1, 7, 8, 100, 4095, 4999, 5000] {
            let (first, second) = bytes.split_at(cut);
            let of_two = crc64_of_two(crc64(0, first), crc64(0, second), second.len() as u64);
            assert_eq!(of_two, crc64(0, &bytes), "{cut}");
        }
    }

    #[test]
    fn slots_read_off_a_server() {
        // CLUSTER KEYSLOT of valkey-server 9.1.2.
        for (key, slot) in [
            ("", 0),
            ("foo", 12182),
            ("somekey", 11058),
            ("foo{hash_tag}", 2515),
            ("{foo}bar", 12182),
            ("foo{}{bar}", 8363),
            ("foo{{bar}}zap", 4015),
            ("foo{bar}{zap}", 5061),
            ("foo{bar", 15278),
            ("}{a}", 15495),
        ] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
    }
}
