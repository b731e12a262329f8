//! TLS without sockets: sealed bytes in, plain bytes out, and back.
//!
//! ```text
//! settings, files --> Acceptor --(one for each connection)--> TlsSession
//!                                  received bytes --open--> plain bytes
//!                                  plain bytes    --seal--> bytes to be sent
//! ```
//!
//! The protocol is rustls's, by its sans-IO connection; the arithmetic is that of ring. An
//! [`Acceptor`] is immutable and shared: whoever changes certificates makes another one, and
//! sessions that have begun go on as they are. A [`TlsSession`] is plain data of one connection and
//! may move between threads.
//!
//! Invariants
//! 1. Nothing that a peer sends panics, or lets a session hold more than a record (18 KB), or a
//!    message of the handshake (64 KB): what is opened and what is to be sent leaves at each call.
//! 2. A session that has failed or was closed opens nothing more.
//! 3. No password and no key appears in an error's text.
//!
//! A [`Connector`] speaks to another server over whatever is read and written there.
//!
//! Not here: sockets, time limits, how many handshakes a turn computes (`server/worker/secured`).
//!
//! | file | what |
//! |---|---|
//! | `acceptor` | what all connections of a port share |
//! | `session` | one connection |
//! | `connector` | connections to other servers |
//! | `files` | certificates and keys, from PEM files |
//! | `certificate` | what a certificate says of its owner |
//! | `names` | versions and ciphers by the names of OpenSSL |
//!
//! Tests: `tests/`, with certificates that openssl makes; `fuzz`, for bytes of any kind.

#![forbid(unsafe_code)]

mod acceptor;
mod certificate;
mod connector;
mod files;
mod names;
mod session;

pub use acceptor::{Acceptor, ClientCertificates, Options};
pub use certificate::{Brief, NameField};
pub use connector::Connector;
pub use session::{Fault, Opened, TlsSession};

/// The first byte of whoever begins a handshake: the type of a record of it.
pub const HANDSHAKE_BYTE: u8 = 0x16;
