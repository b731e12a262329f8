//! One key, opened: the value as it is, the ways to change it, and the funnel every change ends in.
//!
//! A handler opens a key, looks, acts, and then either publishes the change or says that nothing
//! changed. [`Opened::publish`] does everything that must follow a change: the counts, waking who
//! waits for the key, later WATCH, notifications and the journal. A change that was not published
//! is a bug; debug builds panic when an `Opened` with one is dropped.
//!
//! Invariants
//! 1. `place` is `Some` exactly when the key is present and its deadline has not passed.
//! 2. Every method that changes the table sets `unpublished`; only `publish` clears it.

use pantala_base::UnixMs;
use pantala_table::{OwnedRecord, Place, StrRef, Table, ValueRef, is_expired};
use pantala_values::{Collection, Object, Type};

use crate::effects::Wanted;
use crate::event::{DEL, EXPIRED, Event, HEXPIRED_BY_TIME, KEY_MISS, NEW, SEXPIRED, ZEXPIRED};
use crate::key::{DbIndex, Key, PartitionId};
use crate::locked::{Held, Scope};
use crate::partition::{Db, Waiters};
use crate::ticket::Woken;

/// The key holds another type than the command works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongType;

/// What becomes of a key's deadline when its value is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// It stays what it was.
    Keep,
    /// The key lives until it is removed.
    Never,
    /// The key lives until this moment.
    At(UnixMs),
}

/// See the module.
pub struct Opened<'l, 'k> {
    db: &'l mut Db,
    waiters: &'l mut Waiters,
    woken: &'l mut Woken,
    scope: Scope<'k>,
    partition: PartitionId,
    key: Key<'l>,
    place: Option<Place>,
    unpublished: bool,
}

impl<'l, 'k> Opened<'l, 'k> {
    #[inline]
    pub(crate) fn find(
        held: &'l mut Held<'_>,
        woken: &'l mut Woken,
        partition: PartitionId,
        scope: Scope<'k>,
        key: Key<'l>,
    ) -> Self {
        let (db, waiters) = held.db_and_waiters(scope.db);
        let place = db.table.find(key.hash, key.bytes);
        let mut opened =
            Opened { db, waiters, woken, scope, partition, key, place, unpublished: false };
        if let Some(place) = place
            && let Some(deadline) = opened.db.table.deadline(place)
            && is_expired(deadline, scope.now)
        {
            opened.expire();
        }
        opened
    }

    #[cold]
    fn expire(&mut self) {
        self.remove();
        self.scope.tally.expired.add(1);
        self.publish(EXPIRED);
        self.woken.last_effect_lasts();
    }

    /// Removes elements of a collection whose own deadline has passed, about `limit` at most, and
    /// tells of it; the key goes with its last element. How many were removed. What is due and was
    /// not removed, readers do not see.
    pub fn expire_elements(&mut self, limit: usize) -> usize {
        let now = self.scope.now;
        let object = self.place.and_then(|place| self.db.table.object_mut(place));
        let Some(object) = object else {
            self.db.timed.forget(self.key.bytes);
            self.publish_sizes();
            return 0;
        };
        let removed = object.expire(now, limit);
        let (is_empty, next) = (object.is_empty(), object.next_deadline());
        let event = gone(object.kind());
        self.db.timed.set(self.key.bytes, next);
        self.publish_sizes();
        if removed > 0 {
            self.scope.tally.expired_elements.add(removed as u64);
            self.publish(event);
            if is_empty {
                self.remove();
                self.unpublished = false;
                self.announce(DEL);
            }
        }
        removed
    }

    /// Whether [`Opened::expire_elements`] has more to do.
    pub(crate) fn has_due_elements(&self) -> bool {
        self.db.timed.is_due(self.key.bytes, self.scope.now)
    }

    /// Notes when the sweep must look into the collection.
    #[inline]
    fn note_elements(&mut self, deadline: Option<UnixMs>) {
        if let Some(deadline) = deadline
            && self.db.timed.lower(self.key.bytes, deadline)
        {
            self.publish_sizes();
            self.lower_bound(deadline);
        }
    }

    #[inline]
    pub(crate) fn count_read(&mut self) {
        self.tally_read();
        if self.place.is_none() {
            self.announce(KEY_MISS);
        }
    }

    #[inline]
    pub(crate) fn tally_read(&self) {
        match self.place {
            Some(_) => self.scope.tally.hits.add(1),
            None => self.scope.tally.misses.add(1),
        }
    }

    #[inline]
    pub(crate) fn touch(&mut self) {
        if let Some(place) = self.place
            && self.scope.touch
        {
            self.db.table.touch(place);
        }
    }

