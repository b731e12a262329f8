//! Errors: what is not known, what is refused, and what is gone.

use std::fmt;

/// Why there is no answer that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtcdError {
    /// No connection, no time left, no leader, an answer that makes no sense: whether the request
    /// was done is not known.
    NoAnswer(String),
    /// etcd's clear no: a missing permission, a wrong request, a lease that does not exist. Nothing
    /// was done.
    Refused(String),
    /// The revision asked for is no longer kept: list again.
    Compacted,
}

impl fmt::Display for EtcdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EtcdError::NoAnswer(text) => write!(f, "etcd gives no answer: {text}"),
            EtcdError::Refused(text) => write!(f, "etcd refuses: {text}"),
            EtcdError::Compacted => f.write_str("etcd has compacted that revision"),
        }
    }
}

impl std::error::Error for EtcdError {}

/// Codes of gRPC that say clearly that nothing was done: a wrong argument, not found, no
/// permission, a precondition, not implemented, no login.
const CLEAR_CODES: [i64; 6] = [3, 5, 7, 9, 12, 16];

/// How etcd says that there is no such lease.
pub(crate) const NO_LEASE: &str = "requested lease not found";

/// An error as etcd sent it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Complaint {
    /// The code of gRPC.
    pub(crate) code: i64,
    pub(crate) text: String,
}

impl Complaint {
    /// Whether a new token may help. Such a request was not done.
    pub(crate) fn is_about_token(&self) -> bool {
        ["invalid auth token", "user name is empty", "auth store is old", "in header is old"]
            .iter()
            .any(|part| self.text.contains(part))
    }

    /// Whether the store has no logins, so that none is needed.
    pub(crate) fn is_without_logins(&self) -> bool {
        self.text.contains("authentication is not enabled")
    }

    /// What it means for the caller.
    pub(crate) fn into_error(self) -> EtcdError {
        if self.text.contains("has been compacted") {
            return EtcdError::Compacted;
        }
        match CLEAR_CODES.contains(&self.code) {
            true => EtcdError::Refused(self.text),
            false => EtcdError::NoAnswer(self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(code: i64, text: &str) -> EtcdError {
        Complaint { code, text: text.into() }.into_error()
    }

    #[test]
    fn only_a_clear_no_is_a_refusal() {
        for code in [3, 5, 7, 9, 12, 16] {
            assert!(matches!(error_of(code, "no"), EtcdError::Refused(_)), "{code}");
        }
        for code in [0, 1, 2, 4, 8, 10, 11, 13, 14, 15, 99, -1] {
            assert!(matches!(error_of(code, "no"), EtcdError::NoAnswer(_)), "{code}");
        }
        let text = "etcdserver: mvcc: required revision has been compacted";
        assert_eq!(error_of(11, text), EtcdError::Compacted);
    }
}
