//! Snapshots while threads change data: each shows a single moment.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::recording::{Contents, recording};
use common::{DB, NOW, keyspace, scope, set, swap, with};
use pantala_base::UnixMs;
use pantala_base::rng::Rng;
use pantala_keyspace::snapshot::{IntendedChange, SnapshotOutcome};
use pantala_keyspace::{
    DbIndex, Expiry, Key, Keyspace, LockPlan, Locked, Sweeper, Tally, ThreadWaker, Ticket, event,
};
use pantala_sync::gate::Role;
use pantala_values::Hash;
use pantala_values::hash::{HashLimits, Lifetime};
use parking_lot::Mutex;

const LIMITS: HashLimits = HashLimits { entries: 4, value_bytes: 16 };
const ACCOUNTS: u64 = 400;
const BALANCE: i64 = 1_000;
const WORKERS: usize = 3;
const SNAPSHOTS: u64 = 12;

/// Every eighth account is large: a field of a hash with many others.
fn is_large(number: u64) -> bool {
    number.is_multiple_of(8)
}

fn name(number: u64) -> String {
    if is_large(number) { format!("large{number}") } else { format!("small{number}") }
}

fn open_accounts(space: &Keyspace) {
    let tally = Tally::default();
    for number in 0..ACCOUNTS {
        let name = name(number);
        let key = space.key(name.as_bytes());
        let mut locked =
            space.lock_waiting(&LockPlan::one(key.hash), scope(space, &tally, DB, NOW));
        let mut opened = locked.open(key);
        if is_large(number) {
            let hash = opened.collection_or_new::<Hash>().expect("it is new");
            for field in 0..300 {
                let field = format!("beside{field}-{}", "x".repeat(20));
                hash.set(field.as_bytes(), b"0", Lifetime::Forever, LIMITS, NOW);
            }
            hash.set(b"balance", b"1000", Lifetime::Forever, LIMITS, NOW);
        } else {
            opened.set_int(BALANCE);
        }
        opened.publish(event::UNNAMED);
    }
}

/// Adds to an account.
fn add(locked: &mut Locked<'_>, key: Key<'_>, amount: i64) {
    let mut opened = locked.open(key);
    if let Ok(Some(hash)) = opened.collection_mut::<Hash>() {
        let before = hash.view().get(b"balance", NOW).expect("each has one").value.to_vec();
        let after = number(&before) + amount;
        let after = after.to_string();
        hash.set(b"balance", after.as_bytes(), Lifetime::Forever, LIMITS, NOW);
    } else {
        let before = opened.string().expect("no hash").expect("nobody closes one").to_vec();
        opened.set_int(number(&before) + amount);
    }
    opened.publish(event::UNNAMED);
}

fn number(text: &[u8]) -> i64 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).expect("a number")
}

/// A transfer, which waits as a connection does, whichever database the accounts are in.
fn transfer(space: &Keyspace, seat: usize, random: &mut Rng, waits: &AtomicU64) {
    let tally = Tally::default();
    let (from, to) = (name(random.below(ACCOUNTS)), name(random.below(ACCOUNTS)));
    let keys = [space.key(from.as_bytes()), space.key(to.as_bytes())];
    let amount = random.below(50).cast_signed();
    loop {
        let inside = space.gate().enter(Role::Worker, seat);
        let plan = LockPlan::of(keys.map(|key| key.hash));
        let mut locked = space.lock_waiting(&plan, scope(space, &tally, DB, NOW));
        if !locked.peek(keys[0]).exists() {
            locked.set_scope(scope(space, &tally, DbIndex(1), NOW));
        }
        let asked = IntendedChange { in_place: true, everywhere: false };
        let wait = locked.awaits_snapshot(&keys, asked);
        if wait.is_none() {
            add(&mut locked, keys[0], -amount);
            add(&mut locked, keys[1], amount);
        }
        drop(locked);
        drop(inside);
        let Some(wait) = wait else { return };
        waits.fetch_add(1, Ordering::Relaxed);
        let waker = ThreadWaker::for_this_thread();
        if space.park_for_snapshot(wait, Ticket::Thread(waker.clone())).is_ok() {
            waker.wait();
        }
    }
}

