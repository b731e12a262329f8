//! Byte searches that compare sixteen bytes at a time. Baseline: SSE2 on x86-64, NEON on aarch64,
//! both always available, so nothing is probed at run time. Work on long rows of bits, which is
//! worth a probe, has its own files: [`bits`], [`ones`], [`registers`]; so has [`folding`].
//!
//! 1. A load reads exactly the sixteen bytes of a `&[u8; 16]`.
//! 2. Every function has a plain twin in `plain` with the same results; other targets use the twin.
//!
//! Tests: foot of the file, each function against its twin over all lengths and offsets.

pub mod ahead;
pub mod bits;
pub mod folding;
mod level;
pub mod ones;
pub mod registers;

/// The plain twins.
pub mod plain {
    /// Index of the first `needle`.
    #[inline]
    pub fn find_byte(hay: &[u8], needle: u8) -> Option<usize> {
        hay.iter().position(|&byte| byte == needle)
    }

    /// Index of the first of two needles.
    #[inline]
    pub fn find_either(hay: &[u8], first: u8, second: u8) -> Option<usize> {
        hay.iter().position(|&byte| byte == first || byte == second)
    }

    /// Bit `i` is set where byte `i` is one of two needles.
    #[inline]
    pub fn mask_either(hay: &[u8; 16], first: u8, second: u8) -> u16 {
        let is_one = |byte: u8| byte == first || byte == second;
        hay.iter().rev().fold(0, |mask, &byte| mask << 1 | u16::from(is_one(byte)))
    }

    /// The sum of the first `count` bytes, or of all where `count` is larger.
    #[inline]
    pub fn sum_below(bytes: &[u8; 32], count: usize) -> usize {
        bytes.iter().take(count).map(|&byte| usize::from(byte)).sum()
    }
}

/// The number of each of 32 bytes, in two halves.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const COUNTING: [[u8; 16]; 2] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31],
];

#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::{
        __m128i, _mm_add_epi64, _mm_and_si128, _mm_cmpeq_epi8, _mm_cmpgt_epi8, _mm_cvtsi128_si64,
        _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128, _mm_sad_epu8, _mm_set1_epi8,
        _mm_setzero_si128, _mm_unpackhi_epi64,
    };

    use super::COUNTING;

    /// The sum of the first `count` bytes, or of all where `count` is larger.
    #[inline(always)]
    pub fn sum_below(bytes: &[u8; 32], count: usize) -> usize {
        let (halves, _) = bytes.as_chunks::<16>();
        let below = |half: usize| {
            let (bytes, numbers) = (load(&halves[half]), load(&COUNTING[half]));
            // SAFETY: register-only SSE2 operations, x86-64's baseline.
            unsafe {
                let counted = _mm_cmpgt_epi8(_mm_set1_epi8(count.min(32) as i8), numbers);
                _mm_sad_epu8(_mm_and_si128(bytes, counted), _mm_setzero_si128())
            }
        };
        let (low, high) = (below(0), below(1));
        // SAFETY: register-only SSE2 operations, x86-64's baseline.
        let sum = unsafe {
            let both = _mm_add_epi64(low, high);
            _mm_cvtsi128_si64(_mm_add_epi64(both, _mm_unpackhi_epi64(both, both)))
        };
        sum as usize
    }

    #[inline(always)]
    fn load(chunk: &[u8; 16]) -> __m128i {
        // SAFETY: sixteen readable bytes (invariant 1); `loadu` needs no alignment; SSE2 is
        // x86-64's baseline.
        unsafe { _mm_loadu_si128(chunk.as_ptr().cast()) }
    }

    /// Bit `i` is set where byte `i` is either needle.
    #[inline(always)]
    pub fn mask_either(chunk: &[u8; 16], first: u8, second: u8) -> u16 {
        let bytes = load(chunk);
        // SAFETY: register-only SSE2 operations, x86-64's baseline.
        let mask = unsafe {
            let one = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(first as i8));
            let two = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(second as i8));
            _mm_movemask_epi8(_mm_or_si128(one, two))
        };
        mask as u16
    }

    /// Index of the first byte of `chunk` equal to either needle, 16 or more when there is none.
    #[inline(always)]
    pub fn first_of(chunk: &[u8; 16], first: u8, second: u8) -> usize {
        mask_either(chunk, first, second).trailing_zeros() as usize
    }
}

#[cfg(target_arch = "aarch64")]
mod wide {
    use std::arch::aarch64::{
        uint8x16_t, vaddq_u16, vaddvq_u16, vandq_u8, vceqq_u8, vcltq_u8, vdupq_n_u8, vget_lane_u64,
        vgetq_lane_u16, vld1q_u8, vorrq_u8, vpaddlq_u8, vpaddq_u8, vreinterpret_u64_u8,
        vreinterpretq_u16_u8, vshrn_n_u16,
    };

    use super::COUNTING;

