//! HTTP: the console, its API, health and metrics, for connections that others have accepted.
//!
//! ```text
//! socket, bytes that were read already --Admin::serve--> hyper --> guard --> router --+
//!                                                                                     |
//!   assets        the console's files                            GET /               <+
//!   api           login, commands, live figures                  /api/...            <+
//!   metrics       for Prometheus                                 GET /metrics        <+
//!   otlp          the same figures, and traces, to a collector, on its own accord
//!   health        is it alive, is it ready                       GET /healthz ...    <+
//! ```
//!
//! Whoever runs a command here is a client like any other: a [`Link`](link::Link) is one end of a
//! pair of sockets whose other end a worker serves, and RESP is spoken over it. So there is no
//! second way to the data: users' rules, limits, MONITOR and the logs hold as everywhere.
//!
//! Invariants
//! 1. No thread is started and nothing is listened on: everything runs on the runtime of whoever
//!    calls [`Admin::serve`], and no worker waits for it.
//! 2. Nothing is read or run for a request that the guard has not let through (`guard`), nor, but
//!    for health, the console's files and logging in, for one that has not said who it is
//!    (`access`).
//! 3. Who has not logged in changes nothing: its commands are looked up in the table first.
//! 4. Every buffer, queue and wait has a limit, named where it is.
//!
//! Not here: accepting, TLS, telling HTTP from RESP, what the figures are read from
//! (`pantala_server::http`, which is the [`Host`]).
//! Tests: at the foot of each file; the server's `tests/http.rs`; the bad days `http`.

#![forbid(unsafe_code)]

mod access;
mod admin;
mod answer;
mod api;
mod assets;
mod guard;
mod health;
mod host;
mod link;
mod metrics;
mod otlp;
mod reply;
mod scan;
mod serve;
mod sessions;
mod stream;

pub use admin::{Admin, Peer};
pub use host::{
    Facts, Figures, Host, LaneFigures, MemoryFigures, NearEnd, NewClient, NotReady, WorkerFigures,
};
pub use otlp::export;
pub use serve::Incoming;
pub use stream::ByteStream;
