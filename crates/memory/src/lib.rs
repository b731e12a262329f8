//! The global allocator, and the exact count of allocated bytes.
//!
//! jemalloc serves the memory (why jemalloc: ARCHITECTURE.md, "Memory"). A wrapper around it adds
//! the size class of each allocation to a counter of the allocating thread and subtracts it from
//! the counter of the freeing thread. A single counter may become negative; the sum of all is
//! exact, and no two threads write the same cache line.
//!
//! Invariants
//! 1. Each thread that allocates owns one of [`OWNED_SEATS`] counters, or shares the last one.
//!    Owners write with a plain load and store; sharers with an atomic add.
//! 2. A thread that ends releases its counter with [`release_seat`]; the value stays, and so does
//!    the sum.
//! 3. `size_class` equals what jemalloc rounds a request to (a test asks jemalloc).
//! 4. A request reaches its source unchanged, with the size and alignment that `GlobalAlloc`
//!    promises to be valid, and a block is freed with its own; counting allocates nothing.
//! 5. Names of jemalloc's controls end with a zero byte, and the settings are a constant.
//!
//! With `--cfg system_allocator` the memory comes from the system, and the count is the same: for
//! sanitizers, which replace the system's allocator (`./test asan`).
//!
//! Not here: limits (the server compares [`allocated`] with `maxmemory` once a turn).

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

#[cfg(not(system_allocator))]
pub mod control;
#[cfg(not(system_allocator))]
mod jemalloc;
mod shared;
#[cfg(not(system_allocator))]
mod slabs;
#[cfg(system_allocator)]
mod system;

#[cfg(not(system_allocator))]
use jemalloc as source;
#[cfg(system_allocator)]
use system as source;

pub use shared::{SharedWords, is_in_memory, release_words};
#[cfg(not(system_allocator))]
pub use slabs::SparseSlabs;
pub use source::{purge, report};
#[cfg(system_allocator)]
pub use system::{SparseSlabs, control};

/// jemalloc's page: the unit of its slabs and of large blocks. The kernel's may be smaller but not
/// larger, or jemalloc refuses to start. Kernels for aarch64 have pages of 4, 16 or 64 KiB, and one
/// binary must run on all of them; `.cargo/config.toml` builds jemalloc accordingly.
pub const PAGE_BYTES: usize = if cfg!(target_arch = "aarch64") { 64 << 10 } else { 4 << 10 };

/// Counters with an owner; further threads share one more.
const OWNED_SEATS: usize = 256;
const SHARED_SEAT: usize = OWNED_SEATS;
const NO_SEAT: usize = usize::MAX;

#[repr(align(64))]
struct Counter(AtomicI64);

static COUNTERS: [Counter; OWNED_SEATS + 1] =
    [const { Counter(AtomicI64::new(0)) }; OWNED_SEATS + 1];
static TAKEN: [AtomicU64; OWNED_SEATS / 64] = [const { AtomicU64::new(0) }; OWNED_SEATS / 64];
/// How many counters have ever had an owner, from the first on: the others are zero.
static USED_SEATS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static SEAT: Cell<usize> = const { Cell::new(NO_SEAT) };
}

/// The allocator; install it with `#[global_allocator]`.
pub struct Counting;

/// The size to which jemalloc rounds a request of `bytes`: steps of 16 up to 128, then four steps a
/// doubling up to eight pages, then whole pages.
#[inline]
pub const fn size_class(bytes: usize) -> usize {
    if bytes <= 8 {
        8
    } else if bytes <= 128 {
        (bytes + 15) & !15
    } else {
        let is_large = bytes > 8 * PAGE_BYTES;
        let step = if is_large { PAGE_BYTES } else { 1_usize << ((bytes - 1).ilog2() - 2) };
        match bytes.checked_add(step - 1) {
            Some(sum) => sum & !(step - 1),
            None => bytes,
        }
    }
}

#[inline]
fn class_of(layout: Layout) -> i64 {
    let aligned = (layout.size() + layout.align() - 1) & !(layout.align() - 1);
    size_class(aligned).cast_signed() as i64
}

