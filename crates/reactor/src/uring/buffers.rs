//! The ring of provided buffers: the kernel takes a buffer only when data arrives.
//!
//! All buffers lie in one [`Area`]; buffer `b` starts at `b * bytes`.
//!
//! The kernel takes them in the order in which they were given, so every buffer in circulation is
//! touched before the first one is touched again. With few in circulation, received bytes are still
//! in the cache when they are parsed (measured, 100 KB messages: 512 KB in circulation cost 19 us a
//! message, 4 MB 28 us). With too few, many connections with a little data each find an empty ring
//! (`ENOBUFS`) and must be armed again. So the number in circulation starts at `least`, doubles
//! when the ring ran dry although the buffers were mostly empty, and halves after a long time of
//! using less than a quarter. If a few connections with much data have run the ring dry, it does
//! not grow: that is their share of a turn.
//!
//! Bundles (`IORING_RECVSEND_BUNDLE`) were tried and left out: with 16 KB buffers they gained
//! nothing for large messages and cost 2 % for small ones, and before kernel 6.16 they could leave
//! gaps in the data ("io_uring/net: only retry recv bundle for a full transfer").
//!
//! Invariants
//! 1. A buffer is in one place: with the kernel (given, and not yet reported as filled), `in_use`
//!    by the running turn, or in `reserve`.
//! 2. There are as many places in the ring as buffers, so it cannot overflow.
//! 3. The ring's memory lives until the ring that registered it is gone: `Uring` drops it later.
//!
//! Tests: below, and `tests/engines` (too few buffers).

use super::ring::Ring;
use crate::area::Area;
use io_uring::types::BufRingEntry;
use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

/// After this many turns that used less than a quarter of the circulation, it is halved.
const CALM_TURNS: u32 = 1024;

pub(crate) struct Buffers {
    /// The ring's entries, shared with the kernel; the spare field of the first is the tail.
    places: Area,
    count: u16,
    bytes: u32,
    tail: u16,
    /// Buffers filled in the running turn.
    in_use: Vec<u16>,
    in_use_bytes: usize,
    /// Buffers out of circulation; the one used last is on top.
    reserve: Vec<u16>,
    circulation: BuffersInUse,
}

impl Buffers {
    /// `count` is a power of two, at most 2^15; `least` are in circulation at first.
    pub(crate) fn new(count: u16, bytes: u32, least: u16) -> io::Result<Buffers> {
        debug_assert!(count.is_power_of_two());
        Ok(Buffers {
            places: Area::new(usize::from(count) * size_of::<BufRingEntry>())?,
            count,
            bytes,
            tail: 0,
            in_use: Vec::with_capacity(usize::from(count)),
            in_use_bytes: 0,
            reserve: (0..count).rev().collect(),
            circulation: BuffersInUse::new(usize::from(least), usize::from(count)),
        })
    }

    pub(crate) fn register(&self, ring: &Ring) -> io::Result<()> {
        let address = self.places.start() as u64;
        // SAFETY: the places are page-aligned, long enough for `count`, and live long enough (3).
        unsafe { ring.submitter().register_buf_ring_with_flags(address, self.count, 0, 0) }
    }

    /// Ends the turn: refills the ring. `starved`: a receive found it empty.
    #[inline]
    pub(crate) fn give_back(&mut self, area: &Area, starved: bool) {
        let room = self.in_use.len() * self.bytes as usize;
        self.circulation.adapt(self.in_use.len(), self.in_use_bytes * 2 < room, starved);
        let given = usize::from(self.count) - self.in_use.len() - self.reserve.len();
        let wanted = self.circulation.target.saturating_sub(given);
        self.in_use_bytes = 0;
        for _ in 0..wanted {
            let Some(buffer) = self.in_use.pop().or_else(|| self.reserve.pop()) else { break };
            self.place(buffer, area);
        }
        self.reserve.append(&mut self.in_use);
        if wanted > 0 {
            let start = self.places.start().cast::<BufRingEntry>();
            // SAFETY: the ring lives (3), at a page's start; the field is an aligned u16 inside it.
            let tail = unsafe { &*BufRingEntry::tail(start).cast::<AtomicU16>() };
            tail.store(self.tail, Ordering::Release);
        }
    }

    fn place(&mut self, buffer: u16, area: &Area) {
        let place = usize::from(self.tail & (self.count - 1));
        let start = self.places.start().cast::<BufRingEntry>();
        // SAFETY: `place < count`, so inside the mapping; the kernel does not read a place at or
        // after the tail (2). The setters do not touch the spare field that is the tail.
        let entry = unsafe { &mut *start.add(place) };
        entry.set_addr(area.start() as u64 + u64::from(buffer) * u64::from(self.bytes));
        entry.set_len(self.bytes);
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Takes the buffer that a completion filled; returns its offset in the area.
    #[inline]
    pub(crate) fn take(&mut self, buffer: u16, filled: u32) -> u32 {
        self.in_use.push(buffer);
        self.in_use_bytes += filled as usize;
        u32::from(buffer) * self.bytes
    }
}

/// The number of buffers in circulation, and its limits.
struct BuffersInUse {
    target: usize,
    least: usize,
    most: usize,
    calm_turns: u32,
}

impl BuffersInUse {
    fn new(least: usize, most: usize) -> BuffersInUse {
        BuffersInUse {
            target: least.clamp(1, most),
            least: least.clamp(1, most),
            most,
            calm_turns: 0,
        }
    }

    /// Adapts to a turn that filled `used` buffers; `sparsely`: mostly empty; `starved`: a receive
    /// found the ring empty.
    #[inline]
    fn adapt(&mut self, used: usize, sparsely: bool, starved: bool) {
        if starved && sparsely {
            self.target = (self.target * 2).min(self.most);
        }
        if starved || used * 4 >= self.target || self.target == self.least {
            self.calm_turns = 0;
            return;
        }
        self.calm_turns += 1;
        if self.calm_turns == CALM_TURNS {
            self.calm_turns = 0;
            self.target = (self.target / 2).max(self.least);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circulation_grows_for_crowds_not_for_floods_and_shrinks_in_calm() {
        let mut circulation = BuffersInUse::new(32, 100);
        circulation.adapt(32, false, true);
        assert_eq!(circulation.target, 32, "a flood gets no more than its share");
        circulation.adapt(32, true, true);
        assert_eq!(circulation.target, 64);
        circulation.adapt(64, true, true);
        assert_eq!(circulation.target, 100, "no more than there are");
        for _ in 0..CALM_TURNS - 1 {
            circulation.adapt(3, true, false);
        }
        circulation.adapt(60, true, false);
        assert_eq!(circulation.target, 100, "a busy turn begins the calm anew");
        for _ in 0..CALM_TURNS * 5 {
            circulation.adapt(3, true, false);
        }
        assert_eq!(circulation.target, 32, "never below the least");
    }
}
