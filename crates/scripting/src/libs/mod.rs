//! The libraries of scripts beside Lua's own: JSON, MessagePack and C structs. Most functions have
//! a fast path in C (lplibs.c) for the most frequent arguments; all others, and every error, are
//! handled here. `bit` is in lpantala.c alone.
//!
//! 1. They behave as the C libraries that valkey 9.1.2 bundles, byte for byte, errors included.
//! 2. No argument makes them panic, recurse without a bound or take more than linear time.
//! 3. An error is `mlua::Error::RuntimeError` with its text; scripts see that text with the place
//!    of the call in front (ldebug.c, `convert`).
//! 4. Memory: Lua's values count against the VM's limit (`Budget`); intermediate buffers are
//!    Rust's, at most `OUTPUT_BYTES_MAX`.
//!
//! Tests: foot of each file, and crates/scripting/tests/libs_*.rs.

mod argument;
pub(crate) mod budget;
pub mod cjson;
pub mod cmsgpack;
pub mod structs;

/// The most bytes that `cjson.encode`, `cmsgpack.pack` and `struct.pack` return: as many as the
/// longest string of the keyspace has. More is "not enough memory".
pub const OUTPUT_BYTES_MAX: usize = 512 << 20;

/// The deepest nesting of tables, whatever a script sets: cjson's default.
pub const NESTING_MAX: usize = 1_000;

/// The most values that a function returns. The reference has 8,000 slots of Lua's stack for them
/// and its arguments; some are needed for our own calls.
const RESULTS_MAX: usize = 7_950;
