//! What a worker keeps of a command that waits, and how many there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pantala_commands::AtTimeout;
use pantala_keyspace::Waiter;

/// How many connections have a command that waits for keys, or for the end of CLIENT PAUSE.
#[derive(Default)]
pub struct BlockedCount(AtomicU64);

impl BlockedCount {
    /// One more.
    pub fn join(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One less.
    pub fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many. One that is served counts until its worker has heard of it.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a command that has waited, and runs again from its start, keeps of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited {
    /// When it ends in vain (monotonic, microseconds).
    pub until_us: Option<u64>,
    /// Its place in the queues of its keys.
    pub arrival: u64,
}

/// A command that waits, as its worker keeps it.
pub struct Blocked {
    /// In the queues of its keys.
    pub waiter: Arc<Waiter>,
    /// When it ends in vain (monotonic, microseconds).
    pub until_us: Option<u64>,
    /// What it answers then.
    pub at_timeout: AtTimeout,
}

impl Blocked {
    /// What it keeps when it runs again.
    pub fn waited(&self) -> Waited {
        Waited { until_us: self.until_us, arrival: self.waiter.arrival }
    }
}
