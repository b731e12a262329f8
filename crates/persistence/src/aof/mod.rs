//! The append-only file: Redis 7's layout of several files and a manifest that names them.
//!
//! ```text
//! dir/appendonlydir/appendonly.aof.manifest         which of the others count, and in which order
//!                   appendonly.aof.2.base.rdb       a snapshot: everything up to a cut
//!                   appendonly.aof.5.incr.aof       steps after the cut, in RESP
//!                   appendonly.aof.6.incr.aof       steps after those
//! ```
//!
//! | file | what |
//! |---|---|
//! | `manifest` | the text of the manifest |
//! | `layout` | names of files, the manifest on disk, taking in what an old server left |
//! | `writer` | steps are kept, files are begun anew |
//! | `commands` | keys as commands: a base that is no snapshot |
//! | `growth` | whether that is due |
//! | `steps` | bytes become steps, sans-IO |
//! | `reader` | a file of steps, to its end or to where it breaks |
//! | `files` | all files of a manifest, in order |
//! | `load` | those files loaded |
//! | `replay` | their commands run through the engine |
//!
//! A *step* is what is done whole or not at all: a command, or MULTI to EXEC.
//!
//! Not here: RDB's bytes, when a rewrite begins, threads.

pub mod commands;
pub mod files;
pub mod growth;
pub mod layout;
pub mod load;
pub mod manifest;
pub mod reader;
pub mod replay;
pub mod steps;
pub mod writer;

pub use growth::{Growth, GrowthRules};
pub use layout::{BaseKind, Layout};
pub use manifest::{Manifest, Part};
pub use writer::{Fault, RemoveJob, Rewrite, SyncDone, SyncJob, Writer};
