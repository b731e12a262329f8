//! MIGRATE: moving keys to another server.
//!
//! ```text
//! run 1   which keys are there?                              lane, partitions held
//! errand  connect; gate closed for a moment; pin the keys    control plane, nothing held
//! run 2   payloads of the keys                               lane
//! errand  send RESTORE for each, read the answers            control plane
//! run 3   remove what the target has; reply                  lane
//! ```
//!
//! Between its runs the command takes no thread and holds no partition: its keys are pinned, so
//! that commands which would write to one park (`pantala_keyspace::pins`). In a transaction or a
//! script, which is one step for all others, it waits on its thread with all partitions that they
//! hold.
//!
//! | file | what |
//! |---|---|
//! | `link` | a connection to another server: requests out, lines in |
//! | `links` | connections that are kept for the next command, for ten seconds |
//! | `errand` | what happens between two runs |
//!
//! Invariants
//! 1. A key is removed once the target has acknowledged it, and only if it was not changed since
//!    its payload was made.
//! 2. What the target does not do in time (`timeout`, for the connection and for each step forward)
//!    is given up, and so is a command whose client has gone.
//!
//! Not here: arguments and replies (`commands/migrate`), payloads (`families::generic::transfer`).
//! Tests: tests/migrate.rs; compat/transcripts/generic/migrate.txt; compat/clients/migrate.py.

mod errand;
mod link;
mod links;

pub use errand::{Answers, Failure, Migration, Order, Stage, ToPin, request};
pub use link::LinkFault;
pub use links::Links;
