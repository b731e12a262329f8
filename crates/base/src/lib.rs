//! Ground floor: clock, randomness, hashing, number text, globs, checksums, limits.

pub mod clock;

pub use clock::UnixMs;
