//! A long run of random operations on a table and its model. A scan and a snapshot are in progress
//! most of the time.

use std::collections::{HashMap, HashSet};

use pantala_base::UnixMs;
use pantala_table::{Cursor, RecordPlace, SweepCursor, Table, Tail};

use super::{Entry, Hash, Pair, Random, Thing, Value, entry, expire, key_of, read};

/// A scan in progress.
#[derive(Default)]
struct Scan {
    cursor: Option<Cursor>,
    /// Keys that were there since the scan began.
    staying: HashSet<Vec<u8>>,
    seen: HashSet<Vec<u8>>,
}

/// A snapshot in progress.
#[derive(Default)]
struct Snapshot {
    cursor: Option<Cursor>,
    cut: HashMap<Vec<u8>, Value>,
    saved: HashMap<Vec<u8>, Value>,
}

struct Machine {
    pair: Pair,
    random: Random,
    keys: u64,
    scan: Scan,
    snapshot: Snapshot,
    /// The position of the walk that reallocates records.
    renewed_to: pantala_table::RenewalCursor,
}

/// Runs `steps` random operations on `keys` different keys; the number of keys present goes up and
/// down.
pub fn run(seed: u64, hash: Hash, keys: u64, steps: u64) {
    let mut machine = Machine {
        pair: Pair::new(hash),
        random: Random(seed),
        keys,
        scan: Scan::default(),
        snapshot: Snapshot::default(),
        renewed_to: pantala_table::RenewalCursor::START,
    };
    for step in 0..steps {
        machine.step((step / (keys * 3)).is_multiple_of(2));
    }
    machine.pair.compare_all();
    for number in 0..keys {
        drop(machine.pair.remove(&key_of(number)));
    }
    let table = &machine.pair.table;
    assert_eq!((table.len(), table.segment_count(), table.heap_bytes()), (0, 0, 0));
}

impl Machine {
    fn step(&mut self, growing: bool) {
        let key = key_of(self.random.below(self.keys));
        self.act(&key, growing);
        self.pair.compare(&key);
        self.pair.now.0 += i64::from(self.random.one_in(2));
        if self.random.one_in(3) {
            self.go_on_scanning();
        }
        if self.random.one_in(3) {
            self.go_on_saving();
        }
        if self.random.one_in(8) {
            self.renew();
        }
        if self.random.one_in(self.keys * 2) {
            self.sweep();
        }
        if self.random.one_in(self.keys * 3) {
            self.pair.compare_all();
        }
        if self.random.one_in(16) {
            let place = self.pair.table.random(&mut || self.random.next());
            assert_eq!(place.is_none(), self.pair.model.is_empty());
        }
    }

    fn act(&mut self, key: &[u8], growing: bool) {
        match (self.pair.model.contains_key(key), self.random.below(10)) {
            (false, 0..7) if growing => {
                let value = self.random_value();
                let deadline = self.random_deadline();
                let mut entry = entry(value, deadline);
                if let Value::Str(_) = entry.value {
                    entry.tail = self.random.tail();
                }
                self.pair.insert(key, entry);
                self.notice_expired();
            }
            (true, 0..4) if !growing => {
                self.before_change(key);
                drop(self.pair.remove(key));
                self.scan.staying.remove(key);
            }
            (true, 4..9) => {
                self.before_change(key);
                self.change(key);
            }
            (true, _) => {
                let to = key_of(self.random.below(self.keys));
                self.rename(key, &to);
            }
            (false, _) => {}
        }
    }

    fn random_value(&mut self) -> Value {
        let random = &mut self.random;
        let len = match random.below(8) {
            0 => {
                let number = random.next() as i64 >> random.below(64);
                return Value::Str(number.to_string().into_bytes());
            }
            1 => 0,
            2 => {
                let tag = 1 + random.below(15) as u8;
                return Value::Thing(Thing { tag, bytes: random.bytes(20) });
            }
            3 => random.below(6_000),
            _ => random.below(200),
        };
        Value::Str(random.bytes(len as usize))
    }

    fn random_deadline(&mut self) -> Option<UnixMs> {
        let ms = self.pair.now.0 + self.random.below(3_000) as i64;
        self.random.one_in(3).then_some(UnixMs(ms))
    }

    /// Changes the record of a key that is there.
    fn change(&mut self, key: &[u8]) {
        let (value, deadline) = (self.random_value(), self.random_deadline());
        let place = self.pair.find(key).expect("it is there");
        let random = &mut self.random;
        let table = &mut self.pair.table;
        let entry = self.pair.model.get_mut(key).expect("it is there");
        match (random.below(14), value) {
            (0 | 1, Value::Thing(thing)) => {
                drop(table.set_object(place, thing.clone()));
                (entry.value, entry.tail) = (Value::Thing(thing), Tail::default());
            }
            (0, Value::Str(text)) => {
                drop(table.set_string(place, &text));
                (entry.value, entry.tail) = (Value::Str(text), Tail::default());
            }
            (1, Value::Str(text)) => {
                let tail = random.tail();
                drop(table.set_string_with_tail(place, &text, tail));
                (entry.value, entry.tail) = (Value::Str(text), tail);
            }
            (12 | 13, _) if matches!(entry.value, Value::Str(_)) => {
                entry.tail = random.tail();
                table.set_tail(place, entry.tail);
            }
            (2, _) => {
                entry.deadline = deadline;
                table.set_deadline(place, deadline);
            }
            (3, _) => {
                let number = random.next() as i64 >> random.below(64);
                entry.value = Value::Str(number.to_string().into_bytes());
                entry.tail.cas = 0;
                drop(table.set_int(place, number));
            }
            (4, Value::Str(text)) => {
                entry.deadline = deadline;
                drop(table.set_string_and_deadline(place, &text, deadline));
                (entry.value, entry.tail) = (Value::Str(text), Tail::default());
            }
            (5, _) => {
                table.touch(place);
                entry.hotness = (entry.hotness + 1).min(3);
                entry.sticky = random.one_in(2);
                table.set_sticky(place, entry.sticky);
            }
            _ => change_bytes(table, place, entry, random),
        }
    }