    /// The key itself.
    pub fn key(&self) -> Key<'l> {
        self.key
    }

    /// Whether there is a value.
    #[inline]
    pub fn exists(&self) -> bool {
        self.place.is_some()
    }

    /// The table and the place in it, for what only the table knows (encoding, sizes, hotness).
    pub fn record(&self) -> Option<(&Table<Object>, Place)> {
        self.place.map(|place| (&self.db.table, place))
    }

    /// The type of the value, if there is one.
    pub fn kind(&self) -> Option<Type> {
        let place = self.place?;
        Type::from_tag(self.db.table.type_tag(place))
    }

    /// The string, if there is one.
    #[inline]
    pub fn string(&self) -> Result<Option<StrRef<'_>>, WrongType> {
        match self.place {
            None => Ok(None),
            Some(place) => match self.db.table.value(place) {
                ValueRef::Str(string) => Ok(Some(string)),
                ValueRef::Object(_) => Err(WrongType),
            },
        }
    }

    /// For whom, when and where the key was opened.
    #[inline]
    pub fn scope(&self) -> &Scope<'k> {
        &self.scope
    }

    /// The collection, if there is one.
    #[inline]
    pub fn collection<C: Collection>(&self) -> Result<Option<&C>, WrongType> {
        let Some(place) = self.place else { return Ok(None) };
        match self.db.table.value(place) {
            ValueRef::Str(_) => Err(WrongType),
            ValueRef::Object(object) => C::of(object).map(Some).ok_or(WrongType),
        }
    }

    /// The collection, to be changed, if there is one. Ends in [`Opened::publish_collection`],
    /// [`Opened::publish`] or [`Opened::unchanged`].
    #[inline]
    pub fn collection_mut<C: Collection>(&mut self) -> Result<Option<&mut C>, WrongType> {
        let Some(place) = self.place else { return Ok(None) };
        let object = self.db.table.object_mut(place).and_then(C::of_mut).ok_or(WrongType)?;
        self.unpublished = true;
        Ok(Some(object))
    }

    /// The collection, to be changed; an empty one where there is nothing. The caller puts
    /// something into it, or removes the key again.
    #[inline]
    pub fn collection_or_new<C: Collection>(&mut self) -> Result<&mut C, WrongType> {
        if self.place.is_none() {
            self.insert_object(C::default().into_object(), None);
        }
        self.collection_mut::<C>().map(|found| found.expect("it was inserted"))
    }

    /// Sets the key to a collection, whatever it was.
    pub fn set_collection<C: Collection>(&mut self, value: C, expiry: Expiry) {
        self.unpublished = true;
        let Some(place) = self.place else {
            let deadline = match expiry {
                Expiry::At(deadline) => Some(deadline),
                Expiry::Keep | Expiry::Never => None,
            };
            return self.insert_object(value.into_object(), deadline);
        };
        let elements = value.next_deadline();
        if let Some(garbage) = self.db.table.set_object(place, value.into_object()) {
            self.scope.space.discard_value(garbage, self.scope.tally);
        }
        self.note_elements(elements);
        match expiry {
            Expiry::Keep => {}
            Expiry::Never => self.change_deadline(place, None),
            Expiry::At(deadline) => self.change_deadline(place, Some(deadline)),
        }
    }

    fn insert_object(&mut self, object: Object, deadline: Option<UnixMs>) {
        self.put(OwnedRecord::new_object(self.key.bytes, object, deadline));
    }

    /// The end of a change of a collection: publishes it, notes its elements' deadlines, and
    /// removes the key if nothing is left, which is an event of its own. Whether it was removed.
    #[inline]
    pub fn publish_collection<C: Collection>(&mut self, event: Event) -> bool {
        self.publish(event);
        let Ok(Some(left)) = self.collection::<C>() else { return false };
        let (is_empty, elements) = (left.is_empty(), left.next_deadline());
        self.note_elements(elements);
        if is_empty {
            self.remove();
            self.unpublished = false;
            self.announce(DEL);
        }
        is_empty
    }

    /// When the key will be gone; `None` for a key without deadline and for no key.
    #[inline]
    pub fn deadline(&self) -> Option<UnixMs> {
        self.place.and_then(|place| self.db.table.deadline(place))
    }

    /// Sets the key to a string, whatever it was.
    #[inline]
    pub fn set_string(&mut self, value: &[u8], expiry: Expiry) {
        self.unpublished = true;
        let Some(place) = self.place else {
            let deadline = match expiry {
                Expiry::At(deadline) => Some(deadline),
                Expiry::Keep | Expiry::Never => None,
            };
            return self.insert_string(value, deadline);
        };
        if let Some(garbage) = self.db.table.set_string(place, value) {
            self.scope.space.discard_value(garbage, self.scope.tally);
        }
        match expiry {
            Expiry::Keep => {}
            Expiry::Never => self.change_deadline(place, None),
            Expiry::At(deadline) => self.change_deadline(place, Some(deadline)),
        }
    }

    /// Sets the key to a number's text, keeping its deadline.
    #[inline]
    pub fn set_int(&mut self, value: i64) {
        self.unpublished = true;
        match self.place {
            Some(place) => {
                if let Some(garbage) = self.db.table.set_int(place, value) {
                    self.scope.space.discard_value(garbage, self.scope.tally);
                }
            }
            None => {
                let mut digits = [0; 20];
                let text = pantala_base::number::fmt_i64(value, &mut digits);
                self.insert_string(text, None);
            }
        }
    }

    fn insert_string(&mut self, value: &[u8], deadline: Option<UnixMs>) {
        loop {
            let inserted =
                self.db.table.insert_string(self.key.hash, self.key.bytes, value, deadline);
            match inserted {
                Ok(place) => break self.place = Some(place),
                Err(_full) => self.make_room(),
            }
        }
        self.after_insert(deadline);
    }

    /// Puts a record taken elsewhere under this key, which must be free.
    pub fn put(&mut self, record: OwnedRecord<Object>) {
        debug_assert!(self.place.is_none(), "the handler removes what is there first");
        self.unpublished = true;
        let deadline = record.deadline();
        let is_named = record.key() == self.key.bytes;
        let mut record = if is_named { record } else { record.with_key(self.key.bytes) };
        loop {
            match self.db.table.insert_record(self.key.hash, record) {
                Ok(place) => break self.place = Some(place),
                Err(back) => record = back,
            }
            self.make_room();
        }
        self.after_insert(deadline);
        let object = self.place.and_then(|place| self.db.table.object(place));
        let elements = object.and_then(Object::next_deadline);
        self.note_elements(elements);
    }

    fn after_insert(&mut self, deadline: Option<UnixMs>) {
        if let Some(deadline) = deadline {
            self.lower_bound(deadline);
        }
        self.publish_sizes();
        self.announce(NEW);
    }

    fn lower_bound(&mut self, deadline: UnixMs) {
        let sweeper = self.scope.space.sweep.lower(self.partition, deadline);
        self.woken.add(sweeper);
    }

    /// The segment is full: expired records go first, then it grows.
    #[cold]
    fn make_room(&mut self) {
        let Opened { db, waiters, woken, scope, key, .. } = self;
        let (space, Db { table, timed }) = (scope.space, &mut **db);
        table.make_room(key.hash, scope.now, &mut |bytes| space.hash(bytes), &mut |expired| {
            scope.tally.expired.add(1);
            timed.forget(expired.key());
            follow_up(waiters, woken, scope, expired.key(), EXPIRED);
            woken.last_effect_lasts();
            space.discard(expired, scope.tally);
        });
    }

    /// Sets or clears the deadline of a key that is there.
    pub fn set_deadline(&mut self, deadline: Option<UnixMs>) {
        if let Some(place) = self.place {
            self.unpublished = true;
            self.change_deadline(place, deadline);
        }
    }

    #[inline]
    fn change_deadline(&mut self, place: Place, deadline: Option<UnixMs>) {
        if self.db.table.deadline(place) == deadline {
            return;
        }
        self.db.table.set_deadline(place, deadline);
        if let Some(deadline) = deadline {
            self.lower_bound(deadline);
        }
        self.publish_sizes();
    }

    /// Marks a key that is there as one that eviction passes over, or takes the mark away; whether
    /// it was the other way before.
    pub fn set_sticky(&mut self, sticky: bool) -> bool {
        let Some(place) = self.place else { return false };
        let changes = self.db.table.sticky(place) != sticky;
        if changes {
            self.unpublished = true;
            self.db.table.set_sticky(place, sticky);
        }
        changes
    }

    /// Appends to a string that is there; the new length in bytes.
    pub fn append(&mut self, tail: &[u8]) -> usize {
        let Some(place) = self.place else { return 0 };
        self.unpublished = true;
        self.db.table.append(place, tail)
    }

    /// Makes a string that is there shorter, or longer with zero bytes.
    pub fn resize(&mut self, length: usize) {
        if let Some(place) = self.place {
            self.unpublished = true;
            self.db.table.resize(place, length);
        }
    }

    /// Overwrites part of a string that is there, filling a gap with zero bytes.
    pub fn set_range(&mut self, offset: usize, bytes: &[u8]) {
        if let Some(place) = self.place {
            self.unpublished = true;
            self.db.table.set_range(place, offset, bytes);
        }
    }

    /// The bytes of a string that is there, to be changed in place. A number becomes text.
    pub fn string_mut(&mut self) -> Result<Option<&mut [u8]>, WrongType> {
        let Some(place) = self.place else { return Ok(None) };
        let bytes = self.db.table.string_mut(place).ok_or(WrongType)?;
        self.unpublished = true;
        Ok(Some(bytes))
    }

    /// Removes the key; what it held is freed in the background if that takes long.
    pub fn remove(&mut self) -> bool {
        let taken = self.take();
        let found = taken.is_some();
        if let Some(record) = taken {
            self.scope.space.discard(record, self.scope.tally);
        }
        found
    }

    /// Removes the key and hands out its record.
    pub fn take(&mut self) -> Option<OwnedRecord<Object>> {
        let place = self.place.take()?;
        self.unpublished = true;
        let record = self.db.table.remove(place);
        self.db.timed.forget(self.key.bytes);
        let space = self.scope.space;
        self.db.table.tidy_after_remove(self.key.hash, &mut |bytes| space.hash(bytes));
        self.publish_sizes();
        Some(record)
    }

    /// A copy of value, deadline and stickiness under another key, to be put elsewhere.
    pub fn copy(&self, key: &[u8]) -> Option<OwnedRecord<Object>> {
        let place = self.place?;
        let table = &self.db.table;
        let copied = table.copy_string(place, key).or_else(|| {
            let object = table.object(place).map(Object::duplicate)?;
            Some(OwnedRecord::new_object(key, object, table.deadline(place)))
        });
        copied.map(|record| record.with_stickiness(table.sticky(place)))
    }

    #[inline]
    fn publish_sizes(&self) {
        let Opened { db, scope, partition, .. } = self;
        scope.space.sizes.of(scope.db).publish(*partition, db);
    }

    /// The end of every change: see the module.
    #[inline]
    pub fn publish(&mut self, event: Event) {
        self.unpublished = false;
        follow_up(self.waiters, self.woken, &self.scope, self.key.bytes, event);
    }

    /// The end of a change that nobody waits for and no client is told of: what consumers of a
    /// stream have read. It counts, and belongs into a journal.
    #[inline]
    pub fn publish_silently(&mut self) {
        self.unpublished = false;
        self.scope.tally.changes.add(1);
    }

    /// The end of a change of what stands around the value, as the groups of a stream: an event,
    /// and who waits for the key is served, but who watches or remembers it hears of nothing. What
    /// a command shows that reads the whole value is never changed so: it watches the key, too.
    pub fn publish_unwatched(&mut self, event: Event) {
        self.publish_silently();
        let (db, key) = (self.scope.db, self.key.bytes);
        if !self.waiters.is_empty() && self.waiters.has(db, key) {
            self.woken.is_ready(db, key);
        }
        self.announce(event);
    }

    /// Tells listeners of an event that is no change by itself: the second event of one that is
    /// published already, or none.
    #[inline]
    pub fn announce(&mut self, event: Event) {
        let wanted = self.scope.space.wanted();
        if wanted != Wanted::NOTHING {
            tell_event(self.woken, wanted, &self.scope, self.key.bytes, event);
        }
    }

    /// The change turned out to be none that anybody needs to hear of.
    #[inline]
    pub fn unchanged(&mut self) {
        self.unpublished = false;
    }
}

