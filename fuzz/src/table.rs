//! `fuzz_table --seconds N --seed S`: cases S, S+1, ... for N seconds, one at least.
//!
//! A case is a long run of random operations on a table and a `HashMap`, with a scan and a snapshot
//! under way; size, length and quality of the hash follow from the seed.

#[path = "../../crates/table/tests/common/mod.rs"]
mod common;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use common::{
    Hash, Random, few_hashes, good_hash, one_bucket, one_fingerprint, one_hash, one_prefix,
};

fn main() -> ExitCode {
    let Some((seconds, seed)) = parse_args(std::env::args().skip(1)) else {
        eprintln!("usage: fuzz_table [--seconds N] [--seed S]");
        return ExitCode::from(2);
    };
    println!("seed {seed}, {seconds} s");
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut count = 0u64;
    loop {
        let number = seed.wrapping_add(count);
        if std::panic::catch_unwind(|| case(number)).is_err() {
            eprintln!("failed: replay with --seed {number} --seconds 0");
            return ExitCode::FAILURE;
        }
        count += 1;
        if Instant::now() >= end {
            break;
        }
    }
    println!("{count} cases passed");
    ExitCode::SUCCESS
}

fn case(seed: u64) {
    let mut random = Random(seed);
    let hashes: [(Hash, u64); 6] = [
        (one_fingerprint, 5_000),
        (one_bucket, 1_500),
        (one_prefix, 1_500),
        (few_hashes, 800),
        (one_hash, 300),
        (good_hash, 20_000),
    ];
    let (hash, most) = hashes[random.below(12).min(5) as usize];
    let keys = 1 + (most >> random.below(10)).min(1 + random.below(most));
    common::machine::run(random.next(), hash, keys, 500 + keys * random.below(20));
}

/// Seconds and seed; `None` for anything unknown.
fn parse_args(mut args: impl Iterator<Item = String>) -> Option<(u64, u64)> {
    let (mut seconds, mut seed) = (10, pantala_base::Rng::random().next_u64() >> 16);
    while let Some(name) = args.next() {
        let value = args.next()?.parse().ok()?;
        match name.as_str() {
            "--seconds" => seconds = value,
            "--seed" => seed = value,
            _ => return None,
        }
    }
    Some((seconds, seed))
}
