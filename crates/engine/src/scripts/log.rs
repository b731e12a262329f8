//! `redis.log`: lines of a script that may still be undone wait for its end, or they would be told
//! again when it runs again.
//!
//! 1. At most `HELD_BYTES` wait. Whoever writes more is told at once from there on, and those lines
//!    come twice if it is undone after all.
//!
//! Tests: crates/server/tests/scripts.rs.

use std::mem;

use pantala_scripting::Level;

/// Lines that wait take so much at most.
const HELD_BYTES: usize = 64 << 10;

/// What a run has logged.
pub(super) struct Log {
    held: Vec<(Level, String)>,
    bytes: usize,
    holds_back: bool,
}

impl Log {
    /// Of a script that can be undone, or not.
    pub fn new(holds_back: bool) -> Log {
        Log { held: Vec::new(), bytes: 0, holds_back }
    }

    /// One more line.
    pub fn add(&mut self, level: Level, line: &[u8]) {
        let line = String::from_utf8_lossy(line).into_owned();
        self.bytes += size_of::<(Level, String)>() + line.len();
        if self.holds_back && self.bytes > HELD_BYTES {
            self.tell();
        }
        match self.holds_back {
            true => self.held.push((level, line)),
            false => write(level, &line),
        }
    }

    /// What it did has happened: its lines are told, and those to come at once.
    pub fn tell(&mut self) {
        self.holds_back = false;
        for (level, line) in mem::take(&mut self.held) {
            write(level, &line);
        }
    }

    /// It is undone.
    pub fn forget(&mut self) {
        self.held.clear();
    }
}

fn write(level: Level, line: &str) {
    match level {
        Level::Debug | Level::Verbose => tracing::debug!(target: "pantala::script", "{line}"),
        Level::Notice => tracing::info!(target: "pantala::script", "{line}"),
        Level::Warning => tracing::warn!(target: "pantala::script", "{line}"),
    }
}
