//! Read access to a sorted set in either form.

use std::ops::Range;

use pantala_table::{IntText, StrRef};

use crate::packed;

use super::range::{LexRange, ScoreRange};
use super::small;
use super::tree::{self, Point, Tree};

/// A sorted set to be read, in either form.
#[derive(Clone, Copy, Debug)]
pub enum SortedSetRef<'a> {
    /// Pairs in one buffer.
    Packed(packed::View<'a>),
    /// A tree.
    Tree(&'a Tree),
}

impl<'a> SortedSetRef<'a> {
    /// How many members there are.
    #[inline]
    pub fn len(self) -> usize {
        match self {
            SortedSetRef::Packed(view) => view.len() / 2,
            SortedSetRef::Tree(tree) => tree.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// A member's score.
    #[inline]
    pub fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            SortedSetRef::Packed(view) => {
                small::find(view, member).map(|at| small::score_at(view, at))
            }
            SortedSetRef::Tree(tree) => tree.find(member).map(|spot| tree.score_at(spot)),
        }
    }

    /// A member's rank and score.
    #[inline]
    pub fn rank(self, member: &[u8]) -> Option<(usize, f64)> {
        match self {
            SortedSetRef::Packed(view) => small::find(view, member)
                .map(|at| (view.index_of(at) / 2, small::score_at(view, at))),
            SortedSetRef::Tree(tree) => {
                tree.find(member).map(|spot| (tree.rank_of(spot), tree.score_at(spot)))
            }
        }
    }

    /// The ranks of the members with scores in a range.
    pub fn ranks_by_score(self, range: &ScoreRange) -> Range<usize> {
        self.between(&range.start(), &range.end())
    }

    /// The ranks of the members in a range. Meaningful where all scores are equal; where they are
    /// not, the packed form searches from the range's end if `reverse`, as the reference does.
    pub fn ranks_by_lex(self, range: &LexRange<'_>, reverse: bool) -> Range<usize> {
        match self {
            SortedSetRef::Packed(view) => {
                small::between(view, &range.start(), &range.end(), reverse)
            }
            SortedSetRef::Tree(_) => self.between(&range.start(), &range.end()),
        }
    }

    fn between(self, start: &Point<'_>, end: &Point<'_>) -> Range<usize> {
        let (start, end) = (self.rank_of_point(start), self.rank_of_point(end));
        start..end.max(start)
    }

    fn rank_of_point(self, point: &Point<'_>) -> usize {
        match self {
            SortedSetRef::Packed(view) => small::seek(view, point).1,
            SortedSetRef::Tree(tree) => tree.seek(point).1,
        }
    }

    /// Entries with scores in a range, ascending: one search and no allocation.
    pub fn by_score(self, range: ScoreRange) -> impl Iterator<Item = (StrRef<'a>, f64)> {
        let rank = self.rank_of_point(&range.start());
        self.entries(rank, usize::MAX).take_while(move |(_, score)| range.holds(*score))
    }

    /// `count` entries from a rank on, ascending.
    #[inline]
    pub fn entries(self, rank: usize, count: usize) -> Entries<'a> {
        match self {
            SortedSetRef::Packed(view) => Entries::Packed(small::Walk::new(view, rank, count)),
            SortedSetRef::Tree(tree) => Entries::Tree(tree.walk(rank, count)),
        }
    }

    /// All entries, ascending.
    pub fn iter(self) -> Entries<'a> {
        self.entries(0, usize::MAX)
    }

    /// `count` entries from a rank on, descending.
    #[inline]
    pub fn entries_back(self, rank: usize, count: usize) -> EntriesBack<'a> {
        match self {
            SortedSetRef::Packed(view) => {
                EntriesBack::Packed(small::WalkBack::new(view, rank, count))
            }
            SortedSetRef::Tree(tree) => EntriesBack::Tree(tree.walk_back(rank, count)),
        }
    }

    /// Shows entries in an order that does not depend on scores: each member that exists from the
    /// first call to the last is shown. `from` is 0 or the result of the previous call; returns 0
    /// at the end. A small sorted set is shown as a whole.
    pub fn scan(self, from: u64, count: usize, show: &mut dyn FnMut(&[u8], f64)) -> u64 {
        match self {
            SortedSetRef::Packed(_) => {
                for (member, score) in self.iter() {
                    show(member.bytes(&mut IntText::new()), score);
                }
                0
            }
            SortedSetRef::Tree(tree) => {
                let from = u32::try_from(from).unwrap_or(0);
                tree.scan(from, count, show).map_or(0, u64::from)
            }
        }
    }
}

/// Iterates over entries, ascending.
#[derive(Clone, Debug)]
pub enum Entries<'a> {
    /// Of the small form.
    Packed(small::Walk<'a>),
    /// Of the large form.
    Tree(tree::Walk<'a>),
}

impl<'a> Iterator for Entries<'a> {
    type Item = (StrRef<'a>, f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Entries::Packed(walk) => walk.next(),
            Entries::Tree(walk) => {
                walk.next().map(|(member, score)| (StrRef::Bytes(member), score))
            }
        }
    }
}

/// Iterates over entries, descending.
#[derive(Clone, Debug)]
pub enum EntriesBack<'a> {
    /// Of the small form.
    Packed(small::WalkBack<'a>),
    /// Of the large form.
    Tree(tree::WalkBack<'a>),
}

impl<'a> Iterator for EntriesBack<'a> {
    type Item = (StrRef<'a>, f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            EntriesBack::Packed(walk) => walk.next(),
            EntriesBack::Tree(walk) => {
                walk.next().map(|(member, score)| (StrRef::Bytes(member), score))
            }
        }
    }
}
