//! A small load generator and filler for the bench.
//!
//! ```text
//!   main -> args ---> fill   lockstep batches over a few blocking connections
//!                \--> run    closed loop: C connections, P commands under way on each
//!            both use: keys      which bytes key number i and its value have
//!                      chance    random numbers, uniform and Zipf choices
//!                      wire      commands out, replies in, for RESP and memcached text
//!            run uses: histogram latencies within 0.8 %
//! ```
//!
//! Invariants
//!
//! 1. Key `i` of a width is the same bytes in every run, and the same bytes that redis-benchmark
//!    makes of `key:__rand_int__`; so one tool fills and the other hits.
//! 2. The value of a key is a function of (seed, key, length); so `run --verify` can check a reply
//!    without having seen the fill.
//! 3. A reply counts only when it is one that its command may have: an error, a wrong type or a
//!    wrong length ends the run with a message and exit code 1. So does a miss, unless allowed.
//! 4. No wait is unlimited: no progress for [`STALL_LIMIT_S`] seconds is an error.
//!
//! Not here: the accounting of the server's CPU time and memory (the harness beside this crate
//! reads it from the kernel), and open-loop load: latencies are those of a closed loop, which
//! waits for a slow reply instead of sending on, so long stalls are under-counted.
//!
//! The sockets of `run` are non-blocking and scanned in turn: the load has a core of its own and
//! may spin. That needs no poll, hence no `unsafe` and no dependency.
//!
//! Tests: at the foot of each file, and `tests/against_a_server.rs` over real sockets.

#![forbid(unsafe_code)]

use std::process::ExitCode;

pub mod args;
pub mod chance;
pub mod fill;
pub mod histogram;
pub mod keys;
pub mod run;
pub mod wire;

/// Longest time without any progress before a fill or a run gives up, in seconds.
pub const STALL_LIMIT_S: u64 = 30;

/// Why a fill or a run ends early.
#[derive(Debug)]
pub enum Fault {
    /// The command line makes no sense; the text says why.
    Usage(String),
    /// The sockets failed.
    Io(std::io::Error),
    /// The server sent an invalid reply (an error, another type, a wrong value).
    Reply(String),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Usage(text) => write!(out, "usage: {text}"),
            Fault::Io(error) => write!(out, "connection: {error}"),
            Fault::Reply(text) => write!(out, "reply: {text}"),
        }
    }
}

impl std::error::Error for Fault {}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Fault {
        Fault::Io(error)
    }
}

/// Prints the result of a benchmark program; the exit code is 1 for an error, 2 for invalid
/// arguments.
pub fn told(program: &str, answer: Result<String, Fault>) -> ExitCode {
    match answer {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(fault) => {
            eprintln!("{program}: {fault}");
            ExitCode::from(if matches!(fault, Fault::Usage(_)) { 2 } else { 1 })
        }
    }
}
