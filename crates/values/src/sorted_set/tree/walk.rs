//! Iterating over entries in both directions, and building a tree from sorted entries.

use super::arena::NONE;
use super::index::{Hash, Index};
use super::inner::{Fence, Inner};
use super::leaf::{Entry, Leaf, MOST_MEMBER_BYTES};
use super::{Tree, TreePosition};

/// How many entries a leaf, and children a node, gets in bulk building: some room is left.
const FILLED: usize = 56;

/// Entries from a spot on, ascending, at most this many.
#[derive(Clone, Debug)]
pub struct Walk<'t> {
    tree: &'t Tree,
    leaf: &'t Leaf,
    at: usize,
    left: usize,
}

impl Tree {
    /// `count` entries from a rank on, upwards.
    pub fn walk(&self, rank: usize, count: usize) -> Walk<'_> {
        let left = count.min(self.len().saturating_sub(rank));
        let spot = if left == 0 { self.start() } else { self.at_rank(rank) };
        Walk { tree: self, leaf: self.leaves.at(spot.leaf), at: spot.at, left }
    }

    /// `count` entries from a spot on, ascending; there must be as many.
    pub fn walk_from(&self, spot: TreePosition, count: usize) -> Walk<'_> {
        Walk { tree: self, leaf: self.leaves.at(spot.leaf), at: spot.at, left: count }
    }

    /// `count` entries from a rank on, downwards.
    pub fn walk_back(&self, rank: usize, count: usize) -> WalkBack<'_> {
        let left = if rank < self.len() { count.min(rank + 1) } else { 0 };
        let spot = if left == 0 { self.start() } else { self.at_rank(rank) };
        WalkBack { tree: self, leaf: self.leaves.at(spot.leaf), at: spot.at + 1, left }
    }

    fn start(&self) -> TreePosition {
        TreePosition { leaf: self.first, at: 0 }
    }
}

impl<'t> Iterator for Walk<'t> {
    type Item = (&'t [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        while self.at == self.leaf.len() {
            if self.leaf.next == NONE {
                return None;
            }
            self.leaf = self.tree.leaves.at(self.leaf.next);
            self.at = 0;
        }
        self.left -= 1;
        self.at += 1;
        Some((self.leaf.member(self.at - 1), self.leaf.score(self.at - 1)))
    }
}

/// Entries from a spot on, descending.
#[derive(Clone, Debug)]
pub struct WalkBack<'t> {
    tree: &'t Tree,
    leaf: &'t Leaf,
    /// The index after the next entry.
    at: usize,
    left: usize,
}

impl<'t> Iterator for WalkBack<'t> {
    type Item = (&'t [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        while self.at == 0 {
            if self.leaf.previous == NONE {
                return None;
            }
            self.leaf = self.tree.leaves.at(self.leaf.previous);
            self.at = self.leaf.len();
        }
        self.left -= 1;
        self.at -= 1;
        Some((self.leaf.member(self.at), self.leaf.score(self.at)))
    }
}

/// Builds a tree from sorted entries in linear time.
struct Builder {
    tree: Tree,
    /// Nodes of the current level, which has none above it yet: number, entries, start.
    floor: Vec<(u32, u64, Fence)>,
}

impl Tree {
    /// A tree of sorted entries without duplicates.
    pub fn of_sorted(entries: &[(&[u8], f64)]) -> Tree {
        let mut builder = Builder::new(entries.len());
        let mut rest = entries;
        while let Some(first) = rest.first() {
            let mut bytes = first.0.len();
            let fits = rest[1..].iter().take(FILLED - 1).take_while(|(member, _)| {
                bytes += member.len();
                bytes <= MOST_MEMBER_BYTES
            });
            let (leaf, behind) = rest.split_at(1 + fits.count());
            builder.push_leaf(leaf);
            rest = behind;
        }
        builder.finish()
    }
}

impl Builder {
    fn new(count: usize) -> Builder {
        let mut tree = Tree { index: Index::with_room(count), ..Tree::default() };
        tree.leaves.remove(tree.root);
        (tree.first, tree.last) = (NONE, NONE);
        Builder { tree, floor: Vec::with_capacity(count / FILLED + 1) }
    }

    fn push_leaf(&mut self, entries: &[(&[u8], f64)]) {
        let tree = &mut self.tree;
        let marked: Vec<(Hash, &[u8], f64)> =
            entries.iter().map(|(member, score)| (Hash::of(member), *member, *score)).collect();
        let entry =
            |&(hash, member, score): &(Hash, _, _)| Entry { mark: Hash::mark(hash), score, member };
        let mut leaf = Leaf::of(marked.iter().map(entry));
        leaf.previous = tree.last;
        tree.leaf_bytes += leaf.heap_bytes();
        tree.len += marked.len();
        let id = tree.leaves.add(leaf);
        match tree.last {
            NONE => tree.first = id,
            last => tree.leaves.at_mut(last).next = id,
        }
        tree.last = id;
        marked.iter().for_each(|(hash, _, _)| tree.index.insert(*hash, id));
        let (_, member, score) = marked[0];
        self.floor.push((id, marked.len() as u64, Fence::of(score, member)));
    }

    fn finish(mut self) -> Tree {
        if self.floor.is_empty() {
            return Tree::default();
        }
        let mut height = 0;
        while self.floor.len() > 1 {
            self.floor = self.next_floor(height);
            height += 1;
        }
        self.tree.root = self.floor[0].0;
        self.tree.height = height;
        self.tree
    }

    /// Builds the level of inner nodes above a level.
    fn next_floor(&mut self, floor: u32) -> Vec<(u32, u64, Fence)> {
        let mut above = Vec::with_capacity(self.floor.len() / FILLED + 1);
        for children in self.floor.chunks(FILLED) {
            let node = Inner {
                parent: NONE,
                children: children.iter().map(|(id, _, _)| *id).collect(),
                counts: children.iter().map(|(_, count, _)| *count).collect(),
                fences: children.iter().map(|(_, _, fence)| *fence).collect(),
            };
            let (count, fence) = (node.total(), node.fences[0]);
            self.tree.inner_count += 1;
            let id = self.tree.inners.add(node);
            for (child, _, _) in children {
                if floor == 0 {
                    self.tree.leaves.at_mut(*child).parent = id;
                } else {
                    self.tree.inners.at_mut(*child).parent = id;
                }
            }
            above.push((id, count, fence));
        }
        above
    }
}
