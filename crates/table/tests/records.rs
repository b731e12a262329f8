//! Records: every change from one encoding to another, the memory each takes, and that nothing
//! leaks.
//!
//! The allocator of this test counts the bytes of each thread, so the memory that a table reports
//! is compared with what was really allocated.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::*;
use pantala_base::UnixMs;
use pantala_table::{Encoding, OwnedRecord, RecordPlace, Table, ValueRef, size_class};

struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

// SAFETY: hands everything to the system's allocator; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.set(LIVE.get() + size_class(layout.size()) as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get() - size_class(layout.size()) as isize);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that this thread has allocated; negative when it has freed more of other threads' memory.
fn live() -> isize {
    LIVE.get()
}

/// Bytes that the table reports to have allocated.
fn claimed(table: &Table<Thing>) -> isize {
    let mut bytes = table.heap_bytes();
    table.for_each(&mut |place| bytes += table.record_bytes(place));
    bytes.cast_signed()
}

fn one(key: &[u8], value: &[u8], deadline: Option<UnixMs>) -> (Table<Thing>, RecordPlace) {
    let mut table = Table::new();
    table.make_room(0, UnixMs(0), &mut |_| 0, &mut drop);
    let place = table.insert_string(0, key, value, deadline).expect("there is room");
    (table, place)
}

fn text(table: &Table<Thing>, place: RecordPlace) -> Vec<u8> {
    table.string(place).expect("it is a string").to_vec()
}

#[test]
fn records_cost_what_the_budget_says() {
    let key = b"sixteen-byte-key";
    for (value_len, encoding, bytes) in [
        (0, Encoding::Inline, 32),
        (8, Encoding::Inline, 32),
        (12, Encoding::Inline, 32),
        (13, Encoding::Inline, 48),
        (100, Encoding::Inline, 128),
        (108, Encoding::Inline, 128),
        (256, Encoding::Long, 32 + 256),
        (1_024, Encoding::Long, 32 + 1_024),
        (100_000, Encoding::Long, 32 + 102_400),
    ] {
        let (table, place) = one(key, &vec![b'v'; value_len], None);
        assert_eq!((table.encoding(place), table.record_bytes(place)), (encoding, bytes));
    }
    for number in ["0", "-5", "12345678901234567", "9223372036854775807"] {
        let (table, place) = one(key, number.as_bytes(), None);
        assert_eq!((table.encoding(place), table.record_bytes(place)), (Encoding::Int, 32));
    }
    // A number costs no more than its text: 4 + 11 + 1 bytes are 16.
    let (table, place) = one(b"elevenbytes", b"7", None);
    assert_eq!((table.encoding(place), table.record_bytes(place)), (Encoding::Int, 16));
}

/// One value of every encoding, with and without much waste.
fn samples() -> Vec<Value> {
    let mut samples: Vec<Value> = ["", "1", "-129", "70000", "-9223372036854775808", "01", "1.5"]
        .iter()
        .map(|text| Value::Str(text.as_bytes().to_vec()))
        .collect();
    for len in [3, 12, 13, 60, 120, 255, 256, 300, 1_024, 5_000, 40_000, 65_535, 65_536, 1 << 20] {
        samples.push(Value::Str((0..len).map(|i| b'a' + (i % 23) as u8).collect()));
    }
    samples.push(Value::Thing(Thing { tag: 1, bytes: vec![1; 100] }));
    samples.push(Value::Thing(Thing { tag: 15, bytes: Vec::new() }));
    samples
}

fn put(table: &mut Table<Thing>, place: RecordPlace, value: &Value) {
    match value {
        Value::Str(value) => drop(table.set_string(place, value)),
        Value::Thing(thing) => drop(table.set_object(place, thing.clone())),
    }
}

