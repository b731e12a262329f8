//! What a server keeps: snapshots, the append-only file, and the threads that write and read them.
//!
//! ```text
//! SAVE, BGSAVE, save points --> saving    --> a snapshot in `dir`, or in object storage
//! the journal's thread      --> journaling --> the append-only file, and the stream of replicas
//! BGREWRITEAOF              --> rewriting  --> a new base of the append-only file
//! start, DEBUG RELOAD, copy --> loading    --> the keyspace
//! ```
//!
//! | file | what |
//! |---|---|
//! | `root` | [`Durability`]: the state that all threads share |
//! | `place` | where files are: a directory, or object storage |
//! | `saving`, `saves` | snapshots in `dir`; the one that is being written |
//! | `snapshots/` | the line of those that want to write one; its cut, and what follows |
//! | `loading/` | reading snapshots and append-only files |
//! | `journaling/`, `appending` | writing the append-only file; its state |
//! | `rewriting` | replacing the append-only file's base |
//! | `failures` | commands of other servers that have failed here |
//! | `whole_file` | a small file that is replaced as a whole |
//!
//! Not here: the contents of files, and the order in which their parts become durable
//! (`persistence`, `rdb`); what is saved before a stop (`server`, `process/stopping`).

#![forbid(unsafe_code)]

pub mod appending;
pub mod failures;
pub mod journaling;
pub mod loading;
pub mod place;
pub mod rewriting;
mod root;
pub mod saves;
pub mod saving;
pub mod snapshots;
#[cfg(test)]
mod test_support;
pub mod whole_file;

pub use root::Durability;
