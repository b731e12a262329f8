//! The large form of a list: chunks of packed elements.
//!
//! Chunks are filled, split and joined where Redis's quicklist does it, because a list becomes
//! small again when one chunk is left, and OBJECT ENCODING shows that.
//!
//! Invariants
//! 1. There is at least one element, except between two calls of one command.
//! 2. An element that is large ([`Fill::is_large`]) has a chunk of its own.
//!
//! Not here: the small form, and the change between the two (`super`).
//! Tests: `tests/list.rs`.

use std::ops::ControlFlow;

use pantala_table::Renewal;

use super::chunk::Chunk;
use super::chunks::Chunks;
use super::fill::{FRAME_BYTES, Fill};
use super::{End, ListEnd, strike};
use crate::packed::{Element, Encoded, Packed};

/// A list in chunks.
#[derive(Clone, Debug)]
pub struct LargeList {
    chunks: Chunks,
    fill: Fill,
}

impl LargeList {
    /// Starts from the elements of a small list, which may be empty.
    pub fn of(packed: Packed, fill: Fill) -> LargeList {
        let mut chunks = Chunks::default();
        if !packed.is_empty() {
            chunks.insert(0, packed);
        }
        LargeList { chunks, fill }
    }

    /// Sets that chunks farther from both ends than `depth` are compressed from now on.
    #[inline]
    pub fn compress_beyond(&mut self, depth: u32) {
        self.fill = self.fill.compressing(depth);
    }

