//! The lifetime of keys: deadlines, last use, and removal.
//!
//! | file | what |
//! |---|---|
//! | `expiry` | what happens to a key whose deadline has passed: removed, hidden or seen |
//! | `sweep`, `timed` | removing expired keys that no command meets; keys with timed elements |
//! | `own` | what a replica removes by itself: keys with deadlines that its clients have set |
//! | `evict`, `ageing` | removing keys for want of memory; idle times |
//! | `garbage` | freeing large values in the background |
//!
//! Not here: how the table chooses victims (`pantala_table`, `evict`); DEL and its kin, which open
//! a key like any other command.

pub(crate) mod ageing;
pub(crate) mod evict;
pub(crate) mod eviction_result;
pub(crate) mod expiry;
pub(crate) mod garbage;
pub(crate) mod own;
pub(crate) mod sweep;
pub(crate) mod timed;
