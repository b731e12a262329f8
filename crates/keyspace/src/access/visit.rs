//! Visitors: other commands in a partition while a long command works on one value of it.
//!
//! ```text
//! lock, take the value out | open: work on the value | close, put it back, publish
//!                             ^ commands on other keys come in, one after the other
//! ```
//!
//! A command of very many arguments on a large value cannot copy it, and would hold its partition
//! until it is done. Instead it takes the value out, *bars* the key and opens the partition to
//! *visitors*: commands that name all their keys, none of which is barred. For everything else
//! (commands that name the key, transactions, scripts, walks, snapshots, closing the gate) the
//! partition is held as before. So the command is still one step.
//!
//! Invariants
//! 1. While a partition is open one of its keys is barred, by its hash. A holder of the partition
//!    is then a visitor, and opens no key with that hash: plans are checked when they are taken
//!    ([`Locked::visit`]), keys named later in [`Locked::try_hold`] and [`Locked::reach`].
//! 2. In the value's place is an empty one without a deadline, which eviction passes over, so no
//!    visitor removes it. No visitor sees it: a command that looks at keys which it does not name
//!    is never a visitor.
//! 3. The command that opens the partition holds no other one and no token, and waits for nothing
//!    except visitors. So it ends, and there is no deadlock.
//! 4. A panic of the work closes the partition, with what is left of the value in its place.
//!
//! Tests: at the foot; `commands/long_work/copy_and_swap.rs`; the lock's own in `sync`.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pantala_base::UnixMs;
use pantala_values::Collection;

use crate::access::locked::Locked;
use crate::access::plan::LockPlan;
use crate::access::ticket::{ThreadWaker, Ticket};
use crate::key::{Key, PartitionId};
use crate::{Busy, Keyspace};

/// Why a partition could not be visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisitFailure {
    /// It is not open, or a key of the plan is barred: wait until it is free.
    Barred(Busy),
    /// It is open, and a visitor is inside for a moment.
    Occupied(Busy),
}

/// A value that was taken out, with the deadline and mark of its record.
struct TakenValue<C> {
    value: C,
    deadline: Option<UnixMs>,
    was_sticky: bool,
}

impl<'k> Locked<'k> {
    /// Takes all partitions of a plan or none, as [`Locked::take`] does, including open ones where
    /// none of the keys with these hashes is barred.
    ///
    /// # Errors
    /// One could not be taken; nothing is held.
    #[cold]
    pub fn visit(&mut self, plan: &LockPlan, hashes: &[u64]) -> Result<(), VisitFailure> {
        debug_assert!(self.held.is_empty(), "a plan is taken at once");
        for &id in plan.partitions() {
            let lock = self.scope.space.partition(id);
            let Some(held) = lock.visit() else {
                self.held.clear();
                let missed =
                    if lock.is_open() { VisitFailure::Occupied } else { VisitFailure::Barred };
                return Err(missed(Busy(id)));
            };
            if hashes.iter().any(|hash| held.rest.barred == Some(*hash)) {
                drop(held);
                self.held.clear();
                return Err(VisitFailure::Barred(Busy(id)));
            }
            self.held.push(id, held);
        }
        Ok(())
    }

    /// Whether this key, whose partition is held by a visitor, is barred.
    pub(crate) fn is_barred(&self, place: usize, hash: u64) -> bool {
        self.held[place].1.rest.barred == Some(hash)
    }

    /// Whether [`Locked::work_apart`] is possible: exactly one partition is held, and not as a
    /// visitor.
    pub fn may_work_apart(&self) -> bool {
        let one = matches!(&*self.held, [(_, held)] if held.rest.barred.is_none());
        one && self.token.is_none() && !self.woken.keeps() && !self.has_ready()
    }

    /// Changes the collection at a key, which must be there and of this type, with its partition
    /// open to visitors. The caller opens the key again and publishes the change, or declares that
    /// there is none. Only on threads that may block, and where it [may](Locked::may_work_apart).
    pub fn work_apart<C: Collection, R>(
        &mut self,
        key: Key<'_>,
        work: impl FnOnce(&mut C) -> R,
    ) -> Option<R> {
        debug_assert!(self.may_work_apart());
        let mut taken = self.take_out::<C>(key)?;
        let value = &mut taken.value;
        let result = self.while_open(key.hash, || catch_unwind(AssertUnwindSafe(|| work(value))));
        self.put_back(key, taken);
        match result {
            Ok(result) => Some(result),
            Err(panic) => resume_unwind(panic),
        }
    }

    fn take_out<C: Collection>(&mut self, key: Key<'_>) -> Option<TakenValue<C>> {
        let mut opened = self.peek(key);
        let value = std::mem::take(opened.collection_mut::<C>().ok()??);
        let deadline = opened.deadline();
        opened.set_deadline(None);
        let was_sticky = !opened.set_sticky(true);
        opened.unchanged();
        Some(TakenValue { value, deadline, was_sticky })
    }

