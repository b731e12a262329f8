//! Files are written and read, whole, in windows, cut and damaged.

mod common;

use common::{contents, file, limits, read_file};
use pantala_base::Rng;
use pantala_rdb::file::{DamageFinding, Inspection, RdbDamage, ReadOptions};
use pantala_rdb::payload::Versions;
use pantala_rdb::{RdbKind, RdbValue, Text};

#[test]
fn files_come_back_in_any_windows() {
    for seed in 0..60 {
        let mut rng = Rng::from_seed(seed);
        let (bytes, expected) = file(&mut rng, 10);
        for most in [1, 100, 10_000, 10_000_000] {
            let found = read_file(&bytes, most, &mut rng);
            assert!(found.as_ref() == Ok(&expected), "{seed} {most}: {found:?}");
        }
    }
}

#[test]
fn no_beginning_is_a_file() {
    for seed in 0..20 {
        let mut rng = Rng::from_seed(seed);
        let (bytes, _) = file(&mut rng, 3);
        for _ in 0..60 {
            let cut = rng.below(bytes.len() as u64) as usize;
            let damage = read_file(&bytes[..cut], 50_000, &mut rng).expect_err("it is cut");
            assert!(damage.offset <= cut as u64, "{damage}");
        }
    }
}

#[test]
fn what_is_damaged_is_found() {
    let (mut by_checksum, mut earlier) = (0, 0);
    for seed in 0..20 {
        let mut rng = Rng::from_seed(seed);
        let (bytes, expected) = file(&mut rng, 3);
        for _ in 0..60 {
            let mut wrong = bytes.clone();
            let at = rng.below(bytes.len() as u64) as usize;
            wrong[at] ^= 1 << rng.below(8);
            match read_file(&wrong, 50_000, &mut rng) {
                Err(RdbDamage { found: DamageFinding::Checksum { .. }, .. }) => by_checksum += 1,
                Err(_) => earlier += 1,
                // Without a checksum, the damage may have changed a text; the file can still be
                // read.
                Ok(found) => {
                    let checksum = &bytes[bytes.len() - 8..];
                    assert!(checksum == [0; 8] || found == expected, "{seed} {at}");
                }
            }
        }
    }
    assert!(by_checksum > 100 && earlier > 100, "{by_checksum} {earlier}");
}

fn damage(bytes: &[u8]) -> String {
    let damage = read_file(bytes, 100, &mut Rng::from_seed(0)).expect_err("it is damaged");
    damage.to_string()
}

#[test]
fn damage_is_told_with_its_place() {
    const HEAD: &str = "REDIS or VALKEY and a version";
    const MARK: &str = "a mark or a kind of value that is known";
    const KIND: &str = "a kind of value that is known";
    const SOUND: &str = "an entry whose value is sound";
    const END: &str = "the end of the file";
    for (bytes, offset, expected, found) in [
        (&b""[..], 0, HEAD, END),
        (b"REDIS00", 0, HEAD, END),
        (b"RADIS0010", 0, HEAD, "82"),
        (b"REDIS0099", 0, "a version that is known", "99"),
        (b"REDIS0010", 9, MARK, END),
        (b"REDIS0010\x08", 9, MARK, "8"),
        (b"REDIS0010\xf9\x05\xfe", 11, KIND, "254"),
        (b"REDIS0010\x16\x01a", 9, MARK, "22"),
        (b"REDIS0010\0\x01a\xc4", 12, "a string", "this: a string written in an unknown way"),
        (b"REDIS0010\0\x01a\x03ab", 12, "a string", "4, which is more than the file has"),
        (b"REDIS0010\x02\x01a\x02\x01b\x01b\xff", 12, SOUND, "this: a set with a member twice"),
        (
            b"REDIS0010\0\x01a\x01b\xff12345678",
            15,
            "the checksum of the file",
            "3837363534333231, where the bytes before it have 65cca2c70ea9ef4f",
        ),
    ] {
        let told = format!("byte {offset}: expected {expected}, found {found}");
        assert_eq!(damage(bytes), told, "{}", bytes.escape_ascii());
    }
}

fn text(value: &str) -> String {
    let value = RdbValue::String(Text::Made(value.as_bytes().to_vec()));
    format!("{:?}", contents(&value.view()))
}

