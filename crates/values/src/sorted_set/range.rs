//! Ranges as commands name them, by score and by member, and their conversion to ranks.
//!
//! Every range of a sorted set is a range of ranks: two searches find its ends. So counting is a
//! subtraction, and an offset into a range an addition.

use super::tree::Point;

/// Scores from `min` to `max`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreRange {
    /// The lower end.
    pub min: f64,
    /// Whether the lower end itself is excluded.
    pub after_min: bool,
    /// The upper end.
    pub max: f64,
    /// Whether the upper end itself is excluded.
    pub before_max: bool,
}

impl ScoreRange {
    /// Scores between two ends, both included.
    pub fn closed(min: f64, max: f64) -> ScoreRange {
        ScoreRange { min, after_min: false, max, before_max: false }
    }

    /// Whether a score lies in it.
    pub fn holds(&self, score: f64) -> bool {
        !self.start().is_behind(score, &[]) && self.end().is_behind(score, &[])
    }

    pub(super) fn start(&self) -> Point<'static> {
        match self.after_min {
            true => Point::BehindScore(self.min),
            false => Point::BeforeScore(self.min),
        }
    }

    pub(super) fn end(&self) -> Point<'static> {
        match self.before_max {
            true => Point::BeforeScore(self.max),
            false => Point::BehindScore(self.max),
        }
    }
}

/// One end of a range of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexEnd<'a> {
    /// `-`: before every member.
    First,
    /// `+`: after every member.
    Last,
    /// `[member`: the member is included.
    Including(&'a [u8]),
    /// `(member`: the member is excluded.
    Excluding(&'a [u8]),
}

/// A range of members, in a sorted set whose scores are all equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LexRange<'a> {
    /// The lower end.
    pub min: LexEnd<'a>,
    /// The upper end.
    pub max: LexEnd<'a>,
}

impl<'a> LexRange<'a> {
    /// The point where the range starts; infinite scores stand for both ends of the set.
    pub(super) fn start(&self) -> Point<'a> {
        match self.min {
            LexEnd::First => Point::BeforeScore(f64::NEG_INFINITY),
            LexEnd::Last => Point::BehindScore(f64::INFINITY),
            LexEnd::Including(member) => Point::BeforeMember(member),
            LexEnd::Excluding(member) => Point::BehindMember(member),
        }
    }

    pub(super) fn end(&self) -> Point<'a> {
        match self.max {
            LexEnd::First => Point::BeforeScore(f64::NEG_INFINITY),
            LexEnd::Last => Point::BehindScore(f64::INFINITY),
            LexEnd::Including(member) => Point::BehindMember(member),
            LexEnd::Excluding(member) => Point::BeforeMember(member),
        }
    }
}
