//! Commands for traces: all commands of one turn in N, until the exporter takes them. Slow commands
//! are taken from the slow log instead.
//!
//! ```text
//! Turn::new: one in N --> the turn is timed --finish--> note --> at most MOST entries --> take
//! ```
//!
//! 1. A turn that is not traced pays one comparison. Its start time decides whether it is traced,
//!    so no thread counts.
//! 2. Entries beyond [`MOST`] are dropped, and counted.
//!
//! Not here: what is sent, and where (`pantala_admin::otlp`). Tests: at the foot;
//! `compat/metrics/otlp.py`.

use std::mem::take;
use std::sync::atomic::{AtomicU64, Ordering};

use pantala_base::rng::Rng;
use pantala_commands::{CommandRef, Flags, Session};
use parking_lot::Mutex;

use super::logs::{Entry, Kind, Logs};

/// The most entries that wait for the exporter.
const MOST: usize = 4_096;

/// A command that has run, for counts and logs.
#[derive(Clone, Copy)]
pub struct FinishedCommand<'a> {
    /// The row.
    pub found: CommandRef,
    /// The arguments, the name first.
    pub args: &'a [&'a [u8]],
    /// Its duration in microseconds.
    pub took_us: u64,
    /// The size of its reply in bytes.
    pub reply_bytes: usize,
}

/// Sampled commands that wait to be exported as spans, and the counters of the export.
#[derive(Default)]
pub struct Telemetry {
    entries: Mutex<Vec<Entry>>,
    /// Spans that were not sent: there were too many, or the collector did not take them.
    pub dropped: AtomicU64,
    /// Exports that were accepted,
    pub exported: AtomicU64,
    /// and those that failed.
    pub failed: AtomicU64,
}

/// Whether the turn that begins at this time is traced, as one in `one_in`; 0: none is.
#[inline]
pub(crate) fn is_sampled(one_in: u32, now_us: u64) -> bool {
    one_in != 0 && is_drawn(one_in, now_us)
}

#[cold]
fn is_drawn(one_in: u32, now_us: u64) -> bool {
    Rng::from_seed(now_us).below(u64::from(one_in)) == 0
}

impl Telemetry {
    /// Keeps a command of a traced turn; those in the slow log are left out.
    #[cold]
    pub(crate) fn note(&self, logs: &Logs, session: &Session, ended: FinishedCommand<'_>) {
        let FinishedCommand { found, args, took_us, .. } = ended;
        let took_us = took_us.cast_signed();
        // The slow log leaves EXEC out, as it has its commands.
        let is_in_log = !found.row.flags.intersects(Flags::SKIP_COMMANDLOG);
        if is_in_log && logs.of(Kind::Slow).wants(took_us) {
            return;
        }
        let entry = Entry::new(session, found, args, took_us);
        let mut entries = self.entries.lock();
        if entries.len() < MOST {
            entries.push(entry);
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes all waiting entries.
    pub fn take(&self) -> Vec<Entry> {
        take(&mut *self.entries.lock())
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
