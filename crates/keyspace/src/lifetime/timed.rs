//! Keys whose elements have deadlines of their own: the fields of a hash, the members of a set.
//!
//! The table finds records that expire, but does not look into values. This says, for one database
//! in one partition, which keys the sweep has to look into, and when.
//!
//! Invariants
//! 1. No element of a key is gone before the moment noted for it: what is noted may be too early,
//!    never too late.
//! 2. A collection with such elements is noted; a noted key may have lost them, or be of another
//!    type by now, until the moment has come. It is not noted any more once it was removed.
//!
//! Not here: the partition's bound and the work itself (`sweep`). Tests: tests/elements.rs.

use std::collections::HashMap;

use pantala_base::UnixMs;
use pantala_table::is_expired;

/// The keys of one database in one partition whose elements have deadlines, each with its earliest
/// one.
#[derive(Default)]
pub(crate) struct Timed {
    earliest: HashMap<Box<[u8]>, UnixMs>,
}

impl Timed {
    pub(crate) fn len(&self) -> usize {
        self.earliest.len()
    }

    /// An element of this key has this deadline. Whether it is earlier than what was known.
    pub(crate) fn lower(&mut self, key: &[u8], deadline: UnixMs) -> bool {
        match self.earliest.get_mut(key) {
            Some(known) if *known <= deadline => false,
            Some(known) => {
                *known = deadline;
                true
            }
            None => {
                self.earliest.insert(key.into(), deadline);
                true
            }
        }
    }

    /// What is known about this key is this, after a look at it.
    pub(crate) fn set(&mut self, key: &[u8], deadline: Option<UnixMs>) {
        match (deadline, self.earliest.get_mut(key)) {
            (Some(deadline), Some(known)) => *known = deadline,
            (Some(deadline), None) => {
                self.earliest.insert(key.into(), deadline);
            }
            (None, _) => self.forget(key),
        }
    }

    /// The key was removed.
    #[inline]
    pub(crate) fn forget(&mut self, key: &[u8]) {
        if !self.earliest.is_empty() {
            self.earliest.remove(key);
            if self.earliest.is_empty() {
                self.earliest = HashMap::new();
            }
        }
    }

    /// Up to `limit` keys with something to remove.
    pub(crate) fn due(&self, now: UnixMs, limit: usize) -> Vec<Box<[u8]>> {
        let due = self.earliest.iter().filter(|(_, moment)| is_expired(**moment, now));
        due.take(limit).map(|(key, _)| key.clone()).collect()
    }

    /// Whether this key has something to remove.
    pub(crate) fn is_due(&self, key: &[u8], now: UnixMs) -> bool {
        self.earliest.get(key).is_some_and(|moment| is_expired(*moment, now))
    }

    /// The earliest moment of all.
    pub(crate) fn earliest(&self) -> Option<UnixMs> {
        self.earliest.values().min().copied()
    }
}
