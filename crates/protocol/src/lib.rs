//! RESP2, RESP3 and inline commands, sans-IO: bytes in, commands and bytes out.
//!
//! ```text
//!   bytes ──> request::RequestParser ──> args: Vec<&[u8]>      (server side)
//!                       │ quoted inline arguments live in `Arena`
//!   bytes <── reply::Reply
//!   bytes ──> value::parse ──> Value                           (client side: tests, bench)
//! ```
//!
//! 1. Nothing that a peer sends may panic, and work is linear in the bytes received.
//! 2. The commands and errors found do not depend on how the bytes are split into chunks.
//!
//! Not here: sockets, buffers, which commands exist. Tests: foot of each file, and the `fuzz`
//! package.
#![forbid(unsafe_code)]

mod arena;
mod error;
mod inline;
mod reply;
mod request;
pub mod value;

pub use arena::Arena;
pub use error::ProtocolError;
pub use inline::split as split_words;
pub use reply::{Reply, ReplyMark, Version};
pub use request::{
    MANY_ARGS, ParseStep, RequestLimits, RequestParser, is_cross_protocol, whole_request,
};
