//! Where a replica sends clients that follow redirections (CLIENT CAPA REDIRECT).
//!
//! Only their commands look here. Tests: compat/replication (`redirections`).

use std::sync::{Arc, Mutex, PoisonError};

/// Where they are sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// Nowhere: this server is a primary.
    #[default]
    Here,
    /// They wait: the role is being handed over.
    Soon,
    /// To this host and port.
    There(Arc<str>),
}

/// The address that clients with CLIENT CAPA REDIRECT are sent to.
#[derive(Debug, Default)]
pub struct Redirection(Mutex<Target>);

impl Redirection {
    /// They are sent there from now on.
    pub fn set(&self, target: Target) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = target;
    }

    /// Where they are sent now.
    pub fn target(&self) -> Target {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
