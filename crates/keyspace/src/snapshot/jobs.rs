//! What is to be done, and what of it comes first.

use std::collections::VecDeque;

use pantala_table::{OwnedRecord, Table};
use pantala_values::Object;

use super::partition_walk::PartitionWalk;
use super::parts::InParts;
use super::table_walk::TableWalk;
use crate::key::{DbIndex, PARTITION_COUNT, PartitionId};

/// So many other jobs come between two portions of a partition that somebody waits for: in that
/// time a worker that was called has come by.
const REST: u32 = 4;

/// What is to be done.
pub(crate) enum Job {
    /// A partition from its beginning to its end.
    Walk(PartitionWalk),
    /// A value of a partition that is begun.
    Parts { id: PartitionId, db: DbIndex, key: Box<[u8]> },
    /// A record that was handed over.
    Handed(Handed),
    /// The table of a flushed database.
    Table(Box<HandedTable>),
}

/// A record that was handed over.
pub(crate) struct Handed {
    pub db: DbIndex,
    pub record: OwnedRecord<Object>,
    /// It was begun before.
    pub parts: Option<InParts>,
}

/// A table that was handed over.
pub(crate) struct HandedTable {
    pub table: Table<Object>,
    pub in_parts: Vec<InParts>,
    pub walk: TableWalk,
    /// How many it had then.
    pub keys: u64,
}

impl Job {
    pub fn table(db: DbIndex, table: Table<Object>, in_parts: Vec<InParts>) -> Job {
        let (keys, walk) = (table.len() as u64, TableWalk::new(db));
        Job::Table(Box::new(HandedTable { table, in_parts, walk, keys }))
    }

    /// How many keys of a flushed database it has.
    pub fn flushed_keys(&self) -> u64 {
        if let Job::Table(table) = self { table.keys } else { 0 }
    }

    /// What it takes while it waits. A table takes what it took before.
    pub fn handed_bytes(&self) -> usize {
        match self {
            Job::Handed(handed) => handed.record.bytes(),
            Job::Table(_) | Job::Walk(_) | Job::Parts { .. } => 0,
        }
    }
}

/// What is to be done, the first before the others.
#[derive(Default)]
pub(crate) struct Jobs {
    /// Values that somebody waits for.
    pub urgent: VecDeque<Job>,
    /// What was handed over takes memory.
    pub handed: VecDeque<Job>,
    pub walks: VecDeque<Job>,
    /// The next partition to begin with.
    pub next: u16,
    /// Of partitions that somebody waits for, or values that somebody waits for in partitions that
    /// are held: others come in between.
    pub resting: VecDeque<Job>,
    /// So many have come in between.
    pub between: u32,
    /// What another value's stream holds up.
    pub blocked: VecDeque<Job>,
    /// Partitions that somebody holds.
    pub later: VecDeque<Job>,
    pub in_flight: usize,
    /// Counts what whoever sleeps should know of.
    pub news: u64,
}

impl Jobs {
    /// The next one of those that may run, and whether there was no better.
    pub fn next(
        &mut self,
        has_stream: bool,
        may_run: impl Fn(&Job) -> bool,
    ) -> Option<(Job, bool)> {
        if !has_stream && let Some(job) = pick(&mut self.blocked, &may_run) {
            return Some((job, false));
        }
        if self.between >= REST
            && let Some(job) = pick(&mut self.resting, &may_run)
        {
            self.between = 0;
            return Some((job, false));
        }
        let Jobs { urgent, handed, walks, .. } = self;
        let found = [urgent, handed, walks].into_iter().find_map(|queue| pick(queue, &may_run));
        if let Some(job) = found.or_else(|| self.first_of_next(&may_run)) {
            return Some((job, false));
        }
        let rest = [&mut self.resting, &mut self.later];
        rest.into_iter().find_map(|queue| pick(queue, &may_run)).map(|job| (job, true))
    }

    fn first_of_next(&mut self, may_run: &impl Fn(&Job) -> bool) -> Option<Job> {
        let first = Job::Walk(PartitionWalk::new(PartitionId(self.next)));
        let is_there = usize::from(self.next) < PARTITION_COUNT && may_run(&first);
        is_there.then(|| {
            self.next += 1;
            first
        })
    }

    /// Whether all that there is is in the hands of others.
    pub fn is_empty(&self) -> bool {
        let Jobs { urgent, handed, walks, resting, blocked, later, .. } = self;
        let queues = [urgent, handed, walks, resting, blocked, later];
        queues.iter().all(|queue| queue.is_empty()) && usize::from(self.next) >= PARTITION_COUNT
    }
}

/// The first that may run.
fn pick(queue: &mut VecDeque<Job>, may_run: &impl Fn(&Job) -> bool) -> Option<Job> {
    let at = queue.iter().position(may_run)?;
    queue.remove(at)
}
