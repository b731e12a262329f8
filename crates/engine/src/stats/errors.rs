//! Error replies, counted by their code.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// The most error codes that are counted separately; further ones, made up by scripts, share one
/// line.
const ERROR_CODES: usize = 128;

/// The first word of an error reply, by who has made it up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorCode {
    /// The server's own, of which there are few.
    Own(String),
    /// A script's, of which there may be any number.
    Made(String),
}

/// Counts of error replies that may still be undone.
#[derive(Default)]
pub struct ErrorsInside(Mutex<BTreeMap<ErrorCode, u64>>);

impl ErrorsInside {
    /// Counts an error.
    pub fn count(&self, code: ErrorCode) {
        let mut counts = self.0.lock();
        *counts.entry(code).or_default() += 1;
    }

    /// All counts, which are reset.
    pub fn take(&self) -> BTreeMap<ErrorCode, u64> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// Counts of error replies, by their first word.
#[derive(Default)]
pub struct ErrorCounts(Mutex<BTreeMap<String, u64>>);

impl ErrorCounts {
    /// Adds `more` errors of a code.
    pub fn add(&self, code: ErrorCode, more: u64) {
        let mut counts = self.0.lock();
        let name = match code {
            ErrorCode::Own(name) => name,
            ErrorCode::Made(name) if counts.len() < ERROR_CODES => name,
            ErrorCode::Made(name) if counts.contains_key(&name) => name,
            ErrorCode::Made(_) => "ERRORSTATS_OVERFLOW".into(),
        };
        *counts.entry(name).or_default() += more;
    }

    /// All counts, by code.
    pub fn all(&self) -> BTreeMap<String, u64> {
        self.0.lock().clone()
    }

    /// Resets all counts.
    pub fn reset(&self) {
        self.0.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_scripts_make_up_shares_a_line_and_what_is_ours_does_not() {
        let counts = ErrorCounts::default();
        for number in 0..ERROR_CODES + 12 {
            counts.add(ErrorCode::Made(format!("CODE{number}")), 1);
        }
        counts.add(ErrorCode::Made("CODE0".into()), 1);
        counts.add(ErrorCode::Own("ERR".into()), 1);
        counts.add(ErrorCode::Made("ERR".into()), 1);
        let all = counts.all();
        assert_eq!(all.len(), ERROR_CODES + 2);
        assert_eq!((all["ERRORSTATS_OVERFLOW"], all["CODE0"], all["ERR"]), (12, 2, 2));
    }

    #[test]
    fn what_may_be_undone_keeps_who_made_it_up() {
        let (counts, inside) = (ErrorCounts::default(), ErrorsInside::default());
        for number in 0..ERROR_CODES + 12 {
            inside.count(ErrorCode::Made(format!("CODE{number}")));
            inside.count(ErrorCode::Own("ERR".into()));
            inside.take().into_iter().for_each(|(code, more)| counts.add(code, more));
        }
        let all = counts.all();
        assert_eq!((all.len(), all["ERRORSTATS_OVERFLOW"]), (ERROR_CODES + 1, 13));
        assert_eq!(all["ERR"], ERROR_CODES as u64 + 12);
    }
}
