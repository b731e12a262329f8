//! Files of the journal and of snapshots: writing, reading and checking them.
//!
//! ```text
//! disk      file operations, real or simulated                      a trait
//! aof       manifest, base and increments: written, read            sans-thread
//! snapshot  snapshot files: written                                 sans-thread
//! loading   snapshot files: read                                    sans-thread
//! check     content of a file, and where it breaks                  `pantala check`
//! runs      the last snapshots and rewrites, for operators          in memory
//! ```
//!
//! 1. Everything goes through [`disk`], so that a test can lose what was not synced.
//! 2. No thread is started here, and no clock is read: callers drive each part. (`aof::replay` runs
//!    commands, so it reads the clock as the slow lane does.)
//!
//! Not here: the RDB format (`pantala-rdb`); what is recorded and in which order
//! (`pantala-journal`); when something is written, and threads (`pantala-server`).

#![forbid(unsafe_code)]

pub mod aof;
pub mod check;
pub mod disk;
pub mod loading;
pub mod runs;
pub mod snapshot;
