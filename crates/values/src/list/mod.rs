//! Lists: the two forms, and the change between them.
//!
//! | file | what |
//! |---|---|
//! | `fill` | how much fits into one packed buffer |
//! | `chunks` | packed buffers in order, found by number; which are stored in less space |
//! | `chunk` | one of them, in one of three forms |
//! | `folded` | a form that takes less space and is read as quickly |
//! | `compressed` | a form that takes still less, if configured |
//! | `large` | the large form, made of these |
//! | this | the small form, one packed buffer, and the change between the two |
//!
//! A caller that adds elements calls [`List::grow`] first; a caller that removed or replaced some
//! calls [`List::shrink`] at the end. These change the form, at the sizes at which Redis does.
//!
//! Invariants
//! 1. Elements are shown to a closure, so a chunk may be stored in another form than it is read in.
//! 2. Indices are valid: callers have checked [`List::len`].
//!
//! Not here: negative indices, timeouts, blocked clients. Tests: `tests/list.rs`.

mod chunk;
mod chunks;
mod compressed;
mod fill;
mod folded;
mod large;

use std::ops::ControlFlow;

use pantala_base::UnixMs;
use pantala_table::Renewal;
use smallvec::SmallVec;

use crate::Collection;
use crate::digest::Digest;
use crate::packed::{Element, Encoded, Packed, View, entry};

pub use fill::Fill;
use large::LargeList;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The first element.
    Head,
    /// The last element.
    Tail,
}

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListEnd {
    /// From the head to the tail; after an element.
    Forward,
    /// From the tail to the head; before an element.
    Backward,
}

/// A list, as one packed buffer or in chunks.
#[derive(Debug)]
pub enum List {
    /// One packed buffer.
    Packed(Packed),
    /// Chunks.
    Chunks(Box<LargeList>),
}

impl Default for List {
    fn default() -> List {
        List::Packed(Packed::new())
    }
}

