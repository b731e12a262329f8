//! The walk: threads that write what no command has saved yet.
//!
//! A thread takes a job, does a portion of it, and puts it back. Values that commands wait for come
//! first, then what takes memory because it was handed over, then the partitions.

use std::sync::Arc;
use std::time::Duration;

use super::before::Saving;
use super::jobs::{HandedRecord, HandedTable, Job};
use super::output::{SnapshotOutcome, SnapshotProgress};
use super::partition_walk::PartitionWalk;
use super::parts::{Part, PartialKey};
use super::state::SnapshotState;
use super::table_walk::{Portion, go_on_with};
use super::target::{STREAMED_BYTES, SnapshotEntry, SnapshotRoom};
use crate::Keyspace;
use crate::access::plan::Busy;
use crate::access::ticket::Ticket;
use crate::key::{DbIndex, PartitionId};
use crate::partition::Partition;

/// The longest sleep of a walker between two looks.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// How long a walker with nothing else to do leaves a partition to the threads that wait for it.
const GIVEN_WAY: Duration = Duration::from_micros(200);

/// How one call of [`Snapshot::walk`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkOutcome {
    /// Call it again.
    More,
    /// Everything left needs this partition, which is busy.
    Busy(Busy),
    /// Everything left is in partitions that others wait for: call it again in a moment.
    GivesWay,
    /// The target has no room: [`Snapshot::has_room`] is called when it has.
    Full,
    /// Other threads work on what is left.
    Idle,
    /// Nothing is left.
    Done(SnapshotOutcome),
}

/// Which jobs may run with the room there is.
#[derive(Clone, Copy)]
struct Allowed {
    /// Those in the middle of a value, or that a command waits for.
    in_parts: bool,
    all: bool,
}

impl Allowed {
    fn includes(self, job: &Job) -> bool {
        let is_in_parts = match job {
            Job::Walk(walk) => walk.at.current.is_some(),
            Job::Table(table) => table.walk.current.is_some(),
            Job::Handed(handed) => handed.parts.is_some(),
            Job::Parts { .. } => true,
        };
        if is_in_parts { self.in_parts } else { self.all }
    }
}

/// What becomes of a job after a portion.
enum Next {
    /// It goes on in its turn.
    Again(Job),
    /// It goes on after some other jobs, because its partition is wanted.
    Rest(Job),
    /// It goes on when the stream is free.
    Blocked(Job),
    /// This partition is busy.
    Busy(Job, Busy),
    Ended,
    /// There was nothing to do.
    Nothing,
}

/// A snapshot that was begun. Dropping it cancels it, but [`Snapshot::walk`] still has to be called
/// until it is done.
pub struct Snapshot {
    state: Arc<SnapshotState>,
}

impl Snapshot {
    pub(crate) fn new(state: Arc<SnapshotState>) -> Snapshot {
        Snapshot { state }
    }

    /// Writes a portion of what is not saved. Several threads may call this at the same time.
    pub fn walk(&self, space: &Keyspace) -> WalkOutcome {
        let allowed = self.allowed();
        let (job, is_last_resort) = {
            let mut jobs = self.state.jobs();
            if self.state.is_done(&jobs) {
                drop(jobs);
                return self.done(space);
            }
            match jobs.next(self.state.output.has_stream(), |job| allowed.includes(job)) {
                Some(next) => {
                    jobs.in_flight += 1;
                    next
                }
                None if jobs.is_empty() => return WalkOutcome::Idle,
                None => return WalkOutcome::Full,
            }
        };
        let next = match job {
            Job::Walk(walk) => self.walk_partition(space, walk),
            Job::Parts { id, db, key } => self.write_parts(space, id, db, key),
            Job::Handed(handed) => self.write_handed(handed),
            Job::Table(table) => self.write_table(space, table),
        };
        let walked = match &next {
            Next::Busy(_, busy) if is_last_resort => WalkOutcome::Busy(*busy),
            Next::Rest(_) if is_last_resort => WalkOutcome::GivesWay,
            _ => WalkOutcome::More,
        };
        self.put_back(space, next, walked)
    }

