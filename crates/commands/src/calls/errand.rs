//! What a command has done elsewhere, on another machine, while it runs on no thread of ours and
//! holds nothing: it parks with [`Park::Errand`](crate::Park), and runs again from its start when
//! the errand has come back. What came of it the errand itself knows.
//!
//! Only on the lane, and only where the command may wait: in a transaction or a script it waits
//! with its partitions in hand. What a transaction is to have done, and may wait for nothing, is
//! left behind as its errand ([`Session::epilogue`](crate::Session::epilogue)): EXEC is answered
//! when that is over.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use crate::error::ClientError;

/// Work on another machine that a command waits for while it is parked.
pub trait Errand: Debug + Send + Sync {
    /// Begins, and does not wait. Dropping `way_back` is the end of it.
    fn begin(self: Arc<Self>, way_back: WayBack);

    /// Why a transaction's was in vain; asked when it is over.
    fn failure(&self) -> Option<ClientError> {
        None
    }

    /// Itself, for the handler that knows what it is.
    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// Dropped when the errand is over, however it went: then the command runs again.
pub struct WayBack {
    call: Option<Box<dyn FnOnce() + Send + Sync>>,
    is_unwanted: Box<dyn Fn() -> bool + Send + Sync>,
}

impl WayBack {
    /// Calls `call` at the end. Meanwhile `is_unwanted` may say that nobody waits for it any more.
    pub fn new(
        call: impl FnOnce() + Send + Sync + 'static,
        is_unwanted: impl Fn() -> bool + Send + Sync + 'static,
    ) -> WayBack {
        WayBack { call: Some(Box::new(call)), is_unwanted: Box::new(is_unwanted) }
    }

    /// Whether the errand should end soon: its client has gone, or the server stops.
    pub fn is_unwanted(&self) -> bool {
        (self.is_unwanted)()
    }
}

impl Drop for WayBack {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            call();
        }
    }
}
