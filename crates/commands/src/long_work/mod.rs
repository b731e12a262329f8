//! Commands of very many keys or elements, which free their partitions as early as possible.
//!
//! | file | what |
//! |---|---|
//! | `incremental` | reading whole values in steps |
//! | `copy_and_swap` | changing a copy, and putting it in the place of the value |
//! | `by_partition` | one partition after the other |
//! | `draws` | random elements, read in steps |
//!
//! Not here: which thread runs them (the engine's `lane`).

pub(crate) mod by_partition;
pub(crate) mod copy_and_swap;
pub(crate) mod draws;
pub(crate) mod incremental;
