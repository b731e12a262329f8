//! Random values of every type are written and read, whole and damaged.

mod common;

use common::{NOW, contents, limits, value};
use pantala_base::Rng;
use pantala_rdb::{Input, Writing, payload};
use pantala_table::ValueRef;
use pantala_values::Object;

/// What OBJECT ENCODING tells; for strings nothing.
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
        payload::write(&value.view(), NOW, &mut bytes);
        let back =
            payload::open(&bytes, payload::Versions::Known).expect("it was written just now");
        let back = payload::read(&back, &limits()).unwrap_or_else(|why| panic!("{seed}: {why}"));
        assert_eq!(contents(&back.view()), contents(&value.view()), "{seed}");
        let (old, new) = (encoding(&value.view()), encoding(&back.view()));
        // What expired was left behind, so the rest may fit a smaller form.
        if old != new {
            assert!(
                matches!((old, new), ("listpack", "intset") | ("hashtable" | "skiplist", _)),
                "{seed}: {old} became {new}"
            );
        }
    }
}

#[test]
fn what_is_written_in_parts_is_the_same() {
    let mut in_parts = 0;
    for seed in 0..500 {
        let mut rng = Rng::from_seed(seed);
        let value = value(&mut rng);
        let value = value.view();
        let mut whole = Vec::new();
        pantala_rdb::write(&value, NOW, &mut whole);
        let most_bytes = [1, 50, 1000][seed as usize % 3];
        let (mut pieces, mut writing) = (Vec::new(), Writing::begin(&value, NOW));
        loop {
            let mut piece = Vec::new();
            let is_last = writing.go_on(&value, most_bytes, &mut piece);
            pieces.push(piece);
            if is_last {
                break;
            }
        }
        in_parts += usize::from(pieces.len() > 4);
        assert!(pieces.concat() == whole, "{seed}");
        assert_eq!(writing.kind(), pantala_rdb::kind_of(&value, NOW));
    }
    assert!(in_parts > 80, "only {in_parts} were written in parts");
}

#[test]
fn no_prefix_is_a_value() {
    for seed in 0..300 {
        let mut rng = Rng::from_seed(seed);
        let value = value(&mut rng);
        let kind = pantala_rdb::kind_of(&value.view(), NOW);
        let mut bytes = Vec::new();
        pantala_rdb::write(&value.view(), NOW, &mut bytes);
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
