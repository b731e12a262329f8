//! A cluster as one node sees it: who owns which slots, and what clients are told of it.
//!
//! ```text
//! a source --> Topology --> `text`: the lines of CLUSTER NODES and CLUSTER INFO
//!                      --> the commands' replies (crate `operator`)
//! ```
//!
//! The only source so far is `cluster_mode emulated`: one node that owns every slot, with its
//! replicas. Other sources (etcd, a file) will make the same [`Topology`].
//!
//! | file | what |
//! |---|---|
//! | `slots` | ranges of slots |
//! | `node` | a node's id, addresses and health |
//! | `topology` | all nodes by shard |
//! | `text` | the text forms |
//!
//! Not here: sockets, threads, the keyspace, replies. Tests: at the foot of each file.

#![forbid(unsafe_code)]

mod node;
mod slots;
mod text;
mod topology;

pub use node::{Endpoint, Health, Node, NodeId, NodeRole};
pub use slots::SlotRange;
pub use text::{info, node_lines};
pub use topology::{ClusterState, Shard, Topology};
