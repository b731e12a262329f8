//! The walk: threads that write what nobody has changed.
//!
//! A thread takes a job, does a portion of it, and puts it back. What somebody waits for comes
//! first, then what takes memory because it was handed over, then the partitions.

use std::mem::replace;
use std::sync::Arc;
use std::time::Duration;

use pantala_table::{Cursor, OwnedRecord, Place, Table};
use pantala_values::Object;
use smallvec::SmallVec;

use super::before::{Saving, most_at_once};
use super::parts::{InParts, Part};
use super::shared::{Outcome, Shared, SnapshotProgress};
use super::{
    PIECE_BYTES, PORTION_BYTES, PORTION_RECORDS, Pending, Room, SMALL_BYTES, STREAMED_BYTES,
    SnapshotEntry,
};
use crate::Keyspace;
use crate::key::{DbIndex, PartitionId};
use crate::partition::Partition;
use crate::ticket::Ticket;
use crate::walk::Busy;

/// Walkers look for news at least so often.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// A walker that has nothing else to do leaves a partition for so long to who waits for it.
const GIVEN_WAY: Duration = Duration::from_micros(200);

/// A portion of a snapshot that is over only marks records, so many at a time.
const MARKED_RECORDS: usize = 4096;

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
    table: Table<Object>,
    in_parts: Vec<InParts>,
    walk: TableWalk,
}

impl Job {
    pub fn table(db: DbIndex, table: Table<Object>, in_parts: Vec<InParts>) -> Job {
        Job::Table(Box::new(HandedTable { table, in_parts, walk: TableWalk::new(db) }))
    }

    /// What it takes while it waits. A table takes what it took before.
    pub fn handed_bytes(&self) -> usize {
        match self {
            Job::Handed(handed) => handed.record.bytes(),
            Job::Table(_) | Job::Walk(_) | Job::Parts { .. } => 0,
        }
    }
}

/// A walk through the tables of one partition.
pub(crate) struct PartitionWalk {
    id: PartitionId,
    at: TableWalk,
    /// The table before this one, with what it has still to write.
    ended: Option<TableWalk>,
}

impl PartitionWalk {
    pub fn new(id: PartitionId) -> Self {
        PartitionWalk { id, at: TableWalk::new(DbIndex(0)), ended: None }
    }

    /// Writes what can be written with the partition free.
    fn settle(&mut self, shared: &Shared) {
        if let Some(mut ended) = self.ended.take() {
            ended.end(shared);
        }
        self.at.settle(shared);
    }
}

/// A walk through one table.
pub(crate) struct TableWalk {
    cursor: Cursor,
    /// The value that is written in parts at the moment.
    current: Option<Box<[u8]>>,
    /// Strings that were copied, because writing them takes longer.
    copied: Vec<OwnedRecord<Object>>,
    pending: Pending,
}

/// How a portion ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Portion {
    More,
    /// Another value has the stream.
    Blocked,
    /// The table's end.
    End,
}

impl TableWalk {
    fn new(db: DbIndex) -> Self {
        let (cursor, pending) = (Cursor::START, Pending::new(db));
        TableWalk { cursor, current: None, copied: Vec::new(), pending }
    }

    /// Writes what was copied.
    fn settle(&mut self, shared: &Shared) {
        for record in self.copied.drain(..) {
            if !shared.is_over() {
                shared.write(&SnapshotEntry::of(&record), &mut self.pending);
            }
        }
        if self.pending.bytes.len() >= PIECE_BYTES {
            shared.flush(&mut self.pending);
        }
    }

    /// Hands over all that it has.
    fn end(&mut self, shared: &Shared) {
        self.settle(shared);
        shared.flush(&mut self.pending);
    }

