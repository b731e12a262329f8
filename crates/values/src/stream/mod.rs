//! A stream: entries with ascending ids, each a list of field-value pairs, and consumer groups.
//!
//! ```text
//! blocks:  [ 1-0 .. 1-57 ]  [ 1-58 .. 7-3 ]  [ 7-4 .. ]      ordered by the first id
//!            limited in bytes and entries             ^ grows
//! ```
//!
//! | file | what |
//! |---|---|
//! | `id` | ids and their texts |
//! | `text`, `block` | some consecutive entries in one buffer |
//! | `sorted` | ordered lists in chunks: of blocks, of what is pending |
//! | `range` | reading from one id to another, either way |
//! | `trim` | removing entries at the front |
//! | `group` | consumer groups |
//! | `lag` | how far a group is behind |
//! | here | the stream itself |
//!
//! Invariants
//! 1. No block is without live entries, and blocks do not overlap.
//! 2. `length` is the sum of their live entries; no id is above `last_id`.
//! 3. `block_bytes` is the sum of what the blocks have allocated.
//!
//! A stream may be empty and is not removed then: it remembers its last id and its groups.

mod block;
mod group;
mod id;
mod lag;
mod range;
mod sorted;
mod text;
mod trim;

use std::collections::BTreeMap;

use pantala_base::UnixMs;
use pantala_table::{Renewal, size_class};

use crate::Collection;
use crate::digest::Digest;

use block::Block;
use sorted::{Keyed, Sorted};

pub use block::{BlockLimits, Entry, Fields};
pub use group::{Consumer, ConsumerNumber, Group, MOST_DELIVERIES, PendingEntry, once_more};
pub use id::{ID_TEXT_MAX_BYTES, Sequence, StreamId};
pub use range::{Range, RangeBack};
pub use trim::{Bound, References, Trim};

/// A stream, in one allocation.
#[derive(Debug, Default)]
pub struct Stream(Box<Body>);

#[derive(Clone, Debug, Default)]
struct Body {
    blocks: Sorted<Block>,
    length: u64,
    last_id: StreamId,
    max_deleted_id: StreamId,
    entries_added: u64,
    block_bytes: usize,
    groups: BTreeMap<Box<[u8]>, Box<Group>>,
}

/// The limit for the texts of an entry together; a larger entry is refused.
const ENTRY_LIMIT_BYTES: usize = 1 << 30;

/// The counters that XSETID sets.
#[derive(Clone, Copy, Debug)]
pub struct Counters {
    /// The last id.
    pub last_id: StreamId,
    /// How many entries were ever added.
    pub entries_added: Option<u64>,
    /// The largest id that was deleted.
    pub max_deleted_id: Option<StreamId>,
}

impl Stream {
    /// How many entries there are.
    pub fn len(&self) -> u64 {
        self.0.length
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.length == 0
    }

    /// The id that was added last.
    pub fn last_id(&self) -> StreamId {
        self.0.last_id
    }

    /// The largest id that was deleted by id.
    pub fn max_deleted_id(&self) -> StreamId {
        self.0.max_deleted_id
    }

    /// How many entries were ever added.
    pub fn entries_added(&self) -> u64 {
        self.0.entries_added
    }

    /// How many blocks there are.
    pub fn block_count(&self) -> usize {
        self.0.blocks.len()
    }

    /// The id of the first entry; zero in an empty stream.
    pub fn first_id(&self) -> StreamId {
        first_id(&self.0.blocks)
    }

