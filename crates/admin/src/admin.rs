//! What every request may look at: the server, who has logged in, the other end.

use std::sync::Arc;

use crate::host::Host;
use crate::sessions::Sessions;

/// What all connections of a server share.
pub struct Admin {
    /// The server.
    pub(crate) host: Arc<dyn Host>,
    /// Who has logged in.
    pub(crate) sessions: Sessions,
}

impl Admin {
    /// For this server.
    pub fn new(host: Arc<dyn Host>) -> Arc<Admin> {
        Arc::new(Admin { host, sessions: Sessions::default() })
    }
}

/// The other end of a connection, and how it came here.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// Its address, as CLIENT LIST shows it.
    pub address: String,
    /// Our end.
    pub local: String,
    /// Whether it is encrypted.
    pub is_tls: bool,
    /// It came to where nobody is asked for a password.
    pub needs_no_login: bool,
}
