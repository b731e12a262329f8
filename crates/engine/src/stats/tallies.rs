//! The counters of each thread for INFO, and the sums over all threads.
//!
//! A count is declared once, by `counts!`; sums, CONFIG RESETSTAT and what stays of an undone
//! script derive from that. Tests: at the foot.

use std::sync::{Arc, OnceLock};

use pantala_keyspace::{Count, Tally, counts};
use parking_lot::Mutex;

use super::errors::{ErrorCode, ErrorCounts, ErrorsInside};
use super::histogram::Histogram;
use super::hot_keys::SeenByThread;
use super::hot_keys::sample::SampledByThread;

counts! {
    /// Counts of one row of the command table.
    struct CommandTally() {
        /// Executed.
        calls: Script,
        /// Time in execution, in nanoseconds.
        nanoseconds: Script,
        /// Refused before execution.
        rejected: Script,
        /// Ended with an error.
        failed: Script,
    }
    beside {
        /// Executions by duration, while `latency-tracking` was on.
        pub times: Histogram = Histogram::default(),
    }
}

counts! {
    /// The counters of one thread, for a command table with this many rows.
    struct ThreadTally(rows: usize) {
        /// Bytes received.
        received_bytes: Thread,
        /// Bytes sent.
        sent_bytes: Thread,
        /// Receives with data.
        reads: Thread,
        /// Sends completed.
        writes: Thread,
        /// Connections accepted.
        accepted: Thread,
        /// Connections refused.
        refused: Thread,
        /// Turns of the loop.
        turns: Thread,
        /// Commands that parked because a partition was busy.
        parked: Thread,
        /// Commands given to the slow lane.
        laned: Thread,
        /// Connections closed for too much output.
        output_limit: Thread,
        /// Connections closed for too much input.
        input_limit: Thread,
        /// Connections closed because they took too long to authenticate.
        late_logins: Thread,
        /// Connections closed because the buffers of all clients together took too much.
        evicted_clients: Thread,
        /// Connections given to another worker because this one was too busy.
        moved: Thread,
        /// Blocks that defragmentation has moved,
        blocks_moved: Thread,
        /// and blocks that it has left in place.
        blocks_left: Thread,
        /// Keys of which defragmentation has moved some block,
        keys_moved: Thread,
        /// and keys of which it has moved none.
        keys_left: Thread,
        /// Microseconds in which there was something to defragment.
        defrag_us: Thread,
        /// Microseconds that the sweep spent on looking for expired keys.
        expire_cycle_us: Thread,
        /// The recent share of expired keys among those that the sweep looks at, in millionths.
        expired_share_ppm: Level,
        /// Since when there is something to defragment (monotonic, microseconds); 0: there is
        /// nothing.
        defrag_since_us: Level,
        /// Percentage of a core that defragmentation takes now.
        defrag_percent: Level,
        /// Bytes that connections and their buffers take now.
        client_bytes: Level,
        /// Of these, bytes of replicas' connections and their buffers.
        replica_bytes: Level,
        /// Bytes of the spare buffer for replicas, not in `client_bytes`.
        replica_spare_bytes: Level,
        /// The most commands that one turn of the loop has run,
        most_in_turn: Level,
        /// and the longest time that a turn ran commands, in microseconds.
        longest_turn_us: Level,
        /// Error replies.
        errors: Script,
        /// Errors of ours.
        unexpected_errors: Script,
    }
    beside {
        /// The counters of the keyspace.
        pub keys: Tally = Tally::default(),
        /// The counters of each row.
        pub commands: Box<[CommandTally]> = (0..rows).map(|_| CommandTally::new()).collect(),
        /// Error replies by code, of what may still be undone.
        codes: OnceLock<ErrorsInside> = OnceLock::new(),
        /// The notes for HOTKEYS, while a session runs.
        pub hot_keys: SeenByThread = SeenByThread::default(),
        /// The notes of the sample of keys, while there is no session either.
        pub sampled_keys: SampledByThread = SampledByThread::default(),
        /// The counters of what may still be undone; see [`ThreadTally::inside`].
        inside: OnceLock<Box<ThreadTally>> = OnceLock::new(),
    }
}

impl ThreadTally {
    /// Notes how many commands a turn has run, and for how many microseconds.
    #[inline]
    pub fn note_turn(&self, commands: u64, us: u64) {
        for (most, now) in [(&self.most_in_turn, commands), (&self.longest_turn_us, us)] {
            if now > most.get() {
                most.set(now);
            }
        }
    }

