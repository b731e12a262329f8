//! The promise of SCAN: keys that exist from the first call to the last are met; keys that never
//! existed are not. Others come and go meanwhile, in waves that make tables split and merge.

mod common;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{DB, NOW, get, keyspace, names, remove, set, with};
use pantala_base::UnixMs;
use pantala_base::rng::Rng;
use pantala_keyspace::{Expiry, Keyspace, ScanCursor};

/// One call of SCAN; returns the keys it met.
fn step(
    space: &Keyspace,
    from: ScanCursor,
    count: usize,
    met: &mut BTreeSet<String>,
) -> ScanCursor {
    loop {
        let step = with(space, DB, |locked| {
            locked.scan(from, count, &mut |one| {
                met.insert(String::from_utf8(one.key().to_vec()).expect("text"));
            })
        });
        match step {
            Ok(next) => return next,
            Err(busy) => space.wait_long_for(busy),
        }
    }
}

/// Keys that all hash into the first `partitions` partitions, so that their tables are deep.
fn crowded(space: &Keyspace, prefix: &str, partitions: u64, count: usize) -> Vec<String> {
    (0..)
        .map(|number| format!("{prefix}{number}"))
        .filter(|name| space.hash(name.as_bytes()) % 1024 < partitions)
        .take(count)
        .collect()
}

#[test]
fn a_large_count_goes_through_a_large_partition_in_one_call() {
    let space = keyspace();
    let all = crowded(&space, "key", 1, 10_000);
    for name in &all {
        set(&space, DB, name, "v", Expiry::Never);
    }
    let mut met = BTreeSet::new();
    let next = step(&space, ScanCursor(0), 9_000, &mut met);
    assert_eq!(next.partition(), ScanCursor(0).partition());
    assert!((9_000..10_000).contains(&met.len()), "{}", met.len());
    assert_eq!(step(&space, next, 9_000, &mut met), ScanCursor(0));
    assert_eq!(met.len(), all.len());
}

#[test]
fn what_stays_is_met_whatever_comes_and_goes() {
    for seed in 0..6 {
        let mut rng = Rng::from_seed(seed);
        let space = keyspace();
        let stable = crowded(&space, "stable", 3, 1500);
        let churn = crowded(&space, "churn", 3, 9000);
        for name in &stable {
            set(&space, DB, name, "v", Expiry::Never);
        }
        let mut met = BTreeSet::new();
        let mut at = ScanCursor(0);
        loop {
            at = step(&space, at, 1 + rng.below(300) as usize, &mut met);
            if at == ScanCursor(0) {
                break;
            }
            // A wave: thousands come, or most of those go again.
            let comes = rng.below(2) == 0;
            let (from, length) = (rng.below(6000) as usize, rng.below(3000) as usize);
            for name in &churn[from..from + length] {
                if comes {
                    set(&space, DB, name, "v", Expiry::Never);
                } else {
                    remove(&space, DB, name);
                }
            }
        }
        let missed: Vec<_> = stable.iter().filter(|name| !met.contains(*name)).collect();
        assert!(missed.is_empty(), "seed {seed}: not met: {missed:?}");
        let known: BTreeSet<_> = stable.iter().chain(&churn).cloned().collect();
        assert!(met.is_subset(&known), "seed {seed}: met what was never there");
    }
}

#[test]
fn what_stays_is_met_while_another_thread_writes() {
    let space = keyspace();
    let stable = crowded(&space, "stable", 2, 1000);
    let churn = crowded(&space, "churn", 2, 1000);
    for name in &stable {
        set(&space, DB, name, "v", Expiry::Never);
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                churn.iter().for_each(|name| set(&space, DB, name, "v", Expiry::Never));
                for name in &churn {
                    remove(&space, DB, name);
                }
            }
        });
        for count in [3, 50, 5000] {
            let mut met = BTreeSet::new();
            let mut at = step(&space, ScanCursor(0), count, &mut met);
            while at != ScanCursor(0) {
                at = step(&space, at, count, &mut met);
            }
            let missed = stable.iter().filter(|name| !met.contains(*name)).count();
            if missed > 0 {
                stop.store(true, Ordering::Relaxed);
            }
            assert_eq!(missed, 0, "with COUNT {count}");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_still_keyspace_is_met_once_and_without_what_expired() {
    let space = keyspace();
    let past = Expiry::At(UnixMs(NOW.0 - 1));
    for number in 0..3000 {
        let expiry = if number % 3 == 0 { past } else { Expiry::Never };
        set(&space, DB, &format!("k{number}"), "v", expiry);
    }
    let mut met = Vec::new();
    let mut at = ScanCursor(0);
    loop {
        let next =
            with(&space, DB, |locked| locked.scan(at, 7, &mut |one| met.push(one.key().to_vec())));
        at = next.expect("nobody else is here");
        if at == ScanCursor(0) {
            break;
        }
    }
    met.sort();
    let mut expected: Vec<Vec<u8>> =
        (0..3000).filter(|n| n % 3 != 0).map(|n| format!("k{n}").into_bytes()).collect();
    expected.sort();
    assert!(met == expected, "{} keys were met, not {}", met.len(), expected.len());
    assert_eq!(names(&space, DB).len(), expected.len());
    assert_eq!(get(&space, DB, "k0", NOW), None);
}

#[test]
fn any_cursor_is_safe() {
    let space = keyspace();
    for number in 0..5000 {
        set(&space, DB, &format!("k{number}"), "v", Expiry::Never);
    }
    let mut rng = Rng::from_seed(5);
    let mut ends = 0;
    for round in 0..20_000_u32 {
        let cursor = rng.next_u64() >> (round % 64);
        let next = with(&space, DB, |locked| locked.scan(ScanCursor(cursor), 10, &mut |_| {}));
        ends += usize::from(next.expect("nobody else is here") == ScanCursor(0));
    }
    assert!(ends < 20_000, "every cursor ended the scan");
}
