//! What a node asks of the store of the cluster (etcd), and what it is answered. Only what the
//! control of a shard needs.
//!
//! Not here: the protocol of the store, and its connections.

use crate::node::NodeId;

/// The number of a request, which its answer carries.
pub type RequestId = u64;

/// The number of a lease.
pub type LeaseId = u64;

/// A question to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreRequest {
    /// Grant a lease that lives this long, in microseconds.
    Grant(u64),
    /// Keep a lease alive.
    KeepAlive(LeaseId),
    /// Read all of the shard, linearizably.
    Read,
    /// Put the offset of this node among the candidates, with its lease.
    Stand(LeaseId, u64),
    /// Make this node the primary, with its lease, if there is none and the set of replicas that
    /// may win is still of this revision; take the candidates away. Only this node may win from
    /// then on: others may have what it lacks, and that is discarded.
    Win(LeaseId, u64),
    /// Replace the set of nodes that may win, if this node is still the primary that it became at
    /// the first revision, and the set is still that of the second one: so a request that was late
    /// is refused.
    SetInSync(Vec<NodeId>, u64, u64),
}

/// An answer of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAnswer {
    /// The lease was granted.
    Granted(LeaseId),
    /// The lease lives on, for this long, in microseconds.
    Alive(u64),
    /// There is no such lease.
    LeaseGone,
    /// The state of the shard.
    State(ShardState),
    /// The transaction was done, at this revision.
    Done(u64),
    /// A comparison of the transaction has failed: nothing was done.
    Refused,
}

/// A primary, as the store knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownPrimary {
    /// The node.
    pub id: NodeId,
    /// The revision at which it became the primary: the epoch.
    pub epoch: u64,
    /// The lease that its key is bound to: one of another life of the node says nothing of this
    /// one.
    pub lease: LeaseId,
}

/// What the store has of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardState {
    /// The revision of this state.
    pub revision: u64,
    /// Its primary: that of its key's last change.
    pub primary: Option<KnownPrimary>,
    /// The nodes that may become its primary, and the revision of that set. Empty: any may, since
    /// the shard has never had one.
    pub in_sync: (Vec<NodeId>, u64),
    /// The revision of its slots.
    pub slots_revision: u64,
    /// Nodes that want to become its primary, with their offsets.
    pub candidates: Vec<(NodeId, u64)>,
}

impl ShardState {
    /// Whether this node may become the primary.
    pub fn may_win(&self, id: NodeId) -> bool {
        self.in_sync.0.is_empty() || self.in_sync.0.contains(&id)
    }

    /// The candidate that should win: the one that has most, then the one with the lower id.
    pub fn best_candidate(&self) -> Option<NodeId> {
        let allowed = self.candidates.iter().filter(|(id, _)| self.may_win(*id));
        allowed.max_by(|one, two| one.1.cmp(&two.1).then(two.0.cmp(&one.0))).map(|(id, _)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_candidate_has_most_and_may_win() {
        let [a, b, c] = ["a", "b", "c"].map(NodeId::of_name);
        let mut state =
            ShardState { candidates: vec![(a, 5), (b, 9), (c, 7)], ..Default::default() };
        assert_eq!(state.best_candidate(), Some(b));
        state.in_sync = (vec![a, c], 3);
        assert_eq!(state.best_candidate(), Some(c));
        state.candidates = vec![(a, 7), (c, 7)];
        assert_eq!(state.best_candidate(), Some(a.min(c)));
        state.candidates.clear();
        assert_eq!(state.best_candidate(), None);
    }
}
