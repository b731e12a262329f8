//! Sets: numbers in an intset, members in a listpack (only read: Redis 7.0 does not know it), or
//! members one by one.

use pantala_base::UnixMs;
use pantala_table::IntText;
use pantala_values::Set;
use pantala_values::packed::{self, Element, Packed, View};
use pantala_values::set::SetRef;

use crate::input::{Input, Malformed};
use crate::kind::RdbKind;
use crate::packed::{doubles, intset, listpack};
use crate::scalars::{deadline, length, text};
use crate::{BEFORE_ALL, Part, RdbLimits};

const DOUBLE: Malformed = Malformed("a set with a member twice");

/// The kind in which a set is written.
pub fn kind_of(set: SetRef<'_>, now: UnixMs) -> RdbKind {
    match set {
        SetRef::Ints(_) => RdbKind::SET_INTSET,
        SetRef::Packed(_) => RdbKind::SET,
        SetRef::Large(large) => {
            let has_deadline = large.next_deadline().is_some()
                && large.iter().any(|found| found.deadline.is_some() && !found.is_gone(now));
            if has_deadline { RdbKind::SET_WITH_DEADLINES } else { RdbKind::SET }
        }
    }
}

/// Appends a part of a set, without the members that have expired.
pub fn write_part(set: SetRef<'_>, part: Part, out: &mut Vec<u8>) -> Option<usize> {
    let large = match set {
        SetRef::Ints(ints) => {
            intset::write(|| ints.iter(), part.style.strings, out);
            return None;
        }
        SetRef::Packed(view) => {
            length::write(view.len() as u64, out);
            view.iter().for_each(|(_, member)| text::write(member.into(), part.style.strings, out));
            return None;
        }
        SetRef::Large(large) => large,
    };
    let end = part.end(out);
    if part.from == 0 {
        length::write(set.live_len(part.now) as u64, out);
    }
    large.part(part.from, |found| {
        if !found.is_gone(part.now) {
            text::write_bytes(found.key, part.style.strings, out);
            if part.kind == RdbKind::SET_WITH_DEADLINES {
                deadline::write(found.deadline, out);
            }
        }
        out.len() < end
    })
}

/// Reads a set of some kind.
pub fn read(kind: RdbKind, input: &mut Input<'_>, limits: &RdbLimits) -> Result<Set, Malformed> {
    match kind {
        RdbKind::SET => read_members(input, limits),
        RdbKind::SET_WITH_DEADLINES | RdbKind::SET_OF_DRAGONFLY => {
            read_with_deadlines(kind, input, limits)
        }
        RdbKind::SET_INTSET => read_ints(input, limits),
        _ => of_members(listpack::read(input)?, limits),
    }
}

fn add(set: &mut Set, member: &[u8], limits: &RdbLimits) -> Result<(), Malformed> {
    if set.add(member, limits.set, BEFORE_ALL) { Ok(()) } else { Err(DOUBLE) }
}

/// An empty set in the large form.
fn empty(limits: &RdbLimits) -> Set {
    Set::starting_with(b"", usize::MAX, limits.set)
}

fn read_ints(input: &mut Input<'_>, limits: &RdbLimits) -> Result<Set, Malformed> {
    let mut numbers = Vec::new();
    intset::read(input, |number| numbers.push(number))?;
    Ok(Set::of_ascending(&numbers, limits.set))
}

/// Whether a set of this many members may be small.
fn may_be_small(count: usize, limits: &RdbLimits) -> bool {
    count <= limits.set.entries.max(limits.set.ints)
}

/// Reads members one by one. The form of the set is known at the end, unless there are too many
/// members.
fn read_members(input: &mut Input<'_>, limits: &RdbLimits) -> Result<Set, Malformed> {
    let count = length::read_count(input, 1)?;
    if !may_be_small(count, limits) {
        return read_large(count, input, empty(limits), limits);
    }
    let mut members = Packed::new();
    for index in 0..count {
        let member = text::read(input, limits.text_bytes)?;
        let mut scratch = IntText::new();
        let member = member.bytes(&mut scratch);
        if members.entry_bytes() + member.len() >= packed::MAX_BYTES / 2 {
            let mut set = large(members.view(), limits)?;
            add(&mut set, member, limits)?;
            return read_large(count - index - 1, input, set, limits);
        }
        members.push(Element::of(member));
    }
    let are_ints = members.view().iter().all(|(_, element)| element.int().is_some());
    if are_ints && members.len() <= limits.set.ints {
        return of_ints(members.view(), limits);
    }
    of_members(members, limits)
}

fn read_large(
    count: usize,
    input: &mut Input<'_>,
    mut set: Set,
    limits: &RdbLimits,
) -> Result<Set, Malformed> {
    for _ in 0..count {
        let member = text::read(input, limits.text_bytes)?;
        add(&mut set, member.bytes(&mut IntText::new()), limits)?;
    }
    Ok(set)
}

fn of_ints(members: View<'_>, limits: &RdbLimits) -> Result<Set, Malformed> {
    let mut numbers: Vec<i64> = members.iter().filter_map(|(_, element)| element.int()).collect();
    numbers.sort_unstable();
    if numbers.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(DOUBLE);
    }
    Ok(Set::of_ascending(&numbers, limits.set))
}

fn of_members(members: Packed, limits: &RdbLimits) -> Result<Set, Malformed> {
    let view = members.view();
    let is_small = view.len() <= limits.set.entries
        && view.iter().all(|(_, element)| element.len() <= limits.set.value_bytes);
    if !is_small {
        large(view, limits)
    } else if doubles::are_different(view, 1) {
        Ok(Set::of_packed(members))
    } else {
        Err(DOUBLE)
    }
}

fn large(members: View<'_>, limits: &RdbLimits) -> Result<Set, Malformed> {
    let mut set = empty(limits);
    for (_, member) in members.iter() {
        add(&mut set, member.text(&mut IntText::new()), limits)?;
    }
    Ok(set)
}

fn read_with_deadlines(
    kind: RdbKind,
    input: &mut Input<'_>,
    limits: &RdbLimits,
) -> Result<Set, Malformed> {
    let mut set = empty(limits);
    for _ in 0..length::read_count(input, 1 + deadline::least_bytes(kind))? {
        let member = text::read(input, limits.text_bytes)?;
        let mut scratch = IntText::new();
        let member = member.bytes(&mut scratch);
        match deadline::read(kind, input)? {
            None => add(&mut set, member, limits)?,
            Some(deadline) if set.add_until(member, deadline, false, BEFORE_ALL) => {}
            Some(_) => return Err(DOUBLE),
        }
    }
    Ok(set)
}
