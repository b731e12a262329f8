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
use pantala_values::{Object, Type};

use crate::event::{EXPIRED, Event};
use crate::key::{Key, PartitionId};
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
    }

    #[inline]
    pub(crate) fn count_read(&self) {
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
    }

    fn after_insert(&mut self, deadline: Option<UnixMs>) {
        if let Some(deadline) = deadline {
            self.lower_bound(deadline);
        }
        self.publish_sizes();
    }

    fn lower_bound(&mut self, deadline: UnixMs) {
        let sweeper = self.scope.space.sweep.lower(self.partition, deadline);
        self.woken.add(sweeper);
    }

    /// The segment is full: expired records go first, then it grows.
    #[cold]
    fn make_room(&mut self) {
        let Opened { db, waiters, woken, scope, key, .. } = self;
        let space = scope.space;
        db.table.make_room(key.hash, scope.now, &mut |bytes| space.hash(bytes), &mut |expired| {
            scope.tally.expired.add(1);
            follow_up(waiters, woken, scope, expired.key(), EXPIRED);
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
        let space = self.scope.space;
        self.db.table.tidy_after_remove(self.key.hash, &mut |bytes| space.hash(bytes));
        self.publish_sizes();
        Some(record)
    }

    /// A copy of value and deadline under another key, to be put elsewhere.
    pub fn copy(&self, key: &[u8]) -> Option<OwnedRecord<Object>> {
        let place = self.place?;
        let table = &self.db.table;
        table.copy_string(place, key).or_else(|| {
            let object = table.object(place).map(Object::duplicate)?;
            Some(OwnedRecord::new_object(key, object, table.deadline(place)))
        })
    }

    #[inline]
    fn publish_sizes(&self) {
        let Opened { db, scope, partition, .. } = self;
        scope.space.sizes.of(scope.db).publish(*partition, &db.table);
    }

    /// The end of every change: see the module.
    #[inline]
    pub fn publish(&mut self, event: Event) {
        self.unpublished = false;
        follow_up(self.waiters, self.woken, &self.scope, self.key.bytes, event);
    }

    /// Tells listeners of a second event of a change that is published already.
    #[inline]
    pub fn announce(&mut self, event: Event) {
        if let Some(listener) = self.scope.space.listener() {
            listener.changed(self.scope.db, self.key.bytes, event);
        }
    }

    /// The change turned out to be none that anybody needs to hear of.
    #[inline]
    pub fn unchanged(&mut self) {
        self.unpublished = false;
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
        woken.add(waiters.take(scope.db, key));
    }
    if let Some(listener) = scope.space.listener() {
        listener.changed(scope.db, key, event);
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
