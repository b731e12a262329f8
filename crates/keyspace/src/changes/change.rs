//! The one way in which data changes.
//!
//! ```text
//! Databases --of--> Changes --change(key)--> before: undo and snapshot keep the old value
//!                      |                         |
//!                      |                         +--> the table, to be changed
//!                      +--publish(key)-----> after: counts, WATCH, blocked clients, observers
//! ```
//!
//! The tables of a partition (`databases`) are open only to this folder, so one can be changed only
//! through [`Changes::change`] and the few functions, below and in `databases`, that remove expired
//! records, empty a database, exchange two, or take over what was loaded beside. All of these do
//! what must be done before and after a change. A `change` ends in `publish`, or in `unchanged` if
//! nothing was changed; debug builds panic otherwise.
//!
//! **Before** costs one branch, on cache lines that the command has at hand. The old value may be
//! needed by a script that may be undone (`undo`), and by a snapshot that is not done with the
//! partition (`snapshot`). The snapshot is told in which [`ChangeManner`] the record changes. A
//! record that the table hands out because it has expired (`make_room`, `lifetime/sweep`) still has
//! the saved bit in its word, and an emptied database is handed to the snapshot as a whole table.
//!
//! Invariants
//! 1. Before a record changes or goes, [`Changes::change`] has been called; or
//!    `ChangeListeners::gone` or `ChangeListeners::lost`, before it is freed.
//! 2. Every change ends in `publish` or `unchanged`, before any other command can take the
//!    partition.
//! 3. Counts that are read without the lock ([`DatabaseSizes`]) are copied after each change of
//!    them.
//!
//! Tests: `tests/undo.rs`, `tests/snapshot.rs` (before, for every way of changing),
//! `tests/funnel.rs` (after).

use std::ops::ControlFlow;

use pantala_base::UnixMs;
use pantala_base::rng::Rng;
use pantala_table::{
    CAS_MAX, Choice, OwnedRecord, RecordPlace, SweepCount, SweepCursor, Table, TableTurn, Tail,
};
use pantala_values::{Collection, Object};

use crate::access::scope::Scope;
use crate::access::ticket::Ticket;
use crate::changes::databases::Db;
use crate::changes::effects::{EventMask, Readers};
use crate::changes::event::{DEL, KeyEvent};
use crate::changes::follow_ups::FollowUps;
use crate::changes::key_change::{ChangeAudience, ChangeObserver, KeyChange};
use crate::changes::listeners::Listeners;
use crate::key::{DbIndex, Key, PARTITION_COUNT, PartitionId};
use crate::lifetime::eviction_result::EvictionResult;
use crate::lifetime::timed::DeadlineTable;
use crate::partition::{Partition, Rest};
use crate::sizes::DatabaseSizes;
use crate::snapshot::ChangeManner;

/// A cas number consists of time, count and partition, so no two keys share one. This many bits of
/// count: a partition may assign 2 to that power in a millisecond before its numbers run ahead of
/// the time. With the years until 2109 they fit 56 bits.
const CAS_BITS_PER_MS: u32 = 4;
/// The distance between consecutive numbers of a partition.
const CAS_STEP: u64 = PARTITION_COUNT as u64;
/// The bits of a number below the time.
const BELOW_TIME_BITS: u32 = CAS_BITS_PER_MS + CAS_STEP.trailing_zeros();
const _: () = assert!(CAS_STEP.is_power_of_two(), "a number's low bits name its partition");
const _: () = assert!(CAS_MAX >> BELOW_TIME_BITS > 4_102_444_800_000, "it is before the year 2100");

impl Partition {
    /// Empties one database. Returns its records, unless a snapshot has taken them, and the tickets
    /// to redeem. To be followed, for all partitions, by [`ChangeObserver::flushed`].
    pub(crate) fn flush(
        &mut self,
        index: DbIndex,
        id: PartitionId,
        sizes: &DatabaseSizes,
    ) -> (Option<Table<Object>>, Vec<Ticket>) {
        let Some(db) = self.databases.if_used_mut(index) else { return (None, Vec::new()) };
        let Db { table, cut, .. } = std::mem::take(db);
        sizes.publish(id, db);
        self.databases.forget_if_empty(index);
        match (&mut self.rest.saving, cut) {
            (Some(saving), Some(cut)) => {
                let mut called = saving.gone_table(cut, table);
                called.extend(self.close_if_saved());
                (None, called)
            }
            _ => (Some(table), Vec::new()),
        }
    }
}

