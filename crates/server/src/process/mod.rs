//! The process: its threads, its listening sockets, its log, its end.
//!
//! | file | what |
//! |---|---|
//! | `start`, `stopping`, `signals` | how it begins and ends |
//! | `asked` | what commands ask of it |
//! | `listening` | its listening sockets |
//! | `background/` | background threads |
//! | `system/` | limits of the machine, confinement, supervision, crash reports |
//! | `logging/` | the log |

mod asked;
pub mod background;
pub mod logging;
pub mod signals;
pub mod start;
pub mod stopping;
pub mod system;
