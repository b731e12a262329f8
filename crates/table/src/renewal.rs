//! Allocating anew what lies in sparse pages, so that those can be given back.
//!
//! After many removals at random, what is left lies in pages that are mostly empty. A walk over the
//! table allocates such records again, with all they own: segments, records, the blocks of long
//! strings, the parts of collections. The allocator puts them into denser pages (crate `memory`).
//!
//! Invariants
//! 1. What is read is the same before and after, and each record keeps its place and its word but
//!    for the address: no hotness, mark, saved bit or deadline is lost, and no SCAN disturbed.
//! 2. One step looks at a bounded number of blocks, each of which is a part of a page or a few.
//!
//! Not here: what is sparse, and when it is worth it. Tests: `tests/renewal.rs`.

use crate::hash::PREFIX_BITS;
use crate::records::record::renew_blocks;
use crate::{Object, Table};

/// Says which blocks are to be allocated anew, and counts.
pub struct Renewal<'s> {
    is_sparse: &'s mut dyn FnMut(*const u8) -> bool,
    /// Blocks that were looked at.
    pub looked_at: usize,
    /// Blocks that were allocated anew.
    pub moved: usize,
}

impl<'s> Renewal<'s> {
    /// Of the blocks of which `is_sparse` says so.
    pub fn of(is_sparse: &'s mut dyn FnMut(*const u8) -> bool) -> Self {
        Renewal { is_sparse, looked_at: 0, moved: 0 }
    }

    /// Whether a block is to be allocated anew; the caller does it if so.
    pub fn wants(&mut self, block: *const u8) -> bool {
        self.looked_at += 1;
        let wants = (self.is_sparse)(block);
        self.moved += usize::from(wants);
        wants
    }

    /// Allocates the block of an owner anew if it is to be: one whose clone has a block of its own.
    pub fn renew<T: Clone>(&mut self, block: *const u8, owner: &mut T) {
        if self.wants(block) {
            *owner = owner.clone();
        }
    }
}

/// Where a walk stands that allocates anew: the prefix of a segment, and the number of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenewalCursor {
    prefix: u32,
    slot: usize,
}

impl RenewalCursor {
    /// Where it begins.
    pub const START: RenewalCursor = RenewalCursor { prefix: 0, slot: 0 };
    /// Where it is over.
    pub const END: RenewalCursor = RenewalCursor { prefix: 1 << PREFIX_BITS, slot: 0 };
}

/// Parts of one collection that are looked at in one step.
pub const PARTS_PER_STEP: usize = 64;

impl<O: Object> Table<O> {
    /// Allocates records anew, from `at` on, until `most_blocks` or a few more were looked at.
    /// Collections with more than [`PARTS_PER_STEP`] parts are named to `large`, with the next,
    /// and left to [`Table::renew_object`]; `shows` is told of each key whether something of it was
    /// moved. Where to go on; `None` at the table's end.
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

    /// Goes on with the parts of the object under a key, from number `from` on; where to go on.
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
