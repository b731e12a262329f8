//! What follows a command: effects to publish while its partitions are held, blocked clients to
//! serve, and tickets to redeem once the partitions are free.

use std::collections::{HashSet, VecDeque};

use crate::Keyspace;
use crate::access::ticket::Ticket;
use crate::changes::effects::{ClientId, Effects};
use crate::changes::undo::Undo;
use crate::key::DbIndex;

/// A changed key that a client is blocked on.
pub struct ReadyKey {
    /// Its database.
    pub db: DbIndex,
    /// The key.
    pub key: Box<[u8]>,
}

/// Changed keys that clients are blocked on, each once, in the order of the changes.
#[derive(Default)]
pub(crate) struct ReadyKeys {
    queue: VecDeque<ReadyKey>,
    /// The keys in the queue, as a set: they may be as many as a command has keys.
    known: HashSet<(DbIndex, Box<[u8]>)>,
}

impl ReadyKeys {
    fn add(&mut self, db: DbIndex, key: &[u8]) {
        if self.known.insert((db, key.into())) {
            self.queue.push_back(ReadyKey { db, key: key.into() });
        }
        debug_assert_eq!(self.queue.len(), self.known.len(), "each key is ready once");
    }

    fn next(&mut self) -> Option<ReadyKey> {
        let ReadyKey { db, key } = self.queue.pop_front()?;
        let (_, key) = self.known.take(&(db, key))?;
        Some(ReadyKey { db, key })
    }
}

/// What follows a command: keys to serve and effects to publish while its partitions are held, and
/// tickets to redeem once they are free, because waking may be a system call.
#[derive(Default)]
pub(crate) struct FollowUps {
    tickets: Vec<Ticket>,
    ready: Option<Box<ReadyKeys>>,
    pub(crate) effects: Option<Box<Effects>>,
    /// The command may still be undone: no effect is published before its end, however many there
    /// are.
    pub(crate) holds_back: bool,
    /// The keys as they were before they changed, while that can be undone.
    pub(crate) undo: Option<Undo>,
}

impl FollowUps {
    pub(crate) fn add(&mut self, tickets: impl IntoIterator<Item = Ticket>) {
        self.tickets.extend(tickets);
    }

    /// The effects so far.
    pub(crate) fn effects(&mut self) -> &mut Effects {
        self.effects.get_or_insert_default()
    }

    /// Whether keys are copied for undo before they change: the only cost for a change that need
    /// not.
    #[inline]
    pub(crate) fn keeps(&self) -> bool {
        self.undo.is_some()
    }

    /// The client that causes the effects.
    pub(crate) fn author(&self) -> ClientId {
        self.effects.as_ref().map_or(0, |effects| effects.author())
    }

    /// Publishes the effects so far. The partitions are still held.
    #[cold]
    pub(crate) fn tell(&mut self, space: &Keyspace) {
        if let Some(effects) = &mut self.effects {
            effects.hand_over(space, &mut self.tickets);
        }
    }

    /// Publishes the effects so far if they are very many and cannot be undone.
    pub(crate) fn tell_if_too_many(&mut self, space: &Keyspace) {
        if !self.holds_back && self.effects.as_ref().is_some_and(|all| all.is_too_long()) {
            self.tell(space);
        }
    }

    /// Redeems the tickets. The partitions are free.
    #[inline]
    pub(crate) fn wake(&mut self) {
        for ticket in self.tickets.drain(..) {
            pantala_sync::lock::Ticket::wake(ticket);
        }
    }

    /// Notes that a key has changed which a client is blocked on.
    #[cold]
    pub(crate) fn is_ready(&mut self, db: DbIndex, key: &[u8]) {
        self.ready.get_or_insert_default().add(db, key);
    }

    /// Whether there is such a key.
    #[inline]
    pub(crate) fn has_ready(&self) -> bool {
        self.ready.is_some()
    }

    /// Removes and returns the first of them.
    pub(crate) fn next_ready(&mut self) -> Option<ReadyKey> {
        let next = self.ready.as_mut()?.next();
        self.ready.take_if(|ready| ready.queue.is_empty());
        next
    }
}

impl Drop for FollowUps {
    #[inline]
    fn drop(&mut self) {
        self.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_ready_once_until_it_is_served() {
        let mut woken = FollowUps::default();
        for key in [b"a", b"b", b"a"] {
            woken.is_ready(DbIndex(0), key);
        }
        woken.is_ready(DbIndex(1), b"a");
        let next = |woken: &mut FollowUps| woken.next_ready().map(|ready| (ready.db.0, ready.key));
        assert_eq!(next(&mut woken), Some((0, b"a"[..].into())));
        woken.is_ready(DbIndex(0), b"a");
        for wanted in [(0, b"b"), (1, b"a"), (0, b"a")] {
            assert!(woken.has_ready());
            assert_eq!(next(&mut woken), Some((wanted.0, wanted.1[..].into())));
        }
        assert!(!woken.has_ready() && woken.next_ready().is_none());
    }
}
