//! The listeners behind the [`ChangeSink`](crate::ChangeSink): they turn a change into effects.

use crate::Keyspace;
use crate::changes::effects::{ClientId, Effect, EventMask, Readers};
use crate::changes::event::{DEL, EVICTED, EXPIRED, EventClass, KeyEvent};
use crate::changes::follow_ups::FollowUps;
use crate::changes::key_change::{ChangeAudience, ChangeObserver, KeyChange};
use crate::key::DbIndex;

/// The listeners behind the [`ChangeSink`]: of events, and clients that track keys. Collects their
/// effects in the `Locked` of the command.
pub(crate) struct Listeners<'e> {
    space: &'e Keyspace,
    woken: &'e mut FollowUps,
    wanted: EventMask,
    readers: Readers,
}

impl<'e> Listeners<'e> {
    /// For a change of a key that these clients have read.
    pub fn new(space: &'e Keyspace, woken: &'e mut FollowUps, readers: Readers) -> Self {
        Listeners { space, woken, wanted: space.wanted(), readers }
    }

    /// Announces an event that is no change by itself.
    pub fn announce(&mut self, db: DbIndex, key: &[u8], event: KeyEvent) {
        if self.wanted.has_class(event.class) {
            self.woken.effects().push(Effect::Happened { db, key: key.into(), event });
            self.woken.tell_if_too_many(self.space);
        }
    }

    /// Invalidates the key for its readers, except the author.
    fn invalidate(&mut self, key: &[u8], author: ClientId) {
        if self.wanted.has(EventMask::ALL_KEYS) || !self.readers.is_empty() {
            let readers = std::mem::take(&mut self.readers);
            self.woken.effects().push(Effect::Invalidate { key: key.into(), readers, author });
        }
    }

    /// Announces an event that no command has caused, and that is not undone together with a
    /// command.
    fn announce_lasting(&mut self, db: DbIndex, key: &[u8], event: KeyEvent) {
        if self.wanted.has_class(event.class) {
            self.woken.effects().push_lasting(Effect::Happened { db, key: key.into(), event });
        }
        self.woken.tell_if_too_many(self.space);
    }

    /// Tells all tracking clients at once to flush their caches.
    fn forget_all(&mut self) {
        if self.wanted.has(EventMask::READ_KEYS.and(EventMask::ALL_KEYS))
            && let Some(sink) = self.space.change_sink()
        {
            let mut tickets = Vec::new();
            sink.forget_all(&mut tickets);
            self.woken.add(tickets);
        }
    }
}

impl ChangeObserver for Listeners<'_> {
    fn changed(&mut self, changed: KeyChange<'_>) {
        let KeyChange { db, key, event, heard, author } = changed;
        if heard == ChangeAudience::ByAll {
            // An expiry has no author, even where a command finds it out.
            let is_expiry = event.class == EventClass::EXPIRED;
            self.invalidate(key, if is_expiry { 0 } else { author });
        }
        if heard != ChangeAudience::Silently {
            self.announce(db, key, event);
        }
        self.woken.tell_if_too_many(self.space);
    }

    fn expired(&mut self, db: DbIndex, key: &[u8]) {
        self.invalidate(key, 0);
        self.announce_lasting(db, key, EXPIRED);
    }

    fn elements_expired(&mut self, db: DbIndex, key: &[u8], event: KeyEvent, was_last: bool) {
        self.invalidate(key, 0);
        self.announce_lasting(db, key, event);
        if was_last {
            self.announce_lasting(db, key, DEL);
        }
    }

    fn evicted(&mut self, db: DbIndex, key: &[u8]) {
        self.invalidate(key, 0);
        self.announce_lasting(db, key, EVICTED);
    }

    fn flushed(&mut self, _only: Option<DbIndex>) {
        self.forget_all();
    }

    fn swapped(&mut self, _left: DbIndex, _right: DbIndex) {
        self.forget_all();
    }
}
