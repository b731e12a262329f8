//! Encoding and decoding of collections, in all their kinds, one file per type.
//!
//! | file | what |
//! |---|---|
//! | `hash`, `list`, `set`, `sorted_set` | one type each |
//! | `stream`, `stream_node` | streams, and their entries in one listpack |
//!
//! Not here: strings (`scalars::text`); the kind that is written (`kind_of`); files (`file`).

pub(crate) mod hash;
pub(crate) mod list;
pub(crate) mod set;
pub(crate) mod sorted_set;
pub(crate) mod stream;
pub(crate) mod stream_node;
