//! The one way in which data changes.
//!
//! ```text
//! Databases --of--> Changes --change(key)--> told before: whoever must keep what was (undo)
//!                      |                         |
//!                      |                         +--> the table, to be changed
//!                      +--publish(key)-----> told after: counts, WATCH, who waits, observers
//! ```
//!
//! The databases of a partition are private to this file, so nobody reaches a table to change it
//! but through [`Changes::change`] and the few functions below that remove what has expired, empty
//! a database, exchange two, or bring what was loaded beside. None of them can be called without
//! what has to be told before and after. A `change` ends in `publish`, or in `unchanged` where it
//! turned out to be none; debug builds panic where it does not.
//!
//! **Before** costs one branch, on lines that the command has at hand. Two ask: a script that may
//! be undone (`undo`), and a snapshot that is not done with the partition (`snapshot`), which hears
//! in which [`Manner`] the record changes. A record that the table hands out because it has expired
//! (`make_room`, `lifetime/sweep`) still has the saved bit in its word, and an emptied database is
//! handed to the snapshot as a whole table.
//!
//! Invariants
//! 1. Before a record changes or goes, [`Changes::change`] has been called; or `Around::gone` or
//!    `Around::lost`, before it is freed.
//! 2. Every change ends in `publish` or `unchanged`, before anybody else can take the partition.
//! 3. Counts that are read without the lock ([`Sizes`]) are copied after each change of them.
//!
//! Tests: `tests/undo.rs`, `tests/snapshot.rs` (told before, by every way there is),
//! `tests/funnel.rs` (told after).

use std::ops::ControlFlow;

use pantala_base::UnixMs;
use pantala_base::rng::Rng;
use pantala_table::{Among, CAS_MAX, Choice, OwnedRecord, Place, SweepCursor, Swept, Table, Tail};
use pantala_values::{Collection, Object};

use crate::Keyspace;
use crate::access::locked::Scope;
use crate::access::ticket::{Ticket, Woken};
use crate::changes::effects::{ClientId, Listeners, Readers, Wanted};
use crate::changes::event::{DEL, Event};
use crate::key::{DbIndex, Key, PARTITION_COUNT, PartitionId};
use crate::lifetime::evict::Freed;
use crate::lifetime::timed::Timed;
use crate::partition::{Partition, Rest, Sizes};
use crate::snapshot::Manner;

/// A cas number is the time, a count and the partition: so no two keys have the same one. Of a
/// partition so many, as a power of two, may be given in a millisecond before the last one is ahead
/// of the time. With the years until 2109 they fit 56 bits.
const CAS_BITS_PER_MS: u32 = 4;
/// The step from one number of a partition to the next.
const CAS_STEP: u64 = PARTITION_COUNT as u64;
/// Bits of a number that are below the time.
const BELOW_TIME_BITS: u32 = CAS_BITS_PER_MS + CAS_STEP.trailing_zeros();

/// The part of one logical database that lies in one partition.
#[derive(Default)]
pub struct Db {
    table: Table<Object>,
    /// Which records hold elements with deadlines of their own.
    timed: Timed,
    /// Its number at the cut of the last snapshot, if there was something in it.
    cut: Option<DbIndex>,
}

impl Db {
    /// Its records, to be read.
    #[inline]
    pub fn table(&self) -> &Table<Object> {
        &self.table
    }

    #[inline]
    pub(crate) fn timed(&self) -> &Timed {
        &self.timed
    }

    /// Its number at the cut of the snapshot that runs, if there was something in it.
    pub(crate) fn cut(&self) -> Option<DbIndex> {
        self.cut
    }

    /// No record is saved any more; whether there are any.
    pub(crate) fn begin_epoch(&mut self, number: DbIndex) -> bool {
        self.table.begin_epoch();
        self.cut = (!self.table.is_empty()).then_some(number);
        self.cut.is_some()
    }

    /// Its records, to be marked as saved or allocated anew, and for nothing else.
    pub(crate) fn table_to_mark(&mut self) -> &mut Table<Object> {
        &mut self.table
    }
}

