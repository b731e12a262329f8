//! An inner node: its children in order, the number of entries below each, and where each begins.
//!
//! A *fence* approximates where a child begins: the score and the first eight bytes of a member.
//!
//! Invariants
//! 1. `children`, `counts` and `fences` have one length, from 1 to [`MOST`] (one more for a
//!    moment).
//! 2. Truncated to score and eight bytes, no entry before child i is greater than fence i, and no
//!    entry of child i or a later one is smaller. (So where an entry equals a fence in those, only
//!    the child's first entry decides.)
//! 3. The fence of child 0 may be stale: it is never read. Code that moves child 0 to another place
//!    sets a valid one.
//!
//! Not here: what the children are. Tests: the tree's.

use super::arena::NONE;

/// The most children of a node.
pub const MOST: usize = 64;

/// Where a child begins, approximately.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fence {
    /// The score.
    pub score: f64,
    /// The first eight bytes of the member, padded with zeros, as a big-endian number.
    pub prefix: u64,
}

impl Fence {
    /// The fence of an entry.
    pub fn of(score: f64, member: &[u8]) -> Fence {
        Fence { score, prefix: prefix(member) }
    }
}

/// The first eight bytes as a number with the same order.
#[inline]
pub fn prefix(member: &[u8]) -> u64 {
    if let Some(first) = member.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut bytes = [0; 8];
    bytes[..member.len()].copy_from_slice(member);
    u64::from_be_bytes(bytes)
}

/// An inner node of the tree.
#[derive(Clone, Debug)]
pub struct Inner {
    /// The parent node, or none.
    pub parent: u32,
    /// Leaves at the lowest level, inner nodes above.
    pub children: Vec<u32>,
    /// Entries below each child.
    pub counts: Vec<u64>,
    /// The fence of each child.
    pub fences: Vec<Fence>,
}

impl Default for Inner {
    fn default() -> Self {
        Inner { parent: NONE, children: Vec::new(), counts: Vec::new(), fences: Vec::new() }
    }
}

impl Inner {
    /// How many children there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.children.len()
    }

    /// The number of entries below the node.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The index of a child.
    #[inline]
    pub fn position(&self, child: u32) -> usize {
        // Eight at a time, without a branch for each.
        let (eights, rest) = self.children.as_chunks::<8>();
        for (number, eight) in eights.iter().enumerate() {
            let found =
                eight.iter().rev().fold(0_u8, |bits, other| bits << 1 | u8::from(*other == child));
            if found != 0 {
                return 8 * number + found.trailing_zeros() as usize;
            }
        }
        let found = rest.iter().position(|other| *other == child);
        8 * eights.len() + found.expect("a node's parent has it as a child")
    }

    /// Inserts a child.
    pub fn insert(&mut self, at: usize, child: u32, count: u64, fence: Fence) {
        self.children.insert(at, child);
        self.counts.insert(at, count);
        self.fences.insert(at, fence);
    }

    /// Removes a child.
    pub fn remove(&mut self, at: usize) {
        self.children.remove(at);
        self.counts.remove(at);
        self.fences.remove(at);
    }

    /// Cuts off the children from `at` on.
    pub fn split_off(&mut self, at: usize) -> Inner {
        Inner {
            parent: self.parent,
            children: self.children.split_off(at),
            counts: self.counts.split_off(at),
            fences: self.fences.split_off(at),
        }
    }

    /// Appends the children of the next node, which begins at `fence`.
    pub fn append(&mut self, right: &mut Inner, fence: Fence) {
        if let Some(first) = right.fences.first_mut() {
            *first = fence;
        }
        self.children.append(&mut right.children);
        self.counts.append(&mut right.counts);
        self.fences.append(&mut right.fences);
    }
}
