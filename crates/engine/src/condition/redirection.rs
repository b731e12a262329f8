//! Where a replica sends clients with CLIENT CAPA REDIRECT.
//!
//! Only the commands of such clients read it. Tests: compat/replication (`redirections`).

use std::sync::Arc;

use parking_lot::Mutex;

/// The target of redirections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// None: this server is a primary.
    #[default]
    Here,
    /// Clients wait: the role is being handed over.
    Soon,
    /// This host and port.
    There(Arc<str>),
}

/// The address that clients with CLIENT CAPA REDIRECT are sent to.
#[derive(Debug, Default)]
pub struct Redirection(Mutex<Target>);

impl Redirection {
    /// Sets the target.
    pub fn set(&self, target: Target) {
        *self.0.lock() = target;
    }

    /// The target now.
    pub fn target(&self) -> Target {
        self.0.lock().clone()
    }
}
