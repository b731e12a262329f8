//! MurmurHash2, 64-bit variant A, by Austin Appleby (public domain), with Redis's seed. Sketches
//! outlive programs: this hash can never change.

const SEED: u64 = 0xadc8_3b19;
const M: u64 = 0xc6a4_a793_5bd1_e995;
const R: u32 = 47;

/// The hash of an element.
pub fn hash(bytes: &[u8]) -> u64 {
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(M);
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        let mut k = u64::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> R;
        hash = (hash ^ k.wrapping_mul(M)).wrapping_mul(M);
    }
    if !tail.is_empty() {
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(M);
    }
    hash = (hash ^ hash >> R).wrapping_mul(M);
    hash ^ hash >> R
}