#[test]
fn every_value_can_become_every_other() {
    for key_len in [0usize, 5, 16, 254, 255, 70_000] {
        let key = vec![b'k'; key_len];
        for from in samples() {
            for to in samples() {
                let before = live();
                let (mut table, place) = one(&key, b"", None);
                put(&mut table, place, &from);
                assert_eq!(read(table.value(place)), from);
                put(&mut table, place, &to);
                assert_eq!(table.key(place), key);
                assert_eq!(read(table.value(place)), to);
                assert_eq!(live() - before, claimed(&table), "{key_len}");
                table.set_deadline(place, Some(UnixMs(i64::MIN)));
                assert_eq!(table.deadline(place), Some(UnixMs(i64::MIN)));
                assert_eq!((table.key(place), read(table.value(place))), (&key[..], to.clone()));
                put(&mut table, place, &from);
                assert_eq!(table.deadline(place), Some(UnixMs(i64::MIN)));
                table.set_deadline(place, None);
                assert_eq!((table.key(place), read(table.value(place))), (&key[..], from.clone()));
                assert_eq!(live() - before, claimed(&table), "{key_len}");
                drop(table);
                assert_eq!(live(), before, "nothing leaks");
            }
        }
    }
}

#[test]
fn a_value_that_fits_is_overwritten_in_place() {
    let (mut table, place) = one(b"sixteen-byte-key", &[b'v'; 100], None);
    let at = table.key(place).as_ptr();
    for len in [100, 108, 50, 44, 101] {
        drop(table.set_string(place, &vec![b'w'; len]));
        assert_eq!((table.key(place).as_ptr(), text(&table, place)), (at, vec![b'w'; len]));
    }
    drop(table.set_string(place, b"w"));
    assert_eq!(table.record_bytes(place), 32, "no more than half is wasted");
    let (mut table, place) = one(b"sixteen-byte-key", b"999", None);
    let at = table.key(place).as_ptr();
    for number in [0, i64::MAX, -1, i64::MIN] {
        assert!(table.set_int(place, number).is_none());
        assert_eq!(table.key(place).as_ptr(), at, "a counter grows in place");
        assert_eq!(text(&table, place), number.to_string().as_bytes());
    }
}

#[test]
fn a_long_value_shrinks_and_comes_home() {
    let (mut table, place) = one(b"sixteen-byte-key", &[b'v'; 10_240], None);
    drop(table.set_string(place, &[b'w'; 6_000]));
    assert_eq!(table.record_bytes(place), 32 + 10_240, "overwritten in its block");
    drop(table.set_string(place, &[b'w'; 4_096]));
    assert_eq!(table.record_bytes(place), 32 + 4_096, "no more than half is wasted");
    table.resize(place, 90);
    assert_eq!((table.encoding(place), table.record_bytes(place)), (Encoding::Inline, 112));
    assert_eq!(text(&table, place), [b'w'; 90]);
}

#[test]
fn appending_is_amortised() {
    let before = live();
    let (mut table, place) = one(b"log", b"", None);
    let mut expected = Vec::new();
    let (mut blocks, mut at) = (0, std::ptr::null());
    for number in 0..20_000u32 {
        let line = format!("line {number}\n");
        expected.extend_from_slice(line.as_bytes());
        assert_eq!(table.append(place, line.as_bytes()), expected.len());
        let bytes = table.string_mut(place).expect("it is a string");
        if !std::ptr::eq(bytes.as_ptr(), at) {
            (blocks, at) = (blocks + 1, bytes.as_ptr());
        }
    }
    assert_eq!(text(&table, place), expected);
    assert!(blocks < 120, "moved {blocks} times");
    let excess = table.record_bytes(place) as f64 / expected.len() as f64;
    assert!(excess < 1.2, "{excess}");
    drop((table, expected));
    assert_eq!(live(), before);
}

#[test]
fn a_number_becomes_text_when_its_bytes_are_wanted() {
    let (mut table, place) = one(b"n", b"12", None);
    assert_eq!(table.append(place, b"34"), 4);
    assert_eq!((table.encoding(place), text(&table, place)), (Encoding::Inline, b"1234".to_vec()));
    let (mut table, place) = one(b"n", b"-9223372036854775808", None);
    assert_eq!(table.set_range(place, 22, b"xy"), 24);
    assert_eq!(text(&table, place), b"-9223372036854775808\0\0xy");
    let (mut table, place) = one(b"n", b"100", None);
    table.string_mut(place).expect("it is a string")[0] = b'9';
    assert_eq!(text(&table, place), b"900");
    let (mut table, place) = one(b"n", b"100", None);
    table.resize(place, 2);
    assert_eq!(text(&table, place), b"10");
}

