//! Cache traces: made or read, played against a server, and held against what could be reached.
//!
//! ```text
//!   main -> args --> trace     made from a seed (synthetic) or read from a file (files)
//!               \--> play      look-aside: GET, and SET what was missing; RESP or memcached text
//!                \-> limits    the same trace through LRU and through Belady's optimum
//! ```
//!
//! Invariants
//! 1. The same arguments give the same trace on every machine.
//! 2. Hits are counted after the warm-up only, by the same rule in `play` and in `limits`.
//! 3. What a server refuses to store is counted, and is no fault: it may be full.
//!
//! Not here: starting servers and comparing them (`bench/harness/measure_cache.py`). Tests: at the
//! foot of each file, and `tests/against_a_store.rs`.

#![forbid(unsafe_code)]

pub mod args;
pub mod files;
pub mod limits;
pub mod play;
pub mod synthetic;

/// One look at a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which key; its text is made of this number.
    pub key: u64,
    /// The length of the value that belongs there, in bytes.
    pub value_bytes: u32,
    /// How long what is stored now may be read, in milliseconds; 0: for ever.
    pub ttl_ms: u32,
}

/// The longest value that is played: what is longer in a file is cut to this.
pub const MOST_VALUE_BYTES: u32 = 1 << 20;

/// What a cache did with the part of a trace that counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Requests that count.
    pub requests: u64,
    /// Those whose value was there.
    pub hits: u64,
}

impl Score {
    /// Hits of a hundred requests.
    pub fn percent(self) -> f64 {
        100.0 * self.hits as f64 / self.requests.max(1) as f64
    }

    /// Counts one request.
    pub fn count(&mut self, is_hit: bool) {
        self.requests += 1;
        self.hits += u64::from(is_hit);
    }
}
