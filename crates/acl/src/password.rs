//! Passwords: only SHA-256 digests are kept, and they are compared in constant time.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

const DIGEST_BYTES: usize = 32;
/// The length of a digest as text.
const HEX_BYTES: usize = 2 * DIGEST_BYTES;

/// The digest of a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Password([u8; DIGEST_BYTES]);

impl Password {
    /// The digest of this password.
    pub fn of(password: &[u8]) -> Password {
        #[cfg(test)]
        DIGESTS_MADE.with(|made| made.set(made.get() + 1));
        Password(Sha256::digest(password).into())
    }

    /// Parses 64 hexadecimal digits in lower case.
    pub fn from_hex(text: &[u8]) -> Option<Password> {
        if text.len() != HEX_BYTES {
            return None;
        }
        let mut digest = [0; DIGEST_BYTES];
        for (byte, pair) in digest.iter_mut().zip(text.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Password(digest))
    }

    /// As 64 hexadecimal digits.
    pub fn hex(&self) -> [u8; HEX_BYTES] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; HEX_BYTES];
        for (pair, byte) in text.chunks_exact_mut(2).zip(&self.0) {
            pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        text
    }

    /// Whether both are equal, in constant time.
    pub fn is(&self, other: &Password) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
thread_local! {
    static DIGESTS_MADE: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How many digests this thread has computed: that is the cost of a login.
#[cfg(test)]
pub(crate) fn digests_made() -> u64 {
    DIGESTS_MADE.with(std::cell::Cell::get)
}
