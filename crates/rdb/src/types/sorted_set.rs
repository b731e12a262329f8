//! Sorted sets: members and scores in a listpack, or one by one.
//!
//! In a listpack a score is a number, or the text that a client sees. If there would be such texts,
//! entries are written one by one, with eight bytes per score: formatting and parsing cost more
//! than everything else.

use std::cmp::Ordering;

use pantala_base::UnixMs;
use pantala_base::number::parse_f64;
use pantala_table::{IntText, StrRef, is_expired};
use pantala_values::packed::{self, Element, Packed, View};
use pantala_values::sorted_set::{SetOutcome, SortedSetRef};
use pantala_values::{Collection, SortedSet};

use crate::input::{Input, Malformed};
use crate::kind::RdbKind;
use crate::packed::{doubles, listpack, ziplist};
use crate::scalars::text::{self, Text};
use crate::scalars::{deadline, length};
use crate::{Part, RdbLimits};

const NO_SCORE: Malformed = Malformed("a score that is no number");
const DOUBLE: Malformed = Malformed("a sorted set with a member twice");

/// Up to this many members are collected and inserted at once.
const MOST_AT_ONCE: usize = 1 << 16;

/// A member and its score.
type Point<'a> = (&'a [u8], f64);

/// The first of the length bytes that stand for a score without text.
const NAN: u8 = 253;
const INFINITY: u8 = 254;
const MINUS_INFINITY: u8 = 255;

/// The kind in which a sorted set is written.
pub fn kind_of(set: &SortedSet, now: UnixMs) -> RdbKind {
    let has_deadline = set.next_deadline().is_some()
        && live(set, 0, now).flatten().any(|(_, _, deadline)| deadline.is_some());
    match set.view() {
        _ if has_deadline => RdbKind::SORTED_SET_WITH_DEADLINES,
        SortedSetRef::Packed(view) if has_whole_scores(view) => RdbKind::SORTED_SET_LISTPACK,
        _ => RdbKind::SORTED_SET_2,
    }
}

/// Whether the scores of a packed sorted set would be numbers in a listpack, too.
fn has_whole_scores(pairs: View<'_>) -> bool {
    pairs.iter().skip(1).step_by(2).all(|(_, score)| score.int().is_some())
}

/// Members that have not expired, descending, as other servers build their lists the fastest that
/// way. Skips the first ones.
fn live(
    set: &SortedSet,
    passed: usize,
    now: UnixMs,
) -> impl Iterator<Item = Option<(StrRef<'_>, f64, Option<UnixMs>)>> {
    let has_deadlines = set.next_deadline().is_some();
    let left = set.len().saturating_sub(passed);
    set.view().entries_back(left.saturating_sub(1), left).map(move |(member, score)| {
        let mut scratch = IntText::new();
        let deadline = if has_deadlines { set.deadline(member.bytes(&mut scratch)) } else { None };
        let is_gone = deadline.is_some_and(|deadline| is_expired(deadline, now));
        (!is_gone).then_some((member, score, deadline))
    })
}

/// Appends a part of a sorted set, without the members that have expired.
pub fn write_part(set: &SortedSet, part: Part, out: &mut Vec<u8>) -> Option<usize> {
    if part.kind == RdbKind::SORTED_SET_LISTPACK
        && let SortedSetRef::Packed(pairs) = set.view()
    {
        listpack::write(pairs, part.style, out);
        return None;
    }
    let end = part.end(out);
    if part.from == 0 {
        let is_exact = set.next_deadline().is_none();
        let count = if is_exact { set.len() } else { live(set, 0, part.now).flatten().count() };
        length::write(count as u64, out);
    }
    for (nth, found) in live(set, part.from, part.now).enumerate() {
        if let Some((member, score, deadline)) = found {
            text::write(member, part.style.strings, out);
            out.extend_from_slice(&score.to_le_bytes());
            if part.kind == RdbKind::SORTED_SET_WITH_DEADLINES {
                deadline::write(deadline, out);
            }
        }
        if out.len() >= end {
            return Some(part.from + nth + 1);
        }
    }
    None
}

/// Reads a sorted set of some kind.
pub fn read(
    kind: RdbKind,
    input: &mut Input<'_>,
    limits: &RdbLimits,
) -> Result<SortedSet, Malformed> {
    match kind {
        RdbKind::SORTED_SET | RdbKind::SORTED_SET_2 | RdbKind::SORTED_SET_WITH_DEADLINES => {
            read_members(kind, input, limits)
        }
        RdbKind::SORTED_SET_ZIPLIST => of_pairs(ziplist::read(input)?, limits),
        _ => of_pairs(listpack::read(input)?, limits),
    }
}

