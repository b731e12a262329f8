//! What a snapshot has copied or been handed over, and has not written: no key is evicted for it.
//!
//! Evicting a key that is not saved copies it, so that one would pull the next after it; and it is
//! bounded otherwise (`HANDED_BYTES`, what the target takes, `before`'s bytes of each partition).
//! The tables of flushed databases are not counted: nobody knows what they take.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The sum of all.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnwrittenBytes(Arc<AtomicU64>);

impl UnwrittenBytes {
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub fn remove(&self, bytes: usize) {
        self.0.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// A buffer that takes so many of them, until it is dropped.
    pub fn of(&self, bytes: usize) -> Unwritten {
        let mut unwritten = Unwritten::default();
        unwritten.set(self, bytes);
        unwritten
    }
}

/// A buffer's part of the sum.
#[derive(Debug, Default)]
pub struct Unwritten {
    all: Option<UnwrittenBytes>,
    bytes: usize,
}

impl Unwritten {
    /// It takes so many bytes now.
    pub(crate) fn set(&mut self, all: &UnwrittenBytes, bytes: usize) {
        if bytes != self.bytes {
            self.all.get_or_insert_with(|| all.clone());
            all.add(bytes);
            all.remove(std::mem::replace(&mut self.bytes, bytes));
        }
    }
}

impl Drop for Unwritten {
    fn drop(&mut self) {
        if let Some(all) = &self.all {
            all.remove(self.bytes);
        }
    }
}
