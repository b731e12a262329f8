//! The guarantees of SCAN, and the other walks.

mod common;

use std::collections::{HashMap, HashSet};

use common::machine::save;
use common::*;
use pantala_table::{Cursor, Table};

fn small(number: u64) -> Entry {
    entry(Value::Str(number.to_string().into_bytes()), None)
}

fn filled(hash: Hash, keys: u64) -> Pair {
    let mut pair = Pair::new(hash);
    for number in 0..keys {
        pair.insert(&key_of(number), small(number));
    }
    pair
}

/// One SCAN call, as a client makes it: the cursor is passed as a number.
fn step(pair: &Pair, cursor: Cursor, seen: &mut HashMap<Vec<u8>, u32>) -> Cursor {
    let cursor = Cursor::from_bits(cursor.to_bits());
    pair.table.scan(cursor, &mut |place| {
        *seen.entry(pair.table.key(place).to_vec()).or_default() += 1;
    })
}

#[test]
fn a_quiet_table_gives_every_key_once() {
    let hashes: [(Hash, u64); 5] = [
        (good_hash, 5_000),
        (one_bucket, 1_000),
        (one_fingerprint, 5_000),
        (few_hashes, 1_000),
        (one_hash, 500),
    ];
    for (hash, most) in hashes {
        for keys in [0, 1, 10, 100, 1_000, 5_000] {
            let pair = filled(hash, most.min(keys));
            let mut seen = HashMap::new();
            let mut cursor = Cursor::START;
            while !cursor.is_end() {
                assert!(cursor.to_bits() < 1 << Cursor::BITS);
                cursor = step(&pair, cursor, &mut seen);
            }
            assert_eq!(seen.len(), pair.model.len());
            assert!(seen.values().all(|times| *times == 1));
        }
    }
}

/// Scans while keys come and go; every key that stays must be seen.
fn scan_in_turmoil(seed: u64, hash: Hash, stay: u64, come: u64, between: u64) {
    let mut random = Random(seed);
    let mut pair = filled(hash, stay);
    let mut phase_is_growing = random.one_in(2);
    if !phase_is_growing {
        for number in stay..stay + come {
            pair.insert(&key_of(number), small(number));
        }
    }
    let mut seen = HashMap::new();
    let mut cursor = Cursor::START;
    let mut calls = 0;
    while !cursor.is_end() {
        cursor = step(&pair, cursor, &mut seen);
        calls += 1;
        assert!(calls < 200_000, "the scan does not end");
        for _ in 0..random.below(between + 1) {
            let key = key_of(stay + random.below(come));
            let there = pair.model.contains_key(&key);
            if phase_is_growing && !there {
                pair.insert(&key, small(1));
            } else if !phase_is_growing && there {
                drop(pair.remove(&key));
            }
        }
        if random.one_in(200) {
            phase_is_growing = !phase_is_growing;
        }
    }
    for number in 0..stay {
        assert!(seen.contains_key(&key_of(number)), "seed {seed}: a key was not emitted");
    }
    pair.compare_all();
}

#[test]
fn every_key_that_stays_is_seen_while_others_come_and_go() {
    for seed in 0..50 {
        let mut random = Random(seed ^ 0xABCD);
        let (stay, come) = (1 + random.below(300), 1 + random.below(12_000));
        scan_in_turmoil(seed, good_hash, stay, come, 200);
    }
}

#[test]
fn every_key_that_stays_is_seen_under_terrible_hashes() {
    for seed in 0..6 {
        scan_in_turmoil(seed, one_bucket, 100, 1_500, 50);
        scan_in_turmoil(seed, few_hashes, 100, 700, 30);
        scan_in_turmoil(seed, one_prefix, 100, 1_500, 50);
    }
}

