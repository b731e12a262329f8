//! Bytes and nanoseconds of the dense table, on the allocator of the server.
//!
//! `cargo run --profile fast -p pantala-values --example dense [members]`

use std::collections::HashSet;
use std::hint::black_box;
use std::time::Instant;

use pantala_base::limits::rss_bytes;
use pantala_base::rng::Rng;
use pantala_values::dense::{Dense, Values};

#[global_allocator]
static ALLOCATOR: pantala_memory::Counting = pantala_memory::Counting;

const MEMBER_BYTES: usize = 16;

fn member(seed: u64, number: u64) -> [u8; MEMBER_BYTES] {
    let mut member = [0; MEMBER_BYTES];
    Rng::from_seed(seed << 48 ^ number).bytes(&mut member);
    member
}

/// Nanoseconds that this process has run: other programs may share the machine.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0)
}

/// Nanoseconds of one of `count` operations.
fn time<R>(name: &str, count: u64, mut one: impl FnMut(u64) -> R) {
    let start = cpu_ns();
    (0..count).for_each(|n| {
        black_box(one(n));
    });
    println!("{name:24} {:8.1} ns", (cpu_ns() - start) as f64 / count as f64);
}

fn main() {
    let count = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(5_000_000);
    let shuffle = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % count;
    let lookups = 3_000_000;
    time("making a member", lookups, |n| member(1, shuffle(n)));

    time("hashing it", lookups, |n| pantala_values::dense::hash(&member(2, n)));
    let before = rss_bytes();
    let mut table = Dense::new(Values::None);
    let mut worst = 0;
    time("dense insert", count, |n| {
        let start = Instant::now();
        table.insert(&member(1, n), b"");
        worst = worst.max(start.elapsed().as_nanos());
    });
    let rss = (rss_bytes() - before) as f64 / count as f64;
    let heap = table.heap_bytes() as f64 / count as f64;
    println!("worst insert {worst} ns; bytes a member: rss {rss:.1}, heap {heap:.1}");
    time("dense hit", lookups, |n| assert!(table.contains(&member(1, shuffle(n)))));
    time("dense miss", lookups, |n| assert!(!table.contains(&member(2, n))));
    let mut random = Rng::from_seed(5);
    time("dense random", lookups, |_| table.random(&mut random).map(|entry| entry.key.len()));
    let mut other = Dense::new(Values::None);
    for n in count / 2..count + count / 2 {
        other.insert(&member(1, n), b"");
    }
    let rounds = lookups.div_ceil(count);
    time("dense common, all of it", rounds, |_| {
        let mut common = 0;
        let mut from = Some(0);
        while let Some(at) = from {
            from = table.part_common(&other, at, |_, _| {
                common += 1;
                true
            });
        }
        assert_eq!(common, count - count / 2);
    });
    drop(other);
    time("dense remove", count, |n| assert!(table.remove(&member(1, shuffle(n))) || n > 0));
    drop(table);

    let mut table = HashSet::<Box<[u8]>>::new();
    let before = rss_bytes();
    time("std insert", count, |n| table.insert(Box::new(member(1, n))));
    println!("bytes a member: rss {:.1}", (rss_bytes() - before) as f64 / count as f64);
    time("std hit", lookups, |n| assert!(table.contains(&member(1, shuffle(n))[..])));
    time("std miss", lookups, |n| assert!(!table.contains(&member(2, n)[..])));
    time("std remove", count, |n| table.remove(&member(1, shuffle(n))[..]));
}
