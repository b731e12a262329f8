//! Consumer groups: how far a group has read, and what its consumers have not acknowledged yet.
//!
//! ```text
//! Group:  pending  id -> consumer, when delivered, how often      (all of them, by id)
//!         names    name -> number of the consumer
//!         consumers[number] -> name, times, ids that are pending for it
//! ```
//!
//! Invariants
//! 1. An id is in `pending` exactly if it is in the list of the one consumer named there.
//! 2. A consumer's number does not change while it exists.
//!
//! Not here: the entries themselves, which may be gone while they are pending.

use std::collections::BTreeMap;

use pantala_base::UnixMs;

use super::id::StreamId;
use super::sorted::{Keyed, Sorted};

/// The number of a consumer within its group.
pub type ConsumerNumber = u32;

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct PendingEntry {
    /// The id of the entry.
    pub id: StreamId,
    /// The consumer it was delivered to last.
    pub consumer: ConsumerNumber,
    /// The time of the last delivery.
    pub delivered_at: UnixMs,
    /// The number of deliveries.
    pub count: u64,
}

impl Keyed for PendingEntry {
    fn id(&self) -> StreamId {
        self.id
    }
}

/// A consumer of a group.
#[derive(Clone, Debug)]
pub struct Consumer {
    /// Its name.
    pub name: Box<[u8]>,
    /// When it last made a request.
    pub seen_at: UnixMs,
    /// When it last got an entry.
    pub active_at: Option<UnixMs>,
    pending: Sorted<StreamId>,
}

impl Consumer {
    /// The ids that it has not acknowledged, from an id on.
    pub fn pending_from(&self, id: StreamId) -> impl Iterator<Item = StreamId> + '_ {
        self.pending.iter_from(id).copied()
    }

    /// How many entries it has not acknowledged.
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }
}

/// A consumer group: position, pending entries and consumers.
#[derive(Clone, Debug)]
pub struct Group {
    /// The id of the last delivered entry.
    pub last_id: StreamId,
    /// How many entries ever added have ids up to `last_id`, if known.
    pub entries_read: Option<i64>,
    pending: Sorted<PendingEntry>,
    names: BTreeMap<Box<[u8]>, ConsumerNumber>,
    consumers: Vec<Option<Consumer>>,
    free: Vec<ConsumerNumber>,
}

/// Estimated bytes of a consumer, beside its name and pending ids.
const CONSUMER_BYTES: usize = size_of::<Option<Consumer>>() + 48;

impl Group {
    /// A group without consumers.
    pub fn new(last_id: StreamId, entries_read: Option<i64>) -> Group {
        Group {
            last_id,
            entries_read,
            pending: Sorted::default(),
            names: BTreeMap::new(),
            consumers: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Allocated bytes, approximately.
    pub fn heap_bytes(&self) -> usize {
        let lists = self.pending.heap_bytes() + self.pending.len() * size_of::<StreamId>();
        lists + self.names.len() * CONSUMER_BYTES
    }

    /// All pending entries of the group.
    pub fn pending(&self) -> &Sorted<PendingEntry> {
        &self.pending
    }

    /// How many consumers there are.
    pub fn consumer_count(&self) -> usize {
        self.names.len()
    }

    /// The consumers, in the order of their names.
    pub fn consumers(&self) -> impl Iterator<Item = &Consumer> {
        self.names.values().filter_map(|number| self.consumer(*number))
    }

    /// The number of the consumer with this name.
    pub fn find_consumer(&self, name: &[u8]) -> Option<ConsumerNumber> {
        self.names.get(name).copied()
    }

    /// The consumer with this number.
    pub fn consumer(&self, number: ConsumerNumber) -> Option<&Consumer> {
        self.consumers.get(number as usize)?.as_ref()
    }

    /// Mutable access to the consumer with this number.
    pub fn consumer_mut(&mut self, number: ConsumerNumber) -> Option<&mut Consumer> {
        self.consumers.get_mut(number as usize)?.as_mut()
    }

    /// The consumer with this name, created if missing, and whether it was created.
    pub fn consumer_or_new(&mut self, name: &[u8], now: UnixMs) -> (ConsumerNumber, bool) {
        if let Some(number) = self.find_consumer(name) {
            return (number, false);
        }
        let consumer = Consumer {
            name: name.into(),
            seen_at: now,
            active_at: None,
            pending: Sorted::default(),
        };
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                self.consumers.push(None);
                self.consumers.len() as ConsumerNumber - 1
            }
        };
        self.consumers[number as usize] = Some(consumer);
        self.names.insert(name.into(), number);
        (number, true)
    }

    /// Removes a consumer with its pending entries; returns how many those were.
    pub fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let number = self.names.remove(name)?;
        let consumer = self.consumers[number as usize].take()?;
        self.free.push(number);
        for id in consumer.pending.iter() {
            self.pending.remove(*id);
        }
        Some(consumer.pending.len())
    }

    /// Records a delivery of an entry as its first.
    #[inline]
    pub fn deliver(&mut self, id: StreamId, consumer: ConsumerNumber, now: UnixMs) {
        self.hold(PendingEntry { id, consumer, delivered_at: now, count: 1 });
    }

    /// Makes an entry pending as given, whatever it was before.
    pub fn hold(&mut self, pending: PendingEntry) {
        let PendingEntry { id, consumer, .. } = pending;
        if let Some(before) = self.pending.insert(pending) {
            if before.consumer == consumer {
                return;
            }
            if let Some(owner) = self.consumer_mut(before.consumer) {
                owner.pending.remove(id);
            }
        }
        if let Some(owner) = self.consumer_mut(consumer) {
            owner.pending.insert(id);
        }
    }

    /// Records another delivery of a pending entry to the same consumer.
    pub fn redeliver(&mut self, id: StreamId, now: UnixMs) {
        if let Some(pending) = self.pending.get_mut(id) {
            pending.delivered_at = now;
            pending.count = once_more(pending.count);
        }
    }

    /// Acknowledges an entry; returns whether it was pending.
    #[inline]
    pub fn acknowledge(&mut self, id: StreamId) -> bool {
        let Some(pending) = self.pending.remove(id) else { return false };
        if let Some(owner) = self.consumer_mut(pending.consumer) {
            owner.pending.remove(id);
        }
        true
    }
}

/// The largest delivery count.
pub const MOST_DELIVERIES: u64 = i64::MAX as u64;

/// The delivery count plus one, capped at a value that XCLAIM accepts: an append-only file must be
/// readable again.
pub fn once_more(count: u64) -> u64 {
    if count < MOST_DELIVERIES { count + 1 } else { count }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_deliveries_end_where_files_can_tell_them() {
        assert_eq!(once_more(0), 1);
        assert_eq!(once_more(MOST_DELIVERIES - 1), MOST_DELIVERIES);
        assert_eq!(once_more(MOST_DELIVERIES), MOST_DELIVERIES);
    }
}
