//! Client-side caching: who tracks keys, and how a client hears that a key has changed.
//!
//! ```text
//! a command of a tracking client reads a key --> the partition remembers the client   (keyspace)
//! somebody changes the key --> Effect::Invalidate, partition still locked             (keyspace)
//!                          --> a message for the worker of whoever is to be told  (notifier)
//! the worker --> a push, or a message of `__redis__:invalidate`                   (the server)
//! ```
//!
//! Invariants
//! 1. What a client reads reaches it before the word that it is stale: the reply is in the
//!    connection's output, or on its way to its worker, before the key's partition is free. While
//!    the slow lane runs a command of the client, such words are kept back until it has replied.
//! 2. Word for a client that moves to another worker goes with it, see `clients::directory`.
//! 3. Whether anybody tracks is known to the keyspace before the first key is remembered.
//!
//! | file | what |
//! |---|---|
//! | `trackers` | who tracks what |
//! | `notifier` | from effects to messages |
//! | `reading` | which keys of which commands are remembered |
//!
//! Tests: compat/transcripts/tracking, and compat's clients.

pub mod notifier;
pub mod reading;
pub mod trackers;

pub use trackers::Trackers;
