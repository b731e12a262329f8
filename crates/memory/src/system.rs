//! The system's allocator, for sanitizers: they have their own in its place, which sees what is
//! used after it was freed.

use std::alloc::{GlobalAlloc, Layout, System};

use crate::Report;

/// # Safety
/// As [`GlobalAlloc::alloc`], and so for all here.
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

/// It says nothing of itself.
pub fn report() -> Option<Report> {
    None
}

/// It gives back what it likes.
pub fn purge() -> bool {
    true
}

/// It does not tell how it keeps blocks.
pub struct SparseSlabs(());

impl SparseSlabs {
    /// Never.
    pub fn for_this_thread() -> Option<Self> {
        None
    }

    /// Never.
    pub fn has(&mut self, _block: *const u8) -> bool {
        false
    }
}
