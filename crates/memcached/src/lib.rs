//! Memcached's protocols, sans-IO: bytes in, requests and bytes out.
//!
//! ```text
//!   bytes --> request::RequestParser --> Request      a line, and the data of a store;
//!                                                     meta commands are lines, too (`meta`)
//!   bytes --> binary::RequestParser --> Request       bytes that begin with binary::MAGIC
//!   Request::exptime --> expiry::Expires              seconds from now, or since 1970, or never
//!   value, delta --> arithmetic::count                incr and decr
//!   bytes <-- reply, meta::reply, binary::reply
//! ```
//!
//! Errors and their texts are those of memcached 1.6.18, to the byte.
//!
//! Invariants
//! 1. Nothing that a peer sends may panic, and work is linear in the bytes received.
//! 2. The requests and errors found do not depend on how the bytes are split into pieces.
//!
//! Not here: sockets, the keyspace, the listeners. Tests: the foot of each file, and
//! `fuzz_memcached`.

#![forbid(unsafe_code)]

pub mod arithmetic;
pub mod binary;
pub mod expiry;
pub mod meta;
pub mod number;
pub mod reply;
pub mod request;
pub mod sasl;
pub mod size;

pub use request::{Fault, Limits, Request, RequestParser, Step};
