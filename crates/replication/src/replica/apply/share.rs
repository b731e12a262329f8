//! Shares: which steps of a run belong to which thread.

use std::ops::Range;

use super::batch::{Batch, StepKind, StepSummary};

/// The share of one thread: the steps of its partitions, and those that select a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its number,
    pub number: usize,
    /// among this many.
    pub count: usize,
}

impl Share {
    /// All steps.
    pub const ALL: Share = Share { number: 0, count: 1 };

    #[inline]
    fn has(self, look: &StepSummary) -> bool {
        let is_of_key = matches!(look.kind, StepKind::Grouped | StepKind::OneKey);
        self.count == 1 || !is_of_key || look.partition() % self.count == self.number
    }
}

/// The steps that are still to be run.
#[derive(Clone)]
pub(super) struct Work<'b> {
    pub batch: &'b Batch,
    pub share: Share,
    range: Range<usize>,
}

impl<'b> Work<'b> {
    /// These steps of the batch.
    pub fn new(batch: &'b Batch, range: Range<usize>, share: Share) -> Work<'b> {
        debug_assert!(share.number < share.count, "each share is one of them");
        debug_assert!(range.end <= batch.looks.len(), "the steps are there");
        Work { batch, share, range }
    }

    /// The next step and what is known of it.
    #[inline]
    pub fn peek(&mut self) -> Option<(usize, &'b StepSummary)> {
        while let Some(look) = self.batch.looks[..self.range.end].get(self.range.start) {
            if self.share.has(look) {
                return Some((self.range.start, look));
            }
            self.range.start += 1;
        }
        None
    }

    /// Notes that all steps up to this one have run.
    #[inline]
    pub fn has_run(&mut self, number: usize) {
        debug_assert!(self.range.contains(&number), "steps run in order");
        self.range.start = number + 1;
    }
}
