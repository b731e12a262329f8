//! Ground floor: clock, randomness, hashing, number text, globs, checksums, limits.
