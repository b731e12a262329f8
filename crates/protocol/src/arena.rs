//! A store that only grows and hands out slices with its own lifetime, for the unescaped arguments
//! of quoted inline commands, which have no bytes of their own in the input.
//!
//! 1. `used` slots are filled, in order; a filled slot never changes while the arena is borrowed.
//! 2. Chunk n has `FIRST_CHUNK_SLOTS` x 2^n slots, so finding the next slot takes logarithmic time.
//!
//! An empty arena owns no memory: connections that never quote pay nothing.

use std::cell::{Cell, OnceCell};

const FIRST_CHUNK_SLOTS: usize = 8;

/// Owns byte strings; to be `reset` between batches.
#[derive(Debug, Default)]
pub struct Arena {
    used: Cell<usize>,
    first: OnceCell<Box<Chunk>>,
}

#[derive(Debug)]
struct Chunk {
    slots: Box<[OnceCell<Vec<u8>>]>,
    next: OnceCell<Box<Chunk>>,
}

impl Chunk {
    fn new(slot_count: usize) -> Box<Chunk> {
        let slots = (0..slot_count).map(|_| OnceCell::new()).collect();
        Box::new(Chunk { slots, next: OnceCell::new() })
    }
}

impl Arena {
    /// An empty store.
    pub const fn new() -> Arena {
        Arena { used: Cell::new(0), first: OnceCell::new() }
    }

    /// Keeps `bytes` and returns them, borrowed.
    pub fn keep(&self, bytes: Vec<u8>) -> &[u8] {
        let mut index = self.used.get();
        self.used.set(index + 1);
        let mut chunk = self.first.get_or_init(|| Chunk::new(FIRST_CHUNK_SLOTS));
        while index >= chunk.slots.len() {
            index -= chunk.slots.len();
            chunk = chunk.next.get_or_init(|| Chunk::new(2 * chunk.slots.len()));
        }
        chunk.slots[index].get_or_init(|| bytes)
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        if self.used.get() > 0 {
            *self = Arena::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_stay_while_more_come() {
        let mut arena = Arena::new();
        let kept: Vec<&[u8]> =
            (0..1000).map(|i: u32| arena.keep(i.to_string().into_bytes())).collect();
        for (i, bytes) in kept.iter().enumerate() {
            assert_eq!(*bytes, i.to_string().as_bytes());
        }
        arena.reset();
        assert_eq!(arena.keep(b"again".to_vec()), b"again");
    }
}
