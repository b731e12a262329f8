//! Errors in Memcached's protocols, where a client of RESP gets an error reply: the command was
//! refused, met a value of another type, or has failed by a bug.
//!
//! | here | there |
//! |---|---|
//! | the password is missing | `CLIENT_ERROR unauthenticated` |
//! | its user may not do that | `CLIENT_ERROR`, and the error as in RESP |
//! | no memory | `SERVER_ERROR out of memory storing object` |
//! | anything else | `SERVER_ERROR`, and the error as in RESP |
//!
//! No error is written with `noreply`, and none for a key of a `get` that other keys follow: the
//! last of them has the error where its `END` would be.

use pantala_memcached::binary::Parts;
use pantala_memcached::binary::reply::{self, Failure};

use crate::clients::session::Protocol;
use crate::error::ClientError;

use super::words;

/// `incr` or `decr` of a value that is no number.
pub(super) const NOT_NUMERIC: ClientError =
    ClientError::text("NOTNUMERIC cannot increment or decrement non-numeric value");

/// A malformed request that its parser has let through: a bug.
pub(super) const MALFORMED: ClientError = ClientError::text("ERR malformed request");

/// Writes the error, for the command with these arguments.
#[cold]
pub fn push_refusal(protocol: Protocol, args: &[&[u8]], error: &ClientError, out: &mut Vec<u8>) {
    match protocol {
        Protocol::MemcachedText if words::is_answered(args) => push_text(error, out),
        Protocol::MemcachedBinary => push_binary_refusal(args, error, out),
        Protocol::MemcachedText | Protocol::Resp | Protocol::Undecided => {}
    }
}

/// Writes the error in Memcached's binary protocol: the error's text becomes the body where
/// memcached has no status of its own.
pub fn push_binary_refusal(args: &[&[u8]], error: &ClientError, out: &mut Vec<u8>) {
    let Some(asked) = args.get(2).and_then(|parts| Parts::asked(parts)) else { return };
    let failure = match error.code() {
        "NOAUTH" => Failure::Unauthenticated,
        "NOPERM" => {
            let text = String::from_utf8_lossy(&error.0);
            return reply::failure_with(out, asked, Failure::Unauthenticated, &text);
        }
        "OOM" => Failure::OutOfMemory,
        "NOTNUMERIC" => Failure::NotNumeric,
        _ => {
            let text = String::from_utf8_lossy(&error.0);
            return reply::failure_with(out, asked, Failure::Internal, &text);
        }
    };
    reply::failure(out, asked, failure);
}

fn push_text(error: &ClientError, out: &mut Vec<u8>) {
    match error.code() {
        "NOAUTH" => out.extend_from_slice(b"CLIENT_ERROR unauthenticated"),
        "OOM" => out.extend_from_slice(b"SERVER_ERROR out of memory storing object"),
        "NOTNUMERIC" => {
            out.extend_from_slice(b"CLIENT_ERROR cannot increment or decrement non-numeric value");
        }
        code => {
            let is_client = code == "NOPERM";
            let word: &[u8] = if is_client { b"CLIENT_ERROR " } else { b"SERVER_ERROR " };
            out.extend_from_slice(word);
            let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
            let line = &*error.0;
            out.extend(line.iter().map(|byte| if is_end(byte) { b' ' } else { *byte }));
        }
    }
    out.extend_from_slice(b"\r\n");
}
