//! A client of etcd's third API, over its JSON gateway: no gRPC, no HTTP/2.
//!
//! ```text
//! Etcd::get, list, transact .. --> messages: JSON --> client: login, endpoints in turn --> http
//! Etcd::watch --> Watch::next  <-- queue <-- task: one open answer, a line for each message
//! ```
//!
//! | file | what |
//! |---|---|
//! | `client` | endpoints, login, requests and whole answers |
//! | `messages` | requests and answers as JSON |
//! | `watch` | changes as they happen |
//! | `lines` | an open answer, line by line |
//! | `error` | errors |
//! | `fake` | a server that answers wrongly, for tests |
//!
//! Invariants
//! 1. A request that may have been done is never repeated, unless doing it twice is doing it once
//!    (`get`, `list`, `keep_alive`, `revoke`).
//! 2. What is not clearly understood is [`EtcdError::NoAnswer`]: an answer without a header is not
//!    a comparison that failed.
//! 3. A call ends within `timeout` times `WHOLE_TIMES`, however many endpoints there are.
//! 4. An answer, or a line of one, is at most `ANSWER_BYTES` long; what is longer is not read.
//! 5. A watch leaves out no revision and splits none. It says so when it cannot go on
//!    ([`WatchEvent::Compacted`]).
//!
//! etcd 3.4 and later. Not here: what the keys mean. `keep_alive` is answered by the leader
//! without a vote, so it does not prove a majority; a transaction does. Tests: at the foot of the
//! files; with real members, `tests/real.rs`.

#![forbid(unsafe_code)]

mod client;
mod error;
#[cfg(test)]
mod fake;
mod lines;
mod messages;
mod watch;

pub use client::{Etcd, EtcdConfig};
pub use error::EtcdError;
pub use messages::{Compare, EtcdAnswer, EtcdHeader, KeyValue, Txn, TxnOp, TxnResult};
pub use watch::{Watch, WatchEvent};
