//! Keyed hashing of byte strings: SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input
//! PRF", 2012, with the 1-3 rounds that Rust's standard maps use).
//!
//! 1. Without the 128-bit seed nobody can construct colliding keys, so a client cannot slow a
//!    table.
//! 2. The hash of a key depends only on its bytes and the seed, never on how they were split.
//!
//! Not here: checksums (`crc`) and the choice of a partition. Tests: foot of the file, against the
//! standard library's SipHash-1-3 and SipHash-2-4.

/// A 128-bit secret that keys every hash of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashSeed {
    k0: u64,
    k1: u64,
}

impl HashSeed {
    /// A seed from the operating system's randomness; from the clock if there is none.
    pub fn random() -> HashSeed {
        let mut rng = crate::rng::Rng::random();
        let mut bytes = [0u8; 16];
        if getrandom::fill(&mut bytes).is_err() {
            rng.bytes(&mut bytes);
        }
        let word = u128::from_le_bytes(bytes);
        HashSeed::from_words(word as u64, (word >> 64) as u64)
    }

    /// A seed from an operator's text: the same text gives the same seed.
    pub fn from_text(text: &str) -> HashSeed {
        let word = |key| HashSeed::from_words(key, key).hash(text.as_bytes());
        HashSeed::from_words(word(1), word(2))
    }

    /// A fixed seed, for tests and the simulator.
    pub const fn from_words(k0: u64, k1: u64) -> HashSeed {
        HashSeed { k0, k1 }
    }

    /// SipHash-1-3 of `bytes`.
    #[inline]
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        siphash::<1, 3>(self.k0, self.k1, bytes)
    }
}

#[inline(always)]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[1]);
    v[0] = v[0].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].rotate_left(32);
}

#[inline(always)]
fn absorb<const C: usize>(v: &mut [u64; 4], word: u64) {
    v[3] ^= word;
    for _ in 0..C {
        round(v);
    }
    v[0] ^= word;
}

#[inline(always)]
fn siphash<const C: usize, const D: usize>(k0: u64, k1: u64, bytes: &[u8]) -> u64 {
    let mut v = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        absorb::<C>(&mut v, u64::from_le_bytes(*word));
    }
    absorb::<C>(&mut v, tail_word(bytes, tail) | (bytes.len() as u64) << 56);
    v[2] ^= 0xff;
    for _ in 0..D {
        round(&mut v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

/// The last `bytes.len() % 8` bytes as a little-endian word, without a loop over them.
#[inline(always)]
fn tail_word(bytes: &[u8], tail: &[u8]) -> u64 {
    if tail.is_empty() {
        return 0;
    }
    // One load that ends at the end, shifted down past the bytes of the previous word.
    if let Some(last) = bytes.last_chunk::<8>() {
        return u64::from_le_bytes(*last) >> (8 * (8 - tail.len()));
    }
    if let (Some(low), Some(high)) = (tail.first_chunk::<4>(), tail.last_chunk::<4>()) {
        let high = u64::from(u32::from_le_bytes(*high)) << (8 * (tail.len() - 4));
        return u64::from(u32::from_le_bytes(*low)) | high;
    }
    let middle = tail.len() / 2;
    u64::from(tail[0])
        | u64::from(tail[middle]) << (8 * middle)
        | u64::from(tail[tail.len() - 1]) << (8 * (tail.len() - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::Hasher;

    fn sample(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 7 + 3) as u8).collect()
    }

    #[test]
    fn one_three_is_the_standard_librarys() {
        for len in 0..200 {
            let bytes = sample(len);
            let mut std_hasher = std::hash::DefaultHasher::new();
            std_hasher.write(&bytes);
            assert_eq!(HashSeed::from_words(0, 0).hash(&bytes), std_hasher.finish(), "{len}");
        }
    }

    #[test]
    #[allow(deprecated)]
    fn two_four_with_a_key_is_the_standard_librarys() {
        for len in 0..200 {
            let bytes = sample(len);
            let (k0, k1) = (0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
            let mut std_hasher = std::hash::SipHasher::new_with_keys(k0, k1);
            std_hasher.write(&bytes);
            assert_eq!(siphash::<2, 4>(k0, k1, &bytes), std_hasher.finish(), "{len}");
        }
    }

    #[test]
    fn a_text_gives_one_seed() {
        let seed = HashSeed::from_text("a");
        assert_eq!(seed, HashSeed::from_text("a"));
        assert_ne!(seed, HashSeed::from_text("b"));
        assert_ne!(seed.k0, seed.k1);
    }

    #[test]
    fn the_papers_vector() {
        let bytes: Vec<u8> = (0..15).collect();
        let hash = siphash::<2, 4>(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908, &bytes);
        assert_eq!(hash, 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn seeds_differ() {
        let seed = HashSeed::random();
        assert_ne!(seed, HashSeed::random());
        assert_ne!(seed.hash(b"key"), HashSeed::from_words(1, 2).hash(b"key"));
    }
}
