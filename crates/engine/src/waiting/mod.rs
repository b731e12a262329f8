//! Blocking commands: BLPOP and its kin wait until a key has something for them.
//!
//! ```text
//! a command finds nothing  --> Waiter in the queue of each of its keys   (locks still held)
//! a command changes a key  --> serves the queue in order, before the key is free for others
//!                          --> the reply goes to the waiter's worker
//! ```
//!
//! So the client that has waited longest is served first, and no command in between sees the
//! element that it was served. The client's own worker ends the waiting at a timeout, on CLIENT
//! UNBLOCK, or when the connection ends.
//!
//! Invariants
//! 1. A waiter enters and leaves the queues of its keys with their partitions locked.
//! 2. A thread claims a waiter before it runs the waiter's command; so exactly one thread ends it.
//! 3. A command that is served looks at the key that changed and at nothing else, except at keys
//!    whose partitions were free at that moment. Otherwise it runs again by itself.
//! 4. Its timeout begins once, and it keeps its place in the queues, however often and wherever it
//!    runs again.
//!
//! Tests: compat (transcripts of the blocking commands, `serial`); crates/server/tests/panics.rs.

pub mod blocked;
mod serve;

pub use blocked::{BlockedCommand, BlockedCount, WaitedState};
pub use serve::{CountedAsBlocked, PendingServe, ReplyTarget};
