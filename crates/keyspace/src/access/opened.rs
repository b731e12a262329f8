//! One opened key: its value, and the ways to change it.
//!
//! A handler opens a key, looks, acts, and then either publishes the change or declares that
//! nothing changed. Every change goes through `changes/change`, which tells those concerned before
//! and after it; debug builds panic if a change was not published.
//!
//! Invariant
//! 1. `place` is `Some` exactly when the key is present and its deadline has not passed, or the
//!    scope sees expired keys.

use pantala_base::UnixMs;
use pantala_table::{
    CAS_MAX, DiscardedValue, OwnedRecord, RecordPlace, StrRef, Table, Tail, ValueRef, is_expired,
};
use pantala_values::{Collection, Object, Type};

use crate::access::held::Held;
use crate::access::scope::Scope;
use crate::changes::change::Changes;
use crate::changes::event::{
    DEL, HEXPIRED_BY_TIME, KEY_MISS, KeyEvent, NEW, SEXPIRED, UNNAMED, ZEXPIRED,
};
use crate::changes::follow_ups::FollowUps;
use crate::changes::key_change::ChangeAudience;
use crate::changes::undo;
use crate::key::{DbIndex, Key, PartitionId};
use crate::snapshot::ChangeManner;

/// The key holds another type than the command works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongType;

/// What becomes of a key's deadline when its value is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// It stays as it was.
    Keep,
    /// The key lives until it is removed.
    Never,
    /// The key lives until this moment.
    At(UnixMs),
}

impl Expiry {
    /// The deadline of a key that was absent before.
    fn of_new(self) -> Option<UnixMs> {
        match self {
            Expiry::At(deadline) => Some(deadline),
            Expiry::Keep | Expiry::Never => None,
        }
    }
}

/// A change that is published when the key is opened again ([`crate::Locked::resume`]): for
/// commands that change several keys and publish the changes in another order.
#[must_use = "a change is published"]
pub struct SuspendedChange {
    pub(crate) db: DbIndex,
    hash: u64,
}

impl SuspendedChange {
    /// Resumes the change; returns the database of the key.
    pub(crate) fn resume(self, key: Key<'_>) -> DbIndex {
        debug_assert!(self.hash == key.hash, "another key was suspended");
        let db = self.db;
        std::mem::forget(self);
        db
    }
}

#[cfg(debug_assertions)]
impl Drop for SuspendedChange {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "a change was left unpublished");
    }
}

/// One key that a command has opened: its value, if any, and the ways to change it.
pub struct OpenKey<'l, 'k> {
    changes: Changes<'l, 'k>,
    key: Key<'l>,
    place: Option<RecordPlace>,
}

impl<'l, 'k> OpenKey<'l, 'k> {
    #[inline]
    pub(crate) fn find(
        held: &'l mut Held<'_>,
        woken: &'l mut FollowUps,
        partition: PartitionId,
        scope: Scope<'k>,
        key: Key<'l>,
    ) -> Self {
        debug_assert_eq!(key.hash, scope.space.hash(key.bytes), "a key comes with its own hash");
        debug_assert_eq!(PartitionId::of(key.hash), partition, "the partition is the key's");
        let changes = Changes::of(held, woken, partition, scope);
        let place = changes.table().find(key.hash, key.bytes);
        let mut opened = OpenKey { changes, key, place };
        if let Some(place) = place
            && let Some(deadline) = opened.changes.table().deadline(place)
            && is_expired(deadline, scope.now)
        {
            opened.meet_expired(place, deadline);
        }
        opened
    }

    /// Removes or hides the key, whose deadline has passed.
    #[cold]
    fn meet_expired(&mut self, place: RecordPlace, deadline: UnixMs) {
        if is_expired(deadline, self.scope().seen_at()) {
            self.place = None;
        }
        if is_expired(deadline, self.scope().removed_at()) {
            self.changes.expire(self.key, place);
        }
    }

    /// Whether the key has expired, is still there, and is hidden.
    pub fn is_hidden(&self) -> bool {
        let found = || self.changes.table().find(self.key.hash, self.key.bytes);
        self.place.is_none() && found().is_some()
    }

