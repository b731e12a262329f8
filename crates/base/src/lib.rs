//! Foundations: clock, randomness, hashing, digests, number text, globs, quoted words, checksums,
//! limits.
//!
//! Plain functions over bytes that know nothing of keys, connections or commands. `unsafe` only in
//! `simd` and `os`.

#![deny(unsafe_code)]

pub mod awake;
pub mod clock;
pub mod crc;
pub mod glob;
pub mod hash;
pub mod limits;
pub mod number;
#[allow(unsafe_code)]
pub mod os;
pub mod rests;
pub mod rng;
pub mod sha1;
#[allow(unsafe_code)]
pub mod simd;
pub mod size;
pub mod words;

pub use clock::UnixMs;
pub use hash::HashSeed;
pub use rng::Rng;