impl List {
    /// A list of these elements, in the form of a list that was pushed one by one; for SORT's
    /// STORE.
    pub fn collect<'a>(elements: impl Iterator<Item = Element<'a>>, fill: Fill) -> List {
        let mut list = List::large(fill);
        for element in elements {
            list.push(End::Tail, element);
        }
        list.settle(fill);
        list
    }

    /// An empty list in the large form, to be filled by [`List::push`] and finished by
    /// [`List::settle`].
    pub fn large(fill: Fill) -> List {
        List::Chunks(Box::new(LargeList::of(Packed::new(), fill)))
    }

    /// Finishes filling: takes the small form if everything fits.
    pub fn settle(&mut self, fill: Fill) {
        self.shrink_to(|bytes, elements| !fill.is_exceeded(bytes, elements));
    }

    /// How many packed buffers the elements lie in.
    pub fn chunk_count(&self) -> usize {
        match self {
            List::Packed(_) => 1,
            List::Chunks(large) => large.chunk_count(),
        }
    }

    /// Shows the packed buffers in order, from number `from` on, until `show` returns false.
    pub fn visit_chunks(&self, from: usize, mut show: impl FnMut(View<'_>) -> bool) {
        match self {
            List::Packed(packed) if from == 0 => _ = show(packed.view()),
            List::Packed(_) => {}
            List::Chunks(large) => {
                let mut goes_on = true;
                let mut chunks = large.chunks().skip(from);
                while let Some(chunk) = chunks.next().filter(|_| goes_on) {
                    chunk.show(&mut |view| goes_on = show(view));
                }
            }
        }
    }

    /// How many elements.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            List::Packed(packed) => packed.len(),
            List::Chunks(large) => large.len(),
        }
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Prepares for adding `elements` texts of `bytes` in total: takes the form for them.
    #[inline]
    pub fn grow(&mut self, bytes: usize, elements: usize, fill: Fill) {
        if let List::Packed(packed) = self
            && fill.is_exceeded(packed.listpack_bytes() + bytes, packed.len() + elements)
        {
            let large = LargeList::of(std::mem::take(packed), fill);
            *self = List::Chunks(Box::new(large));
        } else if let List::Chunks(large) = self {
            large.compress_beyond(fill.depth());
        }
    }

    /// Takes the form for what is left after elements were removed or replaced.
    #[inline]
    pub fn shrink(&mut self, fill: Fill) {
        if matches!(self, List::Chunks(_)) {
            self.shrink_to(|bytes, elements| fill.has_room(bytes, elements));
        }
    }

    fn shrink_to(&mut self, fits: impl FnOnce(usize, usize) -> bool) {
        if let List::Chunks(large) = self
            && let Some(packed) = large.take_only_chunk(fits)
        {
            *self = List::Packed(packed);
        }
    }

    /// Adds an element at an end. [`List::grow`] must come before it.
    #[inline]
    pub fn push(&mut self, end: End, element: Element<'_>) {
        match (self, end) {
            (List::Packed(packed), End::Head) => packed.insert(0, element),
            (List::Packed(packed), End::Tail) => packed.push(element),
            (List::Chunks(large), _) => large.push(end, element),
        }
    }

    /// Adds elements at the tail, faster than one by one. [`List::grow`] must come before it.
    pub fn push_packed(&mut self, elements: Packed) {
        match self {
            List::Packed(packed) => packed.append(elements.view()),
            List::Chunks(large) => large.push_packed(elements),
        }
    }

    /// Removes the element at an end of a list that is not empty, and shows it.
    #[inline]
    pub fn pop(&mut self, end: End, show: impl FnOnce(Element<'_>)) {
        match self {
            List::Packed(packed) => pop_packed(packed, end, show),
            List::Chunks(large) => large.pop(end, show),
        }
    }

    /// Shows the element at an index, if there is one.
    #[inline]
    pub fn at<R>(&self, index: usize, show: impl FnOnce(Element<'_>) -> R) -> Option<R> {
        match self {
            List::Packed(packed) => at_view(packed.view(), index, show),
            List::Chunks(large) if index < large.len() => large.at(index, show),
            List::Chunks(_) => None,
        }
    }

    /// Shows elements from an index on, until the closure breaks off or there are no more.
    #[inline]
    pub fn visit(
        &self,
        from: usize,
        way: ListEnd,
        mut show: impl FnMut(Element<'_>) -> ControlFlow<()>,
    ) {
        if from >= self.len() {
            return;
        }
        // How it ended does not matter: the closure knows.
        let _end = match self {
            List::Packed(packed) => visit_view(packed.view(), from, way, &mut show),
            List::Chunks(large) => large.visit(from, way, &mut show),
        };
    }

    /// The index of the first element equal to `wanted`; the outer `None`: the search stopped after
    /// `most` elements or a few more, before the end.
    pub fn find(&self, wanted: Element<'_>, most: usize) -> Option<Option<usize>> {
        let mut encoded = Encoded::new();
        entry::encode(wanted, &mut encoded);
        match self {
            List::Packed(packed) => Some(find_in(packed.view(), &encoded)),
            List::Chunks(large) => large.find(wanted, &encoded, most),
        }
    }

    /// Removes existing elements.
    pub fn remove(&mut self, from: usize, count: usize) {
        match self {
            List::Packed(packed) => {
                if let Some(offset) = packed.view().seek(from) {
                    packed.remove(offset, count);
                }
            }
            List::Chunks(large) => large.remove(from, count),
        }
    }

    /// Removes up to `most` elements equal to `element`, the first ones in a direction; returns how
    /// many.
    pub fn remove_equal(&mut self, element: Element<'_>, most: usize, way: ListEnd) -> usize {
        match self {
            List::Packed(packed) => {
                let mut wanted = Encoded::new();
                entry::encode(element, &mut wanted);
                strike(packed, &wanted, most, way)
            }
            List::Chunks(large) => large.remove_equal(element, most, way),
        }
    }

    /// Inserts an element before or after an existing one. [`List::grow`] must come before it.
    pub fn insert(&mut self, index: usize, way: ListEnd, element: Element<'_>) {
        match self {
            List::Packed(packed) => {
                let place = index + usize::from(way == ListEnd::Forward);
                let offset = packed.view().seek(place).unwrap_or(packed.entry_bytes());
                packed.insert(offset, element);
            }
            List::Chunks(large) => large.insert(index, way, element),
        }
    }

    /// Replaces an existing element. [`List::grow`] must come before it.
    pub fn replace(&mut self, index: usize, element: Element<'_>) {
        match self {
            List::Packed(packed) => {
                if let Some(offset) = packed.view().seek(index) {
                    packed.replace(offset, element);
                }
            }
            List::Chunks(large) => large.replace(index, element),
        }
    }
}

#[inline]
fn pop_packed(packed: &mut Packed, end: End, show: impl FnOnce(Element<'_>)) {
    let view = packed.view();
    let offset = match end {
        End::Head => 0,
        End::Tail => view.previous(view.bytes().len()).unwrap_or(0),
    };
    show(view.at(offset));
    packed.remove(offset, 1);
}

/// Shows the element of a view at an index, if there is one.
#[inline]
fn at_view<R>(view: View<'_>, index: usize, show: impl FnOnce(Element<'_>) -> R) -> Option<R> {
    view.seek(index).map(|offset| show(view.at(offset)))
}

/// Shows the elements of a view from an existing one on.
#[inline]
fn visit_view<F: FnMut(Element<'_>) -> ControlFlow<()> + ?Sized>(
    view: View<'_>,
    from: usize,
    way: ListEnd,
    show: &mut F,
) -> ControlFlow<()> {
    let Some(offset) = view.seek(from) else { return ControlFlow::Continue(()) };
    match way {
        ListEnd::Forward => view.iter_from(offset).try_for_each(|(_, element)| show(element)),
        ListEnd::Backward => {
            let end = view.next(offset);
            let before = View::new(&view.bytes()[..end], from + 1);
            before.iter_back().try_for_each(|(_, element)| show(element))
        }
    }
}

/// The index of the first entry with these bytes.
fn find_in(view: View<'_>, entry: &[u8]) -> Option<usize> {
    let (mut offset, mut place) = (0, 0);
    while let Some(first) = view.bytes().get(offset) {
        // The first byte gives kind and length, which rules out most entries.
        if *first == entry[0] && view.bytes()[offset..].starts_with(entry) {
            return Some(place);
        }
        offset = view.next(offset);
        place += 1;
    }
    None
}

/// Removes up to `most` entries with these bytes; returns how many. The others are copied once, so
/// the time is linear.
fn strike(packed: &mut Packed, entry: &[u8], most: usize, way: ListEnd) -> usize {
    let view = packed.view();
    let mut found: SmallVec<[usize; 16]> = SmallVec::new();
    match way {
        ListEnd::Forward => {
            let mut from = 0;
            while found.len() < most
                && let Some(offset) = view.find_encoded(entry, 1, from)
            {
                found.push(offset);
                from = offset + entry.len();
            }
        }
        ListEnd::Backward => {
            let equal = view.iter_back().map(|(offset, _)| offset);
            let equal = equal.filter(|&offset| view.bytes()[offset..].starts_with(entry));
            found.extend(equal.take(most));
            found.reverse();
        }
    }
    match found[..] {
        [] => return 0,
        [only] => packed.splice(only, entry.len(), &[], -1),
        _ => {
            let bytes = view.bytes();
            let mut kept = Vec::with_capacity(bytes.len() - found.len() * entry.len());
            let mut from = 0;
            for &offset in &found {
                kept.extend_from_slice(&bytes[from..offset]);
                from = offset + entry.len();
            }
            kept.extend_from_slice(&bytes[from..]);
            packed.splice(0, packed.entry_bytes(), &kept, -(found.len() as isize));
        }
    }
    found.len()
}

impl Collection for List {
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn heap_bytes(&self) -> usize {
        match self {
            List::Packed(packed) => packed.heap_bytes(),
            List::Chunks(large) => large.heap_bytes(),
        }
    }

    fn renew(&mut self, from: usize, most: usize, renewal: &mut Renewal<'_>) -> Option<usize> {
        match self {
            List::Packed(small) => small.renew(renewal),
            List::Chunks(large) => return large.renew(from, most, renewal),
        }
        None
    }

    fn encoding(&self) -> &'static str {
        match self {
            List::Packed(_) => "listpack",
            List::Chunks(_) => "quicklist",
        }
    }

    fn element_count(&self) -> u64 {
        self.len() as u64
    }

    fn digest(&self, _now: UnixMs, digest: &mut Digest) {
        self.visit_chunks(0, |view| {
            view.iter().for_each(|(_, element)| digest.append_text(element.into()));
            true
        });
    }

    fn duplicate(&self) -> Self {
        match self {
            List::Packed(packed) => List::Packed(packed.clone()),
            List::Chunks(large) => List::Chunks(large.clone()),
        }
    }

    fn next_deadline(&self) -> Option<UnixMs> {
        None
    }
}