    /// Removes a hidden key before a command changes it, where hidden keys give way to writers.
    #[inline]
    pub fn make_way_for_writer(&mut self) {
        if self.place.is_none() && self.scope().space.gives_way_to_writers() {
            self.remove_hidden();
        }
    }

    /// Makes a hidden key visible, where it would give way to writers, so that it can be removed by
    /// name.
    pub fn uncover(&mut self) {
        if self.place.is_none() && self.scope().space.gives_way_to_writers() {
            self.place = self.changes.table().find(self.key.hash, self.key.bytes);
        }
    }

    /// Removes a hidden key, because a new record takes its place.
    #[inline]
    fn make_way(&mut self) {
        if self.scope().space.hides_expired() {
            self.remove_hidden();
        }
    }

    #[cold]
    fn remove_hidden(&mut self) {
        if let Some(place) = self.changes.table().find(self.key.hash, self.key.bytes) {
            self.changes.expire(self.key, place);
        }
    }

    /// Removes and announces elements of a collection whose own deadline has passed, about `limit`
    /// at most; the key goes with its last element. Returns how many were removed. Readers do not
    /// see expired elements that are left.
    pub fn expire_elements(&mut self, limit: usize) -> usize {
        let (now, key) = (self.scope().removed_at(), self.key);
        let is_recorded = self.scope().recorder.is_some();
        let place = self.place;
        let object = place.and_then(|place| self.changes.object_to_expire(place));
        let (Some(place), Some(object)) = (place, object) else {
            self.changes.unchanged();
            self.changes.set_elements(key.bytes, None);
            return 0;
        };
        let mut names = Vec::new();
        let removed = object.expire(now, limit, &mut |name| {
            if is_recorded {
                names.push(Box::from(name));
            }
        });
        let kind = object.kind();
        let (is_empty, next) = (object.is_empty(), object.next_deadline());
        let event = gone(kind);
        self.changes.set_elements(key.bytes, next);
        if removed == 0 {
            self.changes.unchanged();
            return 0;
        }
        self.scope().tally.expired_elements.add(removed as u64);
        self.record_gone_elements(kind, &names);
        if is_empty {
            self.place = None;
        }
        self.changes.publish_expired_elements(key, place, event, is_empty);
        removed
    }

    /// Records that elements have expired.
    fn record_gone_elements(&self, kind: Type, names: &[Box<[u8]>]) {
        let Some(recorder) = self.scope().recorder else { return };
        let command: &[u8] = match kind {
            Type::Set => b"SREM",
            Type::SortedSet => b"ZREM",
            _ => b"HDEL",
        };
        let mut args = vec![command, self.key.bytes];
        args.extend(names.iter().map(|name| &**name));
        recorder.record_lasting(self.scope().db.0, &args);
    }

    /// Whether expired elements stay for now, because a snapshot writes the value.
    pub(crate) fn keeps_elements(&mut self) -> bool {
        self.place.is_some_and(|place| self.changes.keeps_elements(place))
    }

    /// Whether [`OpenKey::expire_elements`] has more to remove.
    #[inline]
    pub fn has_due_elements(&self) -> bool {
        self.changes.timed().is_due(self.key.bytes, self.scope().removed_at())
    }

    /// Notes the earliest deadline of the collection's elements for the sweep.
    #[inline]
    fn note_elements(&mut self, deadline: Option<UnixMs>) {
        if let Some(deadline) = deadline {
            self.changes.note_elements(self.key.bytes, deadline);
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
            Some(_) => self.scope().tally.hits.add(1),
            None => self.scope().tally.misses.add(1),
        }
    }

    /// Counts a use of the key, for a caller that has opened it without one.
    #[inline]
    pub fn touch(&mut self) {
        if let Some(place) = self.place
            && self.scope().touch
        {
            self.changes.touch(place);
        }
    }

