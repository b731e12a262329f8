//! The server: threads, connections, the process. The only crate that depends on all others.
//!
//! ```text
//! main -> process::start: threads
//!   worker   one per core: event loop, connections, requests     crate `workers`
//!   lane     commands that take long                             pantala_engine::lane
//!   sweep    expired keys, resident memory                       process::background
//!   reclaim  large garbage                                       process::background
//!   schedule saves by save points and times                      process::background
//! shared: the engine, the workers, and the server's state around them
//! ```
//!
//! | room | what |
//! |---|---|
//! | `commands` | commands about the server itself; others: crates `commands` and `engine` |
//! | `migrate` | MIGRATE: moving keys to another server |
//! | `http` | connections that speak HTTP, which are handed to the control plane |
//! | `process` | start, stop, signals, listening sockets, the log |
//!
//! The way from a request to its reply is in the crate `engine`.

#![forbid(unsafe_code)]

pub mod commands;
pub mod in_process;
pub mod ping;
pub mod process;
pub mod shared;

mod http;
