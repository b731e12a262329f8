//! A table against a `HashMap`, through long seeded runs of random operations, under good and
//! terrible hashes.

mod common;

use common::*;
use pantala_base::UnixMs;

/// A value of a random kind.
fn random_value(random: &mut Random) -> Value {
    match random.below(8) {
        0 => Value::Str((random.next() as i64 >> random.below(64)).to_string().into_bytes()),
        1 => Value::Str(Vec::new()),
        2 => {
            let tag = 1 + random.below(15) as u8;
            Value::Thing(Thing { tag, bytes: random.bytes(20) })
        }
        3 => {
            let len = random.below(6000) as usize;
            Value::Str(random.bytes(len))
        }
        _ => {
            let len = random.below(200) as usize;
            Value::Str(random.bytes(len))
        }
    }
}

fn random_deadline(random: &mut Random, now: UnixMs) -> Option<UnixMs> {
    random.one_in(3).then(|| UnixMs(now.0 + random.below(3000) as i64))
}

/// Changes the record of a key that is there.
fn change(pair: &mut Pair, random: &mut Random, key: &[u8]) {
    let place = pair.find(key).expect("it is there");
    let table = &mut pair.table;
    let entry = pair.model.get_mut(key).expect("it is there");
    match random.below(12) {
        0 | 1 => {
            entry.value = random_value(random);
            match &entry.value {
                Value::Str(value) => drop(table.set_string(place, value)),
                Value::Thing(thing) => drop(table.set_object(place, thing.clone())),
            }
        }
        2 => {
            entry.deadline = random_deadline(random, pair.now);
            table.set_deadline(place, entry.deadline);
        }
        3 => {
            let number = random.next() as i64 >> random.below(64);
            entry.value = Value::Str(number.to_string().into_bytes());
            drop(table.set_int(place, number));
        }
        4 => {
            entry.deadline = random_deadline(random, pair.now);
            let len = random.below(300) as usize;
            let value = random.bytes(len);
            drop(table.set_string_and_deadline(place, &value, entry.deadline));
            entry.value = Value::Str(value);
        }
        5 => {
            table.touch(place);
            entry.hotness = (entry.hotness + 1).min(3);
            entry.sticky = random.one_in(2);
            table.set_sticky(place, entry.sticky);
        }
        _ => change_bytes(pair, random, key),
    }
}

/// Changes the bytes of a value in place.
fn change_bytes(pair: &mut Pair, random: &mut Random, key: &[u8]) {
    let place = pair.find(key).expect("it is there");
    let table = &mut pair.table;
    let model = match &mut pair.model.get_mut(key).expect("it is there").value {
        Value::Str(model) => model,
        Value::Thing(thing) => {
            let mutable = table.object_mut(place).expect("it is an object");
            mutable.bytes.push(7);
            thing.bytes.push(7);
            assert!(table.string_mut(place).is_none());
            return;
        }
    };
    match random.below(4) {
        0 => {
            let len = random.below(200) as usize;
            let tail = random.bytes(len);
            model.extend_from_slice(&tail);
            assert_eq!(table.append(place, &tail), model.len());
        }
        1 => {
            let (offset, len) = (random.below(400) as usize, 1 + random.below(100) as usize);
            let bytes = random.bytes(len);
            model.resize(model.len().max(offset + len), 0);
            model[offset..offset + len].copy_from_slice(&bytes);
            assert_eq!(table.set_range(place, offset, &bytes), model.len());
        }
        2 => {
            let len = random.below(1500) as usize;
            model.resize(len, 0);
            table.resize(place, len);
        }
        _ => {
            let bytes = table.string_mut(place).expect("it is a string");
            assert_eq!(bytes, model);
            for (byte, expected) in bytes.iter_mut().zip(model.iter_mut()) {
                *byte ^= 0x55;
                *expected ^= 0x55;
            }
        }
    }
}

/// Moves a record to another key, as RENAME does.
fn rename(pair: &mut Pair, key: &[u8], to: &[u8]) {
    if pair.model.contains_key(to) || !pair.model.contains_key(key) {
        return;
    }
    let entry = pair.model[key].clone();
    let record = pair.remove(key).expect("it is there");
    pair.insert_record(record.with_key(to), entry);
}

fn sweep(pair: &mut Pair, random: &mut Random) {
    let budget = 1 + random.below(500) as usize;
    let (model, now) = (&mut pair.model, pair.now);
    let mut at = pantala_table::SweepCursor::START;
    let mut gone = Vec::new();
    let mut earliest: Option<UnixMs> = None;
    loop {
        let swept = pair.table.sweep(at, now, budget, &mut |record| {
            expire(model, now, &record);
            gone.push(record.key().to_vec());
        });
        earliest = [earliest, swept.earliest].into_iter().flatten().min();
        match swept.next {
            Some(next) => at = next,
            None => break,
        }
    }
    assert_eq!(earliest, model.values().filter_map(|entry| entry.deadline).min());
    assert!(earliest.is_none_or(|earliest| earliest >= now));
    let mut hash = pair.hash;
    for key in gone {
        pair.table.tidy_after_remove((pair.hash)(&key), &mut hash);
    }
}

/// A long run in which the number of keys goes up and down.
fn run(seed: u64, hash: Hash, keys: u64, steps: u64) {
    let mut random = Random(seed);
    let mut pair = Pair::new(hash);
    for step in 0..steps {
        let growing = (step / (keys * 3)).is_multiple_of(2);
        let key = key_of(random.below(keys));
        match (pair.model.contains_key(&key), random.below(10)) {
            (false, 0..7) if growing => {
                let value = random_value(&mut random);
                let deadline = random_deadline(&mut random, pair.now);
                pair.insert(&key, entry(value, deadline));
            }
            (true, 0..4) if !growing => drop(pair.remove(&key)),
            (true, 4..9) => change(&mut pair, &mut random, &key),
            (true, _) => rename(&mut pair, &key, &key_of(random.below(keys))),
            (false, _) => {}
        }
        pair.compare(&key);
        pair.now.0 += i64::from(random.one_in(2));
        if random.one_in(keys * 2) {
            sweep(&mut pair, &mut random);
        }
        if random.one_in(keys * 3) {
            pair.compare_all();
        }
    }
    pair.compare_all();
    for number in 0..keys {
        drop(pair.remove(&key_of(number)));
    }
    assert_eq!((pair.table.len(), pair.table.segment_count(), pair.table.heap_bytes()), (0, 0, 0));
}

#[test]
fn agrees_with_a_map_while_small() {
    for seed in 0..20 {
        run(seed, good_hash, 40, 4_000);
    }
}

#[test]
fn agrees_with_a_map_while_large() {
    run(1, good_hash, 8_000, 150_000);
}

#[test]
fn agrees_with_a_map_when_all_keys_have_one_fingerprint() {
    run(2, one_fingerprint, 4_000, 40_000);
}

#[test]
fn agrees_with_a_map_when_all_keys_have_one_bucket() {
    run(3, one_bucket, 2_000, 20_000);
}

#[test]
fn agrees_with_a_map_when_all_keys_have_one_prefix() {
    run(4, one_prefix, 2_000, 20_000);
}

#[test]
fn agrees_with_a_map_when_there_are_few_hashes() {
    run(5, few_hashes, 1_500, 20_000);
}

#[test]
fn agrees_with_a_map_when_all_hashes_are_the_same() {
    run(6, one_hash, 500, 10_000);
}
