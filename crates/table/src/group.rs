//! The head of a bucket, 16 bytes compared at once: 14 fingerprints and a 16-bit tail.
//!
//! SSE2 on x86-64 and NEON on aarch64, both part of their baseline; a plain twin elsewhere and for
//! tests. Fingerprint 0 marks an empty slot.
//!
//! Tests: at the foot of this file (every twin against the plain one).

/// Slots of a bucket.
pub(crate) const BUCKET_SLOTS: usize = 14;
/// One bit for each slot.
pub(crate) const SLOT_BITS: u32 = (1 << BUCKET_SLOTS) - 1;

/// For each of the 16 bytes at `at`, whether it equals `byte`.
///
/// # Safety
/// 16 bytes at `at` are readable.
#[inline(always)]
pub(crate) unsafe fn equal_bytes(at: *const u8, byte: u8) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of x86-64; the caller's promise.
    unsafe {
        use std::arch::x86_64::*;
        let bytes = _mm_loadu_si128(at.cast());
        _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8))) as u32
    }
    #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
    // SAFETY: NEON is part of aarch64; the caller's promise.
    unsafe {
        use std::arch::aarch64::*;
        const BITS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
        let equal = vandq_u8(vceqq_u8(vld1q_u8(at), vdupq_n_u8(byte)), vld1q_u8(BITS.as_ptr()));
        u32::from(vaddv_u8(vget_low_u8(equal))) | u32::from(vaddv_u8(vget_high_u8(equal))) << 8
    }
    #[cfg(not(any(
        target_arch = "x86_64",
        all(target_arch = "aarch64", target_endian = "little")
    )))]
    // SAFETY: the caller's promise.
    unsafe {
        equal_bytes_plain(at, byte)
    }
}

/// The plain twin of [`equal_bytes`].
///
/// # Safety
/// 16 bytes at `at` are readable.
#[allow(dead_code)]
pub(crate) unsafe fn equal_bytes_plain(at: *const u8, byte: u8) -> u32 {
    // SAFETY: the caller's promise.
    (0..16).fold(0, |bits, i| bits | u32::from(unsafe { *at.add(i) } == byte) << i)
}

/// For each of the `len` (at most 64) bytes at `at`, whether it equals `byte`.
///
/// # Safety
/// `len` rounded up to a multiple of 16 bytes at `at` are readable.
#[inline]
pub(crate) unsafe fn equal_bytes_64(at: *const u8, len: usize, byte: u8) -> u64 {
    let mut bits = 0;
    for from in (0..len).step_by(16) {
        // SAFETY: the caller's promise.
        bits |= u64::from(unsafe { equal_bytes(at.add(from), byte) }) << from;
    }
    bits & (u64::MAX >> (64 - len))
}

/// Asks the processor to fetch the cache line at `at`; any address is allowed.
#[inline(always)]
pub(crate) fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and never faults.
    unsafe {
        use std::arch::x86_64::*;
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch reads nothing and never faults.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{at}]", at = in(reg) at,
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_twin_agrees_with_the_plain_one() {
        let mut state = 1u32;
        for _ in 0..1000 {
            let bytes: Vec<u8> = (0..64)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 24) as u8 & 7
                })
                .collect();
            for byte in 0..8 {
                // SAFETY: 64 bytes are readable.
                unsafe {
                    let at = bytes.as_ptr();
                    assert_eq!(equal_bytes(at.add(5), byte), equal_bytes_plain(at.add(5), byte));
                    for len in 1..=64 {
                        let expected =
                            (0..len).fold(0u64, |bits, i| bits | u64::from(bytes[i] == byte) << i);
                        assert_eq!(equal_bytes_64(at, len, byte), expected);
                    }
                }
            }
        }
    }
}
