//! The dense table behaves like a map of the standard library, at every size and with every kind of
//! value, and a scan of a table that changes visits every member it must.

use std::collections::{BTreeMap, HashMap, HashSet};

use pantala_base::UnixMs;
use pantala_base::rng::Rng;
use pantala_values::dense::{Dense, Values, hash};

/// The limit of entries in a bin, however small they are.
const MOST_IN_A_BIN: u64 = 255;

type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<UnixMs>)>;

/// A random key out of `range` different ones; some are long.
fn key(random: &mut Rng, range: u64) -> Vec<u8> {
    let number = random.below(range);
    let text = format!("key:{number}").into_bytes();
    let len = match number % 23 {
        0 => 180 + number as usize % 40,
        1 => 250 + number as usize % 10,
        2 => 500 + number as usize % 30,
        3 => 0,
        _ => text.len(),
    };
    let mut key = text.clone();
    key.resize(len.max(text.len()), b'.');
    key
}

fn value(random: &mut Rng, values: Values) -> Vec<u8> {
    let len = match values {
        Values::None => 0,
        Values::Fixed(bytes) => usize::from(bytes),
        Values::Any => match random.below(8) {
            0 => random.below(2000) as usize,
            1 => random.below(300) as usize,
            2 => 0,
            _ => random.below(20) as usize,
        },
    };
    let mut value = vec![0; len];
    random.bytes(&mut value);
    value
}

fn deadline(random: &mut Rng) -> Option<UnixMs> {
    (random.below(3) == 0).then(|| UnixMs(random.below(1000) as i64))
}

fn step(random: &mut Rng, range: u64, values: Values, table: &mut Dense, model: &mut Model) {
    let key = key(random, range);
    match random.below(10) {
        0..=3 => {
            let value = value(random, values);
            let is_new = !model.contains_key(&key);
            assert_eq!(table.insert(&key, &value), is_new);
            let kept = model.get(&key).and_then(|old| old.1);
            model.insert(key, (value, kept));
        }
        4 => {
            let (value, deadline) = (value(random, values), deadline(random));
            let is_new = !model.contains_key(&key);
            assert_eq!(table.insert_until(&key, &value, deadline), is_new);
            model.insert(key, (value, deadline));
        }
        5 => {
            let deadline = deadline(random);
            let found = model.get_mut(&key).map(|old| old.1 = deadline).is_some();
            assert_eq!(table.set_deadline(&key, deadline), found);
        }
        6 => {
            let found = model.get_mut(&key);
            assert_eq!(table.value_mut(&key).is_some(), found.is_some());
            if let (Some(mine), Some((theirs, _))) = (table.value_mut(&key), found) {
                assert_eq!(mine, theirs);
                random.bytes(mine);
                theirs.copy_from_slice(mine);
            }
        }
        _ => assert_eq!(table.remove(&key), model.remove(&key).is_some()),
    }
}

fn check(table: &Dense, model: &Model) {
    assert_eq!(table.len(), model.len());
    let mut count = 0;
    for entry in table.iter() {
        let (value, deadline) = &model[entry.key];
        assert_eq!((entry.value, entry.deadline), (&value[..], *deadline));
        count += 1;
    }
    assert_eq!(count, model.len());
    for (key, (value, deadline)) in model {
        let found = table.get(key).expect("the model has it");
        assert_eq!((found.value, found.deadline), (&value[..], *deadline));
    }
    let earliest = model.values().filter_map(|(_, deadline)| *deadline).min();
    assert!(earliest.is_none_or(|earliest| table.next_deadline() <= Some(earliest)));
    let now = UnixMs(500);
    let live = model.values().filter(|(_, at)| at.is_none_or(|at| at >= now)).count();
    assert_eq!(table.live_len(now), live);
}

fn expire(now: UnixMs, limit: usize, table: &mut Dense, model: &mut Model) {
    let mut gone = Vec::new();
    loop {
        let removed =
            table.expire(now, limit, &mut |entry| gone.push((entry.key.to_vec(), entry.deadline)));
        if removed < limit {
            break;
        }
    }
    for (key, deadline) in gone {
        let (_, expected) = model.remove(&key).expect("it was there");
        assert_eq!(deadline, expected);
        assert!(expected < Some(now));
    }
    assert!(model.values().all(|(_, deadline)| deadline.is_none_or(|at| at >= now)));
    assert!(table.next_deadline().is_none_or(|bound| bound >= now));
}

#[test]
fn it_does_what_a_map_does() {
    for (seed, values) in (0..6).zip([Values::None, Values::Fixed(8), Values::Any].repeat(2)) {
        let mut random = Rng::from_seed(seed);
        let (mut table, mut model) = (Dense::new(values), Model::new());
        for round in 0..20 {
            let range = [20, 200, 3000, 50][round % 4];
            for _ in 0..random.below(2000) {
                step(&mut random, range, values, &mut table, &mut model);
            }
            check(&table, &model);
            if round % 5 == 4 {
                let now = UnixMs(random.below(1000) as i64);
                expire(now, 1 + random.below(50) as usize, &mut table, &mut model);
            }
            if round % 7 == 6 {
                let copy = table.clone();
                assert!(copy.heap_bytes() <= table.heap_bytes());
                table = copy;
                check(&table, &model);
            }
        }
        for key in model.keys() {
            assert!(table.remove(key));
        }
        assert!(table.is_empty());
        assert!(table.heap_bytes() < 1500, "{}", table.heap_bytes());
    }
}

