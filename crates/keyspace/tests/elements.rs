//! Fields with deadlines of their own are swept, and their key goes with the last of them. Time is
//! an argument: no test waits.

mod common;

use common::{DB, NOW, OTHER_DB, keyspace};
use pantala_base::UnixMs;
use pantala_keyspace::event::{HDEL, HEXPIRE, HSET};
use pantala_keyspace::{DbIndex, Keyspace, Sweeper, Tally};
use pantala_values::Hash;
use pantala_values::hash::{HashLimits, Lifetime};

const LIMITS: HashLimits = HashLimits { entries: 8, value_bytes: 64 };

fn sweep(space: &Keyspace, now: i64, tally: &Tally) -> u64 {
    Sweeper::new(space).round(space, UnixMs(NOW.0 + now), tally)
}

/// Runs `act` on the key, as a command would.
fn on<R>(
    space: &Keyspace,
    db: DbIndex,
    name: &str,
    act: impl FnOnce(&mut pantala_keyspace::OpenKey<'_, '_>) -> R,
) -> R {
    let tally = Tally::default();
    let key = space.key(name.as_bytes());
    let scope = common::scope(space, &tally, db, NOW);
    let id = pantala_keyspace::PartitionId::of(key.hash);
    let mut locked = space.lock_one(id, scope).expect("nobody else is there");
    act(&mut locked.peek(key))
}

fn set(space: &Keyspace, db: DbIndex, name: &str, field: &str, lives: Option<i64>) {
    let lifetime = match lives {
        Some(ms) => Lifetime::Until(UnixMs(NOW.0 + ms)),
        None => Lifetime::Forever,
    };
    on(space, db, name, |opened| {
        let hash = opened.collection_or_new::<Hash>().expect("it is a hash");
        hash.set(field.as_bytes(), b"v", lifetime, LIMITS, NOW);
        opened.publish_collection::<Hash>(HSET);
    });
}

fn len(space: &Keyspace, db: DbIndex, name: &str) -> usize {
    on(space, db, name, |opened| {
        opened.collection::<Hash>().expect("it is a hash").map_or(0, |hash| hash.view().len())
    })
}

fn timed(space: &Keyspace, db: DbIndex) -> u64 {
    space.sizes(db).map_or(0, |sizes| sizes.with_timed_elements())
}

#[test]
fn fields_go_when_they_are_due_and_not_before() {
    let space = keyspace();
    let tally = Tally::default();
    for number in 0..2000 {
        set(&space, DB, "large", &format!("f{number}"), Some(number));
    }
    set(&space, DB, "large", "stays", None);
    set(&space, OTHER_DB, "small", "a", Some(100));
    set(&space, OTHER_DB, "small", "b", Some(200));
    assert_eq!((timed(&space, DB), timed(&space, OTHER_DB)), (1, 1));
    assert_eq!(sweep(&space, 0, &tally), 0);
    assert_eq!(sweep(&space, 1, &tally), 1, "in its last millisecond a field is there");
    assert_eq!(sweep(&space, 100, &tally), 99);
    assert_eq!(len(&space, DB, "large"), 1901);
    assert_eq!(sweep(&space, 101, &tally), 2);
    assert_eq!(len(&space, OTHER_DB, "small"), 1);
    assert_eq!(sweep(&space, 1000, &tally), 900);
    assert_eq!((len(&space, OTHER_DB, "small"), timed(&space, OTHER_DB)), (0, 0));
    assert_eq!(space.sizes(OTHER_DB).expect("it was used").keys(), 0);
    assert_eq!(sweep(&space, 5000, &tally), 1000);
    assert_eq!((len(&space, DB, "large"), timed(&space, DB)), (1, 0));
    assert_eq!(tally.expired_elements.get(), 2002);
    assert_eq!(tally.expired.get(), 0);
}

#[test]
fn what_was_removed_or_made_eternal_is_not_looked_for() {
    let space = keyspace();
    let tally = Tally::default();
    for name in ["deleted", "persisted", "renamed", "removed"] {
        set(&space, DB, name, "a", Some(10));
        set(&space, DB, name, "b", None);
    }
    assert_eq!(timed(&space, DB), 4);
    on(&space, DB, "deleted", |opened| {
        opened.remove();
        opened.publish(HDEL);
    });
    assert_eq!(timed(&space, DB), 3);
    on(&space, DB, "persisted", |opened| {
        let hash = opened.collection_mut::<Hash>().expect("a hash").expect("there");
        hash.set_deadline(b"a", None);
        opened.publish_collection::<Hash>(HEXPIRE);
    });
    on(&space, DB, "removed", |opened| {
        let hash = opened.collection_mut::<Hash>().expect("a hash").expect("there");
        assert!(hash.remove(b"a", NOW));
        opened.publish_collection::<Hash>(HDEL);
    });
    let record = on(&space, DB, "renamed", |opened| {
        let record = opened.take();
        opened.publish(HDEL);
        record
    });
    on(&space, OTHER_DB, "other", |opened| {
        opened.put(record.expect("it was there"));
        opened.publish(HSET);
    });
    assert_eq!(timed(&space, OTHER_DB), 1, "a record that arrives brings its fields' deadlines");
    assert_eq!(sweep(&space, 11, &tally), 1);
    assert_eq!(len(&space, OTHER_DB, "other"), 1);
    assert_eq!((timed(&space, DB), timed(&space, OTHER_DB)), (0, 0));
    let lens = ["deleted", "persisted", "removed"].map(|name| len(&space, DB, name));
    assert_eq!(lens, [0, 2, 1]);
}

#[test]
fn a_deadline_that_comes_nearer_is_found() {
    let space = keyspace();
    let tally = Tally::default();
    set(&space, DB, "h", "a", Some(1_000_000));
    assert_eq!(sweep(&space, 10, &tally), 0);
    on(&space, DB, "h", |opened| {
        let hash = opened.collection_mut::<Hash>().expect("a hash").expect("there");
        hash.set_deadline(b"a", Some(UnixMs(NOW.0 + 20)));
        opened.publish_collection::<Hash>(HEXPIRE);
    });
    assert_eq!(sweep(&space, 20, &tally), 0);
    assert_eq!(sweep(&space, 21, &tally), 1);
    assert_eq!(space.sizes(DB).expect("it was used").keys(), 0);
}
