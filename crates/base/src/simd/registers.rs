//! Rows of six-bit numbers, four in three bytes, low bits first: the dense form of a HyperLogLog.
//! They are spread to one a byte, merged, and packed again: with AVX2 if the processor has it, with
//! NEON on aarch64.
//!
//! 1. The variant of AVX2 is called only at a level that has it.
//! 2. Loads and stores touch exactly the arrays they are given. AVX2 reads 24 packed bytes as two
//!    overlapping halves of sixteen, 32 spread bytes as one.
//!
//! Tests: foot of the file, each function against its twin in `plain`.

#[cfg(target_arch = "x86_64")]
use super::level::{SimdLevel, level};

/// Packed bytes of one block.
const PACKED: usize = 24;
/// Numbers of one block.
const SPREAD: usize = 32;

/// The twins, eight numbers at a time in one word.
pub mod plain {
    use super::{PACKED, SPREAD};

    /// Eight numbers, one a byte.
    #[inline(always)]
    fn spread(six: [u8; 6]) -> u64 {
        let mut bytes = [0; 8];
        bytes[..6].copy_from_slice(&six);
        let x = u64::from_le_bytes(bytes);
        let x = x & 0xff_ffff | (x & 0xffff_ff00_0000) << 8;
        let x = x & 0x0000_0fff_0000_0fff | (x & 0x00ff_f000_00ff_f000) << 4;
        x & 0x003f_003f_003f_003f | (x & 0x0fc0_0fc0_0fc0_0fc0) << 2
    }

    #[inline(always)]
    fn squeeze(eight: [u8; 8]) -> [u8; 6] {
        let x = u64::from_le_bytes(eight);
        let x = x & 0x003f_003f_003f_003f | (x & 0x3f00_3f00_3f00_3f00) >> 2;
        let x = x & 0x0000_0fff_0000_0fff | (x & 0x0fff_0000_0fff_0000) >> 4;
        let x = x & 0xff_ffff | (x & 0xff_ffff_0000_0000) >> 8;
        let [a, b, c, d, e, f, _, _] = x.to_le_bytes();
        [a, b, c, d, e, f]
    }

    /// `max[i]` becomes the larger of itself and the packed number `i`.
    pub fn merge_max(max: &mut [[u8; SPREAD]], packed: &[[u8; PACKED]]) {
        for (max, packed) in max.iter_mut().zip(packed) {
            let (eights, _) = max.as_chunks_mut::<8>();
            let (sixes, _) = packed.as_chunks::<6>();
            for (eight, six) in eights.iter_mut().zip(sixes) {
                for (old, new) in eight.iter_mut().zip(spread(*six).to_le_bytes()) {
                    *old = new.max(*old);
                }
            }
        }
    }

