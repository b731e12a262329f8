//! What a server does and costs: commands that show it, and warnings about the machine.
//!
//! | file | what |
//! |---|---|
//! | `commandlog` | COMMANDLOG, SLOWLOG |
//! | `hotkeys` | HOTKEYS |
//! | `latency` | LATENCY |
//! | `memory` | MEMORY |
//! | `monitor` | MONITOR |
//! | `host` | warnings about unusual settings of the machine |

pub mod commandlog;
pub mod host;
pub mod hotkeys;
pub mod latency;
pub mod memory;
pub mod monitor;
