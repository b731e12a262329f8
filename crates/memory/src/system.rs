//! The system's allocator, for sanitizers: they replace it by their own, which detects uses after
//! free.

use std::alloc::{GlobalAlloc, Layout, System};

use crate::MemoryReport;

/// # Safety
/// As [`GlobalAlloc::alloc`]; so are all functions here.
pub unsafe fn alloc(layout: Layout) -> *mut u8 {
    // SAFETY: the caller's promise is the one asked for (4).
    unsafe { System.alloc(layout) }
}

/// # Safety
/// As [`GlobalAlloc::alloc_zeroed`].
pub unsafe fn alloc_zeroed(layout: Layout) -> *mut u8 {
    // SAFETY: as in `alloc` (4).
    unsafe { System.alloc_zeroed(layout) }
}

/// # Safety
/// As [`GlobalAlloc::dealloc`].
pub unsafe fn dealloc(pointer: *mut u8, layout: Layout) {
    // SAFETY: as in `alloc` (4).
    unsafe { System.dealloc(pointer, layout) }
}

/// # Safety
/// As [`GlobalAlloc::realloc`].
pub unsafe fn realloc(pointer: *mut u8, layout: Layout, after: Layout) -> *mut u8 {
    // SAFETY: as in `alloc` (4).
    unsafe { System.realloc(pointer, layout, after.size()) }
}

/// It has no statistics.
pub fn report() -> Option<MemoryReport> {
    None
}

/// It cannot be asked to give memory back.
pub fn purge() -> bool {
    true
}

/// It has none of jemalloc's controls.
pub mod control {
    use std::ffi::CStr;

    /// Never.
    pub fn number(_name: &CStr) -> Option<u64> {
        None
    }

    /// Never.
    pub fn text(_name: &CStr) -> Option<Vec<u8>> {
        None
    }

    /// Never.
    pub fn act(_name: &CStr) -> bool {
        false
    }
}

/// It does not reveal how it keeps blocks.
pub struct SparseSlabs(());

impl SparseSlabs {
    /// Always `None`.
    pub fn for_this_thread() -> Option<Self> {
        None
    }

    /// Always false.
    pub fn has(&mut self, _block: *const u8) -> bool {
        false
    }
}
