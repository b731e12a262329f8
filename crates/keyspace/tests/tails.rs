//! Flags and cas numbers: which changes keep them, which drop them, and that no number comes twice.

mod common;

use std::collections::HashSet;

use common::*;
use pantala_base::UnixMs;
use pantala_keyspace::{Expiry, Keyspace, LockPlan, OpenKey, Tally, event};
use pantala_table::{CAS_MAX, Tail};

/// Opens a key and runs `work` with it.
fn open_at<R>(
    space: &Keyspace,
    key: &str,
    now: UnixMs,
    work: impl FnOnce(&mut OpenKey<'_, '_>) -> R,
) -> R {
    let tally = Tally::default();
    let key = space.key(key.as_bytes());
    let mut locked = space.lock_waiting(&LockPlan::one(key.hash), scope(space, &tally, DB, now));
    work(&mut locked.open(key))
}

fn open<R>(space: &Keyspace, key: &str, work: impl FnOnce(&mut OpenKey<'_, '_>) -> R) -> R {
    open_at(space, key, NOW, work)
}

fn store(space: &Keyspace, key: &str, value: &str, flags: u32) {
    open(space, key, |opened| {
        opened.set_string_with_tail(value.as_bytes(), Expiry::Never, Tail::of_flags(flags));
        opened.publish(event::SET);
    });
}

fn flags(space: &Keyspace, key: &str) -> u32 {
    open(space, key, |opened| opened.tail().flags)
}

fn cas(space: &Keyspace, key: &str) -> u64 {
    open(space, key, |opened| opened.cas_number())
}

#[test]
fn a_number_names_one_state_of_a_key() {
    let space = keyspace();
    assert_eq!(cas(&space, "nothing"), 0);
    let mut seen = HashSet::new();
    for round in 0..50 {
        match round % 2 {
            0 => store(&space, "key", "5", round),
            _ => set(&space, DB, "key", "5", Expiry::Never),
        }
        let number = cas(&space, "key");
        assert!(number != 0 && number <= CAS_MAX && seen.insert(number));
        assert_eq!(cas(&space, "key"), number, "until the next change");
        assert_eq!(flags(&space, "key"), if round % 2 == 0 { round } else { 0 });
        assert_eq!(get(&space, DB, "key", NOW).as_deref(), Some("5"));
    }
    let changes: [fn(&mut OpenKey<'_, '_>); 5] = [
        |opened| assert_eq!(opened.append(b"1"), 2),
        |opened| opened.set_range(0, b"7"),
        |opened| opened.resize(1),
        |opened| opened.set_int(9),
        |opened| opened.string_mut().expect("a string").expect("it is there")[0] = b'8',
    ];
    store(&space, "key", "5", 77);
    for change in changes {
        seen.insert(cas(&space, "key"));
        open(&space, "key", |opened| {
            change(opened);
            opened.publish(event::SET);
        });
        let number = cas(&space, "key");
        assert!(seen.insert(number));
        assert_eq!(flags(&space, "key"), 77);
    }
    let number = cas(&space, "key");
    open(&space, "key", |opened| {
        opened.set_deadline(Some(UnixMs(NOW.0 + 5_000)));
        opened.publish(event::EXPIRE);
    });
    assert_eq!((cas(&space, "key"), flags(&space, "key")), (number, 77), "as touch in memcached");
    remove(&space, DB, "key");
    assert_eq!((cas(&space, "key"), flags(&space, "key")), (0, 0));
}

#[test]
fn two_keys_never_have_the_same_number() {
    let (space, mut seen) = (keyspace(), HashSet::new());
    for number in 0..3_000 {
        let key = format!("key:{number}");
        set(&space, DB, &key, "value", Expiry::Never);
        assert!(seen.insert(cas(&space, &key)), "{key}");
    }
}

#[test]
fn numbers_go_on_after_a_restart_and_when_the_clock_goes_back() {
    let mut last = 0;
    for (space, now) in [(keyspace(), 1_000), (keyspace(), 1_001)] {
        for back in 0..3 {
            set(&space, DB, "key", "value", Expiry::Never);
            let number = open_at(&space, "key", UnixMs(now - back), |opened| opened.cas_number());
            assert!(number > last);
            last = number;
        }
    }
    let space = keyspace();
    set(&space, DB, "key", "value", Expiry::Never);
    let year_2100 = UnixMs(4_102_444_800_000);
    let number = open_at(&space, "key", year_2100, |opened| opened.cas_number());
    assert!(number > last && number < CAS_MAX);
}

#[test]
fn state_and_numbers_of_the_clients_own_last_until_the_next_change() {
    let space = keyspace();
    store(&space, "key", "value", 3);
    open(&space, "key", |opened| {
        opened.set_cas_number(u64::MAX);
        opened.set_item_state(5);
        let whole = Tail { flags: 3, cas: CAS_MAX, state: 5 };
        assert_eq!((opened.tail(), opened.cas_number()), (whole, CAS_MAX));
        opened.append(b"more");
        opened.publish(event::APPEND);
        assert_eq!(opened.tail(), Tail::of_flags(3));
    });
}

#[test]
fn flags_go_with_copies_and_new_names() {
    let space = keyspace();
    store(&space, "key", "value", 3);
    let number = cas(&space, "key");
    let copy = open(&space, "key", |opened| opened.copy(b"copy")).expect("it is there");
    open(&space, "copy", |opened| {
        opened.put(copy);
        opened.publish(event::COPY_TO);
    });
    let taken = open(&space, "key", |opened| {
        let taken = opened.take().expect("it is there");
        opened.publish(event::RENAME_FROM);
        taken
    });
    assert_eq!(taken.tail().cas, number);
    open(&space, "new", |opened| {
        opened.put(taken);
        opened.publish(event::RENAME_TO);
    });
    for name in ["copy", "new"] {
        let tail = open(&space, name, |opened| opened.tail());
        assert_eq!(tail, Tail::of_flags(3), "{name}");
    }
}
