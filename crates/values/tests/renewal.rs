//! A value that is reallocated keeps its contents.

use std::fmt::Debug;

use pantala_base::UnixMs;
use pantala_table::{Object as _, Renewal};
use pantala_values::hash::{HashLimits, Lifetime};
use pantala_values::list::{End, Fill};
use pantala_values::packed::Element;
use pantala_values::set::SetLimits;
use pantala_values::sorted_set::SortedSetLimits;
use pantala_values::stream::{BlockLimits, StreamId};
use pantala_values::{Collection, Hash, List, Object, Set, SortedSet, Stream};

const NOW: UnixMs = UnixMs(5);

/// Reallocates all parts of an object, or every third, a few at a time. Returns how many there
/// were.
fn renew_all(object: &mut Object, every: usize) -> (usize, usize) {
    let (mut number, mut from, mut seen) = (0, Some(0), (0, 0));
    while let Some(at) = from {
        let mut is_sparse = |_: *const u8| {
            number += 1;
            number % every == 0
        };
        let mut renewal = Renewal::of(&mut is_sparse);
        from = object.renew(at, 3, &mut renewal);
        seen = (seen.0 + renewal.looked_at, seen.1 + renewal.moved);
        assert!(from.is_none_or(|next| next > at), "it comes further");
    }
    seen
}

fn check<C: Collection + Debug>(value: C, least_parts: usize) {
    let mut object = value.into_object();
    let (before, bytes) = (format!("{object:?}"), object.heap_bytes());
    for every in [1, 3] {
        let (looked_at, moved) = renew_all(&mut object, every);
        assert!(looked_at >= least_parts, "{looked_at} of {least_parts} in {}", object.encoding());
        assert_eq!(moved, looked_at / every);
        assert!(format!("{object:?}") == before, "{} is another one", object.encoding());
        assert_eq!(object.heap_bytes(), bytes, "{}", object.encoding());
    }
}

const COUNTS: [(u32, usize); 3] = [(0, 0), (3, 1), (5_000, 200)];

#[test]
fn sets() {
    let limits = SetLimits { ints: 512, entries: 128, value_bytes: 64 };
    for (count, parts) in COUNTS {
        let (mut texts, mut ints) = (Set::default(), Set::default());
        for n in 0..count {
            // Some are too large for a bin.
            let wide = if n % 100 == 99 { 2_000 } else { 1 };
            texts.add(format!("member {n:0>wide$}").as_bytes(), limits, NOW);
            ints.add(n.to_string().as_bytes(), limits, NOW);
        }
        check(texts, parts);
        check(ints, parts);
    }
}

#[test]
fn hashes() {
    let limits = HashLimits { entries: 128, value_bytes: 64 };
    for (count, parts) in COUNTS {
        let mut hash = Hash::default();
        for n in 0..count {
            let lives = if n % 7 == 0 { Lifetime::Until(UnixMs(900)) } else { Lifetime::Forever };
            hash.set(format!("f{n}").as_bytes(), b"value", lives, limits, NOW);
        }
        check(hash, parts);
    }
}

#[test]
fn sorted_sets() {
    let limits = SortedSetLimits { entries: 128, value_bytes: 64 };
    for (count, parts) in COUNTS {
        let mut set = SortedSet::default();
        for n in 0..count {
            set.set(format!("m{n}").as_bytes(), f64::from(n * 7919 % 5_000), limits);
        }
        set.check();
        check(set, parts / 2);
    }
}

#[test]
fn lists() {
    for depth in [0, 1] {
        let fill = Fill::new(-1).compressing(depth);
        for (count, parts) in COUNTS {
            let mut list = List::default();
            for n in 0..count {
                let text = format!("element {n:0>60}");
                list.grow(text.len(), 1, fill);
                list.push(End::Tail, Element::of(text.as_bytes()));
            }
            check(list, parts / 4);
        }
    }
}

#[test]
fn streams() {
    for (count, parts) in COUNTS {
        let mut stream = Stream::default();
        let limits = BlockLimits { bytes: 4_096, entries: 20 };
        for n in 1..=u64::from(count) {
            stream.append(StreamId { ms: n, seq: 0 }, &[b"field", b"value"], limits);
        }
        check(stream, parts);
    }
}
