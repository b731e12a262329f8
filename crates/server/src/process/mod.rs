//! The process: its threads, its listening sockets, its log, its end.

pub mod background;
pub mod listening;
pub mod loading;
pub mod logging;
pub mod saving;
pub mod signals;
pub mod start;
pub mod stopping;
