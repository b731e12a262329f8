//! `fuzz_rdb --seconds N --seed S`: cases S, S+1, ... for N seconds, one at least.
//!
//! A case is one random value, written, then damaged again and again. No bytes make the reader
//! panic; an accepted value has no duplicates and is in order; and it is written and read back
//! unchanged.

#[allow(dead_code, reason = "files have a target of their own")]
#[path = "../../crates/rdb/tests/common/mod.rs"]
mod common;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use common::{NOW, contents, limits};
use pantala_base::Rng;
use pantala_rdb::{Input, RdbKind, RdbValue, Strings};
use pantala_values::Object;

const DAMAGES: u64 = 60;

fn main() -> ExitCode {
    let Some((seconds, seed)) = parse_args(std::env::args().skip(1)) else {
        eprintln!("usage: fuzz_rdb [--seconds N] [--seed S]");
        return ExitCode::from(2);
    };
    println!("seed {seed}, {seconds} s");
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut count, mut taken) = (0_u64, 0_u64);
    loop {
        let number = seed.wrapping_add(count);
        match std::panic::catch_unwind(|| case(number)) {
            Ok(found) => taken += found,
            Err(_) => {
                eprintln!("failed: replay with --seed {number} --seconds 0");
                return ExitCode::FAILURE;
            }
        }
        count += 1;
        if Instant::now() >= end {
            break;
        }
    }
    println!("{count} cases passed; {taken} damaged values were values all the same");
    ExitCode::SUCCESS
}

/// Runs a case; returns how many damaged values were accepted.
fn case(seed: u64) -> u64 {
    let mut rng = Rng::from_seed(seed);
    let value = common::value(&mut rng);
    let kind = pantala_rdb::kind_of(&value.view(), NOW);
    let mut whole = Vec::new();
    pantala_rdb::write(&value.view(), NOW, Strings::Plain, &mut whole);
    let mut taken = u64::from(read(kind, &whole));
    assert_eq!(taken, 1, "an undamaged value is refused");
    let mut bytes = whole.clone();
    for _ in 0..DAMAGES {
        if rng.below(6) == 0 {
            bytes.clone_from(&whole);
        }
        damage(&mut rng, &mut bytes);
        let kind = if rng.below(4) == 0 { RdbKind(rng.below(32) as u8) } else { kind };
        taken += u64::from(read(kind, &bytes));
    }
    taken += u64::from(read(RdbKind::STRING, &compressed(&mut rng)));
    taken
}

/// Whether the bytes are a value; visits its content.
fn read(kind: RdbKind, bytes: &[u8]) -> bool {
    let Ok(value) = pantala_rdb::read(kind, &mut Input::new(bytes), &limits()) else {
        return false;
    };
    if let RdbValue::Object(Object::SortedSet(set)) = &value {
        set.check();
    }
    let mut again = Vec::new();
    let kind = pantala_rdb::kind_of(&value.view(), NOW);
    pantala_rdb::write(&value.view(), NOW, Strings::Plain, &mut again);
    let mut input = Input::new(&again);
    match pantala_rdb::read(kind, &mut input, &limits()) {
        Ok(back) => assert_eq!(contents(&back.view()), contents(&value.view())),
        // All its elements have expired, or it is longer now than allowed.
        Err(why) => assert!(contents(&value.view()).is_empty(), "{why}"),
    }
    assert!(input.is_empty() || contents(&value.view()).is_empty(), "bytes are left");
    true
}

fn damage(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let at = rng.below(bytes.len() as u64 + 1) as usize;
    let len = (rng.below(8) as usize).min(bytes.len() - at);
    match rng.below(7) {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, rng.next_u64() as u8),
        2 => drop(bytes.drain(at..at + len)),
        3 => bytes.extend_from_within(at..at + len),
        4 if at < bytes.len() => {
            let odd = [0, 1, 0x3f, 0x40, 0x7f, 0x80, 0x81, 0xc0, 0xc3, 0xf0, 0xf4, 0xfe, 0xff];
            bytes[at] = odd[rng.below(odd.len() as u64) as usize];
        }
        5 if at < bytes.len() => bytes[at] = bytes[at].wrapping_add(1),
        _ if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
        _ => {}
    }
}

/// A string that claims to be compressed.
fn compressed(rng: &mut Rng) -> Vec<u8> {
    let tokens: Vec<u8> = (0..1 + rng.below(60)).map(|_| rng.next_u64() as u8 >> 2).collect();
    let mut bytes = vec![0xc3, tokens.len() as u8, 0x40 | rng.below(4) as u8, rng.below(256) as u8];
    bytes.extend_from_slice(&tokens);
    bytes
}

/// Seconds and seed; `None` for anything unknown.
fn parse_args(mut args: impl Iterator<Item = String>) -> Option<(u64, u64)> {
    let (mut seconds, mut seed) = (10, Rng::random().next_u64() >> 16);
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
