//! A table compared with a `HashMap` in long seeded runs of random operations, with good and with
//! very bad hash functions; see `common::machine`. The fuzz target `fuzz_table` runs the same code
//! without an end.

mod common;

use common::machine::run;
use common::*;

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
