//! The last runs of snapshots and of rewrites of the append-only file: why each began, how long it
//! took, and how it ended.
//!
//! ```text
//! save:    begin (saves) ------------------------------------------------> note
//! rewrite: begin_rewrite --> note_base, or note_failure (any thread) --> end_rewrite
//! ```
//!
//! 1. The last [`MOST`] runs are kept, and not beyond a restart.
//! 2. At most one rewrite is open. What is said of a rewrite while none is open is dropped: the
//!    first base of a new file is none.
//!
//! Not here: who notes them (`pantala_durability`), the page (`admin/api/runs.rs`). Tests: at the
//! foot; the server's `tests/http`.

use std::collections::VecDeque;
use std::fmt::Display;
use std::path::Path;

use parking_lot::Mutex;

/// How many runs are kept.
const MOST: usize = 20;

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunKind {
    /// A snapshot.
    Snapshot,
    /// A base of the append-only file.
    Rewrite,
}

/// A run that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// What was written.
    pub kind: RunKind,
    /// Why it began: a command, or a save point that was reached.
    pub why: String,
    /// When it began (Unix, milliseconds).
    pub began_ms: i64,
    /// How long it took, in milliseconds, with the wait for others.
    pub took_ms: u64,
    /// The keys that were written,
    pub keys: u64,
    /// and the bytes of the file; 0 if there is none.
    pub bytes: u64,
    /// The name of the file; empty if it was not known yet.
    pub file: String,
    /// Why there is no file; `None`: all is well.
    pub error: Option<String>,
}

impl Run {
    /// A run of this kind that begins now.
    pub fn begin(kind: RunKind, why: impl Into<String>, now_ms: i64) -> Run {
        Run {
            kind,
            why: why.into(),
            began_ms: now_ms,
            took_ms: 0,
            keys: 0,
            bytes: 0,
            file: String::new(),
            error: None,
        }
    }
}

/// The last runs.
#[derive(Default)]
pub struct Runs {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The oldest first.
    ended: VecDeque<Run>,
    /// The rewrite that is under way, and when it began (monotonic, microseconds).
    rewrite: Option<(Run, u64)>,
}

impl State {
    fn note(&mut self, run: Run) {
        if self.ended.len() == MOST {
            self.ended.pop_front();
        }
        self.ended.push_back(run);
    }
}

impl Runs {
    /// Keeps a run that has ended.
    pub fn note(&self, run: Run) {
        self.state.lock().note(run);
    }

    /// Begins the run of a rewrite, at this time (Unix, milliseconds; monotonic, microseconds).
    pub fn begin_rewrite(&self, why: &str, (now_ms, now_us): (i64, u64)) {
        let run = Run::begin(RunKind::Rewrite, why, now_ms);
        self.state.lock().rewrite = Some((run, now_us));
    }

    /// Notes the base that the rewrite has written.
    pub fn note_base(&self, path: &Path, bytes: u64, keys: u64) {
        if let Some((run, _)) = &mut self.state.lock().rewrite {
            run.file = file_name(path);
            (run.bytes, run.keys) = (bytes, keys);
        }
    }

    /// Notes why the rewrite has failed.
    pub fn note_failure(&self, why: &dyn Display) {
        if let Some((run, _)) = &mut self.state.lock().rewrite {
            run.error = Some(why.to_string());
        }
    }

    /// Ends the rewrite's run.
    pub fn end_rewrite(&self, is_good: bool, now_us: u64) {
        let mut state = self.state.lock();
        let Some((mut run, began_us)) = state.rewrite.take() else { return };
        run.took_ms = now_us.saturating_sub(began_us) / 1000;
        if !is_good {
            run.error.get_or_insert_with(|| "it was called off".into());
        }
        state.note(run);
    }

    /// The last runs, the newest first.
    pub fn last(&self) -> Vec<Run> {
        self.state.lock().ended.iter().rev().cloned().collect()
    }
}

/// The last part of a path.
pub fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_are_kept_and_the_newest_is_first() {
        let runs = Runs::default();
        for number in 0..MOST as i64 + 5 {
            runs.note(Run::begin(RunKind::Snapshot, "SAVE", number));
        }
        let began: Vec<i64> = runs.last().iter().map(|run| run.began_ms).collect();
        assert_eq!(began, (5..MOST as i64 + 5).rev().collect::<Vec<_>>());
    }

    #[test]
    fn a_rewrite_is_told_in_pieces() {
        let runs = Runs::default();
        // The first base of a file is no rewrite.
        runs.note_base(Path::new("dir/first"), 1, 1);
        runs.end_rewrite(true, 1);
        assert_eq!(runs.last(), []);
        runs.begin_rewrite("BGREWRITEAOF", (7_000, 1_000));
        runs.note_base(Path::new("dir/base.2.rdb"), 99, 3);
        runs.end_rewrite(true, 4_500);
        let good = Run {
            took_ms: 3,
            keys: 3,
            bytes: 99,
            file: "base.2.rdb".into(),
            ..Run::begin(RunKind::Rewrite, "BGREWRITEAOF", 7_000)
        };
        assert_eq!(runs.last(), [good]);
    }

    #[test]
    fn a_rewrite_that_fails_says_why() {
        let runs = Runs::default();
        runs.begin_rewrite("it grew", (1, 0));
        runs.note_failure(&"No space left on device");
        runs.end_rewrite(false, 0);
        runs.begin_rewrite("it grew", (2, 0));
        runs.end_rewrite(false, 0);
        let errors: Vec<Option<String>> = runs.last().into_iter().map(|run| run.error).collect();
        assert_eq!(
            errors,
            [Some("it was called off".into()), Some("No space left on device".into())]
        );
    }
}
