//! Bytes and nanoseconds of the table, on the allocator of the server.
//!
//! `cargo run --release -p pantala-table --example measure [index|records|rss|speed]`
//!
//! - index: bytes of index for each key, from 1 to 4 million keys in 1,024 tables;
//! - records: bytes of a record by sizes of key and value;
//! - rss: resident bytes for each key, values of 8, 100 and 1,024 bytes, 1 to 4 million keys;
//! - speed: nanoseconds of one operation, the cost of making and hashing the key taken off.

use std::hint::black_box;

use pantala_base::UnixMs;
use pantala_base::hash::HashSeed;
use pantala_table::{Object, RecordPlace, Table, ValueRef};

#[global_allocator]
static ALLOCATOR: pantala_memory::Counting = pantala_memory::Counting;

const TABLES: usize = 1024;
/// Commands of one batch: as many as a pipeline of 30 brings.
const BATCH: usize = 30;

struct Nothing;

impl Object for Nothing {
    fn type_tag(&self) -> u8 {
        1
    }

    fn heap_bytes(&self) -> usize {
        0
    }
}

struct Store {
    tables: Vec<Table<Nothing>>,
    seed: HashSeed,
}

fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (n ^ (n >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB)
}

/// A 16-byte key.
fn key_of(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(b"user:id:");
    key[8..].copy_from_slice(&mix(number).to_le_bytes());
    key
}

