//! How much memory is used, and when writes are refused for it.
//!
//! Two limits: `maxmemory`, and the memory limit of the cgroup this process lives in. The kernel
//! kills who exceeds the latter, so writes are refused a little below it.
//!
//! `used` is exact and costs a sum over the threads' counters, once a turn and only if there is a
//! limit. What counts against the cgroup is resident memory, which the sweeping thread reads from
//! time to time ([`MemoryGuard::look`]). A fast client writes much in that time: so the thread
//! looks more often when it gets close, and from then on `used`, which resident memory follows, has
//! the cgroup's limit too.
//!
//! On a busy machine that thread may come late. So far from the limit a worker compares its own
//! thread's counter with what it was, which costs no shared cache line, and each time it has grown
//! by [`OWN_PERCENT`] of the limit it looks at `used` itself.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pantala_base::limits::{cgroup_memory_limit, rss_bytes};

/// Of the cgroup's limit, this part (in percent) is used before writes are refused.
const CGROUP_PERCENT: u64 = 92;
/// Above this part (in percent) resident memory is looked at often.
const CLOSE_PERCENT: u64 = 60;
/// A thread that has taken this part (in percent) of the limit since it last looked, looks again.
const OWN_PERCENT: u64 = 1;
/// How often: then, and otherwise.
const CLOSE_LOOK: Duration = Duration::from_millis(10);
const FAR_LOOK: Duration = Duration::from_millis(100);
/// Without a limit there is nothing to look at.
const NO_LOOK: Duration = Duration::from_secs(3600);

thread_local! {
    /// What this thread had taken when it last looked at `used`.
    static TAKEN: Cell<i64> = const { Cell::new(0) };
}

/// How much memory is used and how much may be, in bytes, by `maxmemory` and by the cgroup.
pub struct MemoryGuard {
    cgroup_limit: Option<u64>,
    /// What the cgroup lets `used` be, by the last look: 0 above the limit, all while far from it.
    group_most: AtomicU64,
    peak: AtomicU64,
    /// Of `used`: what waits for replicas, beside what is kept for them anyway.
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
    /// Bytes given out by the allocator.
    pub fn used(&self) -> u64 {
        let used = pantala_memory::allocated();
        // Most looks find no new peak, and then nobody writes the line that all read.
        if used > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(used, Ordering::Relaxed);
        }
        used
    }

    /// The most that `used` has ever answered.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// So much of what is used waits for replicas. Nothing is evicted for it: that would only have
    /// more wait.
    pub fn set_unsent(&self, bytes: u64) {
        self.unsent.store(bytes, Ordering::Relaxed);
    }

    /// So much more is about to wait for replicas; the next [`MemoryGuard::set_unsent`] is exact.
    pub fn add_unsent(&self, bytes: u64) {
        self.unsent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The bytes that wait for replicas.
    pub fn unsent(&self) -> u64 {
        self.unsent.load(Ordering::Relaxed)
    }

    /// What was used before there was data.
    pub fn at_startup(&self) -> u64 {
        self.startup
    }

    /// The cgroup's limit, if there is one.
    pub fn cgroup_limit(&self) -> Option<u64> {
        self.cgroup_limit
    }

    /// Whether there is no room now. So much of what is used does not count against `maxmemory`;
    /// the kernel counts it.
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

    /// Whether resident memory is above what the cgroup lets it be: nothing evicted helps soon.
    pub fn is_group_full(&self) -> bool {
        self.group_most.load(Ordering::Relaxed) == 0
    }

    /// What may be used before something is evicted. Resident memory is no measure of that: it
    /// falls only long after.
    pub fn most_evictable(&self, maxmemory: u64) -> u64 {
        let most = if maxmemory > 0 { maxmemory } else { u64::MAX };
        most.min(self.cgroup_limit.map_or(u64::MAX, |limit| percent(CGROUP_PERCENT, limit)))
    }

    /// What the cgroup lets `used` be, by a look of this thread while the last one said it was far.
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

    /// Compares resident memory with the cgroup's limit, from a background thread; how long it may
    /// sleep until the next look.
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