/// All databases of one partition.
#[derive(Default)]
pub(crate) struct Databases {
    first: Db,
    /// Apart, so that what nobody uses takes no more than a pointer in each partition.
    others: Vec<Option<Box<Db>>>,
}

impl Databases {
    /// One of them, if anything ever used it.
    #[inline]
    pub fn if_used(&self, index: DbIndex) -> Option<&Db> {
        match index.index() {
            0 => Some(&self.first),
            number => self.others.get(number - 1)?.as_deref(),
        }
    }

    /// One of them, if anything ever used it.
    pub fn if_used_mut(&mut self, index: DbIndex) -> Option<&mut Db> {
        match index.index() {
            0 => Some(&mut self.first),
            number => self.others.get_mut(number - 1)?.as_deref_mut(),
        }
    }

    /// One of them; made on first use.
    #[inline]
    fn at(&mut self, index: DbIndex) -> &mut Db {
        match index.index() {
            0 => &mut self.first,
            number => {
                if number > self.others.len() {
                    self.others.resize_with(number, || None);
                }
                self.others[number - 1].get_or_insert_default()
            }
        }
    }

    /// One of them takes no memory any more, if it is empty and no snapshot knows it.
    pub fn forget_if_empty(&mut self, index: DbIndex) {
        let Some(number) = index.index().checked_sub(1) else { return };
        let Some(Some(db)) = self.others.get(number) else { return };
        if !db.table.is_empty() || db.cut.is_some() {
            return;
        }
        self.others[number] = None;
        if self.others.iter().all(Option::is_none) {
            self.others = Vec::new();
        }
    }

    /// All of them with their numbers.
    pub fn all_mut(&mut self) -> impl Iterator<Item = (DbIndex, &mut Db)> {
        let others = self.others.iter_mut().map(Option::as_deref_mut);
        let all = std::iter::once(Some(&mut self.first)).chain(others);
        (0..).map(DbIndex).zip(all).filter_map(|(index, db)| Some((index, db?)))
    }

    /// The first number from this one on that one of them had at the cut.
    pub fn next_cut(&self, from: DbIndex) -> Option<DbIndex> {
        let others = self.others.iter().filter_map(Option::as_deref);
        let all = std::iter::once(&self.first).chain(others);
        all.filter_map(|db| db.cut).filter(|cut| *cut >= from).min()
    }

    /// The one that had this number at the cut of the snapshot that runs.
    pub fn cut_as(&mut self, cut: DbIndex) -> Option<&mut Db> {
        self.all_mut().find(|(_, db)| db.cut == Some(cut)).map(|(_, db)| db)
    }

    /// Exchanges two. The end of this, for all partitions, is [`ChangeObserver::swapped`].
    pub fn swap(&mut self, left: DbIndex, right: DbIndex, id: PartitionId, space: &Keyspace) {
        let taken = std::mem::take(self.at(left));
        let other = std::mem::replace(self.at(right), taken);
        *self.at(left) = other;
        for db in [left, right] {
            space.sizes.of(db).publish(id, self.at(db));
        }
    }

    /// Takes those of `other`, where these are empty. The end of this, for all partitions, is
    /// [`ChangeObserver::flushed`].
    pub fn take_all(&mut self, other: &mut Databases, id: PartitionId, space: &Keyspace) {
        for (index, db) in other.all_mut().filter(|(_, db)| !db.table.is_empty()) {
            let taken = std::mem::take(db);
            let db = self.at(index);
            *db = taken;
            space.sizes.of(index).publish(id, db);
        }
    }
}

