//! The process: its threads, its listening sockets, its log, its end.

pub mod background;
mod confinement;
pub mod control;
pub mod flushing;
pub(crate) mod host;
pub mod journaling;
pub mod limits;
pub mod listening;
pub mod loading;
pub mod logging;
pub(crate) mod pidfile;
pub mod place;
pub mod renewing;
pub mod rewriting;
pub mod saving;
pub mod signals;
pub mod start;
pub mod stopping;
pub mod supervision;
pub mod whole_file;
