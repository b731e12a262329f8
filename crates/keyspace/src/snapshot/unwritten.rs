//! Bytes that a snapshot has copied or taken over and not written yet: no key is evicted for them.
//!
//! Evicting an unsaved key copies it, so one eviction would cause the next; and these bytes are
//! bounded otherwise (`HANDED_BYTES`, the target's room, `before`'s bytes of each partition). The
//! tables of flushed databases are not counted: their size is not known.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The total of all buffers.
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
        let before = self.0.fetch_sub(bytes as u64, Ordering::Relaxed);
        debug_assert!(before >= bytes as u64, "they were counted");
    }

    /// The share of a buffer of this many bytes, until it is dropped.
    pub fn of(&self, bytes: usize) -> UnwrittenShare {
        let mut unwritten = UnwrittenShare::default();
        unwritten.set(self, bytes);
        unwritten
    }
}

/// A buffer's share of the total.
#[derive(Debug, Default)]
pub struct UnwrittenShare {
    all: Option<UnwrittenBytes>,
    bytes: usize,
}

impl UnwrittenShare {
    /// Sets the share to this many bytes.
    pub(crate) fn set(&mut self, all: &UnwrittenBytes, bytes: usize) {
        if bytes != self.bytes {
            self.all.get_or_insert_with(|| all.clone());
            all.add(bytes);
            all.remove(std::mem::replace(&mut self.bytes, bytes));
        }
    }
}

impl Drop for UnwrittenShare {
    fn drop(&mut self) {
        if let Some(all) = &self.all {
            all.remove(self.bytes);
        }
    }
}
