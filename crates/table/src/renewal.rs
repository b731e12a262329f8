//! Reallocates what lies in sparse pages, so that those pages can be given back.
//!
//! After many random removals, the remaining records lie in pages that are mostly empty. A walk
//! over the table reallocates them with everything they own: segments, records, the blocks of long
//! strings, the parts of collections. The allocator puts them into denser pages (crate `memory`).
//!
//! Invariants
//! 1. Content is the same before and after, and each record keeps its place and its word but for
//!    the address: no hotness, mark, saved bit or deadline is lost, and no SCAN is disturbed.
//! 2. One step looks at a bounded number of blocks, each a part of a page or a few pages.
//!
//! Not here: what is sparse, and when renewal is worth it. Tests: `tests/renewal.rs`.

use crate::hash::PREFIX_BITS;
use crate::records::record::renew_blocks;
use crate::{Object, Table};

/// Decides which blocks are reallocated, and counts.
pub struct Renewal<'s> {
    is_sparse: &'s mut dyn FnMut(*const u8) -> bool,
    /// Blocks that were looked at.
    pub looked_at: usize,
    /// Blocks that were reallocated.
    pub moved: usize,
}

impl<'s> Renewal<'s> {
    /// A renewal of the blocks for which `is_sparse` returns true.
    pub fn of(is_sparse: &'s mut dyn FnMut(*const u8) -> bool) -> Self {
        Renewal { is_sparse, looked_at: 0, moved: 0 }
    }

    /// Whether a block should be reallocated; if so, the caller does it.
    pub fn wants(&mut self, block: *const u8) -> bool {
        self.looked_at += 1;
        let wants = (self.is_sparse)(block);
        self.moved += usize::from(wants);
        wants
    }

    /// Reallocates the block of `owner` if wanted; a clone of `owner` must have a block of its own.
    pub fn renew<T: Clone>(&mut self, block: *const u8, owner: &mut T) {
        if self.wants(block) {
            *owner = owner.clone();
        }
    }
}

/// The position of a renewal walk: prefix of a segment and number of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenewalCursor {
    prefix: u32,
    slot: usize,
}

impl RenewalCursor {
    /// The start of a walk.
    pub const START: RenewalCursor = RenewalCursor { prefix: 0, slot: 0 };
    /// The end of a walk.
    pub const END: RenewalCursor = RenewalCursor { prefix: 1 << PREFIX_BITS, slot: 0 };
}

/// Parts of one collection that are looked at in one step.
pub const PARTS_PER_STEP: usize = 64;

impl<O: Object> Table<O> {
    /// Reallocates records, from `at` on, until `most_blocks` or a few more were looked at. For a
    /// collection with more than [`PARTS_PER_STEP`] parts, `large` gets the key and the number of
    /// the next part, for [`Table::renew_object`]; `shows` is called once per record with whether
    /// anything of it was moved. Returns where to continue, `None` at the table's end.
    pub fn renew(
        &mut self,
        at: RenewalCursor,
        most_blocks: usize,
        renewal: &mut Renewal<'_>,
        large: &mut dyn FnMut(&[u8], usize),
        shows: &mut dyn FnMut(bool),
    ) -> Option<RenewalCursor> {
        self.outdate_places();
        let enough = renewal.looked_at + most_blocks;
        let (mut prefix, mut slot) = (at.prefix, at.slot);
        while prefix < 1 << PREFIX_BITS {
            let entry = self.directory.entry_of_prefix(prefix);
            if entry.is_empty() {
                return None;
            }
            let unused = PREFIX_BITS - entry.depth();
            prefix = prefix >> unused << unused;
            let mut segment = entry.segment();
            if slot == 0 && renewal.wants(segment.base()) {
                let copy = segment.duplicate();
                self.replace_segment(prefix, segment, copy);
                segment = copy;
            }
            while slot < usize::from(segment.shape().slots) {
                if renewal.looked_at >= enough {
                    return Some(RenewalCursor { prefix, slot });
                }
                if let Some(word) = segment.slot(slot) {
                    let moved = renewal.moved;
                    // SAFETY: S2: the slot is taken; the table is borrowed mutably.
                    unsafe { renew_blocks::<O>(&mut *word, renewal, large) };
                    shows(renewal.moved > moved);
                }
                slot += 1;
            }
            slot = 0;
            prefix += 1 << unused;
        }
        None
    }

    /// Continues with the parts of the object under a key, from number `from` on. Returns where to
    /// continue; `None`: the object is done or gone.
    pub fn renew_object(
        &mut self,
        hash: u64,
        key: &[u8],
        from: usize,
        renewal: &mut Renewal<'_>,
    ) -> Option<usize> {
        let place = self.find(hash, key)?;
        self.object_mut(place)?.renew(from, PARTS_PER_STEP, renewal)
    }
}