#[test]
fn a_merge_behind_the_cursor_makes_the_scan_begin_the_segment_again() {
    // Splits once, is scanned beyond the left half, and merges before the scan goes on.
    let mut pair = filled(good_hash, 1_500);
    assert_eq!(pair.table.segment_count(), 2);
    let mut seen = HashMap::new();
    let mut cursor = Cursor::START;
    while cursor.to_bits() >> 21 == 0 {
        cursor = step(&pair, cursor, &mut seen);
    }
    let kept: HashSet<Vec<u8>> = (0..20).map(key_of).collect();
    for number in 20..1_500 {
        drop(pair.remove(&key_of(number)));
    }
    assert_eq!(pair.table.segment_count(), 1);
    while !cursor.is_end() {
        cursor = step(&pair, cursor, &mut seen);
    }
    assert!(kept.iter().all(|key| seen.contains_key(key)));
}

#[test]
fn any_number_is_a_cursor() {
    let mut random = Random(5);
    for keys in [0, 3, 2_000] {
        let pair = filled(good_hash, keys);
        for _ in 0..20_000 {
            let cursor = Cursor::from_bits(random.next() >> random.below(64));
            let next = step(&pair, cursor, &mut HashMap::new());
            assert!(next.is_end() || next.to_bits() < 1 << Cursor::BITS);
        }
    }
}

#[test]
fn random_keys_are_near_uniform() {
    let mut random = Random(9);
    for keys in [1, 2, 13, 700, 3_000] {
        let pair = filled(good_hash, keys);
        let mut counts: HashMap<Vec<u8>, u64> = HashMap::new();
        let draws = keys * 200;
        for _ in 0..draws {
            let place = pair.table.random(&mut || random.next()).expect("not empty");
            *counts.entry(pair.table.key(place).to_vec()).or_default() += 1;
        }
        assert_eq!(counts.len() as u64, keys, "every key is drawn");
        // 200 are expected with a standard deviation of 14; seven deviations either way are
        // allowed.
        assert!(counts.values().all(|count| (100..300).contains(count)), "{keys}");
    }
    assert!(Table::<Thing>::new().random(&mut || 1).is_none());
}

#[test]
fn random_finds_the_last_key_of_a_table_that_was_large() {
    for hash in [good_hash as Hash, one_hash] {
        let mut random = Random(11);
        let mut pair = filled(hash, 1_000);
        for number in 1..1_000 {
            let place = pair.find(&key_of(number)).expect("it is there");
            // Without tidying: the segments stay as they are.
            drop(pair.table.remove(place));
        }
        for _ in 0..100 {
            let place = pair.table.random(&mut || random.next()).expect("not empty");
            assert_eq!(pair.table.key(place), key_of(0));
        }
    }
}

#[test]
fn a_snapshot_saves_every_record_once_as_it_was() {
    let mut random = Random(21);
    for round in 0..30 {
        let mut pair = filled(good_hash, 1 + random.below(3_000));
        let cut: HashMap<Vec<u8>, Entry> = pair.model.clone();
        let mut saved: HashMap<Vec<u8>, Value> = HashMap::new();
        pair.table.begin_epoch();
        let mut cursor = Cursor::START;
        while !cursor.is_end() {
            let mut places = Vec::new();
            cursor = pair.table.scan(cursor, &mut |place| places.push(place));
            for place in places {
                save(&mut pair.table, place, &mut saved);
            }
            for _ in 0..random.below(40) {
                let key = key_of(random.below(6_000));
                match pair.find(&key) {
                    Some(place) => {
                        // A writer saves the record that it is about to change.
                        save(&mut pair.table, place, &mut saved);
                        if random.one_in(2) {
                            drop(pair.remove(&key));
                        } else {
                            drop(pair.table.set_string(place, b"changed"));
                            pair.model.insert(key, entry(Value::Str(b"changed".to_vec()), None));
                        }
                    }
                    None => drop(pair.insert(&key, small(0))),
                }
            }
            if round % 10 == 9 && random.one_in(50) {
                break;
            }
        }
        if cursor.is_end() {
            let cut: HashMap<_, _> =
                cut.into_iter().map(|(key, entry)| (key, entry.value)).collect();
            assert!(saved == cut, "the snapshot is what was there at the cut");
        } else {
            pair.table.end_epoch();
        }
        pair.table.for_each(&mut |place| assert!(pair.table.is_saved(place)));
        pair.compare_all();
    }
}
