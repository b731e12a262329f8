//! Snapshot files of other servers, kept as they wrote them.
//!
//! | file | what |
//! |---|---|
//! | `redis-7.0.15`, `valkey-9.1.2` | by default settings |
//! | `redis-7.0.15-plain-lfu` | no compression, no checksum, and how often keys were used |
//! | `valkey-9.1.2-lru` | how long keys were not used |
//! | `by-hand-6` | put together by hand: each kind that Redis 2.6 wrote, as version 6 |
//! | `by-hand-9` | the same for Redis 5, version 9: ziplists in a list, binary scores, a stream |
//!
//! Redis 7.0.15 and Valkey 9.1.2 can read the files made by hand; the contents expected here are
//! what these servers answer.

#[allow(dead_code, reason = "nothing random is needed here")]
mod common;

use common::{FileContents, contents, limits, read_file};
use pantala_base::{Rng, UnixMs};
use pantala_rdb::{RdbValue, Text};
use pantala_values::hash::Lifetime;
use pantala_values::list::End;
use pantala_values::packed::Element;
use pantala_values::{Hash, List, Set, SortedSet, Variant};

/// The start of the year 2100.
const DEADLINE: UnixMs = UnixMs(4_102_444_800_000);

fn golden(name: &str) -> FileContents {
    let path = format!("{}/tests/golden/{name}.rdb", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(path).expect("it is there");
    let mut rng = Rng::from_seed(0);
    let whole = read_file(&bytes, u64::MAX, &mut rng).expect("it is sound");
    let in_windows = read_file(&bytes, 100, &mut rng).expect("it is sound");
    assert_eq!(whole, in_windows);
    whole
}

fn text(text: impl AsRef<[u8]>) -> RdbValue<'static> {
    RdbValue::String(Text::Made(text.as_ref().to_vec()))
}

fn list<T: AsRef<[u8]>>(elements: impl IntoIterator<Item = T>) -> RdbValue<'static> {
    let mut list = List::large(limits().list);
    elements.into_iter().for_each(|found| list.push(End::Tail, Element::of(found.as_ref())));
    list.settle(limits().list);
    RdbValue::Object(list.into_object())
}

fn set<T: AsRef<[u8]>>(members: impl IntoIterator<Item = T>) -> RdbValue<'static> {
    let mut set = Set::default();
    for member in members {
        set.add(member.as_ref(), limits().set, UnixMs(0));
    }
    RdbValue::Object(set.into_object())
}

fn zset<T: AsRef<[u8]>>(members: impl IntoIterator<Item = (T, f64)>) -> RdbValue<'static> {
    let mut set = SortedSet::default();
    for (member, score) in members {
        set.set(member.as_ref(), score, limits().sorted_set);
    }
    RdbValue::Object(set.into_object())
}

fn hash<T: AsRef<[u8]>>(
    fields: impl IntoIterator<Item = (T, T, Option<UnixMs>)>,
) -> RdbValue<'static> {
    let mut hash = Hash::default();
    for (field, value, deadline) in fields {
        let lifetime = deadline.map_or(Lifetime::Forever, Lifetime::Until);
        hash.set(field.as_ref(), value.as_ref(), lifetime, limits().hash, UnixMs(0));
    }
    RdbValue::Object(hash.into_object())
}