fn add(
    set: &mut SortedSet,
    member: &[u8],
    score: f64,
    limits: &RdbLimits,
) -> Result<(), Malformed> {
    if score.is_nan() {
        return Err(NO_SCORE);
    }
    match set.set(member, score, limits.sorted_set) {
        SetOutcome::Added => Ok(()),
        _ => Err(DOUBLE),
    }
}

fn read_members(
    kind: RdbKind,
    input: &mut Input<'_>,
    limits: &RdbLimits,
) -> Result<SortedSet, Malformed> {
    let count = length::read_count(input, 2)?;
    if kind == RdbKind::SORTED_SET_WITH_DEADLINES {
        return read_with_deadlines(count, input, limits);
    }
    if count > MOST_AT_ONCE {
        let mut set = SortedSet::with_room(count, usize::MAX, limits.sorted_set);
        for _ in 0..count {
            let (member, score) = read_member(kind, input, limits)?;
            add(&mut set, member.bytes(&mut IntText::new()), score, limits)?;
        }
        return Ok(set);
    }
    let mut members = Vec::new();
    for _ in 0..count {
        members.push(read_member(kind, input, limits)?);
    }
    let mut rooms = vec![IntText::new(); members.len()];
    let entries = members.iter().zip(&mut rooms);
    of_entries(
        entries.map(|((member, score), room)| (member.bytes(room), *score)).collect(),
        limits,
    )
}

/// A sorted set of entries in any order.
fn of_entries(mut entries: Vec<Point<'_>>, limits: &RdbLimits) -> Result<SortedSet, Malformed> {
    if entries.iter().any(|(_, score)| score.is_nan()) {
        return Err(NO_SCORE);
    }
    if !doubles::are_texts_different(entries.iter().map(|(member, _)| *member)) {
        return Err(DOUBLE);
    }
    // Other servers write them descending.
    if entries.len() > 1 && order(&entries[0], &entries[1]).is_gt() {
        entries.reverse();
    }
    if !entries.is_sorted_by(|one, other| order(one, other).is_lt()) {
        entries.sort_by(order);
    }
    Ok(SortedSet::of_sorted(&entries, limits.sorted_set))
}

/// The order of a sorted set; both zeros are equal.
fn order(one: &Point<'_>, other: &Point<'_>) -> Ordering {
    let by_score = one.1.partial_cmp(&other.1).unwrap_or(Ordering::Equal);
    by_score.then_with(|| one.0.cmp(other.0))
}

fn read_with_deadlines(
    count: usize,
    input: &mut Input<'_>,
    limits: &RdbLimits,
) -> Result<SortedSet, Malformed> {
    let mut set = SortedSet::with_room(usize::MAX, usize::MAX, limits.sorted_set);
    for _ in 0..count {
        let (member, score) = read_member(RdbKind::SORTED_SET_2, input, limits)?;
        let mut scratch = IntText::new();
        let member = member.bytes(&mut scratch);
        add(&mut set, member, score, limits)?;
        if let Some(deadline) = deadline::read(RdbKind::SORTED_SET_WITH_DEADLINES, input)? {
            set.set_deadline(member, deadline);
        }
    }
    Ok(set)
}

fn read_member<'a>(
    kind: RdbKind,
    input: &mut Input<'a>,
    limits: &RdbLimits,
) -> Result<(Text<'a>, f64), Malformed> {
    let member = text::read(input, limits.text_bytes.min(packed::MAX_BYTES / 2))?;
    let score = match kind {
        RdbKind::SORTED_SET => read_old_score(input)?,
        _ => f64::from_le_bytes(input.array()?),
    };
    Ok((member, score))
}

/// Reads a score as text after its length.
fn read_old_score(input: &mut Input<'_>) -> Result<f64, Malformed> {
    match input.byte()? {
        NAN => Err(NO_SCORE),
        INFINITY => Ok(f64::INFINITY),
        MINUS_INFINITY => Ok(f64::NEG_INFINITY),
        len => parse_f64(input.take(usize::from(len))?).ok_or(NO_SCORE),
    }
}

/// A sorted set from alternating members and scores.
fn of_pairs(pairs: Packed, limits: &RdbLimits) -> Result<SortedSet, Malformed> {
    if !pairs.len().is_multiple_of(2) {
        return Err(Malformed("a member without a score"));
    }
    let mut rooms = vec![IntText::new(); pairs.len() / 2];
    let mut rooms = rooms.iter_mut();
    let mut elements = pairs.view().iter().map(|(_, element)| element);
    let mut entries = Vec::with_capacity(pairs.len() / 2);
    while let (Some(member), Some(score), Some(room)) =
        (elements.next(), elements.next(), rooms.next())
    {
        let score = match score {
            Element::Int(number) => number as f64,
            Element::Bytes(text) => parse_f64(text).ok_or(NO_SCORE)?,
        };
        entries.push((member.text(room), score));
    }
    of_entries(entries, limits)
}