    /// Bytes that connections take, without those of replicas.
    pub fn own_client_bytes(&self) -> u64 {
        self.client_bytes.get().saturating_sub(self.replica_bytes.get())
    }

    /// The counters of a script or transaction that may still be undone: zero between two of them,
    /// and in no sum.
    pub fn inside(&self) -> &ThreadTally {
        self.inside.get_or_init(|| {
            let inside = ThreadTally::new(self.commands.len());
            inside.codes.get_or_init(ErrorsInside::default);
            Box::new(inside)
        })
    }

    /// Counts an error reply; its code is counted by all threads together.
    #[cold]
    pub fn count_error(&self, errors: &ErrorCounts, code: &str) {
        self.count_code(errors, ErrorCode::Own(code.into()));
    }

    /// Counts an error reply that a script has made.
    #[cold]
    pub fn count_made_error(&self, errors: &ErrorCounts, code: &str) {
        self.count_code(errors, ErrorCode::Made(code.into()));
    }

    fn count_code(&self, errors: &ErrorCounts, code: ErrorCode) {
        self.errors.add(1);
        match self.codes.get() {
            Some(inside) => inside.count(code),
            None => errors.add(code, 1),
        }
    }

    /// Adds what was counted inside, by commands of these rows; or, if it did not happen, only what
    /// has expired meanwhile.
    pub fn settle_inside(&self, rows: &[u16], has_happened: bool, errors: &ErrorCounts) {
        let inside = self.inside();
        let has_errors = inside.errors.get() > 0;
        if let Some(codes) = inside.codes.get().filter(|_| has_errors) {
            let counted = codes.take().into_iter().filter(|_| has_happened);
            counted.for_each(|(code, count)| errors.add(code, count));
        }
        self.settle_counts(inside, has_happened);
        self.keys.settle_counts(&inside.keys, has_happened);
        for row in rows.iter().map(|&row| usize::from(row)) {
            self.commands[row].settle_inside(&inside.commands[row], has_happened);
        }
    }

    /// Visits each count that CONFIG RESETSTAT resets, together with the other's.
    fn each_with(&self, other: &ThreadTally, see: &mut dyn FnMut(&Count, &Count)) {
        self.each_count_with(other, see);
        self.keys.each_count_with(&other.keys, see);
        for (row, other) in self.commands.iter().zip(&other.commands) {
            row.each_with(other, see);
        }
    }
}

impl CommandTally {
    /// Adds one execution to the time, and to the histogram if there is one.
    #[inline]
    pub fn took(&self, nanoseconds: u64, has_histogram: bool) {
        self.nanoseconds.add(nanoseconds);
        if has_histogram {
            self.times.add(nanoseconds);
        }
    }

    fn settle_inside(&self, inside: &CommandTally, has_happened: bool) {
        let most_ns = inside.nanoseconds.get();
        self.settle_counts(inside, has_happened);
        self.times.settle(&inside.times, most_ns, has_happened);
    }

    fn each_with(&self, other: &CommandTally, see: &mut dyn FnMut(&Count, &Count)) {
        self.each_count_with(other, see);
        self.times.each_with(&other.times, see);
    }
}

/// The tallies of all threads that ever counted.
///
/// A count has one writer, so CONFIG RESETSTAT cannot set it to zero: it notes the present values,
/// which are subtracted from then on.
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

    /// A tally for the calling thread: one that no thread uses any more, with its counts, or a new
    /// one.
    pub fn join(&self) -> Arc<ThreadTally> {
        let mut all = self.all.lock();
        // This also orders earlier counts before later ones.
        if let Some(left) = all.iter_mut().find_map(|tally| {
            Arc::get_mut(tally)?;
            Some(Arc::clone(tally))
        }) {
            return left;
        }
        let tally = Arc::new(ThreadTally::new(self.rows));
        all.push(Arc::clone(&tally));
        tally
    }

    /// Calls `see` with the tally of each thread.
    pub fn each(&self, see: &mut dyn FnMut(&ThreadTally)) {
        let all = self.all.lock();
        all.iter().for_each(|tally| see(tally));
    }

    /// The sum of one count over all threads, since the last reset.
    pub fn sum(&self, pick: impl Fn(&ThreadTally) -> u64) -> u64 {
        let sum = self.sum_ever(&pick);
        let at_reset = self.at_reset.lock();
        sum.wrapping_sub(pick(&at_reset))
    }

    /// The largest value of one count over all threads.
    pub fn most(&self, pick: impl Fn(&ThreadTally) -> u64) -> u64 {
        let all = self.all.lock();
        all.iter().map(|tally| pick(tally)).max().unwrap_or(0)
    }

    /// The sum of one count over all threads, since the start.
    pub fn sum_ever(&self, pick: impl Fn(&ThreadTally) -> u64) -> u64 {
        let all = self.all.lock();
        all.iter().map(|tally| pick(tally)).fold(0, u64::wrapping_add)
    }

    /// The counts of one row, over all threads, since the last reset.
    pub fn row(&self, number: usize) -> CommandTally {
        let sums = CommandTally::new();
        let all = self.all.lock();
        for tally in all.iter() {
            sums.each_with(&tally.commands[number], &mut |sum, count| sum.add(count.get()));
        }
        let at_reset = self.at_reset.lock();
        let before = &at_reset.commands[number];
        sums.each_with(before, &mut |sum, count| sum.set(sum.get().wrapping_sub(count.get())));
        sums
    }

    /// CONFIG RESETSTAT: all sums begin again at zero.
    pub fn reset(&self) {
        let all = self.all.lock();
        let sums = ThreadTally::new(self.rows);
        for tally in all.iter() {
            sums.each_with(tally, &mut |sum, count| sum.add(count.get()));
            // Maxima begin again; a turn at this moment may count for either period.
            tally.most_in_turn.set(0);
            tally.longest_turn_us.set(0);
        }
        *self.at_reset.lock() = sums;
    }
}

