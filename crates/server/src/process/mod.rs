//! The process: its threads, its listening sockets, its files, its log, its end.
//!
//! | file | what |
//! |---|---|
//! | `start`, `stopping`, `signals` | how it begins and ends |
//! | `listening` | its sockets |
//! | `background/` | threads that keep house |
//! | `files/` | what it keeps, and where |
//! | `system/` | what the machine lets it have, and who started it |
//! | `control`, `logging/` | an async runtime for what speaks to other machines; the log |

pub mod background;
pub mod control;
pub mod files;
pub mod listening;
pub mod logging;
pub mod signals;
pub mod start;
pub mod stopping;
pub mod system;
