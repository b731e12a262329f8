//! The libraries that scripts have beside Lua's own: JSON, MessagePack and C structs. Most
//! functions have a short way in C (lplibs.c) for the arguments that scripts mostly give them; all
//! others, and every error, are handled here. `bit` is in lpantala.c alone.
//!
//! 1. They answer as the C libraries that valkey 9.1.2 bundles, byte for byte, errors included.
//! 2. Nothing a script passes panics, recurses without a bound or takes more than linear time.
//! 3. An error is `mlua::Error::RuntimeError` with its text; to scripts it is that text, with the
//!    place of the call in front (ldebug.c, `convert`).
//! 4. Memory: what becomes Lua's counts against the VM's limit (`Budget`); the buffers in between
//!    are Rust's, at most `OUTPUT_BYTES_MAX`.
//!
//! Tests: foot of each file, and crates/scripting/tests/libs_*.rs.

mod argument;
pub(crate) mod budget;
pub mod cjson;
pub mod cmsgpack;
pub mod structs;

/// Most bytes of what `cjson.encode`, `cmsgpack.pack` and `struct.pack` give: as long as the
/// longest string of the keyspace. More is "not enough memory".
pub const OUTPUT_BYTES_MAX: usize = 512 << 20;

/// Tables within tables, most, whatever a script sets: what cjson allows unless told otherwise.
pub const NESTING_MAX: usize = 1_000;

/// Most values that a function gives back. The reference has 8,000 slots of Lua's stack for them
/// and its arguments; some are needed for what happens here.
const RESULTS_MAX: usize = 7_950;