    fn put_back<C: Collection>(&mut self, key: Key<'_>, taken: TakenValue<C>) {
        let mut opened = self.peek(key);
        let place = opened.collection_mut::<C>();
        *place.ok().flatten().expect("nobody has touched what is barred") = taken.value;
        opened.set_deadline(taken.deadline);
        opened.set_sticky(taken.was_sticky);
        opened.unchanged();
    }

    /// Runs something with the held partition open to visitors; the key with this hash is barred.
    /// The effects so far are published before.
    fn while_open<R>(&mut self, hash: u64, run: impl FnOnce() -> R) -> R {
        self.end_step();
        self.woken.tell(self.scope.space);
        let (id, mut held) = self.held.take_only();
        debug_assert!(held.rest.barred.is_none(), "one key is barred at a time");
        debug_assert_eq!(id, PartitionId::of(hash), "the key is there");
        held.rest.barred = Some(hash);
        let open = held.open();
        self.woken.wake();
        let result = run();
        let mut held = open.close(|lock| {
            let waker = ThreadWaker::for_this_thread();
            if lock.park_visitor(Ticket::Thread(waker.clone())).is_ok() {
                waker.wait();
            }
        });
        debug_assert_eq!(held.rest.barred, Some(hash), "nobody else bars or opens");
        held.rest.barred = None;
        self.held.push(id, held);
        self.at = 0;
        result
    }
}

impl Keyspace {
    /// Whether a busy partition is open to visitors.
    pub fn is_open(&self, busy: Busy) -> bool {
        self.partition(busy.0).is_open()
    }

