//! Which strings count as edited in place, and that their copies count too.

use pantala_table::{Encoding, Object, Table};

struct Nothing;

impl Object for Nothing {
    fn type_tag(&self) -> u8 {
        1
    }

    fn heap_bytes(&self) -> usize {
        0
    }
}

fn hash(key: &[u8]) -> u64 {
    key.iter().fold(7, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// A table with `value` under "key" after `change`. Returns whether the string counts as edited,
/// whether its copy does after "key" was copied, and the copy.
fn check(
    value: &[u8],
    change: impl FnOnce(&mut Table<Nothing>, pantala_table::RecordPlace),
    is_edited: bool,
) {
    let mut table = Table::<Nothing>::default();
    let place = loop {
        match table.insert_string(hash(b"key"), b"key", value, None) {
            Ok(place) => break place,
            Err(_) => {
                table.make_room(hash(b"key"), pantala_base::UnixMs(0), &mut hash, &mut |_| {});
            }
        }
    };
    change(&mut table, place);
    let place = table.find(hash(b"key"), b"key").expect("it was inserted");
    assert_eq!(table.is_edited(place), is_edited, "the original");
    let text = table.string(place).expect("a string").to_vec();
    let encoding = table.encoding(place);
    let mut copy = table.copy_string(place, b"copy").expect("a string");
    let place = loop {
        match table.insert_record(hash(b"copy"), copy) {
            Ok(place) => break place,
            Err(back) => copy = back,
        }
        table.make_room(hash(b"copy"), pantala_base::UnixMs(0), &mut hash, &mut |_| {});
    };
    assert_eq!(table.key(place), b"copy");
    assert_eq!(table.string(place).expect("a string").to_vec(), text);
    assert_eq!(table.is_edited(place), is_edited, "the copy");
    assert_eq!(table.encoding(place), encoding);
}

#[test]
fn setting_is_not_editing() {
    check(b"text", |_, _| {}, false);
    check(b"12", |_, _| {}, false);
    check(&[b'x'; 5000], |_, _| {}, false);
}

#[test]
fn changing_in_place_is() {
    check(b"text", |table, place| assert_eq!(table.append(place, b""), 4), true);
    check(b"text", |table, place| assert_eq!(table.set_range(place, 1, b"x"), 4), true);
    check(b"text", |table, place| table.resize(place, 2), true);
    check(b"text", |table, place| table.string_mut(place).expect("a string")[0] = b'x', true);
    check(&[b'x'; 5000], |table, place| assert_eq!(table.append(place, b"x"), 5001), true);
}

#[test]
fn digits_put_together_are_not_a_number() {
    let edit = |table: &mut Table<Nothing>, place| {
        table.append(place, b"2");
        assert_eq!(table.encoding(place), Encoding::Inline);
    };
    check(b"1", edit, true);
}

#[test]
fn setting_again_ends_it() {
    let set = |value: &'static [u8]| {
        move |table: &mut Table<Nothing>, place| {
            table.append(place, b"2");
            drop(table.set_string(place, value));
        }
    };
    check(b"text", set(b"more"), false);
    check(b"text", set(b"12"), false);
    check(&[b'x'; 5000], set(&[b'y'; 4999]), false);
    let number = |table: &mut Table<Nothing>, place| {
        table.append(place, b"2");
        drop(table.set_int(place, 5));
    };
    check(b"text", number, false);
}
