//! Deadlines that clients of a writable replica have set: the replica removes such a key itself,
//! and does not wait for its primary.
//!
//! ```text
//! a client sets a deadline --> noted, by key
//! the sweep: due, and still the key's deadline --> removed
//! ```
//!
//! Only a writable replica notes deadlines; any other server pays one load for each deadline.
//!
//! Invariants
//! 1. A key is removed only if its present deadline was set by a client of this replica. If the
//!    primary or a full copy has replaced the key since, it has another deadline or none.
//!
//! Tests: `tests/expiry.rs`.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use pantala_base::UnixMs;
use pantala_journal::Recorder;
use pantala_table::is_expired;
use parking_lot::{Mutex, MutexGuard};

use super::sweep::SweepResult;
use crate::Keyspace;
use crate::access::scope::Scope;
use crate::changes::change::Changes;
use crate::key::{DbIndex, PartitionId};
use crate::tally::Tally;

type Name = (DbIndex, Arc<[u8]>);

/// The noted deadlines.
#[derive(Default)]
pub(crate) struct OwnDeadlines(Mutex<State>);

#[derive(Default)]
struct State {
    of: HashMap<Name, UnixMs>,
    ordered: BTreeSet<(UnixMs, Name)>,
}

impl OwnDeadlines {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// Notes that a client has given a key a deadline; whether it is the earliest now.
    pub fn note(&self, db: DbIndex, key: &[u8], deadline: UnixMs) -> bool {
        let (mut state, name) = (self.state(), (db, Arc::from(key)));
        if let Some(before) = state.of.insert(name.clone(), deadline) {
            state.ordered.remove(&(before, name.clone()));
        }
        state.ordered.insert((deadline, name));
        debug_assert_eq!(state.of.len(), state.ordered.len(), "each has one deadline");
        state.ordered.first().is_some_and(|(first, _)| *first == deadline)
    }

    /// Takes the first that has passed.
    fn take_due(&self, now: UnixMs) -> Option<(UnixMs, Name)> {
        let mut state = self.state();
        let first = state.ordered.first().filter(|(deadline, _)| is_expired(*deadline, now));
        let (deadline, name) = first.cloned()?;
        state.ordered.pop_first();
        let known = state.of.remove(&name);
        debug_assert_eq!(known, Some(deadline), "each has one deadline");
        Some((deadline, name))
    }

    /// The deadline that comes first.
    pub fn earliest(&self) -> Option<UnixMs> {
        self.state().ordered.first().map(|(deadline, _)| *deadline)
    }

    /// Forgets all: this is no replica any more, and the sweep finds every key.
    pub fn forget(&self) {
        *self.state() = State::default();
    }
}

impl Keyspace {
    /// Removes the keys whose deadlines were set by clients of this server and have passed.
    pub(crate) fn sweep_own(
        &self,
        now: UnixMs,
        tally: &Tally,
        recorder: Option<&Recorder>,
    ) -> SweepResult {
        let mut found = SweepResult::default();
        while let Some((deadline, (db, name))) = self.own_deadlines.take_due(now) {
            found.seen += 1;
            let scope =
                Scope { space: self, db, now, tally, touch: false, sees_expired: false, recorder };
            let key = self.key(&name);
            let id = PartitionId::of(key.hash);
            let longest = &mut found.longest_hold_us;
            let removed = self.sweep_step(id, scope, longest, |held, woken| {
                let removed = Changes::of(held, woken, id, scope).expire_own(key, deadline);
                held.databases.forget_if_empty(db);
                u64::from(removed)
            });
            match removed {
                Some(removed) => found.removed += removed,
                None => {
                    // A script holds it: at the next round.
                    let _earliest = self.own_deadlines.note(db, &name, deadline);
                    break;
                }
            }
        }
        found
    }
}