    /// The last entry.
    pub fn last_entry(&self) -> Option<Entry<'_>> {
        self.0.blocks.last()?.last()
    }

    /// The next id for the time `now`: above all given ids, also if the clock stepped back.
    #[inline]
    pub fn next_id(&self, now: UnixMs) -> Option<StreamId> {
        next_id(self.0.last_id, now)
    }

    /// Whether the texts of one entry are too large together.
    pub fn is_too_large(pairs: &[&[u8]]) -> bool {
        pairs.iter().map(|text| text.len()).sum::<usize>() > ENTRY_LIMIT_BYTES
    }

    /// Appends an entry. Its id is above `last_id`; `pairs` alternates names and values and is not
    /// too large.
    #[inline]
    pub fn append(&mut self, id: StreamId, pairs: &[&[u8]], limits: BlockLimits) {
        debug_assert!(id > self.0.last_id);
        let body = &mut *self.0;
        body.length += 1;
        body.entries_added = body.entries_added.saturating_add(1);
        body.last_id = id;
        if let Some(block) = body.blocks.last_mut() {
            let before = block.heap_bytes();
            if block.append(id, pairs, limits) {
                body.block_bytes = body.block_bytes - before + block.heap_bytes();
                return;
            }
            block.close();
            body.block_bytes = body.block_bytes - before + block.heap_bytes();
        }
        let block = Block::new(id, pairs);
        body.block_bytes += block.heap_bytes();
        body.blocks.push(block);
    }

    /// The entry with this id.
    pub fn get(&self, id: StreamId) -> Option<Entry<'_>> {
        self.0.blocks.at_most(id)?.find(id)
    }

    /// Deletes an entry; false if there is none with this id.
    pub fn delete(&mut self, id: StreamId) -> bool {
        let body = &mut *self.0;
        let Some(block) = body.blocks.at_most_mut(id) else { return false };
        let before = block.heap_bytes();
        if !block.delete(id) {
            return false;
        }
        body.block_bytes = body.block_bytes - before + block.heap_bytes();
        if block.len() == 0 {
            let first = block.id();
            body.remove_block(first);
        }
        body.length -= 1;
        body.max_deleted_id = body.max_deleted_id.max(id);
        true
    }

    /// Sets what XSETID sets.
    pub fn set_counters(&mut self, counters: Counters) {
        let body = &mut *self.0;
        if counters.last_id < body.last_id
            && let Some(block) = body.blocks.last_mut()
        {
            block.forget_above(counters.last_id);
        }
        body.last_id = counters.last_id;
        if let Some(entries_added) = counters.entries_added {
            body.entries_added = entries_added;
        }
        if let Some(max_deleted_id) = counters.max_deleted_id {
            body.max_deleted_id = max_deleted_id;
        }
    }

    /// The groups, in the order of their names.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = (&[u8], &Group)> {
        self.0.groups.iter().map(|(name, group)| (&**name, &**group))
    }

    /// The group with this name.
    pub fn group(&self, name: &[u8]) -> Option<&Group> {
        self.0.groups.get(name).map(|group| &**group)
    }

    /// Mutable access to the group with this name.
    pub fn group_mut(&mut self, name: &[u8]) -> Option<&mut Group> {
        self.0.groups.get_mut(name).map(|group| &mut **group)
    }

    /// Mutable access to the group with this name, and read access to the entries.
    pub fn group_and_entries(&mut self, name: &[u8]) -> Option<(&mut Group, Entries<'_>)> {
        let Body { groups, blocks, length, last_id, max_deleted_id, entries_added, .. } =
            &mut *self.0;
        let group = groups.get_mut(name)?;
        let counts = lag::Counts {
            length: *length,
            last_id: *last_id,
            max_deleted_id: *max_deleted_id,
            entries_added: *entries_added,
            first_id: first_id(blocks),
        };
        Some((group, Entries { blocks, counts }))
    }

    /// Adds a group; false if there is one with this name.
    pub fn add_group(&mut self, name: &[u8], group: Group) -> bool {
        let is_new = !self.0.groups.contains_key(name);
        if is_new {
            self.0.groups.insert(name.into(), Box::new(group));
        }
        is_new
    }

    /// Removes a group; false if there is none with this name.
    pub fn remove_group(&mut self, name: &[u8]) -> bool {
        self.0.groups.remove(name).is_some()
    }

    /// Makes an entry pending in no group; returns whether it was pending in any.
    pub fn drop_references(&mut self, id: StreamId) -> bool {
        let groups = self.0.groups.values_mut();
        groups.fold(false, |found, group| group.acknowledge(id) | found)
    }

    /// Whether some group has not read or not acknowledged an entry.
    pub fn is_referenced(&self, id: StreamId) -> bool {
        let mut groups = self.0.groups.values();
        groups.any(|group| id > group.last_id || group.pending().get(id).is_some())
    }
}

fn first_id(blocks: &Sorted<Block>) -> StreamId {
    let first = blocks.first().and_then(|block| block.entries().next());
    first.map_or(StreamId::MIN, |entry| entry.id)
}

/// The entries of a stream whose group is borrowed separately.
#[derive(Clone, Copy, Debug)]
pub struct Entries<'a> {
    blocks: &'a Sorted<Block>,
    counts: lag::Counts,
}

/// The id after `last` for the time `now`; `None` when no ids are left.
#[inline]
pub fn next_id(last: StreamId, now: UnixMs) -> Option<StreamId> {
    let ms = u64::try_from(now.0).unwrap_or(0);
    if ms > last.ms { Some(StreamId { ms, seq: 0 }) } else { last.next() }
}

impl Body {
    fn remove_block(&mut self, first: StreamId) {
        if let Some(block) = self.blocks.remove(first) {
            self.block_bytes -= block.heap_bytes();
        }
    }
}

impl Collection for Stream {
    fn is_empty(&self) -> bool {
        false
    }

    fn heap_bytes(&self) -> usize {
        let body = &self.0;
        let groups = body.groups.iter().map(|(name, group)| {
            size_class(name.len().max(1)) + size_of::<Group>() + 32 + group.heap_bytes()
        });
        let lists = body.blocks.heap_bytes() + groups.sum::<usize>();
        size_class(size_of::<Body>()) + body.block_bytes + lists
    }

    fn renew(&mut self, from: usize, most: usize, renewal: &mut Renewal<'_>) -> Option<usize> {
        // A chunk of blocks is some dozens of parts.
        let end = from + most.div_ceil(sorted::CHUNK);
        for chunk in from..end {
            let blocks = self.0.blocks.chunk_mut(chunk)?;
            blocks.iter_mut().for_each(|block| block.renew(renewal));
        }
        Some(end)
    }

    fn encoding(&self) -> &'static str {
        "stream"
    }

    fn element_count(&self) -> u64 {
        self.len()
    }

    fn digest(&self, _now: UnixMs, digest: &mut Digest) {
        for entry in self.range(StreamId::MIN, StreamId::MAX) {
            digest.append(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
            for (name, value) in entry.fields() {
                digest.append_text(name.into());
                digest.append_text(value.into());
            }
        }
    }

    fn duplicate(&self) -> Self {
        let mut copy = self.0.clone();
        copy.block_bytes = copy.blocks.iter().map(Block::heap_bytes).sum();
        Stream(copy)
    }

    fn next_deadline(&self) -> Option<UnixMs> {
        None
    }
}
