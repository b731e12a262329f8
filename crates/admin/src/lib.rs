//! HTTP: the console, its API, health and metrics, on connections that the server has accepted.
//!
//! ```text
//! socket, bytes that were read already --Admin::serve--> hyper --> guard --> router --+
//!                                                                                     |
//!   assets        the console's files                            GET /               <+
//!   api           login, commands, live figures                  /api/...            <+
//!   metrics       for Prometheus                                 GET /metrics        <+
//!   otlp          the same figures, and traces, pushed to a collector
//!   health        is it alive, is it ready                       GET /healthz ...    <+
//! ```
//!
//! Commands from here run as those of any client: a [`Link`](link::Link) is one end of a socket
//! pair whose other end a worker serves, and RESP is spoken over it. So there is no second way to
//! the data: users' rules, limits, MONITOR and the logs hold as everywhere.
//!
//! Invariants
//! 1. No thread is started and no socket is opened for listening: everything runs on the runtime of
//!    the caller of [`Admin::serve`], and no worker waits for it.
//! 2. Nothing is read or run for a request that the guard has refused (`guard`), nor, except for
//!    health, the console's files and login, for one that is not authenticated (`access`).
//! 3. A caller without a login changes nothing: its commands are looked up in the table first.
//! 4. Every buffer, queue and wait has a limit, named beside it.
//!
//! Not here: accepting, TLS, telling HTTP from RESP, the sources of the figures
//! (`pantala_server::http`, which is the [`AdminHost`]). Tests: at the foot of each file; the
//! server's `tests/http`; the bad days `http`.

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
    AdminFacts, AdminHost, Figures, LaneFigures, LocalEnd, MemoryFigures, NewClient, NotReady,
    PastRun, WorkerFigures,
};
pub use otlp::export;
pub use serve::Incoming;
pub use stream::ByteStream;