    /// Writes or copies some of what is not saved; [`TableWalk::settle`] is called after.
    fn go_on(
        &mut self,
        space: &Keyspace,
        (table, in_parts): (&mut Table<Object>, &mut Vec<InParts>),
        shared: &Shared,
    ) -> Portion {
        if let Some(key) = self.current.take() {
            let portion = go_on_with(space, (table, in_parts), (self.pending.db, &key), shared);
            if let Some(portion) = portion {
                self.current = Some(key);
                return portion;
            }
        }
        if shared.is_over() {
            return self.mark(table);
        }
        let (mut bytes, mut looked) = (0, 0);
        while !self.cursor.is_end() {
            let mut found: SmallVec<[Place; 32]> = SmallVec::new();
            let next = table.scan(self.cursor, &mut |place| {
                looked += 1;
                if !table.is_saved(place) {
                    found.push(place);
                }
            });
            for place in found {
                match self.save(table, place, in_parts, shared) {
                    Some(saved) => bytes += saved,
                    None => return Portion::More,
                }
            }
            self.cursor = next;
            if bytes >= PORTION_BYTES || looked >= PORTION_RECORDS {
                break;
            }
        }
        if self.cursor.is_end() { Portion::End } else { Portion::More }
    }

    /// Writes or copies a record, and says what it takes; or begins to write it: `None`.
    fn save(
        &mut self,
        table: &mut Table<Object>,
        place: Place,
        in_parts: &mut Vec<InParts>,
        shared: &Shared,
    ) -> Option<usize> {
        let entry = SnapshotEntry::at(table, place);
        let db = self.pending.db;
        if in_parts.iter().any(|one| one.is(db, entry.key)) {
            // Somebody else is at it.
            return Some(0);
        }
        let bytes = table.record_bytes(place);
        if bytes > most_at_once(table, place) {
            let one = InParts::begin(shared, db, &entry, bytes > STREAMED_BYTES);
            self.current = Some(one.key.clone());
            in_parts.push(one);
            return None;
        }
        let copy = (bytes > SMALL_BYTES).then(|| table.copy_string(place, entry.key)).flatten();
        match copy {
            Some(copy) => self.copied.push(copy.with_stickiness(entry.sticky)),
            None => shared.write(&entry, &mut self.pending),
        }
        table.mark_saved(place);
        Some(bytes)
    }

    /// Marks what is not saved, because nobody wants it any more.
    fn mark(&mut self, table: &mut Table<Object>) -> Portion {
        let mut looked = 0;
        while !self.cursor.is_end() && looked < MARKED_RECORDS {
            let mut found: SmallVec<[Place; 32]> = SmallVec::new();
            self.cursor = table.scan(self.cursor, &mut |place| {
                looked += 1;
                found.push(place);
            });
            found.into_iter().for_each(|place| table.mark_saved(place));
        }
        if self.cursor.is_end() { Portion::End } else { Portion::More }
    }
}

/// Writes one more part of a value; `None`: it is written, or gone.
fn go_on_with(
    space: &Keyspace,
    (table, in_parts): (&mut Table<Object>, &mut Vec<InParts>),
    (db, key): (DbIndex, &[u8]),
    shared: &Shared,
) -> Option<Portion> {
    let at = in_parts.iter().position(|one| one.is(db, key))?;
    let Some(place) = table.find(space.hash(key), key) else {
        debug_assert!(false, "what is written in parts is in the table");
        in_parts.swap_remove(at);
        return None;
    };
    match in_parts[at].go_on(shared, &table.value(place)) {
        Part::More => return Some(Portion::More),
        Part::Blocked => return Some(Portion::Blocked),
        Part::Last => {}
    }
    in_parts.swap_remove(at);
    table.mark_saved(place);
    None
}

/// How one call of [`Snapshot::walk`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walked {
    /// Call it again.
    More,
    /// All that is left waits for this partition.
    Busy(Busy),
    /// What is left is of partitions that somebody else waits for: call it again in a moment.
    GivesWay,
    /// The target has no room: [`Snapshot::has_room`] tells when it has.
    Full,
    /// Others are at what is left.
    Idle,
    /// Nothing is left.
    Done(Outcome),
}

/// Which jobs may be done with the room there is.
#[derive(Clone, Copy)]
struct Allowed {
    /// Those that are in the midst of a value, or that somebody waits for.
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

/// How a job goes on.
enum Next {
    /// In its turn.
    Again(Job),
    /// After some others, because somebody waits for its partition.
    Rest(Job),
    /// When there is nothing else.
    Later(Job),
    /// This partition is busy.
    Busy(Job, Busy),
    Ended,
}

/// A snapshot that was begun. Who drops it calls it off, but [`Snapshot::walk`] has to be called
/// until it is done all the same.
pub struct Snapshot {
    shared: Arc<Shared>,
}

impl Snapshot {
    pub(crate) fn new(shared: Arc<Shared>) -> Snapshot {
        Snapshot { shared }
    }

