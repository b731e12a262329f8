//! Commands about the server itself; each file a family, as in the crate `commands`.

mod client;
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

use crate::joining::is_loopback;

/// All families of the server.
pub fn families() -> Vec<&'static [Command]> {
    vec![
        families::connection::ROWS,
        families::databases::ROWS,
        families::generic::ROWS,
        families::string::ROWS,
        client::ROWS,
        command::ROWS,
        commandlog::ROWS,
        config::ROWS,
        debug::ROWS,
        info::ROWS,
        latency::ROWS,
        lolwut::ROWS,
        memory::ROWS,
        monitor::ROWS,
        server::ROWS,
    ]
}

/// Whether a client sits on this machine.
fn is_local(session: &Session) -> bool {
    session.peer.is_empty() || session.peer.starts_with('/') || is_loopback(&session.peer)
}
