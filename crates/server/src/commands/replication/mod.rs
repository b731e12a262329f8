//! Commands of replication: what replicas say and ask, and what clients ask of replicas.
//!
//! | file | commands |
//! |---|---|
//! | `replconf` | REPLCONF |
//! | `psync` | PSYNC, SYNC |
//! | `wait` | WAIT, WAITAOF |
//! | `role` | ROLE |
//! | `replicaof` | REPLICAOF, SLAVEOF |
//!
//! Tests: compat/transcripts/replication, compat/replication.

mod psync;
mod replconf;
mod replicaof;
mod role;
mod wait;

use pantala_commands::Command;

/// The rows of this family.
pub const ROWS: &[Command] = &[
    replconf::REPLCONF,
    replicaof::REPLICAOF,
    replicaof::SLAVEOF,
    psync::PSYNC,
    psync::SYNC,
    wait::WAIT,
    wait::WAITAOF,
    role::ROLE,
];