    /// Moves a record to another key, as RENAME does.
    fn rename(&mut self, key: &[u8], to: &[u8]) {
        if self.pair.model.contains_key(to) {
            return;
        }
        self.before_change(key);
        self.scan.staying.remove(key);
        let mut entry = self.pair.model[key].clone();
        let record = self.pair.remove(key).expect("it is there");
        if key != to {
            entry.tail = changed(entry.tail);
        }
        self.pair.insert_record(record.with_key(to), entry);
        self.notice_expired();
    }

    /// Keys that `make_room` or `sweep` has removed need neither be emitted nor saved.
    fn notice_expired(&mut self) {
        let model = &self.pair.model;
        if self.pair.expired {
            self.scan.staying.retain(|key| model.contains_key(key));
            let saved = &self.snapshot.saved;
            self.snapshot.cut.retain(|key, _| model.contains_key(key) || saved.contains_key(key));
            self.pair.expired = false;
        }
    }

    fn sweep(&mut self) {
        let budget = 1 + self.random.below(500) as usize;
        let (model, now) = (&mut self.pair.model, self.pair.now);
        let mut at = SweepCursor::START;
        let mut gone = Vec::new();
        let mut earliest: Option<UnixMs> = None;
        loop {
            let swept = self.pair.table.sweep(at, now, budget, &mut |record| {
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
        let mut hash = self.pair.hash;
        for key in gone {
            self.pair.table.tidy_after_remove(hash(&key), &mut hash);
            self.pair.expired = true;
        }
        self.notice_expired();
    }

    /// One bounded step of reallocation. A random half of the blocks counts as being in sparse
    /// pages.
    fn renew(&mut self) {
        let most = 1 + self.random.below(30) as usize;
        let random = &mut self.random;
        let mut is_sparse = |_: *const u8| random.one_in(2);
        let mut renewal = pantala_table::Renewal::of(&mut is_sparse);
        let next = self.pair.table.renew(
            self.renewed_to,
            most,
            &mut renewal,
            &mut |key, part| assert!(!key.is_empty() && part == 1),
            &mut |_| {},
        );
        assert!(renewal.looked_at <= most + 3 && renewal.moved <= renewal.looked_at);
        self.renewed_to = next.unwrap_or(pantala_table::RenewalCursor::START);
    }

    fn go_on_scanning(&mut self) {
        let table = &self.pair.table;
        let cursor = self.scan.cursor.unwrap_or_else(|| {
            self.scan.staying = self.pair.model.keys().cloned().collect();
            self.scan.seen.clear();
            Cursor::START
        });
        let cursor = Cursor::from_bits(cursor.to_bits());
        let next = table.scan(cursor, &mut |place| {
            self.scan.seen.insert(table.key(place).to_vec());
        });
        self.scan.cursor = (!next.is_end()).then_some(next);
        if next.is_end() {
            assert!(self.scan.staying.is_subset(&self.scan.seen), "SCAN has lost a key");
        }
    }

    fn go_on_saving(&mut self) {
        let cursor = self.snapshot.cursor.unwrap_or_else(|| {
            let model = self.pair.model.iter();
            self.snapshot.cut =
                model.map(|(key, entry)| (key.clone(), entry.value.clone())).collect();
            self.snapshot.saved.clear();
            self.pair.table.begin_epoch();
            Cursor::START
        });
        let mut places = Vec::new();
        let next = self.pair.table.scan(cursor, &mut |place| places.push(place));
        for place in places {
            save(&mut self.pair.table, place, &mut self.snapshot.saved);
        }
        self.snapshot.cursor = (!next.is_end()).then_some(next);
        if next.is_end() {
            assert!(self.snapshot.saved == self.snapshot.cut, "a snapshot is what was at the cut");
        } else if self.random.one_in(500) {
            self.pair.table.end_epoch();
            self.snapshot.cursor = None;
        }
    }

    /// Saves the record before a write, as a writer does while a snapshot is in progress.
    fn before_change(&mut self, key: &[u8]) {
        let place = self.pair.find(key).expect("it is there");
        save(&mut self.pair.table, place, &mut self.snapshot.saved);
    }
}

/// The part of a tail that is kept when the text or the key changes.
fn changed(tail: Tail) -> Tail {
    Tail::of_flags(tail.flags)
}

/// Changes the bytes of a value in place.
fn change_bytes(
    table: &mut Table<Thing>,
    place: RecordPlace,
    entry: &mut Entry,
    random: &mut Random,
) {
    let model = match &mut entry.value {
        Value::Str(model) => model,
        Value::Thing(thing) => {
            let mutable = table.object_mut(place).expect("it is an object");
            mutable.bytes.push(7);
            thing.bytes.push(7);
            assert!(table.string_mut(place).is_none());
            return;
        }
    };
    entry.tail = changed(entry.tail);
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
            let len = random.below(1_500) as usize;
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

/// Saves a record that the snapshot does not have yet.
pub fn save(table: &mut Table<Thing>, place: RecordPlace, saved: &mut HashMap<Vec<u8>, Value>) {
    if !table.is_saved(place) {
        let before = saved.insert(table.key(place).to_vec(), read(table.value(place)));
        assert!(before.is_none(), "saved twice");
        table.mark_saved(place);
    }
}
