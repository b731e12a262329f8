//! `fuzz_table --seconds N --seed S`: cases S, S+1, ... for N seconds, one at least.
//!
//! A case is a long run of random operations on a table and a `HashMap`, with a scan and a snapshot
//! in progress; size, length and quality of the hash follow from the seed.

#[path = "../../crates/table/tests/common/mod.rs"]
mod common;

use common::{
    Hash, Random, few_hashes, good_hash, one_bucket, one_fingerprint, one_hash, one_prefix,
};

fn main() -> std::process::ExitCode {
    pantala_fuzz::run("fuzz_table", case)
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
