//! Commands that wait for something to appear under a key: BLPOP and its kin.
//!
//! ```text
//! a command finds nothing --> Waiter in the queue of each of its keys   (locks still held)
//! somebody changes the key --> serves the queue in order, before the key is free for anyone else
//!                          --> the reply goes to the waiter's worker
//! ```
//!
//! So whoever waits longest is served first, and no command in between sees what it was served
//! with. Its own worker ends the waiting at a timeout, by CLIENT UNBLOCK or with the connection.
//!
//! Invariants
//! 1. A waiter enters and leaves the queues of its keys with their partitions locked.
//! 2. A waiter is claimed before its command runs on another's behalf; so exactly one side ends it.
//! 3. A command that is served looks at the key that changed and at nothing else, except at keys
//!    whose partitions were free at that moment. Otherwise it runs again by itself.
//! 4. Its time begins once, and it keeps its place in the queues, be it run again ever so often,
//!    and wherever.
//!
//! Tests: compat (transcripts of the blocking commands, `serial`); crates/server/tests/panics.rs.

pub mod blocked;
mod serve;

pub use blocked::{Blocked, BlockedCount, Waited};
pub use serve::{CountedAsBlocked, Pending, ReplyTarget};
