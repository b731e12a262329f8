//! Writes snapshot files: from the walkers' pieces to a file that is whole or absent.
//!
//! ```text
//! walkers, commands --> target (RDB) --> queue, bounded --> write --> temp-<pid>.rdb --> its name
//!                                           full: walkers pause, then commands wait
//! ```
//!
//! | file | what |
//! |---|---|
//! | `target` | keys as RDB, for the keyspace's snapshot |
//! | `queue` | pieces on their way to the file |
//! | `write` | the file: head, pieces, end, checksum; sync and rename |
//! | `name` | names of files |
//! | `schedule` | when one is due |
//! | `history` | outcomes of past snapshots |
//!
//! Invariants
//! 1. A file with the final name is whole and synced: it was written under another name first.
//! 2. A file that was begun and not finished is removed, whatever the reason.
//! 3. About `queue::FULL_BYTES` lie between walkers and the disk, and at most `OVERFULL_BYTES` plus
//!    the pieces of commands that do not wait.
//!
//! Not here: which keys are written when (`pantala_keyspace::snapshot`), the format
//! (`pantala-rdb`), threads and the moment (`pantala-server`). Tests: at the foot of the files.

pub mod history;
pub mod name;
pub mod queue;
pub mod schedule;
pub mod target;
pub mod write;

pub use history::SavedHistory;
pub use queue::SnapshotQueue;
pub use schedule::Schedule;
pub use target::RdbTarget;
pub use write::{Fault, Form, NoPieces, PieceSource, SnapshotFacts, write};
