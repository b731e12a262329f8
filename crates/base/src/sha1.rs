//! SHA-1: the names of scripts, `redis.sha1hex`, DEBUG DIGEST.
//!
//! FIPS 180-4. Used only for names; no secret depends on it. Tests: foot of the file.

use std::convert::Infallible;

/// The length of a digest.
pub const DIGEST_BYTES: usize = 20;
/// The length of a digest as text.
pub const HEX_BYTES: usize = 2 * DIGEST_BYTES;

/// Bytes that are processed at a time.
const BLOCK_BYTES: usize = 64;
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
    let mut state: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    let whole = bytes.len() / BLOCK_BYTES * BLOCK_BYTES;
    for piece in bytes[..whole].chunks(PIECE_BYTES) {
        for block in piece.chunks_exact(BLOCK_BYTES) {
            compress(&mut state, block);
        }
        goes_on(piece.len())?;
    }
    let rest = &bytes[whole..];
    let mut last = [0; 128];
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()] = 0x80;
    let end = if rest.len() < 56 { 64 } else { 128 };
    last[end - 8..end].copy_from_slice(&(bytes.len() as u64 * 8).to_be_bytes());
    for block in last[..end].chunks_exact(64) {
        compress(&mut state, block);
    }
    let mut digest = [0; DIGEST_BYTES];
    for (four, word) in digest.chunks_exact_mut(4).zip(state) {
        four.copy_from_slice(&word.to_be_bytes());
    }
    Ok(digest)
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

/// Processes one block of 64 bytes.
fn compress(state: &mut [u32; 5], block: &[u8]) {
    let mut words = [0_u32; 80];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    for at in 16..80 {
        words[at] =
            (words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16]).rotate_left(1);
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for (at, word) in words.iter().enumerate() {
        let (mixed, constant) = match at {
            0..20 => ((b & c) | (!b & d), 0x5a82_7999),
            20..40 => (b ^ c ^ d, 0x6ed9_eba1),
            40..60 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6),
        };
        let next = a.rotate_left(5).wrapping_add(mixed).wrapping_add(e).wrapping_add(constant);
        (a, b, c, d, e) = (next.wrapping_add(*word), a, b.rotate_left(30), c, d);
    }
    for (sum, value) in state.iter_mut().zip([a, b, c, d, e]) {
        *sum = sum.wrapping_add(value);
    }
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