    /// How many elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.chunks.elements()
    }

    /// Allocated bytes.
    pub fn heap_bytes(&self) -> usize {
        size_of::<LargeList>() + self.chunks.heap_bytes()
    }

    /// Reallocates chunks that lie in sparse pages: see [`pantala_table::Object::renew`].
    pub fn renew(&mut self, from: usize, most: usize, renewal: &mut Renewal<'_>) -> Option<usize> {
        self.chunks.renew(from, most, renewal)
    }

    /// How many chunks.
    pub fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// All chunks, in order.
    pub fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        self.chunks.iter_from(0)
    }

    /// Takes out the only chunk, if there is one chunk, its elements are small, and `fits` accepts
    /// its size (bytes as a listpack, and elements).
    pub fn take_only_chunk(&mut self, fits: impl FnOnce(usize, usize) -> bool) -> Option<Packed> {
        if self.chunks.len() != 1 || self.is_single(0) {
            return None;
        }
        let chunk = self.chunks.get(0);
        fits(chunk.entry_bytes() + FRAME_BYTES, chunk.len()).then(|| self.chunks.remove(0))
    }

    /// Whether a chunk is one large element.
    fn is_single(&self, index: usize) -> bool {
        self.fill.is_single(self.chunks.get(index))
    }

    /// Adds an element at an end.
    #[inline]
    pub fn push(&mut self, end: End, element: Element<'_>) {
        let count = self.chunks.len();
        let (index, place) = match end {
            End::Head => (0, 0),
            End::Tail => (count.saturating_sub(1), count),
        };
        if count > 0 && self.fill.takes(self.chunks.get(index), element.len()) {
            self.chunks.change(index, |chunk| push(chunk, end, element));
        } else {
            self.chunks.insert(place, alone(element));
            self.chunks.fold_behind(end, self.fill);
        }
    }

    /// Adds elements at the tail: as a chunk of their own where allowed, without looking at each.
    pub fn push_packed(&mut self, packed: Packed) {
        let is_chunk =
            packed.len() == 1 || !self.fill.is_exceeded(packed.listpack_bytes(), packed.len());
        let count = self.chunks.len();
        if !is_chunk {
            packed.view().iter().for_each(|(_, element)| self.push(End::Tail, element));
        } else if !packed.is_empty() {
            self.chunks.insert(count, packed);
            if count > 0 && !self.join(count - 1) {
                self.chunks.fold_behind(End::Tail, self.fill);
            }
        }
    }

    /// Removes the element at an end, and shows it.
    #[inline]
    pub fn pop(&mut self, end: End, show: impl FnOnce(Element<'_>)) {
        let index = match end {
            End::Head => 0,
            End::Tail => self.chunks.len() - 1,
        };
        if self.chunks.change(index, |chunk| super::pop_packed(chunk, end, show)) {
            self.chunks.open(end, self.fill);
        }
    }

    /// Shows an element, which must exist.
    pub fn at<R>(&self, index: usize, show: impl FnOnce(Element<'_>) -> R) -> Option<R> {
        let (chunk, rest) = self.chunks.locate(index);
        self.chunks.get(chunk).at(rest, show)
    }

    /// Shows elements from an existing one on, until told to stop.
    pub fn visit(
        &self,
        from: usize,
        way: ListEnd,
        show: &mut dyn FnMut(Element<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (chunk, rest) = self.chunks.locate(from);
        self.chunks.get(chunk).visit(rest, way, show)?;
        match way {
            ListEnd::Forward => {
                for chunk in self.chunks.iter_from(chunk + 1) {
                    chunk.visit(0, way, show)?;
                }
            }
            ListEnd::Backward if chunk > 0 => {
                for chunk in self.chunks.iter_back_from(chunk - 1) {
                    chunk.visit(chunk.len() - 1, way, show)?;
                }
            }
            ListEnd::Backward => {}
        }
        ControlFlow::Continue(())
    }

    /// The index of an element, see [`super::List::find`].
    pub fn find(&self, wanted: Element<'_>, entry: &[u8], most: usize) -> Option<Option<usize>> {
        let mut before = 0;
        for chunk in self.chunks.iter_from(0) {
            if let Some(place) = chunk.find(wanted, entry) {
                return Some(Some(before + place));
            }
            before += chunk.len();
            if before >= most && before < self.len() {
                return None;
            }
        }
        Some(None)
    }

    /// Removes existing elements.
    pub fn remove(&mut self, from: usize, count: usize) {
        let mut left = count;
        while left > 0 {
            let (chunk, rest) = self.chunks.locate(from);
            let len = self.chunks.get(chunk).len();
            let here = left.min(len - rest);
            if here == len {
                self.chunks.discard(chunk);
            } else {
                self.chunks.change(chunk, |packed| {
                    let offset = packed.view().seek(rest).unwrap_or(0);
                    packed.remove(offset, here);
                });
            }
            left -= here;
        }
    }

    /// Removes up to `most` elements equal to `element`; returns how many.
    pub fn remove_equal(&mut self, element: Element<'_>, most: usize, way: ListEnd) -> usize {
        let mut entry = Encoded::new();
        crate::packed::entry::encode(element, &mut entry);
        let (mut removed, mut seen) = (0, 0);
        while seen < self.chunks.len() && removed < most {
            let index = match way {
                ListEnd::Forward => seen,
                ListEnd::Backward => self.chunks.len() - 1 - seen,
            };
            if self.chunks.get(index).find(element, &entry).is_none() {
                seen += 1;
                continue;
            }
            let is_gone = self.chunks.change(index, |chunk| {
                removed += strike(chunk, &entry, most - removed, way);
            });
            seen += usize::from(!is_gone);
        }
        removed
    }

    /// Inserts an element before or after an existing one.
    pub fn insert(&mut self, index: usize, way: ListEnd, element: Element<'_>) {
        let (chunk, rest) = self.chunks.locate(index);
        self.insert_in(chunk, rest, way, element);
    }

    fn insert_in(&mut self, chunk: usize, rest: usize, way: ListEnd, element: Element<'_>) {
        let len = self.chunks.get(chunk).len();
        let text_len = element.len();
        let place = rest + usize::from(way == ListEnd::Forward);
        // The number of a chunk that is inserted on the side where the element goes.
        let beside = chunk + usize::from(way == ListEnd::Forward);
        let is_at_edge = place == 0 || place == len;
        if self.fill.takes(self.chunks.get(chunk), text_len) {
            self.chunks.change(chunk, |packed| insert_at(packed, place, element));
        } else if is_at_edge && way == ListEnd::Forward && self.takes(beside, text_len) {
            self.chunks.change(beside, |packed| insert_at(packed, 0, element));
        } else if is_at_edge
            && way == ListEnd::Backward
            && chunk > 0
            && self.takes(chunk - 1, text_len)
        {
            self.chunks.change(chunk - 1, |packed| packed.push(element));
        } else if is_at_edge {
            self.chunks.insert(beside, alone(element));
        } else {
            self.insert_splitting(chunk, place, way, element);
        }
    }

    fn takes(&self, chunk: usize, text_len: usize) -> bool {
        chunk < self.chunks.len() && self.fill.takes(self.chunks.get(chunk), text_len)
    }

    /// The chunk is full: it is split, the element goes into the smaller part, and neighbours are
    /// joined where they fit together. A large element gets a chunk between the parts.
    fn insert_splitting(&mut self, chunk: usize, place: usize, way: ListEnd, element: Element<'_>) {
        self.split(chunk, place);
        if self.fill.is_large(element.len()) {
            return self.chunks.insert(chunk + 1, alone(element));
        }
        match way {
            ListEnd::Forward => {
                self.chunks.change(chunk + 1, |packed| insert_at(packed, 0, element));
                self.join_around(chunk);
            }
            ListEnd::Backward => {
                self.chunks.change(chunk, |packed| packed.push(element));
                self.join_around(chunk + 1);
            }
        }
    }

    /// Splits a chunk before its element `place`, which is not its first.
    fn split(&mut self, chunk: usize, place: usize) {
        let mut tail = Packed::new();
        self.chunks.change(chunk, |packed| {
            let offset = packed.view().seek(place).unwrap_or(packed.entry_bytes());
            tail = packed.split_off(offset);
        });
        self.chunks.insert(chunk + 1, tail);
    }

    /// Replaces an existing element.
    pub fn replace(&mut self, index: usize, element: Element<'_>) {
        let (chunk, rest) = self.chunks.locate(index);
        let is_large = self.fill.is_large(element.len());
        if self.is_single(chunk) && !is_large {
            self.insert_in(chunk, rest, ListEnd::Forward, element);
            self.chunks.discard(chunk);
        } else if !is_large || self.is_single(chunk) {
            self.chunks.change(chunk, |packed| {
                let offset = packed.view().seek(rest).unwrap_or(0);
                packed.replace(offset, element);
            });
        } else {
            self.replace_by_large(chunk, rest, element);
        }
    }

    /// Splits the chunk around the place, and gives the element a chunk of its own there.
    fn replace_by_large(&mut self, chunk: usize, rest: usize, element: Element<'_>) {
        if rest + 1 < self.chunks.get(chunk).len() {
            self.split(chunk, rest + 1);
        }
        self.chunks.insert(chunk + 1, alone(element));
        let is_gone = self.chunks.change(chunk, |packed| {
            let offset = packed.view().seek(rest).unwrap_or(0);
            packed.remove(offset, 1);
        });
        if !is_gone {
            self.join_around(chunk + 1);
        }
    }

    /// Joins chunks around `center` where they fit: the two before it, the two after it, then it
    /// and its neighbours.
    fn join_around(&mut self, center: usize) {
        let mut center = center;
        if center >= 2 && self.join(center - 2) {
            center -= 1;
        }
        self.join(center + 1);
        if center >= 1 && self.join(center - 1) {
            center -= 1;
        }
        self.join(center);
    }

    /// Joins a chunk with the next, if there is one and both fit into one.
    fn join(&mut self, left: usize) -> bool {
        let right = left + 1;
        if right >= self.chunks.len()
            || self.is_single(left)
            || self.is_single(right)
            || !self.fill.joins(self.chunks.get(left), self.chunks.get(right))
        {
            return false;
        }
        let tail = self.chunks.remove(right);
        self.chunks.change(left, |packed| packed.append(tail.view()));
        true
    }
}

fn push(chunk: &mut Packed, end: End, element: Element<'_>) {
    match end {
        End::Head => chunk.insert(0, element),
        End::Tail => chunk.push(element),
    }
}

fn insert_at(chunk: &mut Packed, place: usize, element: Element<'_>) {
    let offset = chunk.view().seek(place).unwrap_or(chunk.entry_bytes());
    chunk.insert(offset, element);
}

fn alone(element: Element<'_>) -> Packed {
    let mut packed = Packed::new();
    packed.push(element);
    packed
}
