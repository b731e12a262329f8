//! Replication without sockets: the stream and its history, the replicas, full copies.
//!
//! ```text
//! primary   journal's thread --append--> Stream --read--> the worker that has the replica
//!           snapshot --> CopyQueue --take--> the same worker, before the stream
//! replica   link's thread --append--> Stream (the primary's bytes, as they came) --> its replicas
//! ```
//!
//! A position is the number of bytes of the stream before it: Redis's replication offset. The
//! number of the first byte after position `p` is `p + 1`, which is what PSYNC asks for.
//!
//! | file | what |
//! |---|---|
//! | `id` | replication ids |
//! | `stream` | the backlog and its history |
//! | `replicas` | the replicas, and the position of each |
//! | `waiters` | clients in WAIT |
//! | `copy` | the bytes of a snapshot on their way to one replica |
//! | `downstream` | the stream, its replicas and their waiters together |
//! | `role` | primary or replica, and the lock between two steps |
//! | `checkpoints` | maps steps of the journal to positions |
//! | `link` | the protocol between a replica and its primary |
//!
//! Not here: threads, sockets, commands (the server), the snapshot itself (`persistence`).
//! Tests: at the foot of each file.

#![forbid(unsafe_code)]

pub mod checkpoints;
pub mod copy;
pub mod downstream;
pub mod id;
pub mod link;
mod primitives;
pub mod replicas;
pub mod role;
pub mod stream;
pub mod waiters;

pub use checkpoints::Checkpoints;
pub use copy::{CopyQueue, CopyRead};
pub use downstream::Downstream;
pub use id::ReplicationId;
pub use replicas::{
    AcknowledgedOffsets, Filter, FollowerKind, Phase, Replica, ReplicaAbilities, Replicas,
};
pub use role::RoleState;
pub use stream::{ChangeStream, Continuation, History, ResumeFailure};
pub use waiters::Waiters;
