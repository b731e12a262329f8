//! A small keyspace and short ways to its keys, for the tests of this folder.
#![allow(dead_code)]

pub mod recording;

use pantala_base::UnixMs;
use pantala_base::hash::HashSeed;
use pantala_keyspace::{
    DbIndex, Expiry, Keyspace, KeyspaceConfig, LockPlan, Locked, Scope, Tally, event,
};

/// The time at which commands run unless a test says otherwise.
pub const NOW: UnixMs = UnixMs(1_000_000);
pub const DB: DbIndex = DbIndex(0);
pub const OTHER_DB: DbIndex = DbIndex(1);
/// Seats at the gate for each role.
pub const SEATS: usize = 8;

pub fn keyspace() -> Keyspace {
    Keyspace::new(KeyspaceConfig {
        seed: HashSeed::from_words(7, 11),
        databases: 4,
        worker_slots: SEATS,
        lane_slots: SEATS,
    })
}

pub fn scope<'k>(space: &'k Keyspace, tally: &'k Tally, db: DbIndex, now: UnixMs) -> Scope<'k> {
    Scope { space, db, now, tally, touch: true, sees_expired: false, recorder: None }
}

/// Sets a key, waiting for its partition.
pub fn set(space: &Keyspace, db: DbIndex, key: &str, value: &str, expiry: Expiry) {
    let tally = Tally::default();
    let key = space.key(key.as_bytes());
    let plan = LockPlan::one(key.hash);
    let mut locked = space.lock_waiting(&plan, scope(space, &tally, db, NOW));
    let mut opened = locked.open(key);
    opened.set_string(value.as_bytes(), expiry);
    opened.publish(event::SET);
}

/// Removes a key, waiting for its partition; returns whether it existed.
pub fn remove(space: &Keyspace, db: DbIndex, key: &str) -> bool {
    let tally = Tally::default();
    let key = space.key(key.as_bytes());
    let plan = LockPlan::one(key.hash);
    let mut locked = space.lock_waiting(&plan, scope(space, &tally, db, NOW));
    let mut opened = locked.open(key);
    let removed = opened.remove();
    if removed {
        opened.publish(event::DEL);
    }
    removed
}

/// The string at a key.
pub fn get(space: &Keyspace, db: DbIndex, key: &str, now: UnixMs) -> Option<String> {
    let tally = Tally::default();
    let key = space.key(key.as_bytes());
    let plan = LockPlan::one(key.hash);
    let mut locked = space.lock_waiting(&plan, scope(space, &tally, db, now));
    let opened = locked.read(key);
    let value = opened.string().expect("all values here are strings")?;
    Some(String::from_utf8(value.to_vec()).expect("all values here are text"))
}

/// Runs `work` with no partition held.
pub fn with<R>(space: &Keyspace, db: DbIndex, work: impl FnOnce(&mut Locked<'_>) -> R) -> R {
    let tally = Tally::default();
    work(&mut space.lock_none(scope(space, &tally, db, NOW)))
}

/// Exchanges the two databases.
pub fn swap(space: &Keyspace) {
    with(space, DB, |locked| locked.swap_databases(DB, OTHER_DB)).expect("nobody stays inside");
}

/// All keys of a database, sorted.
pub fn names(space: &Keyspace, db: DbIndex) -> Vec<String> {
    let mut names = Vec::new();
    with(space, db, |locked| {
        locked.walk(&mut |met| {
            names.push(String::from_utf8(met.key().to_vec()).expect("all keys here are text"));
            true
        })
    })
    .expect("nobody gives up");
    names.sort();
    names
}
