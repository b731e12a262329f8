//! What each thread counts for INFO, and the sum over all threads.

use std::sync::{Arc, Mutex, PoisonError};

use pantala_keyspace::{Count, Tally};

/// Buckets of a latency histogram: bucket `n` counts what took less than 2^n microseconds.
pub const LATENCY_BUCKETS: usize = 32;

/// Counts of one row of the command table.
#[derive(Default)]
pub struct CommandTally {
    /// Executed.
    pub calls: Count,
    /// Time in execution, in nanoseconds.
    pub nanoseconds: Count,
    /// Refused before execution.
    pub rejected: Count,
    /// Ended with an error.
    pub failed: Count,
    /// Executions by their duration.
    pub latency: [Count; LATENCY_BUCKETS],
}

/// Counts of one thread.
pub struct ThreadTally {
    /// Of the keyspace.
    pub keys: Tally,
    /// By row.
    pub commands: Box<[CommandTally]>,
    /// Commands executed.
    pub executed: Count,
    /// Bytes received.
    pub received_bytes: Count,
    /// Bytes sent.
    pub sent_bytes: Count,
    /// Receives with data.
    pub reads: Count,
    /// Sends completed.
    pub writes: Count,
    /// Connections accepted.
    pub accepted: Count,
    /// Connections refused.
    pub refused: Count,
    /// Turns of the loop.
    pub turns: Count,
    /// Commands that parked because a partition was busy.
    pub parked: Count,
    /// Commands given to the slow lane.
    pub laned: Count,
    /// Connections closed for too much output.
    pub output_limit: Count,
    /// Connections closed for too much input.
    pub input_limit: Count,
    /// Error replies.
    pub errors: Count,
    /// Errors of ours.
    pub unexpected_errors: Count,
}

impl ThreadTally {
    /// Zeroes, for a table of this many rows.
    pub fn new(rows: usize) -> Self {
        ThreadTally {
            keys: Tally::default(),
            commands: (0..rows).map(|_| CommandTally::default()).collect(),
            executed: Count::default(),
            received_bytes: Count::default(),
            sent_bytes: Count::default(),
            reads: Count::default(),
            writes: Count::default(),
            accepted: Count::default(),
            refused: Count::default(),
            turns: Count::default(),
            parked: Count::default(),
            laned: Count::default(),
            output_limit: Count::default(),
            input_limit: Count::default(),
            errors: Count::default(),
            unexpected_errors: Count::default(),
        }
    }
}

impl CommandTally {
    fn reset(&self) {
        for count in [&self.calls, &self.nanoseconds, &self.rejected, &self.failed] {
            count.set(0);
        }
        self.latency.iter().for_each(|bucket| bucket.set(0));
    }
}

impl ThreadTally {
    /// CONFIG RESETSTAT; on the thread that counts, or while it does nothing.
    pub fn reset(&self) {
        let keys = &self.keys;
        for count in [&keys.hits, &keys.misses, &keys.expired, &keys.changes, &keys.reclaimed] {
            count.set(0);
        }
        for count in [&self.executed, &self.received_bytes, &self.sent_bytes, &self.reads] {
            count.set(0);
        }
        for count in [&self.writes, &self.accepted, &self.refused, &self.turns, &self.parked] {
            count.set(0);
        }
        for count in [&self.laned, &self.output_limit, &self.input_limit, &self.errors] {
            count.set(0);
        }
        self.unexpected_errors.set(0);
        self.commands.iter().for_each(CommandTally::reset);
    }
}

/// The tallies of all threads that ever counted.
pub struct Tallies {
    all: Mutex<Vec<Arc<ThreadTally>>>,
    rows: usize,
}

impl Tallies {
    /// For a table of this many rows.
    pub fn new(rows: usize) -> Self {
        Tallies { all: Mutex::new(Vec::new()), rows }
    }

    /// A new thread's tally.
    pub fn join(&self) -> Arc<ThreadTally> {
        let tally = Arc::new(ThreadTally::new(self.rows));
        self.all.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&tally));
        tally
    }

    /// One count, over all threads.
    pub fn sum(&self, pick: impl Fn(&ThreadTally) -> u64) -> u64 {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|tally| pick(tally)).fold(0, u64::wrapping_add)
    }
}
