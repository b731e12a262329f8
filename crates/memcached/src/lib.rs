//! Memcached's protocols, sans-IO: bytes in, requests and bytes out.
//!
//! ```text
//!   bytes --> request::RequestParser --> Request      one line, and for what stores its data;
//!                                                     meta commands are lines, too (`meta`)
//!   bytes --> binary::RequestParser --> Request       what begins with binary::MAGIC
//!   Request::exptime --> expiry::Expires              seconds from now, or since 1970, or never
//!   value, delta --> arithmetic::count                incr and decr
//!   bytes <-- reply, meta::reply, binary::reply
//! ```
//!
//! What is an error, and with which text, is as memcached 1.6.18 has it, to the byte.
//!
//! Invariants
//! 1. Nothing that a peer sends may panic, and work is linear in the bytes received.
//! 2. The requests and errors found do not depend on how the bytes were cut into pieces.
//!
//! Not here: sockets, the keyspace, which listener speaks it. Tests: the foot of each file, and
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
