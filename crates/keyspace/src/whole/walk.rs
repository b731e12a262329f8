//! Walks over the whole keyspace: SCAN, KEYS, RANDOMKEY, FLUSHALL, SWAPDB, reports.
//!
//! Walks go from partition to partition and hold each only while they look at it. Inside a script
//! or a transaction everything is already held (`access/token`), and they look at what is held.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;

use pantala_base::UnixMs;
use pantala_base::rng::Rng;
use pantala_table::{Cursor, RecordPlace, Table, ValueRef, is_expired};
use pantala_values::Object;

use crate::access::held::AllHeld;
use crate::access::held::Held;
use crate::access::locked::Locked;
use crate::access::may_wait::{self, Aborted, WaitTarget};
use crate::access::plan::Busy;
use crate::access::scope::Scope;
use crate::access::ticket::Ticket;
use crate::changes::key_change::ChangeObserver;
use crate::changes::listeners::Listeners;
use crate::key::{DbIndex, Key, PARTITION_COUNT, PartitionId};
use crate::partition::Partition;
use crate::tally::Tally;
use crate::{Effect, Effects, Garbage, Keyspace, Readers};

/// How many looks (some 20 ms) the gate stays closed the first time that the lane is waited for.
const FIRST_LOOKS: u32 = 600;

/// The position of a SCAN: the partition in the low ten bits, the table's own cursor above. Zero is
/// the start and, as a reply, the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCursor(pub u64);

impl ScanCursor {
    fn parts(self) -> (PartitionId, Cursor) {
        let partition = (self.0 % PARTITION_COUNT as u64) as u16;
        (PartitionId(partition), Cursor::from_bits(self.0 / PARTITION_COUNT as u64))
    }

    fn at(partition: PartitionId, cursor: Cursor) -> Self {
        const { assert!(Cursor::BITS + PARTITION_COUNT.ilog2() < u64::BITS, "a cursor has room") };
        ScanCursor(cursor.to_bits() * PARTITION_COUNT as u64 + u64::from(partition.0))
    }

    /// The start of a partition: to look at some keys, beginning anywhere.
    pub fn at_start_of(partition: PartitionId) -> Self {
        ScanCursor(u64::from(partition.0))
    }

    /// The partition of the cursor.
    pub fn partition(self) -> PartitionId {
        self.parts().0
    }

    /// The start of the next partition.
    pub fn after(partition: PartitionId) -> Self {
        debug_assert!(usize::from(partition.0) < PARTITION_COUNT, "there is such a partition");
        match usize::from(partition.0) + 1 {
            PARTITION_COUNT => ScanCursor(0),
            next => ScanCursor(next as u64),
        }
    }
}

/// A key that a walk has met.
pub struct WalkedKey<'t> {
    table: &'t Table<Object>,
    place: RecordPlace,
}

impl WalkedKey<'_> {
    /// The key.
    pub fn key(&self) -> &[u8] {
        self.table.key(self.place)
    }

    /// The tag of its type.
    pub fn type_tag(&self) -> u8 {
        self.table.type_tag(self.place)
    }

    /// The size of its value: bytes of a string, elements of a collection.
    pub fn size(&self) -> u64 {
        match self.table.value(self.place) {
            ValueRef::Str(text) => text.len() as u64,
            ValueRef::Object(object) => object.element_count(),
        }
    }

    fn is_expired(&self, now: UnixMs) -> bool {
        self.table.deadline(self.place).is_some_and(|deadline| is_expired(deadline, now))
    }
}

/// The progress of a scan.
struct Progress<'m> {
    now: UnixMs,
    /// Records to look at before it stops.
    count: usize,
    /// Records looked at so far, including expired ones: that is what takes time.
    looked_at: usize,
    meet: &'m mut dyn FnMut(&WalkedKey<'_>),
}

impl Progress<'_> {
    fn is_enough(&self) -> bool {
        self.looked_at >= self.count
    }

    /// Passes the records of a table from a cursor on to `meet`, until there are enough in all or
    /// for one hold; returns the cursor to go on with, or `None` at the table's end.
    fn scan(&mut self, table: &Table<Object>, from: Cursor) -> Option<Cursor> {
        let mut cursor = from;
        let pause = self.looked_at + RECORDS_PER_HOLD;
        loop {
            cursor = table.scan(cursor, &mut |place| {
                let one = WalkedKey { table, place };
                self.looked_at += 1;
                if !one.is_expired(self.now) {
                    (self.meet)(&one);
                }
            });
            if cursor.is_end() {
                return None;
            }
            if self.is_enough() || self.looked_at >= pause {
                return Some(cursor);
            }
        }
    }
}