#[test]
fn a_value_of_a_hundred_megabytes() {
    let before = live();
    let value: Vec<u8> = (0..100_000_000u32).map(|i| (i >> 7) as u8).collect();
    let (mut table, place) = one(b"huge", &value, Some(UnixMs(1)));
    assert!(table.value_is(place, &value));
    assert_eq!(table.append(place, &value[..10]), value.len() + 10);
    assert_eq!(&table.string_mut(place).expect("a string")[value.len()..], &value[..10]);
    table.set_range(place, 120_000_000, b"end");
    assert_eq!(table.string(place).expect("a string").len(), 120_000_003);
    let discarded = table.set_string(place, b"small").expect("freeing it is the caller's");
    assert!(live() - before > 200_000_000, "it is not freed yet");
    drop(discarded);
    drop((table, value));
    assert_eq!(live(), before);
}

trait ValueIs {
    fn value_is(&self, place: RecordPlace, expected: &[u8]) -> bool;
}

impl ValueIs for Table<Thing> {
    fn value_is(&self, place: RecordPlace, expected: &[u8]) -> bool {
        self.string(place).expect("it is a string").bytes(&mut Default::default()) == expected
    }
}

#[test]
fn what_is_taken_out_belongs_to_the_caller() {
    let before = live();
    for value in samples() {
        for deadline in [None, Some(UnixMs(77))] {
            let (mut table, place) = one(b"key", b"", deadline);
            put(&mut table, place, &value);
            let bytes = table.record_bytes(place);
            let mut record = table.remove(place);
            assert_eq!((table.len(), table.deadline_count(), record.bytes()), (0, 0, bytes));
            record.set_deadline(Some(UnixMs(78)));
            let mut record = record.with_key(&[b'n'; 300]);
            assert_eq!((record.key(), record.deadline()), (&[b'n'; 300][..], Some(UnixMs(78))));
            assert_eq!(read(record.value()), value);
            record.set_deadline(None);
            let place = table.insert_record(5, record).ok().expect("there is room");
            assert_eq!(read(table.value(place)), value);
            assert_eq!(table.key(place), [b'n'; 300]);
            // Another table, another thread: the record may be moved anywhere.
            let record = table.remove(place);
            let tag = record.type_tag();
            let object = record.into_object();
            assert_eq!(object.is_some(), tag != 0);
            assert_eq!(object.map(Value::Thing), (tag != 0).then(|| value.clone()));
        }
    }
    assert_eq!(live(), before, "nothing leaks");
}

#[test]
fn records_can_be_made_outside() {
    let before = live();
    let string = OwnedRecord::<Thing>::new_string(b"a", b"17", Some(UnixMs(5)));
    let thing = Thing { tag: 3, bytes: vec![1, 2] };
    let object = OwnedRecord::new_object(b"b", thing.clone(), None);
    let ValueRef::Object(there) = object.value() else { panic!("it is an object") };
    assert_eq!((there, object.type_tag()), (&thing, 3));
    assert_eq!((string.key(), string.deadline()), (&b"a"[..], Some(UnixMs(5))));
    drop((string, object, thing));
    assert_eq!(live(), before);
}

#[test]
fn large_objects_come_back_whole_and_small_ones_are_freed() {
    let before = live();
    let (mut table, place) = one(b"key", b"x", None);
    let thing = Thing { tag: 2, bytes: vec![9; 100_000] };
    assert!(table.set_object(place, thing.clone()).is_none());
    let old = table.set_object(place, Thing { tag: 4, bytes: vec![1; 50] });
    assert_eq!(old.and_then(|old| old.into_object()), Some(thing));
    assert_eq!((table.type_tag(place), table.encoding(place)), (4, Encoding::Object));
    assert!(table.set_int(place, 5).is_none());
    assert_eq!(table.string(place), Some(pantala_table::StrRef::Int(5)));
    drop(table);
    assert_eq!(live(), before);
}

