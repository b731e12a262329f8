//! Things ordered by an id, in chunks: adding at the end and removing from the front cost next to
//! nothing, and only one chunk is ever moved.
//!
//! ```text
//! chunks:  [ 1 4 5 8 ... ]  [ 90 91 95 ... ]  [ 120 121 ]
//! ```
//!
//! Invariants
//! 1. No chunk is empty or holds more than [`CHUNK`] things.
//! 2. Ids ascend strictly, within chunks and from one to the next.
//!
//! Twice as dense as a B tree that is filled in order, because chunks are filled to the end.
//! Tests: at the foot of the file.

use std::collections::VecDeque;

use super::id::StreamId;

/// The most things in a chunk.
pub(super) const CHUNK: usize = 64;

/// A thing with an id that does not change while it is stored.
pub trait Keyed {
    /// The id.
    fn id(&self) -> StreamId;
}

impl Keyed for StreamId {
    fn id(&self) -> StreamId {
        *self
    }
}

/// Things ordered by id, in chunks.
#[derive(Clone, Debug)]
pub struct Sorted<T> {
    chunks: VecDeque<Vec<T>>,
    len: usize,
}

impl<T> Default for Sorted<T> {
    fn default() -> Self {
        Sorted { chunks: VecDeque::new(), len: 0 }
    }
}

/// A position: before a thing, or at the end.
type Place = (usize, usize);

impl<T: Keyed> Sorted<T> {
    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Allocated bytes, without what the things own.
    pub fn heap_bytes(&self) -> usize {
        let things: usize = match (self.chunks.back(), self.chunks.len()) {
            (None, _) => 0,
            (Some(last), count) => (count - 1) * CHUNK.min(self.len) + last.capacity(),
        };
        things * size_of::<T>() + self.chunks.capacity() * size_of::<Vec<T>>()
    }

    /// Mutable access to the things of a chunk, whose ids must not change; `None`: there is no such
    /// chunk.
    pub fn chunk_mut(&mut self, number: usize) -> Option<&mut [T]> {
        self.chunks.get_mut(number).map(Vec::as_mut_slice)
    }

    /// The first thing whose id is not below this one.
    #[inline]
    fn place(&self, id: StreamId) -> Place {
        // Most lookups are about the newest.
        if let Some(last) = self.chunks.back()
            && let Some(first) = last.first()
            && first.id() <= id
        {
            return (self.chunks.len() - 1, last.partition_point(|thing| thing.id() < id));
        }
        let behind = |chunk: &Vec<T>| chunk.first().is_some_and(|first| first.id() <= id);
        let chunk = self.chunks.partition_point(behind).saturating_sub(1);
        let Some(things) = self.chunks.get(chunk) else { return (0, 0) };
        self.tidy((chunk, things.partition_point(|thing| thing.id() < id)))
    }

    /// Normalises a place: the end of a chunk becomes the start of the next.
    fn tidy(&self, (chunk, at): Place) -> Place {
        match self.chunks.get(chunk) {
            Some(things) if at == things.len() && chunk + 1 < self.chunks.len() => (chunk + 1, 0),
            _ => (chunk, at),
        }
    }

    fn at(&self, (chunk, at): Place) -> Option<&T> {
        self.chunks.get(chunk)?.get(at)
    }

    /// The thing with this id.
    #[inline]
    pub fn get(&self, id: StreamId) -> Option<&T> {
        self.at(self.place(id)).filter(|thing| thing.id() == id)
    }

    /// Mutable access to the thing with this id.
    #[inline]
    pub fn get_mut(&mut self, id: StreamId) -> Option<&mut T> {
        let (chunk, at) = self.place(id);
        self.chunks.get_mut(chunk)?.get_mut(at).filter(|thing| thing.id() == id)
    }

    /// The last thing whose id is not above this one.
    #[inline]
    pub fn at_most(&self, id: StreamId) -> Option<&T> {
        self.at(self.at_most_place(id)?)
    }

