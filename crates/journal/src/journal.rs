//! What all recorders share: whether there is a journal at all, and the numbers of threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::recorder::Recorder;

/// See the module.
#[derive(Debug, Default)]
pub struct Journal {
    is_on: AtomicBool,
    threads: AtomicUsize,
}

impl Journal {
    /// A recorder for one more thread.
    pub fn join(&self) -> Recorder {
        Recorder::new(self.threads.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether changes are recorded. Asked once a turn.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// From now on changes are recorded, or are not: with nobody inside the gate.
    pub fn turn(&self, on: bool) {
        self.is_on.store(on, Ordering::SeqCst);
    }
}
