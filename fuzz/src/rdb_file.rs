//! `fuzz_rdb_file --seconds N --seed S`: cases S, S+1, ... for N seconds, one at least.
//!
//! A case is one random snapshot file, damaged again and again, or random opcodes. No bytes make
//! the reader panic; for every division into windows the result is the same; and a claim beyond the
//! file is refused at once, if its length is known.

#[path = "../../crates/rdb/tests/common/mod.rs"]
mod common;

use std::process::ExitCode;

use common::{FileContents, limits, read_file};
use pantala_base::Rng;
use pantala_rdb::file::{Inspection, RdbDamage, ReadOptions};
use pantala_rdb::payload::Versions;

const DAMAGES: u64 = 20;
const MOST_KEYS: u64 = 6;
const HEADS: [&[u8; 9]; 6] =
    [b"REDIS0003", b"REDIS0009", b"REDIS0010", b"REDIS0012", b"VALKEY080", b"REDIS0099"];

fn main() -> ExitCode {
    pantala_fuzz::run("fuzz_rdb_file", case)
}

fn case(seed: u64) {
    let mut rng = Rng::from_seed(seed);
    let keys = rng.below(MOST_KEYS);
    let (whole, expected) = common::file(&mut rng, keys);
    assert!(check(&whole, &mut rng) == Ok(expected), "an undamaged file is refused");
    let mut bytes = whole.clone();
    for _ in 0..DAMAGES {
        if rng.below(4) == 0 {
            bytes.clone_from(&whole);
        }
        damage(&mut rng, &mut bytes);
        // Without the checksum the reader gets further.
        if rng.below(2) == 0 && bytes.len() > 8 {
            let len = bytes.len();
            bytes[len - 8..].fill(0);
        }
        let _ = check(&bytes, &mut rng);
    }
    for _ in 0..DAMAGES {
        let bytes = without_sense(&mut rng);
        let _ = check(&bytes, &mut rng);
    }
}

/// The result, which is the same for all windows.
fn check(bytes: &[u8], rng: &mut Rng) -> Result<FileContents, RdbDamage> {
    let found = read_file(bytes, u64::MAX, rng);
    let most = 1 << rng.below(16);
    let in_windows = read_file(bytes, most, rng);
    match (&found, &in_windows) {
        (Ok(found), Ok(in_windows)) => assert!(found == in_windows),
        (Err(_), Err(_)) => {}
        _ => panic!("{:?} but {:?}", found.as_ref().err(), in_windows.err()),
    }
    let file_bytes = Some(bytes.len() as u64);
    let options = ReadOptions { versions: Versions::All, checks: rng.below(2) == 0, file_bytes };
    let mut inspection = Inspection::new(options, limits());
    for piece in bytes.chunks(most as usize) {
        if let Err(damage) = inspection.feed(piece, false) {
            assert!(damage.offset <= bytes.len() as u64, "{damage}");
            break;
        }
    }
    found
}

fn damage(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let at = rng.below(bytes.len() as u64 + 1) as usize;
    let len = (rng.below(12) as usize).min(bytes.len() - at);
    match rng.below(6) {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, 240 + rng.below(16) as u8),
        2 => drop(bytes.drain(at..at + len)),
        3 => bytes.extend_from_within(at..at + len),
        4 if at < bytes.len() => {
            let odd = [0, 7, 24, 25, 0x3f, 0x40, 0x80, 0x81, 0xc0, 0xc3, 0xf3, 0xfa, 0xfe, 0xff];
            bytes[at] = odd[rng.below(odd.len() as u64) as usize];
        }
        _ if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
        _ => {}
    }
}

/// A head followed by random opcodes, kinds, lengths and texts.
fn without_sense(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = HEADS[rng.below(HEADS.len() as u64) as usize].to_vec();
    for _ in 0..rng.below(40) {
        match rng.below(5) {
            0 => bytes.push(240 + rng.below(16) as u8),
            3 => bytes.push(200 + rng.below(24) as u8),
            1 => bytes.push(rng.below(34) as u8),
            2 => bytes.push(rng.next_u64() as u8),
            _ => bytes.extend_from_slice(b"\x03abc"),
        }
    }
    bytes
}
