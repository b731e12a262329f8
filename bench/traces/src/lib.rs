//! Cache traces: generated or read, played against a server, and compared with theoretical limits.
//!
//! ```text
//!   main -> args --> trace     made from a seed (synthetic) or read from a file (files)
//!               \--> play      look-aside: GET, and SET what was missing; RESP or memcached text
//!                \-> limits    the same trace through LRU and through Belady's optimum
//! ```
//!
//! Invariants
//! 1. The same arguments give the same trace on every machine.
//! 2. Hits are counted only after the warm-up, by the same rule in `play` and in `limits`.
//! 3. A value that a server refuses to store is counted, and is not an error: it may be full.
//!
//! Not here: starting servers and comparing them (`bench/harness/measure_cache.py`). Tests: at the
//! foot of each file, and `tests/against_a_store.rs`.

#![forbid(unsafe_code)]

pub mod args;
pub mod files;
pub mod limits;
pub mod play;
pub mod synthetic;

/// A request for a cached value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The number of the key, from which its text is made.
    pub key: u64,
    /// The length of its value, in bytes.
    pub value_bytes: u32,
    /// The time to live of a stored value, in milliseconds; 0: no expiry.
    pub ttl_ms: u32,
}

/// The longest value that is played: longer ones in a file are cut to this.
pub const MOST_VALUE_BYTES: u32 = 1 << 20;

/// The result of the part of a trace that counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Requests that count.
    pub requests: u64,
    /// Requests whose value was cached.
    pub hits: u64,
}

impl Score {
    /// Hits in percent.
    pub fn percent(self) -> f64 {
        100.0 * self.hits as f64 / self.requests.max(1) as f64
    }

    /// Counts one request.
    pub fn count(&mut self, is_hit: bool) {
        self.requests += 1;
        self.hits += u64::from(is_hit);
    }
}