    /// Which jobs may run with the room there is.
    fn allowed(&self) -> Allowed {
        let room = self.state.output.target_room();
        let in_parts = match self.state.output.has_stream() {
            true => self.state.output.has_room_for_parts(),
            false => room < SnapshotRoom::Overfull,
        };
        Allowed { in_parts, all: room == SnapshotRoom::Free }
    }

    fn put_back(&self, space: &Keyspace, next: Next, walked: WalkOutcome) -> WalkOutcome {
        let took_time = u32::from(!matches!(next, Next::Busy(..) | Next::Nothing));
        let is_done = self.state.settle(|jobs| {
            jobs.between = jobs.between.saturating_add(took_time);
            match next {
                Next::Again(job @ Job::Walk(_)) => jobs.walks.push_front(job),
                Next::Again(job @ Job::Parts { .. }) => jobs.urgent.push_front(job),
                Next::Again(job) => jobs.handed.push_front(job),
                Next::Rest(job) => jobs.resting.push_back(job),
                Next::Busy(job @ Job::Parts { .. }, _) => jobs.resting.push_back(job),
                Next::Busy(job, _) => jobs.later.push_back(job),
                Next::Blocked(job) => jobs.blocked.push_back(job),
                Next::Ended | Next::Nothing => {}
            }
        });
        if is_done { self.done(space) } else { walked }
    }

    /// Ends the snapshot: nothing is left.
    fn done(&self, space: &Keyspace) -> WalkOutcome {
        space.snapshot.end(&self.state, &space.asking);
        // Commands that wait for room need not wait any longer.
        self.state.output.has_room();
        WalkOutcome::Done(self.state.output.outcome())
    }

    /// The main loop of a walking thread, until the snapshot is done. Only on threads that may
    /// wait.
    pub fn work(&self, space: &Keyspace) -> SnapshotOutcome {
        self.work_and_rest(space, &mut || {})
    }

    /// Like [`Snapshot::work`]; `rest` is called after each portion, with no partition held, and
    /// may sleep.
    pub fn work_and_rest(&self, space: &Keyspace, rest: &mut dyn FnMut()) -> SnapshotOutcome {
        loop {
            let news = self.state.output.news.count();
            match self.walk(space) {
                WalkOutcome::More => rest(),
                WalkOutcome::Done(outcome) => return outcome,
                WalkOutcome::Busy(busy) => space.wait_long_for(busy),
                WalkOutcome::GivesWay => self.state.output.news.sleep(GIVEN_WAY, news),
                WalkOutcome::Full | WalkOutcome::Idle => {
                    self.state.output.news.sleep(LONGEST_SLEEP, news)
                }
            }
        }
    }

    /// To be called when [`SnapshotTarget::room`] has improved.
    ///
    /// [`SnapshotTarget::room`]: super::SnapshotTarget::room
    pub fn has_room(&self) {
        self.state.output.has_room();
    }

    /// Cancels the snapshot: nothing more is written, and the walk ends soon.
    pub fn cancel(&self) {
        self.state.output.cancel();
    }

    /// How far it is.
    pub fn progress(&self) -> SnapshotProgress {
        self.state.output.progress()
    }

    fn walk_partition(&self, space: &Keyspace, mut walk: PartitionWalk) -> Next {
        let id = walk.id;
        let Some(mut held) = space.partition(id).spin_lock() else {
            return Next::Busy(Job::Walk(walk), Busy(id));
        };
        if held.rest.saving.is_none() {
            return Next::Nothing;
        }
        debug_assert!(
            held.rest
                .saving
                .as_ref()
                .is_some_and(|saving| Arc::ptr_eq(saving.state(), &self.state)),
            "the partition belongs to this snapshot"
        );
        let (portion, tickets) = walk.go_on(space, &mut held, &self.state.output);
        let is_wanted = space.partition(id).parked_count() > 0;
        drop(held);
        wake(tickets);
        walk.settle(&self.state.output);
        match portion {
            Portion::More if is_wanted => {
                // It may pause for some time, and there may be many.
                self.state.output.flush(&mut walk.at.pending);
                Next::Rest(Job::Walk(walk))
            }
            Portion::More => Next::Again(Job::Walk(walk)),
            Portion::Blocked => Next::Blocked(Job::Walk(walk)),
            Portion::End => Next::Ended,
        }
    }