    /// Leaves a ticket with an open partition, for when no visitor is inside. `Err`: none is inside
    /// by now, try again.
    pub fn park_visitor(&self, busy: Busy, ticket: Ticket) -> Result<(), Ticket> {
        self.partition(busy.0).park_visitor(ticket)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use pantala_base::hash::HashSeed;
    use pantala_values::Set;
    use pantala_values::set::SetLimits;

    use super::*;
    use crate::key::{DbIndex, PARTITION_COUNT};
    use crate::{Expiry, KeyspaceConfig, ScanCursor, Scope, Tally, event};

    const NOW: UnixMs = UnixMs(5);
    const DEADLINE: UnixMs = UnixMs(1_000);

    fn scope<'k>(space: &'k Keyspace, tally: &'k Tally) -> Scope<'k> {
        Scope {
            space,
            db: DbIndex(0),
            now: NOW,
            tally,
            touch: true,
            sees_expired: false,
            recorder: None,
        }
    }

    /// Two keys of one partition; under the first is a set of two members, with a deadline.
    fn prepare(tally: &Tally) -> (Keyspace, String, String) {
        let seed = HashSeed::from_words(1, 2);
        let space =
            Keyspace::new(KeyspaceConfig { seed, databases: 1, worker_slots: 1, lane_slots: 1 });
        let first = String::from("first");
        let wanted = space.hash(first.as_bytes()) % PARTITION_COUNT as u64;
        let mut names = (0..).map(|number| format!("key{number}"));
        let is_near =
            |name: &String| space.hash(name.as_bytes()) % PARTITION_COUNT as u64 == wanted;
        let second = names.find(is_near).expect("there is one");
        fill(&space, tally, &first);
        (space, first, second)
    }

    fn fill(space: &Keyspace, tally: &Tally, name: &str) {
        let key = space.key(name.as_bytes());
        let plan = LockPlan::one(key.hash);
        let mut locked = space.lock(&plan, scope(space, tally)).expect("free");
        let mut set = Set::default();
        let limits = SetLimits { ints: 5, entries: 5, value_bytes: 64 };
        for member in [&b"a"[..], b"b"] {
            set.add(member, limits, NOW);
        }
        let mut opened = locked.open(key);
        opened.set_collection(set, Expiry::At(DEADLINE));
        opened.publish(event::SADD);
    }

    fn visit<'k>(
        space: &'k Keyspace,
        tally: &'k Tally,
        names: &[&str],
    ) -> Result<Locked<'k>, VisitFailure> {
        let hashes: Vec<u64> = names.iter().map(|name| space.hash(name.as_bytes())).collect();
        let mut locked = space.lock_none(scope(space, tally));
        locked.visit(&LockPlan::of(hashes.iter().copied()), &hashes).map(|()| locked)
    }

    fn work_apart<R>(
        space: &Keyspace,
        tally: &Tally,
        name: &str,
        work: impl FnOnce(&mut Set) -> R,
    ) -> Option<R> {
        let key = space.key(name.as_bytes());
        let plan = LockPlan::one(key.hash);
        let mut locked = space.lock(&plan, scope(space, tally)).expect("free");
        assert!(locked.may_work_apart());
        let result = locked.work_apart(key, work);
        assert!(locked.may_work_apart(), "it is held as before");
        let opened = locked.peek(key);
        assert_eq!((opened.deadline(), opened.exists()), (Some(DEADLINE), true));
        assert!(opened.record().is_some_and(|(table, place)| !table.sticky(place)));
        result
    }

    /// On a thread of its own: one holds partitions for one command at a time.
    fn beside<R: Send>(run: impl FnOnce() -> R + Send) -> R {
        std::thread::scope(|threads| threads.spawn(run).join().expect("no panic"))
    }

    #[test]
    fn others_come_in_but_not_to_the_key() {
        let tally = Tally::default();
        let (space, first, second) = prepare(&tally);
        let id = crate::PartitionId::of(space.hash(first.as_bytes()));
        let removed = work_apart(&space, &tally, &first, |set| {
            let neighbour = beside(|| {
                let tally = Tally::default();
                let mut locked = visit(&space, &tally, &[&second])?;
                assert!(!locked.may_work_apart(), "there is one owner");
                let key = space.key(second.as_bytes());
                assert!(!locked.try_hold(space.hash(first.as_bytes())), "it is barred");
                assert!(!locked.reach(space.hash(first.as_bytes())), "it is barred");
                let mut opened = locked.open(key);
                opened.set_string(b"value", Expiry::Never);
                opened.publish(event::SET);
                Ok::<(), VisitFailure>(())
            });
            assert_eq!(neighbour, Ok(()));
            for names in [&[&first[..]][..], &[&second, &first]] {
                let missed = beside(|| visit(&space, &Tally::default(), names).err());
                assert_eq!(missed, Some(VisitFailure::Barred(Busy(id))));
            }
            let (is_locked, scanned) = beside(|| {
                let tally = Tally::default();
                let mut locked = space.lock_none(scope(&space, &tally));
                let plan = LockPlan::one(space.hash(second.as_bytes()));
                let is_locked = locked.take(&plan).is_ok();
                (is_locked, locked.scan(ScanCursor(u64::from(id.0)), 9, &mut |_| {}))
            });
            assert_eq!((is_locked, scanned), (false, Err(Busy(id))), "for others it is held");
            assert!(space.is_open(Busy(id)));
            set.remove(b"a", NOW)
        });
        assert_eq!((removed, space.is_open(Busy(id))), (Some(true), false));
        let mut locked = visit(&space, &tally, &[&first, &second]).expect("it is free");
        assert_eq!(
            locked.peek(space.key(second.as_bytes())).string().map(|one| one.is_some()),
            Ok(true)
        );
        let opened = locked.peek(space.key(first.as_bytes()));
        assert_eq!(
            opened.collection::<Set>().map(|set| set.map(|set| set.view().len())),
            Ok(Some(1))
        );
    }

    #[test]
    fn a_visitor_inside_is_waited_for() {
        let tally = Tally::default();
        let (space, first, second) = prepare(&tally);
        let is_in = std::sync::Barrier::new(2);
        std::thread::scope(|threads| {
            let visitor = work_apart(&space, &tally, &first, |_| {
                let visitor = threads.spawn(|| {
                    let tally = Tally::default();
                    let mut locked = visit(&space, &tally, &[&second]).expect("it is open");
                    is_in.wait();
                    // The owner waits with a ticket by now, or comes to it.
                    let id = crate::PartitionId::of(space.hash(second.as_bytes()));
                    while space.partition(id).parked_count() == 0 {
                        std::thread::yield_now();
                    }
                    let mut opened = locked.open(space.key(second.as_bytes()));
                    opened.set_string(b"value", Expiry::Never);
                    opened.publish(event::SET);
                });
                is_in.wait();
                visitor
            });
            visitor.expect("there is a set").join().expect("no panic");
        });
    }

    #[test]
    fn a_panic_closes_it() {
        let tally = Tally::default();
        let (space, first, second) = prepare(&tally);
        let key = space.key(first.as_bytes());
        let plan = LockPlan::one(key.hash);
        let mut locked = space.lock(&plan, scope(&space, &tally)).expect("free");
        let began = Cell::new(false);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            locked.work_apart(key, |set: &mut Set| {
                began.set(true);
                set.remove(b"b", NOW);
                panic!("a fault of ours");
            })
        }));
        assert!(panicked.is_err() && began.get());
        assert!(locked.may_work_apart());
        let opened = locked.peek(key);
        assert_eq!(
            opened.collection::<Set>().map(|set| set.map(|set| set.view().len())),
            Ok(Some(1))
        );
        assert_eq!(opened.deadline(), Some(DEADLINE));
        drop(opened);
        drop(locked);
        assert!(
            space
                .lock(&LockPlan::one(space.hash(second.as_bytes())), scope(&space, &tally))
                .is_ok()
        );
    }
}
