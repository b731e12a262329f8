//! Chunks in order, found by their own number or by that of an element.
//!
//! ```text
//! groups:  [ 128 chunks, 46,000 elements ] [ 97 chunks, ... ] ...
//! chunks:    [packed, 372] [packed, 371] ...
//! ```
//!
//! Two levels of counts: with ten million elements of 20 bytes there are some 27,000 chunks in 210
//! groups, so the middle is found by adding a few hundred numbers, and a chunk that is put in
//! between moves at most [`GROUP_CHUNKS`] others.
//!
//! Chunks that lie farther from both ends than [`PLAIN_CHUNKS`] may be folded to take less room,
//! which a list does as it grows there. Who changes one gets it unfolded, and so it stays.
//!
//! Invariants
//! 1. No chunk and no group is empty; a group has at most [`GROUP_CHUNKS`] chunks.
//! 2. The counts of a chunk, a group and the whole are right between two calls.
//! 3. A folded chunk has at least two elements.
//!
//! Not here: what fits into a chunk. Tests: at the foot.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use super::folded::Folded;
use super::{Way, find_in, visit_view};
use crate::packed::{Element, Packed, View};

/// Chunks of a group.
const GROUP_CHUNKS: usize = 128;
/// So many chunks at each end are not folded: what comes and goes there costs nothing more.
const PLAIN_CHUNKS: usize = 2;

/// Elements, and their counts beside the pointer so that counting does not touch them.
#[derive(Clone, Debug)]
pub struct Chunk {
    store: Store,
    len: u32,
    entry_bytes: u32,
    heap_bytes: u32,
}

#[derive(Clone, Debug)]
enum Store {
    Plain(Packed),
    Folded(Folded),
}

impl Chunk {
    fn new(packed: Packed) -> Chunk {
        let mut chunk =
            Chunk { store: Store::Plain(packed), len: 0, entry_bytes: 0, heap_bytes: 0 };
        chunk.count();
        chunk
    }

    /// Takes the counts anew.
    #[inline]
    fn count(&mut self) {
        match &self.store {
            Store::Plain(packed) => {
                self.len = packed.len() as u32;
                self.entry_bytes = packed.entry_bytes() as u32;
                self.heap_bytes = packed.heap_bytes() as u32;
            }
            Store::Folded(folded) => self.heap_bytes = folded.heap_bytes() as u32,
        }
    }

    /// How many elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Bytes of the entries when they are not folded.
    #[inline]
    pub fn entry_bytes(&self) -> usize {
        self.entry_bytes as usize
    }

