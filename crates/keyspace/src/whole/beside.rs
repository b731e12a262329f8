//! Data that is loaded beside the present data, and replaces it at one moment.
//!
//! ```text
//! space.beside() -- is filled, while the old is served -- Locked::replace_all -- old: garbage
//! ```
//!
//! Invariants
//! 1. No client sees a mix: the replacement happens with no other thread inside.
//! 2. Filling publishes nothing. All clients that watch, track or are blocked on keys learn of the
//!    replacement, and a running snapshot is given the old tables.
//! 3. The replacement is not recorded: a server that replaces all data keeps no journal of the old.
//!
//! Tests: `tests/beside.rs`.

use std::sync::atomic::Ordering;

use pantala_base::UnixMs;

use crate::access::locked::Locked;
use crate::access::may_wait::Aborted;
use crate::changes::key_change::ChangeObserver;
use crate::key::{DbIndex, PartitionId};
use crate::lifetime::sweep::NEVER;
use crate::{Garbage, Keyspace, KeyspaceConfig};

impl Keyspace {
    /// An empty keyspace with the same databases and hash seed.
    pub fn beside(&self) -> Keyspace {
        Keyspace::new(KeyspaceConfig {
            seed: self.seed,
            databases: self.database_count(),
            worker_slots: 0,
            lane_slots: 0,
        })
    }
}

impl Locked<'_> {
    /// Replaces all data by that of `other`, which was made [`beside`](Keyspace::beside) this one,
    /// with no other thread inside. `meanwhile` runs at that moment, so it must be quick. Returns
    /// the old data. Only from outside the gate, or with all partitions held.
    ///
    /// # Errors
    /// A thread inside the gate does not leave it; nothing has happened.
    pub fn replace_all(
        &mut self,
        other: &Keyspace,
        meanwhile: impl FnOnce(),
    ) -> Result<Garbage, Aborted> {
        self.alone(|locked| {
            let space = locked.scope().space;
            let mut tables = Vec::new();
            for id in PartitionId::all() {
                locked.touch_all(id, &|_| true, true);
                locked.visit_alone(id).rest.waiters.tracked.clear();
                for db in (0..space.database_count()).map(DbIndex) {
                    let used = space.sizes(db).filter(|sizes| sizes.keys_in(id) > 0);
                    let Some(sizes) = used else { continue };
                    let (table, called) = locked.visit_alone(id).flush(db, id, sizes);
                    tables.extend(table);
                    locked.woken.add(called);
                }
                let mut from = other.hold_at_last(id);
                locked.visit_alone(id).databases.take_all(&mut from.databases, id, space);
                let earliest = other.sweep.earliest(id).load(Ordering::Relaxed);
                if earliest != NEVER {
                    locked.woken.add(space.sweep.lower(id, UnixMs(earliest)));
                }
                // A key that clients are blocked on may be there now.
                locked.touch_all(id, &|_| true, true);
            }
            locked.listeners().flushed(None);
            meanwhile();
            Garbage::Tables(tables)
        })
    }
}
