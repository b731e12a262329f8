//! The stream applied: by one thread, or by several where the keys allow it.
//!
//! ```text
//! batch   SET a | INCR b | SELECT 2 | SET c | ... | MULTI ... EXEC | DEL x y | SET a | ...
//!         a run: spread by partition over the runners | one after the other    | a run
//! ```
//!
//! A run is commands that change one key each. The others see the end of all before them.
//!
//! Invariants
//! 1. What is done to a key is done in the order of the stream.
//! 2. When a batch has been applied all of it was: positions lie between batches.
//!
//! Not here: how a step runs (`run`). Tests: at the foot; compat/replication.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;

use pantala_base::number::parse_i64;
use pantala_commands::{Databases, Flags, key_positions, options::is_word};
use pantala_engine::lane::LINK_SLOTS;
use pantala_journal::Stamp;
use pantala_keyspace::PartitionId;
use pantala_replication::link::{Cutter, Step};

use super::run::Runner;
use crate::shared::Shared;

/// A shorter run is not worth a second thread.
const SHORTEST_RUN: usize = 512;

/// Commands that may be about more than their key, or are to be alone.
const NOT_SPREAD: Flags = Flags::WHOLE
    .and(Flags::OUTSIDE)
    .and(Flags::OPERATOR)
    .and(Flags::SCRIPT)
    .and(Flags::TRANSACTION)
    .and(Flags::OTHER_DB)
    .and(Flags::MAY_REPLICATE);

/// See the module.
pub struct Applier {
    shared: Arc<Shared>,
    /// The first one is the link's own.
    runners: Vec<Runner>,
}

/// What a step is for its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It is about one key, of this partition.
    Of(usize),
    /// It selects this database.
    Selects(u32),
    /// It runs when all before it have, and before all after it.
    Alone,
}

impl Applier {
    /// For the link, whose thread it works on.
    pub fn new(shared: Arc<Shared>) -> Applier {
        let count = shared.engine.settings.current().worker_count().clamp(1, LINK_SLOTS);
        let runners = (0..count).map(|number| Runner::new(Arc::clone(&shared), number));
        Applier { runners: runners.collect(), shared }
    }

    /// The stream is in this database now.
    pub fn select(&mut self, db: u32) {
        self.runners.iter_mut().for_each(|runner| runner.select(db));
        self.shared.replication.following.db.store(db, Ordering::Release);
    }

    /// The last step that was recorded here.
    pub fn last_step(&self) -> Stamp {
        self.runners.iter().map(Runner::last_step).max().unwrap_or_default()
    }

    /// Whether the primary has asked how far this is, since the last time.
    pub fn take_asked(&mut self) -> bool {
        // All of them: the question is answered once.
        self.runners.iter_mut().filter_map(|runner| runner.take_asked().then_some(())).count() > 0
    }

    /// Runs the steps.
    pub fn apply(&mut self, cutter: &Cutter) {
        let steps: Vec<Step<'_>> = cutter.steps().collect();
        if steps.len() < SHORTEST_RUN || self.runners.len() < 2 {
            self.run_alone(&steps, 0..steps.len());
        } else {
            self.spread(&steps);
        }
        let db = self.runners[0].db();
        self.shared.replication.following.db.store(db, Ordering::Release);
    }

