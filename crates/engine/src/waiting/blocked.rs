//! A blocked command as its worker keeps it, and the number of blocked connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pantala_commands::TimeoutReply;
use pantala_keyspace::Waiter;

/// The number of connections that are blocked on keys, or held back by CLIENT PAUSE.
#[derive(Default)]
pub struct BlockedCount(AtomicU64);

impl BlockedCount {
    /// Counts one more.
    pub fn join(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one less.
    pub fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// The number. A connection that was served counts until its worker has handled that.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a command that was blocked keeps when it runs again from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitedState {
    /// Its timeout (monotonic, microseconds), if any.
    pub until_us: Option<u64>,
    /// Its place in the queues of its keys.
    pub arrival: u64,
}

/// A blocked command, as its worker keeps it.
pub struct BlockedCommand {
    /// Its waiter in the queues of its keys.
    pub waiter: Arc<Waiter>,
    /// Its timeout (monotonic, microseconds), if any.
    pub until_us: Option<u64>,
    /// The reply at the timeout.
    pub at_timeout: TimeoutReply,
}

impl BlockedCommand {
    /// What it keeps when it runs again.
    pub fn waited(&self) -> WaitedState {
        WaitedState { until_us: self.until_us, arrival: self.waiter.arrival }
    }
}
