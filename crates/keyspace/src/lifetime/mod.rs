//! How long a key stays: its deadline, its last use, and who removes it.
//!
//! | file | what |
//! |---|---|
//! | `expiry` | what becomes of a key whose deadline has passed: removed, hidden or seen |
//! | `sweep`, `timed` | removing what nobody asks for; keys whose elements have deadlines |
//! | `evict`, `ageing` | removing keys for room; how long ago a key was used |
//!
//! Not here: the order in which the table chooses victims (`pantala_table`, `evict`); DEL and its
//! kin, which open a key like any other command.

pub(crate) mod ageing;
pub(crate) mod evict;
pub(crate) mod expiry;
pub(crate) mod sweep;
pub(crate) mod timed;