/// A SCAN with a large COUNT frees a partition after about this many records.
const RECORDS_PER_HOLD: usize = 4096;

/// A mean time to live is taken from about this many keys with a deadline,
const TTL_SAMPLES: u64 = 64;
/// or as many as are among about this many keys.
const TTL_LOOKS: usize = 4096;

/// The most tracked keys that are evicted while one partition is held.
const FORGOTTEN_PER_LOCK: usize = 64;

/// How many random draws RANDOMKEY makes before it walks.
const RANDOM_DRAWS: usize = 64;

/// A partition that a walk looks at.
pub(crate) enum VisitedPartition<'l, 'k> {
    Held(&'l mut Held<'k>),
    Taken(Held<'k>),
}

impl Deref for VisitedPartition<'_, '_> {
    type Target = Partition;

    fn deref(&self) -> &Partition {
        match self {
            VisitedPartition::Held(held) => held,
            VisitedPartition::Taken(held) => held,
        }
    }
}

impl DerefMut for VisitedPartition<'_, '_> {
    fn deref_mut(&mut self) -> &mut Partition {
        match self {
            VisitedPartition::Held(held) => held,
            VisitedPartition::Taken(held) => held,
        }
    }
}

impl<'k> Locked<'k> {
    /// A partition that is held already or free.
    fn look_into(&mut self, id: PartitionId) -> Result<VisitedPartition<'_, 'k>, Busy> {
        match self.place_of(id) {
            Some(place) => Ok(VisitedPartition::Held(&mut self.held[place].1)),
            None => self
                .scope
                .space
                .partition(id)
                .spin_lock()
                .map(VisitedPartition::Taken)
                .ok_or(Busy(id)),
        }
    }

    /// A partition that is held already, or waited for.
    fn visit_waiting(&mut self, id: PartitionId) -> Result<VisitedPartition<'_, 'k>, Aborted> {
        match self.place_of(id) {
            Some(place) => Ok(VisitedPartition::Held(&mut self.held[place].1)),
            None => self.scope.space.hold(id).map(VisitedPartition::Taken),
        }
    }

    /// A partition that is held already or free, while others are inside for moments only.
    pub(crate) fn visit_alone(&mut self, id: PartitionId) -> VisitedPartition<'_, 'k> {
        match self.place_of(id) {
            Some(place) => VisitedPartition::Held(&mut self.held[place].1),
            None => VisitedPartition::Taken(self.scope.space.hold_at_last(id)),
        }
    }