fn sum(contents: &Contents) -> (u64, i64) {
    let (mut count, mut sum) = (0, 0);
    for ((_, name), line) in contents {
        let (_, value) = line.rsplit_once(' ').expect("a value");
        let balance = match name.split_at_checked(5) {
            Some(("large", _)) => value.split(';').find_map(|one| one.strip_prefix("balance=")),
            Some(("small", _)) => Some(value),
            _ => continue,
        };
        count += 1;
        sum += number(balance.expect("each has one").as_bytes());
    }
    (count, sum)
}

/// Adds and removes keys beside the accounts.
fn disturb(space: &Keyspace, seed: u64) {
    let (tally, mut random) = (Tally::default(), Rng::from_seed(seed));
    for number in 0..300 {
        let name = format!("other{number}");
        let until = Expiry::At(UnixMs(NOW.0 + random.below(3).cast_signed()));
        set(space, DbIndex(2), &name, &"v".repeat(20 + 50 * number), until);
    }
    Sweeper::new(space).round(space, UnixMs(NOW.0 + 2), &tally);
    if random.below(2) == 0 {
        let flushed = with(space, DB, |locked| locked.flush(Some(DbIndex(2))));
        drop(flushed.expect("nobody stays inside"));
    }
    swap(space);
}

#[test]
fn sums_never_differ() {
    let (space, stop, waits) = (keyspace(), AtomicBool::new(false), AtomicU64::new(0));
    open_accounts(&space);
    let expected = (ACCOUNTS, ACCOUNTS.cast_signed() * BALANCE);
    let unasked = Mutex::new(Vec::new());
    std::thread::scope(|threads| {
        for seat in 0..WORKERS {
            let (space, stop, waits) = (&space, &stop, &waits);
            threads.spawn(move || {
                let mut random = Rng::from_seed(seat as u64);
                while !stop.load(Ordering::Relaxed) {
                    transfer(space, seat, &mut random, waits);
                }
            });
        }
        // The threads end even when a check fails.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for round in 0..SNAPSHOTS {
                let target = recording();
                let snapshot = space.begin_snapshot(target.clone(), &mut |_| {});
                let snapshot = snapshot.expect("the last one has ended");
                std::thread::scope(|walkers| {
                    let others = walkers.spawn(|| disturb(&space, round));
                    let second = walkers.spawn(|| snapshot.work(&space));
                    let first = snapshot.work(&space);
                    assert_eq!(first, SnapshotOutcome::Complete);
                    assert_eq!(second.join().ok(), Some(SnapshotOutcome::Complete));
                    others.join().expect("no panic");
                });
                assert_eq!(sum(&target.contents()), expected, "round {round}");
                let progress = snapshot.progress();
                assert_eq!((progress.written, progress.handed_bytes), (progress.keys, 0));
                unasked.lock().push(progress.unasked);
            }
        }));
        stop.store(true, Ordering::Relaxed);
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    assert_eq!(unasked.into_inner(), [0; SNAPSHOTS as usize]);
}

#[test]
fn one_that_is_called_off_ends_and_the_next_is_whole() {
    let (space, stop, waits) = (keyspace(), AtomicBool::new(false), AtomicU64::new(0));
    open_accounts(&space);
    std::thread::scope(|threads| {
        let worker = threads.spawn(|| {
            let mut random = Rng::from_seed(5);
            while !stop.load(Ordering::Relaxed) {
                transfer(&space, 0, &mut random, &waits);
            }
        });
        for round in 0..20 {
            let target = recording();
            let snapshot = space.begin_snapshot(target, &mut |_| {}).expect("none runs");
            for _ in 0..round * 20 {
                snapshot.walk(&space);
            }
            snapshot.cancel();
            assert_ne!(snapshot.work(&space), SnapshotOutcome::Failed);
            assert!(!space.has_snapshot());
        }
        let target = recording();
        let snapshot = space.begin_snapshot(target.clone(), &mut |_| {}).expect("none runs");
        assert_eq!(snapshot.work(&space), SnapshotOutcome::Complete);
        stop.store(true, Ordering::Relaxed);
        worker.join().expect("no panic");
        assert_eq!(sum(&target.contents()).1, ACCOUNTS.cast_signed() * BALANCE);
    });
    drop(Arc::new(space));
}
