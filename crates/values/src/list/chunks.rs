//! Chunks in order, found by their own number or by that of an element.
//!
//! ```text
//! groups:  [ 128 chunks, 46,000 elements ] [ 97 chunks, ... ] ...
//! chunks:    [packed, 372] [packed, 371] ...
//! ```
//!
//! Two levels of counts: ten million elements of 20 bytes make some 27,000 chunks in 210 groups, so
//! an element in the middle is found by adding a few hundred numbers, and inserting a chunk moves
//! at most [`GROUP_CHUNKS`] others.
//!
//! Chunks farther from both ends than [`PLAIN_CHUNKS`] are stored in less space, as the list grows.
//! Where chunks are limited in bytes, they are folded into *blocks* of one allocation size, so that
//! no part of an allocation is wasted; elements beyond a full block wait, plain, for the next
//! chunk:
//!
//! ```text
//! head | plain | plain | block | block | block | rest | plain | plain | tail, which grows
//! ```
//!
//! A chunk of the middle that is changed becomes plain, and stays so. With `list-compress-depth`
//! the chunks beyond that depth are compressed where this pays, and folded where it does not.
//!
//! Invariants
//! 1. No chunk and no group is empty; a group has at most [`GROUP_CHUNKS`] chunks.
//! 2. The counts of a chunk, a group and the whole are right between two calls.
//! 3. Near the ends of a list chunks are divided at the sizes at which Redis divides them (OBJECT
//!    ENCODING shows when one is left); a block may hold a little more or less.
//!
//! Not here: what fits into a chunk, its forms. Tests: at the foot.

use std::collections::VecDeque;

use pantala_table::Renewal;
use smallvec::SmallVec;

use super::End;
use super::chunk::Chunk;
use super::fill::Fill;
use super::folded::{FoldOutcome, FoldedList};
use crate::packed::{Packed, View};

/// The most chunks of a group.
const GROUP_CHUNKS: usize = 128;
/// How many chunks at each end are not folded, so that pushes and pops there cost nothing more.
const PLAIN_CHUNKS: usize = 2;
/// Plain elements of more blocks than this do not wait to be folded: they could not be folded.
const MOST_WAITING_BLOCKS: usize = 3;

#[derive(Clone, Debug, Default)]
struct Group {
    chunks: VecDeque<Chunk>,
    elements: usize,
}

/// The chunks of a list in order, in groups with counts.
#[derive(Clone, Debug, Default)]
pub struct Chunks {
    groups: VecDeque<Group>,
    chunks: usize,
    elements: usize,
    packed_bytes: usize,
}

impl Chunks {
    /// How many chunks.
    #[inline]
    pub fn len(&self) -> usize {
        self.chunks
    }

    /// How many elements in all of them.
    #[inline]
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// Allocated bytes, approximately.
    pub fn heap_bytes(&self) -> usize {
        self.packed_bytes
            + self.chunks * size_of::<Chunk>()
            + self.groups.len() * size_of::<Group>()
    }

    /// Reallocates chunks that lie in sparse pages: see [`pantala_table::Object::renew`].
    pub fn renew(&mut self, from: usize, most: usize, renewal: &mut Renewal<'_>) -> Option<usize> {
        let end = from.saturating_add(most);
        for index in from..end.min(self.chunks) {
            let (group, place) = self.place(index);
            self.groups[group].chunks[place].renew(renewal);
        }
        (end < self.chunks).then_some(end)
    }

    /// Group of an existing chunk, and its index there.
    #[inline]
    fn place(&self, index: usize) -> (usize, usize) {
        debug_assert!(index < self.chunks, "chunk {index} of {}", self.chunks);
        if index <= self.chunks / 2 {
            let mut rest = index;
            for (number, group) in self.groups.iter().enumerate() {
                match rest.checked_sub(group.chunks.len()) {
                    Some(left) => rest = left,
                    None => return (number, rest),
                }
            }
        }
        let mut rest = self.chunks - index;
        for (number, group) in self.groups.iter().enumerate().rev() {
            match rest.checked_sub(group.chunks.len()) {
                Some(left) if left > 0 => rest = left,
                _ => return (number, group.chunks.len() - rest),
            }
        }
        (0, 0)
    }

    /// The chunk with this number, which must exist.
    #[inline]
    pub fn get(&self, index: usize) -> &Chunk {
        let (group, place) = self.place(index);
        &self.groups[group].chunks[place]
    }

    /// The chunk that holds this element, which must exist, and the element's index in it.
    pub fn locate(&self, element: usize) -> (usize, usize) {
        let (mut index, mut rest) = (0, element);
        if element <= self.elements / 2 {
            for group in &self.groups {
                if rest < group.elements {
                    let (place, rest) = group.locate(rest);
                    return (index + place, rest);
                }
                rest -= group.elements;
                index += group.chunks.len();
            }
        }
        index = self.chunks;
        let mut behind = self.elements - element;
        for group in self.groups.iter().rev() {
            index -= group.chunks.len();
            if behind <= group.elements {
                let (place, rest) = group.locate(group.elements - behind);
                return (index + place, rest);
            }
            behind -= group.elements;
        }
        (0, 0)
    }

