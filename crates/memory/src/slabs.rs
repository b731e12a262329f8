//! Finds sparse jemalloc slabs, so that their blocks can be allocated anew.
//!
//! A slab is a run of pages that holds blocks of one size class, and goes back to the system only
//! when all of them are free. After many random removals nearly all slabs hold something. When the
//! few blocks of a sparse slab are allocated again, they come from jemalloc's current slab, and
//! then from the oldest slab with room: so some slabs become full and others empty, and no new slab
//! is needed meanwhile.
//!
//! Invariants: 4 and 5 of the crate, and
//! - a. jemalloc's answer about a slab that others use is of one moment; it is advice, not a
//!   promise.
//! - b. A control found by its name takes and gives what jemalloc documents for that name.
//!
//! Tests: at the foot.

use std::ffi::{c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::ptr;

use tikv_jemalloc_sys as jemalloc;

/// A slab is sparse if at least one in this many of its blocks is free: moving denser ones gains
/// little.
const FREE_PART: usize = 8;

/// A control of jemalloc, resolved by name once.
struct Control<const PARTS: usize>([usize; PARTS]);

impl<const PARTS: usize> Control<PARTS> {
    fn find(name: &std::ffi::CStr) -> Option<Self> {
        let (mut parts, mut count) = ([0; PARTS], PARTS);
        // SAFETY: the name ends with a zero byte, `count` is how many parts there is room for (5).
        let answer = unsafe {
            jemalloc::mallctlnametomib(name.as_ptr(), parts.as_mut_ptr(), &raw mut count)
        };
        (answer == 0 && count == PARTS).then_some(Control(parts))
    }

    /// Reads a control; returns whether it succeeded.
    ///
    /// # Safety
    /// The control gives an `Out` for an `In` (b); `In` is not changed.
    unsafe fn ask<In, Out>(&self, given: &In, answer: &mut Out) -> bool {
        let mut bytes = size_of::<Out>();
        let given = ptr::from_ref(given).cast_mut().cast::<c_void>();
        // SAFETY: the caller's promise; both live through the call, with their sizes.
        let failed: c_int = unsafe {
            jemalloc::mallctlbymib(
                self.0.as_ptr(),
                PARTS,
                ptr::from_mut(answer).cast(),
                &raw mut bytes,
                given,
                size_of::<In>(),
            )
        };
        failed == 0
    }

    /// Writes a control; returns whether it succeeded.
    ///
    /// # Safety
    /// The control takes an `In` (b).
    unsafe fn tell<In>(&self, mut given: In) -> bool {
        // SAFETY: the caller's promise; it lives through the call, with its size.
        let failed: c_int = unsafe {
            jemalloc::mallctlbymib(
                self.0.as_ptr(),
                PARTS,
                ptr::null_mut(),
                ptr::null_mut(),
                (&raw mut given).cast(),
                size_of::<In>(),
            )
        };
        failed == 0
    }
}

/// jemalloc's answer about the slab of a block, in this order.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Utilisation {
    free: usize,
    blocks: usize,
    bytes: usize,
}

/// Tells which blocks lie in sparse slabs. Owned by one dedicated thread: its allocation cache is
/// off from then on, or it would get back the blocks that it has just freed.
pub struct SparseSlabs {
    utilisation: Control<3>,
    arena_of: Control<2>,
    use_arena: Control<2>,
    /// The arena from which this thread allocates.
    arena: Option<c_uint>,
    of_this_thread: PhantomData<*const ()>,
}

impl SparseSlabs {
    /// For the calling thread; `None`: this jemalloc lacks the controls.
    pub fn for_this_thread() -> Option<Self> {
        let caches = Control::<3>::find(c"thread.tcache.enabled")?;
        // SAFETY: it takes a bool (b).
        if !unsafe { caches.tell(false) } {
            return None;
        }
        Some(SparseSlabs {
            utilisation: Control::find(c"experimental.utilization.batch_query")?,
            arena_of: Control::find(c"arenas.lookup")?,
            use_arena: Control::find(c"thread.arena")?,
            arena: None,
            of_this_thread: PhantomData,
        })
    }

    /// Whether this block lies in a sparse slab. If so, this thread allocates from that slab's
    /// arena until the next call: a new block of the same size lies in a denser slab.
    pub fn has(&mut self, block: *const u8) -> bool {
        let (mut arena, mut slab): (c_uint, _) = (0, Utilisation::default());
        // SAFETY: the first takes an address, any, and gives the number of its arena, or fails (b).
        // The second takes an array of addresses, here one that has an arena, and gives as many of
        // these (b).
        let is_known = unsafe {
            self.arena_of.ask(&block, &mut arena) && self.utilisation.ask(&block, &mut slab)
        };
        let is_sparse = is_known && slab.blocks > 1 && slab.free * FREE_PART >= slab.blocks;
        is_sparse && self.turn_to(arena)
    }

    fn turn_to(&mut self, arena: c_uint) -> bool {
        // SAFETY: it takes the number of an arena, and this one is there (b).
        if self.arena != Some(arena) && unsafe { self.use_arena.tell(arena) } {
            self.arena = Some(arena);
        }
        self.arena == Some(arena)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 320;

    fn pages_of(blocks: &[Box<[u8; BYTES]>]) -> usize {
        let mut pages: Vec<usize> =
            blocks.iter().map(|block| block.as_ptr().addr() >> 12).collect();
        pages.sort_unstable();
        pages.dedup();
        pages.len()
    }

    #[test]
    fn blocks_of_sparse_slabs_come_together() {
        std::thread::spawn(|| {
            let mut slabs = SparseSlabs::for_this_thread().expect("it is jemalloc");
            let mut blocks: Vec<Box<[u8; BYTES]>> =
                (0..20_000).map(|n| Box::new([n as u8; BYTES])).collect();
            let mut number = 0;
            blocks.retain(|_| {
                number += 1;
                number % 10 == 0
            });
            let before = pages_of(&blocks);
            let mut moved = 0;
            for block in &mut blocks {
                if slabs.has(block.as_ptr()) {
                    *block = block.clone();
                    moved += 1;
                }
            }
            let after = pages_of(&blocks);
            assert!(moved > 1_000, "moved {moved}");
            assert!(after * 4 < before, "{before} pages, then {after}");
            let mut moved = 0;
            blocks.iter().for_each(|block| moved += usize::from(slabs.has(block.as_ptr())));
            assert!(moved < 200, "{moved} are still in sparse slabs");
            assert!(blocks.iter().enumerate().all(|(n, block)| block[7] == (n * 10 + 9) as u8));
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn what_is_no_block_is_in_no_slab() {
        std::thread::spawn(|| {
            let mut slabs = SparseSlabs::for_this_thread().expect("it is jemalloc");
            let large = vec![1_u8; 1 << 20];
            assert!(!slabs.has(large.as_ptr()));
            assert!(!slabs.has(ptr::without_provenance(64)));
        })
        .join()
        .expect("no panic");
    }
}
