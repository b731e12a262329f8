//! Hit rates of the table's eviction beside textbook policies and the optimum, on seeded traces.
//!
//! ```sh
//! cargo run --release -p pantala-table --example hit_rate -- [KEYS] [REQUESTS] [POLICY]...
//! ```
//!
//! All caches hold the same number of keys, so this compares policies and not bytes a key. The
//! first three after the optimum are ours: `cache_mode`, the policies *lru* and the policies *lfu*.
//! The rivals are as good as they can be: the clock of `lru 10` has no granularity, and `lfu 10`
//! never forgets. Memory is spread over as many tables as the server has partitions.

mod rivals;
mod traces;

use std::ops::ControlFlow;

use pantala_table::{Choice, EvictionClock, First, Object, Table, TableTurn};
use traces::{Random, Trace, mixed};

const PARTITIONS: usize = 1024;

/// There are no collections here.
enum Nothing {}

impl Object for Nothing {
    fn type_tag(&self) -> u8 {
        match *self {}
    }

    fn heap_bytes(&self) -> usize {
        match *self {}
    }
}

/// The server's eviction: the tables take turns.
fn ours(trace: &Trace, capacity: usize, first: First) -> f64 {
    let mut tables: Vec<Table<Nothing>> = (0..PARTITIONS).map(|_| Table::new()).collect();
    let (lately, mut random) = (EvictionClock::default(), Random(11));
    let choice = Choice { first, only_deadlines: false, in_need: false };
    let mut rehash = |key: &[u8]| hash_of(key);
    let (mut held, mut hits, mut turn) = (0, 0, 0);
    for &number in trace {
        let key = number.to_le_bytes();
        let hash = hash_of(&key);
        let at = hash as usize % PARTITIONS;
        if let Some(place) = tables[at].find(hash, &key) {
            tables[at].touch(place);
            hits += 1;
            continue;
        }
        while held >= capacity {
            turn = (turn + 1) % PARTITIONS;
            let table = &mut tables[turn];
            let mut last = None;
            let mut below = |bound| random.below(bound);
            let among = TableTurn { lately: &lately, number: turn };
            let evicted = table.evict(choice, among, &mut below, &mut |record| {
                last = Some(hash_of(record.key()));
                ControlFlow::Continue(())
            });
            held -= evicted.taken;
            last.inspect(|&hash| table.tidy_after_remove(hash, &mut rehash));
        }
        while tables[at].insert_string(hash, &key, b"", None).is_err() {
            tables[at].make_room(hash, pantala_base::UnixMs(0), &mut rehash, &mut drop);
        }
        held += 1;
    }
    hits as f64 / trace.len() as f64
}

fn hash_of(key: &[u8]) -> u64 {
    let number = key.try_into().map_or(0, u32::from_le_bytes);
    mixed(mixed(u64::from(number)))
}

type Policy = fn(&Trace, usize) -> f64;

const POLICIES: [(&str, Policy); 10] = [
    ("optimum", rivals::belady),
    ("coldest", |trace, capacity| ours(trace, capacity, First::Coldest)),
    ("recent", |trace, capacity| ours(trace, capacity, First::LeastRecent)),
    ("frequent", |trace, capacity| ours(trace, capacity, First::LeastFrequent)),
    ("lru", rivals::lru),
    ("lfu", rivals::lfu),
    ("lru 10", |trace, capacity| rivals::sampled(trace, capacity, false)),
    ("lfu 10", |trace, capacity| rivals::sampled(trace, capacity, true)),
    ("s3-fifo", rivals::s3_fifo),
    ("sieve", rivals::sieve),
];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, otherwise| args.get(at).and_then(|arg| arg.parse().ok()).unwrap_or(otherwise);
    let (keys, requests) = (number(0, 200_000), number(1, 4_000_000));
    let is_wanted = |name: &str| args.len() < 3 || args[2..].iter().any(|wanted| wanted == name);
    let policies: Vec<_> = POLICIES.into_iter().filter(|(name, _)| is_wanted(name)).collect();
    print!("{:>10} {:>8}", "trace", "capacity");
    policies.iter().for_each(|(name, _)| print!("{name:>9}"));
    println!();
    for (name, trace, capacities) in traces::all(keys, requests) {
        for capacity in capacities {
            print!("{name:>10} {capacity:>8}");
            for (_, policy) in &policies {
                print!("{:9.2}", 100.0 * policy(&trace, capacity));
            }
            println!();
        }
    }
}