    /// The only element.
    pub fn only(&self) -> Option<Element<'_>> {
        match &self.store {
            Store::Plain(packed) if self.len == 1 => Some(packed.view().at(0)),
            _ => None,
        }
    }

    /// Shows an element that is there.
    pub fn at<R>(&self, index: usize, show: impl FnOnce(Element<'_>) -> R) -> Option<R> {
        match &self.store {
            Store::Plain(packed) => {
                let view = packed.view();
                view.seek(index).map(|offset| show(view.at(offset)))
            }
            Store::Folded(folded) => Some(folded.at(index, show)),
        }
    }

    /// Shows elements from one that is there on, until told to stop.
    pub fn visit(
        &self,
        from: usize,
        way: Way,
        show: &mut dyn FnMut(Element<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match &self.store {
            Store::Plain(packed) => visit_view(packed.view(), from, way, show),
            Store::Folded(folded) => folded.visit(from, way, show),
        }
    }

    /// Shows its elements as packed entries.
    pub fn show(&self, show: &mut dyn FnMut(View<'_>)) {
        match &self.store {
            Store::Plain(packed) => show(packed.view()),
            Store::Folded(folded) => show(folded.unfold().view()),
        }
    }

    /// The place of the first element equal to this one, whose entry is given too.
    pub fn find(&self, wanted: Element<'_>, entry: &[u8]) -> Option<usize> {
        match (&self.store, wanted) {
            (Store::Plain(packed), _) => find_in(packed.view(), entry),
            (Store::Folded(folded), Element::Bytes(text)) => folded.find(text),
            (Store::Folded(_), Element::Int(_)) => None,
        }
    }

    fn fold(&mut self) {
        if let Store::Plain(packed) = &self.store
            && self.len > 1
            && let Some(folded) = Folded::of(packed)
        {
            self.store = Store::Folded(folded);
            self.count();
        }
    }

    /// The elements as they are changed.
    #[inline]
    fn plain(&mut self) -> &mut Packed {
        if let Store::Folded(folded) = &self.store {
            self.store = Store::Plain(folded.unfold());
        }
        match &mut self.store {
            Store::Plain(packed) => packed,
            Store::Folded(_) => unreachable!("it was unfolded"),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Group {
    chunks: VecDeque<Chunk>,
    elements: usize,
}

/// See the module.
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

    /// Allocated bytes, nearly.
    pub fn heap_bytes(&self) -> usize {
        self.packed_bytes
            + self.chunks * size_of::<Chunk>()
            + self.groups.len() * size_of::<Group>()
    }

    /// Group and place in it of a chunk that is there.
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

    /// A chunk that is there.
    #[inline]
    pub fn get(&self, index: usize) -> &Chunk {
        let (group, place) = self.place(index);
        &self.groups[group].chunks[place]
    }

    /// The chunk with this element, and how many elements of the chunk stand before it. The
    /// element is there.
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

    /// Changes a chunk that is there. One that became empty is taken out; whether it was.
    #[inline]
    pub fn change(&mut self, index: usize, change: impl FnOnce(&mut Packed)) -> bool {
        let (group_number, place) = self.place(index);
        let group = &mut self.groups[group_number];
        let chunk = &mut group.chunks[place];
        let (len, bytes) = (chunk.len as usize, chunk.heap_bytes as usize);
        change(chunk.plain());
        chunk.count();
        group.elements = group.elements - len + chunk.len as usize;
        self.elements = self.elements - len + chunk.len as usize;
        self.packed_bytes = self.packed_bytes - bytes + chunk.heap_bytes as usize;
        let is_empty = chunk.len == 0;
        if is_empty {
            self.remove_at(group_number, place);
        }
        is_empty
    }

    /// Puts a chunk, which is not empty, before the one at `index` or at the end.
    pub fn insert(&mut self, index: usize, packed: Packed) {
        debug_assert!(!packed.is_empty(), "a chunk has elements");
        let chunk = Chunk::new(packed);
        self.chunks += 1;
        self.elements += chunk.len as usize;
        self.packed_bytes += chunk.heap_bytes as usize;
        let (mut number, mut place) = self.slot_for(index);
        if number == self.groups.len() {
            self.groups.push_back(Group::default());
        } else if self.groups[number].chunks.len() == GROUP_CHUNKS {
            (number, place) = self.make_room(number, place);
        }
        let group = &mut self.groups[number];
        group.elements += chunk.len as usize;
        group.chunks.insert(place, chunk);
    }

    /// Where a chunk that is to get this number goes. `self.chunks` counts it already.
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

    /// A full group gets a neighbour: an empty one at the ends, so that a list that grows there has
    /// full groups, and half of it in between. Where the slot is now.
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
        let elements = chunks.iter().map(|chunk| chunk.len as usize).sum();
        group.elements -= elements;
        self.groups.insert(number + 1, Group { chunks, elements });
        match place.checked_sub(GROUP_CHUNKS / 2) {
            Some(place) if place > 0 => (number + 1, place),
            _ => (number, place),
        }
    }

    /// After a chunk was put at an end: folds the one that is not near it any more.
    pub fn fold_behind(&mut self, is_head: bool) {
        if self.chunks <= 2 * PLAIN_CHUNKS {
            return;
        }
        let index = if is_head { PLAIN_CHUNKS } else { self.chunks - 1 - PLAIN_CHUNKS };
        let (group, place) = self.place(index);
        let chunk = &mut self.groups[group].chunks[place];
        let before = chunk.heap_bytes as usize;
        chunk.fold();
        self.packed_bytes = self.packed_bytes - before + chunk.heap_bytes as usize;
    }

    /// Takes a chunk out.
    pub fn remove(&mut self, index: usize) -> Packed {
        let (group, place) = self.place(index);
        match self.remove_at(group, place) {
            Some(mut chunk) => std::mem::take(chunk.plain()),
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
        group.elements -= chunk.len as usize;
        if group.chunks.is_empty() {
            self.groups.remove(number);
        }
        self.chunks -= 1;
        self.elements -= chunk.len as usize;
        self.packed_bytes -= chunk.heap_bytes as usize;
        Some(chunk)
    }
}

impl Group {
    /// The chunk with this element of the group, and the element's place in it.
    fn locate(&self, element: usize) -> (usize, usize) {
        let mut rest = element;
        for (place, chunk) in self.chunks.iter().enumerate() {
            match rest.checked_sub(chunk.len as usize) {
                Some(left) => rest = left,
                None => return (place, rest),
            }
        }
        (0, 0)
    }
}

#[cfg(test)]
mod tests {
    use pantala_base::rng::Rng;

    use super::*;

    fn packed(first: i64, len: usize) -> Packed {
        let mut packed = Packed::new();
        for number in 0..len {
            packed.push(Element::Int(first + number as i64));
        }
        packed
    }

    fn numbers(chunk: &Chunk) -> Vec<i64> {
        let mut numbers = Vec::new();
        let _end = chunk.visit(0, Way::Forward, &mut |element| {
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
        let bytes: usize = chunks.iter_from(0).map(|chunk| chunk.heap_bytes as usize).sum();
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
