//! Commands about the server itself; each file a family, as in the crate `commands`.

mod absent;
pub mod client;
mod command;
mod commandlog;
mod config;
mod debug;
mod info;
mod latency;
mod lolwut;
mod memory;
mod monitor;
mod server;

use pantala_commands::{Command, Session, families};

use crate::worker::accept::is_loopback;

/// The version of Redis whose commands clients may expect: they look at it to know what there is.
/// All of 7.4 is here, and redis-py keeps no cache before it.
pub(crate) const REDIS_VERSION: &str = "7.4.0";

/// All families of the server.
pub fn families() -> Vec<&'static [Command]> {
    vec![
        families::connection::ROWS,
        families::databases::ROWS,
        families::generic::ROWS,
        families::string::ROWS,
        families::transaction::ROWS,
        families::list::ROWS,
        families::set::ROWS,
        families::zset::ROWS,
        families::hash::ROWS,
        families::stream::ROWS,
        families::bitmap::ROWS,
        families::hyperloglog::ROWS,
        families::geo::ROWS,
        families::sort::ROWS,
        absent::ROWS,
        client::ROWS,
        command::ROWS,
        commandlog::ROWS,
        config::ROWS,
        debug::ROWS,
        pantala_engine::functions::ROWS,
        info::ROWS,
        latency::ROWS,
        lolwut::ROWS,
        memory::ROWS,
        monitor::ROWS,
        pantala_engine::pubsub::commands::ROWS,
        pantala_engine::scripts::ROWS,
        server::ROWS,
    ]
}

/// Whether a client sits on this machine.
fn is_local(session: &Session) -> bool {
    session.peer.is_empty() || session.peer.starts_with('/') || is_loopback(&session.peer)
}
