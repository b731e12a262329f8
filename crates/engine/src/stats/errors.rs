//! Error replies, counted by their code.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// How many different error codes are counted; beyond that they share one line.
const ERROR_CODES: usize = 128;

/// Error replies by their first word.
#[derive(Default)]
pub struct ErrorCounts(Mutex<BTreeMap<String, u64>>);

impl ErrorCounts {
    /// One more.
    pub fn count(&self, code: &str) {
        self.add(code.into(), 1);
    }

    /// So many more.
    pub fn add(&self, code: String, more: u64) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_one_too_many = counts.len() >= ERROR_CODES && !counts.contains_key(&code);
        let code = if is_one_too_many { "ERRORSTATS_OVERFLOW".into() } else { code };
        *counts.entry(code).or_default() += more;
    }

    /// All counts, which begin again.
    pub fn take(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// All counts, by code.
    pub fn all(&self) -> BTreeMap<String, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts again.
    pub fn reset(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_one_code_too_many_shares_a_line() {
        let counts = ErrorCounts::default();
        for number in 0..ERROR_CODES + 12 {
            counts.count(&format!("CODE{number}"));
        }
        counts.count("CODE0");
        let all = counts.all();
        assert_eq!(all.len(), ERROR_CODES + 1);
        assert_eq!((all["ERRORSTATS_OVERFLOW"], all["CODE0"]), (12, 2));
    }
}
