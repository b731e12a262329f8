//! Nodes by number: a reference to a node takes four bytes, and a node never moves.
//!
//! 1. Nodes lie in blocks of [`BLOCK`], so adding one never moves all of them.
//! 2. The number of a removed node is reused before a new one.
//!
//! Tests: the tree's.

/// Nodes in a block.
const BLOCK: usize = 128;

/// The number that stands for no node.
pub const NONE: u32 = u32::MAX;

/// Nodes of type `T`, addressed by number.
#[derive(Clone, Debug)]
pub struct Arena<T> {
    blocks: Vec<Vec<T>>,
    free: Vec<u32>,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Arena { blocks: Vec::new(), free: Vec::new() }
    }
}

impl<T: Default> Arena<T> {
    /// Adds a node; returns its number.
    pub fn add(&mut self, node: T) -> u32 {
        if let Some(id) = self.free.pop() {
            *self.at_mut(id) = node;
            return id;
        }
        if self.blocks.last().is_none_or(|block| block.len() == BLOCK) {
            self.blocks.push(Vec::new());
        }
        let full = (self.blocks.len() - 1) * BLOCK;
        let block = self.blocks.last_mut().expect("one was pushed if there was none");
        block.push(node);
        u32::try_from(full + block.len() - 1).expect("memory ends before 2^32 nodes")
    }

    /// Removes a node.
    pub fn remove(&mut self, id: u32) -> T {
        self.free.push(id);
        std::mem::take(self.at_mut(id))
    }

    /// The node with this number, which must have been given out.
    #[inline]
    pub fn at(&self, id: u32) -> &T {
        &self.blocks[id as usize / BLOCK][id as usize % BLOCK]
    }

    /// Mutable access to the node with this number, which must have been given out.
    #[inline]
    pub fn at_mut(&mut self, id: u32) -> &mut T {
        &mut self.blocks[id as usize / BLOCK][id as usize % BLOCK]
    }

    /// How many numbers were given out.
    pub fn numbers(&self) -> usize {
        self.blocks.iter().map(Vec::len).sum()
    }

    /// Allocated bytes, without what the nodes own.
    pub fn heap_bytes(&self) -> usize {
        let per_block = self.blocks.first().map_or(0, Vec::capacity) * size_of::<T>();
        self.blocks.len() * (per_block + size_of::<Vec<T>>()) + 4 * self.free.capacity()
    }
}
