//! Parsing ranges.
//!
//! Scores: a number, `inf`, `-inf`; a bracket `(` before it excludes the number itself. Members:
//! `-` and `+` for the ends, `[member` and `(member`. As in the reference an end of scores is read
//! up to its first zero byte, an empty one is 0, and one that is too large is infinite.

use pantala_values::sorted_set::{LexEnd, LexRange, ScoreRange};

use crate::error::ClientError;

const NOT_SCORES: ClientError = ClientError::text("ERR min or max is not a float");
const NOT_MEMBERS: ClientError = ClientError::text("ERR min or max not valid string range item");

/// Scores from `min` to `max`.
pub(super) fn scores(min: &[u8], max: &[u8]) -> Result<ScoreRange, ClientError> {
    let (min, after_min) = score(min)?;
    let (max, before_max) = score(max)?;
    Ok(ScoreRange { min, after_min, max, before_max })
}

/// A score, and whether it is excluded.
fn score(text: &[u8]) -> Result<(f64, bool), ClientError> {
    let (text, is_open) = match text {
        [b'(', rest @ ..] => (rest, true),
        _ => (text, false),
    };
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Ok((0.0, is_open));
    }
    let parsed = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
    parsed.filter(|score| !score.is_nan()).map(|score| (score, is_open)).ok_or(NOT_SCORES)
}

/// Members from `min` to `max`.
pub(super) fn members<'c>(min: &'c [u8], max: &'c [u8]) -> Result<LexRange<'c>, ClientError> {
    Ok(LexRange { min: member(min)?, max: member(max)? })
}

fn member(text: &[u8]) -> Result<LexEnd<'_>, ClientError> {
    match text {
        [b'-'] | [b'-', 0, ..] => Ok(LexEnd::First),
        [b'+'] | [b'+', 0, ..] => Ok(LexEnd::Last),
        [b'[', rest @ ..] => Ok(LexEnd::Including(rest)),
        [b'(', rest @ ..] => Ok(LexEnd::Excluding(rest)),
        _ => Err(NOT_MEMBERS),
    }
}

/// The ranks from `start` to `stop`, both included; negative ones count from the end.
pub(super) fn ranks(start: i64, stop: i64, len: usize) -> std::ops::Range<usize> {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let from_front = |index: i64| if index < 0 { index.saturating_add(len) } else { index };
    let start = from_front(start).max(0);
    let end = from_front(stop).saturating_add(1).min(len);
    if start >= end { 0..0 } else { start as usize..end as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_count_from_both_ends() {
        for (start, stop, len, expected) in [
            (0, -1, 5, 0..5),
            (1, 2, 5, 1..3),
            (-2, -1, 5, 3..5),
            (-9, 0, 5, 0..1),
            (3, 2, 5, 0..0),
            (5, 9, 5, 0..0),
            (0, 99, 0, 0..0),
            (i64::MIN, i64::MAX, 5, 0..5),
            (i64::MAX, i64::MIN, 5, 0..0),
        ] {
            assert_eq!(ranks(start, stop, len), expected, "{start} {stop} of {len}");
        }
    }

    #[test]
    fn ends_of_scores() {
        let end = |text: &[u8]| score(text).ok();
        assert_eq!(end(b"1.5"), Some((1.5, false)));
        assert_eq!(end(b"(1.5"), Some((1.5, true)));
        assert_eq!(end(b"(-inf"), Some((f64::NEG_INFINITY, true)));
        assert_eq!(end(b""), Some((0.0, false)));
        assert_eq!(end(b"1e999"), Some((f64::INFINITY, false)));
        for bad in [&b"nan"[..], b"((1", b" 1", b"1 ", b"0x1", b"[1", b"\xff"] {
            assert_eq!(end(bad), None);
        }
    }
}
