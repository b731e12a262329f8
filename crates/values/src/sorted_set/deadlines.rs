//! Deadlines of members: by member, and in order of time.
//!
//! Invariant: both maps hold the same pairs. Both are ordered trees, so a million expiring members
//! never cause one long operation. Not here: whether a member exists.

use std::collections::{BTreeMap, BTreeSet};

use pantala_base::UnixMs;
use pantala_table::is_expired;

/// Estimated overhead of a pair in bytes, beside its two copies of the member.
const PAIR_BYTES: usize = 80;

/// The deadlines of a sorted set's members.
#[derive(Clone, Debug, Default)]
pub struct Deadlines {
    of: BTreeMap<Box<[u8]>, UnixMs>,
    order: BTreeSet<(UnixMs, Box<[u8]>)>,
    member_bytes: usize,
}

impl Deadlines {
    /// A member's deadline.
    pub fn get(&self, member: &[u8]) -> Option<UnixMs> {
        self.of.get(member).copied()
    }

    /// Sets or removes a member's deadline; returns whether it had one.
    pub fn set(&mut self, member: &[u8], deadline: Option<UnixMs>) -> bool {
        let old = self.of.remove(member);
        if let Some(old) = old {
            self.order.remove(&(old, member.into()));
            self.member_bytes -= member.len();
        }
        if let Some(deadline) = deadline {
            self.of.insert(member.into(), deadline);
            self.order.insert((deadline, member.into()));
            self.member_bytes += member.len();
        }
        old.is_some()
    }

    /// The earliest deadline.
    pub fn first(&self) -> Option<UnixMs> {
        self.order.first().map(|(deadline, _)| *deadline)
    }

    /// Removes and returns a member whose deadline has passed.
    pub fn pop_due(&mut self, now: UnixMs) -> Option<Box<[u8]>> {
        self.first().filter(|deadline| is_expired(*deadline, now))?;
        let (_, member) = self.order.pop_first()?;
        self.of.remove(&member);
        self.member_bytes -= member.len();
        Some(member)
    }

    /// Whether no member has a deadline.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Allocated bytes, approximately.
    pub fn heap_bytes(&self) -> usize {
        2 * self.member_bytes + PAIR_BYTES * self.of.len()
    }
}
