//! Weights, and the order by them.
//!
//! Equal numbers are ordered by the elements' texts. Elements that are still equal keep their
//! order, even in descending order.

use std::cmp::Ordering;
use std::ops::Range;

use pantala_base::number::parse_f64;
use pantala_table::{IntText, StrRef};

use super::PatternValues;
use super::query::Weights;
use super::texts::Texts;
use crate::calls::call::{CommandResult, Stop};
use crate::error::ClientError;

const NOT_NUMBERS: ClientError =
    ClientError::text("ERR One or more scores can't be converted into double");

/// Puts `picked`, the numbers of all elements, in order, as far as the range needs it.
pub(super) fn sort(
    meanings: &mut PatternValues<'_, '_>,
    by: &Weights<'_>,
    elements: &Texts,
    picked: &mut [usize],
    range: &Range<usize>,
) -> CommandResult {
    let turn = |order: Ordering| if by.is_descending { order.reverse() } else { order };
    if !by.is_alpha {
        let numbers = numbers(meanings, by, elements)?;
        place(picked, range, |a, b| {
            let order = numbers[a].partial_cmp(&numbers[b]).unwrap_or(Ordering::Equal);
            turn(order.then_with(|| elements.get(a).cmp(elements.get(b))))
        });
    } else if by.pattern.is_some() {
        let (texts, is_there) = texts(meanings, by, elements);
        place(picked, range, |a, b| {
            let order = is_there[a].cmp(&is_there[b]);
            let order = order.then_with(|| texts.get(a).cmp(texts.get(b)));
            // Elements of a set lie in another order at a replica, which stores the same list.
            turn(order.then_with(|| elements.get(a).cmp(elements.get(b))))
        });
    } else {
        place(picked, range, |a, b| turn(elements.get(a).cmp(elements.get(b))));
    }
    Ok(())
}

/// Sorts as far as the range needs it.
fn place(picked: &mut [usize], range: &Range<usize>, compare: impl Fn(usize, usize) -> Ordering) {
    let compare = |a: &usize, b: &usize| compare(*a, *b).then(a.cmp(b));
    if range.is_empty() {
        return;
    }
    let wanted = range.end;
    if wanted < picked.len() {
        picked.select_nth_unstable_by(wanted, compare);
    }
    picked[..wanted].sort_unstable_by(compare);
}

/// Numbers as weights; a missing one is 0.
fn numbers(
    meanings: &mut PatternValues<'_, '_>,
    by: &Weights<'_>,
    elements: &Texts,
) -> Result<Vec<f64>, Stop> {
    let mut numbers = Vec::with_capacity(elements.len());
    for index in 0..elements.len() {
        let element = elements.get(index);
        let number = match &by.pattern {
            None => parse_f64(element),
            Some(pattern) => meanings.look_up(pattern, element, |found| match found {
                None => Some(0.0),
                Some(StrRef::Int(number)) => Some(number as f64),
                Some(StrRef::Bytes(text)) => parse_f64(text),
            }),
        };
        numbers.push(number.ok_or(NOT_NUMBERS)?);
    }
    Ok(numbers)
}

/// Texts as weights, and whether each exists: a missing text comes before all others.
fn texts(
    meanings: &mut PatternValues<'_, '_>,
    by: &Weights<'_>,
    elements: &Texts,
) -> (Texts, Vec<bool>) {
    let (mut texts, mut is_there) = (Texts::default(), Vec::with_capacity(elements.len()));
    for index in 0..elements.len() {
        let Some(pattern) = &by.pattern else { continue };
        meanings.look_up(pattern, elements.get(index), |found| {
            is_there.push(found.is_some());
            let mut budget = IntText::new();
            texts.push(found.as_ref().map_or(&[], |value| value.bytes(&mut budget)));
        });
    }
    (texts, is_there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_what_is_wanted() {
        let weights = [5, 3, 9, 3, 1, 7];
        for start in 0..=6 {
            for end in start..=6 {
                let mut picked: Vec<usize> = (0..6).collect();
                place(&mut picked, &(start..end), |a, b| weights[a].cmp(&weights[b]));
                assert_eq!(picked[start..end], [4, 1, 3, 0, 5, 2][start..end], "{start}..{end}");
            }
        }
    }
}
