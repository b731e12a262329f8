//! A chunk: neighbouring elements in one of three forms.
//!
//! | form | where | read |
//! |---|---|---|
//! | plain | at the ends, and where it was changed | in place |
//! | folded | between them | each element by itself |
//! | compressed | between them, if `list-compress-depth` is set | all of it at once |
//!
//! Invariants
//! 1. The counts beside the store are right between two calls; entry counts are those of the plain
//!    form.

use std::ops::ControlFlow;

use pantala_table::Renewal;

use super::compressed::Compressed;
use super::folded::FoldedList;
use super::{ListEnd, at_view, find_in, visit_view};
use crate::packed::{Element, Packed, View};

/// Consecutive elements of a list, with counts beside the pointer so that counting does not touch
/// them.
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
    Folded(FoldedList),
    Compressed(Compressed),
}

impl Chunk {
    /// A chunk of plain elements.
    pub fn new(packed: Packed) -> Chunk {
        let mut chunk =
            Chunk { store: Store::Plain(packed), len: 0, entry_bytes: 0, heap_bytes: 0 };
        chunk.count();
        chunk
    }

    /// A chunk of `len` folded elements whose entries took `entry_bytes`.
    pub fn folded(folded: FoldedList, len: usize, entry_bytes: usize) -> Chunk {
        let heap_bytes = folded.heap_bytes() as u32;
        let (len, entry_bytes) = (len as u32, entry_bytes as u32);
        Chunk { store: Store::Folded(folded), len, entry_bytes, heap_bytes }
    }

    /// A compressed copy of the chunk, if compression pays.
    pub fn compressed(&self) -> Option<Chunk> {
        let Store::Plain(packed) = &self.store else { return None };
        let compressed = Compressed::of(packed.view())?;
        let heap_bytes = compressed.heap_bytes() as u32;
        let store = Store::Compressed(compressed);
        Some(Chunk { store, heap_bytes, ..*self })
    }

    /// Updates the counts of a plain chunk after a change.
    #[inline]
    fn count(&mut self) {
        if let Store::Plain(packed) = &self.store {
            self.len = packed.len() as u32;
            self.entry_bytes = packed.entry_bytes() as u32;
            self.heap_bytes = packed.heap_bytes() as u32;
        }
    }

    /// Reallocates the block if it lies in sparse pages.
    pub fn renew(&mut self, renewal: &mut Renewal<'_>) {
        match &mut self.store {
            Store::Plain(packed) => packed.renew(renewal),
            Store::Folded(folded) => folded.renew(renewal),
            Store::Compressed(compressed) => compressed.renew(renewal),
        }
    }

    /// How many elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Bytes of the entries in the plain form.
    #[inline]
    pub fn entry_bytes(&self) -> usize {
        self.entry_bytes as usize
    }

    /// Allocated bytes.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        self.heap_bytes as usize
    }

    /// Its elements, if they are plain.
    pub fn plain(&self) -> Option<View<'_>> {
        match &self.store {
            Store::Plain(packed) => Some(packed.view()),
            _ => None,
        }
    }

    /// Shows an element, which must exist.
    pub fn at<R>(&self, index: usize, show: impl FnOnce(Element<'_>) -> R) -> Option<R> {
        match &self.store {
            Store::Plain(packed) => at_view(packed.view(), index, show),
            Store::Folded(folded) => Some(folded.at(index, show)),
            Store::Compressed(compressed) => {
                at_view(View::new(&self.entries(compressed), self.len()), index, show)
            }
        }
    }

    /// Shows elements from an existing one on, until told to stop.
    pub fn visit(
        &self,
        from: usize,
        way: ListEnd,
        show: &mut dyn FnMut(Element<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match &self.store {
            Store::Plain(packed) => visit_view(packed.view(), from, way, show),
            Store::Folded(folded) => folded.visit(from, way, show),
            Store::Compressed(compressed) => {
                visit_view(View::new(&self.entries(compressed), self.len()), from, way, show)
            }
        }
    }

    /// Shows its elements as packed entries.
    pub fn show(&self, show: &mut dyn FnMut(View<'_>)) {
        match &self.store {
            Store::Plain(packed) => show(packed.view()),
            Store::Folded(folded) => show(folded.unfold().view()),
            Store::Compressed(compressed) => show(View::new(&self.entries(compressed), self.len())),
        }
    }

    /// The index of the first element equal to `wanted`, whose encoded form is `entry`.
    pub fn find(&self, wanted: Element<'_>, entry: &[u8]) -> Option<usize> {
        match &self.store {
            Store::Plain(packed) => find_in(packed.view(), entry),
            Store::Folded(folded) => folded.find(wanted),
            Store::Compressed(compressed) => {
                find_in(View::new(&self.entries(compressed), self.len()), entry)
            }
        }
    }

    fn entries(&self, compressed: &Compressed) -> Vec<u8> {
        compressed.entries(self.entry_bytes())
    }

    /// Changes the elements, which are plain afterwards.
    #[inline]
    pub fn change(&mut self, change: impl FnOnce(&mut Packed)) {
        change(self.make_plain());
        self.count();
    }

    /// Its elements in the plain form, for use elsewhere.
    pub fn into_plain(mut self) -> Packed {
        std::mem::take(self.make_plain())
    }

    #[inline]
    fn make_plain(&mut self) -> &mut Packed {
        match &self.store {
            Store::Plain(_) => {}
            Store::Folded(folded) => self.store = Store::Plain(folded.unfold()),
            Store::Compressed(compressed) => {
                let mut packed = Packed::new();
                packed.splice(0, 0, &self.entries(compressed), self.len as isize);
                self.store = Store::Plain(packed);
            }
        }
        match &mut self.store {
            Store::Plain(packed) => packed,
            _ => unreachable!("it was made plain"),
        }
    }
}
