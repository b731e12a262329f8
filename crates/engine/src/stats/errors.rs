//! Error replies, counted by their code.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The most error codes that are counted separately; further ones, made up by scripts, share one
/// line.
const ERROR_CODES: usize = 128;

/// Counts of error replies, by their first word.
#[derive(Default)]
pub struct ErrorCounts(Mutex<BTreeMap<String, u64>>);

impl ErrorCounts {
    /// Counts an error of the server's own, of which there are few codes.
    pub fn count(&self, code: &str) {
        self.add(code.into(), 1);
    }

    /// Counts an error that a script has made.
    pub fn count_made(&self, code: &str) {
        let is_one_too_many = {
            let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            counts.len() >= ERROR_CODES && !counts.contains_key(code)
        };
        self.count(if is_one_too_many { "ERRORSTATS_OVERFLOW" } else { code });
    }

    /// Adds `more` errors of a code.
    pub fn add(&self, code: String, more: u64) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(code).or_default() += more;
    }

    /// All counts, which are reset.
    pub fn take(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// All counts, by code.
    pub fn all(&self) -> BTreeMap<String, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Resets all counts.
    pub fn reset(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_scripts_make_up_shares_a_line_and_what_is_ours_does_not() {
        let counts = ErrorCounts::default();
        for number in 0..ERROR_CODES + 12 {
            counts.count_made(&format!("CODE{number}"));
        }
        counts.count_made("CODE0");
        counts.count("ERR");
        counts.count_made("ERR");
        let all = counts.all();
        assert_eq!(all.len(), ERROR_CODES + 2);
        assert_eq!((all["ERRORSTATS_OVERFLOW"], all["CODE0"], all["ERR"]), (12, 2, 2));
    }
}