    /// Sets the hotness of a key, if it is there. This is no change of its value.
    pub fn set_hotness(&mut self, hotness: u8) {
        if let Some(place) = self.place {
            self.changes.set_hotness(place, hotness);
        }
    }

    /// The key's name and hash.
    pub fn key(&self) -> Key<'l> {
        self.key
    }

    /// Whether there is a value.
    #[inline]
    pub fn exists(&self) -> bool {
        self.place.is_some()
    }

    /// The table and the place in it, for properties that only the table knows (encoding, sizes,
    /// hotness).
    pub fn record(&self) -> Option<(&Table<Object>, RecordPlace)> {
        self.place.map(|place| (self.changes.table(), place))
    }

    /// The type of the value, if there is one.
    pub fn kind(&self) -> Option<Type> {
        let place = self.place?;
        Type::from_tag(self.changes.table().type_tag(place))
    }

    /// The string, if there is one.
    #[inline]
    pub fn string(&self) -> Result<Option<StrRef<'_>>, WrongType> {
        match self.place {
            None => Ok(None),
            Some(place) => match self.changes.table().value(place) {
                ValueRef::Str(string) => Ok(Some(string)),
                ValueRef::Object(_) => Err(WrongType),
            },
        }
    }

    /// The scope in which the key was opened.
    #[inline]
    pub fn scope(&self) -> &Scope<'k> {
        self.changes.scope()
    }

    /// The collection, if there is one.
    #[inline]
    pub fn collection<C: Collection>(&self) -> Result<Option<&C>, WrongType> {
        let Some(place) = self.place else { return Ok(None) };
        match self.changes.table().value(place) {
            ValueRef::Str(_) => Err(WrongType),
            ValueRef::Object(object) => C::of(object).map(Some).ok_or(WrongType),
        }
    }

    /// The collection, to be changed, if there is one. To be followed by
    /// [`OpenKey::publish_collection`], [`OpenKey::publish`] or [`OpenKey::unchanged`].
    #[inline]
    pub fn collection_mut<C: Collection>(&mut self) -> Result<Option<&mut C>, WrongType> {
        let Some(place) = self.place else { return Ok(None) };
        self.changes.collection_mut(self.key, place).map(Some).ok_or(WrongType)
    }

    /// The collection, to be changed; a new empty one if there is no key. The caller adds something
    /// to it, or removes the key again.
    #[inline]
    pub fn collection_or_new<C: Collection>(&mut self) -> Result<&mut C, WrongType> {
        if self.place.is_none() {
            self.insert_object(C::default().into_object(), None);
        }
        self.collection_mut::<C>().map(|found| found.expect("it was inserted"))
    }

    /// Sets the key to a collection, whatever it held.
    pub fn set_collection<C: Collection>(&mut self, value: C, expiry: Expiry) {
        let Some(place) = self.place else {
            return self.insert_object(value.into_object(), expiry.of_new());
        };
        let elements = value.next_deadline();
        let replaced = self.change(ChangeManner::Overwrite).set_object(place, value.into_object());
        self.discard(replaced);
        self.note_elements(elements);
        self.set_expiry(place, expiry);
    }

    fn insert_object(&mut self, object: Object, deadline: Option<UnixMs>) {
        self.put(OwnedRecord::new_object(self.key.bytes, object, deadline));
    }

    /// Publishes a change of a collection, notes its elements' deadlines, and removes the key if it
    /// is empty, with an event of its own. Returns whether it was removed.
    #[inline]
    pub fn publish_collection<C: Collection>(&mut self, event: KeyEvent) -> bool {
        self.publish(event);
        let Ok(Some(left)) = self.collection::<C>() else { return false };
        let (is_empty, elements) = (left.is_empty(), left.next_deadline());
        self.note_elements(elements);
        if is_empty {
            self.remove();
            self.unchanged();
            self.announce(DEL);
        }
        is_empty
    }

    /// The deadline of the key; `None` without a deadline or key.
    #[inline]
    pub fn deadline(&self) -> Option<UnixMs> {
        self.place.and_then(|place| self.changes.table().deadline(place))
    }

    /// The table, to change this key in this manner.
    #[inline]
    fn change(&mut self, manner: ChangeManner) -> &mut Table<Object> {
        self.changes.change(self.key, self.place, manner)
    }

    /// Frees a replaced value in the background. The table hands out only values that are costly to
    /// free.
    #[inline]
    fn discard(&mut self, replaced: Option<DiscardedValue<Object>>) {
        if let Some(garbage) = replaced {
            let Scope { space, tally, .. } = *self.scope();
            space.discard_value(garbage, tally);
        }
    }

    /// Sets the key to a string, whatever it held, with an empty tail.
    #[inline]
    pub fn set_string(&mut self, value: &[u8], expiry: Expiry) {
        let Some(place) = self.place else {
            return self.insert_string(value, expiry.of_new());
        };
        let replaced = self.change(ChangeManner::Overwrite).set_string(place, value);
        self.discard(replaced);
        self.set_expiry(place, expiry);
    }

    /// Sets the key to a string, whatever it held, with this tail.
    pub fn set_string_with_tail(&mut self, value: &[u8], expiry: Expiry, tail: Tail) {
        if tail == Tail::default() {
            return self.set_string(value, expiry);
        }
        let Some(place) = self.place else {
            let (key, deadline) = (self.key.bytes, expiry.of_new());
            return self.put(OwnedRecord::new_string_with_tail(key, value, deadline, tail));
        };
        let table = self.change(ChangeManner::Overwrite);
        let replaced = table.set_string_with_tail(place, value, tail);
        self.discard(replaced);
        self.set_expiry(place, expiry);
    }

    /// Sets a string, present or new, to another text. Deadline and flags stay, as they do when
    /// part of it changes.
    pub fn rewrite_string(&mut self, value: &[u8]) {
        let flags = self.tail().flags;
        self.set_string_with_tail(value, Expiry::Keep, Tail::of_flags(flags));
    }

    /// The tail of the string: memcached's flags, its cas number if one was requested since the
    /// last change, and its state. Empty for a collection or an absent key.
    pub fn tail(&self) -> Tail {
        self.place.map_or_else(Tail::default, |place| self.changes.table().tail(place))
    }

    /// The cas number of the string's present state, assigned now if there is none since the last
    /// change; 0 without a string. This is no change that others see.
    pub fn cas_number(&mut self) -> u64 {
        let tail = self.tail();
        if tail.cas != 0 || !matches!(self.string(), Ok(Some(_))) {
            return tail.cas;
        }
        let cas = self.changes.next_cas();
        self.keep_beside(Tail { cas, ..tail });
        cas
    }

    /// The time at which the cas number was assigned, or slightly earlier; `None` if there is none.
    pub fn cas_given_at(&self) -> Option<UnixMs> {
        let cas = self.tail().cas;
        (cas != 0).then(|| Changes::time_of_cas(cas))
    }

    /// Sets the cas number of a string to one of the client's own.
    pub fn set_cas_number(&mut self, cas: u64) {
        self.keep_beside(Tail { cas: cas & CAS_MAX, ..self.tail() });
    }

    /// Sets the state bits of a string; they last until its text changes.
    pub fn set_item_state(&mut self, state: u8) {
        self.keep_beside(Tail { state, ..self.tail() });
    }

    /// Sets the flags of a string; false if there is none.
    pub fn set_item_flags(&mut self, flags: u32) -> bool {
        let (Some(place), Ok(Some(_))) = (self.place, self.string()) else { return false };
        let tail = Tail { flags, ..self.tail() };
        self.change(ChangeManner::Header).set_tail(place, tail);
        true
    }

    fn keep_beside(&mut self, tail: Tail) {
        if let (Some(place), Ok(Some(_))) = (self.place, self.string()) {
            self.changes.keep_beside(place, tail);
        }
    }

    /// Sets the key to the text of a number, keeping deadline and flags.
    #[inline]
    pub fn set_int(&mut self, value: i64) {
        match self.place {
            Some(place) => {
                let replaced = self.change(ChangeManner::Overwrite).set_int(place, value);
                self.discard(replaced);
            }
            None => {
                let mut digits = [0; 20];
                let text = pantala_base::number::fmt_i64(value, &mut digits);
                self.insert_string(text, None);
            }
        }
    }

    fn insert_string(&mut self, value: &[u8], deadline: Option<UnixMs>) {
        let key = self.key;
        self.make_way();
        loop {
            match self
                .change(ChangeManner::Overwrite)
                .insert_string(key.hash, key.bytes, value, deadline)
            {
                Ok(place) => break self.place = Some(place),
                Err(_full) => self.changes.make_room(key.hash),
            }
        }
        self.after_insert(deadline);
        self.announce(NEW);
    }

    /// Puts a record that was taken elsewhere under this key, which must be absent.
    pub fn put(&mut self, record: OwnedRecord<Object>) {
        self.put_unheard(record);
        self.announce(NEW);
    }

    /// Like [`OpenKey::put`], for data that is loaded: no `new` event is published.
    pub fn put_unheard(&mut self, record: OwnedRecord<Object>) {
        debug_assert!(self.place.is_none(), "the handler removes what is there first");
        let (key, deadline) = (self.key, record.deadline());
        self.make_way();
        let is_named = record.key() == key.bytes;
        let mut record = if is_named { record } else { record.with_key(key.bytes) };
        debug_assert!(record.key() == key.bytes, "it has the key's name");
        loop {
            match self.change(ChangeManner::Overwrite).insert_record(key.hash, record) {
                Ok(place) => break self.place = Some(place),
                Err(back) => record = back,
            }
            self.changes.make_room(key.hash);
        }
        self.after_insert(deadline);
        let object = self.place.and_then(|place| self.changes.table().object(place));
        let elements = object.and_then(Object::next_deadline);
        self.note_elements(elements);
    }

    fn after_insert(&mut self, deadline: Option<UnixMs>) {
        if let Some(deadline) = deadline {
            self.note_deadline(deadline);
        }
        self.changes.publish_sizes();
    }

    fn note_deadline(&mut self, deadline: UnixMs) {
        if self.scope().sets_own_deadlines() {
            self.changes.note_own_deadline(self.key.bytes, deadline);
        }
        self.changes.note_deadline(deadline);
    }

    /// Sets or clears the deadline of a key, if it is there.
    pub fn set_deadline(&mut self, deadline: Option<UnixMs>) {
        if let Some(place) = self.place {
            self.change_deadline(place, deadline);
        }
    }

    #[inline]
    fn set_expiry(&mut self, place: RecordPlace, expiry: Expiry) {
        match expiry {
            Expiry::Keep => {}
            Expiry::Never => self.change_deadline(place, None),
            Expiry::At(deadline) => self.change_deadline(place, Some(deadline)),
        }
    }

    #[inline]
    fn change_deadline(&mut self, place: RecordPlace, deadline: Option<UnixMs>) {
        if self.changes.table().deadline(place) == deadline {
            return;
        }
        self.change(ChangeManner::Header).set_deadline(place, deadline);
        if let Some(deadline) = deadline {
            self.note_deadline(deadline);
        }
        self.changes.publish_sizes();
    }

    /// Marks a key as one that eviction passes over (STICK), or removes the mark; whether that
    /// changed it.
    pub fn set_sticky(&mut self, sticky: bool) -> bool {
        let Some(place) = self.place else { return false };
        let changes = self.changes.table().sticky(place) != sticky;
        if changes {
            self.change(ChangeManner::Header).set_sticky(place, sticky);
        }
        changes
    }

    /// Appends to a string; returns its new length in bytes.
    pub fn append(&mut self, tail: &[u8]) -> usize {
        self.place.map_or(0, |place| self.change(ChangeManner::InPlace).append(place, tail))
    }

    /// Shortens a string, or extends it with zero bytes.
    pub fn resize(&mut self, length: usize) {
        if let Some(place) = self.place {
            self.change(ChangeManner::InPlace).resize(place, length);
        }
    }

    /// Overwrites part of a string, filling a gap with zero bytes.
    pub fn set_range(&mut self, offset: usize, bytes: &[u8]) {
        if let Some(place) = self.place {
            self.change(ChangeManner::InPlace).set_range(place, offset, bytes);
        }
    }

    /// The bytes of a string, to be changed in place. A number is converted to text.
    pub fn string_mut(&mut self) -> Result<Option<&mut [u8]>, WrongType> {
        let Some(place) = self.place else { return Ok(None) };
        self.changes.string_mut(self.key, place).map(Some).ok_or(WrongType)
    }

    /// Removes the key; its value is freed in the background if that takes long. Whether it was
    /// there.
    pub fn remove(&mut self) -> bool {
        let place = self.place.take();
        if let Some(place) = place {
            self.changes.remove(self.key, place);
        }
        place.is_some()
    }

    /// Removes the key because it was given a deadline that has passed: it counts as expired.
    pub fn remove_expired(&mut self) -> bool {
        let found = self.remove();
        self.scope().tally.expired.add(u64::from(found));
        found
    }

    /// Removes the key and returns its record, to be put elsewhere.
    pub fn take(&mut self) -> Option<OwnedRecord<Object>> {
        let place = self.place.take()?;
        Some(self.changes.take(self.key, place))
    }

    /// Evicts the key, to free memory, and announces that. Returns whether the key was there.
    pub fn evict(&mut self) -> bool {
        let place = self.place.take();
        if let Some(place) = place {
            self.changes.evict(self.key, place);
        }
        place.is_some()
    }

    /// A copy of value, deadline, flags and stickiness, under another key.
    pub fn copy(&self, key: &[u8]) -> Option<OwnedRecord<Object>> {
        self.place.map(|place| undo::copy(self.changes.table(), place, key))
    }

    /// Publishes the change: ends every change, see `changes/change`.
    #[inline]
    pub fn publish(&mut self, event: KeyEvent) {
        self.changes.publish(self.key.bytes, event);
    }

    /// Counts the current change as this many for save points, as Valkey does; by default it counts
    /// as one.
    #[inline]
    pub fn counts_as(&self, changes: usize) {
        if changes != 1 {
            self.scope().tally.more_changes.add((changes as u64).wrapping_sub(1));
        }
    }

    /// Publishes a change that no client is told of and none waits for: what consumers of a stream
    /// have read. It counts as a change and is recorded.
    pub fn publish_silently(&mut self) {
        self.changes.publish_to(self.key.bytes, UNNAMED, ChangeAudience::Silently);
    }

    /// Publishes a change of data beside the value, such as the groups of a stream: with an event,
    /// and serving blocked clients, but without touching watches or invalidating caches. What a
    /// command that reads the whole value shows must not be changed this way, because such a
    /// command watches the key, too.
    pub fn publish_unwatched(&mut self, event: KeyEvent) {
        self.changes.publish_to(self.key.bytes, event, ChangeAudience::Unwatched);
    }

    /// Announces an event that is no change by itself: the second event of a published change, or
    /// one without a change.
    #[inline]
    pub fn announce(&mut self, event: KeyEvent) {
        self.changes.announce(self.key.bytes, event);
    }

    /// Declares that nothing has changed that others need to hear of.
    #[inline]
    pub fn unchanged(&mut self) {
        self.changes.unchanged();
    }

    /// Leaves the change to be published later, by [`crate::Locked::resume`].
    pub fn suspend(mut self) -> SuspendedChange {
        self.changes.unchanged();
        SuspendedChange { db: self.scope().db, hash: self.key.hash }
    }

    /// Takes a suspended change over: it must be published now.
    pub(crate) fn resumed(mut self) -> Self {
        self.changes.resume();
        self
    }
}

/// The event when elements of such a collection expire. Only that of a hash is the reference's.
fn gone(kind: Type) -> KeyEvent {
    match kind {
        Type::Set => SEXPIRED,
        Type::SortedSet => ZEXPIRED,
        _ => HEXPIRED_BY_TIME,
    }
}