    /// Looks at `count` keys or a few more from `from` on, fewer at the end, and passes those that
    /// have not expired to `meet`. Returns the cursor to go on with. Every key that is there from
    /// the first call to the last is met at least once. `Err` only if nothing was looked at yet.
    pub fn scan(
        &mut self,
        from: ScanCursor,
        count: usize,
        meet: &mut dyn FnMut(&WalkedKey<'_>),
    ) -> Result<ScanCursor, Busy> {
        let (Scope { space, db, .. }, now) = (self.scope, self.scope.seen_at());
        let mut at = from;
        let mut progress = Progress { now, count, looked_at: 0, meet };
        loop {
            let (id, from) = at.parts();
            let mut cursor = None;
            if space.sizes(db).is_some_and(|sizes| sizes.keys_in(id) > 0) {
                let held = match self.look_into(id) {
                    Ok(held) => held,
                    Err(busy) => return if progress.looked_at > 0 { Ok(at) } else { Err(busy) },
                };
                let part = held.db_if_used(db);
                cursor = part.and_then(|part| progress.scan(part.table(), from));
            }
            at = cursor.map_or(ScanCursor::after(id), |cursor| ScanCursor::at(id, cursor));
            if at == ScanCursor(0) || progress.is_enough() {
                return Ok(at);
            }
        }
    }

    /// The type tag of one key that has not expired: for commands that match keys and are given a
    /// pattern without wildcards.
    pub fn tag_of(&mut self, key: Key<'_>) -> Result<Option<u8>, Busy> {
        let (db, now) = (self.scope.db, self.scope.seen_at());
        let held = self.look_into(PartitionId::of(key.hash))?;
        let Some(part) = held.db_if_used(db) else { return Ok(None) };
        let place = part.table().find(key.hash, key.bytes);
        let met = place.map(|place| WalkedKey { table: part.table(), place });
        Ok(met.filter(|met| !met.is_expired(now)).map(|met| met.type_tag()))
    }

    /// Passes every key of a database to `meet` once, a whole partition at a time, waiting for
    /// each: only for threads that may block. `meet` returns whether to go on.
    ///
    /// # Errors
    /// A partition has been held for too long.
    pub fn walk(&mut self, meet: &mut dyn FnMut(&WalkedKey<'_>) -> bool) -> Result<(), Aborted> {
        let (Scope { space, db, .. }, now) = (self.scope, self.scope.seen_at());
        for id in PartitionId::all() {
            if space.sizes(db).is_none_or(|sizes| sizes.keys_in(id) == 0) {
                continue;
            }
            let held = self.visit_waiting(id)?;
            let Some(part) = held.db_if_used(db) else { continue };
            let mut go_on = true;
            let mut cursor = Cursor::START;
            while go_on && !cursor.is_end() {
                cursor = part.table().scan(cursor, &mut |place| {
                    let one = WalkedKey { table: part.table(), place };
                    if go_on && !one.is_expired(now) {
                        go_on = meet(&one);
                    }
                });
            }
            if !go_on {
                break;
            }
        }
        Ok(())
    }

    /// A key of the database, each about as likely as any other; `None` if there is none.
    pub fn random_key(&mut self, random: &mut Rng) -> Result<Option<Vec<u8>>, Busy> {
        let (Scope { space, db, .. }, now) = (self.scope, self.scope.seen_at());
        let Some(sizes) = space.sizes(db) else { return Ok(None) };
        let mut expired = None;
        for _ in 0..RANDOM_DRAWS {
            let total = sizes.keys();
            if total == 0 {
                return Ok(None);
            }
            let mut rank = random.below(total);
            for id in PartitionId::all() {
                let here = u64::from(sizes.keys_in(id));
                if rank >= here {
                    rank -= here;
                    continue;
                }
                let held = self.look_into(id)?;
                let Some(part) = held.db_if_used(db) else { break };
                if let Some(place) = part.table().random(&mut || random.next_u64()) {
                    let one = WalkedKey { table: part.table(), place };
                    if !one.is_expired(now) {
                        return Ok(Some(one.key().to_vec()));
                    }
                    expired = Some(one.key().to_vec());
                }
                break;
            }
        }
        // Nearly all keys have expired and wait for the sweep: take the first that has not.
        let mut found = None;
        let mut at = ScanCursor(0);
        loop {
            at = self.scan(at, 1, &mut |one| found = Some(one.key().to_vec()))?;
            if found.is_some() {
                return Ok(found);
            }
            if at == ScanCursor(0) {
                // As in Redis: an expired key that may not be removed now is returned, if there is
                // no other.
                return Ok(expired.filter(|_| space.hides_expired()));
            }
        }
    }

    /// Passes each partition's part of the database to `see`, waiting for each: for reports, on
    /// threads that may block.
    ///
    /// # Errors
    /// A partition has been held for too long.
    pub fn each_table(&mut self, see: &mut dyn FnMut(&Table<Object>)) -> Result<(), Aborted> {
        let db = self.scope.db;
        for id in PartitionId::all() {
            let held = self.visit_waiting(id)?;
            if let Some(part) = held.db_if_used(db) {
                see(part.table());
            }
        }
        Ok(())
    }

    /// Runs `work` with all partitions held: those that are held already, or with no other thread
    /// inside ([`Keyspace::alone`]). In that case what `work` records is a step of its own. Threads
    /// that are not inside, and expire or evict keys, wait: their steps come before or after.
    pub(crate) fn alone<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> Result<R, Aborted> {
        if self.holds_everything() {
            return Ok(work(self));
        }
        debug_assert!(self.held.is_empty(), "outside the gate nothing is held");
        let space = self.scope.space;
        space.alone(|| {
            let all = PartitionId::all().map(|id| (id, space.hold_at_last(id)));
            self.held = AllHeld::of(all.collect());
            debug_assert!(self.holds_everything(), "each was taken");
            let result = work(self);
            self.end_step();
            self.held.clear();
            if let Some(recorder) = self.scope.recorder {
                recorder.hand_over();
            }
            result
        })
    }

    /// Empties one database, or all of them, with no other thread inside; returns the old data.
    /// Only from outside the gate, or with all partitions held.
    ///
    /// # Errors
    /// A thread inside the gate does not leave it.
    pub fn flush(&mut self, only: Option<DbIndex>) -> Result<Garbage, Aborted> {
        self.flush_and(only, true)
    }

    /// Like [`Locked::flush`] of all databases, for keys that are about to come back: clients
    /// blocked on a key are not woken.
    ///
    /// # Errors
    /// A thread inside the gate does not leave it.
    pub fn flush_for_now(&mut self) -> Result<Garbage, Aborted> {
        self.flush_and(None, false)
    }

    fn flush_and(&mut self, only: Option<DbIndex>, calls: bool) -> Result<Garbage, Aborted> {
        self.alone(|locked| {
            let is_meant = |db: DbIndex| only.is_none_or(|only| only == db);
            for id in PartitionId::all() {
                locked.visit_alone(id).rest.waiters.tracked.clear();
                locked.touch_all(id, &is_meant, calls);
            }
            let space = locked.scope.space;
            let mut tables = Vec::new();
            for db in (0..space.database_count()).map(DbIndex).filter(|db| is_meant(*db)) {
                let Some(sizes) = space.sizes(db) else { continue };
                for id in PartitionId::all().filter(|id| sizes.keys_in(*id) > 0) {
                    let (table, called) = locked.visit_alone(id).flush(db, id, sizes);
                    tables.extend(table);
                    locked.woken.add(called);
                }
                debug_assert_eq!(sizes.keys(), 0, "nothing is left of it");
            }
            locked.listeners().flushed(only);
            match only {
                Some(db) => locked.record_whole(db, &[b"FLUSHDB"]),
                None => locked.record_whole(locked.scope.db, &[b"FLUSHALL"]),
            }
            Garbage::Tables(tables)
        })
    }

    /// Records a change of whole databases. With everything held.
    fn record_whole(&mut self, db: DbIndex, args: &[&[u8]]) {
        debug_assert!(self.holds_everything(), "{:?}", args.first());
        if let Some(recorder) = self.scope.recorder.filter(|one| one.is_on()) {
            recorder.record(db.0, args);
        }
    }

    /// The observers of changes of whole databases. With everything held.
    pub(crate) fn listeners(&mut self) -> impl ChangeObserver + '_ {
        Listeners::new(self.scope.space, &mut self.woken, Readers::new())
    }

    /// All keys of these databases are about to change, or are new: touches the watches of present
    /// keys and, if `calls`, wakes the clients blocked on keys, once the partitions are free.
    pub(crate) fn touch_all(
        &mut self,
        id: PartitionId,
        is_meant: &dyn Fn(DbIndex) -> bool,
        calls: bool,
    ) {
        let space = self.scope.space;
        let mut held = self.visit_alone(id);
        if held.rest.waiters.is_empty() {
            return;
        }
        let mut waiters = std::mem::take(&mut held.rest.waiters);
        let partition: &Partition = &held;
        let mut exists = |db: DbIndex, key: &[u8]| {
            let part = partition.db_if_used(db).filter(|_| is_meant(db));
            part.is_some_and(|part| part.table().find(space.hash(key), key).is_some())
        };
        waiters.touch_where(&mut exists);
        let called = if calls { waiters.take_where(&mut exists) } else { Vec::new() };
        held.rest.waiters = waiters;
        drop(held);
        self.woken.add(called.iter().filter(|waiter| waiter.ends_now()).map(|one| one.ticket()));
    }

    /// Exchanges two databases, with no other thread inside. Only from outside the gate, or with
    /// all partitions held.
    ///
    /// # Errors
    /// A thread inside the gate does not leave it.
    pub fn swap_databases(&mut self, left: DbIndex, right: DbIndex) -> Result<(), Aborted> {
        if left == right {
            return Ok(());
        }
        let is_meant = |db: DbIndex| db == left || db == right;
        self.alone(|locked| {
            let space = locked.scope.space;
            for id in PartitionId::all() {
                locked.touch_all(id, &is_meant, true);
                let mut held = locked.visit_alone(id);
                held.rest.waiters.tracked.clear();
                held.databases.swap(left, right, id, space);
                drop(held);
                // A key that clients are blocked on may be there now.
                locked.touch_all(id, &is_meant, true);
            }
            locked.listeners().swapped(left, right);
            let (left, right) = (left.0.to_string(), right.0.to_string());
            let db = locked.scope.db;
            locked.record_whole(db, &[b"SWAPDB", left.as_bytes(), right.as_bytes()]);
        })
    }
}

impl Keyspace {
    /// Runs `work` with no other thread inside. Only from outside the gate, and not while a thread
    /// stays inside for ever.
    ///
    /// While a thread of the lane stays inside for long, the gate is open for others. Each time it
    /// is closed for longer, so that in the end it is closed long enough, however many long jobs
    /// there are.
    pub(crate) fn alone<R>(&self, work: impl FnOnce() -> R) -> Result<R, Aborted> {
        may_wait::check();
        let mut work = Some(work);
        let mut looks = FIRST_LOOKS;
        loop {
            // Checked before the gate is closed: otherwise others would wait in vain.
            if self.is_aborted(WaitTarget::Gate) {
                return Err(Aborted(WaitTarget::Gate));
            }
            let tried = self.gate().try_alone(looks, || {
                // The caller may have waited for that, too.
                let is_aborted = self.is_aborted(WaitTarget::Gate);
                work.take().filter(|_| !is_aborted).map(|work| work())
            });
            match tried {
                Ok(result) => return result.ok_or(Aborted(WaitTarget::Gate)),
                Err(occupied) => self.await_leaving(&occupied)?,
            }
            looks = looks.saturating_mul(2);
        }
    }

