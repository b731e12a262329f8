//! Fuzz targets: seeded, on stable Rust, one binary per target. A run prints the seed of a failing
//! case; `--seed` with that number replays it.
#![forbid(unsafe_code)]

pub mod hyperloglog;
pub mod protocol;
mod protocol_texts;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use pantala_base::Rng;

/// The main function of a target: `--seconds N --seed S`, cases S, S+1, ... for N seconds, at least
/// one.
pub fn run(name: &str, case: fn(u64)) -> ExitCode {
    let Some((seconds, seed)) = parse_args(std::env::args().skip(1)) else {
        eprintln!("usage: {name} [--seconds N] [--seed S]");
        return ExitCode::from(2);
    };
    println!("seed {seed}, {seconds} s");
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut count = 0_u64;
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
