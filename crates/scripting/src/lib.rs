//! Lua scripts: the interpreter, its sandbox, `redis.*`, and conversions between Lua values and
//! RESP.
//!
//! | file | what |
//! |---|---|
//! | `vm`, `slot`, `host` | the interpreter of a thread; the current run; its server |
//! | `globals`, `libs` | the environment of scripts |
//! | `sources` | texts of scripts and libraries |
//! | `to_lua`, `from_lua`, `faults` | conversions of values and errors |
//! | `bridge`, `raw` | functions of our patched Lua, and unsafe access to its bytes |
//!
//! Not here: EVAL and its kin, keys, locks, users (engine, `scripts`).

#![deny(unsafe_code)]

mod bridge;
mod faults;
mod from_lua;
mod globals;
mod host;
#[allow(unsafe_code)]
mod raw;
mod slot;
mod sources;
mod to_lua;
mod vm;

pub mod libs;

pub use host::{Abort, LogLevel, ScriptHost};
pub use sources::flags::Flags;
pub use sources::library::{ENGINE, Header, Libraries, Library, LibraryFunction};
pub use sources::script::{ErrorText, SHA_HEX_BYTES, Script};
pub use vm::{Vm, VmLimits};

/// The work of a script between two calls of [`ScriptHost::tick`]: some 50 to 100 microseconds.
pub const TICK_INSTRUCTIONS: u64 = 10_000;
