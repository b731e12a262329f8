//! Commands of very many keys or elements, so that what they touch is free as soon as may be.
//!
//! | file | what |
//! |---|---|
//! | `incremental` | whole values are read in steps |
//! | `copy_and_swap` | a copy is changed, and put in the place of the value |
//! | `by_partition` | one partition after the other |
//! | `draws` | random elements, read in steps |
//!
//! Not here: which thread runs them (the engine's `lane`).

pub(crate) mod by_partition;
pub(crate) mod copy_and_swap;
pub(crate) mod draws;
pub(crate) mod incremental;
