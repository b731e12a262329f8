//! The command table: rows, and how they are found.
//!
//! | file | what |
//! |---|---|
//! | `command` | a row |
//! | `keys` | which arguments are keys or channels |
//! | `syntax` | the arguments, parsed from the line that documents them |
//! | `registry` | all rows, found by name |
//! | `help`, `absent` | HELP, generated from rows; names of Valkey's without a row |
//!
//! Not here: the rows themselves, and their handlers (`families`, other crates).

pub(crate) mod absent;
pub(crate) mod command;
pub(crate) mod help;
pub(crate) mod keys;
pub(crate) mod registry;
pub mod syntax;
