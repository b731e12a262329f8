//! The jobs of a snapshot, and their order.

use std::collections::VecDeque;

use pantala_table::{OwnedRecord, Table};
use pantala_values::Object;

use super::partition_walk::PartitionWalk;
use super::parts::PartialKey;
use super::table_walk::TableWalk;
use crate::key::{DbIndex, PARTITION_COUNT, PartitionId};

/// How many other jobs come between two portions of a partition that others wait for: long enough
/// for a woken worker to come.
const REST: u32 = 4;

/// One job.
pub(crate) enum Job {
    /// The walk through a partition.
    Walk(PartitionWalk),
    /// A value in parts, in a partition.
    Parts { id: PartitionId, db: DbIndex, key: Box<[u8]> },
    /// A record that was handed over.
    Handed(HandedRecord),
    /// The table of a flushed database.
    Table(Box<HandedTable>),
}

/// A record that was handed over.
pub(crate) struct HandedRecord {
    pub db: DbIndex,
    pub record: OwnedRecord<Object>,
    /// The parts, if it was begun before.
    pub parts: Option<PartialKey>,
}

/// A table that was handed over.
pub(crate) struct HandedTable {
    pub table: Table<Object>,
    pub in_parts: Vec<PartialKey>,
    pub walk: TableWalk,
    /// How many keys it had then.
    pub keys: u64,
}

impl Job {
    pub fn table(db: DbIndex, table: Table<Object>, in_parts: Vec<PartialKey>) -> Job {
        let (keys, walk) = (table.len() as u64, TableWalk::new(db));
        Job::Table(Box::new(HandedTable { table, in_parts, walk, keys }))
    }

    /// How many keys of a flushed database it holds.
    pub fn flushed_keys(&self) -> u64 {
        if let Job::Table(table) = self { table.keys } else { 0 }
    }

    /// The bytes that it takes while it waits; for a table 0, as it took them before.
    pub fn handed_bytes(&self) -> usize {
        match self {
            Job::Handed(handed) => handed.record.bytes(),
            Job::Table(_) | Job::Walk(_) | Job::Parts { .. } => 0,
        }
    }
}

/// The queues of jobs, in order of precedence.
#[derive(Default)]
pub(crate) struct Jobs {
    /// Values that a command waits for.
    pub urgent: VecDeque<Job>,
    /// Records and tables that were handed over: they take memory.
    pub handed: VecDeque<Job>,
    pub walks: VecDeque<Job>,
    /// The next partition to begin with.
    pub next: u16,
    /// Jobs of partitions that others wait for, and urgent values of busy partitions: other jobs
    /// come in between.
    pub resting: VecDeque<Job>,
    /// How many other jobs have come in between.
    pub between: u32,
    /// Jobs that wait for the stream.
    pub blocked: VecDeque<Job>,
    /// Jobs of busy partitions.
    pub later: VecDeque<Job>,
    pub in_flight: usize,
}

impl Jobs {
    /// The next job that may run, and whether there was no better one.
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

    /// Whether no job is in a queue.
    pub fn is_empty(&self) -> bool {
        let Jobs { urgent, handed, walks, resting, blocked, later, .. } = self;
        let queues = [urgent, handed, walks, resting, blocked, later];
        queues.iter().all(|queue| queue.is_empty()) && usize::from(self.next) >= PARTITION_COUNT
    }
}

/// The first job that may run.
fn pick(queue: &mut VecDeque<Job>, may_run: &impl Fn(&Job) -> bool) -> Option<Job> {
    let at = queue.iter().position(may_run)?;
    queue.remove(at)
}