impl Store {
    fn new() -> Store {
        Store {
            tables: (0..TABLES).map(|_| Table::new()).collect(),
            seed: HashSeed::from_words(7, 11),
        }
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> usize {
        let hash = self.seed.hash(key);
        let seed = self.seed;
        let table = &mut self.tables[hash as usize % TABLES];
        let mut rounds = 0;
        while table.insert_string(hash, key, value, None).is_err() {
            table.make_room(hash, UnixMs(0), &mut |key| seed.hash(key), &mut drop);
            rounds += 1;
        }
        rounds
    }

    fn remove(&mut self, key: &[u8]) -> bool {
        let hash = self.seed.hash(key);
        let seed = self.seed;
        let table = &mut self.tables[hash as usize % TABLES];
        let Some(place) = table.find(hash, key) else {
            return false;
        };
        drop(table.remove(place));
        table.tidy_after_remove(hash, &mut |key| seed.hash(key));
        true
    }

    fn find(&self, key: &[u8]) -> Option<(&Table<Nothing>, RecordPlace)> {
        let hash = self.seed.hash(key);
        let table = &self.tables[hash as usize % TABLES];
        Some((table, table.find(hash, key)?))
    }

    fn index_bytes(&self) -> usize {
        self.tables.iter().map(Table::heap_bytes).sum()
    }

    /// Counts of records in their home bucket, in the next one, and in a stash.
    fn spread(&self) -> [usize; 3] {
        self.tables
            .iter()
            .map(Table::spread)
            .fold([0; 3], |sum, spread| std::array::from_fn(|part| sum[part] + spread[part]))
    }

    fn slots(&self) -> usize {
        self.tables.iter().map(Table::slot_count).sum()
    }
}

fn index() {
    println!("keys       index B/key   use of slots   segments a table   next %   stash %");
    let mut store = Store::new();
    let (mut keys, mut sum, mut samples) = (0u64, 0.0, 0);
    for tenth in (1..=40).map(|tenth| tenth * 100_000) {
        while keys < tenth {
            store.insert(&key_of(keys), b"");
            keys += 1;
        }
        let bytes = store.index_bytes() as f64 / keys as f64;
        if keys >= 1_000_000 {
            sum += bytes;
            samples += 1;
        }
        let segments: usize = store.tables.iter().map(Table::segment_count).sum();
        let [_, next, stash] = store.spread().map(|count| count as f64 * 100.0 / keys as f64);
        println!(
            "{keys:>8}   {bytes:>9.2}   {:>10.3}   {:>10.2}           {next:>6.2}   {stash:>6.2}",
            keys as f64 / store.slots() as f64,
            segments as f64 / TABLES as f64
        );
    }
    println!("average from 1 to 4 million keys: {:.2} B", sum / f64::from(samples));
    let mut kept = keys;
    while kept > 0 {
        kept -= 1;
        store.remove(&key_of(kept));
        if kept.is_multiple_of(500_000) {
            let bytes = store.index_bytes();
            println!("after removals: {kept:>8} keys, {:.2} B/key", bytes as f64 / kept as f64);
        }
    }
}

fn records() {
    println!("key   value   encoding   record B");
    for key_len in [8, 16, 32, 40] {
        for value_len in [1, 8, 10, 32, 64, 100, 200, 256, 500, 1000, 1024, 4096, 10_000, 100_000] {
            let (key, value) = (vec![b'k'; key_len], vec![b'v'; value_len]);
            let mut table = Table::<Nothing>::new();
            table.make_room(0, UnixMs(0), &mut |_| 0, &mut drop);
            let Ok(place) = table.insert_string(0, &key, &value, None) else {
                continue;
            };
            let (encoding, bytes) = (table.encoding(place), table.record_bytes(place));
            println!("{key_len:>3}   {value_len:>6}   {:<9} {bytes:>7}", format!("{encoding:?}"));
        }
    }
}

/// Resident bytes for each key as tables fill; each length of values is measured in its own
/// process.
fn rss() {
    println!("value B   RSS B/key at 1, 1.5, 2, 3, 4 million keys   average");
    for value_len in ["8", "100", "1024"] {
        let itself = std::env::current_exe().expect("a process knows its program");
        let child = std::process::Command::new(itself).args(["rss-of", value_len]).status();
        assert!(child.is_ok_and(|status| status.success()));
    }
}

fn rss_of(value_len: u64) {
    let mut store = Store::new();
    let before = pantala_base::limits::rss_bytes();
    let (mut keys, mut sum) = (0u64, 0.0);
    print!("{value_len:>7}  ");
    for goal in [1_000_000, 1_500_000, 2_000_000, 3_000_000, 4_000_000] {
        while keys < goal {
            let value: Vec<u8> = (0..value_len).map(|i| (mix(keys + i) >> 33) as u8).collect();
            store.insert(&key_of(keys), &value);
            keys += 1;
        }
        let each = (pantala_base::limits::rss_bytes() - before) as f64 / keys as f64;
        sum += each;
        print!(" {each:.1}");
    }
    println!("   {:.1}", sum / 5.0);
}

/// Nanoseconds that this thread has run, according to the kernel: other programs on the machine do
/// not count.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// Nanoseconds of one of `count` rounds.
fn time(count: u64, mut round: impl FnMut(u64)) -> f64 {
    let begin = cpu_ns();
    for number in 0..count {
        round(number);
    }
    (cpu_ns() - begin) as f64 / count as f64
}

fn speed() {
    let value = [b'v'; 100];
    println!("keys/table  insert    find   batched    miss  batched  overwrite  remove   [ns]");
    for per_table in [1_000u64, 1_700, 2_000, 4_000, 10_000] {
        let keys = per_table * TABLES as u64;
        let mut store = Store::new();
        let base = time(keys, |n| {
            black_box(store.seed.hash(&key_of(n)));
        });
        let insert = time(keys, |n| {
            store.insert(&key_of(n), &value);
        });
        let rounds = 2_000_000;
        let pick = |n: u64| mix(n.wrapping_mul(0x9E37_79B9_7F4A_7C15)) % keys;
        let find = time(rounds, |n| {
            let (table, place) = store.find(&key_of(pick(n))).expect("it was inserted");
            black_box(read_first(table, place));
        });
        let batched = batches(&store, rounds / BATCH as u64, |n| key_of(pick(n)));
        let miss = time(rounds, |n| {
            black_box(store.find(&key_of(keys + pick(n))).is_some());
        });
        let batched_miss = batches(&store, rounds / BATCH as u64, |n| key_of(keys + pick(n)));
        let overwrite = time(rounds, |n| {
            let key = key_of(pick(n));
            let hash = store.seed.hash(&key);
            let table = &mut store.tables[hash as usize % TABLES];
            let place = table.find(hash, &key).expect("it was inserted");
            drop(table.set_string(place, &value));
        });
        let remove = time(keys, |n| {
            store.remove(&key_of(n));
        });
        println!(
            "{per_table:>10}  {:>6.1}  {:>6.1}   {:>7.1}  {:>6.1}  {:>7.1}  {:>9.1}  {:>6.1}",
            insert - base,
            find - base,
            batched - base,
            miss - base,
            batched_miss - base,
            overwrite - base,
            remove - base
        );
    }
}

/// A byte of the value: the first that a reply would read.
fn read_first(table: &Table<Nothing>, place: RecordPlace) -> u8 {
    match table.value(place) {
        ValueRef::Str(text) => text.bytes(&mut Default::default()).first().copied().unwrap_or(0),
        ValueRef::Object(_) => 0,
    }
}

/// Lookups as a worker does them: all buckets of a batch are fetched, then all records, then all
/// are looked up.
fn batches(store: &Store, count: u64, key: impl Fn(u64) -> [u8; 16]) -> f64 {
    let mut batch = [([0u8; 16], 0u64); BATCH];
    let mut number = 0;
    time(count, |_| {
        for (key_place, hash) in &mut batch {
            *key_place = key(number);
            *hash = store.seed.hash(key_place);
            number += 1;
            store.tables[*hash as usize % TABLES].prefetch_bucket(*hash);
        }
        for (_, hash) in &batch {
            store.tables[*hash as usize % TABLES].prefetch_record(*hash);
        }
        for (key, hash) in &batch {
            let table = &store.tables[*hash as usize % TABLES];
            if let Some(place) = table.find(*hash, key) {
                black_box(read_first(table, place));
            }
        }
    }) / BATCH as f64
}

fn main() {
    let what = std::env::args().nth(1);
    if what.as_deref() == Some("rss-of") {
        rss_of(std::env::args().nth(2).and_then(|len| len.parse().ok()).unwrap_or(8));
        return;
    }
    let wants = |name: &str| what.as_deref().is_none_or(|what| what == name);
    if wants("index") {
        index();
    }
    if wants("records") {
        records();
    }
    if wants("rss") {
        rss();
    }
    if wants("speed") {
        speed();
    }
}
