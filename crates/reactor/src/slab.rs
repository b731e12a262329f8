//! The slots of connections (and of listeners): dense indices, generations, delayed reuse.
//!
//! Invariants
//! 1. A token is valid only while the slot has its generation and occupant.
//! 2. A freed index is not reused before `end_turn`, so that the caller has seen `Closed` before
//!    the index appears in a new token.
//!
//! Tests: below.

use crate::event::Token;

/// Indices must fit 24 bits: `user_data` packs them with a kind and a generation.
pub(crate) const MOST_SLOTS: usize = 1 << 24;

pub(crate) struct Slab<C> {
    slots: Vec<Slot<C>>,
    free: Vec<u32>,
    resting: Vec<u32>,
}

struct Slot<C> {
    generation: u32,
    occupant: Option<C>,
}

impl<C> Slab<C> {
    pub(crate) fn new() -> Slab<C> {
        Slab { slots: Vec::new(), free: Vec::new(), resting: Vec::new() }
    }

    pub(crate) fn insert(&mut self, occupant: C) -> Token {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.occupant = Some(occupant);
            return Token { index, generation: slot.generation };
        }
        assert!(self.slots.len() < MOST_SLOTS, "a process cannot have 2^24 descriptors");
        let index = self.slots.len() as u32;
        self.slots.push(Slot { generation: 0, occupant: Some(occupant) });
        Token { index, generation: 0 }
    }

    #[inline]
    pub(crate) fn get(&mut self, token: Token) -> Option<&mut C> {
        match self.slots.get_mut(token.index as usize) {
            Some(slot) if slot.generation == token.generation => slot.occupant.as_mut(),
            _ => None,
        }
    }

    pub(crate) fn remove(&mut self, token: Token) -> Option<C> {
        let slot = self.slots.get_mut(token.index as usize)?;
        if slot.generation != token.generation {
            return None;
        }
        let occupant = slot.occupant.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.resting.push(token.index);
        Some(occupant)
    }

    /// Ends the turn: indices freed in it may be reused.
    #[inline]
    pub(crate) fn end_turn(&mut self) {
        if !self.resting.is_empty() {
            self.free.append(&mut self.resting);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len() - self.resting.len()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Token, &mut C)> {
        self.slots.iter_mut().enumerate().filter_map(|(index, slot)| {
            let token = Token { index: index as u32, generation: slot.generation };
            slot.occupant.as_mut().map(|occupant| (token, occupant))
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_index_rests_until_the_turn_ends_and_old_tokens_stay_dead() {
        let mut slab = Slab::new();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert("second");
        assert_ne!(first.index, second.index);
        slab.end_turn();
        let third = slab.insert("third");
        assert_eq!(third.index, first.index);
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(third), Some(&mut "third"));
        assert_eq!(slab.len(), 2);
        assert_eq!(slab.iter_mut().count(), 2);
    }
}
