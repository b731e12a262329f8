//! A partition, that is one lock stripe: its tables, and the clients that wait for its keys.
//!
//! Everything here is accessed only with the partition's lock held, so it is plain single-threaded
//! code. Values that are read without the lock (the numbers of keys) are copied to
//! [`DatabaseSizes`] after each change.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use pantala_journal::Stamp;

use crate::access::ticket::Waiter;
use crate::changes::databases::{Databases, Db};
use crate::changes::effects::{TrackedCounts, TrackedKeys};
use crate::key::DbIndex;
use crate::snapshot::Saving;
use crate::watch::Watch;
use crate::watch::{WatchSet, WatchSets};

/// One lock stripe of the keyspace: its tables, one a database, and what goes with their keys.
/// Accessed only with its lock held.
#[derive(Default)]
#[repr(C)]
pub struct Partition {
    /// The last step that was recorded with this partition held. On the cache line of the first
    /// table, which whoever changes a key has read.
    pub(crate) last_step: Stamp,
    pub(crate) databases: Databases,
    pub(crate) rest: Rest,
}

/// What belongs to no single database.
#[derive(Default)]
pub(crate) struct Rest {
    /// Clients blocked on keys, watches, and tracked keys.
    pub(crate) waiters: Waiters,
    /// The snapshot, if it is not done with this partition.
    pub(crate) saving: Option<Box<Saving>>,
    /// The last cas number assigned to one of its keys.
    pub(crate) last_cas: u64,
    /// The hash of the barred key, while the partition is open to visitors.
    pub(crate) barred: Option<u64>,
}

impl Partition {
    /// An empty partition, counted in these totals of blocked-on and tracked keys.
    pub(crate) fn new(waited_keys: Arc<AtomicUsize>, tracked: Arc<TrackedCounts>) -> Partition {
        let tracked = TrackedKeys::counted_in(tracked);
        let waiters = Waiters { waited_keys, tracked, ..Waiters::default() };
        let rest = Rest { waiters, ..Rest::default() };
        Partition { rest, ..Partition::default() }
    }

    /// The part of database `index` in this partition, if it was ever used.
    #[inline]
    pub fn db_if_used(&self, index: DbIndex) -> Option<&Db> {
        self.databases.if_used(index)
    }
}

/// Shorter queues are not scanned for waiters that have ended.
const SHORT_QUEUE: usize = 16;

/// Waiters in the order of their arrival.
type Queue = VecDeque<Arc<Waiter>>;

/// A key by database and name, present or not.
type KeyName = (DbIndex, Box<[u8]>);

/// The watched keys. A client that stops watching drops its [`Watch`]; what is left of it here is
/// removed when the map has doubled.
#[derive(Default)]
struct Watches {
    by_key: HashMap<KeyName, Vec<Watcher>>,
    clean_at: usize,
}

/// One watch of a key.
struct Watcher {
    watch: Weak<Watch>,
    /// The key was expired and hidden when watching began: its removal is then no change.
    began_hidden: bool,
}

impl Watcher {
    fn is_alive(&self) -> bool {
        self.watch.strong_count() > 0
    }

    fn is(&self, watch: &Arc<Watch>) -> bool {
        std::ptr::eq(self.watch.as_ptr(), Arc::as_ptr(watch))
    }

    fn touch(&self) {
        if let Some(watch) = self.watch.upgrade() {
            watch.touch();
        }
    }
}

/// With fewer watched keys than this, dropped watches are not searched for.
const FEW_WATCHES: usize = 32;

impl Watches {
    fn add(&mut self, db: DbIndex, key: &[u8], watcher: Watcher) {
        if self.by_key.len() >= self.clean_at.max(FEW_WATCHES) {
            self.by_key.retain(|_, watchers| {
                watchers.retain(Watcher::is_alive);
                !watchers.is_empty()
            });
            self.clean_at = 2 * self.by_key.len();
        }
        let watchers = self.by_key.entry((db, key.into())).or_default();
        if watchers.len() == watchers.capacity() {
            watchers.retain(Watcher::is_alive);
        }
        watchers.push(watcher);
    }

    fn remove(&mut self, db: DbIndex, key: &[u8], watch: &Arc<Watch>) {
        let name = (db, Box::from(key));
        if let Some(watchers) = self.by_key.get_mut(&name) {
            watchers.retain(|watcher| !watcher.is(watch));
            if watchers.is_empty() {
                self.by_key.remove(&name);
            }
        }
    }

