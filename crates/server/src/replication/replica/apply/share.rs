//! Which steps of a run are whose.

use std::ops::Range;

use super::batch::{Batch, Kind, Look};

/// Which steps of a run one thread runs: those of its partitions, and what selects a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its number,
    pub number: usize,
    /// of so many.
    pub count: usize,
}

impl Share {
    /// All of them.
    pub const ALL: Share = Share { number: 0, count: 1 };

    #[inline]
    fn has(self, look: &Look) -> bool {
        let is_of_key = matches!(look.kind, Kind::Grouped | Kind::OneKey);
        self.count == 1 || !is_of_key || look.partition() % self.count == self.number
    }
}

/// Steps that are still to be run.
#[derive(Clone)]
pub(super) struct Work<'b> {
    pub batch: &'b Batch,
    pub share: Share,
    range: Range<usize>,
}

impl<'b> Work<'b> {
    /// These of the batch.
    pub fn new(batch: &'b Batch, range: Range<usize>, share: Share) -> Work<'b> {
        Work { batch, share, range }
    }

    /// The next step and what it is.
    #[inline]
    pub fn peek(&mut self) -> Option<(usize, &'b Look)> {
        while let Some(look) = self.batch.looks[..self.range.end].get(self.range.start) {
            if self.share.has(look) {
                return Some((self.range.start, look));
            }
            self.range.start += 1;
        }
        None
    }

    /// All up to this one have run.
    #[inline]
    pub fn has_run(&mut self, number: usize) {
        self.range.start = number + 1;
    }
}
