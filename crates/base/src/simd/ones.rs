//! Counts the set bits of a byte string. At run time the best variant for the processor is picked:
//!
//! | level | how |
//! |---|---|
//! | AVX-512 with VPOPCNTDQ | a counting instruction, 512 bits at a time |
//! | AVX-512 VL | as AVX2; the adder has two instructions instead of five |
//! | AVX2 | the carry-save adder below, 256 bits at a time |
//! | baseline | word by word (SSE2, NEON) |
//!
//! Without a counting instruction, looking up each half byte takes most of the time. So eight
//! vectors at a time go through an adder of bits (Harley and Seal; Muła, Kurz and Lemire, "Faster
//! population counts using AVX2 instructions", 2018), and only what it carries out is looked up:
//!
//! ```text
//! vectors 0 1   2 3   4 5   6 7
//!           │     │     │     │
//!  ones ──> + ──> + ──> + ──> + ──> ones of the next eight
//!            ╲   ╱       ╲   ╱  carried
//!  twos ─────> + ────────> + ─────> twos
//!                ╲       ╱
//!  fours ──────────> + ───────────> fours
//!                      ╲
//!                       eights: counted
//! ```
//!
//! 1. A variant is called only at a level that has every feature it is compiled for.
//! 2. A load reads exactly the 32 bytes of a `&[u8; 32]`.
//!
//! Tests: foot of the file, every variant this machine has against a loop byte by byte.

#[cfg(target_arch = "x86_64")]
use super::level::{SimdLevel, level};

/// The twin of the variants.
pub mod plain {
    /// How many bits are set.
    #[inline(always)]
    pub fn count_ones(bytes: &[u8]) -> u64 {
        let (words, tail) = bytes.as_chunks::<8>();
        let whole: u64 =
            words.iter().map(|word| u64::from(u64::from_ne_bytes(*word).count_ones())).sum();
        whole + tail.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
    }
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::{
        __m256i, _mm256_add_epi8, _mm256_add_epi64, _mm256_and_si256, _mm256_loadu_si256,
        _mm256_or_si256, _mm256_sad_epu8, _mm256_set1_epi8, _mm256_setr_epi8, _mm256_setzero_si256,
        _mm256_shuffle_epi8, _mm256_slli_epi64, _mm256_srli_epi16, _mm256_storeu_si256,
        _mm256_ternarylogic_epi64, _mm256_xor_si256,
    };

    use super::plain;

    /// The loop of [`plain`], which the compiler turns into the counting instruction.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vpopcntdq")]
    pub fn count_words(bytes: &[u8]) -> u64 {
        plain::count_ones(bytes)
    }

    /// Defines the carry-save adder for these features: eight vectors at a time, each three bits
    /// added by `$add`.
    macro_rules! carry_save {
        ($name:ident, $features:literal, $add:ident) => {
            #[target_feature(enable = $features)]
            pub fn $name(bytes: &[u8]) -> u64 {
                let (vectors, tail) = bytes.as_chunks();
                let (eights, rest) = vectors.as_chunks();
                let [mut ones, mut twos, mut fours, mut sum] = [_mm256_setzero_si256(); 4];
                for [a, b, c, d, e, f, g, h] in eights {
                    let (two_a, one) = $add(ones, load(a), load(b));
                    let (two_b, one) = $add(one, load(c), load(d));
                    let (two_c, one) = $add(one, load(e), load(f));
                    let (two_d, one) = $add(one, load(g), load(h));
                    let (four_a, two) = $add(twos, two_a, two_b);
                    let (four_b, two) = $add(two, two_c, two_d);
                    let (eight, four) = $add(fours, four_a, four_b);
                    (ones, twos, fours) = (one, two, four);
                    sum = _mm256_add_epi64(sum, count(eight));
                }
                for vector in [fours, twos, ones] {
                    sum = _mm256_add_epi64(_mm256_slli_epi64::<1>(sum), count(vector));
                }
                for vector in rest {
                    sum = _mm256_add_epi64(sum, count(load(vector)));
                }
                total(sum) + plain::count_ones(tail)
            }
        };
    }

