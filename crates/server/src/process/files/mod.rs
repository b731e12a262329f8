//! The files the server keeps, and the threads that write and read them.
//!
//! | file | what |
//! |---|---|
//! | `place` | where they lie: a directory, or object storage |
//! | `saving`, `loading/` | snapshots |
//! | `journaling/`, `rewriting` | the append-only file |
//! | `whole_file` | a small file that is replaced as a whole |
//!
//! Not here: what is in a file, and in which order its parts become durable (`persistence`, `rdb`);
//! what is saved at the end (`stopping`).

pub mod journaling;
pub mod loading;
pub mod place;
pub mod rewriting;
pub mod saving;
pub mod whole_file;
