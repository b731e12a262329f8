//! Log lines of scripts: of `redis.log`, and of MONITOR. Lines of a script, or of its transaction,
//! that may still be undone wait for its end; otherwise they would be written again when it runs
//! again.
//!
//! 1. At most `HELD_BYTES` of scripts' lines wait. Beyond that all lines are written at once, and a
//!    second time if the script is undone after all. Those of a transaction's own commands take no
//!    more than what its client has sent.
//!
//! Tests: crates/server/tests/scripts.rs, compat/bad_days (`monitor_of_a_script_that_is_undone`).

use std::mem;

use pantala_scripting::LogLevel;

use crate::clients::monitors::Monitors;

/// The most bytes of lines that wait.
const HELD_BYTES: usize = 64 << 10;

enum Line {
    Logged(LogLevel, String),
    Shown(Vec<u8>),
}

/// The lines of a run.
pub(crate) struct Log<'r> {
    monitors: &'r Monitors,
    held: Vec<Line>,
    bytes: usize,
    holds_back: bool,
}

impl<'r> Log<'r> {
    /// The log of a script that can be undone (`holds_back`), or not.
    pub fn new(monitors: &'r Monitors, holds_back: bool) -> Log<'r> {
        Log { monitors, held: Vec::new(), bytes: 0, holds_back }
    }

    /// Adds a line of `redis.log`.
    pub fn add(&mut self, level: LogLevel, line: &[u8]) {
        let line = String::from_utf8_lossy(line).into_owned();
        self.hold(line.len(), Line::Logged(level, line));
    }

    /// Adds a line for MONITOR.
    #[cold]
    pub fn show(&mut self, line: Vec<u8>) {
        self.hold(line.len(), Line::Shown(line));
    }

    /// Adds a line for MONITOR, of a transaction's own command.
    #[cold]
    pub fn show_own(&mut self, line: Vec<u8>) {
        self.hold(0, Line::Shown(line));
    }

    fn hold(&mut self, bytes: usize, line: Line) {
        self.bytes += size_of::<Line>() + bytes;
        if self.holds_back && self.bytes > HELD_BYTES {
            self.tell();
        }
        match self.holds_back {
            true => self.held.push(line),
            false => self.write(line),
        }
    }

    /// Writes the lines: the script was not undone. Later lines are written at once.
    pub fn tell(&mut self) {
        self.holds_back = false;
        for line in mem::take(&mut self.held) {
            self.write(line);
        }
    }

    /// Drops the lines: the script was undone.
    pub fn forget(&mut self) {
        self.held.clear();
    }

    fn write(&self, line: Line) {
        let (level, line) = match line {
            Line::Shown(line) => return self.monitors.add(&line),
            Line::Logged(level, line) => (level, line),
        };
        match level {
            LogLevel::Debug | LogLevel::Verbose => {
                tracing::debug!(target: "pantala::script", "{line}")
            }
            LogLevel::Notice => tracing::info!(target: "pantala::script", "{line}"),
            LogLevel::Warning => tracing::warn!(target: "pantala::script", "{line}"),
        }
    }
}
