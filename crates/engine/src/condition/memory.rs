//! Memory use, and its limits.
//!
//! There are two: `maxmemory`, and the memory limit of the cgroup this process lives in. The kernel
//! kills a process that exceeds the latter, so writes are refused a little below it.
//!
//! `used` is exact and costs a sum over the threads' counters, once a turn and only if there is a
//! limit. What counts against the cgroup is resident memory, which the sweeping thread reads from
//! time to time ([`MemoryGuard::look`]). A fast client may write much in that time: so the thread
//! looks more often when resident memory gets close to the limit, and from then on the cgroup's
//! limit applies to `used` too, which resident memory follows.
//!
//! On a busy machine that thread may be late. So while far from the limit a worker compares its own
//! thread's counter with its last value, which costs no shared cache line, and each time it has
//! grown by [`OWN_PERCENT`] of the limit the worker looks at `used` itself.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pantala_base::limits::{cgroup_memory_limit, rss_bytes};

/// Writes are refused above this percentage of the cgroup's limit.
const CGROUP_PERCENT: u64 = 92;
/// Above this percentage resident memory is read often.
const CLOSE_PERCENT: u64 = 60;
/// A thread that has allocated this percentage of the limit since its last look, looks again.
const OWN_PERCENT: u64 = 1;
/// The intervals of reading resident memory: close to the limit, and otherwise.
const CLOSE_LOOK: Duration = Duration::from_millis(10);
const FAR_LOOK: Duration = Duration::from_millis(100);
/// The interval without a limit.
const NO_LOOK: Duration = Duration::from_secs(3600);

thread_local! {
    /// What this thread had allocated when it last looked at `used`, in bytes.
    static TAKEN: Cell<i64> = const { Cell::new(0) };
}

/// How much memory is used and how much may be, in bytes, by `maxmemory` and by the cgroup.
pub struct MemoryGuard {
    cgroup_limit: Option<u64>,
    /// The limit that the cgroup sets to `used`, by the last look: 0 above the limit, `u64::MAX`
    /// while far from it.
    group_most: AtomicU64,
    peak: AtomicU64,
    /// The part of `used` that waits for replicas, beyond the backlog.
    unsent: AtomicU64,
    startup: u64,
}

impl Default for MemoryGuard {
    /// Reads the cgroup's limit.
    fn default() -> Self {
        MemoryGuard {
            cgroup_limit: cgroup_memory_limit(),
            group_most: AtomicU64::new(u64::MAX),
            peak: AtomicU64::new(0),
            unsent: AtomicU64::new(0),
            startup: pantala_memory::allocated(),
        }
    }
}

