//! Data that was loaded beside the old data takes its place at one moment.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::recording::recording;
use common::{DB, NOW, OTHER_DB, get, keyspace, names, scope, set, with};
use pantala_base::UnixMs;
use pantala_keyspace::snapshot::WalkOutcome;
use pantala_keyspace::{DbIndex, Expiry, Garbage, Inbox, Keyspace, LockPlan, Sweeper, Tally};
use pantala_keyspace::{Waiter, Watch};
use pantala_sync::gate::Role;
use parking_lot::Mutex;

const KEYS: u32 = 3_000;

fn replace(space: &Keyspace, other: &Keyspace) -> Garbage {
    with(space, DB, |locked| locked.replace_all(other, || ())).expect("nobody stays inside")
}

fn fill(space: &Keyspace, value: &str) {
    for number in 0..KEYS {
        set(space, DB, &format!("k{number}"), value, Expiry::Never);
    }
}

#[test]
fn everything_is_what_was_loaded() {
    let space = keyspace();
    fill(&space, "old");
    set(&space, OTHER_DB, "old", "v", Expiry::Never);
    set(&space, DbIndex(2), "old", "v", Expiry::Never);
    let other = space.beside();
    set(&other, DB, "k1", "new", Expiry::Never);
    set(&other, OTHER_DB, "there", "new", Expiry::Never);
    assert_eq!(names(&space, DB).len(), KEYS as usize, "beside is not inside");
    let mut has_run = false;
    let old = with(&space, DB, |locked| locked.replace_all(&other, || has_run = true));
    let Ok(Garbage::Tables(tables)) = old else { panic!("what was there comes back") };
    assert_eq!(tables.iter().map(|table| table.len()).sum::<usize>(), KEYS as usize + 2);
    assert!(has_run);
    let all = [0, 1, 2, 3].map(|db| names(&space, DbIndex(db)));
    assert_eq!(all, [vec!["k1"], vec!["there"], vec![], vec![]]);
    let sizes = [0, 1, 2].map(|db| space.sizes(DbIndex(db)).map_or(0, |sizes| sizes.keys()));
    assert_eq!(sizes, [1, 1, 0]);
    set(&space, DB, "k1", "later", Expiry::Never);
    assert_eq!(get(&space, DB, "k1", NOW).as_deref(), Some("later"));
}

#[test]
fn nobody_sees_a_mix() {
    let space = keyspace();
    fill(&space, "0");
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for seat in 0..2 {
            let (space, stop) = (&space, &stop);
            threads.spawn(move || {
                let (mut number, mut last) = (0, 0);
                while !stop.load(Ordering::Relaxed) {
                    let inside = space.gate().enter(Role::Worker, seat);
                    let seen = [number, number + 1, number + 2].map(|number| {
                        let key = format!("k{}", number % KEYS);
                        get(space, DB, &key, NOW).expect("each round has all keys")
                    });
                    drop(inside);
                    assert!(seen.iter().all(|value| *value == seen[0]), "{seen:?}");
                    let now: u32 = seen[0].parse().expect("a number");
                    assert!(now >= last, "the old data has come back");
                    (number, last) = (number + 3, now);
                }
            });
        }
        for round in 1..20 {
            let other = space.beside();
            fill(&other, &round.to_string());
            drop(replace(&space, &other));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(get(&space, DB, "k7", NOW).as_deref(), Some("19"));
}

#[test]
fn who_watches_what_is_replaced_is_told() {
    let space = keyspace();
    set(&space, DB, "old", "v", Expiry::Never);
    let other = space.beside();
    set(&other, DB, "new", "v", Expiry::Never);
    let watches = ["old", "new", "never"].map(|name| {
        let (key, watch, tally) = (space.key(name.as_bytes()), Arc::default(), Tally::default());
        let plan = LockPlan::one(key.hash);
        space.lock_waiting(&plan, scope(&space, &tally, DB, NOW)).watch(key, &watch);
        watch
    });
    drop(replace(&space, &other));
    assert_eq!(watches.map(|watch: Arc<Watch>| watch.is_touched()), [true, true, false]);
}

#[derive(Default)]
struct Calls(Mutex<Vec<u64>>);

impl Inbox for Calls {
    fn unpark(&self, connection: u64, _parking: u32) {
        self.0.lock().push(connection);
    }

    fn wake(&self) {}
}

#[test]
fn who_waits_for_a_key_that_comes_is_called() {
    let space = keyspace();
    let other = space.beside();
    set(&other, DB, "comes", "v", Expiry::Never);
    let calls = Arc::new(Calls::default());
    for (connection, name) in [(1, "comes"), (2, "never")] {
        let (key, tally) = (space.key(name.as_bytes()), Tally::default());
        let plan = LockPlan::one(key.hash);
        let mut locked = space.lock_waiting(&plan, scope(&space, &tally, DB, NOW));
        let inbox = Arc::clone(&calls);
        let waiter = Waiter::new(Box::new(()), inbox, (connection, 0), space.next_arrival());
        locked.waiters(key.hash).wait(DB, key.bytes, waiter);
    }
    drop(replace(&space, &other));
    assert_eq!(*calls.0.lock(), [1]);
    assert_eq!(space.waited_keys(), 1);
}

#[test]
fn deadlines_that_come_with_it_are_swept() {
    let space = keyspace();
    let mut sweeper = Sweeper::new(&space);
    let other = space.beside();
    set(&other, DB, "ends", "v", Expiry::At(UnixMs(NOW.0 + 10)));
    set(&other, DB, "stays", "v", Expiry::Never);
    drop(replace(&space, &other));
    assert_eq!(sweeper.round(&space, NOW, &Tally::default()), 0);
    assert_eq!(sweeper.round(&space, UnixMs(NOW.0 + 11), &Tally::default()), 1);
    assert_eq!(names(&space, DB), ["stays"]);
}

#[test]
fn a_snapshot_that_runs_has_what_was_there_at_its_cut() {
    let space = keyspace();
    fill(&space, "old");
    let target = recording();
    let snapshot = space.begin_snapshot(target.clone(), &mut |_| ()).expect("there is none");
    let other = space.beside();
    fill(&other, "new");
    set(&other, OTHER_DB, "new", "new", Expiry::Never);
    drop(replace(&space, &other));
    set(&space, DB, "k1", "later", Expiry::Never);
    while !matches!(snapshot.walk(&space), WalkOutcome::Done(_)) {}
    let written = target.contents();
    assert_eq!(written.len(), KEYS as usize);
    assert_eq!(get(&space, DB, "k1", NOW).as_deref(), Some("later"));
    assert_eq!(get(&space, DB, "k2", NOW).as_deref(), Some("new"));
}
