//! SHA-1: the names of scripts, `redis.sha1hex`, DEBUG DIGEST.
//!
//! Used only for names; no secret depends on it. Tests: foot of the file.

use std::convert::Infallible;

use sha1::{Digest as _, Sha1};

/// The length of a digest.
pub const DIGEST_BYTES: usize = 20;
/// The length of a digest as text.
pub const HEX_BYTES: usize = 2 * DIGEST_BYTES;

/// Bytes between two calls of `goes_on`, about a tenth of a millisecond.
const PIECE_BYTES: usize = 64 << 10;

/// The digest of `bytes`.
pub fn digest(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    match digest_in_pieces(bytes, |_| Ok::<(), Infallible>(())) {
        Ok(digest) => digest,
    }
}

/// The digest of `bytes`; `goes_on` is called after each piece of `PIECE_BYTES` bytes.
///
/// # Errors
/// The first error of `goes_on`, which stops the computation.
pub fn digest_in_pieces<E>(
    bytes: &[u8],
    mut goes_on: impl FnMut(usize) -> Result<(), E>,
) -> Result<[u8; DIGEST_BYTES], E> {
    let mut hasher = Sha1::new();
    for piece in bytes.chunks(PIECE_BYTES) {
        hasher.update(piece);
        goes_on(piece.len())?;
    }
    Ok(hasher.finalize().into())
}

/// A digest as lower-case hexadecimal text.
pub fn text(digest: &[u8; DIGEST_BYTES]) -> [u8; HEX_BYTES] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; HEX_BYTES];
    for (pair, byte) in text.chunks_exact_mut(2).zip(digest) {
        pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    text
}

/// The digest of `bytes`, as text.
pub fn hex(bytes: &[u8]) -> [u8; HEX_BYTES] {
    text(&digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::hex;

    fn check(input: &[u8], expected: &str) {
        assert_eq!(std::str::from_utf8(&hex(input)), Ok(expected));
    }

    #[test]
    fn digests_of_the_standard() {
        check(b"", "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        check(b"abc", "a9993e364706816aba3e25717850c26c9cd0d89d");
        let two = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        check(two, "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
        check(&vec![b'a'; 1_000_000], "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    }
}