    fn run_alone(&mut self, steps: &[Step<'_>], range: Range<usize>) {
        self.runners[0].run_all(steps[range].iter().cloned());
    }

    fn spread(&mut self, steps: &[Step<'_>]) {
        let places: Vec<Place> = steps.iter().map(|step| place(&self.shared, step)).collect();
        for run in runs(&places) {
            let is_long = run.len() >= SHORTEST_RUN && places[run.start] != Place::Alone;
            match is_long {
                true => self.run_together(steps, &places, run),
                false => self.run_alone(steps, run),
            }
        }
    }

    /// A run, by all runners.
    fn run_together(&mut self, steps: &[Step<'_>], places: &[Place], run: Range<usize>) {
        let count = self.runners.len();
        let mut db = self.runners[0].db();
        let mut shares: Vec<Vec<(u32, usize)>> = vec![Vec::new(); count];
        for at in run {
            match places[at] {
                Place::Of(partition) => shares[partition % count].push((db, at)),
                Place::Selects(selected) => db = selected,
                Place::Alone => {}
            }
        }
        let begun: Vec<AtomicBool> = shares.iter().map(|_| AtomicBool::new(false)).collect();
        std::thread::scope(|scope| {
            let mut all = self.runners.iter_mut().zip(shares.iter().zip(&begun));
            let own = all.next();
            for (runner, (share, begun)) in all.filter(|(_, (share, _))| !share.is_empty()) {
                let life = move || {
                    begun.store(true, Ordering::Relaxed);
                    run_share(runner, steps, share);
                    pantala_memory::release_seat();
                };
                // Where the system has no thread the share is run below.
                let _spawned =
                    Builder::new().name("replica-apply".into()).spawn_scoped(scope, life);
            }
            if let Some((runner, (share, begun))) = own {
                begun.store(true, Ordering::Relaxed);
                run_share(runner, steps, share);
            }
        });
        for (runner, (share, begun)) in self.runners.iter_mut().zip(shares.iter().zip(&begun)) {
            if !begun.load(Ordering::Relaxed) {
                run_share(runner, steps, share);
            }
        }
        self.runners[0].select(db);
    }
}

fn run_share(runner: &mut Runner, steps: &[Step<'_>], share: &[(u32, usize)]) {
    for of_one_db in share.chunk_by(|one, next| one.0 == next.0) {
        runner.select(of_one_db[0].0);
        runner.run_all(of_one_db.iter().map(|(_, at)| steps[*at].clone()));
    }
}

fn place(shared: &Shared, step: &Step<'_>) -> Place {
    if step.is_transaction() {
        return Place::Alone;
    }
    let Some(args) = step.commands().next() else { return Place::Alone };
    let args: smallvec::SmallVec<[&[u8]; 8]> = args.collect();
    let engine = &shared.engine;
    let found = engine.registry.resolve_recorded(&args);
    let Some(found) = found.filter(|found| found.row.accepts(args.len())) else {
        return Place::Alone;
    };
    if matches!(found.row.databases, Databases::Selects) {
        let db = args.get(1).filter(|_| is_word(args[0], "SELECT"));
        let db = db.and_then(|text| parse_i64(text)).and_then(|db| u32::try_from(db).ok());
        let db = db.filter(|db| *db < engine.space.database_count());
        return db.map_or(Place::Alone, Place::Selects);
    }
    let flags = found.row.flags;
    if !flags.has(Flags::WRITE) || flags.has(NOT_SPREAD) {
        return Place::Alone;
    }
    match key_positions(found.row, &args).as_deref() {
        Some([position]) => Place::Of(PartitionId::of(engine.space.hash(args[*position])).index()),
        _ => Place::Alone,
    }
}

/// Ranges of steps that are about one key each, and those between them.
fn runs(places: &[Place]) -> impl Iterator<Item = Range<usize>> {
    let is_alone = |place: &Place| *place == Place::Alone;
    let mut begin = 0;
    places.chunk_by(move |one, next| is_alone(one) == is_alone(next)).map(move |chunk| {
        let run = begin..begin + chunk.len();
        begin = run.end;
        run
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_alone_parts_the_runs() {
        let places = [
            Place::Of(1),
            Place::Selects(2),
            Place::Of(3),
            Place::Alone,
            Place::Alone,
            Place::Of(1),
        ];
        assert_eq!(runs(&places).collect::<Vec<_>>(), [0..3, 3..5, 5..6]);
        assert_eq!(runs(&[]).count(), 0);
    }
}
