//! Spare buffers of a worker: a sent buffer becomes the room of a later reply.
//!
//! They count against `maxmemory`, so with a small limit only a few are kept: otherwise they would
//! take memory from keys.
//!
//! Invariant
//! 1. `bytes` is the capacity of all kept buffers, and after each call at most what may be kept.
//!
//! Tests: at the foot.

/// Buffers up to this size are kept.
const BUFFER_BYTES: usize = 32 << 10;
/// All of them together take at most this much,
const MOST_BYTES: usize = 4 << 20;
/// and at most this fraction (1/128) of the memory limit.
const PART_OF_LIMIT: u64 = 128;
/// The buffer for replicas is kept up to this size.
const LARGE_BYTES: usize = 1 << 20;

/// The spare buffers of one worker.
#[derive(Default)]
pub struct SpareBuffers {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
    /// The buffer last sent to a replica, while there is one. It is as large as the pieces of the
    /// stream, so its pages are reused instead of mapped again.
    large: Vec<u8>,
}

impl SpareBuffers {
    /// A spare buffer, or a new one without capacity.
    #[inline]
    pub fn take(&mut self) -> Vec<u8> {
        let buffer = self.buffers.pop().unwrap_or_default();
        self.bytes -= buffer.capacity();
        buffer
    }

    /// Keeps a buffer, emptied; returns it if it is too large. `limit_bytes` is the memory limit, 0
    /// if there is none.
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

    /// The large buffer, for replicas.
    pub fn take_large(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.large)
    }

    /// The capacity of the large buffer, in bytes.
    pub fn large_bytes(&self) -> usize {
        self.large.capacity()
    }

    /// Keeps the large buffer; what is not kept is returned.
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
