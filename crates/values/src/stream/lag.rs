//! The lag of a group: how many entries it has still to read, where that is known without counting
//! them.
//!
//! A group counts what it reads. The count is right as long as nothing ahead of the group was
//! deleted by id; the stream remembers only the largest deleted id. The cases follow the reference
//! exactly, because clients see when the lag is `nil`. Clients may set the count of all entries to
//! any number below 2^64, and arithmetic wraps around as in the reference.

use super::group::Group;
use super::id::StreamId;
use super::{Entries, Stream};

/// The counters of a whole stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    pub length: u64,
    pub last_id: StreamId,
    pub first_id: StreamId,
    pub max_deleted_id: StreamId,
    pub entries_added: u64,
}

impl Counts {
    /// Whether an entry from `start` on was deleted.
    fn has_gaps_from(&self, start: StreamId) -> bool {
        let nothing_deleted = self.length == 0 || self.max_deleted_id == StreamId::MIN;
        !nothing_deleted && start <= self.max_deleted_id
    }

    /// How many entries ever added have ids up to this one; `None` where that is unknown.
    fn read_up_to(&self, id: StreamId) -> Option<i64> {
        let added = self.entries_added as i64;
        if self.entries_added == 0 {
            return Some(0);
        }
        if self.length == 0 && id <= self.last_id {
            return Some(added);
        }
        if id != StreamId::MIN && id < self.max_deleted_id {
            return None;
        }
        if id >= self.last_id {
            return (id == self.last_id).then_some(added);
        }
        let no_gaps = self.max_deleted_id == StreamId::MIN || self.max_deleted_id < self.first_id;
        if no_gaps && id < self.first_id {
            return Some(added.wrapping_sub(self.length as i64));
        }
        (no_gaps && id == self.first_id)
            .then(|| added.wrapping_sub(self.length as i64).wrapping_add(1))
    }

    fn lag(&self, group: &Group) -> Option<i64> {
        if self.entries_added == 0 {
            return Some(0);
        }
        let added = self.entries_added as i64;
        if let Some(read) = group.entries_read
            && !self.has_gaps_from(group.last_id)
        {
            return Some(added.wrapping_sub(read));
        }
        self.read_up_to(group.last_id).map(|read| added.wrapping_sub(read))
    }
}

impl Stream {
    fn counts(&self) -> Counts {
        Counts {
            length: self.len(),
            last_id: self.last_id(),
            first_id: self.first_id(),
            max_deleted_id: self.max_deleted_id(),
            entries_added: self.entries_added(),
        }
    }

    /// How many entries ever added have ids up to this one; `None` where that is unknown.
    pub fn entries_up_to(&self, id: StreamId) -> Option<i64> {
        self.counts().read_up_to(id)
    }

    /// How many entries a group has still to read; `None` where that is unknown.
    pub fn lag(&self, group: &Group) -> Option<i64> {
        self.counts().lag(group)
    }
}

impl Entries<'_> {
    /// Records that a group has read up to this id.
    #[inline]
    pub fn advance(&self, group: &mut Group, id: StreamId) {
        let counts = &self.counts;
        if let Some(read) = group.entries_read
            && group.last_id >= counts.first_id
            && !counts.has_gaps_from(group.last_id)
        {
            group.entries_read = Some(read.wrapping_add(1));
        } else if counts.entries_added > 0 {
            group.entries_read = counts.read_up_to(id);
        }
        group.last_id = id;
    }
}
