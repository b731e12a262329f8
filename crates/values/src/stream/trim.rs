//! Removing entries at the front.
//!
//! Exact trimming deletes single entries where a block is not removed as a whole; approximate
//! trimming removes only whole blocks. For that an entry that was deleted by id still counts as the
//! last of its block, as in the reference's nodes.

use super::block::Block;
use super::id::StreamId;
use super::sorted::Keyed;
use super::{Body, Stream};

/// What remains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// At most this many entries.
    Length(u64),
    /// No entry below this id.
    Id(StreamId),
}

/// What happens to groups' references to deleted entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum References {
    /// They stay, and point to nothing.
    #[default]
    Keep,
    /// They are removed.
    Drop,
    /// Only entries that all groups have read and acknowledged are deleted.
    Acknowledged,
}

/// How to trim.
#[derive(Clone, Copy, Debug)]
pub struct Trim {
    /// What remains.
    pub bound: Bound,
    /// Whether only whole blocks are removed.
    pub approximate: bool,
    /// The most entries to delete; 0: no limit.
    pub limit: u64,
    /// What happens to references.
    pub references: References,
}

impl Stream {
    /// Trims; returns how many entries were deleted.
    pub fn trim(&mut self, trim: Trim) -> u64 {
        match self.minds_references(trim) {
            true => self.trim_slowly(trim, &mut |_| {}),
            false => self.0.trim(trim),
        }
    }

    /// Trims, and passes the id of each deleted entry to `gone` where references matter.
    pub fn trim_each(&mut self, trim: Trim, gone: &mut dyn FnMut(StreamId)) -> u64 {
        self.trim_slowly(trim, gone)
    }

    /// Whether trimming must look at the references of groups.
    pub fn minds_references(&self, trim: Trim) -> bool {
        trim.references != References::Keep && !self.0.groups.is_empty()
    }

    /// The approximate number of entries that [`Stream::trim`] will look at.
    pub fn trim_cost(&self, trim: Trim) -> u64 {
        let most = if trim.limit == 0 { u64::MAX } else { trim.limit };
        let excess = match trim.bound {
            Bound::Length(length) => self.len().saturating_sub(length),
            Bound::Id(id) => {
                let count = self.0.blocks.count_below(id) as u64;
                self.len() / (self.block_count() as u64).max(1) * count
            }
        };
        excess.min(most)
    }

    /// Trims entry by entry, because references must be checked or removed.
    fn trim_slowly(&mut self, trim: Trim, gone: &mut dyn FnMut(StreamId)) -> u64 {
        let only_acknowledged = trim.references == References::Acknowledged;
        // Entries after this were not read by all groups.
        let last_read = self.0.groups.values().map(|group| group.last_id).min();
        let last_read = last_read.unwrap_or(StreamId::MAX);
        let (mut deleted, mut from) = (0, Some(StreamId::MIN));
        while let Some(ids) = from.and_then(|from| self.droppable(trim, from, deleted)) {
            let goes_on = !only_acknowledged || ids.last <= last_read;
            from = ids.last.next().filter(|_| goes_on);
            for id in ids.all {
                if only_acknowledged && self.is_referenced(id) {
                    continue;
                }
                if matches!(trim.bound, Bound::Length(length) if self.len() <= length) {
                    return deleted;
                }
                self.drop_references(id);
                if self.0.delete_at_front(id) {
                    deleted += 1;
                    gone(id);
                }
            }
        }
        deleted
    }

    /// The deletable ids of one block, if that block may be touched.
    fn droppable(&self, trim: Trim, from: StreamId, deleted: u64) -> Option<BlockIds> {
        let block = self.0.blocks.iter_around(from).find(|block| {
            // The block around `from` may lie wholly before it.
            block.id() >= from || block.last().is_some_and(|last| last.id >= from)
        })?;
        let last = block.last()?.id;
        let size = block.len() as u64;
        if trim.limit != 0 && deleted + size > trim.limit {
            return None;
        }
        let (goes_whole, is_touched) = match trim.bound {
            Bound::Length(length) => {
                (self.len().saturating_sub(size) >= length, self.len() > length)
            }
            Bound::Id(id) if trim.approximate => (block.last_id() < id, block.id() < id),
            Bound::Id(id) => (last < id, block.id() < id),
        };
        if !is_touched || (trim.approximate && !goes_whole) {
            return None;
        }
        let below = |id: &StreamId| match trim.bound {
            Bound::Length(_) => true,
            Bound::Id(bound) => *id < bound,
        };
        let all = block.entries().map(|entry| entry.id).take_while(below).collect();
        Some(BlockIds { all, last })
    }
}

/// The deletable ids of a block, and the last of all its ids.
struct BlockIds {
    all: Vec<StreamId>,
    last: StreamId,
}

impl Body {
    fn trim(&mut self, trim: Trim) -> u64 {
        let mut deleted = 0;
        while let Some(block) = self.blocks.first() {
            let size = block.len() as u64;
            if matches!(trim.bound, Bound::Length(length) if self.length <= length) {
                break;
            }
            if trim.limit != 0 && deleted + size > trim.limit {
                break;
            }
            let goes_whole = match trim.bound {
                Bound::Length(length) => self.length - size >= length,
                Bound::Id(id) if trim.approximate => block.last_id() < id,
                Bound::Id(id) => block.last().is_some_and(|last| last.id < id),
            };
            if !goes_whole {
                if !trim.approximate {
                    deleted += self.trim_first_block(trim.bound);
                }
                break;
            }
            if let Some(block) = self.blocks.pop_first() {
                self.block_bytes -= block.heap_bytes();
            }
            self.length -= size;
            deleted += size;
        }
        deleted
    }

    fn trim_first_block(&mut self, bound: Bound) -> u64 {
        let length_before = self.length;
        let Some(block) = self.blocks.first_mut() else { return 0 };
        let before = block.heap_bytes();
        let is_done = |id: StreamId, deleted: usize| match bound {
            Bound::Length(length) => length_before - deleted as u64 <= length,
            Bound::Id(bound) => id >= bound,
        };
        let deleted = block.delete_front(is_done, |_| true) as u64;
        self.block_bytes = self.block_bytes - before + block.heap_bytes();
        self.length -= deleted;
        deleted
    }

    /// Deletes an entry as trimming does: it does not count as deleted by id.
    fn delete_at_front(&mut self, id: StreamId) -> bool {
        let Some(block) = self.blocks.at_most_mut(id) else { return false };
        let before = block.heap_bytes();
        let is_deleted = block.delete(id);
        self.block_bytes = self.block_bytes - before + block.heap_bytes();
        let first = block.id();
        if is_deleted {
            self.length -= 1;
            if Block::len(block) == 0 {
                self.remove_block(first);
            }
        }
        is_deleted
    }
}