#[inline]
fn count(bytes: i64) {
    let seat = SEAT.get();
    if seat < SHARED_SEAT {
        let counter = &COUNTERS[seat].0;
        counter.store(counter.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    } else {
        count_slowly(seat, bytes);
    }
}

#[cold]
fn count_slowly(seat: usize, bytes: i64) {
    let seat = if seat == NO_SEAT { take_seat() } else { seat };
    COUNTERS[seat].0.fetch_add(bytes, Ordering::Relaxed);
}

fn take_seat() -> usize {
    for (word_index, word) in TAKEN.iter().enumerate() {
        let mut seen = word.load(Ordering::Relaxed);
        while seen != u64::MAX {
            let bit = seen.trailing_ones();
            let wanted = seen | (1 << bit);
            match word.compare_exchange_weak(seen, wanted, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    let seat = word_index * 64 + bit as usize;
                    // Before it counts anything: a thread that learns of its allocations sees this,
                    // too.
                    USED_SEATS.fetch_max(seat + 1, Ordering::Relaxed);
                    SEAT.set(seat);
                    return seat;
                }
                Err(now) => seen = now,
            }
        }
    }
    SEAT.set(SHARED_SEAT);
    SHARED_SEAT
}

/// Releases this thread's counter; to be called as the last act of a thread. Later allocations and
/// frees count in the shared counter.
pub fn release_seat() {
    let seat = SEAT.replace(SHARED_SEAT);
    if seat < SHARED_SEAT {
        TAKEN[seat / 64].fetch_and(!(1 << (seat % 64)), Ordering::Release);
    }
}

/// Bytes allocated and not yet freed, by size class: exact when all threads are between two
/// allocations. It reads a cache line for each counter that was ever used.
pub fn allocated() -> u64 {
    let used = USED_SEATS.load(Ordering::Relaxed);
    let counters = COUNTERS[..used].iter().chain([&COUNTERS[SHARED_SEAT]]);
    let sum: i64 = counters.map(|counter| counter.0.load(Ordering::Relaxed)).sum();
    u64::try_from(sum).unwrap_or(0)
}

/// Bytes that this thread has allocated minus those that it has freed.
#[inline]
pub fn allocated_by_this_thread() -> i64 {
    let seat = SEAT.get();
    if seat < SHARED_SEAT { COUNTERS[seat].0.load(Ordering::Relaxed) } else { 0 }
}

// SAFETY: every method hands its request to the source unchanged (4).
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(class_of(layout));
        // SAFETY: GlobalAlloc promises a size above zero (4).
        unsafe { source::alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(class_of(layout));
        // SAFETY: as in `alloc` (4).
        unsafe { source::alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-class_of(layout));
        // SAFETY: GlobalAlloc promises that `pointer` came from here with this layout (4).
        unsafe { source::dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: GlobalAlloc promises that `size` with this alignment is a valid layout (4).
        let after = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: GlobalAlloc promises the pointer, the layout and a size above zero (4).
        let moved = unsafe { source::realloc(pointer, layout, after) };
        if !moved.is_null() {
            count(class_of(after) - class_of(layout));
        }
        moved
    }
}

/// jemalloc's statistics, in bytes; `None` if it does not answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryReport {
    /// Allocated by the program and not yet freed.
    pub allocated: u64,
    /// Pages with at least one allocation in them.
    pub active: u64,
    /// Pages that the system has mapped.
    pub resident: u64,
    /// Address space kept for later.
    pub retained: u64,
    /// jemalloc's own metadata.
    pub metadata: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    pub static ALLOCATOR: Counting = Counting;

    #[test]
    fn counts_across_threads() {
        const BYTES: u64 = 64 << 20;
        // Allocations of other tests and the harness meanwhile.
        const OTHERS: u64 = 16 << 20;
        let before = allocated();
        let block = std::thread::spawn(|| {
            let block = vec![1_u8; BYTES as usize];
            release_seat();
            block
        })
        .join()
        .expect("no panic");
        let with_block = allocated();
        assert!(with_block.abs_diff(before + BYTES) < OTHERS, "{before} {with_block}");
        drop(block);
        let after = allocated();
        assert!(after.abs_diff(before) < OTHERS, "{before} {after}");
    }
}
