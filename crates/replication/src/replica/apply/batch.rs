//! A batch: steps of the stream that are applied together, with what is known of each.
//!
//! Tests: those of `apply`.

use pantala_base::number::parse_i64;
use pantala_commands::{CommandRef, Databases, Flags, key_positions, meant, options::is_word};
use pantala_keyspace::PartitionId;
use pantala_psync::link::{CutStep, Cutter};
use smallvec::SmallVec;

use crate::Replication;

/// Flags of commands that may touch more than their key, or have to run alone.
const NOT_SPREAD: Flags = Flags::WHOLE
    .union(Flags::OUTSIDE)
    .union(Flags::OPERATOR)
    .union(Flags::SCRIPT)
    .union(Flags::TRANSACTION)
    .union(Flags::OTHER_DB)
    .union(Flags::ADMIN)
    .union(Flags::MAY_REPLICATE);

/// Flags of commands that run in no group, because they may take long.
const NOT_GROUPED: Flags = Flags::LANE.union(Flags::BLOCKING);

/// A command's arguments.
pub type Args<'c> = SmallVec<[&'c [u8]; 8]>;

/// Steps of the stream that are applied together, and what was found out of each.
pub struct Batch {
    /// The steps, of which those that are complete belong to the batch.
    pub cutter: Cutter,
    /// What was found out of each step.
    pub looks: Vec<StepSummary>,
}

/// What was found out of a step.
#[derive(Clone, Copy, Debug)]
pub struct StepSummary {
    /// How it may run beside its neighbours.
    pub kind: StepKind,
    /// The command; `None` for a transaction or an unknown command.
    pub found: Option<CommandRef>,
    /// The hash of its only key.
    pub hash: u64,
}

/// How a step may run beside its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// It touches one key, and runs while the partitions of others are held.
    Grouped,
    /// It touches one key, and runs with nothing else held.
    OneKey,
    /// It selects this database.
    Selects(u32),
    /// It runs after all before it, and before all after it.
    Alone,
}

impl Batch {
    /// The complete steps of a cutter; `looks` is reused memory.
    pub fn of(replication: &Replication, cutter: Cutter, mut looks: Vec<StepSummary>) -> Batch {
        looks.clear();
        looks.extend(cutter.steps().map(|step| look(replication, step)));
        debug_assert_eq!(looks.len(), cutter.steps().len(), "each step was looked at");
        Batch { cutter, looks }
    }

    /// The step with this number.
    pub fn step(&self, number: usize) -> CutStep<'_> {
        self.cutter.step(number)
    }

    /// The arguments of a step that is one command.
    pub fn args(&self, number: usize) -> Args<'_> {
        self.step(number).commands().next().map(args_of).unwrap_or_default()
    }
}

impl StepSummary {
    /// The partition of its only key.
    pub fn partition(&self) -> usize {
        PartitionId::of(self.hash).index()
    }
}

/// The arguments of the command that the recorded words mean.
pub fn args_of<'c>(words: impl Iterator<Item = &'c [u8]>) -> Args<'c> {
    let mut args: Args<'c> = words.collect();
    let aside = args.len() - meant(&args).len();
    if aside > 0 {
        args.drain(..aside);
    }
    args
}

fn look(replication: &Replication, step: CutStep<'_>) -> StepSummary {
    let alone = StepSummary { kind: StepKind::Alone, found: None, hash: 0 };
    if step.is_transaction() {
        return alone;
    }
    let Some(args) = step.commands().next().map(args_of) else { return alone };
    let engine = &replication.engine;
    let found = engine.registry.resolve_recorded(&args);
    let Some(found) = found.filter(|found| found.row.accepts(args.len())) else {
        return alone;
    };
    let alone = StepSummary { found: Some(found), ..alone };
    let flags = found.row.flags;
    if flags.intersects(Flags::WRITE) && !flags.intersects(NOT_SPREAD) {
        let positions = key_positions(found.row, &args).unwrap_or_default();
        let [position] = positions[..] else { return alone };
        let is_grouped = found.row.only_key != 0 && !flags.intersects(NOT_GROUPED);
        let kind = if is_grouped { StepKind::Grouped } else { StepKind::OneKey };
        return StepSummary { kind, hash: engine.space.hash(args[position]), ..alone };
    }
    if matches!(found.row.databases, Databases::Selects) {
        let db = args.get(1).filter(|_| is_word(args[0], "SELECT"));
        let db = db.and_then(|text| parse_i64(text)).and_then(|db| u32::try_from(db).ok());
        let db = db.filter(|db| *db < engine.space.database_count());
        return db.map_or(alone, |db| StepSummary { kind: StepKind::Selects(db), ..alone });
    }
    alone
}
