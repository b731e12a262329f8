//! Pinned keys: keys that do not change while they are sent to another server (MIGRATE).
//!
//! ```text
//! begin   gate closed for a moment: every turn from now on asks before it writes
//! pin     these keys, all or none; a command that would write to one parks
//! drop    the commands parked there run again
//! ```
//!
//! A pin holds no partition: other keys are not affected, and commands that only read the key go
//! on. Commands that write ask about pins where they ask about the snapshot
//! (`engine::execute::saving`).
//!
//! Invariants
//! 1. Once [`Keyspace::pins`] has returned, every turn sees that writers have to ask
//!    ([`WaitReasons`]): the flag is set with the gate closed, and cleared when nothing is pinned
//!    any more.
//! 2. A command asks with the partitions of its keys held, and writes in the same hold. So a thread
//!    that takes a partition after the pin was made sees all changes that did not ask.
//! 3. A key is pinned for one owner at a time, whose own commands are not held up.
//!
//! Changes that do not ask (FLUSHALL, SWAPDB, expiry, eviction, a script that cannot be undone any
//! more, a command that asked before the pin and gave way in between) happen to pinned keys too:
//! therefore the owner of a pin also watches its keys.
//!
//! Tests: at the foot; crates/server/tests/migrate.rs.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use pantala_sync::lock::Ticket as _;
use parking_lot::{Mutex, MutexGuard};

use crate::Keyspace;
use crate::access::may_wait::{Aborted, PinWait};
use crate::access::ticket::Ticket;
use crate::key::{DbIndex, Key};

/// The reasons for which commands that write ask first whether to wait, as the bits of one byte: a
/// turn reads it once.
#[derive(Debug, Default)]
pub(crate) struct WaitReasons(AtomicU8);

impl WaitReasons {
    /// A snapshot runs.
    pub const SNAPSHOT: u8 = 1 << 0;
    /// Keys may be pinned.
    pub const PINS: u8 = 1 << 1;

    /// Sets a reason. With the gate closed.
    pub fn begin(&self, reason: u8) {
        self.0.fetch_or(reason, Ordering::Relaxed);
    }

    /// Clears a reason.
    pub fn end(&self, reason: u8) {
        self.0.fetch_and(!reason, Ordering::Relaxed);
    }
}

/// All pinned keys of the keyspace, and the commands that are parked until one is unpinned.
#[derive(Debug, Default)]
pub(crate) struct AllPins {
    /// The number of pinned keys, so that a cheap look suffices while there are none.
    count: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    by_key: HashMap<Box<[u8]>, Vec<(DbIndex, u64)>>,
    by_number: HashMap<u64, Pin>,
    last: u64,
    /// How many owners may pin.
    users: usize,
    /// Writers have to ask.
    is_open: bool,
}

/// The keys that were pinned together.
#[derive(Default)]
struct Pin {
    owner: u64,
    tickets: Vec<Ticket>,
}

impl std::fmt::Debug for Pin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pin({}, {} waiting)", self.owner, self.tickets.len())
    }
}

impl AllPins {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// The pin of another owner on one of these keys, if any.
    fn of_another<'k>(
        &self,
        mut keys: impl Iterator<Item = &'k [u8]>,
        db: Option<DbIndex>,
        owner: u64,
    ) -> Option<u64> {
        keys.find_map(|key| {
            let meant = self.by_key.get(key)?.iter();
            let mut meant = meant.filter(|(other, _)| db.is_none_or(|db| db == *other));
            let is_of_another = |number: &u64| self.by_number[number].owner != owner;
            meant.find_map(|(_, number)| is_of_another(number).then_some(*number))
        })
    }
}

/// The right to pin keys, and the keys pinned with it. Dropping it unpins them.
#[derive(Debug)]
pub struct Pins {
    all: Arc<AllPins>,
    number: u64,
    keys: Vec<(DbIndex, Box<[u8]>)>,
}