    /// Writes some of what is not saved. Several threads may call this at the same time.
    pub fn walk(&self, space: &Keyspace) -> Walked {
        let allowed = self.allowed();
        let (job, is_last_resort) = {
            let mut jobs = self.shared.jobs();
            if self.shared.is_done(&jobs) {
                drop(jobs);
                return self.done(space);
            }
            match jobs.next(|job| allowed.includes(job)) {
                Some(next) => {
                    jobs.in_flight += 1;
                    next
                }
                None if jobs.is_empty() => return Walked::Idle,
                None => return Walked::Full,
            }
        };
        let next = match job {
            Job::Walk(walk) => self.walk_partition(space, walk),
            Job::Parts { id, db, key } => self.write_parts(space, id, db, key),
            Job::Handed(handed) => self.write_handed(handed),
            Job::Table(table) => self.write_table(space, table),
        };
        let walked = match &next {
            Next::Busy(_, busy) if is_last_resort => Walked::Busy(*busy),
            Next::Later(_) if is_last_resort => Walked::Idle,
            Next::Rest(_) if is_last_resort => Walked::GivesWay,
            _ => Walked::More,
        };
        self.put_back(space, next, walked)
    }

    /// What may be done with the room there is.
    fn allowed(&self) -> Allowed {
        let room = self.shared.target_room();
        let in_parts = match self.shared.has_stream() {
            true => self.shared.has_room_for_parts(),
            false => room < Room::Overfull,
        };
        Allowed { in_parts, all: room == Room::Free }
    }

    fn put_back(&self, space: &Keyspace, next: Next, walked: Walked) -> Walked {
        let is_done = self.shared.settle(|jobs| match next {
            Next::Again(job @ Job::Walk(_)) => jobs.walks.push_front(job),
            Next::Again(job @ Job::Parts { .. }) => jobs.urgent.push_front(job),
            Next::Again(job) => jobs.handed.push_front(job),
            Next::Rest(job) => jobs.resting.push_back(job),
            Next::Later(job) | Next::Busy(job, _) => jobs.later.push_back(job),
            Next::Ended => {}
        });
        if is_done { self.done(space) } else { walked }
    }

    /// Nothing is left.
    fn done(&self, space: &Keyspace) -> Walked {
        space.snapshot.end(&self.shared);
        // Who waits for room waits no longer.
        self.shared.has_room();
        Walked::Done(self.shared.outcome())
    }

    /// The life of a walking thread, to the end of the snapshot. Only on threads that may wait.
    pub fn work(&self, space: &Keyspace) -> Outcome {
        loop {
            let news = self.shared.jobs().news;
            match self.walk(space) {
                Walked::More => {}
                Walked::Done(outcome) => return outcome,
                Walked::Busy(busy) => space.wait_long_for(busy),
                Walked::GivesWay => self.shared.sleep(GIVEN_WAY, news),
                Walked::Full | Walked::Idle => self.shared.sleep(LONGEST_SLEEP, news),
            }
        }
    }

    /// The target has room again: to be called when [`SnapshotTarget::room`] has become better.
    ///
    /// [`SnapshotTarget::room`]: super::SnapshotTarget::room
    pub fn has_room(&self) {
        self.shared.has_room();
    }

    /// Calls it off: nothing more is written, and the walk comes to its end soon.
    pub fn cancel(&self) {
        self.shared.cancel();
    }

    /// How far it is.
    pub fn progress(&self) -> SnapshotProgress {
        self.shared.progress()
    }