/// What is told when elements of such a collection expire. Only a hash's is the reference's.
fn gone(kind: Type) -> Event {
    match kind {
        Type::Set => SEXPIRED,
        Type::SortedSet => ZEXPIRED,
        _ => HEXPIRED_BY_TIME,
    }
}

/// Everything that follows a change of one key.
#[inline]
pub(crate) fn follow_up(
    waiters: &mut Waiters,
    woken: &mut Woken,
    scope: &Scope<'_>,
    key: &[u8],
    event: Event,
) {
    scope.tally.changes.add(1);
    if !waiters.is_empty() {
        wake(waiters, woken, scope.db, key);
    }
    let wanted = scope.space.wanted();
    if wanted != Wanted::NOTHING {
        tell_change(waiters, woken, wanted, scope, key, event);
    }
}

#[cold]
fn tell_change(
    waiters: &mut Waiters,
    woken: &mut Woken,
    wanted: Wanted,
    scope: &Scope<'_>,
    key: &[u8],
    event: Event,
) {
    let effects = woken.effects();
    effects.note_change(&mut waiters.tracked, wanted, (scope.db, key), event);
    woken.tell_if_too_many(scope.space);
}

#[cold]
fn tell_event(woken: &mut Woken, wanted: Wanted, scope: &Scope<'_>, key: &[u8], event: Event) {
    let effects = woken.effects();
    effects.note_event(wanted, (scope.db, key), event);
    woken.tell_if_too_many(scope.space);
}

#[cold]
fn wake(waiters: &mut Waiters, woken: &mut Woken, db: DbIndex, key: &[u8]) {
    waiters.touch(db, key);
    if waiters.has(db, key) {
        woken.is_ready(db, key);
    }
}

#[cfg(debug_assertions)]
impl Drop for Opened<'_, '_> {
    fn drop(&mut self) {
        assert!(
            !self.unpublished || std::thread::panicking(),
            "a change was neither published nor called unchanged"
        );
    }
}
