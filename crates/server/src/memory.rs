//! How much memory is used, and when writes are refused for it.
//!
//! Two limits: `maxmemory`, and the memory limit of the cgroup this process lives in. The kernel
//! kills who exceeds the latter, so writes are refused a little below it.
//!
//! `used` is exact and costs a sum over the threads' counters, once a turn and only if there is a
//! limit. What counts against the cgroup is resident memory, which the allocator's thread reads from
//! time to time into `resident`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pantala_base::limits::{cgroup_memory_limit, rss_bytes};

/// Of the cgroup's limit, this part (in percent) is used before writes are refused.
const CGROUP_PERCENT: u64 = 92;

/// See the module.
pub struct MemoryGuard {
    cgroup_limit: Option<u64>,
    /// Resident memory is near the cgroup's limit.
    is_near_limit: AtomicBool,
    peak: AtomicU64,
    startup: u64,
}

impl MemoryGuard {
    /// Reads the cgroup's limit.
    pub fn new() -> Self {
        MemoryGuard {
            cgroup_limit: cgroup_memory_limit(),
            is_near_limit: AtomicBool::new(false),
            peak: AtomicU64::new(0),
            startup: pantala_memory::allocated(),
        }
    }

    /// Bytes given out by the allocator.
    pub fn used(&self) -> u64 {
        let used = pantala_memory::allocated();
        self.peak.fetch_max(used, Ordering::Relaxed);
        used
    }

    /// The most that `used` has ever answered.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// What was used before there was data.
    pub fn at_startup(&self) -> u64 {
        self.startup
    }

    /// The cgroup's limit, if there is one.
    pub fn cgroup_limit(&self) -> Option<u64> {
        self.cgroup_limit
    }

    /// Whether commands that need memory are refused now.
    #[inline]
    pub fn is_full(&self, maxmemory: u64) -> bool {
        (maxmemory > 0 && self.used() > maxmemory) || self.is_near_limit.load(Ordering::Relaxed)
    }

    /// Compares resident memory with the cgroup's limit; from a background thread.
    pub fn look(&self) {
        if let Some(limit) = self.cgroup_limit {
            let near = rss_bytes() > limit / 100 * CGROUP_PERCENT;
            self.is_near_limit.store(near, Ordering::Relaxed);
        }
    }
}
