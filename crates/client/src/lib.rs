//! A client for tools such as `pantala top` and `pantala doctor`: addresses and connections of any
//! server of this protocol.
//!
//! ```text
//! words of a tool --> Told --> Address --> Connection::open --> ask(words) --> Value
//! ```
//!
//! | file | what |
//! |---|---|
//! | `address` | URL and flags |
//! | `connection` | commands out, replies in, with TLS |
//! | `text` | replies in readable form |
//! | `words` | command lines: common words, and those of each tool |
//!
//! Invariants
//! 1. Every wait has a limit, and so has the stored part of a reply: the server may be anyone's.
//!
//! Not here: what the server itself sends to others (`migrate`), which never blocks.
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
pub use words::ToolOptions;
