//! A server asked from outside: where it is, and a connection to it. For tools such as `pantala
//! top` and `pantala doctor`; any server of this protocol.
//!
//! ```text
//! words of a tool --> Told --> Address --> Connection::open --> ask(words) --> Value
//! ```
//!
//! | file | what |
//! |---|---|
//! | `address` | URL and flags |
//! | `connection` | commands out, replies in, with TLS |
//! | `text` | replies, for people |
//! | `words` | what a tool is told, beside words of its own |
//!
//! Invariants
//! 1. Every wait has an end, and what is kept of a reply has a bound: the other side may be
//!    anybody.
//!
//! Not here: what the server itself sends to others (`server/migrate`), which never waits.
//! Tests: at the foot of each file, the server's `tests/top.rs`, the doctor's `tests/scripted.rs`.

#![forbid(unsafe_code)]

mod address;
mod connection;
mod text;
mod words;

pub use address::{ADDRESS_HELP, Address};
pub use connection::Connection;
pub use pantala_protocol::value::Value;
pub use text::{fields_of, pairs_of, text_of};
pub use words::Told;
