//! Effects: what a command tells other clients, that is events, messages, cache invalidations.
//!
//! ```text
//! a change --> is it wanted?   (one relaxed load; no: nothing more)
//!          --> Effect, in the `Locked` of the command, in order
//! the end  --> the change sink leaves messages          partitions still held
//!          --> partitions free --> sleepers are woken
//! ```
//!
//! When a command has very many effects, some are published before its end, so that their memory is
//! bounded; but none while it can still be undone ([`Locked::hold_back_effects`]). A command that
//! may be undone checks before each step whether there are too many, and if so goes on only once it
//! can no longer be undone.
//!
//! Invariants
//! 1. Effects of one key are handed over in the order of its changes: before the key's partition is
//!    free for other commands.
//! 2. With a partition held nothing is sent and no thread is woken: the `ChangeSink` returns
//!    tickets.
//! 3. A client that tracks a key is registered while the partition in which it read the key is
//!    still held, and a change takes the readers out under the same lock: none is missed.
//! 4. Undone changes are not published. What happened by time alone (a key expired) is not undone.
//!
//! Not here: which client listens where, and how it is told (the engine). Tests: at the foot, and
//! the server's `tests/events.rs`; compat's `events` compares with Valkey.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use smallvec::SmallVec;

use crate::Keyspace;
use crate::access::ticket::Ticket;
use crate::changes::event::{EventClass, KeyEvent};
use crate::key::DbIndex;

/// More effects than this are published before their command has ended, or end its being undoable.
pub const MOST_EFFECTS: usize = 1 << 16;

/// The number of a client, as CLIENT ID returns it. 0: none.
pub type ClientId = u64;

/// The clients that have read a key, ascending.
pub type Readers = SmallVec<[ClientId; 2]>;

/// One effect of a command on other clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// An event of a key, which listeners want to hear of by name.
    Happened {
        /// The database.
        db: DbIndex,
        /// The key.
        key: Box<[u8]>,
        /// The event.
        event: KeyEvent,
    },
    /// A message for the subscribers of a channel.
    Publish {
        /// The channel.
        channel: Box<[u8]>,
        /// The message.
        message: Box<[u8]>,
        /// It is a shard channel (SPUBLISH).
        by_slot: bool,
    },
    /// A tracked key has changed or is gone.
    Invalidate {
        /// The key, in whichever database: tracking does not tell databases apart.
        key: Box<[u8]>,
        /// The clients that have read it since it last changed.
        readers: Readers,
        /// The client that changed it, if that matters; otherwise 0.
        author: ClientId,
    },
}

/// Takes effects and tells the other clients.
pub trait ChangeSink: Send + Sync {
    /// Takes effects, in order, with the partitions still locked: leaves messages, waits for
    /// nothing, makes no system call, takes no partition. Sleepers to be woken once the partitions
    /// are free go to `tickets`.
    fn hear(&self, happened: Vec<Effect>, tickets: &mut Vec<Ticket>);

    /// All keys of a database have changed or are gone: every tracking client is told to flush its
    /// cache. Conditions as for `hear`.
    fn forget_all(&self, tickets: &mut Vec<Ticket>);
}

/// What the sink wants to hear of: classes of events, and two bits above them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventMask(pub u32);

impl EventMask {
    /// Nothing.
    pub const NOTHING: EventMask = EventMask(0);
    /// Changes of keys that clients have read.
    pub const READ_KEYS: EventMask = EventMask(1 << 30);
    /// Changes of all keys.
    pub const ALL_KEYS: EventMask = EventMask(1 << 31);

    /// Events of these classes.
    pub fn events(classes: EventClass) -> EventMask {
        EventMask(u32::from(classes.0))
    }

    /// The union of both.
    #[must_use]
    pub fn and(self, other: EventMask) -> EventMask {
        EventMask(self.0 | other.0)
    }

    /// Whether any of these bits is set.
    #[inline]
    pub fn has(self, other: EventMask) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether events of any class are wanted: they are published in the order of a command's keys.
    #[inline]
    pub fn has_events(self) -> bool {
        self.0 & !(Self::READ_KEYS.0 | Self::ALL_KEYS.0) != 0
    }

