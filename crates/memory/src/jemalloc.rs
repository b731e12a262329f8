//! jemalloc: the source of the memory, its settings and its statistics.
//!
//! Invariants: 4 and 5 of the crate. Tests: at the foot.

use std::alloc::Layout;

use tikv_jemalloc_sys as jemalloc;

use crate::MemoryReport;

/// jemalloc's settings. A background thread gives memory back a second after it became idle (and
/// sleeps while there is none); few arenas, so that they stay dense. Blocks of 16 KB and more begin
/// at a page: otherwise jemalloc gives each of them one more page and begins it somewhere in there,
/// which is a fifth of the memory where values have 14 to 20 KB.
macro_rules! settings {
    () => {
        "background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0,narenas:4,\
         cache_oblivious:false"
    };
}

/// Slabs are larger than usual: each costs jemalloc 128 bytes of metadata, which with one page per
/// slab for 1,024-byte blocks would be 32 bytes a record (measured: 1,107 against 1,079 bytes a
/// key).
#[cfg(not(target_arch = "aarch64"))]
const SETTINGS: &str = concat!(
    settings!(),
    ",slab_sizes:1-16:2|17-32:2|33-48:3|49-64:4|65-80:5|81-96:6|97-112:7|113-128:8|129-160:10|\
    161-192:12|193-224:14|225-256:16|257-320:10|321-384:12|385-448:14|449-512:16|513-640:10|\
    641-768:12|769-896:14|897-1024:16|1025-1280:10|1281-1536:12|1537-1792:14|1793-2048:16|\
    2049-2560:10|2561-3072:12|3073-3584:14|3585-4096:16|4097-5120:10|5121-6144:12|\
    6145-7168:14|7169-8192:16|8193-10240:10|10241-12288:12|12289-14336:14\0"
);
/// A slab is at least a page, and [`PAGE_BYTES`] is large here.
#[cfg(target_arch = "aarch64")]
const SETTINGS: &str = concat!(settings!(), "\0");

/// The symbol under which jemalloc looks for its settings.
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static MALLOC_CONF: Settings = Settings(SETTINGS.as_ptr().cast());

/// A C string for jemalloc's start-up.
#[repr(transparent)]
pub struct Settings(*const std::ffi::c_char);

// SAFETY: it points to a constant (5).
unsafe impl Sync for Settings {}

/// As [`std::alloc::GlobalAlloc`]; so are all functions here.
///
/// # Safety
/// The layout's size is above zero.
#[inline]
pub unsafe fn alloc(layout: Layout) -> *mut u8 {
    // SAFETY: the caller promises a size above zero (4).
    unsafe { jemalloc::mallocx(layout.size(), alignment_flags(layout)).cast() }
}

/// # Safety
/// As in [`alloc`].
#[inline]
pub unsafe fn alloc_zeroed(layout: Layout) -> *mut u8 {
    let flags = alignment_flags(layout) | jemalloc::MALLOCX_ZERO;
    // SAFETY: as in `alloc` (4).
    unsafe { jemalloc::mallocx(layout.size(), flags).cast() }
}

/// # Safety
/// The block came from here with this layout.
#[inline]
pub unsafe fn dealloc(pointer: *mut u8, layout: Layout) {
    // SAFETY: the caller promises that `pointer` came from here with this layout (4).
    unsafe { jemalloc::sdallocx(pointer.cast(), layout.size(), alignment_flags(layout)) }
}

/// # Safety
/// The block came from here with this layout; that it is to have is valid and not empty.
#[inline]
pub unsafe fn realloc(pointer: *mut u8, _layout: Layout, after: Layout) -> *mut u8 {
    // The flags of the new size, by which it will be freed: 8 bytes aligned to 16 are another class
    // than 8 bytes.
    let flags = alignment_flags(after);
    // SAFETY: the caller promises the pointer, the layout and a size above zero (4).
    unsafe { jemalloc::rallocx(pointer.cast(), after.size(), flags).cast() }
}

/// jemalloc aligns to 16 by itself wherever the size is at least 16.
#[inline]
fn alignment_flags(layout: Layout) -> std::ffi::c_int {
    if layout.align() <= 8 || (layout.align() <= 16 && layout.size() >= 16) {
        0
    } else {
        layout.align().trailing_zeros().cast_signed()
    }
}

/// Queries jemalloc's statistics; costs some microseconds (it merges those of all threads).
pub fn report() -> Option<MemoryReport> {
    use tikv_jemalloc_ctl::{epoch, stats};
    epoch::advance().ok()?;
    Some(MemoryReport {
        allocated: stats::allocated::read().ok()? as u64,
        active: stats::active::read().ok()? as u64,
        resident: stats::resident::read().ok()? as u64,
        retained: stats::retained::read().ok()? as u64,
        metadata: stats::metadata::read().ok()? as u64,
    })
}

/// Gives all idle pages back to the system now. Takes milliseconds: never on a worker.
pub fn purge() -> bool {
    // "arena.<MALLCTL_ARENAS_ALL>.purge"
    const PURGE_ALL: &[u8] = b"arena.4096.purge\0";
    // SAFETY: the name ends with a zero byte (5); this control takes and gives no value.
    let answer = unsafe {
        jemalloc::mallctl(
            PURGE_ALL.as_ptr().cast(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            0,
        )
    };
    answer == 0
}

#[cfg(test)]
mod tests {
    use std::alloc::{GlobalAlloc, Layout};

    use super::*;
    use crate::size_class;
    use crate::tests::ALLOCATOR;

    #[test]
    fn size_class_is_jemallocs() {
        for bytes in (1..5000).chain((5000..10_000_000).step_by(997)) {
            // SAFETY: nallocx only computes (3).
            let theirs = unsafe { jemalloc::nallocx(bytes, 0) };
            assert_eq!(size_class(bytes), theirs, "{bytes} bytes");
        }
    }

    #[test]
    fn large_blocks_take_no_page_more_than_they_need() {
        let blocks: Vec<Vec<u8>> = (0..64).map(|n| vec![n; 20 << 10]).collect();
        let begins_at_page = |block: &Vec<u8>| block.as_ptr().addr().is_multiple_of(4 << 10);
        assert!(blocks.iter().all(begins_at_page));
    }

    #[test]
    fn what_shrinks_keeps_the_class_it_is_freed_by() {
        let of = |size| Layout::from_size_align(size, 16).expect("a small size");
        for size in 1..16 {
            // SAFETY: one block, freed once, with the layout it has then (4).
            unsafe {
                let block = ALLOCATOR.alloc(of(64));
                let shrunk = ALLOCATOR.realloc(block, of(64), size);
                assert_eq!(jemalloc::sallocx(shrunk.cast(), 0), 16, "{size} bytes");
                assert!(shrunk.addr().is_multiple_of(16));
                ALLOCATOR.dealloc(shrunk, of(size));
            }
        }
    }

    #[test]
    fn jemalloc_reports_and_purges() {
        let report = report().expect("built with statistics");
        assert!(report.resident >= report.active && report.active >= report.allocated);
        assert!(purge());
    }
}
