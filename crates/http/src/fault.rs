//! Errors of a request; statuses such as 404 are answers, not errors.

use std::error::Error;
use std::fmt;
use std::io::ErrorKind;

/// The kind of error, which decides whether the request may be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// No connection: the request was not sent.
    Connect,
    /// It took too long.
    Timeout,
    /// The connection ended before the answer did.
    Interrupted,
    /// Another error.
    Other,
}

/// An error, with a text for the operator.
#[derive(Debug)]
pub struct HttpFault {
    /// Its kind.
    pub kind: FaultKind,
    text: String,
}

impl HttpFault {
    pub(crate) fn new(kind: FaultKind, text: impl Into<String>) -> HttpFault {
        HttpFault { kind, text: text.into() }
    }

    /// An error of a library, with its causes: its own text often says nothing.
    pub(crate) fn of(kind: FaultKind, error: &(dyn Error + 'static)) -> HttpFault {
        let mut text = error.to_string();
        let mut kind = kind;
        let mut source = Some(error);
        while let Some(error) = source {
            let more = error.to_string();
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
            if kind == FaultKind::Other {
                kind = kind_of(error);
            }
            source = error.source();
        }
        HttpFault { kind, text }
    }
}

fn kind_of(error: &(dyn Error + 'static)) -> FaultKind {
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        let is_cut =
            error.is_closed() || error.is_incomplete_message() || error.is_body_write_aborted();
        return if is_cut { FaultKind::Interrupted } else { FaultKind::Other };
    }
    match error.downcast_ref::<std::io::Error>().map(std::io::Error::kind) {
        Some(ErrorKind::TimedOut) => FaultKind::Timeout,
        Some(
            ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof,
        ) => FaultKind::Interrupted,
        _ => FaultKind::Other,
    }
}

impl fmt::Display for HttpFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for HttpFault {}
