//! What is counted and kept for who operates the server.
//!
//! | file | what |
//! |---|---|
//! | `tallies` | counters, one set a thread |
//! | `errors` | error replies by code |
//! | `logs` | COMMANDLOG: slow, large |
//! | `latency_monitor` | LATENCY: what took very long |

pub mod errors;
pub mod latency_monitor;
pub mod logs;
pub mod tallies;

pub use errors::ErrorCounts;
pub use latency_monitor::LatencyMonitor;
pub use logs::Logs;
pub use tallies::{Tallies, ThreadTally};
