//! Steps that learn of their keys while they run: waiting with the token.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{DB, NOW, keyspace, scope, set};
use pantala_base::rng::Rng;
use pantala_keyspace::{Expiry, Keyspace, LockPlan, Locked, Tally, event};
use pantala_table::StrRef;

const ACCOUNTS: usize = 40;

fn account(space: &Keyspace, number: usize) -> (String, u64) {
    let name = format!("account{number}");
    let hash = space.hash(name.as_bytes());
    (name, hash)
}

fn add(locked: &mut Locked<'_>, space: &Keyspace, number: usize, change: i64) {
    let (name, _) = account(space, number);
    let mut opened = locked.open(space.key(name.as_bytes()));
    let Ok(Some(StrRef::Int(before))) = opened.string() else { panic!("all are numbers") };
    opened.set_int(before + change);
    opened.publish(event::INCRBY);
}

/// Moves a unit between two accounts, of which the second is learned of with the first one locked.
fn lock_incrementally(space: &Keyspace, tally: &Tally, from: usize, to: usize) -> &'static str {
    let hashes = [account(space, from).1, account(space, to).1];
    let plan = LockPlan::one(hashes[0]);
    let mut locked = space.lock_waiting(&plan, scope(space, tally, DB, NOW));
    if !locked.reach(hashes[1]) {
        if !locked.try_take_token() {
            // As a script does: it frees all and begins again with the token.
            drop(locked);
            let token = space.wait_for_token().expect("nobody gives up");
            let scope = scope(space, tally, DB, NOW);
            locked = space.lock_incrementally(token, &plan, scope).expect("nobody gives up");
        }
        locked.reach_waiting(hashes[1]).expect("nobody gives up");
    }
    let way = if locked.has_token() { "waited" } else { "reached" };
    add(&mut locked, space, from, -1);
    add(&mut locked, space, to, 1);
    way
}

/// Moves one unit between two accounts that are known in advance, with a plan that locks all or
/// none.
fn know(space: &Keyspace, tally: &Tally, from: usize, to: usize) {
    let plan = LockPlan::of([account(space, from).1, account(space, to).1]);
    let mut locked = space.lock_waiting(&plan, scope(space, tally, DB, NOW));
    add(&mut locked, space, from, -1);
    add(&mut locked, space, to, 1);
}

fn sum(locked: &mut Locked<'_>, space: &Keyspace) -> i64 {
    (0..ACCOUNTS)
        .map(|number| {
            let (name, _) = account(space, number);
            let opened = locked.peek(space.key(name.as_bytes()));
            let Ok(Some(StrRef::Int(value))) = opened.string() else { panic!("numbers") };
            value
        })
        .sum()
}

#[test]
fn token_holders_and_the_others_neither_deadlock_nor_lose_anything() {
    let space = keyspace();
    for number in 0..ACCOUNTS {
        set(&space, DB, &account(&space, number).0, "0", Expiry::Never);
    }
    let (stop, waited) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|threads| {
        for seed in 0..6 {
            let (space, stop, waited) = (&space, &stop, &waited);
            threads.spawn(move || {
                let (tally, mut rng) = (Tally::default(), Rng::from_seed(seed));
                while !stop.load(Ordering::Relaxed) {
                    let mut draw = || rng.below(ACCOUNTS as u64) as usize;
                    let (from, to) = (draw(), draw());
                    match seed % 3 {
                        0 => know(space, &tally, from, to),
                        _ if lock_incrementally(space, &tally, from, to) == "waited" => {
                            waited.fetch_add(1, Ordering::Relaxed);
                        }
                        _ => {}
                    }
                }
            });
        }
        let tally = Tally::default();
        let mut seen = 0;
        while seen < 200 || waited.load(Ordering::Relaxed) == 0 {
            let token = space.wait_for_token().expect("nobody gives up");
            let scope = scope(&space, &tally, DB, NOW);
            let locked = space.lock_incrementally(token, &LockPlan::empty(), scope);
            let mut locked = locked.expect("nobody gives up");
            locked.reach_everything().expect("nobody gives up");
            assert!(locked.holds_everything());
            assert_eq!(sum(&mut locked, &space), 0, "seen between two steps");
            let mut met = 0;
            let walked = locked.walk(&mut |_| {
                met += 1;
                true
            });
            walked.expect("nobody gives up");
            assert_eq!(met, ACCOUNTS, "a walk inside looks at what is held");
            seen += 1;
        }
        stop.store(true, Ordering::Relaxed);
    });
}