#[test]
fn what_we_do_not_write_is_read() {
    let head = &b"REDIS0012"[..];
    let bytes = [
        head,
        b"\xfe\x02\xfb\x05\x01\xf4\x01\x02\x03",
        b"\xfd\x01\0\0\0\xf8\x05\0\x01a\x01b",
        b"\xf9\x07\xfc\x01\0\0\0\0\0\0\0\0\x01c\x01d",
        b"\xf3\x01abcd\x05\x01x\0\0\x01e\x01f",
        // A module's value, and data that a module stores outside of keys.
        b"\x07\x01m\x81\x45\xe2\x49\x3f\xe5\x04\x50\x03\x02\x05\x05\x03abc\x04\0\0\0\0\0\0\0\0\0",
        b"\xf7\x81\x45\xe2\x49\x3f\xe5\x04\x50\x03\x02\x01\x05\x01a\0",
        // A set without members.
        b"\x02\x01s\0",
        b"\xff\0\0\0\0\0\0\0\0",
    ];
    let found = read_file(&bytes.concat(), 1, &mut Rng::from_seed(0)).expect("it is a file");
    let keys: Vec<_> = found
        .keys
        .iter()
        .map(|((db, key), all)| (*db, String::from_utf8_lossy(key).into_owned(), all.clone()))
        .collect();
    let (b, d, f) = (text("b"), text("d"), text("f"));
    let module = found.modules[0].clone();
    let expected = [
        ("a", format!("Some(UnixMs(1000)) {b}")),
        ("c", format!("Some(UnixMs(1)) {d}")),
        ("e", format!("None {f}")),
        ("m", format!("None {module}")),
        ("s", "None nothing".into()),
    ];
    assert_eq!(keys, expected.map(|(key, all)| (2, key.to_string(), all)));
    assert_eq!(module.len(), 9);
}

/// Redis 8.8.2 wrote beyond the end of a table for a slot beyond the last one.
#[test]
fn slots_that_there_are_not_change_nothing() {
    let bytes = [
        &b"REDIS0012"[..],
        b"\xfe\0\xf4\x81\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x81\x7f\xff\xff\xff\xff\xff\xff\xff\x80\xff\xff\xff\xff",
        b"\xf4\x80\0\0\x40\0\x01\x01\0\x01k\x01v",
        b"\xff\0\0\0\0\0\0\0\0",
    ];
    let found = read_file(&bytes.concat(), 1, &mut Rng::from_seed(0)).expect("it is a file");
    assert_eq!(found.keys.len(), 1);
}

#[test]
fn hashes_of_redis_have_their_deadlines() {
    // a is b without a deadline, c is d until four milliseconds after `NOW`.
    const TRIPLES: &[u8] = b"\x1f\x1f\0\0\0\x06\0\
        \x81c\x02\x81d\x02\xf4\x04\x40\x94\x52\xa3\x03\0\0\x09\x81a\x02\x81b\x02\0\x01\xff";
    const FIRST: &[u8] = b"\0\x40\x94\x52\xa3\x03\0\0";
    for (kind, first, rest) in [
        (0x16, &b""[..], &b"\x02\x81\0\0\x03\xa3\x52\x94\x40\x04\x01c\x01d\0\x01a\x01b"[..]),
        (0x17, b"", TRIPLES),
        (0x18, FIRST, b"\x02\0\x01a\x01b\x05\x01c\x01d"),
        (0x19, FIRST, TRIPLES),
    ] {
        let value = [&[kind], &b"\x01h"[..], first, rest].concat();
        let bytes = [b"REDIS0012", &value[..], b"\xff\0\0\0\0\0\0\0\0"].concat();
        let found = read_file(&bytes, 1, &mut Rng::from_seed(0)).expect("it is a file");
        let expected =
            r#"None {[97]: "[98] Some(None)", [99]: "[100] Some(Some(UnixMs(4000000000004)))"}"#;
        assert_eq!(found.keys.values().next().map(String::as_str), Some(expected));
        for cut in 10..bytes.len() - 8 {
            assert!(read_file(&bytes[..cut], 1, &mut Rng::from_seed(0)).is_err());
        }
    }
}

const OPTIONS: ReadOptions =
    ReadOptions { versions: Versions::Known, checks: true, file_bytes: None };

#[test]
fn a_file_is_inspected_piece_by_piece() {
    let mut rng = Rng::from_seed(7);
    let (bytes, expected) = file(&mut rng, 100);
    let mut inspection = Inspection::new(OPTIONS, limits());
    for piece in bytes.chunks(1000) {
        inspection.feed(piece, false).expect("it is sound");
    }
    inspection.feed(b"more", true).expect("it is sound");
    assert!(inspection.is_whole());
    assert_eq!(inspection.rest(), b"more");
    let summary = inspection.summary();
    assert_eq!(summary.bytes, bytes.len() as u64);
    assert_eq!((&summary.aux, summary.functions), (&expected.aux, 1));
    let keys: Vec<u64> = summary.databases.values().map(|found| found.keys).collect();
    assert_eq!(keys.iter().sum::<u64>(), 100);
    for (number, found) in &summary.databases {
        let own = expected.keys.iter().filter(|((database, _), _)| database == number);
        assert_eq!(found.keys, own.clone().count() as u64);
        let with_deadline = own.filter(|(_, all)| all.starts_with("Some")).count();
        assert_eq!(found.with_deadline, with_deadline as u64);
        assert_eq!(found.kinds.values().sum::<u64>(), found.keys);
        assert!(found.kinds.contains_key(&RdbKind::STRING));
    }
}

#[test]
fn an_inspection_ends_at_damage() {
    let mut inspection = Inspection::new(OPTIONS, limits());
    let damage = inspection.feed(b"REDIS0010\0\x01a\x01b\x02\x01c\x02\x01d\x01d", true);
    assert_eq!(damage.map_err(|damage| damage.offset), Err(17));
    let summary = inspection.summary();
    assert_eq!((summary.bytes, summary.databases[&0].keys), (14, 1));
}

