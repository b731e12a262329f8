//! A cluster as one node sees it: which node owns which slots, and what clients are told about it.
//!
//! ```text
//! a source --> Membership --> SlotTable: what a node does with a slot's commands
//!                         --> Topology --> the replies of CLUSTER NODES, SLOTS, SHARDS, INFO
//! ```
//!
//! A source is `cluster_mode emulated` (one node that owns every slot, a Topology only), the file
//! of the nodes with the changes that operators make, or etcd.
//!
//! | file | what |
//! |---|---|
//! | `slots`, `slot_set` | ranges and sets of slots |
//! | `node` | a node's id, addresses and health |
//! | `membership` | nodes with their slots, and the changes of operators |
//! | `nodes_file` | the file that keeps a membership |
//! | `slot_table` | admission by slot: here, MOVED, ASK, CROSSSLOT, CLUSTERDOWN |
//! | `layout` | what the store (etcd) keeps of a cluster: keys, a view of them, transactions |
//! | `control` | who is the primary of a shard, and until when it may write, over etcd |
//! | `topology` | all nodes by shard, as clients are told |
//! | `text` | the text forms |
//!
//! Not here: sockets, threads, files, the keyspace, replies. Tests: at the foot of each file.

#![forbid(unsafe_code)]

pub mod control;
pub mod layout;
mod membership;
mod node;
pub mod nodes_file;
mod slot_set;
mod slot_table;
mod slots;
mod text;
mod topology;

pub use membership::{Member, Membership, MembershipError, OpenSlot};
pub use node::{Endpoint, Health, Node, NodeId, NodeRole};
pub use slot_set::SlotSet;
pub use slot_table::{
    DownRules, RedirectTarget, Route, RouteError, RoutedCommand, SlotState, SlotTable,
};
pub use slots::SlotRange;
pub use text::{info, node_lines};
pub use topology::{ClusterState, Shard, Topology};
