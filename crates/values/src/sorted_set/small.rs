//! A small sorted set: pairs of member and score in one packed buffer, in order.
//!
//! ```text
//! | member | score | member | score | ...
//! ```
//!
//! A score is a number entry if it is a whole number, otherwise a text entry of its eight bytes,
//! which is read without parsing. (Redis's listpack has the score's text there; snapshots
//! translate.)
//!
//! Everything here walks from an end. The settings that decide when a sorted set becomes a tree
//! bound the size.

use std::ops::Range;

use pantala_table::{IntText, StrRef};

use crate::packed::{Element, Encoded, Packed, View, entry};

use super::tree::Point;

/// Whole numbers up to this are stored as numbers.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// Appends a score's entry.
pub fn encode_score(score: f64, out: &mut Encoded) {
    // Negative zero becomes zero, as in the reference's small form (and only there).
    if score.abs() <= WHOLE_MAX && score.trunc() == score {
        entry::encode(Element::Int(score as i64), out);
    } else {
        entry::encode(Element::Bytes(&score.to_le_bytes()), out);
    }
}

/// The score that an element encodes.
#[inline]
pub fn score_of(element: Element<'_>) -> f64 {
    match element {
        Element::Int(number) => number as f64,
        Element::Bytes(bytes) => {
            let bytes = bytes.first_chunk::<8>().expect("scores are written by `encode_score`");
            f64::from_le_bytes(*bytes)
        }
    }
}

/// A member in the form for a bulk reply.
#[inline]
pub fn member_of(element: Element<'_>) -> StrRef<'_> {
    element.into()
}

/// The offset of a member's entry.
#[inline]
pub fn find(view: View<'_>, member: &[u8]) -> Option<usize> {
    view.find(member, 2, 0)
}

/// The score that follows the member at an offset.
#[inline]
pub fn score_at(view: View<'_>, at: usize) -> f64 {
    score_of(view.at(view.next(at)))
}

/// The offset of the first pair that is not before a point, and its rank.
pub fn seek(view: View<'_>, point: &Point<'_>) -> (usize, usize) {
    let (mut at, mut rank) = (0, 0);
    let end = view.bytes().len();
    while at < end {
        let behind = view.next(at);
        let score = score_of(view.at(behind));
        let mut scratch = IntText::new();
        if !point.is_behind(score, view.at(at).text(&mut scratch)) {
            break;
        }
        at = view.next(behind);
        rank += 1;
    }
    (at, rank)
}

/// The ranks between two points. If the pairs are not in the order of the points, the result is the
/// run from the first pair after the start, or with `reverse` the run up to the last before the
/// end.
pub fn between(view: View<'_>, start: &Point<'_>, end: &Point<'_>, reverse: bool) -> Range<usize> {
    let sides = |(member, score): (StrRef<'_>, f64)| {
        let mut scratch = IntText::new();
        let member = member.bytes(&mut scratch);
        (!start.is_behind(score, member), end.is_behind(score, member))
    };
    let len = view.len() / 2;
    let all = || Walk::new(view, 0, len).map(sides);
    let back = || WalkBack::new(view, len.saturating_sub(1), len).map(sides);
    let last_is_in = back().next().is_some_and(|(is_in, _)| is_in);
    let first_is_in = all().next().is_some_and(|(_, is_in)| is_in);
    if !last_is_in || !first_is_in {
        return 0..0;
    }
    if reverse {
        let to = len - back().take_while(|(_, is_in)| !is_in).count();
        let count = back().skip(len - to).take_while(|(is_in, _)| *is_in).count();
        return to - count..to;
    }
    let from = all().take_while(|(is_in, _)| !is_in).count();
    let count = all().skip(from).take_while(|(_, is_in)| *is_in).count();
    from..from + count
}

/// Inserts a new member.
pub fn insert(packed: &mut Packed, score: f64, member: &[u8]) {
    let (at, _) = seek(packed.view(), &Point::BeforeEntry(score, member));
    insert_at(packed, at, score, member);
}

/// Appends a member after all others.
pub fn push(packed: &mut Packed, score: f64, member: &[u8]) {
    insert_at(packed, packed.entry_bytes(), score, member);
}

fn insert_at(packed: &mut Packed, at: usize, score: f64, member: &[u8]) {
    let mut pair = Encoded::new();
    entry::encode(Element::of(member), &mut pair);
    encode_score(score, &mut pair);
    packed.splice(at, 0, &pair, 2);
}

/// Sets another score for the member at an offset, and moves it.
pub fn shift(packed: &mut Packed, at: usize, score: f64, member: &[u8]) {
    let view = packed.view();
    let score_from = view.next(at);
    let behind = view.next(score_from);
    let point = Point::BeforeEntry(score, member);
    let stays_above = view.previous(at).is_none_or(|previous_score| {
        let name = view.previous(previous_score).map(|at| view.at(at));
        is_behind(&point, score_of(view.at(previous_score)), name)
    });
    let stays_below = behind == view.bytes().len()
        || !is_behind(&point, score_at(view, behind), Some(view.at(behind)));
    if stays_above && stays_below {
        let mut encoded = Encoded::new();
        encode_score(score, &mut encoded);
        return packed.splice(score_from, behind - score_from, &encoded, 0);
    }
    packed.remove(at, 2);
    insert(packed, score, member);
}

fn is_behind(point: &Point<'_>, score: f64, member: Option<Element<'_>>) -> bool {
    let mut scratch = IntText::new();
    member.is_some_and(|member| point.is_behind(score, member.text(&mut scratch)))
}

/// Iterates over pairs, ascending.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    view: View<'a>,
    at: usize,
    left: usize,
}

impl<'a> Walk<'a> {
    /// `count` pairs from a rank on.
    pub fn new(view: View<'a>, rank: usize, count: usize) -> Walk<'a> {
        match view.seek(2 * rank) {
            Some(at) => Walk { view, at, left: count },
            None => Walk { view, at: 0, left: 0 },
        }
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = (StrRef<'a>, f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 || self.at >= self.view.bytes().len() {
            return None;
        }
        self.left -= 1;
        let member = self.view.at(self.at);
        let score_from = self.view.next(self.at);
        self.at = self.view.next(score_from);
        Some((member_of(member), score_of(self.view.at(score_from))))
    }
}

/// Iterates over pairs, descending.
#[derive(Clone, Debug)]
pub struct WalkBack<'a> {
    view: View<'a>,
    /// The offset after the next pair.
    end: usize,
    left: usize,
}

impl<'a> WalkBack<'a> {
    /// `count` pairs from a rank on.
    pub fn new(view: View<'a>, rank: usize, count: usize) -> WalkBack<'a> {
        match view.seek(2 * rank) {
            Some(at) => WalkBack { view, end: view.next(view.next(at)), left: count },
            None => WalkBack { view, end: 0, left: 0 },
        }
    }
}

impl<'a> Iterator for WalkBack<'a> {
    type Item = (StrRef<'a>, f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let score_from = self.view.previous(self.end)?;
        let member_from = self.view.previous(score_from)?;
        self.left -= 1;
        self.end = member_from;
        Some((member_of(self.view.at(member_from)), score_of(self.view.at(score_from))))
    }
}