#[test]
fn what_dragonfly_writes_is_read() {
    let head = &b"REDIS0009\xfa\x09redis-ver\x037.0"[..];
    // Deadlines are seconds after the file's own start time, or -1; a mask precedes a key.
    let sections = [
        &b"\xfe\x01"[..],
        b"\xdc\x01\0\0\0\0\x01a\x01b",
        b"\xdc\x02\0\0\0abcd\0\x01c\x01d",
        b"\x1f\x01h\x02\x01f\x01v\xc0\xff\x01g\x01w\x0a2400000000",
        b"\x20\x01s\x02\x01m\x0a2400000000\x01n\xc0\xff",
    ]
    .concat();
    let block = lz4_flex::block::compress(&sections);
    let frame = [
        &[4, 0x22, 0x4d, 0x18, 0x48, 0x40][..],
        &(sections.len() as u64).to_le_bytes(),
        &[0],
        &(block.len() as u32).to_le_bytes(),
        &block,
        &[0; 4],
    ]
    .concat();
    assert!(frame.len() < 0x4000);
    let mark = [0xca, 0x40 | (frame.len() >> 8) as u8, frame.len() as u8];
    let last = b"\0\x01x\x01y\xff\0\0\0\0\0\0\0\0";
    let plain = [head, &sections, last].concat();
    let compressed = [head, &mark, &frame, last].concat();
    let read = |bytes: &[u8]| read_file(bytes, 10, &mut Rng::from_seed(0)).expect("it is sound");
    let found = read(&plain);
    assert_eq!(found, read(&compressed));
    let keys: Vec<&[u8]> = found.keys.keys().map(|(_, key)| &key[..]).collect();
    assert_eq!(keys, [b"a", b"c", b"h", b"s", b"x"]);
    let told = |key: &[u8]| found.keys[&(1, key.to_vec())].as_str();
    let until = "Some(UnixMs(4075209600000))";
    assert!(told(b"h").contains(&format!(r#"[103]: "[119] Some({until})""#)), "{}", told(b"h"));
    assert!(told(b"h").contains(r#"[102]: "[118] Some(None)""#));
    assert!(told(b"s").contains(&format!(r#"[109]: "Some({until})""#)), "{}", told(b"s"));

    let mut inspection = Inspection::new(OPTIONS, limits());
    inspection.feed(&compressed, true).expect("it is sound");
    assert_eq!(inspection.summary().databases[&1].keys, 5);
    // Compressed data inside compressed data is refused, and so is the end of a file inside it.
    for sections in [&[&mark[..], &frame].concat()[..], b"\xff\0\0\0\0\0\0\0\0"] {
        let block = lz4_flex::block::compress(sections);
        let len = (sections.len() as u64).to_le_bytes();
        let block_len = (block.len() as u32).to_le_bytes();
        let begin = [4, 0x22, 0x4d, 0x18, 0x48, 0x40];
        let frame = [&begin[..], &len, &[0], &block_len, &block, &[0; 4]].concat();
        let mark = [0xca, 0x40 | (frame.len() >> 8) as u8, frame.len() as u8];
        let bytes = [head, &mark, &frame, last].concat();
        assert!(damage(&bytes).contains("a mark or a kind of value that is known"));
    }
}

/// Redis 7.0.15 and Valkey 9.1.2 load each of these files, and skip the key.
#[test]
fn collections_without_elements_are_told() {
    const LISTPACK: &[u8] = b"\x07\x07\0\0\0\0\0\xff";
    const ZIPLIST: &[u8] = b"\x0b\x0b\0\0\0\x0a\0\0\0\0\0\xff";
    for (kind, value) in [
        (1, &b"\0"[..]),
        (2, b"\0"),
        (4, b"\0"),
        (5, b"\0"),
        (10, ZIPLIST),
        (14, &[b"\x01", ZIPLIST].concat()),
        (16, LISTPACK),
        (17, LISTPACK),
        (18, b"\0"),
        (18, &[b"\x01\x02", LISTPACK].concat()),
        (20, LISTPACK),
        (22, b"\0"),
    ] {
        let bytes = [b"VALKEY080", &[kind][..], b"\x01k", value, b"\xff\0\0\0\0\0\0\0\0"].concat();
        let found = read_file(&bytes, 100, &mut Rng::from_seed(0)).expect("it is sound");
        let all = found.keys.values().next().map(String::as_str);
        assert_eq!(all, Some("None nothing"), "{kind}");
    }
    // A part of a list may be empty, too.
    let a = b"\x02\x0a\x0a\0\0\0\x01\0\x81a\x02\xff";
    let bytes = [b"REDIS0010\x12\x01k\x02\x02", LISTPACK, a, b"\xff\0\0\0\0\0\0\0\0"].concat();
    let found = read_file(&bytes, 100, &mut Rng::from_seed(0)).expect("it is sound");
    assert!(found.keys[&(0, b"k".to_vec())].ends_with(r#""[97]"}"#));
}
