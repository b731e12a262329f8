//! Running scripts and functions: EVAL, EVALSHA, FCALL and their kin.
//!
//! ```text
//! worker   known and quick?  lock KEYS (all or none)  run
//!             |                                        |-- ends: reply, effects, waiters, unlock
//!             | no                                     |-- needs a busy partition, takes long:
//!             v                                        |      undo, unlock
//! lane     lock KEYS, waiting   run  <-----------------'
//!             |-- needs a busy partition: take the token, if it is free, and wait for it;
//!             |                           if not: undo, unlock, lie aside until it is
//!             |-- waits for a script that is too slow: undo, unlock, BUSY
//!             '-- ends
//! ```
//!
//! Keys need not be declared. Those of the call itself are locked before the script runs; any other
//! is locked when the script names it, and held to its end, so what a script does is one step for
//! all others. A script that finds a partition busy begins to wait (`keyspace::access::token`): it
//! holds the one token and may wait with locks in hand, or it is undone (`keyspace::changes::undo`)
//! and begins again with the token. What is too large to be copied for undoing is changed only with
//! the token: from then on nothing can stop the script. If it then waits for a script that runs for
//! too long, its own keys count as busy, too.
//!
//! Invariants
//! 1. A script that is undone has changed nothing and published nothing: its effects are published
//!    at its end, and so are its log lines (except for very many).
//! 2. A script waits for a partition only with the token, or with nothing held.
//! 3. A script runs on a worker only when its last runs were quick, and can always be undone there:
//!    if it takes longer after all, or is about to change what is too large to be copied, it is
//!    undone and moves to the lane. So a worker never has the token, and never waits.
//! 4. Each thread has an interpreter of its own, and they share nothing; what a script is and how
//!    its runs went is known to all threads (`CachedScripts`).
//!
//! Not here: the interpreter (`pantala-scripting`), the libraries of FUNCTION (`functions`).
//! Tests: compat/transcripts/scripting, crates/server/tests/scripts.rs, compat's `serial`.

mod call;
mod commands;
pub mod known;
pub(crate) mod log;
mod run;
pub mod running;
pub mod store;
mod thread;

pub(crate) use call::UNDO_LIMITS;
pub use commands::{ROWS, runs, runs_read_only};
pub use known::{CachedScripts, Program};
pub use running::{KillError, Kind, Running, RunningNow};
pub use store::Scripts;
