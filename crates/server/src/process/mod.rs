//! The process: its threads, its listening sockets, its files, its log, its end.
//!
//! | file | what |
//! |---|---|
//! | `start`, `stopping`, `signals` | how it begins and ends |
//! | `listening` | its listening sockets |
//! | `background/` | background threads |
//! | `files/` | snapshots and the append-only file |
//! | `system/` | limits of the machine, confinement, supervision, crash reports |
//! | `control`, `logging/` | an async runtime for connections to other machines; the log |

pub mod background;
pub mod control;
pub mod files;
pub mod listening;
pub mod logging;
pub mod signals;
pub mod start;
pub mod stopping;
pub mod system;
