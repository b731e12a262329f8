//! Statistics and logs for operators.
//!
//! | file | what |
//! |---|---|
//! | `tallies` | counters, one set a thread |
//! | `histogram` | durations of commands |
//! | `families` | calls and times by family of commands |
//! | `hot_keys` | HOTKEYS: the keys that cost most |
//! | `info_table` | the figures of INFO as a table, for INFO and for metrics |
//! | `errors` | error replies by code |
//! | `logs` | COMMANDLOG: slow and large commands |
//! | `telemetry` | commands sampled for traces |
//! | `latency_monitor` | LATENCY: spikes |

pub mod errors;
pub mod families;
pub mod histogram;
pub mod hot_keys;
pub mod info_table;
pub mod latency_monitor;
pub mod logs;
pub mod tallies;
pub mod telemetry;

pub use errors::{ErrorCode, ErrorCounts};
pub use families::Family;
pub use histogram::{Histogram, Octaves};
pub use hot_keys::HotKeys;
pub use latency_monitor::LatencyMonitor;
pub use logs::Logs;
pub use tallies::{Tallies, ThreadTally};
pub use telemetry::Telemetry;
