//! The ring of provided buffers: the kernel takes a buffer when data is there, not before.
//!
//! All buffers lie in one [`Area`]; buffer `b` starts at `b * bytes`. The kernel takes them strictly
//! in the order in which they were given.
//!
//! Invariants
//! 1. A buffer is in the kernel's hands (given, not yet told as filled) or ours (`lent`), never both.
//! 2. `next[b]` is the buffer given directly after `b`. It holds until `b` is given again, which
//!    happens only after the completion that filled `b` was seen; so a bundle that starts with `b`
//!    can be walked.
//! 3. There are as many places in the ring as buffers, so it cannot overflow.
//! 4. The ring's memory lives until the ring that registered it is gone: `Uring` drops it later.
//!
//! Tests: `tests/engines.rs` (buffer exhaustion, bundles).

use super::ring::Ring;
use crate::area::Area;
use io_uring::types::BufRingEntry;
use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

pub(crate) struct Buffers {
    /// The entries, shared with the kernel; the first one's spare field is the tail.
    places: Area,
    count: u16,
    bytes: u32,
    tail: u16,
    last: u16,
    next: Box<[u16]>,
    lent: Vec<u16>,
}

impl Buffers {
    /// `count` is a power of two, at most 2^15.
    pub(crate) fn new(count: u16, bytes: u32) -> io::Result<Buffers> {
        debug_assert!(count.is_power_of_two());
        Ok(Buffers {
            places: Area::new(usize::from(count) * size_of::<BufRingEntry>())?,
            count,
            bytes,
            tail: 0,
            last: 0,
            next: vec![0; usize::from(count)].into_boxed_slice(),
            lent: Vec::with_capacity(usize::from(count)),
        })
    }

    pub(crate) fn register(&self, ring: &Ring) -> io::Result<()> {
        let address = self.places.start() as u64;
        // SAFETY: the places are page-aligned, long enough for `count`, and live long enough (4).
        unsafe { ring.submitter().register_buf_ring_with_flags(address, self.count, 0, 0) }
    }

    pub(crate) fn count(&self) -> usize {
        usize::from(self.count)
    }

    pub(crate) fn give_all(&mut self, area: &Area) {
        self.lent.extend(0..self.count);
        self.give_back(area);
    }

    /// Gives the kernel every buffer that was lent to the turn now over.
    #[inline]
    pub(crate) fn give_back(&mut self, area: &Area) {
        if self.lent.is_empty() {
            return;
        }
        let start = self.places.start().cast::<BufRingEntry>();
        for &buffer in &self.lent {
            let place = usize::from(self.tail & (self.count - 1));
            // SAFETY: `place < count`, so inside the mapping; the kernel does not read a place at or
            // behind the tail (3). The setters do not touch the spare field that is the tail.
            let entry = unsafe { &mut *start.add(place) };
            entry.set_addr(area.start() as u64 + u64::from(buffer) * u64::from(self.bytes));
            entry.set_len(self.bytes);
            entry.set_bid(buffer);
            self.next[usize::from(self.last)] = buffer;
            self.last = buffer;
            self.tail = self.tail.wrapping_add(1);
        }
        self.lent.clear();
        // SAFETY: the ring starts at a page's start, and the field is an aligned u16 inside it.
        let tail = unsafe { &*BufRingEntry::tail(start).cast::<AtomicU16>() };
        tail.store(self.tail, Ordering::Release);
    }

    /// Takes what one completion filled: `filled` bytes from `first` on. Tells each piece as
    /// (offset, length) in the area; neighbours in memory are told as one.
    #[inline]
    pub(crate) fn take(&mut self, first: u16, filled: u32, mut piece: impl FnMut(u32, u32)) {
        self.lent.push(first);
        let offset = u32::from(first) * self.bytes;
        if filled <= self.bytes {
            if filled > 0 {
                piece(offset, filled);
            }
            return;
        }
        let (mut offset, mut length) = (offset, self.bytes);
        let (mut buffer, mut left) = (first, filled - self.bytes);
        while left > 0 {
            buffer = self.next[usize::from(buffer)];
            self.lent.push(buffer);
            let here = u32::from(buffer) * self.bytes;
            let part = left.min(self.bytes);
            if here == offset + length {
                length += part;
            } else {
                piece(offset, length);
                (offset, length) = (here, part);
            }
            left -= part;
        }
        piece(offset, length);
    }
}