    /// Mutable access to the last thing whose id is not above this one.
    pub fn at_most_mut(&mut self, id: StreamId) -> Option<&mut T> {
        let (chunk, at) = self.at_most_place(id)?;
        self.chunks.get_mut(chunk)?.get_mut(at)
    }

    fn at_most_place(&self, id: StreamId) -> Option<Place> {
        let (chunk, at) = self.place(id);
        if self.at((chunk, at)).is_some_and(|thing| thing.id() == id) {
            return Some((chunk, at));
        }
        match at.checked_sub(1) {
            Some(at) => Some((chunk, at)),
            None => Some((chunk.checked_sub(1)?, self.chunks[chunk - 1].len() - 1)),
        }
    }

    /// The first thing.
    pub fn first(&self) -> Option<&T> {
        self.chunks.front()?.first()
    }

    /// Mutable access to the first thing.
    pub fn first_mut(&mut self) -> Option<&mut T> {
        self.chunks.front_mut()?.first_mut()
    }

    /// Mutable access to the last thing.
    #[inline]
    pub fn last_mut(&mut self) -> Option<&mut T> {
        self.chunks.back_mut()?.last_mut()
    }

    /// The last thing.
    pub fn last(&self) -> Option<&T> {
        self.chunks.back()?.last()
    }

    /// Appends a thing, whose id is above all others.
    #[inline]
    pub fn push(&mut self, thing: T) {
        debug_assert!(self.last().is_none_or(|last| last.id() < thing.id()));
        self.len += 1;
        match self.chunks.back_mut() {
            Some(last) if last.len() < CHUNK => last.push(thing),
            Some(_) => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(thing);
                self.chunks.push_back(chunk);
            }
            None => self.chunks.push_back(vec![thing]),
        }
    }

    /// Adds a thing, or replaces the thing with its id, which is returned.
    pub fn insert(&mut self, thing: T) -> Option<T> {
        let id = thing.id();
        if self.last().is_none_or(|last| last.id() < id) {
            self.push(thing);
            return None;
        }
        let (mut chunk, mut at) = self.place(id);
        let things = self.chunks.get_mut(chunk)?;
        if let Some(same) = things.get_mut(at).filter(|other| other.id() == id) {
            return Some(std::mem::replace(same, thing));
        }
        if things.len() == CHUNK {
            let tail = things.split_off(CHUNK / 2);
            self.chunks.insert(chunk + 1, tail);
            if at > CHUNK / 2 {
                (chunk, at) = (chunk + 1, at - CHUNK / 2);
            }
        }
        self.chunks[chunk].insert(at, thing);
        self.len += 1;
        None
    }

    /// Removes the thing with this id.
    pub fn remove(&mut self, id: StreamId) -> Option<T> {
        let (chunk, at) = self.place(id);
        self.at((chunk, at)).filter(|thing| thing.id() == id)?;
        Some(self.take((chunk, at)))
    }

    /// Removes the first thing.
    pub fn pop_first(&mut self) -> Option<T> {
        (self.len > 0).then(|| self.take((0, 0)))
    }

    /// Removes the last thing.
    pub fn pop_last(&mut self) -> Option<T> {
        let chunk = self.chunks.len().checked_sub(1)?;
        Some(self.take((chunk, self.chunks[chunk].len() - 1)))
    }

    fn take(&mut self, (chunk, at): Place) -> T {
        self.len -= 1;
        let things = &mut self.chunks[chunk];
        let thing = things.remove(at);
        let left = things.len();
        if left == 0 {
            self.chunks.remove(chunk);
        } else if left <= CHUNK / 4 && chunk > 0 && chunk + 1 < self.chunks.len() {
            self.merge(chunk);
        }
        thing
    }

    /// Joins a sparse chunk in the middle with the chunk before it, if both fit in half a chunk.
    fn merge(&mut self, chunk: usize) {
        if self.chunks[chunk - 1].len() + self.chunks[chunk].len() <= CHUNK / 2 {
            let tail = self.chunks.remove(chunk).unwrap_or_default();
            self.chunks[chunk - 1].extend(tail);
        }
    }

    /// All things, from the front.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.chunks.iter().flatten()
    }

    /// The things from this id on.
    pub fn iter_from(&self, id: StreamId) -> From<'_, T> {
        From { sorted: self, place: self.place(id) }
    }

    /// The things from the last one whose id is not above this one on; all, if there is none.
    #[inline]
    pub fn iter_around(&self, id: StreamId) -> From<'_, T> {
        From { sorted: self, place: self.at_most_place(id).unwrap_or((0, 0)) }
    }

    /// The approximate number of ids below this one, to the nearest chunk.
    pub fn count_below(&self, id: StreamId) -> usize {
        let (chunk, at) = self.place(id);
        (chunk * CHUNK + at).min(self.len)
    }

    /// The things up to this id, from the end.
    pub fn iter_back(&self, id: StreamId) -> Back<'_, T> {
        Back { sorted: self, place: self.at_most_place(id) }
    }
}

