//! Random values of every type are written and read, whole and damaged.

#[allow(dead_code, reason = "files have tests of their own")]
mod common;

use common::{NOW, contents, limits, value};
use pantala_base::Rng;
use pantala_rdb::{Input, RdbKind, RdbLimits, Strings, Writing, payload};
use pantala_table::{StrRef, ValueRef};
use pantala_values::Object;

/// The answer of OBJECT ENCODING; empty for strings.
fn encoding(value: &ValueRef<'_, Object>) -> &'static str {
    match value {
        ValueRef::Str(_) => "",
        ValueRef::Object(object) => object.encoding(),
    }
}

#[test]
fn values_come_back() {
    for seed in 0..1000 {
        let mut rng = Rng::from_seed(seed);
        let value = value(&mut rng);
        let mut bytes = Vec::new();
        payload::write(&value.view(), 0, NOW, &mut bytes);
        let back =
            payload::open(&bytes, payload::Versions::Known).expect("it was written just now");
        let back = payload::read(&back, &limits()).unwrap_or_else(|why| panic!("{seed}: {why}"));
        assert_eq!(contents(&back.view()), contents(&value.view()), "{seed}");
        let (old, new) = (encoding(&value.view()), encoding(&back.view()));
        // Expired elements were not written, so the rest may fit a smaller form.
        if old != new {
            assert!(
                matches!((old, new), ("listpack", "intset") | ("hashtable" | "skiplist", _)),
                "{seed}: {old} became {new}"
            );
        }
    }
}

/// The pieces of a value that is written in parts.
fn in_parts(value: &ValueRef<'_, Object>, most_bytes: usize, strings: Strings) -> Vec<Vec<u8>> {
    let (mut pieces, mut writing) = (Vec::new(), Writing::begin(value, NOW, strings));
    assert_eq!(writing.kind(), pantala_rdb::kind_of(value, NOW));
    loop {
        let mut piece = Vec::new();
        let is_last = writing.go_on(value, most_bytes, &mut piece);
        pieces.push(piece);
        if is_last {
            return pieces;
        }
    }
}

#[test]
fn what_is_written_in_parts_is_the_same() {
    for strings in [Strings::Plain, Strings::Compressed] {
        let mut parts = 0;
        for seed in 0..500 {
            let mut rng = Rng::from_seed(seed);
            let value = value(&mut rng);
            let mut whole = Vec::new();
            pantala_rdb::write(&value.view(), NOW, strings, &mut whole);
            let most_bytes = [1, 50, 1000][seed as usize % 3];
            let pieces = in_parts(&value.view(), most_bytes, strings);
            parts += usize::from(pieces.len() > 4);
            assert!(pieces.concat() == whole, "{seed}");
        }
        assert!(parts > 60, "only {parts} were written in parts");
    }
}

#[test]
fn compressed_values_come_back_and_are_shorter() {
    let (mut plain_bytes, mut compressed_bytes) = (0, 0);
    for seed in 0..1000 {
        let mut rng = Rng::from_seed(seed);
        let value = value(&mut rng);
        let kind = pantala_rdb::kind_of(&value.view(), NOW);
        let (mut plain, mut compressed) = (Vec::new(), Vec::new());
        pantala_rdb::write(&value.view(), NOW, Strings::Plain, &mut plain);
        pantala_rdb::write(&value.view(), NOW, Strings::Compressed, &mut compressed);
        assert!(compressed.len() <= plain.len(), "{seed}");
        (plain_bytes, compressed_bytes) =
            (plain_bytes + plain.len(), compressed_bytes + compressed.len());
        let mut input = Input::new(&compressed);
        let back = pantala_rdb::read(kind, &mut input, &limits());
        let back = back.unwrap_or_else(|why| panic!("{seed}: {why}"));
        assert!(input.is_empty(), "{seed}");
        assert_eq!(contents(&back.view()), contents(&value.view()), "{seed}");
    }
    assert!(compressed_bytes * 5 < plain_bytes * 4, "{compressed_bytes} of {plain_bytes}");
}

#[test]
fn long_strings_are_compressed_in_parts() {
    let limits = RdbLimits { text_bytes: 1 << 30, ..limits() };
    let mut rng = Rng::from_seed(3);
    let words: Vec<u8> = (0..200_000).flat_map(|_| [b'a' + rng.below(4) as u8; 2]).collect();
    let noise: Vec<u8> = (0..300_000).map(|_| rng.next_u64() as u8).collect();
    let both = [&words[..], &noise].concat();
    for (text, is_shorter) in [(&words, true), (&noise, false), (&both, false)] {
        let value = ValueRef::Str(StrRef::Bytes(text));
        let pieces = in_parts(&value, 8192, Strings::Compressed);
        assert!(pieces.len() > 10);
        assert!(pieces.iter().all(|piece| piece.len() < 17_000));
        assert_eq!(pieces.concat().len() < text.len() / 2, is_shorter);
        let bytes = pieces.concat();
        let back = pantala_rdb::read(RdbKind::STRING, &mut Input::new(&bytes), &limits);
        let back = back.expect("it was written just now");
        assert!(contents(&back.view()) == contents(&value));
    }
}

#[test]
fn no_prefix_is_a_value() {
    for seed in 0..300 {
        let mut rng = Rng::from_seed(seed);
        let value = value(&mut rng);
        let kind = pantala_rdb::kind_of(&value.view(), NOW);
        let mut bytes = Vec::new();
        pantala_rdb::write(&value.view(), NOW, Strings::Plain, &mut bytes);
        let mut whole = Input::new(&bytes);
        assert!(pantala_rdb::read(kind, &mut whole, &limits()).is_ok(), "{seed}");
        assert!(whole.is_empty(), "{seed}");
        for _ in 0..20 {
            let cut = rng.below(bytes.len() as u64) as usize;
            let cut = pantala_rdb::read(kind, &mut Input::new(&bytes[..cut]), &limits());
            assert!(cut.is_err(), "{seed}");
        }
    }
}
