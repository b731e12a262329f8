//! Ranges as commands name them, by score and by member, and what they are as ranks.
//!
//! Every range of a sorted set is a range of ranks: two searches find its ends. So counting is a
//! subtraction, and an offset into a range an addition.

use super::tree::Point;

/// Scores from `min` to `max`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreRange {
    /// The least.
    pub min: f64,
    /// Whether the least itself is left out.
    pub after_min: bool,
    /// The greatest.
    pub max: f64,
    /// Whether the greatest itself is left out.
    pub before_max: bool,
}

impl ScoreRange {
    /// Scores from one to another, both included.
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
    /// `[member`: this one belongs to the range.
    Including(&'a [u8]),
    /// `(member`: this one does not.
    Excluding(&'a [u8]),
}

/// Members from one to another, of a sorted set whose scores are all equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LexRange<'a> {
    /// Where it begins.
    pub min: LexEnd<'a>,
    /// Where it ends.
    pub max: LexEnd<'a>,
}

impl<'a> LexRange<'a> {
    /// The point where it begins; infinite scores stand for both ends of the set.
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