    /// Touches the watches of a changed key; if it is gone, not those to which it was hidden.
    fn touch(&mut self, db: DbIndex, key: &[u8], is_gone: bool) {
        let name = (db, key.into());
        let mut watchers = self.by_key.remove(&name).unwrap_or_default();
        let changed = watchers.extract_if(.., |watcher| !(is_gone && watcher.began_hidden));
        changed.for_each(|watcher| watcher.touch());
        if !watchers.is_empty() {
            // From now on it is absent for these watches, too.
            watchers.iter_mut().for_each(|watcher| watcher.began_hidden = false);
            self.by_key.insert(name, watchers);
        }
    }

    fn began_hidden(&self, db: DbIndex, key: &[u8], watch: &Arc<Watch>) -> bool {
        let mut watchers = self.by_key.get(&(db, key.into())).into_iter().flatten();
        watchers.any(|watcher| watcher.began_hidden && watcher.is(watch))
    }
}

/// Clients blocked on keys (BLPOP and its kin), in the order of their arrival; watches; tracked
/// keys.
#[derive(Default)]
pub struct Waiters {
    queues: HashMap<KeyName, Queue>,
    watches: Watches,
    crowds: WatchSets,
    /// Used only while tracking is on.
    pub(crate) tracked: TrackedKeys,
    /// The number of keys with blocked clients, over all partitions.
    waited_keys: Arc<AtomicUsize>,
}