    /// Frees garbage, in the background or here.
    pub fn dispose(&self, garbage: Garbage, in_background: bool, tally: &Tally) {
        if in_background {
            self.reclaim(garbage, tally);
        }
    }

    /// Evicts tracked keys, and tells their readers, until there are at most `most`. Looks at
    /// partitions that are free now, each at most twice; the rest is left to the next call.
    pub fn shrink_tracked(&self, most: usize) {
        for _ in 0..2 * PARTITION_COUNT {
            let excess = self.tracked().keys.load(Ordering::Relaxed).saturating_sub(most);
            if excess == 0 {
                return;
            }
            let next = self.tracked().next.fetch_add(1, Ordering::Relaxed);
            let id = PartitionId((next % PARTITION_COUNT) as u16);
            let Some(mut held) = self.partition(id).try_lock() else { continue };
            let share = excess.div_ceil(PARTITION_COUNT).min(FORGOTTEN_PER_LOCK);
            let (mut effects, mut tickets) = (Effects::default(), Vec::new());
            for _ in 0..share {
                let Some((key, readers)) = held.rest.waiters.tracked.take_any() else { break };
                effects.push(Effect::Invalidate { key, readers, author: 0 });
            }
            effects.hand_over(self, &mut tickets);
            drop(held);
            wake(tickets);
        }
    }