/// An iterator over the things from an id on, see [`Sorted::iter_from`].
#[derive(Debug)]
pub struct From<'a, T> {
    sorted: &'a Sorted<T>,
    place: Place,
}

impl<'a, T: Keyed> Iterator for From<'a, T> {
    type Item = &'a T;

    #[inline]
    fn next(&mut self) -> Option<&'a T> {
        let found = self.sorted.at(self.place)?;
        self.place = self.sorted.tidy((self.place.0, self.place.1 + 1));
        Some(found)
    }
}

/// An iterator towards the front, see [`Sorted::iter_back`].
#[derive(Debug)]
pub struct Back<'a, T> {
    sorted: &'a Sorted<T>,
    place: Option<Place>,
}

impl<'a, T: Keyed> Iterator for Back<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        let (chunk, at) = self.place?;
        let found = self.sorted.at((chunk, at))?;
        self.place = match at.checked_sub(1) {
            Some(at) => Some((chunk, at)),
            None => chunk.checked_sub(1).map(|chunk| (chunk, self.sorted.chunks[chunk].len() - 1)),
        };
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantala_base::rng::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn it_does_what_a_tree_does() {
        for seed in 0..10 {
            let mut random = Rng::from_seed(seed);
            let (mut sorted, mut model) = (Sorted::default(), BTreeSet::new());
            for round in 0..6000 {
                let grows = (round / 1000) % 2 == 0;
                step(&mut random, grows, &mut sorted, &mut model);
                assert_eq!(sorted.len(), model.len());
            }
            let all: Vec<StreamId> = sorted.iter().copied().collect();
            assert_eq!(all, model.iter().copied().collect::<Vec<_>>());
            assert!(sorted.chunks.iter().all(|chunk| (1..=CHUNK).contains(&chunk.len())));
        }
    }

    fn step(
        random: &mut Rng,
        grows: bool,
        sorted: &mut Sorted<StreamId>,
        model: &mut BTreeSet<StreamId>,
    ) {
        let id = StreamId::new(random.below(1000), random.below(2));
        match random.below(if grows { 6 } else { 12 }) {
            0 => {
                let last = model.last().copied().unwrap_or_default();
                let id = StreamId::new(last.ms + 1, 0);
                sorted.push(id);
                model.insert(id);
            }
            1 | 2 => assert_eq!(sorted.insert(id).is_none(), model.insert(id)),
            3 => {
                let found: Vec<_> = sorted.iter_from(id).take(70).copied().collect();
                assert_eq!(found, model.range(id..).take(70).copied().collect::<Vec<_>>());
            }
            4 => {
                let found: Vec<_> = sorted.iter_back(id).take(70).copied().collect();
                assert_eq!(found, model.range(..=id).rev().take(70).copied().collect::<Vec<_>>());
                assert_eq!(sorted.get(id), model.get(&id));
                let below = model.range(..=id).next_back().copied();
                assert_eq!(sorted.at_most_mut(id).copied(), below);
            }
            5 | 6 => assert_eq!(sorted.pop_first(), model.pop_first()),
            7 => assert_eq!(sorted.pop_last(), model.pop_last()),
            _ => assert_eq!(sorted.remove(id).is_some(), model.remove(&id)),
        }
    }
}