/// One database in one partition, to be changed.
pub(crate) struct Changes<'l, 'k> {
    db: &'l mut Db,
    around: ChangeListeners<'l, 'k>,
    #[cfg(debug_assertions)]
    is_unpublished: bool,
}

/// What has happened to a key.
#[derive(Clone, Copy)]
enum ChangeKind {
    Changed(KeyEvent, ChangeAudience),
    Expired,
    ElementsExpired(KeyEvent, bool),
    Evicted,
}

impl ChangeKind {
    /// Whether the key is gone. On a replica an expired key is removed as its primary says so.
    fn is_removal(self) -> bool {
        match self {
            ChangeKind::Expired | ChangeKind::Evicted => true,
            ChangeKind::Changed(event, _) => event == DEL,
            ChangeKind::ElementsExpired(..) => false,
        }
    }
}

/// The surroundings of a change: the rest of the partition, scope and effects.
struct ChangeListeners<'l, 'k> {
    rest: &'l mut Rest,
    woken: &'l mut FollowUps,
    scope: Scope<'k>,
    partition: PartitionId,
}

impl<'l, 'k> Changes<'l, 'k> {
    #[inline]
    pub fn of(
        held: &'l mut Partition,
        woken: &'l mut FollowUps,
        partition: PartitionId,
        scope: Scope<'k>,
    ) -> Self {
        debug_assert!(scope.db.0 < scope.space.database_count(), "there is such a database");
        let db = held.databases.at(scope.db);
        let around = ChangeListeners { rest: &mut held.rest, woken, scope, partition };
        Changes {
            db,
            around,
            #[cfg(debug_assertions)]
            is_unpublished: false,
        }
    }

