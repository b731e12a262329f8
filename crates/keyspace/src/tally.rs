//! Counters that one thread writes and everybody may read.
//!
//! A [`Tally`] belongs to one worker (or lane thread): it bumps with a plain load and store, on
//! cache lines nobody else writes. INFO adds up the tallies of all threads.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number with a single writer.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds; only the owner calls this.
    #[inline]
    pub fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// Sets; only the owner calls this.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The present value, and zero from now on; only the owner calls this.
    #[inline]
    pub fn take(&self) -> u64 {
        let value = self.get();
        self.set(0);
        value
    }

    /// The present value, possibly a moment old.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What lookups and changes count.
#[derive(Debug, Default)]
pub struct Tally {
    /// Reads that found their key.
    pub hits: Count,
    /// Reads that did not.
    pub misses: Count,
    /// Keys removed because their deadline had passed.
    pub expired: Count,
    /// Elements of collections removed because their own deadline had passed.
    pub expired_elements: Count,
    /// Changes published.
    pub changes: Count,
    /// Values handed to the background to be freed.
    pub reclaimed: Count,
}