    carry_save!(count_avx2, "avx2,popcnt", add);
    carry_save!(count_avx512vl, "avx2,popcnt,avx512f,avx512bw,avx512vl", add_ternary);

    /// Adds three bits: returns the carry and the sum.
    #[target_feature(enable = "avx2")]
    fn add(a: __m256i, b: __m256i, c: __m256i) -> (__m256i, __m256i) {
        let one = _mm256_xor_si256(a, b);
        let carry = _mm256_or_si256(_mm256_and_si256(a, b), _mm256_and_si256(one, c));
        (carry, _mm256_xor_si256(one, c))
    }

    /// Adds three bits by ternary logic; each constant is the truth table over all eight inputs.
    #[target_feature(enable = "avx512f,avx512vl")]
    fn add_ternary(a: __m256i, b: __m256i, c: __m256i) -> (__m256i, __m256i) {
        let carry = _mm256_ternarylogic_epi64::<0b1110_1000>(a, b, c);
        (carry, _mm256_ternarylogic_epi64::<0b1001_0110>(a, b, c))
    }

    /// How many bits are set in each word.
    #[target_feature(enable = "avx2")]
    #[rustfmt::skip]
    fn count(vector: __m256i) -> __m256i {
        let table = _mm256_setr_epi8(
            0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
            0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
        );
        let half = _mm256_set1_epi8(0x0f);
        let low = _mm256_and_si256(vector, half);
        let high = _mm256_and_si256(_mm256_srli_epi16::<4>(vector), half);
        let low = _mm256_shuffle_epi8(table, low);
        let high = _mm256_shuffle_epi8(table, high);
        _mm256_sad_epu8(_mm256_add_epi8(low, high), _mm256_setzero_si256())
    }

    #[target_feature(enable = "avx2")]
    fn load(vector: &[u8; 32]) -> __m256i {
        // SAFETY: 32 readable bytes (invariant 2); `loadu` needs no alignment.
        unsafe { _mm256_loadu_si256(vector.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx2")]
    fn total(words: __m256i) -> u64 {
        let mut stored = [0_u64; 4];
        // SAFETY: 32 writable bytes; `storeu` needs no alignment.
        unsafe { _mm256_storeu_si256(stored.as_mut_ptr().cast(), words) };
        stored.iter().sum()
    }
}

/// How many bits are set.
#[inline]
pub fn count_ones(bytes: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let level = level();
        if level >= SimdLevel::Avx512Count {
            // SAFETY: invariant 1.
            return unsafe { wide::count_words(bytes) };
        }
        if level >= SimdLevel::Avx512Vl {
            // SAFETY: invariant 1.
            return unsafe { wide::count_avx512vl(bytes) };
        }
        if level >= SimdLevel::Avx2 {
            // SAFETY: invariant 1.
            return unsafe { wide::count_avx2(bytes) };
        }
    }
    plain::count_ones(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::level::at_each;
    use super::*;
    use crate::rng::Rng;

    fn check(bytes: &[u8]) {
        let expected: u64 = bytes.iter().map(|byte| u64::from(byte.count_ones())).sum();
        at_each(|| assert_eq!(count_ones(bytes), expected, "{}", bytes.len()));
    }

    #[test]
    fn counts_bits() {
        let mut rng = Rng::from_seed(1);
        for length in (0..1100).chain([4096, 4099, 100_000]) {
            let mut bytes = vec![0; length];
            rng.bytes(&mut bytes);
            check(&bytes);
            bytes.fill(0xff);
            check(&bytes);
        }
    }

    /// Each bit of a block and a rest by itself, and all but it.
    #[test]
    fn counts_each_bit() {
        for bit in 0..300 * 8 {
            let mut bytes = [0; 300];
            bytes[bit / 8] = 1 << (bit % 8);
            at_each(|| assert_eq!(count_ones(&bytes), 1, "{bit}"));
            bytes = bytes.map(|byte| !byte);
            at_each(|| assert_eq!(count_ones(&bytes), 300 * 8 - 1, "{bit}"));
        }
    }
}
