//! Many texts in one buffer, and the elements of what is sorted.

use std::ops::ControlFlow;

use pantala_base::number::push_i64;
use pantala_table::{IntText, StrRef};
use pantala_values::list::Way;
use pantala_values::packed::Element;
use pantala_values::{List, Set, SortedSet, Type};

use super::query::Query;
use crate::call::{Call, Stop};
use crate::error;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// The type they came from.
    pub kind: Option<Type>,
    /// Only those that LIMIT asks for were taken.
    pub is_cut: bool,
}

impl Texts {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }

    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    fn push_element(&mut self, element: Element<'_>) {
        match element {
            Element::Int(number) => push_i64(&mut self.bytes, number),
            Element::Bytes(bytes) => self.bytes.extend_from_slice(bytes),
        }
        self.ends.push(self.bytes.len());
    }

    fn push_string(&mut self, text: StrRef<'_>) {
        self.push(text.bytes(&mut IntText::new()));
    }
}

/// The elements behind the command's first key. Where their order stays, only those that LIMIT asks
/// for. Many are copied on the slow lane only.
pub(super) fn collect(call: &mut Call<'_, '_>, query: &Query<'_>) -> Result<Texts, Stop> {
    let mut texts = Texts::default();
    let key = call.nth_key(1, 0);
    let kind = call.keys.peek(key).kind();
    texts.kind = kind;
    let keeps_order = query.keeps_order(kind);
    match kind {
        None => drop(call.keys.read(key)),
        Some(Type::List) => {
            let opened = call.keys.read(key);
            if let Some(list) = opened.collection::<List>()? {
                query.check_lane(call.lane, Type::List, list.len())?;
                take_list(list, query, keeps_order, &mut texts);
            }
        }
        Some(Type::Set) => {
            let now = call.now();
            let opened = call.keys.read(key);
            if let Some(set) = opened.collection::<Set>()? {
                query.check_lane(call.lane, Type::Set, set.view().len())?;
                set.view().iter(now).for_each(|member| texts.push_element(member));
            }
        }
        Some(Type::SortedSet) => {
            let opened = crate::families::zset::read(call.keys, key, call.lane)?;
            if let Some(set) = opened.collection::<SortedSet>()? {
                query.check_lane(call.lane, Type::SortedSet, set.len())?;
                take_sorted_set(set, query, keeps_order, &mut texts);
            }
        }
        Some(Type::String | Type::Hash | Type::Stream) => return Err(error::WRONG_TYPE.into()),
    }
    Ok(texts)
}

fn take_list(list: &List, query: &Query<'_>, keeps_order: bool, texts: &mut Texts) {
    let length = list.len();
    let range = if keeps_order { query.range(length) } else { 0..length };
    texts.is_cut = keeps_order;
    let is_backward = keeps_order && query.is_descending;
    let (from, way) = match is_backward {
        true => (length.wrapping_sub(range.start + 1), Way::Backward),
        false => (range.start, Way::Forward),
    };
    if range.is_empty() {
        return;
    }
    list.visit(from, way, |element| {
        texts.push_element(element);
        match texts.len() < range.len() {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
}

fn take_sorted_set(set: &SortedSet, query: &Query<'_>, keeps_order: bool, texts: &mut Texts) {
    let (view, length) = (set.view(), set.len());
    let range = if keeps_order { query.range(length) } else { 0..length };
    texts.is_cut = keeps_order;
    if range.is_empty() {
        return;
    }
    if keeps_order && query.is_descending {
        let entries = view.entries_back(length - range.start - 1, range.len());
        entries.for_each(|(member, _)| texts.push_string(member));
    } else {
        let entries = view.entries(range.start, range.len());
        entries.for_each(|(member, _)| texts.push_string(member));
    }
}
