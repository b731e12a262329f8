//! Shared by the table's tests: a small object type, a hash function with chosen weaknesses, a
//! seeded random source, and a table paired with its model.

#![allow(dead_code)]

pub mod machine;

use std::collections::HashMap;

use pantala_base::UnixMs;
use pantala_table::{
    CAS_MAX, Object, OwnedRecord, RecordPlace, Table, Tail, ValueRef, is_expired, size_class,
};

/// A collection that reports `bytes.len()` as its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thing {
    pub tag: u8,
    pub bytes: Vec<u8>,
}

impl Object for Thing {
    fn type_tag(&self) -> u8 {
        self.tag
    }

    fn heap_bytes(&self) -> usize {
        if self.bytes.capacity() == 0 { 0 } else { size_class(self.bytes.capacity()) }
    }

    fn renew(
        &mut self,
        from: usize,
        _: usize,
        renewal: &mut pantala_table::Renewal<'_>,
    ) -> Option<usize> {
        renewal.renew(self.bytes.as_ptr(), &mut self.bytes);
        // An object of odd length has a second half, which is done in a later step.
        (from == 0 && self.bytes.len() % 2 == 1).then_some(1)
    }
}

/// SplitMix64: seeded, so that a failure can be replayed.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A random tail: often an empty one, or only some of the possible fields.
    pub fn tail(&mut self) -> Tail {
        let mut tail = Tail { flags: self.next() as u32, ..Tail::default() };
        if self.one_in(2) {
            tail.cas = self.next() & CAS_MAX;
            tail.state = self.next() as u8;
        }
        match self.below(4) {
            0 => tail,
            1 => Tail { flags: 0, ..tail },
            _ => Tail::default(),
        }
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// FNV with a finisher: all bits are well mixed.
pub fn good_hash(key: &[u8]) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325u64;
    for &byte in key {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
    }
    Random(hash).next()
}

/// A hash function for keys.
pub type Hash = fn(&[u8]) -> u64;

/// All fingerprints and positions are the same.
pub fn one_bucket(key: &[u8]) -> u64 {
    good_hash(key) & !(0xFFFF << 18) | 0x5A5A << 18
}

/// All fingerprints are the same.
pub fn one_fingerprint(key: &[u8]) -> u64 {
    good_hash(key) & !(0xFF << 18) | 0x17 << 18
}

/// All keys are in the same segment, however deep.
pub fn one_prefix(key: &[u8]) -> u64 {
    good_hash(key) >> 30 | 0xABCD_EF01 << 34
}

/// A few hashes for all keys.
pub fn few_hashes(key: &[u8]) -> u64 {
    Random(good_hash(key) % 7).next()
}

/// One hash for all keys.
pub fn one_hash(_: &[u8]) -> u64 {
    0x0123_4567_89AB_CDEF
}

/// A value in the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Str(Vec<u8>),
    Thing(Thing),
}

/// A record in the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub value: Value,
    pub deadline: Option<UnixMs>,
    pub hotness: u8,
    pub sticky: bool,
    pub tail: Tail,
}

pub fn entry(value: Value, deadline: Option<UnixMs>) -> Entry {
    Entry { value, deadline, hotness: 0, sticky: false, tail: Tail::default() }
}

/// A table and the map it must agree with.
pub struct Pair {
    pub table: Table<Thing>,
    pub model: HashMap<Vec<u8>, Entry>,
    pub hash: Hash,
    pub now: UnixMs,
    /// Whether `make_room` has removed expired keys.
    pub expired: bool,
}

impl Pair {
    pub fn new(hash: Hash) -> Pair {
        Pair { table: Table::new(), model: HashMap::new(), hash, now: UnixMs(0), expired: false }
    }

    pub fn find(&self, key: &[u8]) -> Option<RecordPlace> {
        self.table.find((self.hash)(key), key)
    }

    /// Makes room once; the keys that it removes must have expired in the model too.
    pub fn make_room(&mut self, key: &[u8]) {
        let (model, now, expired) = (&mut self.model, self.now, &mut self.expired);
        let mut hash = self.hash;
        self.table.make_room((self.hash)(key), now, &mut hash, &mut |record| {
            expire(model, now, &record);
            *expired = true;
        });
    }

