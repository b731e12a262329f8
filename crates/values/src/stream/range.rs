//! Reading from one id to another, in either direction.

use super::block::{self, Block, Entry};
use super::id::StreamId;
use super::sorted::{self, Keyed, Sorted};
use super::{Entries, Stream};

/// Iterates over entries, ascending. See [`Stream::range`].
#[derive(Debug)]
pub struct Range<'a> {
    blocks: sorted::From<'a, Block>,
    entries: Option<block::Entries<'a>>,
    end: StreamId,
}

/// Iterates over entries, descending. See [`Stream::range_back`].
#[derive(Debug)]
pub struct RangeBack<'a> {
    blocks: sorted::Back<'a, Block>,
    entries: Option<block::Back<'a>>,
    start: StreamId,
    end: StreamId,
}

fn range(blocks: &Sorted<Block>, start: StreamId, end: StreamId) -> Range<'_> {
    let mut blocks = blocks.iter_around(start);
    let mut entries = blocks.next().map(Block::entries);
    if let Some(entries) = &mut entries {
        entries.skip_to(start);
    }
    Range { blocks, entries, end }
}

impl Stream {
    /// The entries from `start` to `end`, both included.
    pub fn range(&self, start: StreamId, end: StreamId) -> Range<'_> {
        range(&self.0.blocks, start, end)
    }

    /// The approximate number of entries from `start` to `end`.
    pub fn count_about(&self, start: StreamId, end: StreamId) -> u64 {
        let blocks = &self.0.blocks;
        let between = blocks.count_below(end).saturating_sub(blocks.count_below(start)) as u64;
        let per_block = self.len() / (blocks.len() as u64).max(1);
        (between + 1).saturating_mul(per_block).min(self.len())
    }

    /// The entries from `end` back to `start`, both included.
    pub fn range_back(&self, start: StreamId, end: StreamId) -> RangeBack<'_> {
        RangeBack { blocks: self.0.blocks.iter_back(end), entries: None, start, end }
    }
}

impl<'a> Entries<'a> {
    /// The entries from `start` on.
    #[inline]
    pub fn from(&self, start: StreamId) -> Range<'a> {
        range(self.blocks, start, StreamId::MAX)
    }

    /// Whether there is no entry after this id, as far as a quick check can tell.
    #[inline]
    pub fn are_read_up_to(&self, id: StreamId) -> bool {
        id >= self.counts.last_id
    }

    /// The entry with this id.
    pub fn get(&self, id: StreamId) -> Option<Entry<'a>> {
        self.blocks.at_most(id)?.find(id)
    }
}

impl<'a> Iterator for Range<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        loop {
            match self.entries.as_mut()?.next() {
                Some(entry) if entry.id <= self.end => return Some(entry),
                Some(_) => self.entries = None,
                None => self.entries = self.blocks.next().map(Block::entries),
            }
        }
    }
}

impl<'a> Iterator for RangeBack<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        loop {
            if let Some(entry) = self.entries.as_mut().and_then(Iterator::next) {
                return Some(entry);
            }
            if self.end < self.start {
                return None;
            }
            let block = self.blocks.next()?;
            self.entries = Some(block.entries_back(self.start, self.end));
            // Blocks before this one end below its first id.
            match block.id().previous() {
                Some(end) => self.end = self.end.min(end),
                None => self.start = StreamId::MAX,
            }
        }
    }
}
