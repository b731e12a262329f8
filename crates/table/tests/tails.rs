//! Tails: every kind of value with every kind of tail, how they change, and the memory they take.

mod common;

use common::*;
use pantala_base::UnixMs;
use pantala_table::{CAS_MAX, Encoding, OwnedRecord, RecordPlace, Table, Tail};

const WHOLE: Tail = Tail { flags: u32::MAX, cas: CAS_MAX, state: 0x81 };

fn one(key: &[u8], value: &[u8], deadline: Option<UnixMs>) -> (Table<Thing>, RecordPlace) {
    let mut table = Table::new();
    table.make_room(0, UnixMs(0), &mut |_| 0, &mut drop);
    let place = table.insert_string(0, key, value, deadline).expect("there is room");
    (table, place)
}

fn text(table: &Table<Thing>, place: RecordPlace) -> Vec<u8> {
    table.string(place).expect("it is a string").to_vec()
}

/// One string of each encoding, and of each length around the size classes.
fn samples() -> Vec<Vec<u8>> {
    let numbers = ["0", "-7", "300", "-70000", "9223372036854775807"];
    let mut samples: Vec<Vec<u8>> = numbers.map(|text| text.as_bytes().to_vec()).into();
    let lens = (0..70).chain([100, 108, 116, 127, 128, 250, 1_000, 1_024, 5_000, 70_000]);
    samples.extend(lens.map(|len| vec![b'v'; len]));
    samples
}

#[test]
fn a_tail_can_be_put_on_and_taken_off() {
    for key_len in [0, 1, 7, 16, 250, 300] {
        let key = vec![b'k'; key_len];
        for value in samples() {
            for deadline in [None, Some(UnixMs(5))] {
                let (mut table, place) = one(&key, &value, deadline);
                let (bytes, encoding) = (table.record_bytes(place), table.encoding(place));
                assert_eq!(table.tail(place), Tail::default());
                table.set_tail(place, WHOLE);
                assert_eq!((table.tail(place), text(&table, place)), (WHOLE, value.clone()));
                assert_eq!((table.key(place), table.deadline(place)), (&key[..], deadline));
                assert_eq!(table.encoding(place), encoding);
                assert!(table.record_bytes(place) <= bytes + 12 + bytes / 4 + 16);
                let other = if deadline.is_some() { None } else { Some(UnixMs(9)) };
                table.set_deadline(place, other);
                assert_eq!((table.tail(place), table.deadline(place)), (WHOLE, other));
                assert_eq!(text(&table, place), value);
                table.check(&mut |_| 0);
                table.set_tail(place, Tail::default());
                assert_eq!(
                    (table.tail(place), text(&table, place)),
                    (Tail::default(), value.clone())
                );
            }
        }
    }
}

#[test]
fn every_value_with_a_tail_can_become_every_other() {
    for from in samples() {
        for to in samples() {
            let (mut table, place) = one(b"sixteen-byte-key", &from, None);
            table.set_tail(place, WHOLE);
            drop(table.set_string_with_tail(place, &to, Tail::of_flags(7)));
            assert_eq!((text(&table, place), table.tail(place).flags), (to.clone(), 7));
            table.check(&mut |_| 0);
            drop(table.set_string(place, &from));
            assert_eq!((text(&table, place), table.tail(place)), (from.clone(), Tail::default()));
            table.check(&mut |_| 0);
        }
    }
}

#[test]
fn a_change_of_the_text_keeps_the_flags_alone() {
    let kept = Tail::of_flags(WHOLE.flags);
    for value in samples() {
        let changes: [fn(&mut Table<Thing>, RecordPlace); 4] = [
            |table, place| assert!(table.append(place, b"tail") >= 4),
            |table, place| assert!(table.set_range(place, 30, b"xyz") > 30),
            |table, place| table.resize(place, 9),
            |table, place| table.string_mut(place).expect("a string").fill(b'z'),
        ];
        for change in changes {
            let (mut plain, at) = one(b"key", &value, None);
            let (mut table, place) = one(b"key", &value, None);
            table.set_tail(place, WHOLE);
            change(&mut plain, at);
            change(&mut table, place);
            assert_eq!((text(&table, place), table.tail(place)), (text(&plain, at), kept));
            table.check(&mut |_| 0);
        }
        let (mut table, place) = one(b"key", &value, None);
        table.set_tail(place, WHOLE);
        drop(table.set_int(place, i64::MIN));
        assert_eq!(text(&table, place), i64::MIN.to_string().as_bytes());
        assert_eq!(table.tail(place), Tail { cas: 0, ..WHOLE });
        table.check(&mut |_| 0);
        drop(table.set_object(place, Thing { tag: 7, bytes: vec![1; 9] }));
        assert_eq!(table.tail(place), Tail::default());
        assert_eq!(table.type_tag(place), 7);
        drop(table.set_string(place, &value));
        assert_eq!((text(&table, place), table.tail(place)), (value, Tail::default()));
    }
}

#[test]
fn a_number_belongs_to_a_key_and_flags_to_a_value() {
    let kept = Tail::of_flags(WHOLE.flags);
    for value in samples() {
        let (mut table, place) = one(b"key", &value, Some(UnixMs(3)));
        table.set_tail(place, WHOLE);
        let same = table.copy_string(place, b"key").expect("it is a string");
        let other = table.copy_string(place, b"another").expect("it is a string");
        assert_eq!((same.tail(), other.tail()), (WHOLE, kept));
        assert_eq!(read(same.value()), read(other.value()));
        let taken = table.take_value(place);
        assert_eq!((taken.tail(), table.tail(place)), (WHOLE, kept));
        assert!(text(&table, place).is_empty());
        let renamed = table.remove(place).with_key(b"a longer one than before");
        assert_eq!((renamed.tail(), renamed.deadline()), (kept, Some(UnixMs(3))));
        let renamed = taken.with_key(&[b'k'; 300]);
        assert_eq!((renamed.tail(), read(renamed.value())), (kept, Value::Str(value.clone())));
        let made = OwnedRecord::<Thing>::new_string(b"made", &value, None).with_tail(WHOLE);
        assert_eq!((made.tail(), read(made.value())), (WHOLE, Value::Str(value)));
    }
}

#[test]
fn tails_cost_what_the_budget_says() {
    let key = b"sixteen-byte-key";
    for (len, encoding, bytes) in [
        (0, Encoding::Inline, 32),
        (8, Encoding::Inline, 48),
        (16, Encoding::Inline, 48),
        (96, Encoding::Inline, 128),
        (1_024, Encoding::Long, 48 + 1_024),
    ] {
        let mut table = Table::<Thing>::new();
        table.make_room(0, UnixMs(0), &mut |_| 0, &mut drop);
        let value = vec![b'v'; len];
        let record = OwnedRecord::new_string_with_tail(key, &value, None, Tail::of_flags(1));
        let place = table.insert_record(0, record).ok().expect("there is room");
        assert_eq!((table.encoding(place), table.record_bytes(place)), (encoding, bytes));
        let at = table.key(place).as_ptr();
        table.set_tail(place, WHOLE);
        drop(table.set_string_with_tail(place, &value, WHOLE));
        assert_eq!((table.key(place).as_ptr(), table.tail(place)), (at, WHOLE), "in place");
    }
}