    /// Chunks from one on, towards the end.
    pub fn iter_from(&self, index: usize) -> impl Iterator<Item = &Chunk> {
        let (group, place) = if index < self.chunks { self.place(index) } else { (0, usize::MAX) };
        let first = self.groups.get(group).into_iter();
        let first = first.flat_map(move |group| group.chunks.iter().skip(place));
        let others = if index < self.chunks { group + 1 } else { self.groups.len() };
        let others = self.groups.range(others..).flat_map(|group| &group.chunks);
        first.chain(others)
    }

    /// Chunks from one on, towards the start.
    pub fn iter_back_from(&self, index: usize) -> impl Iterator<Item = &Chunk> {
        let (group, place) = self.place(index);
        let first = self.groups.get(group).into_iter();
        let first = first.flat_map(move |group| group.chunks.range(..=place).rev());
        let others = self.groups.range(..group).rev().flat_map(|group| group.chunks.iter().rev());
        first.chain(others)
    }

    /// Changes an existing chunk, and removes it if it became empty. Returns whether it was
    /// removed.
    #[inline]
    pub fn change(&mut self, index: usize, change: impl FnOnce(&mut Packed)) -> bool {
        let (group_number, place) = self.place(index);
        let group = &mut self.groups[group_number];
        let chunk = &mut group.chunks[place];
        let (len, bytes) = (chunk.len(), chunk.heap_bytes());
        chunk.change(change);
        group.elements = group.elements - len + chunk.len();
        self.elements = self.elements - len + chunk.len();
        self.packed_bytes = self.packed_bytes - bytes + chunk.heap_bytes();
        let is_empty = chunk.len() == 0;
        if is_empty {
            self.remove_at(group_number, place);
        }
        is_empty
    }

    /// Inserts a non-empty chunk before the chunk at `index`, or at the end.
    pub fn insert(&mut self, index: usize, packed: Packed) {
        debug_assert!(!packed.is_empty(), "a chunk has elements");
        let chunk = Chunk::new(packed);
        self.chunks += 1;
        self.elements += chunk.len();
        self.packed_bytes += chunk.heap_bytes();
        let (mut number, mut place) = self.slot_for(index);
        if number == self.groups.len() {
            self.groups.push_back(Group::default());
        } else if self.groups[number].chunks.len() == GROUP_CHUNKS {
            (number, place) = self.make_room(number, place);
        }
        let group = &mut self.groups[number];
        group.elements += chunk.len();
        group.chunks.insert(place, chunk);
    }

    /// The place for a chunk that will get this number. `self.chunks` already counts it.
    fn slot_for(&self, index: usize) -> (usize, usize) {
        if self.groups.is_empty() {
            return (0, 0);
        }
        if index + 1 == self.chunks {
            let last = self.groups.len() - 1;
            return (last, self.groups[last].chunks.len());
        }
        let mut rest = index;
        for (number, group) in self.groups.iter().enumerate() {
            if rest <= group.chunks.len() {
                return (number, rest);
            }
            rest -= group.chunks.len();
        }
        (self.groups.len(), 0)
    }

    /// Splits a full group: an empty neighbour at the ends, so that a list that grows there has
    /// full groups, otherwise half of it. Returns where the slot is now.
    fn make_room(&mut self, number: usize, place: usize) -> (usize, usize) {
        if place == GROUP_CHUNKS {
            self.groups.insert(number + 1, Group::default());
            return (number + 1, 0);
        }
        if place == 0 {
            self.groups.insert(number, Group::default());
            return (number, 0);
        }
        let group = &mut self.groups[number];
        let chunks = group.chunks.split_off(GROUP_CHUNKS / 2);
        let elements = chunks.iter().map(Chunk::len).sum();
        group.elements -= elements;
        self.groups.insert(number + 1, Group { chunks, elements });
        match place.checked_sub(GROUP_CHUNKS / 2) {
            Some(place) if place > 0 => (number + 1, place),
            _ => (number, place),
        }
    }