    fn write_parts(&self, space: &Keyspace, id: PartitionId, db: DbIndex, key: Box<[u8]>) -> Next {
        let Some(mut held) = space.partition(id).spin_lock() else {
            return Next::Busy(Job::Parts { id, db, key }, Busy(id));
        };
        let partition = &mut *held;
        let found = partition.databases.cut_as(db);
        let portion = match (&mut partition.rest.saving, found) {
            (Some(saving), Some(found)) => {
                let parts = (found.table_to_mark(), &mut saving.in_parts);
                go_on_with(space, parts, (db, &key), &self.state.output)
            }
            _ => None,
        };
        let mut tickets = Vec::new();
        if portion.is_none() {
            tickets = self.state.output.call(id);
            tickets.extend(partition.close_if_saved());
        }
        let is_wanted = space.partition(id).parked_count() > 0;
        drop(held);
        wake(tickets);
        match portion {
            Some(Portion::Blocked) => Next::Blocked(Job::Parts { id, db, key }),
            Some(_) if is_wanted => Next::Rest(Job::Parts { id, db, key }),
            Some(_) => Next::Again(Job::Parts { id, db, key }),
            None => Next::Ended,
        }
    }

    fn write_handed(&self, handed: HandedRecord) -> Next {
        let output = &self.state.output;
        let HandedRecord { db, record, parts } = handed;
        let bytes = record.bytes();
        let mut parts = parts.unwrap_or_else(|| {
            PartialKey::begin(output, db, &SnapshotEntry::of(&record), bytes > STREAMED_BYTES)
        });
        debug_assert!(parts.is(db, record.key()), "the parts are of this record");
        match parts.go_on(output, &record.value()) {
            Part::More => Next::Again(Job::Handed(HandedRecord { db, record, parts: Some(parts) })),
            Part::Blocked => {
                Next::Blocked(Job::Handed(HandedRecord { db, record, parts: Some(parts) }))
            }
            Part::Last => {
                drop(record);
                output.forget_handed(bytes);
                Next::Ended
            }
        }
    }

    fn write_table(&self, space: &Keyspace, mut handed: Box<HandedTable>) -> Next {
        let HandedTable { table, in_parts, walk, keys } = &mut *handed;
        let portion = walk.go_on(space, (table, in_parts), &self.state.output);
        walk.settle(&self.state.output);
        match portion {
            Portion::More => Next::Again(Job::Table(handed)),
            Portion::Blocked => Next::Blocked(Job::Table(handed)),
            Portion::End => {
                // Values that commands have begun.
                walk.current = in_parts.last().map(|one| one.key.clone());
                if walk.current.is_some() {
                    return Next::Again(Job::Table(handed));
                }
                walk.end(&self.state.output);
                self.state.output.forget_flushed(*keys);
                Next::Ended
            }
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if self.state.is_walked_to_its_end() {
            return;
        }
        self.state.output.cancel();
    }
}

fn wake(tickets: Vec<Ticket>) {
    tickets.into_iter().for_each(pantala_sync::lock::Ticket::wake);
}

impl Partition {
    /// Ends the snapshot in this partition, if all of it is saved. Returns the tickets to redeem.
    pub(crate) fn close_if_saved(&mut self) -> Vec<Ticket> {
        let saving = self.rest.saving.take_if(|saving| saving.is_done());
        saving.map_or_else(Vec::new, |saving: Box<Saving>| saving.close())
    }
}
