//! The expiry sweep removes exactly the keys that are due. Time is an argument: no test waits.

mod common;

use common::{DB, NOW, OTHER_DB, get, keyspace, names, remove, scope, set, swap};
use pantala_base::UnixMs;
use pantala_base::rng::Rng;
use pantala_keyspace::{DbIndex, Expiry, Keyspace, LockPlan, PartitionId, Sweeper, Tally};

/// A round of a new sweeper, which is not resting.
fn sweep(space: &Keyspace, now: UnixMs) -> u64 {
    Sweeper::new(space).round(space, now, &Tally::default())
}

fn at(ms: i64) -> Expiry {
    Expiry::At(UnixMs(ms))
}

#[test]
fn removes_exactly_what_is_due() {
    let space = keyspace();
    let mut rng = Rng::from_seed(3);
    let mut model: Vec<(DbIndex, String, i64)> = Vec::new();
    for number in 0..4000 {
        let db = if rng.below(3) == 0 { OTHER_DB } else { DB };
        let deadline = NOW.0 - 500 + rng.below(1000).cast_signed();
        let name = format!("k{number}");
        set(&space, db, &name, "v", at(deadline));
        model.push((db, name, deadline));
    }
    for number in 0..500 {
        set(&space, DB, &format!("eternal{number}"), "v", Expiry::Never);
    }
    for now in [NOW.0 - 500, NOW.0 - 100, NOW.0, NOW.0 + 1, NOW.0 + 499, NOW.0 + 500] {
        let due = model.iter().filter(|(_, _, deadline)| *deadline < now).count();
        model.retain(|(_, _, deadline)| *deadline >= now);
        assert_eq!(sweep(&space, UnixMs(now)), due as u64, "at {now}");
        for db in [DB, OTHER_DB] {
            let left = model.iter().filter(|(of, _, _)| *of == db).count() as u64;
            let sizes = space.sizes(db).expect("both were written");
            assert_eq!(sizes.with_deadline(), left, "at {now}");
            assert_eq!(sizes.keys(), left + if db == DB { 500 } else { 0 }, "at {now}");
        }
        let then = UnixMs(now);
        for (db, name, _) in model.iter().step_by(97) {
            assert_eq!(get(&space, *db, name, then).as_deref(), Some("v"), "{name} at {now}");
        }
    }
    assert!(model.is_empty());
    assert_eq!(sweep(&space, UnixMs(i64::MAX)), 0);
    assert_eq!(names(&space, DB).len(), 500);
}

#[test]
fn follows_deadlines_that_move() {
    let space = keyspace();
    set(&space, DB, "later", "v", at(NOW.0 + 10));
    set(&space, DB, "never", "v", at(NOW.0 + 10));
    set(&space, DB, "sooner", "v", at(NOW.0 + 1000));
    set(&space, DB, "later", "v", at(NOW.0 + 1000));
    set(&space, DB, "never", "v", Expiry::Never);
    set(&space, DB, "sooner", "v", at(NOW.0 + 10));
    assert_eq!(sweep(&space, UnixMs(NOW.0 + 11)), 1);
    assert_eq!(names(&space, DB), ["later", "never"]);
    assert_eq!(sweep(&space, UnixMs(NOW.0 + 1001)), 1);
    assert_eq!(names(&space, DB), ["never"]);
}

#[test]
fn a_deadline_set_after_a_round_is_found_by_the_next() {
    let space = keyspace();
    set(&space, DB, "far", "v", at(NOW.0 + 1_000_000));
    assert_eq!(sweep(&space, NOW), 0);
    for number in 0..200 {
        set(&space, DB, &format!("near{number}"), "v", at(NOW.0 + 5));
    }
    assert_eq!(sweep(&space, UnixMs(NOW.0 + 5)), 0, "in its last millisecond a key is there");
    assert_eq!(sweep(&space, UnixMs(NOW.0 + 6)), 200);
    assert!(remove(&space, DB, "far"));
}

#[test]
fn deadlines_follow_a_swap_of_databases() {
    let space = keyspace();
    set(&space, DB, "k", "v", at(NOW.0 + 5));
    swap(&space);
    assert_eq!(sweep(&space, UnixMs(NOW.0 + 6)), 1);
    assert_eq!(names(&space, OTHER_DB), [""; 0]);
}

#[test]
fn what_somebody_holds_is_swept_later_and_all_else_now() {
    let space = keyspace();
    let tally = Tally::default();
    let keys: Vec<String> = (0..100).map(|number| format!("key{number}")).collect();
    keys.iter().for_each(|key| set(&space, DB, key, "x", at(NOW.0 + 5)));
    let home = |key: &String| PartitionId::of(space.hash(key.as_bytes()));
    let beside = keys.iter().filter(|key| home(key) == home(&keys[0])).count() as u64;
    let plan = LockPlan::one(space.hash(keys[0].as_bytes()));
    let held = space.lock_waiting(&plan, scope(&space, &tally, DB, NOW));
    let mut sweeper = Sweeper::new(&space);
    let later = UnixMs(NOW.0 + 10);
    let there = || space.sizes(DB).map_or(0, |sizes| sizes.keys());
    while there() > beside {
        sweeper.round(&space, later, &tally);
    }
    drop(held);
    while there() > 0 {
        sweeper.round(&space, later, &tally);
    }
}

/// Where some deadline has always passed in many partitions, they are searched together, and then
/// all of them rest.
#[test]
fn looking_for_little_is_followed_by_a_rest() {
    const KEYS: u64 = 150_000;
    let space = keyspace();
    let mut rng = Rng::from_seed(7);
    for number in 0..KEYS {
        let deadline = NOW.0 + 1 + rng.below(1_000_000).cast_signed();
        set(&space, DB, &number.to_string(), "v", at(deadline));
    }
    let (mut sweeper, tally) = (Sweeper::new(&space), Tally::default());
    // Each time one key in three hundred has expired, in every third partition.
    let seen: u64 = (1..=100)
        .map(|round| UnixMs(NOW.0 + round * 3_300))
        .map(|now| sweeper.round_recorded(&space, now, &tally, None).seen)
        .sum();
    // Some 8, by how keys fall into segments; 32 if partitions are looked through one by one.
    assert!(seen < KEYS * 16, "{} looks at each key", seen / KEYS);
    let end = UnixMs(NOW.0 + 2_000_000);
    while space.sizes(DB).map_or(0, |sizes| sizes.keys()) > 0 {
        sweeper.round(&space, end, &tally);
    }
    assert_eq!(tally.expired.get(), KEYS);
}
