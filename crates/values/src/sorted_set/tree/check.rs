//! Checks the invariants of a tree, for tests.

use super::Tree;
use super::arena::NONE;
use super::index::Hash;
use super::inner::Fence;

/// The findings below a node.
struct SubtreeCheck {
    count: u64,
    first: Fence,
    last: Fence,
}

impl Tree {
    /// Checks all invariants and panics where one does not hold.
    pub fn check(&self) {
        if self.len == 0 {
            return assert_eq!(self.height, 0, "an empty tree is one leaf");
        }
        let below = self.check_node(self.root, self.height, NONE);
        assert_eq!(below.count, self.len as u64, "the number of members");
        let mut before: Option<(f64, &[u8])> = None;
        let (mut leaf, mut previous, mut bytes) = (self.first, NONE, 0);
        while leaf != NONE {
            let node = self.leaves.at(leaf);
            bytes += node.heap_bytes();
            assert_eq!(node.previous, previous, "links");
            for entry in node.entries(0, node.len()) {
                let is_behind = before.is_none_or(|(score, member)| {
                    score < entry.score || score == entry.score && member < entry.member
                });
                assert!(is_behind, "the order of entries");
                before = Some((entry.score, entry.member));
                let hash = Hash::of(entry.member);
                let known = self.index.find(hash, |known| (known == leaf).then_some(()));
                assert!(known.is_some() && hash.mark() == entry.mark, "the index");
            }
            (previous, leaf) = (leaf, node.next);
        }
        assert_eq!(previous, self.last, "the last leaf");
        assert_eq!(bytes, self.leaf_bytes, "bytes of leaves");
    }

    fn check_node(&self, id: u32, floor: u32, parent: u32) -> SubtreeCheck {
        if floor == 0 {
            let node = self.leaves.at(id);
            assert_eq!(node.parent, parent, "a leaf's parent");
            assert!(!node.is_empty() && !node.is_too_large(), "a leaf's size");
            let (first, last) = (node.entry(0), node.entry(node.len() - 1));
            return SubtreeCheck {
                count: node.len() as u64,
                first: Fence::of(first.score, first.member),
                last: Fence::of(last.score, last.member),
            };
        }
        let node = self.inners.at(id);
        assert_eq!(node.parent, parent, "a node's parent");
        assert!(node.counts.len() == node.len() && node.fences.len() == node.len());
        let mut found: Vec<SubtreeCheck> = Vec::new();
        for at in 0..node.len() {
            let below = self.check_node(node.children[at], floor - 1, id);
            assert_eq!(below.count, node.counts[at], "a count");
            if let Some(before) = found.last() {
                let fence = node.fences[at];
                assert!(!is_less(fence, before.last) && !is_less(below.first, fence), "a fence");
            }
            found.push(below);
        }
        let count = node.total();
        let (Some(first), Some(last)) = (found.first(), found.last()) else {
            panic!("a node without children")
        };
        SubtreeCheck { count, first: first.first, last: last.last }
    }
}

fn is_less(one: Fence, other: Fence) -> bool {
    one.score < other.score || one.score == other.score && one.prefix < other.prefix
}
