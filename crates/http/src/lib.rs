//! A client of HTTP/1.1, for what the server itself asks of other machines: storage in clouds,
//! collectors of telemetry.
//!
//! ```text
//! Client::send --> pool of connections --> Route: direct, or a tunnel through a proxy --> TLS?
//! ```
//!
//! | file | what |
//! |---|---|
//! | `client` | requests, answers, and how long they may take |
//! | `route` | the way there: certificates, proxies |
//! | `fault` | what can go wrong |
//!
//! Invariants
//! 1. Every wait ends: for a connection, for an answer's head, for each next part of its body.
//! 2. Without TLS only who says that it may be so.
//! 3. Redirects are not followed: who signs requests has to sign the next one, too.
//!
//! HTTP/2 is not spoken: nobody here needs it, and it would be a large part of the binary.
//!
//! Proxies are those of the usual variables of the environment (`HTTPS_PROXY`, `ALL_PROXY`,
//! `NO_PROXY`), for `https` only; what is asked without TLS is near.
//!
//! Not here: retries. Tests: at the foot of `client`; with TLS and storage,
//! `compat/clients/objects.py`.

#![forbid(unsafe_code)]

mod client;
mod fault;
mod route;

pub use client::{Answer, Client, Limits, Parts};
pub use fault::{Fault, Kind};