    /// After a chunk was added at an end: compresses or folds the chunk that is not near that end
    /// any more.
    pub fn fold_behind(&mut self, end: End, fill: Fill) {
        let kept = match fill.depth() as usize {
            0 => PLAIN_CHUNKS,
            depth => depth,
        };
        // After the chunk comes the one that was there before.
        let middle = kept..self.chunks.saturating_sub(kept);
        let (near, far) = match end {
            End::Head => (middle.start, Some(middle.start + 1)),
            End::Tail => (middle.end.saturating_sub(1), middle.end.checked_sub(2)),
        };
        // A chunk that was opened and used up at this end has left neighbours that are not plain.
        if !middle.contains(&near) || self.get(near).plain().is_none() {
            return;
        }
        if fill.depth() > 0
            && let Some(compressed) = self.get(near).compressed()
        {
            self.put(near, compressed);
        } else {
            let far = far.filter(|far| middle.contains(far) && fill.block_bytes().is_some());
            self.fold(near, far, end, fill.block_bytes());
        }
    }

    /// Folds a chunk together with its neighbour farther from the end, if that is still plain.
    /// Elements beyond a full block stay plain until the next chunk comes.
    fn fold(&mut self, near: usize, far: Option<usize>, end: End, room: Option<usize>) {
        let most = room.map_or(0, |room| MOST_WAITING_BLOCKS * room);
        let is_waiting = |view: View<'_>| view.bytes().len() <= most;
        let far = far.filter(|far| self.get(*far).plain().is_some_and(is_waiting));
        let Some((block, rest)) = self.folded(near, far, end, room) else { return };
        let rest = (!rest.is_empty()).then(|| Chunk::new(rest));
        match (block, far, rest) {
            (None, None, _) => {}
            (Some(chunk), Some(far), None) | (None, Some(far), Some(chunk)) => {
                self.put(far, chunk);
                self.discard(near);
            }
            (Some(block), Some(far), Some(rest)) => {
                self.put(far, block);
                self.put(near, rest);
            }
            (Some(block), None, rest) => {
                self.put(near, block);
                let beside = near + usize::from(end == End::Tail);
                rest.into_iter().for_each(|rest| self.insert(beside, rest.into_plain()));
            }
            (None, Some(_), None) => unreachable!("the elements are in one of the two"),
        }
    }

