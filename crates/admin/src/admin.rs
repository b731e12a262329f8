//! The state that every request can use: server, sessions, and the peer.

use std::sync::Arc;

use crate::api::history::History;
use crate::host::AdminHost;
use crate::sessions::Sessions;

/// The state shared by all connections of a server.
pub struct Admin {
    /// The server.
    pub(crate) host: Arc<dyn AdminHost>,
    /// The sessions of browsers.
    pub(crate) sessions: Sessions,
    /// What the figures were.
    pub(crate) history: History,
}

impl Admin {
    /// The state for this server.
    pub fn new(host: Arc<dyn AdminHost>) -> Arc<Admin> {
        Arc::new(Admin { host, sessions: Sessions::default(), history: History::default() })
    }
}

/// The peer of a connection.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// Its address, as CLIENT LIST shows it.
    pub address: String,
    /// The local address.
    pub local: String,
    /// Whether it is encrypted.
    pub is_tls: bool,
    /// Whether the listener requires no password.
    pub needs_no_login: bool,
}
