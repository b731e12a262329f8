//! A client of HTTP/1.1, for requests of the server itself: cloud storage, collectors of telemetry.
//!
//! ```text
//! Client::send --> pool of connections --> Route: direct, or a tunnel through a proxy --> TLS?
//! ```
//!
//! | file | what |
//! |---|---|
//! | `client` | requests, answers, timeouts |
//! | `route` | connecting: certificates, proxies |
//! | `control` | the thread that runs asynchronous work |
//! | `fault` | errors |
//! | `trust` | who is trusted, and as whom one calls |
//!
//! Invariants
//! 1. Every wait has a limit: for a connection, for the head of an answer, for each part of its
//!    body.
//! 2. Without TLS only if the caller permits it.
//! 3. Redirects are not followed: a caller that signs requests must sign the next one, too.
//!
//! HTTP/2 is not supported: nothing here needs it, and it would be a large part of the binary.
//!
//! Authorities are those of the system, or one file of them (`HttpTrust`), which may bring a
//! certificate of the client.
//!
//! Proxies come from the usual environment variables (`HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`), for
//! `https` only; servers without TLS are near.
//!
//! Not here: retries. Tests: at the foot of `client`; with TLS and storage,
//! `compat/clients/objects.py`.

#![forbid(unsafe_code)]

mod client;
pub mod control;
mod fault;
mod route;
mod trust;

pub use client::{Client, HttpAnswer, HttpLimits, Parts};
pub use fault::{FaultKind, HttpFault};
pub use trust::HttpTrust;
