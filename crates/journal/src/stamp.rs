//! Stamps: the order of steps of different threads.
//!
//! A stamp is a time and the number of a thread. The clock is read once per turn, for its first
//! step; a thread that meets a larger stamp of another thread takes a still larger one, and
//! otherwise keeps its time. So in a turn without contention all steps share one stamp, and leave
//! as one run of bytes.
//!
//! Invariants
//! 1. The stamps of one thread never fall. Steps with the same stamp are of one thread, in the
//!    order in which it ended them.
//! 2. A step that held a partition after another thread's step has the larger stamp.
//! 3. Stamps follow real time: the step of a command that was sent after an answer was received has
//!    a larger stamp than all steps that the answer could have seen. That follows from 4, 5 and 6.
//! 4. No stamp is ahead of the clock when its step can first be seen. A stamp is a reading of the
//!    clock, plus one for each time that a partition passed from one thread to another since then,
//!    which takes longer than a tick.
//! 5. A thread reads the clock for the first step after its last hand-over, and hands over before
//!    it takes new input: a worker takes all input of a turn before it runs any of it, the lane and
//!    a replica's apply pool have one job or batch at a time, and the threads that evict, expire
//!    and flush have no input. A worker's other input (a reply of the lane, a called waiter, a
//!    connection from another worker) is also taken between two turns of commands.
//! 6. A waiter that another thread serves is answered after its step has a stamp, for which the
//!    clock is read again (`Recorder::stamp_step`).

use pantala_base::clock::monotonic_ns;

/// A tick of the clock in nanoseconds: less than a cache line takes to move from one core to
/// another, plus the work under the lock it carries, so that stamps do not count faster than the
/// clock.
const TICK_NS: u64 = 64;

/// The clock of stamps: the time since the start in ticks.
pub(crate) fn ticks() -> u64 {
    monotonic_ns() / TICK_NS
}

/// How many threads can record.
pub const MOST_THREADS: usize = 1 << THREAD_BITS;

const THREAD_BITS: u32 = 12;
const THREAD_MASK: u64 = (1 << THREAD_BITS) - 1;

const _: () = assert!(u64::BITS - THREAD_BITS >= 52, "the time lasts for nine years");

/// Orders the steps of all threads: a time and a thread's number. The default is before all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(u64);

impl Stamp {
    /// The stamp after all others.
    pub const LAST: Stamp = Stamp(u64::MAX);

    /// The first stamp of a time: not after any step of this time, after all of earlier times. 52
    /// bits of ticks last for nine years of one process.
    #[inline]
    pub fn first_of(time: u64) -> Stamp {
        debug_assert!(time <= Stamp::LAST.time(), "the time fits");
        Stamp(time << THREAD_BITS)
    }

    /// Its representation outside this process.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn from_bits(bits: u64) -> Stamp {
        Stamp(bits)
    }

    /// Its time, in ticks.
    #[inline]
    pub fn time(self) -> u64 {
        self.0 >> THREAD_BITS
    }

    /// The number of its thread.
    #[inline]
    pub fn thread(self) -> usize {
        (self.0 & THREAD_MASK) as usize
    }

    /// The smallest stamp of a thread that is not before this one.
    #[inline]
    pub fn next_of(self, thread: usize) -> Stamp {
        debug_assert!(thread < MOST_THREADS, "a thread's number fits");
        let same_time = Stamp((self.0 & !THREAD_MASK) | thread as u64);
        let next =
            if same_time < self { Stamp(same_time.0 + (1 << THREAD_BITS)) } else { same_time };
        debug_assert!(next >= self && next.thread() == thread, "stamps never fall");
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_only_where_it_must() {
        let seen = Stamp::first_of(7).next_of(3);
        assert_eq!((seen.time(), seen.thread()), (7, 3));
        assert_eq!(seen.next_of(3), seen);
        assert_eq!(seen.next_of(4), Stamp::first_of(7).next_of(4));
        assert_eq!(seen.next_of(2), Stamp::first_of(8).next_of(2));
        assert!(seen < seen.next_of(2));
        assert!(seen < seen.next_of(MOST_THREADS - 1));
        assert_eq!(Stamp::default().next_of(0), Stamp::default());
    }
}