impl MemoryGuard {
    /// Bytes allocated, by the allocator's count.
    pub fn used(&self) -> u64 {
        let used = pantala_memory::allocated();
        // Most looks find no new peak, and then the shared cache line is not written.
        if used > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(used, Ordering::Relaxed);
        }
        used
    }

    /// The highest value that `used` has returned.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Sets how many of the used bytes wait for replicas. Nothing is evicted for them: that would
    /// only make them more.
    pub fn set_unsent(&self, bytes: u64) {
        self.unsent.store(bytes, Ordering::Relaxed);
    }

    /// Adds bytes that are about to wait for replicas; the next [`MemoryGuard::set_unsent`] is
    /// exact.
    pub fn add_unsent(&self, bytes: u64) {
        self.unsent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The bytes that wait for replicas.
    pub fn unsent(&self) -> u64 {
        self.unsent.load(Ordering::Relaxed)
    }

    /// The bytes used before there was data.
    pub fn at_startup(&self) -> u64 {
        self.startup
    }

    /// The cgroup's limit, if there is one.
    pub fn cgroup_limit(&self) -> Option<u64> {
        self.cgroup_limit
    }

    /// Whether memory is full. `not_counted` bytes do not count against `maxmemory`, but they do
    /// against the cgroup's limit.
    #[inline]
    pub fn is_full(&self, maxmemory: u64, not_counted: impl Fn() -> u64) -> bool {
        let group_most = match self.group_most.load(Ordering::Relaxed) {
            u64::MAX => self.cgroup_limit.map_or(u64::MAX, |limit| self.far_most(limit)),
            close => close,
        };
        let most = if maxmemory > 0 { maxmemory } else { u64::MAX };
        if most.min(group_most) == u64::MAX {
            return false;
        }
        let used = self.used();
        used > group_most || used > most && used.saturating_sub(not_counted()) > most
    }

    /// Whether resident memory is above the cgroup's limit: evicting does not help soon.
    pub fn is_group_full(&self) -> bool {
        self.group_most.load(Ordering::Relaxed) == 0
    }

    /// The most bytes that may be used before keys are evicted. Resident memory does not count
    /// here: it falls only long after an eviction.
    pub fn most_evictable(&self, maxmemory: u64) -> u64 {
        let most = if maxmemory > 0 { maxmemory } else { u64::MAX };
        most.min(self.cgroup_limit.map_or(u64::MAX, |limit| percent(CGROUP_PERCENT, limit)))
    }

    /// The limit of the cgroup for `used`, by this thread's own look while the last one found it
    /// far away.
    #[inline]
    fn far_most(&self, limit: u64) -> u64 {
        let taken = pantala_memory::allocated_by_this_thread();
        if taken.abs_diff(TAKEN.get()) < percent(OWN_PERCENT, limit) {
            return u64::MAX;
        }
        TAKEN.set(taken);
        if self.used() <= percent(CLOSE_PERCENT, limit) {
            return u64::MAX;
        }
        let most = percent(CGROUP_PERCENT, limit);
        self.group_most.store(most, Ordering::Relaxed);
        most
    }

    /// Compares resident memory with the cgroup's limit, on a background thread; returns how long
    /// that may sleep until the next look.
    pub fn look(&self) -> Duration {
        let Some(limit) = self.cgroup_limit else { return NO_LOOK };
        let resident = rss_bytes();
        let most = percent(CGROUP_PERCENT, limit);
        let is_close = resident > percent(CLOSE_PERCENT, limit);
        let group_most = match is_close {
            _ if resident > most => 0,
            true => most,
            false => u64::MAX,
        };
        self.group_most.store(group_most, Ordering::Relaxed);
        if is_close { CLOSE_LOOK } else { FAR_LOOK }
    }
}

fn percent(part: u64, limit: u64) -> u64 {
    limit / 100 * part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: pantala_memory::Counting = pantala_memory::Counting;

    fn guard(cgroup_limit: Option<u64>) -> MemoryGuard {
        MemoryGuard {
            cgroup_limit,
            group_most: AtomicU64::new(u64::MAX),
            peak: AtomicU64::new(0),
            unsent: AtomicU64::new(0),
            startup: 0,
        }
    }

    #[test]
    fn a_group_that_this_process_fills_is_full_after_a_look() {
        let guard = guard(Some(rss_bytes() / 2));
        assert_eq!(guard.look(), CLOSE_LOOK);
        assert_eq!(guard.group_most.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_group_with_much_room_is_looked_at_seldom() {
        let guard = guard(Some(rss_bytes() * 100));
        assert_eq!(guard.look(), FAR_LOOK);
        assert!(!guard.is_full(0, || 0));
    }

    #[test]
    fn a_thread_that_takes_much_does_not_wait_for_a_look() {
        let limit = pantala_memory::allocated() + (64 << 20);
        let guard = guard(Some(limit));
        assert!(!guard.is_full(0, || 0));
        let taken = std::hint::black_box(vec![0_u8; 64 << 20]);
        assert!(guard.is_full(0, || 0));
        assert!(guard.is_full(0, || 0), "and remembers it");
        drop(taken);
        assert!(!guard.is_full(0, || 0));
    }

    #[test]
    fn what_does_not_count_against_maxmemory_counts_against_the_group() {
        let (used, limit) = (pantala_memory::allocated(), pantala_memory::allocated() / 2);
        assert!(guard(None).is_full(limit, || 0));
        assert!(!guard(None).is_full(limit, || used));
        let close = guard(Some(u64::MAX / 128));
        close.group_most.store(limit, Ordering::Relaxed);
        assert!(close.is_full(u64::MAX / 2, || used));
    }

    #[test]
    fn without_limits_nothing_is_full() {
        let guard = guard(None);
        assert_eq!(guard.look(), NO_LOOK);
        assert!(!guard.is_full(0, || 0));
    }
}
