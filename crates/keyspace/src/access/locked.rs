//! Partitions held by one command, and the keys in them.
//!
//! [`Locked`] is the only way to a partition ([`crate::Keyspace::lock`] makes it). With it a
//! command opens keys one at a time, in four ways:
//!
//! | way | counts a hit or miss | updates hotness | for |
//! |---|---|---|---|
//! | `read` | yes | yes | GET and its kin |
//! | `open` | no | yes | commands that change the value |
//! | `look` | yes | no | TTL, TYPE, EXISTS, OBJECT: asking about a key does not use it |
//! | `peek` | no | no | removing, and looking a second time |
//!
//! All four remove a key whose deadline has passed, or hide it (`lifetime/expiry`), so that no
//! command ever sees one, unless its scope says so.

use std::sync::Arc;
use std::time::Duration;

use crate::access::held::{AllHeld, FEW};
use crate::access::may_wait::{self, Aborted};
use crate::access::opened::{OpenKey, SuspendedChange, WrongType};
use crate::access::plan::{Busy, LockPlan};
use crate::access::scope::Scope;
use crate::access::ticket::{ThreadWaker, Ticket};
use crate::access::token::WaitToken;
use crate::changes::effects::{ClientId, Effect, Effects};
use crate::changes::follow_ups::{FollowUps, ReadyKey};
use crate::key::{DbIndex, Key, PARTITION_COUNT, PartitionId};
use crate::partition::Waiters;
use crate::watch::Watch;
use crate::watch::WatchSet;
use pantala_base::simd::ahead::prefetch_to_write;
use pantala_journal::Stamp;
use pantala_table::is_expired;
use pantala_values::Collection;
use smallvec::SmallVec;

/// Keys prefetched at a time: enough cache misses in flight to fill the core's line buffers.
pub const PREFETCHED: usize = 12;

/// How long a thread that gives way waits: long enough for a woken worker to come.
const GIVEN_WAY: Duration = Duration::from_micros(200);

/// The partitions that one command holds, and the only way to the keys in them. Dropping it unlocks
/// the partitions.
pub struct Locked<'k> {
    pub(crate) held: AllHeld<'k>,
    pub(crate) scope: Scope<'k>,
    /// The index of the partition that the current command most likely means.
    pub(crate) at: usize,
    /// The set of partitions held by a group; empty otherwise.
    pub(crate) members: [u64; PARTITION_COUNT / 64],
    /// Declared after `held`, so that it is released after the locks.
    pub(crate) token: Option<WaitToken<'k>>,
    /// Declared after `held`, so that it is dropped, and wakes waiters, after the locks are free.
    pub(crate) woken: FollowUps,
}

impl<'k> Locked<'k> {
    #[inline]
    pub(crate) fn new(held: AllHeld<'k>, scope: Scope<'k>) -> Self {
        let members = [0; PARTITION_COUNT / 64];
        Locked { held, scope, at: 0, members, token: None, woken: FollowUps::default() }
    }

