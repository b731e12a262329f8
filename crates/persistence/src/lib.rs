//! What is kept on disk: the files of the journal and of snapshots, written, read and checked.
//!
//! ```text
//! disk      what is done with files, really or in a simulation      a trait
//! aof       manifest, base and increments: written, read            sans-thread
//! snapshot  snapshot files: written                                 sans-thread
//! loading   snapshot files: read                                    sans-thread
//! check     what is in a file, and where it breaks                  `pantala check`
//! ```
//!
//! 1. Everything goes through [`disk`], so that a test can lose what was not synced.
//! 2. No thread is started here, and no clock read: who drives a part calls it. (`aof::replay`
//!    runs commands, so it reads the clock as the slow lane does.)
//!
//! Not here: RDB's bytes (`pantala-rdb`); what is recorded and in which order
//! (`pantala-journal`); when something is written, and threads (`pantala-server`).

#![forbid(unsafe_code)]

pub mod aof;
pub mod check;
pub mod disk;
pub mod loading;
pub mod snapshot;
