//! Cache lines that will soon be written: asked for ahead of time, so that the stores do not wait
//! for them, nor what waits for the stores (the next lock).

/// The size of a cache line, or half of it.
const LINE_BYTES: usize = 64;

/// Asks the processor to fetch the cache lines of these bytes for writing.
#[inline]
pub fn prefetch_to_write<T>(bytes: &[T]) {
    let (from, size) = (bytes.as_ptr().cast::<u8>(), size_of_val(bytes));
    for at in (0..size).step_by(LINE_BYTES) {
        prefetch_line(from.wrapping_add(at));
    }
}

#[inline(always)]
#[allow(unsafe_code)]
fn prefetch_line(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch changes nothing and never faults; where it is unknown it does nothing.
    unsafe {
        std::arch::asm!("prefetchw [{at}]", at = in(reg) at,
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch changes nothing and never faults.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{at}]", at = in(reg) at,
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}
