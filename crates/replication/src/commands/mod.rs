//! Commands of replication: those that replicas send, and those that clients send about replicas.
//!
//! | file | commands |
//! |---|---|
//! | `failover` | FAILOVER |
//! | `replconf` | REPLCONF |
//! | `psync` | PSYNC, SYNC |
//! | `takeover` | what PSYNC ... FAILOVER does |
//! | `wait` | WAIT, WAITAOF |
//! | `role` | ROLE |
//! | `replicaof` | REPLICAOF, SLAVEOF |
//!
//! Tests: compat/transcripts/replication, compat/replication.

mod failover;
mod psync;
mod replconf;
mod replicaof;
mod role;
mod takeover;
mod wait;

pub use replicaof::change_role;

use pantala_commands::Command;

/// The rows of this family.
pub const ROWS: &[Command] = &[
    failover::FAILOVER,
    replconf::REPLCONF,
    replicaof::REPLICAOF,
    replicaof::SLAVEOF,
    psync::PSYNC,
    psync::SYNC,
    wait::WAIT,
    wait::WAITAOF,
    role::ROLE,
];
