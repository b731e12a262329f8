//! The append-only file: Redis 7's layout of several files and a manifest that names them.
//!
//! ```text
//! dir/appendonlydir/appendonly.aof.manifest         which of the others count, and in which order
//!                   appendonly.aof.lengths          what else is known of them, for Pantala
//!                   appendonly.aof.2.base.rdb       a snapshot: everything up to a cut
//!                   appendonly.aof.5.incr.aof       steps after the cut, in RESP
//!                   appendonly.aof.6.incr.aof       steps after those
//! ```
//!
//! | file | what |
//! |---|---|
//! | `manifest` | the text of the manifest |
//! | `lengths` | what is known of the files beyond that |
//! | `layout` | file names, the manifest on disk, taking over an old server's file |
//! | `writer` | appending steps, syncing, rewriting |
//! | `commands` | keys as commands: a base that is not a snapshot |
//! | `growth` | whether a rewrite is due |
//! | `steps` | parsing steps, sans-IO |
//! | `reader` | reading a file of steps, to its end or to a break |
//! | `files` | all files of a manifest, in order |
//! | `load` | loading those files |
//! | `replay` | running their commands through the engine |
//!
//! A *step* is executed as a whole or not at all: a command, or MULTI to EXEC.
//!
//! Not here: the RDB format, when a rewrite begins, threads.

pub mod commands;
pub mod files;
pub mod growth;
pub mod layout;
pub mod lengths;
pub mod load;
pub mod manifest;
pub mod reader;
pub mod replay;
pub mod steps;
pub mod writer;

pub use growth::{Growth, GrowthRules};
pub use layout::{AofLayout, BaseKind};
pub use manifest::{Manifest, Part};
pub use writer::{AofWriter, Fault, RemoveJob, Rewrite, SyncDone, SyncJob};
