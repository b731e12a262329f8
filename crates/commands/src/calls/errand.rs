//! Errands: work on another machine that a command waits for without a thread and without holding
//! anything. It parks with [`Park::Errand`](crate::Park), and runs again from its start when the
//! errand has ended. The errand keeps its own results.
//!
//! Only on the lane, and only where the command may wait: in a transaction or a script it waits
//! with its partitions held. What a transaction has to do without holding anything is left behind
//! as its errand ([`Session::epilogue`](crate::Session::epilogue)): EXEC is answered when that has
//! ended.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use crate::error::ClientError;

/// Work on another machine that a command waits for while it is parked.
pub trait AsyncRequest: Debug + Send + Sync {
    /// Begins the errand without waiting for it. Dropping `way_back` ends it.
    fn begin(self: Arc<Self>, way_back: ResumeGuard);

    /// Why a transaction's errand has failed; asked after its end.
    fn failure(&self) -> Option<ClientError> {
        None
    }

    /// The errand, for the handler that knows its type.
    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// Dropped when the errand has ended, in whatever way: the command then runs again.
pub struct ResumeGuard {
    call: Option<Box<dyn FnOnce() + Send + Sync>>,
    is_unwanted: Box<dyn Fn() -> bool + Send + Sync>,
}

impl ResumeGuard {
    /// Calls `call` when it is dropped. Until then `is_unwanted` tells whether the errand should
    /// end soon.
    pub fn new(
        call: impl FnOnce() + Send + Sync + 'static,
        is_unwanted: impl Fn() -> bool + Send + Sync + 'static,
    ) -> ResumeGuard {
        ResumeGuard { call: Some(Box::new(call)), is_unwanted: Box::new(is_unwanted) }
    }

    /// Whether the errand should end soon: its client has gone, or the server stops.
    pub fn is_unwanted(&self) -> bool {
        (self.is_unwanted)()
    }
}

impl Drop for ResumeGuard {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            call();
        }
    }
}
