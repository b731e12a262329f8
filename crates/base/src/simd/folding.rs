//! Long rows of bytes as polynomials, folded to 16 bytes with the same remainder: most of a CRC-64
//! that works from the low bit. With PCLMULQDQ where the processor has it.
//!
//! Sixteen bytes are `low * x^64 + high`, the first eight being `low`. A position `d` bits later
//! has room for their remainder: `low * x^(d + 64) + high * x^d`. The product of two such numbers
//! is one bit too low, so the keys are powers one less.
//!
//! 1. The variant is called only if the processor supports it.
//! 2. A load reads exactly the sixteen bytes of a `&[u8; 16]`.
//!
//! Tests: foot of `crc`, against the same checksum by tables.

/// Bytes of one step: four registers, so that their products overlap.
const STEP: usize = 64;

/// Powers of x for `low` and `high`, modulo the CRC's polynomial.
#[derive(Clone, Copy, Debug)]
pub struct FoldKeys {
    /// Over a step: x^(512 + 63), x^(512 - 1).
    pub step: [u64; 2],
    /// Over sixteen bytes: x^(128 + 63), x^(128 - 1).
    pub next: [u64; 2],
}

/// Sixteen bytes and a rest whose CRC from 0 is that of `bytes` from `crc`; `None` if that would
/// gain nothing.
#[inline]
pub fn fold<'b>(keys: &FoldKeys, crc: u64, bytes: &'b [u8]) -> Option<([u8; 16], &'b [u8])> {
    let (steps, rest) = bytes.as_chunks::<STEP>();
    let (first, steps) = steps.split_first()?;
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("pclmulqdq") {
        // SAFETY: the processor has it (invariant 1).
        return Some((unsafe { x86::fold(keys, crc, first, steps) }, rest));
    }
    let _ = (keys, crc, first, steps, rest);
    None
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, _mm_clmulepi64_si128, _mm_cvtsi64_si128, _mm_loadu_si128, _mm_set_epi64x,
        _mm_storeu_si128, _mm_xor_si128,
    };

    use super::{FoldKeys, STEP};

    #[inline(always)]
    fn load(bytes: &[u8; 16]) -> __m128i {
        // SAFETY: sixteen readable bytes (invariant 2); `loadu` needs no alignment; SSE2 is
        // x86-64's baseline.
        unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn load_step(bytes: &[u8; STEP]) -> [__m128i; 4] {
        let (parts, _) = bytes.as_chunks::<16>();
        [load(&parts[0]), load(&parts[1]), load(&parts[2]), load(&parts[3])]
    }

    #[inline(always)]
    fn keys_of(keys: [u64; 2]) -> __m128i {
        // SAFETY: register-only SSE2 operations, x86-64's baseline.
        unsafe { _mm_set_epi64x(keys[1].cast_signed(), keys[0].cast_signed()) }
    }

    /// `one`, moved as far as the keys say, combined with `there`.
    #[inline]
    #[target_feature(enable = "pclmulqdq")]
    fn moved(one: __m128i, keys: __m128i, there: __m128i) -> __m128i {
        let low = _mm_clmulepi64_si128::<0x00>(one, keys);
        let high = _mm_clmulepi64_si128::<0x11>(one, keys);
        _mm_xor_si128(_mm_xor_si128(low, high), there)
    }

    #[target_feature(enable = "pclmulqdq")]
    pub fn fold(keys: &FoldKeys, crc: u64, first: &[u8; STEP], steps: &[[u8; STEP]]) -> [u8; 16] {
        let (step_keys, next_keys) = (keys_of(keys.step), keys_of(keys.next));
        let [mut a, mut b, mut c, mut d] = load_step(first);
        a = _mm_xor_si128(a, _mm_cvtsi64_si128(crc.cast_signed()));
        for step in steps {
            let there = load_step(step);
            a = moved(a, step_keys, there[0]);
            b = moved(b, step_keys, there[1]);
            c = moved(c, step_keys, there[2]);
            d = moved(d, step_keys, there[3]);
        }
        let folded = moved(moved(moved(a, next_keys, b), next_keys, c), next_keys, d);
        let mut out = [0; 16];
        // SAFETY: sixteen writable bytes; `storeu` needs no alignment.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), folded) };
        out
    }
}