fn number(number: u64) -> Vec<u8> {
    format!("{number:08}").into_bytes()
}

#[test]
fn a_scan_meets_what_is_there_all_the_time() {
    let mut random = Rng::from_seed(3);
    let mut table = Dense::new(Values::None);
    let stable: Vec<_> = (0..2000).map(number).collect();
    stable.iter().for_each(|key| assert!(table.insert(key, b"")));
    let mut more = 2000;
    let mut is_growing = true;
    for _ in 0..10 {
        let (mut met, mut cursor, mut calls) = (HashSet::new(), 0, 0);
        loop {
            let count = 1 + random.below(30) as usize;
            cursor = table.scan(cursor, count, &mut |entry| {
                met.insert(entry.key.to_vec());
            });
            calls += 1;
            if cursor == 0 {
                break;
            }
            assert!(cursor < 1 << 48);
            is_growing ^= (is_growing && more > 60_000) || (!is_growing && more == 2000);
            for _ in 0..random.below(700) {
                if is_growing {
                    table.insert(&number(more), b"");
                    more += 1;
                } else if more > 2000 {
                    more -= 1;
                    assert!(table.remove(&number(more)));
                }
            }
        }
        assert!(stable.iter().all(|key| met.contains(key)));
        assert!(calls > 20, "{calls}");
    }
}

#[test]
fn a_scan_without_change_meets_each_once() {
    let mut table = Dense::new(Values::None);
    for n in 0..3333 {
        table.insert(&number(n), b"");
        if n % 400 == 0 {
            let (mut met, mut cursor) = (HashMap::new(), 0);
            loop {
                cursor = table.scan(cursor, 10, &mut |entry| {
                    *met.entry(entry.key.to_vec()).or_insert(0) += 1;
                });
                if cursor == 0 {
                    break;
                }
            }
            assert_eq!(met.len() as u64, n + 1);
            assert!(met.values().all(|&times| times == 1));
        }
    }
}

#[test]
fn chance_is_fair() {
    for len in [1, 2, 20, 200, 1500, 2300] {
        let mut random = Rng::from_seed(9);
        let mut table = Dense::new(Values::None);
        (0..len).for_each(|n| assert!(table.insert(&number(n), b"")));
        let mut times = HashMap::new();
        let draws = len * 100;
        for _ in 0..draws {
            let one = table.random(&mut random).expect("it is not empty");
            *times.entry(one.key.to_vec()).or_insert(0.0) += 1.0;
        }
        // The sum of squared deviations divided by the mean is about `len`, within a few of its
        // standard deviations.
        let chi: f64 = (0..len)
            .map(|n| times.get(&number(n)).copied().unwrap_or(0.0) - 100.0)
            .map(|off: f64| off * off / 100.0)
            .sum();
        let len = len as f64;
        assert!((chi - len).abs() < 6.0 * (2.0 * len).sqrt() + 2.0, "{len}: {chi}");
    }
}

#[test]
fn hashes_may_be_given() {
    let mut table = Dense::new(Values::Fixed(8));
    for n in 0..500_u64 {
        let key = number(n);
        table.insert_missing(hash(&key), &key, &n.to_le_bytes());
    }
    for n in 0..500_u64 {
        let key = number(n);
        let found = table.get_hashed(hash(&key), &key).expect("it was put in");
        assert_eq!(found.value, n.to_le_bytes());
    }
    assert!(table.remove_hashed(hash(&number(9)), &number(9)));
    assert!(!table.contains_hashed(hash(&number(9)), &number(9)));
}

#[test]
fn a_small_table_costs_little() {
    let mut table = Dense::new(Values::None);
    (0..130).for_each(|n| assert!(table.insert(&number(n), b"")));
    assert!(table.heap_bytes() < 130 * (8 + 8), "{}", table.heap_bytes());
}

#[test]
fn what_was_met_in_one_table_is_found_in_another() {
    for (small, large) in [(1, 1), (10, 2000), (700, 700), (500, 520), (1000, 10), (3000, 2999)] {
        let table = |from: u64, count: u64| {
            let mut table = Dense::new(Values::None);
            (from..from + count).for_each(|n| assert!(table.insert(&number(n), b"")));
            table
        };
        let (one, other) = (table(0, small), table(small / 2, large));
        let (mut met, mut common, mut from) = (0, 0, Some(0));
        while let Some(at) = from {
            from = one.part_known(at, |entry, known| {
                met += 1;
                let found = other.get_known(known, entry.key);
                assert_eq!(found.is_some(), other.contains(entry.key));
                common += u64::from(found.is_some());
                true
            });
        }
        assert_eq!((met, common), (small, (small - small / 2).min(large)));
        from = Some(0);
        while let Some(at) = from {
            let before = common;
            from = one.part_common(&other, at, |entry, found| {
                assert_eq!(entry.key, found.key);
                common -= 1;
                common + 3 > before
            });
            assert!(before - common < 3 + MOST_IN_A_BIN, "a part goes on without room");
        }
        assert_eq!(common, 0);
    }
}
