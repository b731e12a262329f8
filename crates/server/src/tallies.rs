//! What each thread counts for INFO, and the sum over all threads.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

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
    /// Connections closed because all of them together had too much in their buffers.
    pub evicted_clients: Count,
    /// Connections given to another worker because this one was too busy.
    pub moved: Count,
    /// Bytes that connections and their buffers take now.
    pub client_bytes: Count,
    /// Error replies.
    pub errors: Count,
    /// Errors of ours.
    pub unexpected_errors: Count,
    /// See [`ThreadTally::inside`].
    inside: OnceLock<Box<ThreadTally>>,
}

impl ThreadTally {
    /// Zeroes, for a table of this many rows.
    pub fn new(rows: usize) -> Self {
        ThreadTally {
            keys: Tally::default(),
            commands: (0..rows).map(|_| CommandTally::default()).collect(),
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
            evicted_clients: Count::default(),
            moved: Count::default(),
            client_bytes: Count::default(),
            errors: Count::default(),
            unexpected_errors: Count::default(),
            inside: OnceLock::new(),
        }
    }

    /// Where a script counts that may still be undone: all zeroes between two scripts, and in no
    /// sum.
    pub fn inside(&self) -> &ThreadTally {
        self.inside.get_or_init(|| Box::new(ThreadTally::new(self.commands.len())))
    }

    /// Takes over what was counted inside, by commands of these rows; or, when it did not happen,
    /// no more than what has expired meanwhile.
    pub fn settle_inside(&self, rows: &[u16], has_happened: bool) {
        let inside = self.inside();
        let (mine, keys) = (&self.keys, &inside.keys);
        mine.expired.add(keys.expired.take());
        mine.expired_elements.add(keys.expired_elements.take());
        mine.reclaimed.add(keys.reclaimed.take());
        let happened = [
            (&mine.hits, &keys.hits),
            (&mine.misses, &keys.misses),
            (&mine.changes, &keys.changes),
            (&self.errors, &inside.errors),
            (&self.unexpected_errors, &inside.unexpected_errors),
        ];
        for (mine, inside) in happened {
            let counted = inside.take();
            mine.add(if has_happened { counted } else { 0 });
        }
        for row in rows.iter().map(|&row| usize::from(row)) {
            self.commands[row].settle_inside(&inside.commands[row], has_happened);
        }
    }
}

impl CommandTally {
    /// Adds one execution to the time and the histogram.
    #[inline]
    pub fn took(&self, nanoseconds: u64) {
        self.nanoseconds.add(nanoseconds);
        let microseconds = nanoseconds / 1000;
        let bucket = (u64::BITS - microseconds.leading_zeros()) as usize;
        self.latency[bucket.min(LATENCY_BUCKETS - 1)].add(1);
    }

    fn settle_inside(&self, inside: &CommandTally, has_happened: bool) {
        // What took no time, as most of a script's commands, is in the first bucket alone.
        let buckets = if inside.nanoseconds.get() == 0 { 1 } else { LATENCY_BUCKETS };
        let counts = [
            (&self.calls, &inside.calls),
            (&self.nanoseconds, &inside.nanoseconds),
            (&self.rejected, &inside.rejected),
            (&self.failed, &inside.failed),
        ];
        let latency = self.latency.iter().zip(&inside.latency).take(buckets);
        for (mine, inside) in counts.into_iter().chain(latency) {
            let counted = inside.take();
            mine.add(if has_happened { counted } else { 0 });
        }
    }

    fn each(&self, see: &mut dyn FnMut(&Count)) {
        for count in [&self.calls, &self.nanoseconds, &self.rejected, &self.failed] {
            see(count);
        }
        self.latency.iter().for_each(see);
    }
}

impl ThreadTally {
    /// Shows every count, always in the same order.
    fn each(&self, see: &mut dyn FnMut(&Count)) {
        let keys = &self.keys;
        for count in [&keys.hits, &keys.misses, &keys.expired, &keys.changes, &keys.reclaimed] {
            see(count);
        }
        for count in [&self.received_bytes, &self.sent_bytes, &self.reads, &self.writes] {
            see(count);
        }
        for count in [&self.accepted, &self.refused, &self.turns, &self.parked, &self.laned] {
            see(count);
        }
        for count in [&self.output_limit, &self.input_limit, &self.errors] {
            see(count);
        }
        // Not client_bytes: what is there now is not forgotten by CONFIG RESETSTAT.
        see(&self.unexpected_errors);
        see(&keys.expired_elements);
        see(&self.evicted_clients);
        see(&self.moved);
        self.commands.iter().for_each(|row| row.each(see));
    }
}