    /// Packs numbers, of which only six bits count.
    pub fn pack(packed: &mut [[u8; PACKED]], spread: &[[u8; SPREAD]]) {
        for (packed, spread) in packed.iter_mut().zip(spread) {
            let (sixes, _) = packed.as_chunks_mut::<6>();
            let (eights, _) = spread.as_chunks::<8>();
            for (six, eight) in sixes.iter_mut().zip(eights) {
                *six = squeeze(*eight);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_loadu_si256, _mm256_madd_epi16,
        _mm256_maddubs_epi16, _mm256_max_epu8, _mm256_or_si256, _mm256_set_m128i,
        _mm256_set1_epi16, _mm256_set1_epi32, _mm256_setr_epi8, _mm256_shuffle_epi8,
        _mm256_slli_epi32, _mm256_storeu_si256,
    };

    use super::{PACKED, SPREAD};

    #[target_feature(enable = "avx2")]
    fn load(spread: &[u8; SPREAD]) -> __m256i {
        // SAFETY: 32 readable bytes (invariant 2); `loadu` needs no alignment.
        unsafe { _mm256_loadu_si256(spread.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx2")]
    fn store(into: &mut [u8; SPREAD], bytes: __m256i) {
        // SAFETY: 32 writable bytes (invariant 2); `storeu` needs no alignment.
        unsafe { _mm256_storeu_si256(into.as_mut_ptr().cast(), bytes) }
    }

    /// The first sixteen bytes, and the last sixteen.
    #[target_feature(enable = "avx2")]
    fn load_halves(packed: &[u8; PACKED]) -> __m256i {
        let at = packed.as_ptr();
        // SAFETY: bytes 0 to 15 and 8 to 23 of 24 (invariant 2); `loadu` needs no alignment.
        let (low, high): (__m128i, __m128i) =
            unsafe { (_mm_loadu_si128(at.cast()), _mm_loadu_si128(at.add(8).cast())) };
        _mm256_set_m128i(high, low)
    }

    /// One number a byte.
    #[target_feature(enable = "avx2")]
    #[rustfmt::skip]
    fn spread(packed: &[u8; PACKED]) -> __m256i {
        // Three bytes to each word of four; the high half begins at byte 8 of the block, its
        // numbers at byte 12.
        let words = _mm256_setr_epi8(
            0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1,
            4, 5, 6, -1, 7, 8, 9, -1, 10, 11, 12, -1, 13, 14, 15, -1,
        );
        let x = _mm256_shuffle_epi8(load_halves(packed), words);
        let first = _mm256_and_si256(x, _mm256_set1_epi32(0x3f));
        let second = _mm256_and_si256(_mm256_slli_epi32::<2>(x), _mm256_set1_epi32(0x3f00));
        let third = _mm256_and_si256(_mm256_slli_epi32::<4>(x), _mm256_set1_epi32(0x3f_0000));
        let fourth = _mm256_and_si256(_mm256_slli_epi32::<6>(x), _mm256_set1_epi32(0x3f00_0000));
        _mm256_or_si256(_mm256_or_si256(first, second), _mm256_or_si256(third, fourth))
    }

    #[target_feature(enable = "avx2")]
    pub fn merge_max(max: &mut [[u8; SPREAD]], packed: &[[u8; PACKED]]) {
        for (max, packed) in max.iter_mut().zip(packed) {
            let larger = _mm256_max_epu8(load(max), spread(packed));
            store(max, larger);
        }
    }

    #[target_feature(enable = "avx2")]
    #[rustfmt::skip]
    pub fn pack(packed: &mut [[u8; PACKED]], spread: &[[u8; SPREAD]]) {
        let threes = _mm256_setr_epi8(
            0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1,
            0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1,
        );
        let six_bits = _mm256_set1_epi32(0x3f3f_3f3f);
        // Neighbours joined: 1 and 64 in each pair of bytes, then 1 and 4096 in each pair of words.
        let (by_64, by_4096) = (_mm256_set1_epi16(0x4001), _mm256_set1_epi32(0x1000_0001));
        for (packed, spread) in packed.iter_mut().zip(spread) {
            let numbers = _mm256_and_si256(load(spread), six_bits);
            let twelve = _mm256_maddubs_epi16(numbers, by_64);
            let x = _mm256_shuffle_epi8(_mm256_madd_epi16(twelve, by_4096), threes);
            let mut bytes = [0; SPREAD];
            store(&mut bytes, x);
            packed[..12].copy_from_slice(&bytes[..12]);
            packed[12..].copy_from_slice(&bytes[16..28]);
        }
    }
}

/// Three packed bytes are four numbers, so each block is loaded and stored in threes and in fours.
#[cfg(target_arch = "aarch64")]
mod neon {
    use std::arch::aarch64::{
        uint8x8x3_t, uint8x8x4_t, vand_u8, vdup_n_u8, vld3_u8, vld4_u8, vmax_u8, vshr_n_u8,
        vsli_n_u8, vst3_u8, vst4_u8,
    };

    use super::{PACKED, SPREAD};

    pub fn merge_max(max: &mut [[u8; SPREAD]], packed: &[[u8; PACKED]]) {
        for (max, packed) in max.iter_mut().zip(packed) {
            // SAFETY: 24 and 32 readable bytes (invariant 2); NEON is aarch64's baseline.
            let (uint8x8x3_t(a, b, c), old) =
                unsafe { (vld3_u8(packed.as_ptr()), vld4_u8(max.as_ptr())) };
            // SAFETY: register-only operations of the baseline, but for the store, which has 32
            // writable bytes (invariant 2).
            unsafe {
                let six_bits = vdup_n_u8(0x3f);
                let first = vand_u8(a, six_bits);
                let second = vand_u8(vsli_n_u8::<2>(vshr_n_u8::<6>(a), b), six_bits);
                let third = vand_u8(vsli_n_u8::<4>(vshr_n_u8::<4>(b), c), six_bits);
                let fourth = vshr_n_u8::<2>(c);
                let larger = uint8x8x4_t(
                    vmax_u8(old.0, first),
                    vmax_u8(old.1, second),
                    vmax_u8(old.2, third),
                    vmax_u8(old.3, fourth),
                );
                vst4_u8(max.as_mut_ptr(), larger);
            }
        }
    }

    /// The inserting shift keeps only those low bits of a number that have room.
    pub fn pack(packed: &mut [[u8; PACKED]], spread: &[[u8; SPREAD]]) {
        for (packed, spread) in packed.iter_mut().zip(spread) {
            // SAFETY: 32 readable bytes (invariant 2); NEON is aarch64's baseline.
            let uint8x8x4_t(a, b, c, d) = unsafe { vld4_u8(spread.as_ptr()) };
            // SAFETY: register-only operations of the baseline, but for the store, which has 24
            // writable bytes (invariant 2).
            unsafe {
                let three = uint8x8x3_t(
                    vsli_n_u8::<6>(a, b),
                    vsli_n_u8::<4>(vshr_n_u8::<2>(b), c),
                    vsli_n_u8::<2>(vshr_n_u8::<4>(c), d),
                );
                vst3_u8(packed.as_mut_ptr(), three);
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
use neon as baseline;
#[cfg(not(target_arch = "aarch64"))]
use plain as baseline;

/// `max[i]` becomes the larger of itself and the packed number `i`. Works on whole blocks of 32
/// numbers, as many as both have.
pub fn merge_max(max: &mut [u8], packed: &[u8]) {
    let (max, packed) = (max.as_chunks_mut().0, packed.as_chunks().0);
    #[cfg(target_arch = "x86_64")]
    if level() >= SimdLevel::Avx2 {
        // SAFETY: invariant 1.
        return unsafe { avx2::merge_max(max, packed) };
    }
    baseline::merge_max(max, packed);
}

/// Packs numbers, of which only six bits count. Works on whole blocks of 32 numbers, as many as
/// both have.
pub fn pack(packed: &mut [u8], spread: &[u8]) {
    let (packed, spread) = (packed.as_chunks_mut().0, spread.as_chunks().0);
    #[cfg(target_arch = "x86_64")]
    if level() >= SimdLevel::Avx2 {
        // SAFETY: invariant 1.
        return unsafe { avx2::pack(packed, spread) };
    }
    baseline::pack(packed, spread);
}

#[cfg(test)]
mod tests {
    use super::super::level::at_each;
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn packs_and_merges_like_the_twins() {
        let mut rng = Rng::from_seed(6);
        for _ in 0..200 {
            let blocks = rng.below(9) as usize;
            let mut numbers = vec![0; blocks * SPREAD];
            rng.bytes(&mut numbers);
            let mut packed = vec![1; blocks * PACKED];
            plain::pack(packed.as_chunks_mut().0, numbers.as_chunks().0);
            for (i, number) in numbers.iter().enumerate() {
                let (byte, shift) = (i * 6 / 8, i * 6 % 8);
                let next = u16::from(*packed.get(byte + 1).unwrap_or(&0));
                let two = u16::from(packed[byte]) | next << 8;
                assert_eq!(two >> shift & 63, u16::from(number & 63));
            }
            let mut max = vec![0; blocks * SPREAD];
            rng.bytes(&mut max);
            let expected: Vec<u8> =
                max.iter().zip(&numbers).map(|(a, b)| *a.max(&(b & 63))).collect();
            let mut merged = max.clone();
            plain::merge_max(merged.as_chunks_mut().0, packed.as_chunks().0);
            assert_eq!(merged, expected);
            at_each(|| {
                let mut wide = vec![0; blocks * PACKED];
                pack(&mut wide, &numbers);
                assert_eq!(wide, packed);
                let mut merged = max.clone();
                merge_max(&mut merged, &packed);
                assert_eq!(merged, expected);
            });
        }
    }
}
