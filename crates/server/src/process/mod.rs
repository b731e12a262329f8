//! The process: its threads, its listening sockets, its log, its end.

pub mod background;
pub mod listening;
pub mod logging;
pub mod signals;
pub mod start;
