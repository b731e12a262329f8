//! The server: settings, sessions, wiring. The only crate that knows all others.
//!
//! ```text
//! main -> start: threads
//!   worker   one a core: reactor, connections, commands       worker, serving, sending, messages
//!   lane     commands that take long                          lane
//!   sweep    expired keys, resident memory                    background
//!   reclaim  large garbage                                    background
//! shared: what they all see (keyspace, command table, settings, counters)
//! ```
//!
//! Commands about the server itself stand in `commands`; all others in the crate `commands`.

#![forbid(unsafe_code)]

mod accept;
mod background;
mod balance;
mod client_filter;
mod client_limits;
pub mod commands;
mod connection;
mod describe;
mod directory;
mod events;
mod execute;
pub mod in_process;
mod inbox;
mod lane;
mod latency_monitor;
mod limits;
mod listening;
pub mod logging;
mod logs;
mod memory;
mod messages;
mod monitors;
mod pause;
mod pubsub;
mod rates;
pub mod scripts;
mod sending;
mod serving;
pub mod shared;
mod shutdown;
pub mod signals;
pub mod start;
mod tallies;
mod tracking;
mod transaction;
mod waiting;
mod worker;
mod workers;
