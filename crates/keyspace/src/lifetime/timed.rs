//! Keys whose elements have deadlines of their own: the fields of a hash, the members of a set.
//!
//! The table finds records that expire, but does not look into values. This tells, for one database
//! in one partition, into which keys the sweep has to look, and when.
//!
//! Invariants
//! 1. No element of a key expires before the time noted for it: the note may be too early, never
//!    too late.
//! 2. A collection with such elements is noted; a noted key may have lost them, or have another
//!    type by now, until that time has come. A removed key is not noted any more.
//!
//! Not here: the partition's bound and the sweep itself (`sweep`). Tests: tests/elements.rs.

use std::collections::HashMap;

use pantala_base::UnixMs;
use pantala_table::is_expired;

/// The keys of one database in one partition whose elements have deadlines, each with its earliest
/// one.
#[derive(Default)]
pub(crate) struct DeadlineTable {
    earliest: HashMap<Box<[u8]>, UnixMs>,
}

impl DeadlineTable {
    pub(crate) fn len(&self) -> usize {
        self.earliest.len()
    }

    /// Notes a deadline of an element of this key; whether it is earlier than the one noted before.
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

    /// Sets the earliest deadline of this key's elements, after they were looked at.
    pub(crate) fn set(&mut self, key: &[u8], deadline: Option<UnixMs>) {
        match (deadline, self.earliest.get_mut(key)) {
            (Some(deadline), Some(known)) => *known = deadline,
            (Some(deadline), None) => {
                self.earliest.insert(key.into(), deadline);
            }
            (None, _) => self.forget(key),
        }
    }

    /// Forgets a removed key.
    #[inline]
    pub(crate) fn forget(&mut self, key: &[u8]) {
        if !self.earliest.is_empty() {
            self.earliest.remove(key);
            if self.earliest.is_empty() {
                self.earliest = HashMap::new();
            }
        }
    }

    /// Up to `limit` keys with expired elements.
    pub(crate) fn due(&self, now: UnixMs, limit: usize) -> Vec<Box<[u8]>> {
        let due = self.earliest.iter().filter(|(_, moment)| is_expired(**moment, now));
        due.take(limit).map(|(key, _)| key.clone()).collect()
    }

    /// Whether this key has expired elements.
    pub(crate) fn is_due(&self, key: &[u8], now: UnixMs) -> bool {
        self.earliest.get(key).is_some_and(|moment| is_expired(*moment, now))
    }

    /// The earliest deadline of all.
    pub(crate) fn earliest(&self) -> Option<UnixMs> {
        self.earliest.values().min().copied()
    }
}
