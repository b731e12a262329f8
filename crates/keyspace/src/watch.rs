//! A watch: the flag by which a client learns that one of its keys has changed.

use std::sync::atomic::{AtomicBool, Ordering};

/// Notices that a key has changed: for WATCH, and for values that are read in steps. One for a
/// transaction and all its keys.
#[derive(Debug, Default)]
pub struct Watch {
    is_touched: AtomicBool,
}

impl Watch {
    /// Whether one of its keys has changed. Reliable while their partitions are held.
    pub fn is_touched(&self) -> bool {
        self.is_touched.load(Ordering::Acquire)
    }

    pub(crate) fn touch(&self) {
        self.is_touched.store(true, Ordering::Release);
    }
}