    #[inline]
    pub(crate) fn has_class(self, class: EventClass) -> bool {
        self.0 & u32::from(class.0) != 0
    }
}

/// The effects of one command, transaction or script so far.
#[derive(Debug, Default)]
pub struct Effects {
    list: Vec<Effect>,
    /// The indexes of effects that stay although the command is undone, ascending.
    lasting: Vec<usize>,
    author: ClientId,
}

impl Effects {
    /// Adds an effect.
    pub fn push(&mut self, effect: Effect) {
        self.list.push(effect);
    }

    /// Sets the client that causes the effects that follow; 0: none.
    pub fn set_author(&mut self, author: ClientId) {
        self.author = author;
    }

    pub(crate) fn author(&self) -> ClientId {
        self.author
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Discards all effects from number `from` on, because their cause was undone. Two kinds stay:
    /// the expiry of a key, and the invalidation of a key whose readers are no longer registered;
    /// the latter perhaps in vain.
    pub fn discard(&mut self, from: usize) {
        debug_assert!(self.lasting.is_sorted(), "in the order of the list");
        debug_assert!(
            self.lasting.last().is_none_or(|last| *last < self.list.len()),
            "of the list"
        );
        let mut lasting = std::mem::take(&mut self.lasting).into_iter().peekable();
        let (mut place, mut kept) = (0, 0);
        self.list.retain(|effect| {
            let lasts = lasting.next_if_eq(&place).is_some();
            let stays = place < from || lasts || matches!(effect, Effect::Invalidate { .. });
            if lasts {
                self.lasting.push(kept);
            }
            place += 1;
            kept += usize::from(stays);
            stays
        });
    }

    /// Adds an effect that stays when the command is undone.
    pub(super) fn push_lasting(&mut self, effect: Effect) {
        debug_assert!(self.lasting.last().is_none_or(|last| *last < self.list.len()), "in order");
        self.lasting.push(self.list.len());
        self.list.push(effect);
    }

    /// Hands the effects over to the sink. The partitions are still held.
    pub(crate) fn hand_over(&mut self, space: &Keyspace, tickets: &mut Vec<Ticket>) {
        if !self.list.is_empty()
            && let Some(change_sink) = space.change_sink()
        {
            self.lasting.clear();
            change_sink.hear(std::mem::take(&mut self.list), tickets);
        }
    }

    /// Whether there are so many that some must be published before the end.
    pub fn is_too_long(&self) -> bool {
        self.list.len() >= MOST_EFFECTS
    }
}

/// The tracked keys of one partition, with the clients that have read them.
#[derive(Default)]
pub(crate) struct TrackedKeys {
    by_key: HashMap<Box<[u8]>, Readers>,
    counts: Arc<TrackedCounts>,
}

/// The totals of tracked keys, over all partitions.
#[derive(Debug, Default)]
pub struct TrackedCounts {
    /// Keys.
    pub keys: AtomicUsize,
    /// Keys times their readers.
    pub readers: AtomicUsize,
    /// The partition from which the next key is evicted, should there be too many.
    pub(crate) next: AtomicUsize,
}

impl TrackedKeys {
    pub(crate) fn counted_in(counts: Arc<TrackedCounts>) -> TrackedKeys {
        TrackedKeys { counts, ..TrackedKeys::default() }
    }