    #[inline]
    pub fn scope(&self) -> &Scope<'k> {
        &self.around.scope
    }

    /// The records, read-only.
    #[inline]
    pub fn table(&self) -> &Table<Object> {
        &self.db.table
    }

    #[inline]
    pub fn timed(&self) -> &DeadlineTable {
        &self.db.timed
    }

    /// Increases a record's hotness; no change.
    #[inline]
    pub fn touch(&mut self, place: RecordPlace) {
        self.db.table.touch(place);
    }

    /// Sets the tail of a string to one with the same flags; no change.
    pub fn keep_beside(&mut self, place: RecordPlace, tail: Tail) {
        debug_assert_eq!(self.db.table.tail(place).flags, tail.flags, "flags are part of a value");
        self.db.table.set_tail(place, tail);
    }

    /// A cas number that no key has had, even before the last start of the process: it is at least
    /// the current time.
    pub fn next_cas(&mut self) -> u64 {
        let ChangeListeners { rest, scope, partition, .. } = &mut self.around;
        let UnixMs(ms) = scope.now;
        let first = ms.cast_unsigned() << BELOW_TIME_BITS & CAS_MAX;
        let before = rest.last_cas;
        rest.last_cas = (first | partition.index() as u64).max(before + CAS_STEP);
        debug_assert!(rest.last_cas > before, "no number is given twice");
        rest.last_cas
    }

    /// The time at which such a number was assigned, or some milliseconds later if many were
    /// assigned then.
    pub fn time_of_cas(cas: u64) -> UnixMs {
        UnixMs((cas >> BELOW_TIME_BITS).cast_signed())
    }

    /// Sets a record's hotness; no change.
    pub fn set_hotness(&mut self, place: RecordPlace, hotness: u8) {
        self.db.table.set_hotness(place, hotness);
    }

    /// The table, to change this one key, which is at `place` or absent. To be followed by
    /// [`Changes::publish`] or [`Changes::unchanged`].
    #[inline]
    pub fn change(
        &mut self,
        key: Key<'_>,
        place: Option<RecordPlace>,
        manner: ChangeManner,
    ) -> &mut Table<Object> {
        self.set_unpublished(true);
        self.tell_before(key, place, manner);
        &mut self.db.table
    }

    /// Lets undo and the snapshot keep the key as it is, before it changes.
    #[inline]
    fn tell_before(&mut self, key: Key<'_>, place: Option<RecordPlace>, manner: ChangeManner) {
        if self.around.woken.keeps() | self.around.rest.saving.is_some() {
            self.around.keep(self.db, key, place, manner);
        }
    }

    /// The collection at a place, to be changed, if it is of this type. Otherwise like
    /// [`Changes::change`].
    #[inline]
    pub fn collection_mut<C: Collection>(
        &mut self,
        key: Key<'_>,
        place: RecordPlace,
    ) -> Option<&mut C> {
        self.tell_before(key, Some(place), ChangeManner::InPlace);
        let found = self.db.table.object_mut(place).and_then(C::of_mut);
        #[cfg(debug_assertions)]
        {
            self.is_unpublished |= found.is_some();
        }
        found
    }

    /// The bytes of a string at a place, to be changed in place, if it is one. Otherwise like
    /// [`Changes::change`].
    pub fn string_mut(&mut self, key: Key<'_>, place: RecordPlace) -> Option<&mut [u8]> {
        self.tell_before(key, Some(place), ChangeManner::InPlace);
        let found = self.db.table.string_mut(place);
        #[cfg(debug_assertions)]
        {
            self.is_unpublished |= found.is_some();
        }
        found
    }

    /// The object at a place, to remove expired elements: that is not undone. To be followed by
    /// [`Changes::publish_expired_elements`] or [`Changes::unchanged`].
    pub fn object_to_expire(&mut self, place: RecordPlace) -> Option<&mut Object> {
        self.set_unpublished(true);
        if self.around.rest.saving.is_some() {
            self.around.save(self.db, place, ChangeManner::InPlace);
        }
        self.db.table.object_mut(place)
    }

    /// Whether expired elements stay for now, because a snapshot is about to write the value.
    pub fn keeps_elements(&mut self, place: RecordPlace) -> bool {
        let Db { table, cut, .. } = &*self.db;
        let saving = self.around.rest.saving.as_mut();
        saving.is_some_and(|saving| {
            !table.is_saved(place) && saving.writes_in_parts(table, place, *cut)
        })
    }

    /// Debug builds: notes whether the current change is still to be published.
    #[inline]
    fn set_unpublished(&mut self, _is_unpublished: bool) {
        #[cfg(debug_assertions)]
        {
            self.is_unpublished = _is_unpublished;
        }
    }

    /// Takes over a change that was left unpublished.
    #[inline]
    pub fn resume(&mut self) {
        self.set_unpublished(true);
    }

    /// Ends a change: nothing has changed, or it was put back.
    #[inline]
    pub fn unchanged(&mut self) {
        self.set_unpublished(false);
    }

    /// Publishes a change to all.
    #[inline]
    pub fn publish(&mut self, key: &[u8], event: KeyEvent) {
        self.set_unpublished(false);
        if let Some(recorder) = self.around.scope.recorder {
            recorder.note_change();
        }
        self.around.follow_up(key, ChangeKind::Changed(event, ChangeAudience::ByAll));
    }

    /// Publishes a change to this audience.
    pub fn publish_to(&mut self, key: &[u8], event: KeyEvent, heard: ChangeAudience) {
        self.set_unpublished(false);
        let ChangeListeners { rest, woken, scope, .. } = &mut self.around;
        scope.tally.changes.add(1);
        if let Some(recorder) = scope.recorder {
            recorder.note_change();
        }
        let waiters = &rest.waiters;
        if heard == ChangeAudience::Unwatched && !waiters.is_empty() && waiters.has(scope.db, key) {
            woken.is_ready(scope.db, key);
        }
        if scope.space.wanted() != EventMask::NOTHING {
            self.around.tell(key, ChangeKind::Changed(event, heard));
        }
    }

    /// Publishes the removal of expired elements; removes the key if it is empty.
    pub fn publish_expired_elements(
        &mut self,
        key: Key<'_>,
        place: RecordPlace,
        event: KeyEvent,
        is_empty: bool,
    ) {
        self.set_unpublished(false);
        debug_assert_eq!(self.db.table.key(place), key.bytes, "the place is the key's");
        if is_empty {
            let record = self.db.table.remove(place);
            self.db.timed.forget(key.bytes);
            self.around.gone(self.db, record);
            self.tidy(key.hash);
        }
        self.around.follow_up(key.bytes, ChangeKind::ElementsExpired(event, is_empty));
    }

    /// Announces an event that is no change by itself.
    #[inline]
    pub fn announce(&mut self, key: &[u8], event: KeyEvent) {
        if self.around.scope.space.wanted() != EventMask::NOTHING {
            self.around.announce(key, event);
        }
    }

    /// Notes a deadline of the key's elements; whether it is earlier than what the sweep knew.
    pub fn note_elements(&mut self, key: &[u8], deadline: UnixMs) {
        if self.db.timed.lower(key, deadline) {
            self.publish_sizes();
            self.note_deadline(deadline);
        }
    }

    /// Sets the earliest deadline of the key's elements, after they were looked at.
    pub fn set_elements(&mut self, key: &[u8], deadline: Option<UnixMs>) {
        self.db.timed.set(key, deadline);
        self.publish_sizes();
    }

    /// Notes a deadline for the sweep.
    pub fn note_deadline(&mut self, deadline: UnixMs) {
        let ChangeListeners { scope, partition, woken, .. } = &mut self.around;
        let sweeper = scope.space.sweep.lower(*partition, deadline);
        woken.add(sweeper);
    }

    /// Notes a deadline that a client of a replica sets.
    #[cold]
    pub fn note_own_deadline(&mut self, key: &[u8], deadline: UnixMs) {
        let ChangeListeners { scope, woken, .. } = &mut self.around;
        if scope.space.own_deadlines.note(scope.db, key, deadline) {
            woken.add(scope.space.sweep.ticket());
        }
    }

    /// Copies the counts to [`DatabaseSizes`].
    #[inline]
    pub fn publish_sizes(&self) {
        let ChangeListeners { scope, partition, .. } = &self.around;
        scope.space.sizes.of(scope.db).publish(*partition, self.db);
    }

    /// Removes and returns a record, to be put elsewhere.
    pub fn take(&mut self, key: Key<'_>, place: RecordPlace) -> OwnedRecord<Object> {
        debug_assert_eq!(self.db.table.key(place), key.bytes, "the place is the key's");
        let record = self.change(key, Some(place), ChangeManner::InPlace).remove(place);
        self.db.timed.forget(key.bytes);
        self.tidy(key.hash);
        record
    }

    /// Removes a record.
    pub fn remove(&mut self, key: Key<'_>, place: RecordPlace) {
        debug_assert_eq!(self.db.table.key(place), key.bytes, "the place is the key's");
        let record = self.change(key, Some(place), ChangeManner::Remove).remove(place);
        self.db.timed.forget(key.bytes);
        self.around.gone(self.db, record);
        self.tidy(key.hash);
    }

    /// Removes a key whose deadline has passed.
    #[cold]
    pub fn expire(&mut self, key: Key<'_>, place: RecordPlace) {
        debug_assert_eq!(self.db.table.key(place), key.bytes, "the place is the key's");
        let record = self.db.table.remove(place);
        let source = Source::of(self.db);
        self.around.lost(&mut self.db.timed, source, record);
        self.tidy(key.hash);
    }

    /// Removes a key if it still has this deadline, which has passed.
    pub fn expire_own(&mut self, key: Key<'_>, deadline: UnixMs) -> bool {
        debug_assert_eq!(PartitionId::of(key.hash), self.around.partition, "the key is there");
        let place = self.db.table.find(key.hash, key.bytes);
        let Some(place) = place.filter(|place| self.db.table.deadline(*place) == Some(deadline))
        else {
            return false;
        };
        self.expire(key, place);
        true
    }

    /// Evicts a key, to free memory.
    pub fn evict(&mut self, key: Key<'_>, place: RecordPlace) {
        debug_assert_eq!(self.db.table.key(place), key.bytes, "the place is the key's");
        let record = self.db.table.remove(place);
        let source = Source::of(self.db);
        self.around.evicted(&mut self.db.timed, source, record);
        self.tidy(key.hash);
    }

    /// Evicts some keys, until about this many bytes are freed.
    pub fn evict_some(
        &mut self,
        choice: Choice,
        wanted_bytes: usize,
        rng: &mut Rng,
    ) -> EvictionResult {
        let Changes { db, around, .. } = self;
        let source = Source::of(db);
        let Db { table, timed, .. } = &mut **db;
        let space = around.scope.space;
        let (mut bytes, mut last) = (0, None);
        let mut random = |bound| rng.below(bound);
        let among = TableTurn { lately: &space.eviction.lately, number: around.partition.index() };
        let evicted = table.evict(choice, among, &mut random, &mut |record| {
            bytes += record.bytes();
            last = Some(space.hash(record.key()));
            around.evicted(timed, source, record);
            if bytes < wanted_bytes { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        if let Some(hash) = last {
            // All of them were in one segment, which may have to be merged.
            self.tidy(hash);
        }
        let (keys, candidates) = (evicted.taken, evicted.candidates);
        debug_assert_eq!(keys == 0, last.is_none(), "what was taken was told");
        EvictionResult { bytes, keys, candidates, ..EvictionResult::default() }
    }

    /// Makes room for a new key in a full segment: removes expired records, or else grows it.
    #[cold]
    pub fn make_room(&mut self, hash: u64) {
        let Changes { db, around, .. } = self;
        let source = Source::of(db);
        let Db { table, timed, .. } = &mut **db;
        let (space, now) = (around.scope.space, around.scope.removed_at());
        table.make_room(hash, now, &mut |bytes| space.hash(bytes), &mut |record| {
            around.lost(timed, source, record);
        });
    }

    /// Removes the expired ones of about `most` records.
    pub fn sweep(&mut self, from: SweepCursor, most: usize) -> SweepCount {
        let Changes { db, around, .. } = self;
        let source = Source::of(db);
        let Db { table, timed, .. } = &mut **db;
        let (space, now) = (around.scope.space, around.scope.removed_at());
        let mut hashes = Vec::new();
        let swept = table.sweep(from, now, most, &mut |record| {
            hashes.push(space.hash(record.key()));
            around.lost(timed, source, record);
        });
        debug_assert_eq!(swept.expired, hashes.len(), "each was handed out");
        for hash in hashes {
            table.tidy_after_remove(hash, &mut |bytes| space.hash(bytes));
        }
        self.publish_sizes();
        swept
    }

    fn tidy(&mut self, hash: u64) {
        let space = self.around.scope.space;
        self.db.table.tidy_after_remove(hash, &mut |bytes| space.hash(bytes));
        self.publish_sizes();
    }
}

#[cfg(debug_assertions)]
impl Drop for Changes<'_, '_> {
    fn drop(&mut self) {
        assert!(
            !self.is_unpublished || std::thread::panicking(),
            "a change was neither published nor called unchanged"
        );
    }
}

/// The table that a record comes from.
#[derive(Clone, Copy)]
struct Source {
    cut: Option<DbIndex>,
    saved_mark: bool,
}

impl Source {
    fn of(db: &Db) -> Source {
        Source { cut: db.cut, saved_mark: db.table.saved_mark() }
    }
}

impl ChangeListeners<'_, '_> {
    /// Before a key changes: keeps a copy for undo, and lets the snapshot save it.
    #[cold]
    fn keep(
        &mut self,
        db: &mut Db,
        key: Key<'_>,
        place: Option<RecordPlace>,
        manner: ChangeManner,
    ) {
        if let Some(undo) = &mut self.woken.undo {
            undo.keep(&db.table, self.scope.db, key, place);
        }
        if let Some(place) = place {
            self.save(db, place, manner);
        }
    }

    /// Before a record changes: lets the snapshot write it, if it has to.
    fn save(&mut self, db: &mut Db, place: RecordPlace, manner: ChangeManner) {
        let Db { table, cut: Some(cut), .. } = db else { return };
        if let Some(saving) = &mut self.rest.saving
            && !table.is_saved(place)
        {
            saving.before_change(table, *cut, (place, manner), self.woken);
        }
    }

    /// Accounts for a record that the table has handed out because its deadline has passed.
    fn lost(&mut self, timed: &mut DeadlineTable, source: Source, record: OwnedRecord<Object>) {
        self.scope.tally.expired.add(1);
        timed.forget(record.key());
        self.record_gone(record.key());
        self.follow_up(record.key(), ChangeKind::Expired);
        self.leave(source, record);
    }

    /// Accounts for a record that the table has handed out to be evicted.
    fn evicted(&mut self, timed: &mut DeadlineTable, source: Source, record: OwnedRecord<Object>) {
        self.scope.tally.evicted.add(1);
        timed.forget(record.key());
        self.record_gone(record.key());
        self.follow_up(record.key(), ChangeKind::Evicted);
        self.leave(source, record);
    }

    /// Records that a key has expired or was evicted.
    fn record_gone(&self, key: &[u8]) {
        if let Some(recorder) = self.scope.recorder {
            recorder.record_lasting(self.scope.db.0, &[b"UNLINK", key]);
        }
    }

    /// Frees a record that has left its table, once the snapshot has saved it.
    fn gone(&mut self, db: &Db, record: OwnedRecord<Object>) {
        self.leave(Source::of(db), record);
    }

    #[inline]
    fn leave(&mut self, source: Source, record: OwnedRecord<Object>) {
        let left = match &mut self.rest.saving {
            Some(saving) if record.saved_mark() != source.saved_mark => {
                let cut = source.cut.expect("what is not saved was there at the cut");
                saving.gone(cut, record, self.woken)
            }
            _ => Some(record),
        };
        let Scope { space, tally, .. } = self.scope;
        if let Some(record) = left {
            space.discard(record, tally);
        }
    }

    /// Does everything that follows a change of one key.
    #[inline]
    fn follow_up(&mut self, key: &[u8], what: ChangeKind) {
        self.scope.tally.changes.add(1);
        if !self.rest.waiters.is_empty() {
            self.wake(key, what.is_removal());
        }
        if self.scope.space.wanted() != EventMask::NOTHING {
            self.tell(key, what);
        }
    }

    #[cold]
    fn wake(&mut self, key: &[u8], is_gone: bool) {
        let (db, space) = (self.scope.db, self.scope.space);
        self.rest.waiters.touch(db, key, || space.hash(key), is_gone);
        if self.rest.waiters.has(db, key) {
            self.woken.is_ready(db, key);
        }
    }

    /// Tells the observers.
    #[cold]
    fn tell(&mut self, key: &[u8], what: ChangeKind) {
        let Scope { space, db, .. } = self.scope;
        let is_seen = !matches!(
            what,
            ChangeKind::Changed(_, ChangeAudience::Unwatched | ChangeAudience::Silently)
        );
        let readers = if is_seen { self.rest.waiters.tracked.take(key) } else { Readers::new() };
        let author = self.woken.author();
        let mut listeners = Listeners::new(space, self.woken, readers);
        match what {
            ChangeKind::Changed(event, heard) => {
                listeners.changed(KeyChange { db, key, event, heard, author });
            }
            ChangeKind::Expired => listeners.expired(db, key),
            ChangeKind::ElementsExpired(event, was_last) => {
                listeners.elements_expired(db, key, event, was_last);
            }
            ChangeKind::Evicted => listeners.evicted(db, key),
        }
    }

    #[cold]
    fn announce(&mut self, key: &[u8], event: KeyEvent) {
        let Scope { space, db, .. } = self.scope;
        Listeners::new(space, self.woken, Readers::new()).announce(db, key, event);
    }
}
