//! Commands for traces: each command of one turn in so many, until the exporter takes them. What is
//! slow is taken from the slow log.
//!
//! ```text
//! Turn::new: one in N --> the turn is timed --finish--> note --> at most MOST entries --> take
//! ```
//!
//! 1. A turn that is not traced pays one comparison. Which are is told by the time at which they
//!    begin, so no thread counts.
//! 2. Entries beyond [`MOST`] are dropped, and counted.
//!
//! Not here: what is sent, and where (`pantala_admin::otlp`). Tests: at the foot;
//! `compat/metrics/otlp.py`.

use std::mem::take;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use pantala_base::rng::Rng;
use pantala_commands::{Flags, Session};

use super::logs::{Entry, Kind, Logs};
use crate::execute::finish::Ended;

/// Entries that wait for the exporter.
const MOST: usize = 4_096;

/// Sampled commands that wait to be exported as spans, and the counters of the export.
#[derive(Default)]
pub struct Telemetry {
    entries: Mutex<Vec<Entry>>,
    /// Spans that were not sent: there were too many, or nobody took them.
    pub dropped: AtomicU64,
    /// Exports that were taken,
    pub exported: AtomicU64,
    /// and those that were not.
    pub failed: AtomicU64,
}

/// Whether the turn that begins at this time is one in so many; 0: none is.
#[inline]
pub(crate) fn is_sampled(one_in: u32, now_us: u64) -> bool {
    one_in != 0 && is_drawn(one_in, now_us)
}

#[cold]
fn is_drawn(one_in: u32, now_us: u64) -> bool {
    Rng::from_seed(now_us).below(u64::from(one_in)) == 0
}

impl Telemetry {
    /// Keeps a command of a turn that is traced; those of the slow log are known anyway.
    #[cold]
    pub(crate) fn note(&self, logs: &Logs, session: &Session, ended: Ended<'_>) {
        let Ended { found, args, took_us, .. } = ended;
        let took_us = took_us.cast_signed();
        // The slow log passes over EXEC, as it has its commands.
        let is_in_log = !found.row.flags.has(Flags::SKIP_COMMANDLOG);
        if is_in_log && logs.of(Kind::Slow).wants(took_us) {
            return;
        }
        let entry = Entry::new(session, found, args, took_us);
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() < MOST {
            entries.push(entry);
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What has come since it was last asked.
    pub fn take(&self) -> Vec<Entry> {
        take(&mut *self.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_one_turn_in_so_many_is_traced() {
        let drawn = |one_in| (0..100_000).filter(|&us| is_sampled(one_in, us * 37)).count();
        assert_eq!((drawn(0), drawn(1)), (0, 100_000));
        assert!((800..1_200).contains(&drawn(100)), "{}", drawn(100));
    }
}
