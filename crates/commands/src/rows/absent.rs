//! Commands of Valkey that do not exist here, by name: users' rules may name them, so that a file
//! of users made for Valkey means the same here. They cannot be run.
//!
//! A name is removed when its row is added. Tests: the server's `tests/reference.rs`.

/// The names, in lower case, sorted.
pub const ABSENT: &[&str] =
    &["clusterscan", "cluster|syncslots", "module|load", "module|loadex", "module|unload"];
