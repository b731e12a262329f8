//! Workers: the threads that serve connections, one for each core.
//!
//! ```text
//! listening --> accept --> a connection --> parse --> run (engine) --> send
//! ```
//!
//! | room | what |
//! |---|---|
//! | `worker/` | one worker thread: its event loop and its connections |
//! | `workers/` | all worker threads, and their inboxes |
//! | `listening`, `listener_kind` | the listening sockets, and their kinds |
//! | `context` | [`WorkerContext`]: what all workers are given |
//!
//! Not here: running a command (`engine`); commands about workers and clients, starting and ending
//! the threads (`server`). Tests: the server's `tests/`, compat.

#![forbid(unsafe_code)]

mod context;
pub mod listener_kind;
pub mod listening;
pub mod worker;
pub mod workers;

pub use context::{HttpHandler, WorkerContext};