#[test]
fn objects_stay_whole_when_their_records_move() {
    let before = live();
    for key_len in [0, 1, 4, 7, 12, 16, 20, 21, 300] {
        let key = vec![b'k'; key_len];
        let thing = Thing { tag: 3, bytes: vec![7; key_len] };
        let (mut table, place) = one(&key, b"x", None);
        assert!(table.set_object(place, thing.clone()).is_none());
        table.set_deadline(place, Some(UnixMs(5)));
        assert_eq!(table.object(place), Some(&thing));
        table.set_deadline(place, None);
        assert_eq!(table.object(place), Some(&thing));
        for longer in [0, 3, 9, 50, 400] {
            let place = table.find(0, &key).expect("it is there");
            let renamed = table.remove(place);
            let renamed = renamed.with_key(&vec![b'r'; longer]);
            let ValueRef::Object(there) = renamed.value() else { panic!("it is an object") };
            assert_eq!(there, &thing);
            assert!(table.insert_record(0, renamed.with_key(&key)).is_ok());
        }
    }
    assert_eq!(live(), before);
}

#[test]
fn what_tables_claim_is_what_they_take() {
    let mut random = Random(3);
    for (hash, most) in [(good_hash as Hash, 6_000), (few_hashes, 900)] {
        let before = live();
        let mut table = Table::new();
        let mut rehash = hash;
        for number in 0..6_000 {
            let key = key_of(number);
            if number > most {
                break;
            }
            let value = random.bytes(random.clone().below(400) as usize);
            while table.insert_string(hash(&key), &key, &value, None).is_err() {
                table.make_room(hash(&key), UnixMs(0), &mut rehash, &mut drop);
            }
            drop(value);
        }
        assert_eq!(live() - before, claimed(&table));
        for number in 0..6_000 {
            let key = key_of(number);
            if let Some(place) = table.find(hash(&key), &key) {
                drop(table.remove(place));
                table.tidy_after_remove(hash(&key), &mut rehash);
            }
            drop(key);
            if number % 500 == 0 {
                assert_eq!(live() - before, claimed(&table));
            }
        }
        assert_eq!((live(), table.len()), (before, 0), "an emptied table has nothing");
    }
}

#[test]
fn a_table_may_be_dropped_by_another_thread() {
    let before = live();
    let (table, _) = one(b"key", &[1; 1_000], None);
    let taken = live() - before;
    let given_back = std::thread::spawn(move || {
        let before = live();
        drop(table);
        before - live()
    });
    assert_eq!(given_back.join().expect("dropping does not panic"), taken);
}

#[test]
fn a_value_is_taken_and_leaves_an_empty_one() {
    let before = live();
    let (long, deadline) = (vec![b'x'; 100_000], Some(UnixMs(77)));
    let (mut table, place) = one(b"key", &long, deadline);
    table.set_sticky(place, true);
    table.begin_epoch();
    let taken = table.take_value(place);
    assert_ne!(taken.saved_mark(), table.saved_mark());
    assert!(taken.is_sticky() && taken.deadline() == deadline && taken.key() == b"key");
    assert!(matches!(taken.value(), ValueRef::Str(text) if text.to_vec() == long));
    drop(taken);
    assert!(text(&table, place).is_empty());
    assert!(table.sticky(place) && !table.is_saved(place) && table.deadline(place) == deadline);
    table.set_string(place, b"new");
    table.check(&mut |_| 0);
    assert_eq!(live() - before, claimed(&table) + size_class(long.len()).cast_signed());
    table.mark_saved(place);
    let record = table.remove(place);
    assert_eq!(record.saved_mark(), table.saved_mark());
}

#[test]
fn what_a_string_will_cost_is_known_from_lengths() {
    for key_bytes in [0, 1, 16, 254, 255, 300] {
        for value_bytes in [0, 1, 8, 63, 64, 100, 1_024, 2_049, 40_000, 65_535, 65_536, 1 << 20] {
            for deadline in [None, Some(UnixMs(5))] {
                let (key, value) = (vec![b'k'; key_bytes], vec![b'v'; value_bytes]);
                let record = OwnedRecord::<Thing>::new_string(&key, &value, deadline);
                let told = pantala_table::string_bytes(key_bytes, value_bytes, deadline.is_some());
                assert_eq!(told, record.bytes(), "{key_bytes} {value_bytes} {deadline:?}");
            }
        }
    }
}