    /// The scope of the current command.
    #[inline]
    pub fn scope(&self) -> &Scope<'k> {
        &self.scope
    }

    /// Turns to another command of a group, whose key is in the partition at index `at`.
    #[inline]
    pub fn turn_to(&mut self, at: usize, scope: Scope<'k>) {
        debug_assert!(at < self.held.len() || self.held.is_empty(), "its partition is held");
        self.scope = scope;
        self.at = at;
    }

    /// Whether exactly this one partition is held.
    #[inline]
    pub fn holds_only(&self, partition: PartitionId) -> bool {
        matches!(&*self.held, [(held, _)] if *held == partition)
    }

    /// Takes all partitions of the plan or none; nothing is held yet. `Err`: this one is busy; park
    /// there. `self` is filled in place because it is too large to be moved.
    #[inline]
    pub fn take(&mut self, plan: &LockPlan) -> Result<(), Busy> {
        debug_assert!(self.held.is_empty(), "a plan is taken at once");
        for &id in plan.partitions() {
            let Some(held) = self.scope.space.partition(id).spin_lock() else {
                self.held.clear();
                return Err(Busy(id));
            };
            self.held.push(id, held);
        }
        Ok(())
    }

    /// Takes one more partition if it is free now; returns its index among those held. Only for
    /// groups of commands with one key each: such a set of locks is in no order, so it never waits.
    /// At most [`FEW`] partitions. Always inline, like its callers.
    #[inline(always)]
    pub fn try_add(&mut self, id: PartitionId) -> Option<usize> {
        let word = &mut self.members[id.index() / 64];
        let bit = 1 << (id.index() % 64);
        if *word & bit != 0 {
            debug_assert!(self.held.iter().any(|(held, _)| *held == id), "a member is held");
            return self.held.iter().position(|(held, _)| *held == id);
        }
        let held = self.scope.space.partition(id).try_lock()?;
        *word |= bit;
        self.held.push(id, held);
        Some(self.held.len() - 1)
    }

    /// Prefetches a partition that is about to be taken.
    #[inline]
    pub fn prefetch_partition(&self, id: PartitionId) {
        prefetch_to_write(std::slice::from_ref(self.scope.space.partition(id)));
    }

    /// Prefetches the bucket of a key in the current database. `at` is what `try_add` returned.
    #[inline]
    pub fn prefetch_bucket(&self, at: usize, hash: u64) {
        if let Some(db) = self.held[at].1.db_if_used(self.scope.db) {
            db.table().prefetch_bucket(hash);
        }
    }

    /// Prefetches the record of a key; its bucket should have been prefetched before.
    #[inline]
    pub fn prefetch_record(&self, at: usize, hash: u64) {
        if let Some(db) = self.held[at].1.db_if_used(self.scope.db) {
            db.table().prefetch_record(hash);
        }
    }

    /// The effects so far, which others are told before the partitions are free.
    pub fn effects(&mut self) -> &mut Effects {
        self.woken.effects()
    }

    /// Adds an effect.
    pub fn tell_later(&mut self, effect: Effect) {
        self.woken.effects().push(effect);
    }

    /// The number of effects so far.
    pub fn effect_count(&self) -> usize {
        self.woken.effects.as_ref().map_or(0, |effects| effects.len())
    }

    /// Discards the effects from number `from` on ([`Locked::effect_count`]), because their cause
    /// was undone.
    pub fn discard_effects(&mut self, from: usize) {
        if let Some(effects) = &mut self.woken.effects {
            effects.discard(from);
        }
    }

    /// Holds all effects back until the end, because they may be undone; or no longer.
    pub fn hold_back_effects(&mut self, may_be_undone: bool) {
        self.woken.holds_back = may_be_undone;
    }

    /// Whether there are so many effects that they should not be held back any longer.
    pub fn has_many_effects(&self) -> bool {
        self.woken.effects.as_ref().is_some_and(|effects| effects.is_too_long())
    }

    /// Takes the effects, to put them into another `Locked`.
    pub fn take_effects(&mut self) -> Option<Box<Effects>> {
        self.woken.effects.take()
    }

    /// Puts effects back that were taken; newer ones are lost.
    pub fn put_effects(&mut self, effects: Option<Box<Effects>>) {
        self.woken.effects = effects;
    }

    /// Notes that a client has read the key, which is held: it is told when the key changes.
    pub fn track(&mut self, key: Key<'_>, reader: ClientId) {
        self.waiters(key.hash).tracked.add(key.bytes, reader);
    }

    /// Frees everything, then takes what was held and the partitions of more keys, waiting for
    /// them. Values read before may have changed. Only on threads that may block.
    ///
    /// # Errors
    /// One of them has been held for too long; nothing is held, and the command must end.
    pub fn widen(&mut self, hashes: impl IntoIterator<Item = u64>) -> Result<(), Aborted> {
        let held = self.held.iter().map(|(id, _)| u64::from(id.0));
        let plan = LockPlan::of(held.chain(hashes));
        debug_assert!(plan.partitions().len() >= self.held.len(), "all that are held, and more");
        self.let_go();
        self.at = 0;
        self.held = self.scope.space.hold_all(&plan)?;
        Ok(())
    }

    /// Ends a step of the journal: the changes recorded since the last one become visible together.
    #[inline]
    pub fn end_step(&mut self) {
        if let Some(recorder) = self.scope.recorder
            && recorder.has_step()
        {
            let stamp = recorder.end_step(self.last_step());
            self.leave_stamp(stamp);
        }
    }

    /// Like [`Locked::end_step`], for a command of a group, which has used only the partition at
    /// `at`.
    #[inline]
    pub fn end_grouped_step(&mut self) {
        if let Some(recorder) = self.scope.recorder
            && recorder.has_step()
        {
            let held = &mut self.held[self.at].1;
            let before = held.last_step;
            held.last_step = recorder.end_step(before);
            debug_assert!(before <= held.last_step, "a partition's stamps never fall");
        }
    }

    /// The last of the steps recorded with any of the held partitions.
    fn last_step(&self) -> Stamp {
        self.held.iter().map(|(_, held)| held.last_step).max().unwrap_or_default()
    }

    fn leave_stamp(&mut self, stamp: Stamp) {
        for (_, held) in &mut *self.held {
            debug_assert!(held.last_step <= stamp, "a partition's stamps never fall");
            held.last_step = stamp;
        }
    }

    /// Discards what was recorded since the last step, because it was undone.
    pub fn discard_step(&mut self) {
        if let Some(recorder) = self.scope.recorder {
            recorder.discard_step();
        }
    }

    /// Frees everything before the command has ended; it opens no key any more.
    pub fn let_go(&mut self) {
        self.end_step();
        self.woken.tell(self.scope.space);
        self.held.clear();
        self.woken.wake();
    }

    /// Gives the records of this command their place in the journal's order. To be called before
    /// the first [`Locked::free_early`].
    pub fn stamp_early(&mut self) -> Stamp {
        let Some(recorder) = self.scope.recorder else { return Stamp::default() };
        let stamp = recorder.stamp_step(self.last_step());
        self.leave_stamp(stamp);
        stamp
    }

    /// Frees one partition before the others, for a command that is done with all its keys there.
    /// The effects so far are published first. No partition may be taken afterwards: the command
    /// takes effect at the moment when it held all of them.
    pub fn free_early(&mut self, id: PartitionId) {
        let Some(at) = self.place_of(id) else { return };
        if self.woken.effects.is_some() {
            self.woken.tell(self.scope.space);
        }
        drop(self.held.remove(at));
    }

    /// The held partitions that others wait for.
    pub fn wanted(&self) -> impl Iterator<Item = PartitionId> + '_ {
        let space = self.scope.space;
        self.held.iter().map(|(id, _)| *id).filter(|id| space.partition(*id).is_wanted())
    }

    /// Frees everything, lets waiters go first, and takes it again. Values read before may have
    /// changed. `meanwhile` runs while it is free. Only on threads that may block.
    ///
    /// # Errors
    /// A partition has been held by another command for too long; nothing is held, and the command
    /// must end.
    pub fn give_way<R>(&mut self, meanwhile: impl FnOnce() -> R) -> Result<R, Aborted> {
        let (plan, is_wanted) = self.free_all();
        let result = meanwhile();
        self.take_again(&plan, is_wanted)?;
        Ok(result)
    }

    /// Releases everything; returns what must be taken again, and whether others wait for it. Not
    /// generic, like [`Locked::take_again`], so that there is one copy of its code.
    #[inline(never)]
    fn free_all(&mut self) -> (LockPlan, bool) {
        may_wait::check();
        let space = self.scope.space;
        let plan = LockPlan::of(self.held.iter().map(|(id, _)| u64::from(id.0)));
        let is_wanted = self.held.iter().any(|(id, _)| space.partition(*id).parked_count() > 0);
        self.let_go();
        (plan, is_wanted)
    }

    #[inline(never)]
    fn take_again(&mut self, plan: &LockPlan, is_wanted: bool) -> Result<(), Aborted> {
        let space = self.scope.space;
        if is_wanted {
            ThreadWaker::for_this_thread().wait_at_most(GIVEN_WAY);
        } else if let Some(observer) = space.observer.get() {
            observer.is_between_steps();
        }
        self.at = 0;
        self.held = space.hold_all(plan)?;
        Ok(())
    }

    /// Whether the partition of `hash` is held.
    pub fn is_held(&self, hash: u64) -> bool {
        self.holds(PartitionId::of(hash))
    }

    fn holds(&self, id: PartitionId) -> bool {
        self.place_of(id).is_some()
    }

    /// The index of a partition among those held.
    pub(crate) fn place_of(&self, id: PartitionId) -> Option<usize> {
        let held = &*self.held;
        if held.len() <= FEW {
            return held.iter().position(|(other, _)| *other == id);
        }
        held.binary_search_by_key(&id, |(other, _)| *other).ok()
    }

    /// Whether keys have changed that clients are blocked on: these are served before the
    /// partitions are free.
    #[inline]
    pub fn has_ready(&self) -> bool {
        self.woken.has_ready()
    }

    /// The next such key.
    pub fn next_ready(&mut self) -> Option<ReadyKey> {
        self.woken.next_ready()
    }

    /// Leaves the clients blocked that wait for changed keys: the changes are not to be seen.
    pub fn leave_ready(&mut self) {
        while self.next_ready().is_some() {}
    }

    /// Wakes clients that wait for changed keys and were not served, because the command panicked
    /// after the change: their commands run again.
    #[cold]
    fn call_ready(&mut self) {
        while let Some(ReadyKey { db, key }) = self.next_ready() {
            let hash = self.scope.space.hash(&key);
            let waiters = self.waiters(hash).take(db, &key);
            let tickets = waiters.iter().filter(|one| one.ends_now()).map(|one| one.ticket());
            self.woken.add(tickets);
        }
    }

    /// Makes any change of the key, which may be absent, touch the watch.
    pub fn watch(&mut self, key: Key<'_>, watch: &Arc<Watch>) {
        self.watch_in(self.scope.db, key, watch);
    }

    /// Like [`Locked::watch`], for a key of any database.
    pub fn watch_in(&mut self, db: DbIndex, key: Key<'_>, watch: &Arc<Watch>) {
        // An expired key is removed now, so that this is no change later.
        let is_hidden = self.peek_in(db, key).is_hidden();
        self.waiters(key.hash).watch(db, key.bytes, watch, is_hidden);
    }

    /// Whether a watched key has expired since and is hidden. An expired key that is not hidden was
    /// removed, which has touched the watch.
    pub fn has_expired_since(&mut self, db: DbIndex, key: Key<'_>, watch: &Arc<Watch>) -> bool {
        let is_hidden = self.peek_in(db, key).is_hidden();
        is_hidden && !self.waiters(key.hash).began_hidden(db, key.bytes, watch)
    }

    /// Ends [`Locked::watch`], if the watch was not touched.
    pub fn unwatch(&mut self, key: Key<'_>, watch: &Arc<Watch>) {
        let db = self.scope.db;
        self.waiters(key.hash).unwatch(db, key.bytes, watch);
    }

    /// Makes a change of a key that the crowd has already read touch the crowd. All its partitions
    /// are held.
    pub fn watch_crowd(&mut self, crowd: &Arc<WatchSet>) {
        for (id, held) in self.held.iter_mut() {
            if crowd.concerns(*id) {
                held.rest.waiters.watch_crowd(crowd);
            }
        }
    }

    /// Ends [`Locked::watch_crowd`].
    pub fn unwatch_crowd(&mut self, crowd: &Arc<WatchSet>) {
        for (id, held) in self.held.iter_mut() {
            if crowd.concerns(*id) {
                held.rest.waiters.unwatch_crowd(crowd);
            }
        }
    }

    /// Redeems a ticket once the partitions are free.
    pub fn wake_later(&mut self, ticket: Ticket) {
        self.woken.add([ticket]);
    }

    /// From here on lookups are for another command.
    pub fn set_scope(&mut self, scope: Scope<'k>) {
        self.scope = scope;
    }

    /// The clients that wait for keys of the partition of `hash`, which is held.
    pub fn waiters(&mut self, hash: u64) -> &mut Waiters {
        let held = self.partition(PartitionId::of(hash));
        &mut self.held[held].1.rest.waiters
    }

    /// Brings several keys of the present database near, so that their cache misses overlap: for
    /// commands with many, some [`PREFETCHED`] at a time.
    pub fn prefetch(&self, hashes: &[u64]) {
        let mut places: SmallVec<[(usize, u64); PREFETCHED]> = SmallVec::new();
        for &hash in hashes.iter().take(PREFETCHED) {
            if let Some(at) = self.place_of(PartitionId::of(hash)) {
                self.prefetch_bucket(at, hash);
                places.push((at, hash));
            }
        }
        for (at, hash) in places {
            self.prefetch_record(at, hash);
        }
    }

    /// Opens a key to read its value.
    #[inline]
    pub fn read<'l>(&'l mut self, key: Key<'l>) -> OpenKey<'l, 'k> {
        let mut opened = self.peek(key);
        opened.count_read();
        opened.touch();
        opened
    }

    /// Opens a key to change it.
    #[inline]
    pub fn open<'l>(&'l mut self, key: Key<'l>) -> OpenKey<'l, 'k> {
        let mut opened = self.peek(key);
        opened.make_way_for_writer();
        opened.touch();
        opened
    }

    /// Opens a key to ask about it: it counts as a hit or miss, but not as a use.
    #[inline]
    pub fn look<'l>(&'l mut self, key: Key<'l>) -> OpenKey<'l, 'k> {
        let mut opened = self.peek(key);
        opened.count_read();
        opened
    }

    /// Opens a key to ask about it, as [`Locked::look`] does, without an event if it is missing.
    pub fn look_unheard<'l>(&'l mut self, key: Key<'l>) -> OpenKey<'l, 'k> {
        let opened = self.peek(key);
        opened.tally_read();
        opened
    }

    /// Opens a key without counting or using it.
    #[inline]
    pub fn peek<'l>(&'l mut self, key: Key<'l>) -> OpenKey<'l, 'k> {
        self.peek_in(self.scope.db, key)
    }

    /// Opens a key of another database, without counting or using it (COPY, MOVE).
    #[inline]
    pub fn peek_in<'l>(&'l mut self, db: DbIndex, key: Key<'l>) -> OpenKey<'l, 'k> {
        let partition = PartitionId::of(key.hash);
        let held = self.partition(partition);
        let scope = self.scope;
        let held = &mut self.held[held].1;
        OpenKey::find(held, &mut self.woken, partition, Scope { db, ..scope }, key)
    }

    /// Opens the key of a suspended change again, to publish the change.
    pub fn resume<'l>(&'l mut self, suspended: SuspendedChange, key: Key<'l>) -> OpenKey<'l, 'k> {
        let db = suspended.resume(key);
        self.peek_in(db, key).resumed()
    }

    /// The collection at a key, for commands that look at several at once. They open each key first
    /// ([`Locked::read`]), which removes what has expired, counts, and updates hotness.
    #[inline]
    pub fn collection<C: Collection>(&self, key: Key<'_>) -> Result<Option<&C>, WrongType> {
        let held = self.partition(PartitionId::of(key.hash));
        let Some(db) = self.held[held].1.db_if_used(self.scope.db) else { return Ok(None) };
        let Some(place) = db.table().find(key.hash, key.bytes) else { return Ok(None) };
        let deadline = db.table().deadline(place);
        if deadline.is_some_and(|deadline| is_expired(deadline, self.scope.seen_at())) {
            return Ok(None);
        }
        db.table().object(place).and_then(C::of).map(Some).ok_or(WrongType)
    }

    /// The index of a partition among those held. A key outside the plan is a bug: the command
    /// table names every key of a command.
    #[inline]
    fn partition(&self, partition: PartitionId) -> usize {
        let held = &*self.held;
        if held.get(self.at).is_some_and(|(id, _)| *id == partition) {
            return self.at;
        }
        self.place_of(partition).expect("a command opens only keys its row declares")
    }
}

impl Drop for Locked<'_> {
    /// Publishes the remaining effects before the partitions are free, so that they are in the
    /// order of the changes.
    #[inline]
    fn drop(&mut self) {
        if self.woken.effects.is_some() {
            self.woken.tell(self.scope.space);
        }
        if self.woken.has_ready() {
            self.call_ready();
        }
        self.end_step();
    }
}