#[cfg(test)]
mod tests {
    use pantala_keyspace::CountClass;

    use super::*;

    #[test]
    fn sums_over_threads_begin_again() {
        let tallies = Tallies::new(2);
        let (one, two) = (tallies.join(), tallies.join());
        one.reads.add(3);
        two.reads.add(4);
        two.commands[1].calls.add(5);
        two.commands[1].times.add(5_000);
        assert_eq!(tallies.sum(|tally| tally.reads.get()), 7);
        assert_eq!((tallies.row(1).calls.get(), tallies.row(1).times.total()), (5, 1));
        tallies.reset();
        two.reads.add(1);
        two.commands[1].calls.add(2);
        assert_eq!(tallies.sum(|tally| tally.reads.get()), 1);
        assert_eq!(tallies.sum_ever(|tally| tally.reads.get()), 8);
        assert_eq!((tallies.row(1).calls.get(), tallies.row(1).times.total()), (2, 0));
        assert_eq!(tallies.row(0).calls.get(), 0);
    }

    #[test]
    fn who_leaves_leaves_its_tally_to_the_next() {
        let tallies = Tallies::new(1);
        let stays = tallies.join();
        for _ in 0..3 {
            let leaves = tallies.join();
            assert!(!Arc::ptr_eq(&leaves, &stays), "one writer each");
            leaves.reads.add(1);
        }
        let mut count = 0;
        tallies.each(&mut |_| count += 1);
        assert_eq!((count, tallies.sum(|tally| tally.reads.get())), (2, 3));
    }

    /// Every count of a thread, of its keys and of one row.
    fn every(tally: &ThreadTally) -> impl Iterator<Item = (CountClass, &Count)> {
        let counts = tally.counts().chain(tally.keys.counts()).chain(tally.commands[0].counts());
        counts.map(|(_, class, count)| (class, count))
    }

    #[test]
    fn no_count_is_forgotten_by_a_reset() {
        let tallies = Tallies::new(1);
        let tally = tallies.join();
        every(&tally).for_each(|(_, count)| count.set(5));
        tallies.reset();
        let at_reset = tallies.at_reset.lock();
        for (number, (class, count)) in every(&at_reset).enumerate() {
            assert_eq!(count.get(), if class == CountClass::Level { 0 } else { 5 }, "{number}");
        }
    }

    #[test]
    fn no_count_of_a_script_is_forgotten_or_lost() {
        for has_happened in [false, true] {
            let tally = ThreadTally::new(1);
            every(tally.inside()).for_each(|(_, count)| count.set(5));
            tally.inside().commands[0].times.add(5);
            tally.settle_inside(&[0], has_happened, &ErrorCounts::default());
            for (number, (class, count)) in every(&tally).enumerate() {
                let counts =
                    class == CountClass::Kept || class == CountClass::Script && has_happened;
                assert_eq!(count.get(), if counts { 5 } else { 0 }, "{number}");
            }
            assert_eq!(tally.commands[0].times.total(), u64::from(has_happened));
            for (class, count) in every(tally.inside()) {
                assert!(
                    count.get() == 0 || matches!(class, CountClass::Thread | CountClass::Level)
                );
            }
        }
    }
}