    fn walk_partition(&self, space: &Keyspace, mut walk: PartitionWalk) -> Next {
        let id = walk.id;
        let Some(mut held) = space.partition(id).spin_lock() else {
            return Next::Busy(Job::Walk(walk), Busy(id));
        };
        let (portion, tickets) = walk.go_on(space, &mut held, &self.shared);
        let is_wanted = space.partition(id).parked_count() > 0;
        drop(held);
        wake(tickets);
        walk.settle(&self.shared);
        match portion {
            Portion::More if is_wanted => {
                // It may be some time, and there may be many.
                self.shared.flush(&mut walk.at.pending);
                Next::Rest(Job::Walk(walk))
            }
            Portion::More => Next::Again(Job::Walk(walk)),
            Portion::Blocked => Next::Later(Job::Walk(walk)),
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
                go_on_with(space, parts, (db, &key), &self.shared)
            }
            _ => None,
        };
        let mut tickets = Vec::new();
        if portion.is_none() {
            tickets = self.shared.call(id);
            tickets.extend(partition.close_if_saved());
        }
        let is_wanted = space.partition(id).parked_count() > 0;
        drop(held);
        wake(tickets);
        match portion {
            Some(Portion::Blocked) => Next::Later(Job::Parts { id, db, key }),
            Some(_) if is_wanted => Next::Rest(Job::Parts { id, db, key }),
            Some(_) => Next::Again(Job::Parts { id, db, key }),
            None => Next::Ended,
        }
    }

    fn write_handed(&self, handed: Handed) -> Next {
        let shared = &self.shared;
        let Handed { db, record, parts } = handed;
        let bytes = record.bytes();
        let mut parts = parts.unwrap_or_else(|| {
            InParts::begin(shared, db, &SnapshotEntry::of(&record), bytes > STREAMED_BYTES)
        });
        match parts.go_on(shared, &record.value()) {
            Part::More => Next::Again(Job::Handed(Handed { db, record, parts: Some(parts) })),
            Part::Blocked => Next::Later(Job::Handed(Handed { db, record, parts: Some(parts) })),
            Part::Last => {
                drop(record);
                shared.forget_handed(bytes);
                Next::Ended
            }
        }
    }

    fn write_table(&self, space: &Keyspace, mut handed: Box<HandedTable>) -> Next {
        let HandedTable { table, in_parts, walk } = &mut *handed;
        let portion = walk.go_on(space, (table, in_parts), &self.shared);
        walk.settle(&self.shared);
        match portion {
            Portion::More => Next::Again(Job::Table(handed)),
            Portion::Blocked => Next::Later(Job::Table(handed)),
            Portion::End => {
                // What others had begun.
                walk.current = in_parts.last().map(|one| one.key.clone());
                if walk.current.is_some() {
                    return Next::Again(Job::Table(handed));
                }
                walk.end(&self.shared);
                Next::Ended
            }
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if self.shared.is_walked_to_its_end() {
            return;
        }
        self.shared.cancel();
    }
}

impl PartitionWalk {
    /// Writes some of the partition; who is to be woken when it is free.
    fn go_on(
        &mut self,
        space: &Keyspace,
        partition: &mut Partition,
        shared: &Shared,
    ) -> (Portion, Vec<Ticket>) {
        let Some(saving) = &mut partition.rest.saving else { return (Portion::End, Vec::new()) };
        let before = saving.in_parts.len();
        let portion = match partition.databases.cut_as(self.at.pending.db) {
            Some(db) => self.at.go_on(space, (db.table_to_mark(), &mut saving.in_parts), shared),
            // Nothing was in it, or it was flushed.
            None => Portion::End,
        };
        let mut tickets = Vec::new();
        if saving.in_parts.len() < before {
            tickets = shared.call(self.id);
        }
        if portion != Portion::End {
            return (portion, tickets);
        }
        let next = partition.databases.next_cut(DbIndex(self.at.pending.db.0 + 1));
        let ended = replace(&mut self.at, TableWalk::new(next.unwrap_or_default()));
        self.ended = Some(ended);
        if next.is_some() {
            return (Portion::More, tickets);
        }
        saving.is_walked = true;
        tickets.extend(partition.close_if_saved());
        (Portion::End, tickets)
    }
}

fn wake(tickets: Vec<Ticket>) {
    tickets.into_iter().for_each(pantala_sync::lock::Ticket::wake);
}

impl Partition {
    /// The end of the snapshot in this partition, if all of it is saved. Who is to be woken.
    pub(crate) fn close_if_saved(&mut self) -> Vec<Ticket> {
        let saving = self.rest.saving.take_if(|saving| saving.is_done());
        saving.map_or_else(Vec::new, |saving: Box<Saving>| saving.close())
    }
}
