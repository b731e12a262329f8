//! TLS without sockets: encrypted bytes in, plain bytes out, and back.
//!
//! ```text
//! settings, files --> Acceptor --(one for each connection)--> TlsSession
//!                                  received bytes --open--> plain bytes
//!                                  plain bytes    --seal--> bytes to be sent
//! ```
//!
//! The protocol is rustls's, by its sans-IO connection; the cryptography is that of ring. An
//! [`Acceptor`] is immutable and shared: a change of certificates makes another one, and existing
//! sessions continue unchanged. A [`TlsSession`] is plain data of one connection and may move
//! between threads.
//!
//! Invariants
//! 1. Nothing that a peer sends panics, or makes a session hold more than a record (18 KB) or a
//!    handshake message (64 KB): decrypted and encrypted bytes leave with each call.
//! 2. A session that has failed or was closed decrypts nothing more.
//! 3. No password and no key appears in an error's text.
//!
//! A [`Connector`] speaks to another server over any reader and writer.
//!
//! Not here: sockets, time limits, how many handshakes a turn computes (`workers`,
//! `worker/secured`).
//!
//! | file | what |
//! |---|---|
//! | `acceptor` | what all connections of a port share |
//! | `session` | one connection |
//! | `connector` | connections to other servers |
//! | `files` | certificates and keys, from PEM files |
//! | `certificate` | the owner and validity of a certificate |
//! | `names` | versions and ciphers by OpenSSL's names |
//!
//! Tests: `tests/`, with certificates that openssl makes; `fuzz`, for arbitrary bytes.

#![forbid(unsafe_code)]

mod acceptor;
mod certificate;
pub mod certificates;
mod connector;
mod files;
mod names;
mod session;

pub use acceptor::{Acceptor, ClientCertificates, TlsOptions};
pub use certificate::{CertificateSummary, NameField};
pub use connector::Connector;
pub use session::{OpenedBytes, TlsFault, TlsSession};

/// The first byte of a handshake: the type of its record.
pub const HANDSHAKE_BYTE: u8 = 0x16;
