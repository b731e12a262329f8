//! Errors in the framing of a request, in the reference's words. After any of these the connection
//! is closed: the start of the next command cannot be found.

use std::fmt;

/// A framing error. Its text (`Display`) is the answer of valkey-server 9.1.2, without the `-` and
/// the line end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The count after `*` is not a number, or above the limit.
    InvalidMultibulkLength,
    /// The length after `$` is not a number, negative, or above the limit.
    InvalidBulkLength,
    /// An argument begins with this byte in place of `$`.
    ExpectedDollar(u8),
    /// A line or an argument does not end with CR LF.
    InvalidLineEnd,
    /// No CR within the limit after `*`.
    TooBigCount,
    /// No CR within the limit after `$`.
    TooBigBulkCount,
    /// No LF within the limit of an inline command.
    TooBigInline,
    /// An inline command's quote has no end.
    UnbalancedQuotes,
    /// More arguments than a client may send before it has authenticated.
    UnauthenticatedMultibulkLength,
    /// A longer argument than a client may send before it has authenticated.
    UnauthenticatedBulkLength,
}

impl ProtocolError {
    /// Appends the error reply, line end included.
    pub fn push_reply(self, out: &mut Vec<u8>) {
        let mut reply = crate::Reply::new(out, crate::Version::Resp2);
        match self {
            // The byte is sent as it was received, text or not.
            ProtocolError::ExpectedDollar(byte) => reply.error(
                [b"ERR Protocol error: expected '$', got '".as_slice(), &[byte, b'\'']].concat(),
            ),
            _ => reply.error(self.to_string()),
        }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ERR Protocol error: ")?;
        f.write_str(match self {
            ProtocolError::InvalidMultibulkLength => "invalid multibulk length",
            ProtocolError::InvalidBulkLength => "invalid bulk length",
            ProtocolError::ExpectedDollar(byte) => {
                return write!(f, "expected '$', got '{}'", byte.escape_ascii());
            }
            ProtocolError::InvalidLineEnd => "invalid CRLF in request",
            ProtocolError::TooBigCount => "too big mbulk count string",
            ProtocolError::TooBigBulkCount => "too big bulk count string",
            ProtocolError::TooBigInline => "too big inline request",
            ProtocolError::UnbalancedQuotes => "unbalanced quotes in request",
            ProtocolError::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            ProtocolError::UnauthenticatedBulkLength => "unauthenticated bulk length",
        })
    }
}

impl std::error::Error for ProtocolError {}
