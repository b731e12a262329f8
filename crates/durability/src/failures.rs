//! Commands that have failed here although another server had accepted them: of a primary's stream,
//! and of append-only files. Their effect is missing, so they are reported prominently.
//!
//! Tests: the server's `tests/replicas.rs`, compat/replication.

use std::sync::atomic::{AtomicU64, Ordering};

use pantala_base::clock::monotonic_us;
use pantala_persistence::aof::replay::ReplayOutcome;
use parking_lot::Mutex;

/// How many failures are logged one by one,
const TOLD: u64 = 10;
/// and the interval of log lines after these, in microseconds.
const TOLD_EACH_US: u64 = 1_000_000;
/// Longer texts are cut.
const MOST_BYTES: usize = 512;

/// The commands of other servers that have failed here: how many, and the last one.
#[derive(Debug, Default)]
pub struct Failures {
    count: AtomicU64,
    told_us: AtomicU64,
    last: Mutex<String>,
}

impl Failures {
    /// How many commands have failed since the start.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The last failure: command and reply. Empty if there was none.
    pub fn last(&self) -> String {
        self.last.lock().clone()
    }

    fn set_last(&self, text: String) {
        *self.last.lock() = text;
    }

    /// Notes a failed command of the stream.
    #[cold]
    pub fn note(&self, args: &[&[u8]], answer: &[u8]) {
        let name = args.first().map(|name| shown(&name[..name.len().min(64)])).unwrap_or_default();
        let answer = shown(answer.strip_prefix(b"-").unwrap_or(answer));
        let (count, now_us) = (self.count.fetch_add(1, Ordering::Relaxed), monotonic_us());
        let told_us = self.told_us.load(Ordering::Relaxed);
        if count < TOLD || now_us.saturating_sub(told_us) >= TOLD_EACH_US {
            self.told_us.store(now_us, Ordering::Relaxed);
            tracing::error!(
                failures = count + 1,
                "== CRITICAL == This replica is sending an error to its primary: '{answer}' after \
                 processing the command '{name}'"
            );
        }
        self.set_last(format!("{name}: {answer}"));
    }

    /// Notes the failed commands of an append-only file that was loaded.
    pub fn note_file(&self, outcome: &ReplayOutcome) {
        let (Some(first), Some(last)) = (&outcome.first_error, &outcome.last_error) else { return };
        self.count.fetch_add(outcome.errors, Ordering::Relaxed);
        self.set_last(shown(last.as_bytes()));
        tracing::error!(
            failures = outcome.errors,
            "== CRITICAL == This server is sending an error to its AOF-loading-client. The first \
             one: {first}. The last one: {last}"
        );
    }
}

fn shown(text: &[u8]) -> String {
    text[..text.len().min(MOST_BYTES)].escape_ascii().to_string()
}
