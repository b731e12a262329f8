//! The link of a replica to its primary, sans-IO: requests, and the meaning of received bytes.
//!
//! ```text
//! Handshake   PING, AUTH, REPLCONF ..., PSYNC --> +FULLRESYNC, +CONTINUE, an error
//!             +PARTS token n, from a Pantala, before +FULLRESYNC: n connections more
//! Transfer    $PARTS:n; $length or $EOF:mark, then the snapshot, and where it ends
//! FrameReader what comes over the connections of a copy in parts
//! Cutter      the stream, cut into whole steps
//! ```
//!
//! Invariants
//! 1. For every division of the bytes into pieces, the result is the same.
//! 2. An announced number causes no allocation, and lines are bounded.
//!
//! Not here: sockets, threads, running a step (the server). Tests: at the foot of each file.

pub mod cutter;
pub mod frames;
pub mod handshake;
pub mod transfer;

pub use cutter::{CutStep, Cutter, MalformedStream};
pub use frames::{FrameReader, FrameWriter};
pub use handshake::{
    Greeting, Handshake, HandshakeAnswer, HandshakeStep, Invitation, ResumeRequest,
};
pub use transfer::{Frame, Transfer, TransferStart};

/// The longest line that a primary may send.
pub const MOST_LINE_BYTES: usize = 16 << 10;

/// The most connections of a full copy, beside the link.
pub const MOST_CONNECTIONS: usize = 8;

/// The first line of these bytes without its end, and its length including the end.
///
/// # Errors
/// The line is longer than the limit.
pub fn line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, LineTooLong> {
    let looked = &bytes[..bytes.len().min(MOST_LINE_BYTES)];
    match looked.iter().position(|byte| *byte == b'\n') {
        Some(end) => {
            let line = &bytes[..end];
            Ok(Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1)))
        }
        None if bytes.len() >= MOST_LINE_BYTES => Err(LineTooLong),
        None => Ok(None),
    }
}

/// A line above the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineTooLong;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_with_lf_and_may_have_cr() {
        assert_eq!(line(b"+OK\r\nrest"), Ok(Some((&b"+OK"[..], 5))));
        assert_eq!(line(b"\n"), Ok(Some((&b""[..], 1))));
        assert_eq!(line(b"+half\r"), Ok(None));
        assert_eq!(line(&[b'x'; MOST_LINE_BYTES]), Err(LineTooLong));
    }
}
