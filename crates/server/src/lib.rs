//! The server: threads, connections, the process. The only crate that knows all others.
//!
//! ```text
//! main -> process::start: threads
//!   worker   one a core: reactor, connections, what arrived      worker, worker::serving
//!   lane     commands that take long                             pantala_engine::lane
//!   sweep    expired keys, resident memory                       process::background
//!   reclaim  large garbage                                       process::background
//!   schedule saves by save points and times                      process::files
//! shared: the engine, the workers, and what stands around them
//! ```
//!
//! | room | what |
//! |---|---|
//! | `worker` | one thread, its event loop and its connections |
//! | `workers` | all of them, and their inboxes |
//! | `clients` | clients as operators see them: filters, CLIENT LIST, their memory |
//! | `commands` | commands about the server itself; all others are in `commands` and `engine` |
//! | `migrate` | keys on their way to another server |
//! | `http` | connections that speak HTTP, on their way to the control plane |
//! | `replication` | this server as a primary, and as a replica |
//! | `process` | starting, stopping, signals, listening sockets, the log |
//!
//! What happens between a request and its reply is the crate `engine`'s.

#![forbid(unsafe_code)]

pub mod commands;
pub mod in_process;
pub mod ping;
pub mod process;
pub mod shared;

pub mod appending;
mod clients;
mod http;
mod migrate;
mod rates;
pub mod replication;
mod saves;
mod tls;
mod worker;
mod workers;
