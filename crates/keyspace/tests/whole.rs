//! FLUSHALL and SWAPDB under load: every step sees all of them or nothing. RANDOMKEY.

mod common;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{DB, NOW, OTHER_DB, get, keyspace, names, scope, set, swap, with};
use pantala_base::UnixMs;
use pantala_base::rng::Rng;
use pantala_keyspace::{DbIndex, Expiry, Garbage, Keyspace, LockPlan, Tally, event};
use pantala_sync::gate::Role;

const PAIRS: u64 = 40;

/// A worker's turn: both keys of a pair are read, must agree, and get a new value.
fn turn(space: &Keyspace, seat: usize, rng: &mut Rng, counted: &mut [u64; 2]) {
    let tally = Tally::default();
    let number = rng.below(PAIRS);
    let (left, right) = (format!("left{number}"), format!("right{number}"));
    let (left, right) = (space.key(left.as_bytes()), space.key(right.as_bytes()));
    let value = rng.next_u64().to_string();
    let inside = space.gate().enter(Role::Worker, seat);
    let plan = LockPlan::of([left.hash, right.hash]);
    let mut locked = space.lock_waiting(&plan, scope(space, &tally, DB, NOW));
    let before =
        [left, right].map(|key| locked.read(key).string().ok().flatten().map(|v| v.to_vec()));
    assert_eq!(before[0], before[1], "half of a flush or of a swap was seen");
    counted[usize::from(before[0].is_some())] += 1;
    for key in [left, right] {
        let mut opened = locked.open(key);
        opened.set_string(value.as_bytes(), Expiry::Never);
        opened.publish(event::SET);
    }
    drop(locked);
    drop(inside);
}

/// Checks that the counts agree with the keys.
fn check_sizes(space: &Keyspace) {
    for db in [DB, OTHER_DB] {
        let counted = space.sizes(db).map_or(0, |sizes| sizes.keys());
        assert_eq!(counted, names(space, db).len() as u64);
    }
}

#[test]
fn nobody_sees_half_of_a_flush_or_of_a_swap() {
    let space = keyspace();
    let stop = AtomicBool::new(false);
    let tally = Tally::default();
    let counts: Vec<[u64; 2]> = std::thread::scope(|threads| {
        let workers: Vec<_> = (0..3)
            .map(|seat| {
                let (space, stop) = (&space, &stop);
                threads.spawn(move || {
                    let (mut rng, mut counted) = (Rng::from_seed(seat as u64), [0; 2]);
                    while !stop.load(Ordering::Relaxed) {
                        turn(space, seat, &mut rng, &mut counted);
                    }
                    counted
                })
            })
            .collect();
        for round in 0..300 {
            match round % 3 {
                0 => swap(&space),
                1 => space.dispose(flush(&space, Some(DB)), false, &tally),
                _ => space.dispose(flush(&space, None), round % 2 == 0, &tally),
            }
        }
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
    });
    check_sizes(&space);
    assert!(counts.iter().map(|[missing, _]| missing).sum::<u64>() > 0, "nothing was flushed");
    drop(flush(&space, None));
    check_sizes(&space);
    assert_eq!(names(&space, DB), [""; 0]);
}

fn flush(space: &Keyspace, only: Option<DbIndex>) -> Garbage {
    with(space, DB, |locked| locked.flush(only)).expect("nobody stays inside")
}

#[test]
fn a_swap_exchanges_what_is_there() {
    let space = keyspace();
    set(&space, DB, "k", "zero", Expiry::Never);
    set(&space, DB, "only", "zero", Expiry::Never);
    set(&space, OTHER_DB, "k", "one", Expiry::Never);
    swap(&space);
    with(&space, DB, |locked| locked.swap_databases(DB, DB)).expect("nothing to do");
    assert_eq!(get(&space, DB, "k", NOW).as_deref(), Some("one"));
    assert_eq!(get(&space, OTHER_DB, "k", NOW).as_deref(), Some("zero"));
    assert_eq!(names(&space, OTHER_DB), ["k", "only"]);
    check_sizes(&space);
}

#[test]
fn a_flush_empties_one_database_or_all() {
    let space = keyspace();
    for number in 0..5000 {
        set(&space, DB, &format!("k{number}"), "v", Expiry::Never);
        set(&space, OTHER_DB, &format!("k{number}"), "v", Expiry::Never);
    }
    drop(flush(&space, Some(OTHER_DB)));
    assert_eq!((names(&space, DB).len(), names(&space, OTHER_DB).len()), (5000, 0));
    drop(flush(&space, None));
    assert_eq!(names(&space, DB).len(), 0);
    check_sizes(&space);
}

#[test]
fn each_key_is_about_as_likely_to_be_drawn() {
    const KEYS: u64 = 3000;
    const DRAWS: u64 = 60_000;
    let space = keyspace();
    for number in 0..KEYS {
        set(&space, DB, &format!("k{number}"), "v", Expiry::Never);
    }
    let mut rng = Rng::from_seed(1);
    let mut drawn: HashMap<Vec<u8>, u64> = HashMap::new();
    for _ in 0..DRAWS {
        let key =
            with(&space, DB, |locked| locked.random_key(&mut rng)).expect("nobody else is here");
        *drawn.entry(key.expect("there are keys")).or_default() += 1;
    }
    let expected = (DRAWS / KEYS) as f64;
    let missed = KEYS - drawn.len() as u64;
    let squares: f64 = drawn.values().map(|&n| (n as f64 - expected).powi(2)).sum();
    let chi_square = (squares + missed as f64 * expected.powi(2)) / expected;
    // For a fair draw this is 1 within a few hundredths; the table's own draw is nearly fair.
    let ratio = chi_square / (KEYS - 1) as f64;
    assert!(ratio < 1.5, "chi square is {ratio} times what a fair draw gives");
    assert!(missed == 0, "{missed} keys were never drawn");
}

#[test]
fn an_expired_key_is_never_drawn() {
    let space = keyspace();
    for number in 0..500 {
        set(&space, DB, &format!("gone{number}"), "v", Expiry::At(UnixMs(NOW.0 - 1)));
    }
    let mut rng = Rng::from_seed(1);
    assert_eq!(with(&space, DB, |locked| locked.random_key(&mut rng)), Ok(None));
    set(&space, DB, "there", "v", Expiry::Never);
    for _ in 0..20 {
        assert_eq!(
            with(&space, DB, |locked| locked.random_key(&mut rng)),
            Ok(Some(b"there".to_vec()))
        );
    }
}
