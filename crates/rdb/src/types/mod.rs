//! One file for each type of collection: how it is written and read, in all its kinds.
//!
//! | file | what |
//! |---|---|
//! | `hash`, `list`, `set`, `sorted_set` | a type each |
//! | `stream`, `stream_node` | streams, and their entries in one listpack |
//!
//! Not here: strings (`scalars::text`); the kind that is written (`kind_of`); files (`file`).

pub(crate) mod hash;
pub(crate) mod list;
pub(crate) mod set;
pub(crate) mod sorted_set;
pub(crate) mod stream;
pub(crate) mod stream_node;