impl Pins {
    /// Pins these keys of a database, all or none, present or not.
    ///
    /// # Errors
    /// One of them is pinned for another owner.
    pub fn pin(&mut self, db: DbIndex, keys: &[&[u8]], owner: u64) -> Result<(), PinWait> {
        let mut state = self.all.state();
        if let Some(number) = state.of_another(keys.iter().copied(), Some(db), owner) {
            return Err(PinWait(number));
        }
        debug_assert!(state.users > 0, "this is one of them");
        let number = self.number;
        state.by_number.entry(number).or_default().owner = owner;
        for &key in keys {
            let pinned = state.by_key.entry(key.into()).or_default();
            if !pinned.contains(&(db, number)) {
                pinned.push((db, number));
                self.keys.push((db, key.into()));
                self.all.count.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        let mut state = self.all.state();
        for (db, key) in self.keys.drain(..) {
            let Some(pinned) = state.by_key.get_mut(&key) else { continue };
            pinned.retain(|one| *one != (db, self.number));
            if pinned.is_empty() {
                state.by_key.remove(&key);
            }
            let before = self.all.count.fetch_sub(1, Ordering::Relaxed);
            debug_assert!(before > 0, "it was counted");
        }
        debug_assert!(state.users > 0, "it was counted");
        state.users -= 1;
        let tickets = state.by_number.remove(&self.number).unwrap_or_default().tickets;
        drop(state);
        tickets.into_iter().for_each(Ticket::wake);
    }
}

impl Keyspace {
    /// Whether commands that write ask first whether to wait. Within a turn this may end, but not
    /// begin.
    #[inline]
    pub fn writes_ask(&self) -> bool {
        self.asking.0.load(Ordering::Relaxed) != 0
    }

    /// The right to pin keys. Only from outside the gate, on a thread that may wait.
    ///
    /// # Errors
    /// A thread inside the gate does not leave it.
    pub fn pins(&self) -> Result<Pins, Aborted> {
        let (number, is_open) = {
            let mut state = self.pins.state();
            state.users += 1;
            state.last += 1;
            (state.last, state.is_open)
        };
        let pins = Pins { all: Arc::clone(&self.pins), number, keys: Vec::new() };
        if !is_open {
            self.alone(|| self.asking.begin(WaitReasons::PINS))?;
            self.pins.state().is_open = true;
        }
        Ok(pins)
    }

    /// Ends the asking of writers if nothing is pinned; whether it has ended. To begin it again
    /// costs a moment with the gate closed, so this is called only some time after the last pin.
    pub fn close_pins(&self) -> bool {
        let mut state = self.pins.state();
        if state.users == 0 {
            state.is_open = false;
            self.asking.end(WaitReasons::PINS);
        }
        state.users == 0
    }

    /// Whether a command of `owner` has to wait before it writes to these keys, which are held.
    /// `everywhere`: their database is not known in advance.
    pub fn awaits_pins(
        &self,
        db: DbIndex,
        keys: &[Key<'_>],
        everywhere: bool,
        owner: u64,
    ) -> Option<PinWait> {
        if self.pins.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let db = (!everywhere).then_some(db);
        let state = self.pins.state();
        state.of_another(keys.iter().map(|key| key.bytes), db, owner).map(PinWait)
    }

    /// Leaves a ticket until a pin ends.
    ///
    /// # Errors
    /// It has ended: try again.
    pub fn park_at_pin(&self, wait: PinWait, ticket: Ticket) -> Result<(), Ticket> {
        match self.pins.state().by_number.get_mut(&wait.0) {
            Some(pin) => pin.tickets.push(ticket),
            None => return Err(ticket),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pantala_base::hash::HashSeed;

    use super::*;
    use crate::{KeyspaceConfig, ThreadWaker};

    fn space() -> Keyspace {
        let seed = HashSeed::from_words(1, 2);
        Keyspace::new(KeyspaceConfig { seed, databases: 2, worker_slots: 1, lane_slots: 1 })
    }

    fn awaits(space: &Keyspace, db: u32, key: &str, everywhere: bool) -> Option<PinWait> {
        space.awaits_pins(DbIndex(db), &[space.key(key.as_bytes())], everywhere, 9)
    }

    #[test]
    fn a_pinned_key_is_waited_for_until_its_pin_ends() {
        let space = space();
        assert!(!space.writes_ask());
        let mut pins = space.pins().expect("nobody is inside");
        assert!(space.writes_ask());
        pins.pin(DbIndex(0), &[b"one", b"two", b"one"], 7).expect("nobody has them");
        let wait = awaits(&space, 0, "one", false).expect("it is pinned");
        assert_eq!(awaits(&space, 1, "two", true), Some(wait));
        for (db, key, everywhere) in [(0, "three", true), (1, "one", false)] {
            assert_eq!(awaits(&space, db, key, everywhere), None, "{db} {key}");
        }
        let of_its_owner = space.awaits_pins(DbIndex(0), &[space.key(b"one")], false, 7);
        assert_eq!(of_its_owner, None);
        let waker = ThreadWaker::for_this_thread();
        assert!(space.park_at_pin(wait, Ticket::Thread(waker.clone())).is_ok());
        assert!(!space.close_pins());
        drop(pins);
        waker.wait();
        assert_eq!(awaits(&space, 0, "one", true), None);
        assert!(space.park_at_pin(wait, Ticket::Thread(waker)).is_err());
        assert!(space.writes_ask(), "until it is closed");
        assert!(space.close_pins());
        assert!(!space.writes_ask());
        let state = space.pins.state();
        assert!(state.by_key.is_empty() && state.by_number.is_empty());
    }

    #[test]
    fn who_pins_gets_all_or_none() {
        let space = space();
        let mut first = space.pins().expect("nobody is inside");
        let mut second = space.pins().expect("nobody is inside");
        first.pin(DbIndex(0), &[b"a", b"b"], 1).expect("nobody has them");
        second.pin(DbIndex(1), &[b"a"], 2).expect("another database");
        assert!(second.pin(DbIndex(0), &[b"c", b"b"], 2).is_err());
        assert_eq!(awaits(&space, 0, "c", false), None);
        drop(first);
        assert_eq!(second.pin(DbIndex(0), &[b"c", b"b"], 2), Ok(()));
        assert!(awaits(&space, 0, "c", false).is_some());
    }
}
