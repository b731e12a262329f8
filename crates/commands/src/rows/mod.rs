//! The command table: what a row says, and how one is found.
//!
//! | file | what |
//! |---|---|
//! | `command` | a row |
//! | `keys` | which arguments are keys or channels |
//! | `syntax` | the arguments, read from the line that documents them |
//! | `registry` | all rows, found by name |
//! | `help`, `absent` | HELP, made from rows; names of Valkey's that have none |
//!
//! Not here: the rows themselves, and what they run (`families`, other crates).

pub(crate) mod absent;
pub(crate) mod command;
pub(crate) mod help;
pub(crate) mod keys;
pub(crate) mod registry;
pub mod syntax;
