//! Fuzz targets: seeded, on stable Rust, one binary a target. A run prints the seed of a case that
//! fails; `--seed` with that number replays it.
#![forbid(unsafe_code)]

pub mod protocol;
mod protocol_texts;
