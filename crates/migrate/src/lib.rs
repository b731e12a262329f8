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
//! | `command` | the command: its arguments, its runs and its reply |
//!
//! Invariants
//! 1. A key is removed once the target has acknowledged it, and only if it was not changed since
//!    its payload was made.
//! 2. What the target does not do in time (`timeout`, for the connection and for each step forward)
//!    is given up, and so is a command whose client has gone.
//!
//! Not here: payloads (`families::generic::transfer`).
//! Tests: the server's `tests/migrate.rs`; compat/transcripts/generic/migrate.txt;
//! compat/clients/migrate.py.

#![forbid(unsafe_code)]

mod command;
mod errand;
mod link;
mod links;

use std::sync::{Arc, Weak};

use pantala_commands::{Call, Command};
use pantala_engine::Engine;

pub use links::Links;

/// The rows of this family.
pub const ROWS: &[Command] = command::ROWS;

/// What the commands of this family share.
pub struct Migrations {
    engine: Arc<Engine>,
    /// Idle connections to other servers.
    pub links: Links,
    self_ref: Weak<Migrations>,
}

impl Migrations {
    /// Without connections.
    pub fn new(engine: Arc<Engine>) -> Arc<Migrations> {
        Arc::new_cyclic(|self_ref| Migrations {
            engine,
            links: Links::default(),
            self_ref: Weak::clone(self_ref),
        })
    }

    fn of<'c>(call: &Call<'c, '_>) -> &'c Migrations {
        call.server.part()
    }

    fn arc(&self) -> Option<Arc<Migrations>> {
        self.self_ref.upgrade()
    }
}
