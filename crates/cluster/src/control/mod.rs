//! The control of one shard by its nodes, over the store of the cluster: who is the primary, and
//! until when it may write. Without sockets, threads and clocks: the owner passes in what happens,
//! and carries out what is ordered.
//!
//! ```text
//! Tick, answers, changes, facts of replication --> ShardControl --> requests to the store
//!                                                              --> orders: lead, follow
//!                                                              --> may_write
//! ```
//!
//! | file | what |
//! |---|---|
//! | `fence` | until when a primary may write |
//! | `store` | what is asked of the store, and what it answers |
//! | `shard` | a node's part: its lease, the election, the primary's duties |
//! | `simulation` | many nodes and a store, with faults, by seeds |

mod fence;
mod shard;
#[cfg(test)]
mod simulation;
mod store;

pub use fence::{KeptAlive, WritePermission};
pub use shard::{ControlInput, ControlOrder, ShardControl};
pub use store::{KnownPrimary, LeaseId, RequestId, ShardState, StoreAnswer, StoreRequest};
