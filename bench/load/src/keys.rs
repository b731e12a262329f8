//! The bytes of keys and values.
//!
//! 1. Key `i` is `key:` and the decimal number padded with zeros: at 16 bytes the form that
//!    redis-benchmark makes of `key:__rand_int__`.
//! 2. The value of key `i` is a stream of SplitMix64 from (seed, i): incompressible, any byte, the
//!    same in every run.

use crate::Fault;
use crate::chance::{Chance, mix};

/// The bytes before a key's number.
pub const PREFIX: &[u8] = b"key:";

/// The longest key that memcached takes, in bytes.
pub const KEY_BYTES_MAX: usize = 250;

/// Keys and values of one shape.
#[derive(Clone, Debug)]
pub struct Keys {
    /// How many keys there are, numbered from 0.
    pub count: u64,
    /// Length of a key in bytes.
    pub key_bytes: usize,
    /// Length of a value in bytes.
    pub value_bytes: usize,
    /// Two seeds give two unrelated sets of values.
    pub seed: u64,
}

impl Keys {
    /// A checked shape: the largest number must fit the key's digits.
    pub fn new(count: u64, key_bytes: usize, value_bytes: usize, seed: u64) -> Result<Keys, Fault> {
        let digits = key_bytes.saturating_sub(PREFIX.len());
        if count == 0 {
            return Err(Fault::Usage("--keys must be at least 1".into()));
        }
        if digits == 0 || key_bytes > KEY_BYTES_MAX {
            return Err(Fault::Usage(format!("--key-bytes must be 5 to {KEY_BYTES_MAX}")));
        }
        if (count - 1).to_string().len() > digits {
            return Err(Fault::Usage(format!("{count} keys do not fit {digits} digits")));
        }
        Ok(Keys { count, key_bytes, value_bytes, seed })
    }

    /// Appends the bytes of key `index`.
    pub fn write_key(&self, index: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(PREFIX);
        let digits_start = out.len();
        out.resize(digits_start + self.key_bytes - PREFIX.len(), b'0');
        let mut rest = index;
        for digit in out[digits_start..].iter_mut().rev() {
            if rest == 0 {
                break;
            }
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    }

    /// Appends the bytes of the value of key `index`.
    pub fn write_value(&self, index: u64, out: &mut Vec<u8>) {
        let mut chance = Chance::new(mix(self.seed ^ mix(index.wrapping_add(1))));
        let mut left = self.value_bytes;
        while left > 0 {
            let eight = chance.bits().to_le_bytes();
            let taken = left.min(eight.len());
            out.extend_from_slice(&eight[..taken]);
            left -= taken;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(index: u64, key_bytes: usize) -> String {
        let keys = Keys::new(1_000_000, key_bytes, 8, 0).expect("a valid shape");
        let mut out = Vec::new();
        keys.write_key(index, &mut out);
        String::from_utf8(out).expect("keys are ASCII")
    }

    #[test]
    fn a_key_has_the_form_of_redis_benchmark() {
        assert_eq!(key(42, 16), "key:000000000042");
        assert_eq!(key(0, 16), "key:000000000000");
        assert_eq!(key(999_999, 10), "key:999999");
    }

    #[test]
    fn a_value_has_its_length_and_is_its_keys_own() {
        for value_bytes in [0usize, 1, 7, 8, 100, 1_024] {
            let keys = Keys::new(10, 16, value_bytes, 5).expect("a valid shape");
            let value = |index| {
                let mut out = Vec::new();
                keys.write_value(index, &mut out);
                out
            };
            assert_eq!(value(3).len(), value_bytes);
            assert_eq!(value(3), value(3));
            assert!(value_bytes < 7 || value(3) != value(4));
        }
    }

    #[test]
    fn values_are_incompressible_bytes_not_ascii() {
        let keys = Keys::new(10, 16, 4_096, 5).expect("a valid shape");
        let mut out = Vec::new();
        keys.write_value(0, &mut out);
        let high = out.iter().filter(|&&byte| byte >= 128).count();
        assert!((1_800..2_300).contains(&high), "{high} of 4096 bytes are above 127");
    }

    #[test]
    fn a_shape_that_cannot_be_is_refused() {
        assert!(Keys::new(0, 16, 8, 0).is_err());
        assert!(Keys::new(1, 4, 8, 0).is_err());
        assert!(Keys::new(11, 5, 8, 0).is_err());
        assert!(Keys::new(10, 5, 8, 0).is_ok());
        assert!(Keys::new(1, 251, 8, 0).is_err());
    }
}