    /// A block of the elements of one or two neighbours, if they fill it, and the rest; `None` if
    /// they should not be folded.
    fn folded(
        &self,
        near: usize,
        far: Option<usize>,
        end: End,
        room: Option<usize>,
    ) -> Option<(Option<Chunk>, Packed)> {
        let near = self.get(near).plain();
        let far = far.and_then(|far| self.get(far).plain());
        let in_order = if end == End::Head { [near, far] } else { [far, near] };
        let views: SmallVec<[View<'_>; 2]> = in_order.into_iter().flatten().collect();
        let total: usize = views.iter().map(View::len).sum();
        match FoldedList::fill(&views, end, room) {
            FoldOutcome::No => None,
            FoldOutcome::Waits => Some((None, join(&views, 0, total))),
            FoldOutcome::Done(folded, taken) => {
                let from = if end == End::Head { 0 } else { taken };
                let rest = join(&views, from, total - taken);
                let entries: usize = views.iter().map(|view| view.bytes().len()).sum();
                let block = Chunk::folded(folded, taken, entries - rest.entry_bytes());
                Some((Some(block), rest))
            }
        }
    }

    /// Replaces an existing chunk.
    fn put(&mut self, index: usize, chunk: Chunk) {
        let (group, place) = self.place(index);
        let group = &mut self.groups[group];
        let old = std::mem::replace(&mut group.chunks[place], chunk);
        let new = &group.chunks[place];
        group.elements = group.elements - old.len() + new.len();
        self.elements = self.elements - old.len() + new.len();
        self.packed_bytes = self.packed_bytes - old.heap_bytes() + new.heap_bytes();
    }

    /// After the chunk at an end was used up: makes the next chunk plain, so that taking its
    /// elements one by one is quick; in two halves, if it was folded and is large.
    pub fn open(&mut self, end: End, fill: Fill) {
        let Some(last) = self.chunks.checked_sub(1) else { return };
        let index = if end == End::Head { 0 } else { last };
        if self.get(index).plain().is_some() {
            return;
        }
        let mut tail = Packed::new();
        self.change(index, |packed| {
            if fill.is_exceeded(2 * packed.listpack_bytes(), packed.len()) && packed.len() > 1 {
                let half = packed.view().seek(packed.len() / 2).unwrap_or(0);
                tail = packed.split_off(half);
            }
        });
        if !tail.is_empty() {
            self.insert(index + 1, tail);
        }
    }

    /// Takes a chunk out.
    pub fn remove(&mut self, index: usize) -> Packed {
        let (group, place) = self.place(index);
        match self.remove_at(group, place) {
            Some(chunk) => chunk.into_plain(),
            None => Packed::new(),
        }
    }

    /// Drops a chunk.
    pub fn discard(&mut self, index: usize) {
        let (group, place) = self.place(index);
        self.remove_at(group, place);
    }

    fn remove_at(&mut self, number: usize, place: usize) -> Option<Chunk> {
        let group = &mut self.groups[number];
        let chunk = group.chunks.remove(place)?;
        group.elements -= chunk.len();
        if group.chunks.is_empty() {
            self.groups.remove(number);
        }
        self.chunks -= 1;
        self.elements -= chunk.len();
        self.packed_bytes -= chunk.heap_bytes();
        Some(chunk)
    }
}

impl Group {
    /// The chunk of the group that holds this element, and the element's index in it.
    fn locate(&self, element: usize) -> (usize, usize) {
        let mut rest = element;
        for (place, chunk) in self.chunks.iter().enumerate() {
            match rest.checked_sub(chunk.len()) {
                Some(left) => rest = left,
                None => return (place, rest),
            }
        }
        (0, 0)
    }
}

/// `count` elements of consecutive views, from element `from` on.
fn join(views: &[View<'_>], from: usize, count: usize) -> Packed {
    let (mut skip, mut left) = (from, count);
    let mut joined = Packed::new();
    for view in views {
        let offset = |index: usize| view.seek(index).unwrap_or(view.bytes().len());
        let len = left.min(view.len().saturating_sub(skip));
        if len > 0 {
            let span = &view.bytes()[offset(skip)..offset(skip + len)];
            joined.append(View::new(span, len));
        }
        skip = skip.saturating_sub(view.len());
        left -= len;
    }
    joined
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pantala_base::rng::Rng;

    use super::*;
    use crate::list::ListEnd;
    use crate::packed::Element;

    fn packed(first: i64, len: usize) -> Packed {
        let mut packed = Packed::new();
        for number in 0..len {
            packed.push(Element::Int(first + number as i64));
        }
        packed
    }

    fn numbers(chunk: &Chunk) -> Vec<i64> {
        let mut numbers = Vec::new();
        let _end = chunk.visit(0, ListEnd::Forward, &mut |element| {
            numbers.extend(element.int());
            ControlFlow::Continue(())
        });
        numbers
    }

    fn compare(chunks: &Chunks, model: &[Vec<i64>]) {
        assert_eq!(chunks.len(), model.len());
        assert_eq!(chunks.elements(), model.iter().map(Vec::len).sum());
        let counted: usize = chunks.groups.iter().map(|group| group.elements).sum();
        assert_eq!(counted, chunks.elements());
        assert!(chunks.groups.iter().all(|group| (1..=GROUP_CHUNKS).contains(&group.chunks.len())));
    }

    fn compare_all(chunks: &Chunks, model: &[Vec<i64>], random: &mut Rng) {
        let all: Vec<_> = chunks.iter_from(0).map(numbers).collect();
        assert_eq!(all, model);
        assert_eq!(chunks.iter_from(model.len()).count(), 0);
        let bytes: usize = chunks.iter_from(0).map(|chunk| chunk.heap_bytes()).sum();
        assert_eq!(chunks.packed_bytes, bytes);
        if model.is_empty() {
            return;
        }
        let index = random.below(model.len() as u64) as usize;
        let behind: Vec<_> = chunks.iter_from(index).map(numbers).collect();
        assert_eq!(behind, model[index..]);
        let mut before: Vec<_> = chunks.iter_back_from(index).map(numbers).collect();
        before.reverse();
        assert_eq!(before, model[..=index]);
        let mut element = 0;
        for (index, chunk) in model.iter().enumerate() {
            for rest in 0..chunk.len() {
                assert_eq!(chunks.locate(element), (index, rest));
                element += 1;
            }
        }
    }

    #[test]
    fn it_does_what_a_vec_of_vecs_does() {
        for seed in 0..6 {
            let mut random = Rng::from_seed(seed);
            let (mut chunks, mut model) = (Chunks::default(), Vec::<Vec<i64>>::new());
            for step in 0..2500 {
                let index = match random.below(4) {
                    0 => 0,
                    1 => model.len(),
                    _ => random.below(model.len() as u64 + 1) as usize,
                };
                let grows = if step < 1500 { 7 } else { 2 };
                if random.below(10) < grows {
                    let len = random.below(4) as usize + 1;
                    chunks.insert(index, packed(step, len));
                    model.insert(index, (step..step + len as i64).collect());
                } else if index < model.len() && random.below(2) == 0 {
                    assert_eq!(numbers(&Chunk::new(chunks.remove(index))), model.remove(index));
                } else if index < model.len() {
                    assert_eq!(numbers(chunks.get(index)), model[index]);
                    let gone = chunks.change(index, |packed| packed.remove(0, 1));
                    model[index].remove(0);
                    assert_eq!(gone, model[index].is_empty());
                    model.retain(|chunk| !chunk.is_empty());
                }
                compare(&chunks, &model);
                if step % 100 == 0 {
                    compare_all(&chunks, &model, &mut random);
                }
            }
        }
    }
}
