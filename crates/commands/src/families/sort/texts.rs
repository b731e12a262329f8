//! Many texts in one buffer, and taking the elements to be sorted.

use std::ops::{ControlFlow, Range};

use pantala_base::number::push_i64;
use pantala_table::{IntText, StrRef};
use pantala_values::list::ListEnd;
use pantala_values::packed::Element;
use pantala_values::{List, Set, SortedSet, Type};

use super::query::Query;
use crate::calls::call::{Call, CommandResult, Stop};
use crate::error;
use crate::long_work::incremental::{Budget, GatherState};

/// Many texts in one buffer: the elements that SORT sorts, or looked-up values.
#[derive(Debug, Default)]
pub(super) struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// The type of the value that they come from.
    pub kind: Option<Type>,
    /// Only those in LIMIT's range were taken.
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

/// Reads the key to be sorted: counts it, and removes what has expired.
pub(super) fn read(call: &mut Call<'_, '_>) -> CommandResult {
    let key = call.nth_key(1, 0);
    let kind = call.keys.peek(key).kind();
    match kind {
        None | Some(Type::List | Type::Set) => drop(call.keys.read(key)),
        Some(Type::SortedSet) => drop(crate::families::zset::read(call.keys, key, call.lane)?),
        Some(_) => return Err(error::WRONG_TYPE.into()),
    }
    Ok(())
}

/// Elements being taken from a value, in steps. If they keep their order, only those in LIMIT's
/// range.
#[derive(Debug)]
pub(super) struct ElementSelection {
    pub texts: Texts,
    /// The position of the next element: its index, or a set's cursor.
    at: usize,
    way: ListEnd,
    /// How many are still to come, at most.
    left: usize,
}

impl ElementSelection {
    /// Looks at the command's first key. Many elements are taken on the slow lane only.
    pub fn begin(call: &mut Call<'_, '_>, query: &Query<'_>) -> Result<ElementSelection, Stop> {
        let opened = call.keys.peek(call.nth_key(1, 0));
        let kind = opened.kind();
        let length = match kind {
            None => 0,
            Some(Type::List) => opened.collection::<List>()?.map_or(0, List::len),
            Some(Type::Set) => opened.collection::<Set>()?.map_or(0, |set| set.view().len()),
            Some(Type::SortedSet) => opened.collection::<SortedSet>()?.map_or(0, SortedSet::len),
            Some(_) => return Err(error::WRONG_TYPE.into()),
        };
        let Some(kind) = kind else { return Ok(ElementSelection::of(None, length)) };
        query.check_lane(call.lane, kind, length)?;
        let mut taking = ElementSelection::of(Some(kind), length);
        if kind != Type::Set && query.keeps_order(Some(kind)) {
            taking.texts.is_cut = true;
            taking.cut(query.range(length), length, query.is_descending);
        }
        Ok(taking)
    }

    fn of(kind: Option<Type>, length: usize) -> ElementSelection {
        let texts = Texts { kind, ..Texts::default() };
        ElementSelection { texts, at: 0, way: ListEnd::Forward, left: length }
    }

    fn cut(&mut self, range: Range<usize>, length: usize, is_descending: bool) {
        self.left = range.len();
        self.at = range.start;
        if is_descending {
            (self.at, self.way) = (length.wrapping_sub(range.start + 1), ListEnd::Backward);
        }
    }

    /// Takes elements while there is budget.
    pub fn go_on(
        &mut self,
        call: &mut Call<'_, '_>,
        budget: &mut Budget,
    ) -> Result<GatherState, Stop> {
        if self.left == 0 {
            return Ok(GatherState::Whole);
        }
        let now = call.now();
        let opened = call.keys.peek(call.nth_key(1, 0));
        match self.texts.kind {
            Some(Type::List) => {
                if let Some(list) = opened.collection::<List>()? {
                    self.take_list(list, budget);
                }
            }
            Some(Type::SortedSet) => {
                if let Some(set) = opened.collection::<SortedSet>()? {
                    self.take_sorted_set(set, budget);
                }
            }
            _ => {
                let Some(set) = opened.collection::<Set>()? else { return Ok(GatherState::Whole) };
                let next = set.view().part(self.at, now, |member| {
                    self.texts.push_element(member);
                    budget.take(member.len())
                });
                self.at = next.unwrap_or_default();
                return Ok(GatherState::whole_if(next.is_none()));
            }
        }
        Ok(GatherState::whole_if(self.left == 0))
    }

    fn take_list(&mut self, list: &List, budget: &mut Budget) {
        let before = self.texts.len();
        list.visit(self.at, self.way, |element| {
            self.texts.push_element(element);
            self.left -= 1;
            match budget.take(element.len()) && self.left > 0 {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        self.step(self.texts.len() - before);
    }

    fn take_sorted_set(&mut self, set: &SortedSet, budget: &mut Budget) {
        let count = self.left.min(budget.left());
        match self.way {
            ListEnd::Forward => set.view().entries(self.at, count).for_each(|(member, _)| {
                budget.take(member.len());
                self.texts.push_string(member);
            }),
            ListEnd::Backward => set.view().entries_back(self.at, count).for_each(|(member, _)| {
                budget.take(member.len());
                self.texts.push_string(member);
            }),
        }
        self.left -= count;
        self.step(count);
    }

    fn step(&mut self, count: usize) {
        self.at = match self.way {
            ListEnd::Forward => self.at + count,
            ListEnd::Backward => self.at.wrapping_sub(count),
        };
    }
}
