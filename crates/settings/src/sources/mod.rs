//! Where settings come from at a start: arguments, the environment, files.
//!
//! | file | what |
//! |---|---|
//! | `start` | precedence: from all of them to the settings of a start |
//! | `flags` | the command line, flag files, variables of the environment |
//! | `conf`, `users` | lines of redis.conf, and those of users among them |
//! | `disk` | the real files of this machine |
//!
//! Not here: what a setting is (`row`) and may hold (`kind`); CONFIG SET and REWRITE (`snapshot`,
//! `rewrite`).

pub(crate) mod conf;
pub(crate) mod disk;
pub(crate) mod flags;
pub(crate) mod start;
pub(crate) mod users;