    /// Notes that a client has read the key, in whichever database.
    pub(crate) fn add(&mut self, key: &[u8], reader: ClientId) {
        let readers = match self.by_key.get_mut(key) {
            Some(readers) => readers,
            None => {
                self.counts.keys.fetch_add(1, Ordering::Relaxed);
                self.by_key.entry(key.into()).or_default()
            }
        };
        if let Err(place) = readers.binary_search(&reader) {
            readers.insert(place, reader);
            debug_assert!(readers.is_sorted(), "they are searched by bisection");
            self.counts.readers.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes a key; returns its readers.
    pub(crate) fn take(&mut self, key: &[u8]) -> Readers {
        if self.by_key.is_empty() {
            return Readers::new();
        }
        let readers = self.by_key.remove(key).unwrap_or_default();
        if !readers.is_empty() {
            self.count_gone(1, readers.len());
        }
        readers
    }

    /// Removes some key.
    pub(crate) fn take_any(&mut self) -> Option<(Box<[u8]>, Readers)> {
        let key = self.by_key.keys().next()?.clone();
        let readers = self.take(&key);
        Some((key, readers))
    }

    /// Removes all keys.
    pub(crate) fn clear(&mut self) {
        if self.by_key.is_empty() {
            return;
        }
        let readers = self.by_key.values().map(SmallVec::len).sum();
        self.count_gone(self.by_key.len(), readers);
        self.by_key = HashMap::new();
    }

    fn count_gone(&mut self, keys: usize, readers: usize) {
        let keys_before = self.counts.keys.fetch_sub(keys, Ordering::Relaxed);
        let readers_before = self.counts.readers.fetch_sub(readers, Ordering::Relaxed);
        debug_assert!(keys_before >= keys && readers_before >= readers, "they were counted");
        // Memory shrinks again after a burst.
        if self.by_key.len() < self.by_key.capacity() / 8 {
            self.by_key.shrink_to(self.by_key.len() * 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use pantala_base::UnixMs;
    use pantala_base::hash::HashSeed;

    use super::*;
    use crate::changes::event::{DEL, SET};
    use crate::{Expiry, KeyspaceConfig, LockPlan, Scope, Tally};

    #[derive(Clone, Default)]
    struct Ear(Arc<Mutex<Vec<String>>>);

    impl Ear {
        fn heard(&self) -> Vec<String> {
            std::mem::take(&mut self.0.lock())
        }
    }

    impl ChangeSink for Ear {
        fn hear(&self, happened: Vec<Effect>, _tickets: &mut Vec<Ticket>) {
            let mut heard = self.0.lock();
            heard.extend(happened.into_iter().map(|effect| match effect {
                Effect::Happened { key, event, .. } => {
                    format!("{} {}", event.name, String::from_utf8_lossy(&key))
                }
                Effect::Publish { message, .. } => {
                    format!("publish {}", String::from_utf8_lossy(&message))
                }
                Effect::Invalidate { key, readers, author } => {
                    format!("{}: {readers:?} by {author}", String::from_utf8_lossy(&key))
                }
            }));
        }

        fn forget_all(&self, _tickets: &mut Vec<Ticket>) {
            self.0.lock().push("all".into());
        }
    }

    fn space(wanted: EventMask) -> (Keyspace, Ear) {
        let seed = HashSeed::from_words(1, 2);
        let config = KeyspaceConfig { seed, databases: 16, worker_slots: 1, lane_slots: 1 };
        let (space, ear) = (Keyspace::new(config), Ear::default());
        space.set_change_sink(Box::new(ear.clone()));
        space.want(wanted);
        (space, ear)
    }

    fn with(space: &Keyspace, names: &[&str], work: impl FnOnce(&mut crate::Locked<'_>)) {
        let tally = Tally::default();
        let scope = Scope {
            space,
            db: DbIndex(0),
            now: UnixMs(5),
            tally: &tally,
            touch: false,
            sees_expired: false,
            recorder: None,
        };
        let hashes = names.iter().map(|name| space.hash(name.as_bytes()));
        work(&mut space.lock_waiting(&LockPlan::of(hashes), scope));
    }

    fn set(locked: &mut crate::Locked<'_>, space: &Keyspace, name: &str) {
        let mut opened = locked.open(space.key(name.as_bytes()));
        opened.set_string(b"x", Expiry::At(UnixMs(10)));
        opened.publish(SET);
    }

    #[test]
    fn effects_leave_at_the_end_and_in_order() {
        let (space, ear) = space(EventMask::events(EventClass(!0)));
        with(&space, &["a", "b"], |locked| {
            set(locked, &space, "a");
            set(locked, &space, "b");
            assert_eq!(ear.heard(), [""; 0]);
            locked.discard_effects(2);
            let (channel, message) = (Box::from(&b"c"[..]), Box::from(&b"m"[..]));
            locked.tell_later(Effect::Publish { channel, message, by_slot: false });
        });
        assert_eq!(ear.heard(), ["new a", "set a", "publish m"]);
    }

    #[test]
    fn what_may_be_undone_is_held_back() {
        let (space, ear) = space(EventMask::events(EventClass::STRING.and(EventClass::EXPIRED)));
        with(&space, &["a", "old"], |locked| {
            {
                let mut opened = locked.open(space.key(b"old"));
                opened.set_string(b"x", Expiry::At(UnixMs(4)));
                opened.publish(SET);
            }
            locked.hold_back_effects(true);
            (0..MOST_EFFECTS).for_each(|_| set(locked, &space, "a"));
            assert!(!locked.peek(space.key(b"old")).exists());
            set(locked, &space, "a");
            assert_eq!(ear.heard(), [""; 0]);
            locked.discard_effects(1);
            assert_eq!(locked.effect_count(), 2, "the first, and that a key has expired");
            locked.discard_effects(0);
            assert_eq!(locked.effect_count(), 1);
            set(locked, &space, "a");
        });
        assert_eq!(ear.heard(), ["expired old", "set a"]);
        with(&space, &["a"], |locked| {
            (0..=MOST_EFFECTS).for_each(|_| set(locked, &space, "a"));
            assert_eq!(ear.heard().len(), MOST_EFFECTS, "there are too many");
        });
        assert_eq!(ear.heard().len(), 1);
    }

    #[test]
    fn nobody_asks_and_nothing_is_gathered() {
        let (space, ear) = space(EventMask::NOTHING);
        with(&space, &["a"], |locked| {
            set(locked, &space, "a");
            assert_eq!(locked.effect_count(), 0);
        });
        space.want(EventMask::events(EventClass::LIST));
        with(&space, &["a"], |locked| set(locked, &space, "a"));
        assert_eq!(ear.heard(), [""; 0]);
    }

    #[test]
    fn a_reader_hears_of_the_next_change_and_of_no_other() {
        let (space, ear) = space(EventMask::READ_KEYS);
        with(&space, &["a"], |locked| {
            for reader in [9, 7, 9] {
                locked.track(space.key(b"a"), reader);
            }
        });
        assert_eq!(space.tracked().keys.load(Ordering::Relaxed), 1);
        assert_eq!(space.tracked().readers.load(Ordering::Relaxed), 2);
        with(&space, &["a", "b"], |locked| {
            locked.effects().set_author(7);
            set(locked, &space, "a");
            set(locked, &space, "a");
            set(locked, &space, "b");
            // Undone changes are announced all the same, as the reader is no longer tracked.
            locked.discard_effects(0);
        });
        assert_eq!(ear.heard(), ["a: [7, 9] by 7"]);
        assert_eq!(space.tracked().keys.load(Ordering::Relaxed), 0);
        assert_eq!(space.tracked().readers.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_sweep_tells_too() {
        let (space, ear) = space(EventMask::READ_KEYS.and(EventMask::events(EventClass::EXPIRED)));
        with(&space, &["a"], |locked| {
            set(locked, &space, "a");
            locked.track(space.key(b"a"), 1);
        });
        let (mut sweeper, tally) = (crate::Sweeper::new(&space), Tally::default());
        sweeper.round(&space, UnixMs(20), &tally);
        assert_eq!(ear.heard(), ["a: [1] by 0", "expired a"]);
    }

    #[test]
    fn too_many_tracked_keys_are_forgotten() {
        let (space, ear) = space(EventMask::READ_KEYS);
        let names: Vec<String> = (0..100).map(|number| format!("key{number}")).collect();
        for name in &names {
            let name = name.as_str();
            with(&space, &[name], |locked| locked.track(space.key(name.as_bytes()), 1));
        }
        space.shrink_tracked(100);
        assert_eq!(ear.heard().len(), 0);
        space.shrink_tracked(30);
        assert_eq!(ear.heard().len(), 70);
        assert_eq!(space.tracked().keys.load(Ordering::Relaxed), 30);
        with(&space, &[], |locked| {
            locked.swap_databases(DbIndex(0), DbIndex(1)).expect("nobody stays inside");
        });
        assert_eq!(ear.heard(), ["all"]);
        assert_eq!(space.tracked().keys.load(Ordering::Relaxed), 0);
        with(&space, &[], |locked| drop(locked.flush(None)));
        assert_eq!(ear.heard(), ["all"]);
        with(&space, &["a"], |locked| {
            set(locked, &space, "a");
            locked.open(space.key(b"a")).publish(DEL);
        });
        assert_eq!(ear.heard(), [""; 0]);
    }
}
