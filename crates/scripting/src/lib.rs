//! Lua scripts: the interpreter, its sandbox, `redis.*`, and the way between Lua's values and RESP.
//!
//! Not here: EVAL and its kin, keys, locks, users (engine, `scripts`).

#![deny(unsafe_code)]

mod api;
mod bridge;
mod compiled;
mod faults;
mod flags;
mod from_lua;
mod host;
mod library;
mod loading;
#[allow(unsafe_code)]
mod raw;
mod sandbox;
mod script;
mod slot;
mod to_lua;
mod vm;

pub mod libs;

pub use flags::Flags;
pub use host::{Abort, Host, Level};
pub use library::{ENGINE, Header, Libraries, Library, Registered};
pub use script::{ErrorText, SHA_HEX_BYTES, Script};
pub use vm::{Vm, VmLimits};

/// A script's work between two calls of [`Host::tick`]: some 50 to 100 microseconds.
pub const TICK_INSTRUCTIONS: u64 = 10_000;