impl Partition {
    /// Empties one database; its records, unless a snapshot has them now, and who is to be woken.
    /// The end of this, for all partitions, is [`ChangeObserver::flushed`].
    pub(crate) fn flush(
        &mut self,
        index: DbIndex,
        id: PartitionId,
        sizes: &Sizes,
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

/// Who hears of a change of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Who waits for the key, who watches or remembers it, who listens.
    ByAll,
    /// As before, but not who watches or remembers it: what it has seen is the same.
    Unwatched,
    /// Only who records all changes.
    Silently,
}

/// One key has changed.
#[derive(Clone, Copy, Debug)]
pub struct Changed<'c> {
    /// Its database.
    pub db: DbIndex,
    /// The key: it has another value or deadline than before, or is there, or gone.
    pub key: &'c [u8],
    /// What happened.
    pub event: Event,
    /// Who hears of it.
    pub heard: Heard,
    /// Whose command it was; 0 if nobody asks.
    pub author: ClientId,
}

/// Somebody who is told of every change once it was made, in order, with the partition of the key
/// (for a whole database: with all of them) still held. Asked only while something is
/// [`Wanted`](crate::Wanted).
pub trait ChangeObserver {
    /// A command has changed a key.
    fn changed(&mut self, changed: Changed<'_>);
    /// A key is gone because its deadline has passed.
    fn expired(&mut self, db: DbIndex, key: &[u8]);
    /// Elements of a key are gone because their own deadline has passed; the last of them with the
    /// key.
    fn elements_expired(&mut self, db: DbIndex, key: &[u8], event: Event, was_last: bool);
    /// A key is gone because there was no room.
    fn evicted(&mut self, db: DbIndex, key: &[u8]);
    /// All keys of one database, or of all, are gone.
    fn flushed(&mut self, only: Option<DbIndex>);
    /// Two databases have changed places.
    fn swapped(&mut self, left: DbIndex, right: DbIndex);
}

/// One database in one partition, to be changed; see the module.
pub(crate) struct Changes<'l, 'k> {
    db: &'l mut Db,
    around: Around<'l, 'k>,
    #[cfg(debug_assertions)]
    is_unpublished: bool,
}

/// What has happened to a key.
#[derive(Clone, Copy)]
enum What {
    Changed(Event, Heard),
    Expired,
    ElementsExpired(Event, bool),
    Evicted,
}

impl What {
    /// Whether the key is gone. It may be one whose deadline had passed: of a replica's it is the
    /// primary that says so.
    fn is_removal(self) -> bool {
        match self {
            What::Expired | What::Evicted => true,
            What::Changed(event, _) => event == DEL,
            What::ElementsExpired(..) => false,
        }
    }
}

/// Who is told.
struct Around<'l, 'k> {
    rest: &'l mut Rest,
    woken: &'l mut Woken,
    scope: Scope<'k>,
    partition: PartitionId,
}

impl<'l, 'k> Changes<'l, 'k> {
    #[inline]
    pub fn of(
        held: &'l mut Partition,
        woken: &'l mut Woken,
        partition: PartitionId,
        scope: Scope<'k>,
    ) -> Self {
        let db = held.databases.at(scope.db);
        let around = Around { rest: &mut held.rest, woken, scope, partition };
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

    /// The records, to be read.
    #[inline]
    pub fn table(&self) -> &Table<Object> {
        &self.db.table
    }

    #[inline]
    pub fn timed(&self) -> &Timed {
        &self.db.timed
    }

    /// One step hotter: no change.
    #[inline]
    pub fn touch(&mut self, place: Place) {
        self.db.table.touch(place);
    }

    /// Keeps this beside the string at a place, with the flags it has: no change.
    pub fn keep_beside(&mut self, place: Place, tail: Tail) {
        debug_assert_eq!(self.db.table.tail(place).flags, tail.flags, "flags are part of a value");
        self.db.table.set_tail(place, tail);
    }

    /// A number that no key has had, also before the last start of the process: it is at least the
    /// time.
    pub fn next_cas(&mut self) -> u64 {
        let Around { rest, scope, partition, .. } = &mut self.around;
        let UnixMs(ms) = scope.now;
        let first = ms.cast_unsigned() << BELOW_TIME_BITS & CAS_MAX;
        rest.last_cas = (first | partition.index() as u64).max(rest.last_cas + CAS_STEP);
        rest.last_cas
    }

    /// When such a number was given; some milliseconds later where many were.
    pub fn time_of_cas(cas: u64) -> UnixMs {
        UnixMs((cas >> BELOW_TIME_BITS).cast_signed())
    }

    /// As hot as this: no change.
    pub fn set_hotness(&mut self, place: Place, hotness: u8) {
        self.db.table.set_hotness(place, hotness);
    }

    /// The table, to change this one key, which is at `place` or not there. Ends in
    /// [`Changes::publish`] or [`Changes::unchanged`].
    #[inline]
    pub fn change(
        &mut self,
        key: Key<'_>,
        place: Option<Place>,
        manner: Manner,
    ) -> &mut Table<Object> {
        self.set_unpublished(true);
        self.tell_before(key, place, manner);
        &mut self.db.table
    }

    /// Whoever must keep what a key is, before it changes.
    #[inline]
    fn tell_before(&mut self, key: Key<'_>, place: Option<Place>, manner: Manner) {
        if self.around.woken.keeps() | self.around.rest.saving.is_some() {
            self.around.keep(self.db, key, place, manner);
        }
    }

    /// The collection at a place, to be changed, if it is one of this type. As [`Changes::change`].
    #[inline]
    pub fn collection_mut<C: Collection>(&mut self, key: Key<'_>, place: Place) -> Option<&mut C> {
        self.tell_before(key, Some(place), Manner::InPlace);
        let found = self.db.table.object_mut(place).and_then(C::of_mut);
        #[cfg(debug_assertions)]
        {
            self.is_unpublished |= found.is_some();
        }
        found
    }

    /// The bytes of a string at a place, to be changed in place, if it is one. As
    /// [`Changes::change`].
    pub fn string_mut(&mut self, key: Key<'_>, place: Place) -> Option<&mut [u8]> {
        self.tell_before(key, Some(place), Manner::InPlace);
        let found = self.db.table.string_mut(place);
        #[cfg(debug_assertions)]
        {
            self.is_unpublished |= found.is_some();
        }
        found
    }

    /// The object at a place, from which elements are removed because their deadline has passed:
    /// that is not undone. Ends as [`Changes::change`] does.
    pub fn object_to_expire(&mut self, place: Place) -> Option<&mut Object> {
        self.set_unpublished(true);
        if self.around.rest.saving.is_some() {
            self.around.save(self.db, place, Manner::InPlace);
        }
        self.db.table.object_mut(place)
    }

    /// Whether elements stay that have expired, because a snapshot is about to write the value.
    pub fn keeps_elements(&mut self, place: Place) -> bool {
        let Db { table, cut, .. } = &*self.db;
        let saving = self.around.rest.saving.as_mut();
        saving.is_some_and(|saving| {
            !table.is_saved(place) && saving.writes_in_parts(table, place, *cut)
        })
    }

    /// Debug builds: whether the change at hand has been published.
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

    /// The change turned out to be none, or was put back.
    #[inline]
    pub fn unchanged(&mut self) {
        self.set_unpublished(false);
    }

    /// The end of a change: see the module.
    #[inline]
    pub fn publish(&mut self, key: &[u8], event: Event) {
        self.set_unpublished(false);
        if let Some(recorder) = self.around.scope.recorder {
            recorder.note_change();
        }
        self.around.follow_up(key, What::Changed(event, Heard::ByAll));
    }

    /// The end of a change of which not all are told that hear of others.
    pub fn publish_to(&mut self, key: &[u8], event: Event, heard: Heard) {
        self.set_unpublished(false);
        let Around { rest, woken, scope, .. } = &mut self.around;
        scope.tally.changes.add(1);
        if let Some(recorder) = scope.recorder {
            recorder.note_change();
        }
        let waiters = &rest.waiters;
        if heard == Heard::Unwatched && !waiters.is_empty() && waiters.has(scope.db, key) {
            woken.is_ready(scope.db, key);
        }
        if scope.space.wanted() != Wanted::NOTHING {
            self.around.tell(key, What::Changed(event, heard));
        }
    }

    /// The end of [`Changes::object_to_expire`]; the key goes if nothing is left.
    pub fn publish_expired_elements(
        &mut self,
        key: Key<'_>,
        place: Place,
        event: Event,
        is_empty: bool,
    ) {
        self.set_unpublished(false);
        if is_empty {
            let record = self.db.table.remove(place);
            self.db.timed.forget(key.bytes);
            self.around.gone(self.db, record);
            self.tidy(key.hash);
        }
        self.around.follow_up(key.bytes, What::ElementsExpired(event, is_empty));
    }

    /// An event that is no change by itself.
    #[inline]
    pub fn announce(&mut self, key: &[u8], event: Event) {
        if self.around.scope.space.wanted() != Wanted::NOTHING {
            self.around.announce(key, event);
        }
    }

    /// Notes that elements of the key have this deadline; whether the sweep did not know yet.
    pub fn note_elements(&mut self, key: &[u8], deadline: UnixMs) {
        if self.db.timed.lower(key, deadline) {
            self.publish_sizes();
            self.note_deadline(deadline);
        }
    }

    /// What is known of the elements' deadlines after a look at them.
    pub fn set_elements(&mut self, key: &[u8], deadline: Option<UnixMs>) {
        self.db.timed.set(key, deadline);
        self.publish_sizes();
    }

    /// Tells the sweep of a deadline.
    pub fn note_deadline(&mut self, deadline: UnixMs) {
        let Around { scope, partition, woken, .. } = &mut self.around;
        let sweeper = scope.space.sweep.lower(*partition, deadline);
        woken.add(sweeper);
    }

    /// Copies the counts.
    #[inline]
    pub fn publish_sizes(&self) {
        let Around { scope, partition, .. } = &self.around;
        scope.space.sizes.of(scope.db).publish(*partition, self.db);
    }

    /// Takes a record out, to be put elsewhere.
    pub fn take(&mut self, key: Key<'_>, place: Place) -> OwnedRecord<Object> {
        let record = self.change(key, Some(place), Manner::InPlace).remove(place);
        self.db.timed.forget(key.bytes);
        self.tidy(key.hash);
        record
    }

    /// Removes a record.
    pub fn remove(&mut self, key: Key<'_>, place: Place) {
        let record = self.change(key, Some(place), Manner::Remove).remove(place);
        self.db.timed.forget(key.bytes);
        self.around.gone(self.db, record);
        self.tidy(key.hash);
    }

    /// Removes a key whose deadline has passed.
    #[cold]
    pub fn expire(&mut self, key: Key<'_>, place: Place) {
        let record = self.db.table.remove(place);
        let source = Source::of(self.db);
        self.around.lost(&mut self.db.timed, source, record);
        self.tidy(key.hash);
    }

    /// Removes a key because there is no room.
    pub fn evict(&mut self, key: Key<'_>, place: Place) {
        let record = self.db.table.remove(place);
        let source = Source::of(self.db);
        self.around.evicted(&mut self.db.timed, source, record);
        self.tidy(key.hash);
    }

    /// Removes some keys because there is no room, until about so many bytes are free.
    pub fn evict_some(&mut self, choice: Choice, wanted_bytes: usize, rng: &mut Rng) -> Freed {
        let Changes { db, around, .. } = self;
        let source = Source::of(db);
        let Db { table, timed, .. } = &mut **db;
        let space = around.scope.space;
        let (mut bytes, mut last) = (0, None);
        let mut random = |bound| rng.below(bound);
        let among = Among { lately: &space.eviction.lately, number: around.partition.index() };
        let evicted = table.evict(choice, among, &mut random, &mut |record| {
            bytes += record.bytes();
            last = Some(space.hash(record.key()));
            around.evicted(timed, source, record);
            if bytes < wanted_bytes { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        if let Some(hash) = last {
            // All of them were in one segment.
            self.tidy(hash);
        }
        let (keys, candidates) = (evicted.taken, evicted.candidates);
        Freed { bytes, keys, candidates, ..Freed::default() }
    }

    /// The segment of a new key is full: expired records go first, then it grows.
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

    /// Removes the expired of about this many records.
    pub fn sweep(&mut self, from: SweepCursor, most: usize) -> Swept {
        let Changes { db, around, .. } = self;
        let source = Source::of(db);
        let Db { table, timed, .. } = &mut **db;
        let (space, now) = (around.scope.space, around.scope.removed_at());
        let mut hashes = Vec::new();
        let swept = table.sweep(from, now, most, &mut |record| {
            hashes.push(space.hash(record.key()));
            around.lost(timed, source, record);
        });
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

/// Which table a record comes from.
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

impl Around<'_, '_> {
    /// Before a key changes: keeps what it is.
    #[cold]
    fn keep(&mut self, db: &mut Db, key: Key<'_>, place: Option<Place>, manner: Manner) {
        if let Some(undo) = &mut self.woken.undo {
            undo.keep(&db.table, self.scope.db, key, place);
        }
        if let Some(place) = place {
            self.save(db, place, manner);
        }
    }

    /// Before a record changes: a snapshot writes it, if it has to.
    fn save(&mut self, db: &mut Db, place: Place, manner: Manner) {
        let Db { table, cut: Some(cut), .. } = db else { return };
        if let Some(saving) = &mut self.rest.saving
            && !table.is_saved(place)
        {
            saving.before_change(table, *cut, (place, manner), self.woken);
        }
    }

    /// The table has handed out a record whose deadline has passed.
    fn lost(&mut self, timed: &mut Timed, source: Source, record: OwnedRecord<Object>) {
        self.scope.tally.expired.add(1);
        timed.forget(record.key());
        self.record_gone(record.key());
        self.follow_up(record.key(), What::Expired);
        self.leave(source, record);
    }

    /// The table has handed out a record because there is no room.
    fn evicted(&mut self, timed: &mut Timed, source: Source, record: OwnedRecord<Object>) {
        self.scope.tally.evicted.add(1);
        timed.forget(record.key());
        self.record_gone(record.key());
        self.follow_up(record.key(), What::Evicted);
        self.leave(source, record);
    }

    /// Records that a key is gone by itself.
    fn record_gone(&self, key: &[u8]) {
        if let Some(recorder) = self.scope.recorder {
            recorder.record_lasting(self.scope.db.0, &[b"UNLINK", key]);
        }
    }

    /// A record has left its table and is freed, once a snapshot has it, too.
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

    /// Everything that follows a change of one key.
    #[inline]
    fn follow_up(&mut self, key: &[u8], what: What) {
        self.scope.tally.changes.add(1);
        if !self.rest.waiters.is_empty() {
            self.wake(key, what.is_removal());
        }
        if self.scope.space.wanted() != Wanted::NOTHING {
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
    fn tell(&mut self, key: &[u8], what: What) {
        let Scope { space, db, .. } = self.scope;
        let is_seen = !matches!(what, What::Changed(_, Heard::Unwatched | Heard::Silently));
        let readers = if is_seen { self.rest.waiters.tracked.take(key) } else { Readers::new() };
        let author = self.woken.author();
        let mut listeners = Listeners::new(space, self.woken, readers);
        match what {
            What::Changed(event, heard) => {
                listeners.changed(Changed { db, key, event, heard, author });
            }
            What::Expired => listeners.expired(db, key),
            What::ElementsExpired(event, was_last) => {
                listeners.elements_expired(db, key, event, was_last);
            }
            What::Evicted => listeners.evicted(db, key),
        }
    }

    #[cold]
    fn announce(&mut self, key: &[u8], event: Event) {
        let Scope { space, db, .. } = self.scope;
        Listeners::new(space, self.woken, Readers::new()).announce(db, key, event);
    }
}
