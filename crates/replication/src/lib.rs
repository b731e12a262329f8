//! Replication: this server as a primary, and as a replica.
//!
//! ```text
//! primary/  REPLCONF, PSYNC --> a connection becomes a replica's; its worker feeds it
//!           full copies: one snapshot for all replicas that wait
//! feed      the journal's thread appends the journal's steps to the stream (crate `durability`)
//! replica/  a thread follows the primary: full copy, then the stream, applied and passed on
//! ```
//!
//! | room | what |
//! |---|---|
//! | `root` | [`Replication`]: the state that all threads share |
//! | `primary/` | replicas of this server: how they connect, full copies, acknowledgements |
//! | `replica/` | following a primary: the link, copies, applying steps |
//! | `failover` | FAILOVER: handing over the role |
//! | `commands/` | the commands of replication |
//!
//! Invariants
//! 1. The stream has one writer: the journal's thread on a primary, the link on a replica.
//! 2. A full copy and the stream after it meet at one position: no byte is missing or sent twice.
//!
//! Not here: the stream itself, and the list of replicas (`psync`); a replica's connection
//! (`workers`, `worker/output/replicas`). Tests: compat/replication; crates/simulator.

#![forbid(unsafe_code)]

pub mod commands;
pub mod failover;
pub mod primary;
pub mod replica;
mod root;
#[cfg(test)]
mod test_support;

pub use root::{Replication, catch_up, stream_grew};
