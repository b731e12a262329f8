//! Lua scripts: the interpreter, its sandbox, `redis.*`, and the way between Lua's values and RESP.
//!
//! | file | what |
//! |---|---|
//! | `vm`, `slot`, `host` | the interpreter of a thread; the run in it, and what that may ask |
//! | `globals`, `libs` | what a script sees |
//! | `sources` | texts of scripts and libraries |
//! | `to_lua`, `from_lua`, `faults` | values and errors, both ways |
//! | `bridge`, `raw` | functions and bytes of Lua that are not safe Rust |
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

pub use host::{Abort, Host, Level};
pub use sources::flags::Flags;
pub use sources::library::{ENGINE, Header, Libraries, Library, Registered};
pub use sources::script::{ErrorText, SHA_HEX_BYTES, Script};
pub use vm::{Vm, VmLimits};

/// A script's work between two calls of [`Host::tick`]: some 50 to 100 microseconds.
pub const TICK_INSTRUCTIONS: u64 = 10_000;
