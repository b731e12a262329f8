//! What the store (etcd) keeps of a cluster: the names of its keys, a copy of what they say, and
//! the transactions that change them.
//!
//! ```text
//! /pantala/CLUSTER/nodes/ID               its address and its shard, as in the file of nodes
//!                  alive/ID               bound to the lease of the node
//!                  shards/SHARD/slots     the ranges of its slots
//!                              /primary   the id of its primary, bound to that one's lease
//!                              /holder    its last primary, and how much of the stream it had
//!                              /insync    the nodes that may become its primary
//!                              /candidates/ID  the offset of one that wants to
//!                  open/SLOT/ID           the slot is being moved key by key, as this node sees it
//!                  claims                 changes with each slot that gets or loses its owner
//! /pantala-nodes/ID                       the name of the cluster that the node is in
//! ```
//!
//! A slot is in the value of one shard at most: a transaction compares the revisions of all values
//! that it takes slots from or gives them to, and that of `claims` where a slot had no owner or
//! will have none.
//!
//! | file | what |
//! |---|---|
//! | `view` | the keys of a cluster as a node knows them; what follows from them |
//! | `transaction` | a change of a membership as a transaction |
//!
//! Not here: the protocol of the store. Tests: at the foot of each file.

mod transaction;
mod view;

pub use transaction::{Expectation, StoreWrite, Transaction, change, join, leave};
pub use view::{ClusterView, StoredValue};

use crate::node::NodeId;

/// The key of a node: its address and its shard.
pub fn node_key(id: NodeId) -> String {
    format!("nodes/{id}")
}

/// The key that says that a node lives.
pub fn alive_key(id: NodeId) -> String {
    format!("alive/{id}")
}

/// What all keys of a shard begin with.
pub fn shard_prefix(shard: NodeId) -> String {
    format!("shards/{shard}/")
}

/// The key of a part of a shard: slots, primary, holder, insync.
pub fn shard_key(shard: NodeId, part: &str) -> String {
    format!("shards/{shard}/{part}")
}

/// The key of a node that wants to become the primary of a shard.
pub fn candidate_key(shard: NodeId, id: NodeId) -> String {
    format!("shards/{shard}/candidates/{id}")
}

/// The key of a slot that is being moved key by key, as a node sees it.
pub fn open_key(slot: u16, id: NodeId) -> String {
    format!("open/{slot}/{id}")
}

/// The key that changes with each slot that gets or loses its owner.
pub const CLAIMS: &str = "claims";

/// What all keys of a cluster begin with.
pub fn cluster_prefix(name: &str) -> String {
    format!("/pantala/{name}/")
}

/// The key that names the cluster of a node.
pub fn place_key(id: NodeId) -> String {
    format!("/pantala-nodes/{id}")
}
