//! Splitting, merging and removing nodes.
//!
//! A node that grew too large is split; a node that shrank below a quarter is merged with a sibling
//! if both fit into three quarters. Nothing else is ever moved between siblings. The halves of a
//! leaf have buffers of their exact size, so a split wastes no memory.

use super::Tree;
use super::arena::NONE;
use super::index::Hash;
use super::inner::{self, Fence, Inner};
use super::leaf::{self, Leaf};

/// A node with fewer entries than this looks for a sibling to merge with.
const FEW: usize = leaf::MOST / 4;
/// The most entries of a merged node.
const MERGED: usize = leaf::MOST * 3 / 4;
const _: () = assert!(leaf::MOST == inner::MOST);

impl Tree {
    /// Splits a leaf in two.
    #[cold]
    pub(super) fn split_leaf(&mut self, leaf: u32) {
        let new = self.cut_leaf(leaf, self.leaves.at(leaf).middle());
        // Very long members may need more splits; each half has fewer of them.
        for half in [leaf, new] {
            if self.leaves.at(half).is_heavy() {
                self.split_leaf(half);
            }
        }
    }

    /// Moves the entries from an index on into a new leaf after this one.
    pub(super) fn cut_leaf(&mut self, leaf: u32, at: usize) -> u32 {
        let right = self.with_leaf(leaf, |node| node.split_off(at));
        let new = self.add_leaf_behind(leaf, right);
        let node = self.leaves.at(new);
        for entry in node.entries(0, node.len()) {
            self.index.repoint(Hash::of(entry.member), leaf, new);
        }
        new
    }

    /// Inserts a leaf after another. Its entries have been counted with that leaf so far.
    pub(super) fn add_leaf_behind(&mut self, left: u32, mut new: Leaf) -> u32 {
        let before = self.leaves.at(left);
        (new.parent, new.previous, new.next) = (before.parent, left, before.next);
        let (next, count) = (before.next, new.len() as u64);
        self.leaf_bytes += new.heap_bytes();
        let first = new.entry(0);
        let fence = Fence::of(first.score, first.member);
        let id = self.leaves.add(new);
        self.leaves.at_mut(left).next = id;
        match next {
            NONE => self.last = id,
            next => self.leaves.at_mut(next).previous = id,
        }
        self.attach(0, left, id, count, fence);
        id
    }

    fn parent(&self, floor: u32, node: u32) -> u32 {
        if floor == 0 { self.leaves.at(node).parent } else { self.inners.at(node).parent }
    }

    fn set_parent(&mut self, floor: u32, node: u32, parent: u32) {
        if floor == 0 {
            self.leaves.at_mut(node).parent = parent;
        } else {
            self.inners.at_mut(node).parent = parent;
        }
    }

    fn add_inner(&mut self, node: Inner) -> u32 {
        self.inner_count += 1;
        self.inners.add(node)
    }

    /// Makes `right` the child after `left`; `count` of the entries counted at `left` belong to it.
    fn attach(&mut self, floor: u32, left: u32, right: u32, count: u64, fence: Fence) {
        let parent = self.parent(floor, left);
        if parent == NONE {
            let mut root = Inner::default();
            root.insert(0, left, self.len as u64 - count, fence);
            root.insert(1, right, count, fence);
            self.root = self.add_inner(root);
            self.height += 1;
            self.set_parent(floor, left, self.root);
            return self.set_parent(floor, right, self.root);
        }
        self.set_parent(floor, right, parent);
        let node = self.inners.at_mut(parent);
        let at = node.position(left);
        node.counts[at] -= count;
        node.insert(at + 1, right, count, fence);
        if node.len() > inner::MOST {
            self.split_inner(floor + 1, parent);
        }
    }

    #[cold]
    fn split_inner(&mut self, floor: u32, id: u32) {
        let node = self.inners.at_mut(id);
        // A tree that grows at its end keeps most children in the left node.
        let is_last = floor == 1 && node.children.last() == Some(&self.last);
        let at = if is_last { node.len() * 7 / 8 } else { node.len() / 2 };
        let right = node.split_off(at);
        let (count, fence) = (right.total(), right.fences[0]);
        let new = self.add_inner(right);
        self.adopt(floor, new);
        self.attach(floor, id, new, count, fence);
    }

