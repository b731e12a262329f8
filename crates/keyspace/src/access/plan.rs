//! The lock plan of a command, known before it starts.

use smallvec::SmallVec;

use crate::key::PartitionId;

/// A set of partitions in ascending order: the order in which all commands take locks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockPlan {
    partitions: SmallVec<[PartitionId; 12]>,
}

impl LockPlan {
    /// The plan of a command without keys.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The plan for one key.
    #[inline]
    pub fn one(hash: u64) -> Self {
        LockPlan { partitions: SmallVec::from_slice(&[PartitionId::of(hash)]) }
    }

    /// The plan of a command whose keys have these hashes; most often one.
    #[inline]
    pub fn of_command(hashes: &[u64]) -> Self {
        match *hashes {
            [hash] => LockPlan::one(hash),
            _ => LockPlan::of(hashes.iter().copied()),
        }
    }

    /// The plan for the keys with these hashes.
    pub fn of(hashes: impl IntoIterator<Item = u64>) -> Self {
        let mut partitions: SmallVec<[PartitionId; 12]> =
            hashes.into_iter().map(PartitionId::of).collect();
        partitions.sort_unstable();
        partitions.dedup();
        LockPlan { partitions }
    }

    /// The partitions, ascending.
    #[inline]
    pub fn partitions(&self) -> &[PartitionId] {
        debug_assert!(self.partitions.is_sorted_by(|one, next| one < next), "ascending, each once");
        &self.partitions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorts_and_drops_doubles() {
        let plan = LockPlan::of([5, 3, 1024 + 5, 4]);
        let numbers: Vec<u16> = plan.partitions().iter().map(|id| id.0).collect();
        assert_eq!(numbers, [3, 4, 5]);
    }
}

/// A partition that is held by another command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy(pub PartitionId);
