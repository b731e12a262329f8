//! One command being run: what its handler is given, and what may become of it.
//!
//! | file | what |
//! |---|---|
//! | `call` | what a handler is given, and how it may end |
//! | `owned_args` | its arguments, beyond the bytes they were read from |
//! | `errand` | what it has done on another machine |
//! | `record` | in which form it is recorded |
//! | `aside` | how that is told which not all readers know |
//!
//! Not here: what works on very much for long (`long_work`); who calls handlers (the engine).

pub(crate) mod aside;
pub(crate) mod call;
pub(crate) mod errand;
pub(crate) mod owned_args;
pub(crate) mod record;