    /// Sets the parent of a node's children to the node.
    fn adopt(&mut self, floor: u32, id: u32) {
        for at in 0..self.inners.at(id).len() {
            let child = self.inners.at(id).children[at];
            self.set_parent(floor - 1, child, id);
        }
    }

    /// Restores the invariants after entries were removed from a leaf.
    pub(super) fn mend_leaf(&mut self, id: u32) {
        let (count, parent) = (self.leaves.at(id).len(), self.leaves.at(id).parent);
        if count == 0 {
            if parent != NONE {
                self.remove_leaf(id);
            }
            return;
        }
        if count >= FEW || parent == NONE {
            return;
        }
        if let Some((left, right)) = self.neighbours(0, id, |tree, left, right| {
            let (left, right) = (tree.leaves.at(left), tree.leaves.at(right));
            left.len() + right.len() <= MERGED
                && left.member_bytes() + right.member_bytes() <= leaf::MOST_MEMBER_BYTES * 3 / 4
        }) {
            self.merge_leaves(left, right);
        }
    }

    /// A child and its neighbour that may be merged.
    fn neighbours(
        &self,
        floor: u32,
        id: u32,
        fit: impl Fn(&Tree, u32, u32) -> bool,
    ) -> Option<(u32, u32)> {
        let node = self.inners.at(self.parent(floor, id));
        let at = node.position(id);
        let before = at.checked_sub(1).map(|before| (node.children[before], id));
        let behind = node.children.get(at + 1).map(|behind| (id, *behind));
        [before, behind].into_iter().flatten().find(|(left, right)| fit(self, *left, *right))
    }

    #[cold]
    fn merge_leaves(&mut self, left: u32, right: u32) {
        let node = std::mem::take(self.leaves.at_mut(right));
        for entry in node.entries(0, node.len()) {
            self.index.repoint(Hash::of(entry.member), right, left);
        }
        self.with_leaf(left, |leaf| leaf.append(&node));
        let parent = self.inners.at_mut(node.parent);
        let (to, from) = (parent.position(left), parent.position(right));
        parent.counts[to] += parent.counts[from];
        // Put back, so that it is unlinked like an empty one.
        *self.leaves.at_mut(right) = node;
        self.remove_leaf(right);
    }

    /// Unlinks a leaf whose entries were removed or moved.
    fn remove_leaf(&mut self, id: u32) {
        let node = self.leaves.remove(id);
        self.leaf_bytes -= node.heap_bytes();
        match node.previous {
            NONE => self.first = node.next,
            before => self.leaves.at_mut(before).next = node.next,
        }
        match node.next {
            NONE => self.last = node.previous,
            behind => self.leaves.at_mut(behind).previous = node.previous,
        }
        self.detach(1, node.parent, id);
    }

    /// Removes a child of a node on `floor`, and restores the node's invariants.
    fn detach(&mut self, floor: u32, id: u32, child: u32) {
        let node = self.inners.at_mut(id);
        let at = node.position(child);
        node.remove(at);
        let (count, parent) = (node.len(), node.parent);
        if parent == NONE {
            return self.lower_root();
        }
        if count == 0 {
            self.inners.remove(id);
            self.inner_count -= 1;
            return self.detach(floor + 1, parent, id);
        }
        if count >= FEW {
            return;
        }
        let fit = |tree: &Tree, left: u32, right: u32| {
            tree.inners.at(left).len() + tree.inners.at(right).len() <= MERGED
        };
        if let Some((left, right)) = self.neighbours(floor, id, fit) {
            self.merge_inners(floor, left, right);
        }
    }

    #[cold]
    fn merge_inners(&mut self, floor: u32, left: u32, right: u32) {
        let mut node = self.inners.remove(right);
        self.inner_count -= 1;
        let parent = self.inners.at_mut(node.parent);
        let (to, from) = (parent.position(left), parent.position(right));
        parent.counts[to] += parent.counts[from];
        let fence = parent.fences[from];
        let above = node.parent;
        self.inners.at_mut(left).append(&mut node, fence);
        self.adopt(floor, left);
        self.detach(floor + 1, above, right);
    }

    /// Replaces a root with one child by that child.
    fn lower_root(&mut self) {
        while self.height > 0 && self.inners.at(self.root).len() == 1 {
            let node = self.inners.remove(self.root);
            self.inner_count -= 1;
            self.height -= 1;
            self.root = node.children[0];
            self.set_parent(self.height, self.root, NONE);
        }
    }
}
