//! What is counted and kept for who operates the server.
//!
//! | file | what |
//! |---|---|
//! | `tallies` | counters, one set a thread |
//! | `histogram` | how long commands took |
//! | `families` | calls and times of families of commands |
//! | `hot_keys` | HOTKEYS: which keys cost most |
//! | `errors` | error replies by code |
//! | `logs` | COMMANDLOG: slow, large |
//! | `telemetry` | commands for traces |
//! | `latency_monitor` | LATENCY: what took very long |

pub mod errors;
pub mod families;
pub mod histogram;
pub mod hot_keys;
pub mod latency_monitor;
pub mod logs;
pub mod tallies;
pub mod telemetry;

pub use errors::ErrorCounts;
pub use families::Family;
pub use histogram::{Histogram, Octaves};
pub use hot_keys::HotKeys;
pub use latency_monitor::LatencyMonitor;
pub use logs::Logs;
pub use tallies::{Tallies, ThreadTally};
pub use telemetry::Telemetry;