    /// One bit for each byte of a half.
    const BITS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];

    /// The sum of the first `count` bytes, or of all where `count` is larger.
    #[inline(always)]
    pub fn sum_below(bytes: &[u8; 32], count: usize) -> usize {
        let (halves, _) = bytes.as_chunks::<16>();
        let below = |half: usize| {
            let (bytes, numbers) = (load(&halves[half]), load(&COUNTING[half]));
            // SAFETY: register-only NEON operations, aarch64's baseline.
            unsafe {
                let counted = vcltq_u8(numbers, vdupq_n_u8(count.min(32) as u8));
                vpaddlq_u8(vandq_u8(bytes, counted))
            }
        };
        let (low, high) = (below(0), below(1));
        // SAFETY: register-only NEON operations, aarch64's baseline.
        usize::from(unsafe { vaddvq_u16(vaddq_u16(low, high)) })
    }

    #[inline(always)]
    fn load(chunk: &[u8; 16]) -> uint8x16_t {
        // SAFETY: sixteen readable bytes (invariant 1), no alignment needed; NEON is aarch64's
        // baseline.
        unsafe { vld1q_u8(chunk.as_ptr()) }
    }

    /// All ones where the byte is either needle.
    #[inline(always)]
    fn equal_either(chunk: &[u8; 16], first: u8, second: u8) -> uint8x16_t {
        let bytes = load(chunk);
        // SAFETY: register-only NEON operations, aarch64's baseline.
        unsafe {
            let one = vceqq_u8(bytes, vdupq_n_u8(first));
            let two = vceqq_u8(bytes, vdupq_n_u8(second));
            vorrq_u8(one, two)
        }
    }

    /// Bit `i` is set where byte `i` is either needle. NEON has no movemask: neighbours are added
    /// three times, until each half is one byte.
    #[inline(always)]
    pub fn mask_either(chunk: &[u8; 16], first: u8, second: u8) -> u16 {
        let (equal, bits) = (equal_either(chunk, first, second), load(&BITS));
        // SAFETY: register-only NEON operations, aarch64's baseline.
        unsafe {
            let ones = vandq_u8(equal, bits);
            let twos = vpaddq_u8(ones, ones);
            let fours = vpaddq_u8(twos, twos);
            vgetq_lane_u16::<0>(vreinterpretq_u16_u8(vpaddq_u8(fours, fours)))
        }
    }

    /// Index of the first byte of `chunk` equal to either needle, 16 or more when there is none.
    #[inline(always)]
    pub fn first_of(chunk: &[u8; 16], first: u8, second: u8) -> usize {
        let equal = equal_either(chunk, first, second);
        // SAFETY: register-only NEON operations, aarch64's baseline.
        let nibbles = unsafe {
            // Four bits of the result for each byte: two instructions less than a mask.
            let narrow = vshrn_n_u16::<4>(vreinterpretq_u16_u8(equal));
            vget_lane_u64::<0>(vreinterpret_u64_u8(narrow))
        };
        nibbles.trailing_zeros() as usize / 4
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod wide {
    pub use super::plain::{mask_either, sum_below};

    /// Index of the first byte of `chunk` equal to either needle, 16 or more when there is none.
    #[inline(always)]
    pub fn first_of(chunk: &[u8; 16], first: u8, second: u8) -> usize {
        super::plain::find_either(chunk, first, second).unwrap_or(16)
    }
}

/// Bit `i` is set where byte `i` of `hay` is `first` or `second`.
#[inline(always)]
pub fn mask_either(hay: &[u8; 16], first: u8, second: u8) -> u16 {
    wide::mask_either(hay, first, second)
}

/// The sum of the first `count` bytes, or of all where `count` is larger.
#[inline(always)]
pub fn sum_below(bytes: &[u8; 32], count: usize) -> usize {
    wide::sum_below(bytes, count)
}

/// Index of the first `needle` in `hay`.
#[inline]
pub fn find_byte(hay: &[u8], needle: u8) -> Option<usize> {
    find_either(hay, needle, needle)
}

/// Index of the first byte of `hay` that is `first` or `second`.
#[inline]
pub fn find_either(hay: &[u8], first: u8, second: u8) -> Option<usize> {
    let (chunks, tail) = hay.as_chunks::<16>();
    for (i, chunk) in chunks.iter().enumerate() {
        let at = wide::first_of(chunk, first, second);
        if at < 16 {
            return Some(i * 16 + at);
        }
    }
    plain::find_either(tail, first, second).map(|at| chunks.len() * 16 + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_plain() {
        let mut bytes = [0; 32];
        for seed in 0..64_u8 {
            for (i, byte) in bytes.iter_mut().enumerate() {
                *byte = seed.wrapping_mul(37).wrapping_add((i as u8).wrapping_mul(91));
            }
            for count in [255].into_iter().chain(0..40) {
                assert_eq!(sum_below(&bytes, count), plain::sum_below(&bytes, count));
            }
        }
        assert_eq!(sum_below(&[255; 32], 32), 32 * 255);
    }

    #[test]
    fn masks_are_plain() {
        let mut rng = crate::rng::Rng::from_seed(7);
        for _ in 0..2000 {
            let hay: [u8; 16] = std::array::from_fn(|_| rng.below(4) as u8 * 85);
            for (one, two) in [(0, 85), (255, 255), (170, 0), (1, 2)] {
                assert_eq!(mask_either(&hay, one, two), plain::mask_either(&hay, one, two));
            }
        }
    }

    #[test]
    fn wide_is_plain() {
        for len in 0..70 {
            for at in 0..=len {
                let mut hay = vec![b'.'; len];
                for &(one, two) in &[(b'\r', b'\n'), (0, 255), (b'x', b'x')] {
                    hay.fill(b'.');
                    if at < len {
                        hay[at] = one;
                    }
                    if let Some(byte) = hay.get_mut(at + 5) {
                        *byte = two;
                    }
                    assert_eq!(find_byte(&hay, one), plain::find_byte(&hay, one));
                    assert_eq!(find_byte(&hay, two), plain::find_byte(&hay, two));
                    assert_eq!(find_either(&hay, one, two), plain::find_either(&hay, one, two));
                    let rest = &hay[at..];
                    assert_eq!(find_either(rest, two, one), plain::find_either(rest, two, one));
                    if let Some(rest) = rest.first_chunk() {
                        let mask = plain::mask_either(rest, one, two);
                        assert_eq!(mask_either(rest, one, two), mask);
                        let first = plain::find_either(rest, one, two).unwrap_or(16);
                        assert_eq!(mask.trailing_zeros() as usize, first);
                    }
                }
            }
        }
    }
}
