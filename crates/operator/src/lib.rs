//! Commands for operators: about the server, its settings, its clients and its memory.
//!
//! Each file or folder is a family, as in the crate `commands`.
//!
//! | file | what |
//! |---|---|
//! | `parts/` | [`Operator`]: the parts of the server that these commands are about |
//! | `info/` | INFO, and what the control plane reads of it |
//! | `config` | CONFIG, and what happens after a change of a setting |
//! | `diagnosis/` | MEMORY, LATENCY, SLOWLOG, HOTKEYS, MONITOR; warnings about the machine |
//! | `server` | SAVE, BGSAVE, BGREWRITEAOF, SHUTDOWN, TIME |
//! | `command/` | COMMAND; LOLWUT; commands that are missing on purpose |
//! | `cluster/` | CLUSTER, and the commands of cluster clients |
//! | `client/`, `acl/`, `debug/`, `memcached/` | the commands of these names |
//!
//! Not here: commands of replication (`replication`) and MIGRATE (`migrate`); the table of all
//! commands (`server`). Tests: compat/transcripts/server, the server's `tests/`.

#![forbid(unsafe_code)]

pub mod acl;
pub mod client;
pub mod cluster;
mod command;
mod config;
mod debug;
pub mod diagnosis;
pub mod info;
mod memcached;
pub mod parts;
mod server;

use pantala_commands::{Command, Session};
use pantala_workers::worker::admission::accept::is_loopback;

pub use parts::Operator;

/// The families of commands for operators.
pub const FAMILIES: &[&[Command]] = &[
    command::absent::ROWS,
    acl::ROWS,
    client::ROWS,
    cluster::ROWS,
    command::ROWS,
    diagnosis::commandlog::ROWS,
    config::ROWS,
    debug::ROWS,
    diagnosis::hotkeys::ROWS,
    info::ROWS,
    diagnosis::latency::ROWS,
    command::lolwut::ROWS,
    memcached::ROWS,
    diagnosis::memory::ROWS,
    diagnosis::monitor::ROWS,
    server::ROWS,
];

/// Whether a client is on this machine.
fn is_local(session: &Session) -> bool {
    session.peer.is_empty() || session.peer.starts_with('/') || is_loopback(&session.peer)
}
