//! The files of the server, and the threads that write and read them.
//!
//! | file | what |
//! |---|---|
//! | `place` | where they are: a directory, or object storage |
//! | `saving`, `loading/` | snapshots |
//! | `journaling/`, `rewriting` | the append-only file |
//! | `whole_file` | a small file that is replaced as a whole |
//!
//! Not here: the contents of files, and the order in which their parts become durable
//! (`persistence`, `rdb`); what is saved before a stop (`stopping`).

pub mod journaling;
pub mod loading;
pub mod place;
pub mod rewriting;
pub mod saving;
pub mod whole_file;
