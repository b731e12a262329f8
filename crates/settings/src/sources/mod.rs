//! The sources of settings at a start: arguments, the environment, files.
//!
//! | file | what |
//! |---|---|
//! | `start` | combining all sources by precedence |
//! | `flags` | the command line, flag files, variables of the environment |
//! | `conf`, `users` | lines of redis.conf, and its lines of users |
//! | `disk` | the real files of this machine |
//!
//! Not here: the declaration (`row`) and the kinds (`kind`) of settings; CONFIG SET and REWRITE
//! (`snapshot`, `rewrite`).

pub(crate) mod conf;
pub(crate) mod disk;
pub(crate) mod flags;
pub(crate) mod start;
pub(crate) mod users;
