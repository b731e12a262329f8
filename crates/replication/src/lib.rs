//! Replication without sockets: the stream and its history, who follows it, what is copied.
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
//! | `id` | the name of a history |
//! | `stream` | the last bytes of the stream, and whose they are |
//! | `replicas` | who follows, and how far each is |
//! | `waiters` | who waits until replicas have something |
//! | `copy` | the bytes of a snapshot on their way to one replica |
//! | `checkpoints` | which position a step of the journal has |
//! | `link` | what a replica and its primary say to each other |
//!
//! Not here: threads, sockets, commands (the server), the snapshot itself (`persistence`).
//! Tests: at the foot of each file.

#![forbid(unsafe_code)]

pub mod checkpoints;
pub mod copy;
pub mod id;
pub mod link;
mod primitives;
pub mod replicas;
pub mod stream;
pub mod waiters;

pub use checkpoints::Checkpoints;
pub use copy::{CopyQueue, Taken};
pub use id::ReplicationId;
pub use replicas::{Acknowledged, Announced, Filter, Kind, Phase, Replica, Replicas};
pub use stream::{Continuation, History, Lost, Stream};
pub use waiters::Waiters;
