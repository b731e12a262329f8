//! One command being run: the input of its handler, and its possible ends.
//!
//! | file | what |
//! |---|---|
//! | `call` | the input of a handler, and its ends |
//! | `owned_args` | arguments that outlive the bytes they were read from |
//! | `errand` | work on another machine that a command waits for |
//! | `record` | the form in which a command is recorded |
//! | `aside` | records that not all readers know |
//!
//! Not here: long commands (`long_work`); the callers of handlers (the engine).

pub(crate) mod aside;
pub(crate) mod call;
pub(crate) mod errand;
pub(crate) mod owned_args;
pub(crate) mod record;