    /// The mean time to live, in milliseconds, of some of the keys with a deadline, beginning at a
    /// random partition; 0 if there are none. Never waits: busy partitions are left out.
    pub fn mean_ttl_ms(&self, db: DbIndex, now: UnixMs, random: &mut Rng) -> u64 {
        let Some(sizes) = self.sizes(db) else { return 0 };
        let (mut sum, mut count, mut looked) = (0_u128, 0_u64, 0_usize);
        let begin = random.below(PARTITION_COUNT as u64) as usize;
        for number in 0..PARTITION_COUNT {
            let id = PartitionId(((begin + number) % PARTITION_COUNT) as u16);
            if count >= TTL_SAMPLES || looked >= TTL_LOOKS {
                break;
            }
            if sizes.with_deadline_in(id) == 0 {
                continue;
            }
            let Some(held) = self.partition(id).try_lock() else { continue };
            let Some(part) = held.db_if_used(db) else { continue };
            let mut cursor = Cursor::START;
            while !cursor.is_end() && count < TTL_SAMPLES && looked < TTL_LOOKS {
                cursor = part.table().scan(cursor, &mut |place| {
                    looked += 1;
                    if let Some(deadline) = part.table().deadline(place) {
                        sum += u128::from(deadline.0.abs_diff(now.0.min(deadline.0)));
                        count += 1;
                    }
                });
            }
        }
        u64::try_from(sum / u128::from(count.max(1))).unwrap_or(u64::MAX)
    }

    /// Bytes of the tables of a database, without its records. Never waits: busy partitions are
    /// left out.
    pub fn index_bytes(&self, db: DbIndex) -> u64 {
        let Some(sizes) = self.sizes(db) else { return 0 };
        let mut sum = 0;
        for id in PartitionId::all().filter(|id| sizes.keys_in(*id) > 0) {
            if let Some(held) = self.partition(id).try_lock()
                && let Some(part) = held.db_if_used(db)
            {
                sum += part.table().heap_bytes() as u64;
            }
        }
        sum
    }
}

fn wake(tickets: Vec<Ticket>) {
    tickets.into_iter().for_each(pantala_sync::lock::Ticket::wake);
}
