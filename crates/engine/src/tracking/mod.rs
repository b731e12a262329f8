//! Client-side caching (CLIENT TRACKING): which clients track keys, and how they hear of changes.
//!
//! ```text
//! a command of a tracking client reads a key --> the partition registers the client   (keyspace)
//! a command changes the key --> Effect::Invalidate, partition still locked            (keyspace)
//!                           --> a message for the worker of the client to be told     (notifier)
//! the worker --> a push, or a message of `__redis__:invalidate`                       (the server)
//! ```
//!
//! Invariants
//! 1. A client gets the reply with a value before the invalidation of that value: the reply is in
//!    the connection's output, or on its way to its worker, before the key's partition is free.
//!    While the slow lane runs a command of the client, invalidations are kept back until it has
//!    replied.
//! 2. Invalidations for a client that moves to another worker go with it, see `clients::directory`.
//! 3. The keyspace learns that a client tracks keys before the first key is registered.
//!
//! | file | what |
//! |---|---|
//! | `trackers` | which clients track, and their prefixes |
//! | `notifier` | from effects to messages |
//! | `reading` | which keys of which commands are registered |
//!
//! Tests: compat/transcripts/tracking, and compat's clients.

pub mod notifier;
pub mod reading;
pub mod trackers;

pub use trackers::Trackers;
