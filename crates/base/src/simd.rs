//! Byte searches that look at sixteen bytes at a time. Baseline: SSE2 on x86-64, NEON on aarch64,
//! both always there, so nothing is probed at run time.
//!
//! 1. A load reads exactly the sixteen bytes of a `&[u8; 16]`.
//! 2. Every function has a plain twin in `plain` with the same answers; other targets run the twin.
//!
//! Tests: foot of the file, each function against its twin over all lengths and offsets.

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
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };

    #[inline(always)]
    fn load(chunk: &[u8; 16]) -> __m128i {
        // SAFETY: sixteen readable bytes (invariant 1); `loadu` needs no alignment; SSE2 is
        // x86-64's baseline.
        unsafe { _mm_loadu_si128(chunk.as_ptr().cast()) }
    }

    /// Index of the first byte of `chunk` equal to either needle, 16 or more when there is none.
    #[inline(always)]
    pub fn first_of(chunk: &[u8; 16], first: u8, second: u8) -> usize {
        let bytes = load(chunk);
        // SAFETY: register-only SSE2 operations, x86-64's baseline.
        let mask = unsafe {
            let one = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(first as i8));
            let two = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(second as i8));
            _mm_movemask_epi8(_mm_or_si128(one, two))
        };
        mask.trailing_zeros() as usize
    }
}

#[cfg(target_arch = "aarch64")]
mod wide {
    use std::arch::aarch64::{
        vceqq_u8, vdupq_n_u8, vget_lane_u64, vld1q_u8, vorrq_u8, vreinterpret_u64_u8,
        vreinterpretq_u16_u8, vshrn_n_u16,
    };

    /// Index of the first byte of `chunk` equal to either needle, 16 or more when there is none.
    #[inline(always)]
    pub fn first_of(chunk: &[u8; 16], first: u8, second: u8) -> usize {
        // SAFETY: sixteen readable bytes (invariant 1), no alignment needed; NEON is aarch64's
        // baseline.
        let nibbles = unsafe {
            let bytes = vld1q_u8(chunk.as_ptr());
            let one = vceqq_u8(bytes, vdupq_n_u8(first));
            let two = vceqq_u8(bytes, vdupq_n_u8(second));
            // Four bits of the result for each byte: NEON has no movemask.
            let narrow = vshrn_n_u16::<4>(vreinterpretq_u16_u8(vorrq_u8(one, two)));
            vget_lane_u64::<0>(vreinterpret_u64_u8(narrow))
        };
        nibbles.trailing_zeros() as usize / 4
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod wide {
    /// Index of the first byte of `chunk` equal to either needle, 16 or more when there is none.
    #[inline(always)]
    pub fn first_of(chunk: &[u8; 16], first: u8, second: u8) -> usize {
        super::plain::find_either(chunk, first, second).unwrap_or(16)
    }
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
                }
            }
        }
    }
}