/// The counts of one row, over all threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowTotals {
    /// Executed.
    pub calls: u64,
    /// Time in execution, in nanoseconds.
    pub nanoseconds: u64,
    /// Refused before execution.
    pub rejected: u64,
    /// Ended with an error.
    pub failed: u64,
    /// Executions by their duration.
    pub latency: [u64; LATENCY_BUCKETS],
}

impl RowTotals {
    /// Adds (or, with -1, takes off) the counts of one thread.
    fn add(&mut self, row: &CommandTally, sign: i64) {
        let times = |count: &Count| count.get().wrapping_mul(sign.cast_unsigned());
        self.calls = self.calls.wrapping_add(times(&row.calls));
        self.nanoseconds = self.nanoseconds.wrapping_add(times(&row.nanoseconds));
        self.rejected = self.rejected.wrapping_add(times(&row.rejected));
        self.failed = self.failed.wrapping_add(times(&row.failed));
        for (sum, bucket) in self.latency.iter_mut().zip(&row.latency) {
            *sum = sum.wrapping_add(times(bucket));
        }
    }

    /// Executions that were timed.
    pub fn timed(&self) -> u64 {
        self.latency.iter().sum()
    }
}

/// The tallies of all threads that ever counted.
///
/// A count has one writer, so CONFIG RESETSTAT cannot set it back: it notes where all stand,
/// and that is taken off from then on.
pub struct Tallies {
    all: Mutex<Vec<Arc<ThreadTally>>>,
    at_reset: Mutex<ThreadTally>,
    rows: usize,
}

impl Tallies {
    /// For a table of this many rows.
    pub fn new(rows: usize) -> Self {
        let at_reset = Mutex::new(ThreadTally::new(rows));
        Tallies { all: Mutex::new(Vec::new()), at_reset, rows }
    }

    /// A new thread's tally.
    pub fn join(&self) -> Arc<ThreadTally> {
        let tally = Arc::new(ThreadTally::new(self.rows));
        self.all.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&tally));
        tally
    }

    /// One count, over all threads, since the last reset.
    pub fn sum(&self, pick: impl Fn(&ThreadTally) -> u64) -> u64 {
        let sum = self.sum_ever(&pick);
        let at_reset = self.at_reset.lock().unwrap_or_else(PoisonError::into_inner);
        sum.wrapping_sub(pick(&at_reset))
    }

    /// One count, over all threads, since the start.
    pub fn sum_ever(&self, pick: impl Fn(&ThreadTally) -> u64) -> u64 {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|tally| pick(tally)).fold(0, u64::wrapping_add)
    }

    /// The counts of one row, over all threads, since the last reset.
    pub fn row(&self, number: usize) -> RowTotals {
        let mut totals = RowTotals::default();
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        for tally in all.iter() {
            totals.add(&tally.commands[number], 1);
        }
        let at_reset = self.at_reset.lock().unwrap_or_else(PoisonError::into_inner);
        totals.add(&at_reset.commands[number], -1);
        totals
    }

    /// CONFIG RESETSTAT: all sums begin again at zero.
    pub fn reset(&self) {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sums: Vec<u64> = Vec::new();
        for tally in all.iter() {
            let mut position = 0;
            tally.each(&mut |count| {
                if position == sums.len() {
                    sums.push(0);
                }
                sums[position] = sums[position].wrapping_add(count.get());
                position += 1;
            });
        }
        let at_reset = self.at_reset.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sums = sums.into_iter();
        at_reset.each(&mut |count| count.set(sums.next().unwrap_or(0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_over_threads_begin_again() {
        let tallies = Tallies::new(2);
        let (one, two) = (tallies.join(), tallies.join());
        one.reads.add(3);
        two.reads.add(4);
        two.commands[1].calls.add(5);
        two.commands[1].latency[3].add(5);
        assert_eq!(tallies.sum(|tally| tally.reads.get()), 7);
        assert_eq!((tallies.row(1).calls, tallies.row(1).timed()), (5, 5));
        tallies.reset();
        two.reads.add(1);
        two.commands[1].calls.add(2);
        assert_eq!(tallies.sum(|tally| tally.reads.get()), 1);
        assert_eq!(tallies.sum_ever(|tally| tally.reads.get()), 8);
        assert_eq!((tallies.row(1).calls, tallies.row(1).timed()), (2, 0));
        assert_eq!(tallies.row(0).calls, 0);
    }
}
