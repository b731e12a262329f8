//! Keys whose deadline has passed are removed, or hidden where there is a reason.

mod common;

use std::sync::Arc;

use common::{DB, NOW, get, keyspace, names, scope, set};
use pantala_base::UnixMs;
use pantala_base::rng::Rng;
use pantala_keyspace::event::{DEL, HSET, SADD, SET};
use pantala_keyspace::{
    Expiry, HideReason, Keyspace, LockPlan, Locked, PartitionId, ScanCursor, Scope, Sweeper, Tally,
    Watch,
};
use pantala_table::OwnedRecord;
use pantala_values::hash::{HashLimits, Lifetime};
use pantala_values::{Hash, Set};

fn later(ms: i64) -> UnixMs {
    UnixMs(NOW.0 + ms)
}

/// Runs `work` with the keys `k` and `h` held, after the deadline of `k`.
fn then<R>(space: &Keyspace, sees_expired: bool, work: impl FnOnce(&mut Locked<'_>) -> R) -> R {
    let tally = Tally::default();
    let plan = LockPlan::of(["k", "h"].map(|name| space.hash(name.as_bytes())));
    let scope = Scope { sees_expired, ..scope(space, &tally, DB, later(6)) };
    let result = work(&mut space.lock_waiting(&plan, scope));
    assert!(!space.hides_expired() || tally.expired.get() <= 1, "only what stood in the way");
    result
}

fn with_expired(reason: Option<HideReason>) -> Keyspace {
    let space = keyspace();
    set(&space, DB, "k", "old", Expiry::At(later(5)));
    if let Some(reason) = reason {
        space.hide_expired(reason, true);
    }
    space
}

fn count(space: &Keyspace) -> u64 {
    space.sizes(DB).expect("it was used").keys()
}

fn sweep(space: &Keyspace) -> u64 {
    Sweeper::new(space).round(space, later(6), &Tally::default())
}

#[test]
fn hidden_keys_are_not_seen_and_stay() {
    for reason in [HideReason::Replica, HideReason::Paused, HideReason::Import] {
        let space = with_expired(Some(reason));
        assert_eq!(get(&space, DB, "k", later(5)).as_deref(), Some("old"), "not yet");
        assert_eq!(get(&space, DB, "k", later(6)), None);
        let key = space.key(b"k");
        then(&space, false, |locked| {
            assert!(!locked.peek(key).exists());
            assert_eq!(locked.tag_of(key), Ok(None));
            let random = locked.random_key(&mut Rng::from_seed(1));
            assert_eq!(random, Ok(Some(b"k".to_vec())), "there is no other, and it stays");
            let mut seen = 0;
            let mut at = locked.scan(ScanCursor(0), 5, &mut |_| seen += 1).expect("all is free");
            while at != ScanCursor(0) {
                at = locked.scan(at, 5, &mut |_| seen += 1).expect("all is free");
            }
            assert_eq!(seen, 0);
        });
        assert_eq!((sweep(&space), count(&space)), (0, 1));
        space.hide_expired(reason, false);
        assert_eq!((sweep(&space), count(&space)), (1, 0));
    }
}

#[test]
fn a_watched_key_that_expires_while_it_is_hidden_has_changed() {
    let (space, tally) = (with_expired(Some(HideReason::Paused)), Tally::default());
    let (key, watch) = (space.key(b"k"), Arc::new(Watch::default()));
    let plan = LockPlan::of([key.hash]);
    {
        let mut before = space.lock_waiting(&plan, scope(&space, &tally, DB, NOW));
        before.watch(key, &watch);
        assert!(!before.has_expired_since(DB, key, &watch));
    }
    then(&space, false, |locked| assert!(locked.has_expired_since(DB, key, &watch)));
    then(&space, true, |locked| assert!(!locked.has_expired_since(DB, key, &watch)));
    assert!(!watch.is_touched(), "it is still there");
    space.hide_expired(HideReason::Paused, false);
    assert_eq!((sweep(&space), watch.is_touched()), (1, true));
}

#[test]
fn a_watched_key_that_had_expired_may_go() {
    for is_told in [false, true] {
        let space = with_expired(Some(HideReason::Replica));
        let (key, watch) = (space.key(b"k"), Arc::new(Watch::default()));
        then(&space, false, |locked| {
            locked.watch(key, &watch);
            assert!(!locked.has_expired_since(DB, key, &watch));
        });
        if is_told {
            then(&space, true, |locked| {
                let mut opened = locked.open(key);
                assert!(opened.remove());
                opened.publish(DEL);
            });
        } else {
            space.hide_expired(HideReason::Replica, false);
            assert_eq!(sweep(&space), 1);
        }
        assert_eq!((count(&space), watch.is_touched()), (0, false));
        set(&space, DB, "k", "new", Expiry::Never);
        assert!(watch.is_touched());
    }
    let space = with_expired(Some(HideReason::Replica));
    let (key, watch) = (space.key(b"k"), Arc::new(Watch::default()));
    then(&space, false, |locked| locked.watch(key, &watch));
    set(&space, DB, "k", "new", Expiry::Never);
    assert!(watch.is_touched(), "it was put in its place");
}

#[test]
fn a_replica_removes_what_its_own_clients_have_timed() {
    let space = keyspace();
    space.hide_expired(HideReason::Replica, true);
    for name in ["k", "h", "kept", "of_primary"] {
        set(&space, DB, name, "own", Expiry::At(later(5)));
    }
    let told = |name: &str, expiry: Expiry| {
        let (tally, key) = (Tally::default(), space.key(name.as_bytes()));
        let scope = Scope { sees_expired: true, ..scope(&space, &tally, DB, NOW) };
        let mut locked = space.lock_waiting(&LockPlan::of([key.hash]), scope);
        let mut opened = locked.open(key);
        opened.set_string(b"told", expiry);
        opened.publish(SET);
    };
    told("of_primary", Expiry::At(later(4)));
    told("other", Expiry::At(later(4)));
    told("kept", Expiry::Never);
    set(&space, DB, "h", "own", Expiry::At(later(9)));
    space.hide_expired(HideReason::Paused, true);
    assert_eq!((sweep(&space), count(&space)), (0, 5), "nothing goes while it is paused");
    space.hide_expired(HideReason::Paused, false);
    assert_eq!((sweep(&space), count(&space)), (1, 4), "`k` alone is due and not the primary's");
    assert_eq!(get(&space, DB, "kept", later(9)).as_deref(), Some("told"));
    assert_eq!(Sweeper::new(&space).round(&space, later(10), &Tally::default()), 1, "`h`");
    space.hide_expired(HideReason::Replica, false);
    assert_eq!((sweep(&space), count(&space)), (2, 1), "a primary removes all");
}

#[test]
fn one_reason_is_enough() {
    let space = with_expired(Some(HideReason::Replica));
    space.hide_expired(HideReason::Paused, true);
    space.hide_expired(HideReason::Replica, false);
    assert_eq!((sweep(&space), count(&space)), (0, 1));
    space.hide_expired(HideReason::Paused, false);
    assert_eq!(get(&space, DB, "k", later(6)), None);
    assert_eq!(count(&space), 0);
}

#[test]
fn who_sees_the_expired_sees_it_and_changes_it() {
    for reason in [None, Some(HideReason::Replica)] {
        let space = with_expired(reason);
        let key = space.key(b"k");
        then(&space, true, |locked| {
            assert_eq!(locked.peek(key).deadline(), Some(later(5)));
            assert_eq!(locked.tag_of(key), Ok(Some(0)));
            assert!(locked.random_key(&mut Rng::from_seed(1)).expect("free").is_some());
            let mut opened = locked.open(key);
            opened.append(b"er");
            opened.publish(SET);
        });
        assert_eq!(get(&space, DB, "k", later(5)).as_deref(), Some("older"));
    }
}

#[test]
fn what_is_hidden_gives_way_to_writers_while_a_server_is_filled() {
    for (reasons, stays) in [
        (&[HideReason::Import][..], false),
        (&[HideReason::Replica], true),
        (&[HideReason::Import, HideReason::Paused], true),
    ] {
        let space = with_expired(None);
        reasons.iter().for_each(|&reason| space.hide_expired(reason, true));
        let key = space.key(b"k");
        then(&space, true, |locked| assert!(locked.open(key).exists()));
        assert_eq!(count(&space), 1);
        then(&space, false, |locked| {
            assert!(!locked.look(key).exists());
            assert!(!locked.scope().has_passed(UnixMs(0)));
            let mut opened = locked.peek(key);
            opened.uncover();
            assert_eq!(opened.exists(), !stays);
            drop(opened);
            assert!(!locked.open(key).exists());
        });
        assert_eq!(count(&space), u64::from(stays), "{reasons:?}");
    }
    let space = with_expired(None);
    assert!(then(&space, false, |locked| locked.scope().has_passed(UnixMs(0))));
}

#[test]
fn what_is_hidden_gives_way() {
    type Put = fn(&mut pantala_keyspace::OpenKey<'_, '_>);
    let ways: [Put; 4] = [
        |opened| opened.set_string(b"new", Expiry::Never),
        |opened| opened.set_int(7),
        |opened| opened.put(OwnedRecord::new_string(b"other", b"new", None)),
        |opened| opened.set_collection(Set::default(), Expiry::Never),
    ];
    for way in ways {
        let space = with_expired(Some(HideReason::Replica));
        then(&space, false, |locked| {
            let mut opened = locked.open(space.key(b"k"));
            way(&mut opened);
            opened.publish(SADD);
            assert_eq!(opened.deadline(), None);
        });
        assert_eq!(count(&space), 1);
        assert_eq!(names(&space, DB), ["k"]);
    }
}

#[test]
fn a_full_segment_keeps_what_is_hidden() {
    let space = keyspace();
    let id = PartitionId(3);
    let names: Vec<String> = (0..)
        .map(|number| format!("k{number}"))
        .filter(|name| PartitionId::of(space.hash(name.as_bytes())) == id)
        .take(300)
        .collect();
    for name in &names[..150] {
        set(&space, DB, name, "v", Expiry::At(later(5)));
    }
    space.hide_expired(HideReason::Replica, true);
    let tally = Tally::default();
    for name in &names[150..] {
        let mut locked = space.lock_one(id, scope(&space, &tally, DB, later(6))).expect("free");
        let mut opened = locked.open(space.key(name.as_bytes()));
        opened.set_string(b"v", Expiry::Never);
        opened.publish(SET);
    }
    assert_eq!((count(&space), tally.expired.get()), (300, 0));
}

#[test]
fn elements_are_hidden_too() {
    let space = keyspace();
    let key = space.key(b"h");
    let limits = HashLimits { entries: 4, value_bytes: 16 };
    let tally = Tally::default();
    let mut locked = space
        .lock_one(PartitionId::of(key.hash), scope(&space, &tally, DB, NOW))
        .expect("nobody else is there");
    let mut opened = locked.open(key);
    let hash = opened.collection_or_new::<Hash>().expect("nothing else is there");
    hash.set(b"f", b"v", Lifetime::Until(later(5)), limits, NOW);
    opened.publish_collection::<Hash>(HSET);
    drop(opened);
    drop(locked);
    space.hide_expired(HideReason::Paused, true);
    assert_eq!(sweep(&space), 0);
    then(&space, false, |locked| assert_eq!(locked.open(key).expire_elements(10), 0));
    assert_eq!(count(&space), 1);
    space.hide_expired(HideReason::Paused, false);
    assert_eq!((sweep(&space), count(&space)), (1, 0));
}

/// A hidden collection is not found either by commands that read several at once.
#[test]
fn a_hidden_collection() {
    let space = keyspace();
    let (tally, key) = (Tally::default(), space.key(b"k"));
    space.hide_expired(HideReason::Replica, true);
    let id = PartitionId::of(key.hash);
    {
        let mut locked = space.lock_one(id, scope(&space, &tally, DB, NOW)).expect("free");
        let mut opened = locked.open(key);
        opened.set_collection(Hash::default(), Expiry::At(later(5)));
        opened.publish(HSET);
    }
    let found =
        |sees| then(&space, sees, |locked| locked.collection::<Hash>(key).map(|h| h.is_some()));
    assert_eq!((found(false), found(true)), (Ok(false), Ok(true)));
}