    /// Inserts a key that is not there.
    pub fn insert(&mut self, key: &[u8], entry: Entry) -> RecordPlace {
        let hash = (self.hash)(key);
        for round in 0.. {
            assert!(round < 100, "make_room makes no room");
            let place = match &entry.value {
                Value::Str(value) if entry.tail == Tail::default() => {
                    self.table.insert_string(hash, key, value, entry.deadline).ok()
                }
                Value::Str(value) => {
                    let (deadline, tail) = (entry.deadline, entry.tail);
                    let record = OwnedRecord::new_string_with_tail(key, value, deadline, tail);
                    self.table.insert_record(hash, record).ok()
                }
                Value::Thing(thing) => {
                    self.table.insert_object(hash, key, thing.clone(), entry.deadline).ok()
                }
            };
            if let Some(place) = place {
                self.model.insert(key.to_vec(), entry);
                return place;
            }
            self.make_room(key);
        }
        unreachable!()
    }

    pub fn insert_record(&mut self, mut record: OwnedRecord<Thing>, entry: Entry) {
        let key = record.key().to_vec();
        loop {
            match self.table.insert_record((self.hash)(&key), record) {
                Ok(_) => break,
                Err(back) => record = back,
            }
            self.make_room(&key);
        }
        self.model.insert(key, entry);
    }

    pub fn remove(&mut self, key: &[u8]) -> Option<OwnedRecord<Thing>> {
        let place = self.find(key)?;
        let record = self.table.remove(place);
        self.model.remove(key);
        let mut hash = self.hash;
        self.table.tidy_after_remove((self.hash)(key), &mut hash);
        Some(record)
    }

    /// Compares one key.
    pub fn compare(&self, key: &[u8]) {
        let place = self.find(key);
        let Some(expected) = self.model.get(key) else {
            assert!(place.is_none(), "a removed key is still there");
            return;
        };
        let place = place.expect("a key is lost");
        let table = &self.table;
        assert_eq!(table.key(place), key);
        assert_eq!(&read(table.value(place)), &expected.value);
        assert_eq!(table.deadline(place), expected.deadline);
        assert_eq!(table.hotness(place), expected.hotness);
        assert_eq!(table.sticky(place), expected.sticky);
        assert_eq!(table.tail(place), expected.tail);
    }

    /// Compares everything and proves the invariants.
    pub fn compare_all(&self) {
        assert_eq!(self.table.len(), self.model.len());
        let deadlines = self.model.values().filter(|entry| entry.deadline.is_some()).count();
        assert_eq!(self.table.deadline_count(), deadlines);
        for key in self.model.keys() {
            self.compare(key);
        }
        let mut count = 0;
        self.table.for_each(&mut |place| {
            assert!(self.model.contains_key(self.table.key(place)));
            count += 1;
        });
        assert_eq!(count, self.model.len());
        let mut hash = self.hash;
        self.table.check(&mut hash);
    }
}

/// Removes an expired record from the model.
pub fn expire(model: &mut HashMap<Vec<u8>, Entry>, now: UnixMs, record: &OwnedRecord<Thing>) {
    let expected = model.remove(record.key()).expect("an expired key was there");
    assert_eq!(record.deadline(), expected.deadline);
    assert!(is_expired(expected.deadline.expect("it has a deadline"), now));
    assert_eq!(read(record.value()), expected.value);
    assert_eq!(record.tail(), expected.tail);
}

/// The value as the model stores it.
pub fn read(value: ValueRef<'_, Thing>) -> Value {
    match value {
        ValueRef::Str(text) => Value::Str(text.to_vec()),
        ValueRef::Object(thing) => Value::Thing(thing.clone()),
    }
}

/// The key with this number: most are short, some are long.
pub fn key_of(number: u64) -> Vec<u8> {
    let mut key = format!("key:{number}").into_bytes();
    match number % 97 {
        0 => key.resize(254, b'x'),
        1 => key.resize(255, b'y'),
        2 => key.resize(3000, b'z'),
        _ => {}
    }
    key
}