/// Compares all keys of database 0 except `stream`, which has its own times.
fn check(found: &FileContents, expected: &[(&str, RdbValue<'_>)], deadlines: &[(&str, UnixMs)]) {
    for (key, value) in expected {
        let deadline = deadlines.iter().find(|(name, _)| name == key).map(|(_, at)| *at);
        let told = format!("{deadline:?} {:?}", contents(&value.view()));
        let there = found.keys.get(&(0, key.as_bytes().to_vec()));
        assert_eq!(there, Some(&told), "{key}");
    }
    let others = found.keys.keys().filter(|(database, key)| *database == 0 && key != b"stream");
    assert_eq!(others.count(), expected.len());
}

#[test]
fn files_of_servers() {
    let numbered = |name: &str, count: usize| -> Vec<String> {
        (0..count).map(|number| format!("{name}{number}")).collect()
    };
    let mut elements = numbered("element ", 300);
    elements.push("x".repeat(9000));
    let thirds =
        numbered("m", 150).into_iter().zip(0..).map(|(name, i)| (name, f64::from(i) / 3.0));
    let pairs = numbered("f", 600).into_iter().zip(numbered("v", 600));
    let mut expected = vec![
        ("string", text("a text")),
        ("number", text("12345")),
        ("long", text("abc".repeat(30))),
        ("binary", text((0..32).collect::<Vec<u8>>())),
        ("with-deadline", text("v")),
        ("list:small", list(["a", "1", "-70000"])),
        ("list:large", list(elements)),
        ("set:ints", set(["1", "2", "300"])),
        ("set:wide", set(["1", "1099511627776"])),
        ("set:small", set(["a", "b", "1"])),
        ("set:large", set(numbered("m", 200))),
        ("zset:small", zset([("a", 1.0), ("b", -2.5), ("c", f64::INFINITY)])),
        ("zset:large", zset(thirds)),
        ("hash:small", hash([("f", "v", None), ("n", "-5", None)])),
        ("hash:large", hash(pairs.map(|(field, value)| (field, value, None)))),
    ];
    for name in ["redis-7.0.15", "redis-7.0.15-plain-lfu", "valkey-9.1.2-lru", "valkey-9.1.2"] {
        if name == "valkey-9.1.2" {
            let until = Some(UnixMs(DEADLINE.0 + 1));
            let fields = [("f", "v", None), ("g", "w", until), ("h", "x", None)];
            expected.push(("hash:deadlines", hash(fields)));
        }
        let found = golden(name);
        check(&found, &expected, &[("with-deadline", DEADLINE)]);
        let code = "#!lua name=lib\nredis.register_function('f', function() return 42 end)";
        assert_eq!(found.functions, [code.as_bytes()]);
        let elsewhere = format!("None {:?}", contents(&text("x").view()));
        assert_eq!(found.keys.get(&(3, b"elsewhere".to_vec())), Some(&elsewhere));
        check_stream(&found.keys[&(0, b"stream".to_vec())]);
    }
}

/// Checks a stream of 120 entries, two of which were deleted, with a group to which seven were
/// delivered.
fn check_stream(told: &str) {
    let has = |what: &str| assert!(told.contains(what), "{what} in {told}");
    has("118 StreamId { ms: 1039, seq: 119 } StreamId { ms: 1001, seq: 4 } 120");
    has("[([110, 97, 109, 101], [110, 49, 49, 57]), ([111, 116, 104, 101, 114], [48])]");
    assert_eq!(told.matches("Some([97, 108, 105, 99, 101])").count(), 4, "{told}");
    assert_eq!(told.matches("Some([98, 111, 98])").count(), 2, "{told}");
}

#[test]
fn what_redis_2_6_wrote() {
    let found = golden("by-hand-6");
    let x = "x".repeat(300);
    let packed = ["a", "5", "-3", "1000", "-70000", "1073741824", "1099511627776", &x, "end"];
    let infinities = [("b", f64::INFINITY), ("c", f64::NEG_INFINITY)];
    let expected = [
        ("string", text("a text")),
        ("int8", text("-5")),
        ("int16", text("4096")),
        ("int32", text("1048576")),
        ("lzf", text("a".repeat(21))),
        ("list", list(["a", "b", "7"])),
        ("set", set(["a", "b"])),
        ("zset", zset([("a", 1.5), ("d", 1e20)].into_iter().chain(infinities))),
        ("hash", hash([("f", "v", None), ("g", "1", None)])),
        ("zipmap", hash([("foo", "bar", None), ("hello", "world", None)])),
        ("list-ziplist", list(packed)),
        ("intset", set(["-5", "7", "300"])),
        ("zset-ziplist", zset([("a", 1.0), ("b", 2.5)])),
        ("hash-ziplist", hash([("f", "v", None), ("n", "12", None)])),
        ("seconds", text("x")),
        ("millis", text("x")),
    ];
    check(&found, &expected, &[("seconds", UnixMs(2_000_000_000_000)), ("millis", DEADLINE)]);
    assert!(found.keys.contains_key(&(9, b"elsewhere".to_vec())));
}

#[test]
fn what_redis_5_wrote() {
    let found = golden("by-hand-9");
    let expected = [
        ("quicklist", list(["a", "b", "1", "c", "-1"])),
        ("zset2", zset([("a", 0.1), ("b", f64::INFINITY)])),
    ];
    check(&found, &expected, &[]);
    let version = (b"redis-ver".to_vec(), b"5.0.14".to_vec());
    assert_eq!(found.aux[0], version);
    let told = &found.keys[&(0, b"stream".to_vec())];
    for what in [
        "2 StreamId { ms: 1005, seq: 1 }",
        "StreamId { ms: 1000, seq: 1 } [([110, 97, 109, 101], [120]), ([110], [49])]",
        "StreamId { ms: 1005, seq: 1 } [([111, 116, 104, 101, 114], [121])]",
        "StreamId { ms: 1000, seq: 1 } Some([97, 108, 105, 99, 101]) UnixMs(5000) 3",
    ] {
        assert!(told.contains(what), "{what} in {told}");
    }
}
