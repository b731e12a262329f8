//! Errors of a request; statuses such as 404 are answers, not errors.

use std::error::Error;
use std::fmt;
use std::io::ErrorKind;

/// The kind of error, which decides whether the request may be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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
pub struct Fault {
    /// Its kind.
    pub kind: Kind,
    text: String,
}

impl Fault {
    pub(crate) fn new(kind: Kind, text: impl Into<String>) -> Fault {
        Fault { kind, text: text.into() }
    }

    /// An error of a library, with its causes: its own text often says nothing.
    pub(crate) fn of(kind: Kind, error: &(dyn Error + 'static)) -> Fault {
        let mut text = error.to_string();
        let mut kind = kind;
        let mut source = Some(error);
        while let Some(error) = source {
            let more = error.to_string();
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
            if kind == Kind::Other {
                kind = kind_of(error);
            }
            source = error.source();
        }
        Fault { kind, text }
    }
}

fn kind_of(error: &(dyn Error + 'static)) -> Kind {
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        let is_cut =
            error.is_closed() || error.is_incomplete_message() || error.is_body_write_aborted();
        return if is_cut { Kind::Interrupted } else { Kind::Other };
    }
    match error.downcast_ref::<std::io::Error>().map(std::io::Error::kind) {
        Some(ErrorKind::TimedOut) => Kind::Timeout,
        Some(
            ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof,
        ) => Kind::Interrupted,
        _ => Kind::Other,
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for Fault {}
