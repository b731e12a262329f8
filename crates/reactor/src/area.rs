//! The receive memory of a reactor: one anonymous mapping, touched only where used.
//!
//! Invariants
//! 1. The mapping is readable, writable, and lives as long as the `Area`.
//! 2. Nobody, the kernel included, writes to a place handed out by `received` until the next turn:
//!    the engine does not return those buffers to the kernel until then, and the slice's lifetime
//!    ends before, because `Reactor::wait` borrows the reactor mutably.
//!
//! Not here: which part is free (`uring::buffers`, `epoll`). Tests: `tests/engines`.

use std::io;
use std::ptr::NonNull;

pub(crate) struct Area {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the area owns its mapping (1), which has no tie to a thread.
unsafe impl Send for Area {}

impl Area {
    /// Maps `length` bytes, page-aligned.
    pub(crate) fn new(length: usize) -> io::Result<Area> {
        // SAFETY: a fresh anonymous mapping touches no memory of ours; it begins (1).
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Area { start, length })
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes that the kernel has written in this turn.
    #[inline]
    pub(crate) fn received(&self, offset: u32, length: u32) -> &[u8] {
        assert!(offset as usize + length as usize <= self.length);
        // SAFETY: inside the mapping by the line above (1), and unwritten while borrowed (2).
        unsafe {
            std::slice::from_raw_parts(self.start.as_ptr().add(offset as usize), length as usize)
        }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours alone (1).
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}