impl Waiters {
    /// Updates the total after queues were added or removed; `before` is their number before.
    fn count(&self, before: usize) {
        let more = self.queues.len().wrapping_sub(before);
        if more != 0 {
            self.waited_keys.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Whether no client is blocked, and none watches: the only check that a change pays for.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // One branch for all three.
        self.queues.len() | self.watches.by_key.len() | self.crowds.len() == 0
    }

    /// Makes changes of the key touch the watch. `began_hidden`: the key has expired and is hidden.
    pub fn watch(&mut self, db: DbIndex, key: &[u8], watch: &Arc<Watch>, began_hidden: bool) {
        let watch = Arc::downgrade(watch);
        self.watches.add(db, key, Watcher { watch, began_hidden });
    }

    /// Whether the key was expired and hidden when it began to be watched.
    pub fn began_hidden(&self, db: DbIndex, key: &[u8], watch: &Arc<Watch>) -> bool {
        self.watches.began_hidden(db, key, watch)
    }

    /// Ends the watching of a key.
    pub fn unwatch(&mut self, db: DbIndex, key: &[u8], watch: &Arc<Watch>) {
        self.watches.remove(db, key, watch);
    }

    /// Makes changes of the keys that the crowd has looked at touch it.
    pub(crate) fn watch_crowd(&mut self, crowd: &Arc<WatchSet>) {
        self.crowds.add(Arc::downgrade(crowd));
    }

    /// Ends [`Waiters::watch_crowd`].
    pub(crate) fn unwatch_crowd(&mut self, crowd: &Arc<WatchSet>) {
        self.crowds.remove(&Arc::downgrade(crowd));
    }

    /// Touches the watches of a key that has changed or is gone, and the crowds.
    pub fn touch(&mut self, db: DbIndex, key: &[u8], hash: impl Fn() -> u64, is_gone: bool) {
        self.watches.touch(db, key, is_gone);
        self.crowds.touch(db, hash);
    }

    /// Touches the watches of all keys that `exists` says were there, and all crowds: for changes
    /// of whole databases.
    pub fn touch_where(&mut self, exists: &mut dyn FnMut(DbIndex, &[u8]) -> bool) {
        self.crowds.touch_all();
        let gone = self.watches.by_key.extract_if(|(db, key), _| exists(*db, key));
        gone.flat_map(|(_, watchers)| watchers).for_each(|watcher| watcher.touch());
    }

    /// Whether a client is blocked on this key.
    pub fn has(&self, db: DbIndex, key: &[u8]) -> bool {
        self.queues.contains_key(&(db, key.into()))
    }

    /// How many keys have a blocked client whose request `is_meant` accepts.
    pub(crate) fn waited_keys_where(&self, is_meant: &dyn Fn(&dyn Any) -> bool) -> usize {
        let counts = |waiter: &Arc<Waiter>| waiter.is_waiting() && is_meant(&*waiter.request);
        self.queues.values().filter(|queue| queue.iter().any(counts)).count()
    }

    /// How many keys are watched.
    pub(crate) fn watched_keys(&self) -> usize {
        let watched = self.watches.by_key.values();
        watched.filter(|watchers| watchers.iter().any(Watcher::is_alive)).count()
    }

    /// Adds a waiter to the key's queue: at the end, or at its earlier place if it was blocked
    /// before. Ended waiters are removed when they may be half of the queue.
    pub fn wait(&mut self, db: DbIndex, key: &[u8], waiter: Arc<Waiter>) {
        let before = self.queues.len();
        let queue = self.queues.entry((db, key.into())).or_default();
        if queue.len() >= SHORT_QUEUE && queue.len() == queue.capacity() {
            queue.retain(|waiter| waiter.is_waiting());
        }
        debug_assert!(queue.iter().is_sorted_by_key(|one| one.arrival), "oldest first");
        let is_last = queue.back().is_none_or(|last| last.arrival < waiter.arrival);
        let at = match is_last {
            true => queue.len(),
            false => queue.partition_point(|other| other.arrival < waiter.arrival),
        };
        queue.insert(at, waiter);
        self.count(before);
    }

    /// Removes a waiter that has ended.
    pub fn forget(&mut self, db: DbIndex, key: &[u8], waiter: &Arc<Waiter>) {
        let name = (db, Box::from(key));
        let before = self.queues.len();
        if let Some(queue) = self.queues.get_mut(&name) {
            debug_assert!(!queue.is_empty(), "an empty queue is gone");
            let first = queue.partition_point(|other| other.arrival < waiter.arrival);
            let same = queue.range(first..).take_while(|other| other.arrival == waiter.arrival);
            if let Some(at) = same.into_iter().position(|other| Arc::ptr_eq(other, waiter)) {
                queue.remove(first + at);
            }
            if queue.is_empty() {
                self.queues.remove(&name);
            }
        }
        self.count(before);
    }

    /// Removes and returns the waiters of all keys that `exists` says are there.
    pub(crate) fn take_where(
        &mut self,
        exists: &mut dyn FnMut(DbIndex, &[u8]) -> bool,
    ) -> Vec<Arc<Waiter>> {
        let before = self.queues.len();
        let found = self.queues.extract_if(|(db, key), _| exists(*db, key));
        let waiters = found.flat_map(|(_, queue)| queue).collect();
        self.count(before);
        waiters
    }

    /// Removes and returns the waiters of a key, in the order of their arrival.
    pub fn take(&mut self, db: DbIndex, key: &[u8]) -> Queue {
        let before = self.queues.len();
        let queue = self.queues.remove(&(db, key.into())).unwrap_or_default();
        self.count(before);
        queue
    }

    /// Puts back waiters that [`Waiters::take`] returned and that still wait, before all others.
    pub fn put_back(&mut self, db: DbIndex, key: &[u8], mut waiters: Queue) {
        if !waiters.is_empty() {
            let before = self.queues.len();
            let queue = self.queues.entry((db, key.into())).or_default();
            waiters.append(queue);
            *queue = waiters;
            self.count(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;

    impl crate::access::ticket::Inbox for Nobody {
        fn unpark(&self, _connection: u64, _parking: u32) {}

        fn wake(&self) {}
    }

    #[test]
    fn who_comes_back_waits_at_its_old_place() {
        let mut waiters = Waiters::default();
        let waiter = |arrival| Waiter::new(Box::new(()), Arc::new(Nobody), (arrival, 0), arrival);
        let (db, first) = (DbIndex(0), waiter(4));
        waiters.wait(db, b"key", Arc::clone(&first));
        [5, 6, 9].into_iter().for_each(|arrival| waiters.wait(db, b"key", waiter(arrival)));
        assert!(first.ends_now());
        waiters.forget(db, b"key", &first);
        [4, 8, 10, 3].into_iter().for_each(|arrival| waiters.wait(db, b"key", waiter(arrival)));
        let order: Vec<u64> = waiters.take(db, b"key").iter().map(|one| one.arrival).collect();
        assert_eq!(order, [3, 4, 5, 6, 8, 9, 10]);
    }

    #[test]
    fn who_has_ended_is_found_among_those_who_came_at_its_time() {
        let mut waiters = Waiters::default();
        let db = DbIndex(0);
        let all: Vec<_> = [2, 4, 4, 4, 7]
            .map(|arrival| Waiter::new(Box::new(()), Arc::new(Nobody), (arrival, 0), arrival))
            .into();
        all.iter().for_each(|one| waiters.wait(db, b"key", Arc::clone(one)));
        for (at, left) in [(2, 4), (2, 4), (4, 3), (0, 2), (1, 1), (3, 0)] {
            let _had_ended = all[at].ends_now();
            waiters.forget(db, b"key", &all[at]);
            assert_eq!(
                waiters.queues.get(&(db, b"key"[..].into())).map_or(0, |all| all.len()),
                left
            );
            assert_eq!(waiters.has(db, b"key"), left > 0);
        }
    }
}
