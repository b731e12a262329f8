//! Buffers of a worker that are used again: what was sent becomes the room of the next reply.
//!
//! They count for `maxmemory` like everything else, so with a small limit only a few are kept:
//! otherwise they would take the place of keys.
//!
//! Invariant
//! 1. `bytes` is the capacity of all that are kept, and below what may be kept after each call.
//!
//! Tests: at the foot.

/// Buffers up to this size are kept.
const BUFFER_BYTES: usize = 32 << 10;
/// All of them take so much at most,
const MOST_BYTES: usize = 4 << 20;
/// and this part of the limit of memory.
const PART_OF_LIMIT: u64 = 128;
/// Up to this size that of a replica is kept.
const LARGE_BYTES: usize = 1 << 20;

/// The spare buffers of one worker.
#[derive(Default)]
pub struct SpareBuffers {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
    /// What was sent last to a replica, while there is one: as large as its pieces, whose pages are
    /// not to be had anew each time.
    large: Vec<u8>,
}

impl SpareBuffers {
    /// One of them, or one without any room.
    #[inline]
    pub fn take(&mut self) -> Vec<u8> {
        let buffer = self.buffers.pop().unwrap_or_default();
        self.bytes -= buffer.capacity();
        buffer
    }

    /// Keeps a buffer, empty; if it is too large it comes back. `limit_bytes` is that of memory, 0
    /// where there is none.
    #[inline]
    pub fn keep(&mut self, mut buffer: Vec<u8>, limit_bytes: u64) -> Option<Vec<u8>> {
        if !(1..=BUFFER_BYTES).contains(&buffer.capacity()) {
            return Some(buffer);
        }
        buffer.clear();
        self.bytes += buffer.capacity();
        self.buffers.push(buffer);
        let most_bytes = match limit_bytes {
            0 => MOST_BYTES,
            limit_bytes => MOST_BYTES.min((limit_bytes / PART_OF_LIMIT) as usize),
        };
        while self.bytes > most_bytes {
            drop(self.take());
        }
        None
    }

    /// The one of replicas.
    pub fn take_large(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.large)
    }

    /// Bytes of the one of replicas.
    pub fn large_bytes(&self) -> usize {
        self.large.capacity()
    }

    /// Keeps the one of replicas; what is not kept comes back.
    pub fn keep_large(&mut self, mut buffer: Vec<u8>) -> Option<Vec<u8>> {
        if buffer.capacity() > LARGE_BYTES || buffer.capacity() <= self.large.capacity() {
            return Some(buffer);
        }
        buffer.clear();
        let before = std::mem::replace(&mut self.large, buffer);
        (before.capacity() > 0).then_some(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(limit_bytes: u64, buffers: usize) -> SpareBuffers {
        let mut spare = SpareBuffers::default();
        for _ in 0..buffers {
            assert!(spare.keep(vec![1; BUFFER_BYTES], limit_bytes).is_none());
        }
        spare
    }

    #[test]
    fn what_is_kept_comes_back_empty() {
        let mut spare = kept(0, 3);
        assert_eq!((spare.bytes, spare.take().len()), (3 * BUFFER_BYTES, 0));
        assert_eq!(spare.bytes, 2 * BUFFER_BYTES);
        (0..2).for_each(|_| assert_eq!(spare.take().capacity(), BUFFER_BYTES));
        assert_eq!((spare.take().capacity(), spare.bytes), (0, 0));
    }

    #[test]
    fn with_a_small_limit_few_are_kept() {
        assert_eq!(kept(0, 1_000).bytes, MOST_BYTES);
        assert_eq!(kept(10 << 20, 1_000).bytes, (10 << 20) / 128 / BUFFER_BYTES * BUFFER_BYTES);
        assert_eq!(kept(1, 1_000).bytes, 0);
        let mut spare = kept(0, 1_000);
        assert!(spare.keep(vec![1], 1 << 20).is_none());
        assert!(spare.bytes <= (1 << 20) / 128, "the limit is lower now");
    }

    #[test]
    fn what_is_large_is_not_kept() {
        let mut spare = SpareBuffers::default();
        assert!(spare.keep(Vec::with_capacity(BUFFER_BYTES + 1), 0).is_some());
        assert!(spare.keep(Vec::new(), 0).is_some());
        assert_eq!(spare.bytes, 0);
    }

    #[test]
    fn the_larger_one_of_replicas_is_kept() {
        let mut spare = SpareBuffers::default();
        assert_eq!(spare.keep_large(Vec::with_capacity(100_000)), None);
        let back = spare.keep_large(Vec::with_capacity(50_000));
        assert_eq!(back.map(|back| back.capacity()), Some(50_000));
        let back = spare.keep_large(Vec::with_capacity(LARGE_BYTES));
        assert_eq!(back.map(|back| back.capacity()), Some(100_000));
        assert!(spare.keep_large(Vec::with_capacity(LARGE_BYTES + 1)).is_some());
        assert_eq!(spare.take_large().capacity(), LARGE_BYTES);
        assert_eq!(spare.take_large().capacity(), 0);
    }
}
