//! Applying the stream: by one thread, or by several where the keys allow it.
//!
//! ```text
//! batch   SET a | INCR b | SELECT 2 | SET c | ... | MULTI ... EXEC | DEL x y | SET a | ...
//!         a run: spread by partition over the runners | one after the other    | a run
//! ```
//!
//! A run consists of commands that change one key each. Other commands begin when all before them
//! have ended.
//!
//! Invariants
//! 1. Commands on a key run in the order of the stream.
//! 2. A batch is applied as a whole: the replica's positions are between batches.
//!
//! Not here: how a step runs (`run`), the other threads (`crew`). Tests: at the foot;
//! compat/replication.

mod batch;
mod crew;
mod run;
mod share;
mod step;

use std::ops::Range;
use std::sync::Arc;

use pantala_engine::lane::LINK_SLOTS;
use pantala_journal::Stamp;
use pantala_psync::link::Cutter;

use self::batch::{Batch, StepKind, StepSummary};
use self::crew::ApplyPool;
use self::run::Runner;
use self::share::Share;
use crate::Replication;

/// A shorter run is not worth a second thread: waking one takes as long as a hundred commands.
const SHORTEST_RUN: usize = 512;

/// What applies the stream of one link: its own runner, and the crew.
pub struct Applier {
    replication: Arc<Replication>,
    /// The link's own runner.
    runner: Runner,
    /// The other threads.
    crew: ApplyPool,
    /// Memory of the last batch, to be reused.
    looks: Vec<StepSummary>,
}

impl Applier {
    /// For the link on the calling thread.
    pub fn new(replication: Arc<Replication>) -> Applier {
        let count = replication.engine.settings.current().worker_count().clamp(1, LINK_SLOTS);
        Applier {
            runner: Runner::new(Arc::clone(&replication), 0),
            crew: ApplyPool::new(Arc::clone(&replication), count - 1),
            looks: Vec::new(),
            replication,
        }
    }

    /// Selects the database of the stream.
    pub fn select(&mut self, db: u32) {
        self.runner.select(db);
        self.replication.following.role.select(db);
    }

    /// The last step that was recorded here.
    pub fn last_step(&self) -> Stamp {
        self.runner.last_step().max(self.crew.last_step())
    }

    /// Whether the primary has asked for an acknowledgement since the last call.
    pub fn take_asked(&mut self) -> bool {
        self.runner.take_asked()
    }

    /// Applies the complete steps.
    pub fn apply(&mut self, cutter: &mut Cutter) {
        let looks = std::mem::take(&mut self.looks);
        let batch = Arc::new(Batch::of(&self.replication, std::mem::take(cutter), looks));
        if self.crew.is_empty() {
            self.runner.run(&batch, 0..batch.looks.len(), Share::ALL);
        } else {
            for run in runs(&batch.looks) {
                self.run_one(&batch, run);
            }
        }
        let db = self.runner.db();
        self.replication.following.role.select(db);
        // The crew has released it.
        if let Some(batch) = Arc::into_inner(batch) {
            (*cutter, self.looks) = (batch.cutter, batch.looks);
        }
    }

    fn run_one(&mut self, batch: &Arc<Batch>, run: Range<usize>) {
        let is_long = run.len() >= SHORTEST_RUN && batch.looks[run.start].kind != StepKind::Alone;
        if !is_long || !self.crew.begin(batch, &run, self.runner.db()) {
            return self.runner.run(batch, run, Share::ALL);
        }
        self.runner.run(batch, run, self.crew.share(0));
        self.crew.end();
    }
}

/// Ranges of steps that touch one key each, and the ranges between them.
fn runs(looks: &[StepSummary]) -> impl Iterator<Item = Range<usize>> {
    let is_alone = |look: &StepSummary| look.kind == StepKind::Alone;
    let mut begin = 0;
    looks.chunk_by(move |one, next| is_alone(one) == is_alone(next)).map(move |chunk| {
        let run = begin..begin + chunk.len();
        debug_assert!(!run.is_empty() && run.end <= looks.len(), "runs follow each other");
        begin = run.end;
        run
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_alone_parts_the_runs() {
        let kinds = [
            StepKind::OneKey,
            StepKind::Selects(2),
            StepKind::Grouped,
            StepKind::Alone,
            StepKind::Alone,
            StepKind::OneKey,
        ];
        let looks = kinds.map(|kind| StepSummary { kind, found: None, hash: 0 });
        assert_eq!(runs(&looks).collect::<Vec<_>>(), [0..3, 3..5, 5..6]);
        assert_eq!(runs(&[]).count(), 0);
    }
}
