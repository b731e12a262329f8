//! Data that is loaded beside what there is, and takes its place at one moment.
//!
//! ```text
//! space.beside() -- is filled, while the old is served -- Locked::replace_all -- old: garbage
//! ```
//!
//! Invariants
//! 1. Nobody sees a mix: it is done with nobody else inside.
//! 2. Nothing of what is filled is told to anybody; of the replacement all who watch, track or wait
//!    for keys are told, and a snapshot that runs is given the old tables.
//! 3. It is not recorded: who replaces all data keeps no journal of what was before.
//!
//! Tests: `tests/beside.rs`.

use std::sync::atomic::Ordering;

use pantala_base::UnixMs;

use crate::access::locked::Locked;
use crate::access::may_wait::Aborted;
use crate::changes::change::ChangeObserver;
use crate::key::{DbIndex, PartitionId};
use crate::lifetime::sweep::NEVER;
use crate::{Config, Garbage, Keyspace};

impl Keyspace {
    /// An empty one with the same databases, where keys lie as they lie here.
    pub fn beside(&self) -> Keyspace {
        Keyspace::new(Config {
            seed: self.seed,
            databases: self.database_count(),
            worker_slots: 0,
            lane_slots: 0,
        })
    }
}

impl Locked<'_> {
    /// Puts what is in `other`, which was made [`beside`](Keyspace::beside) this one, in the place
    /// of everything, with nobody else inside. `meanwhile` runs at that moment, so it is quick.
    /// What was there comes back. Only from outside the gate, or with all partitions held.
    ///
    /// # Errors
    /// Somebody is inside and does not end; nothing has happened.
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
                // What somebody waits for may be there now.
                locked.touch_all(id, &|_| true, true);
            }
            locked.listeners().flushed(None);
            meanwhile();
            Garbage::Tables(tables)
        })
    }
}
