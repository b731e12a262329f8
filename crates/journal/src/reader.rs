//! The reader of the journal: gathers what threads hand over, and takes it in order.
//!
//! ```text
//! loop { gather --> up to where it is complete ; take --> runs and cuts ; wait }
//! ```
//!
//! Invariants
//! 1. Everything that is emitted is complete: nothing emitted later belongs before it (`order`).
//! 2. There is one reader.

use std::sync::Arc;
use std::time::Duration;

use crate::chunk::Chunk;
use crate::journal::{Cut, Journal};
use crate::merger::{JournalRun, Merger};
use crate::order::watermark;
use crate::stamp::Stamp;

/// An item of the emitted stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Item<'b> {
    /// A run of bytes.
    Run(JournalRun<'b>),
    /// A requested cut.
    Cut(Cut),
}

/// Gathers chunks from the outboxes and emits complete runs and cuts in order. There is one.
pub struct JournalReader {
    journal: Arc<Journal>,
    merger: Merger,
    /// The largest stamp gathered so far.
    highest: Stamp,
    /// Up to where the stream was complete when it was gathered last.
    complete: Stamp,
    /// A buffer; empty except while gathering.
    collected: Vec<Chunk>,
}

impl JournalReader {
    /// The reader of a journal; the next byte has this offset.
    pub fn new(journal: Arc<Journal>, offset: u64) -> JournalReader {
        JournalReader {
            journal,
            merger: Merger::from(offset),
            highest: Stamp::default(),
            complete: Stamp::default(),
            collected: Vec::new(),
        }
    }

    /// The merger, for its offset and database.
    pub fn merger(&mut self) -> &mut Merger {
        &mut self.merger
    }

    /// Gathers what was handed over. Returns the stamp up to which the stream is complete.
    pub fn gather(&mut self) -> Stamp {
        debug_assert!(self.collected.is_empty(), "what was gathered before is in the merger");
        let now = (self.journal.clock)();
        let floor = self.journal.floor.raise(now.max(self.highest.time() + 1));
        let outboxes = self.journal.outboxes();
        let until = watermark(floor, outboxes.iter().map(|outbox| &outbox.bound));
        for outbox in &outboxes {
            outbox.collect(&mut self.collected);
            for chunk in self.collected.drain(..) {
                debug_assert!(
                    chunk.pieces.first().is_none_or(|first| first.stamp >= self.complete),
                    "nothing that comes later belongs before what was complete"
                );
                let last = chunk.pieces.last().map_or(Stamp::default(), |piece| piece.stamp);
                self.highest = self.highest.max(last);
                self.merger.add(outbox.thread, chunk);
            }
        }
        let complete = Stamp::first_of(until);
        // It may be told to be less than before, by a thread that has announced an older floor.
        self.complete = self.complete.max(complete);
        complete
    }

    /// The largest stamp gathered so far.
    pub fn gathered(&self) -> Stamp {
        self.highest
    }

    /// Emits everything before `until`, with the cuts at their places.
    pub fn take(&mut self, until: Stamp, leave: &mut dyn FnMut(Item<'_>)) {
        while let Some(cut) = self.journal.next_cut(until) {
            self.merger.take(cut.stamp, &mut |run| leave(Item::Run(run)));
            leave(Item::Cut(cut));
            // A file that is read by itself begins here.
            self.merger.forget_db();
        }
        self.merger.take(until, &mut |run| leave(Item::Run(run)));
    }

    /// Reports that everything emitted has arrived: it does not count as waiting any more.
    pub fn done(&mut self) {
        let spent = self.merger.take_spent();
        if spent.is_empty() {
            return;
        }
        let (outboxes, mut bytes, mut released) = (self.journal.outboxes(), 0, 0);
        for (thread, chunk) in spent {
            debug_assert!(thread < outboxes.len(), "it came from an outbox");
            bytes += chunk.bytes.len();
            released += outboxes[thread].give_back(chunk);
        }
        self.journal.done(bytes, released);
    }

    /// Gathers and takes until nothing is left; all threads must have handed over.
    pub fn take_all(&mut self, leave: &mut dyn FnMut(Item<'_>)) {
        loop {
            let until = self.gather();
            self.take(until, leave);
            self.done();
            if !self.has_more() {
                return;
            }
        }
    }

    /// Whether something gathered was not emitted yet.
    pub fn has_more(&self) -> bool {
        !self.merger.is_empty()
    }

    /// Makes the calling thread the one that is woken. To be called before the first check of what
    /// it is woken for.
    pub fn begin_here(&self) {
        self.journal.read_here();
    }

    /// Sleeps until something is handed over, the reader is woken, or `at_most` has passed. Only on
    /// the reader's thread.
    pub fn wait(&self, at_most: Option<Duration>) {
        self.journal.set_asleep(true);
        let has_come = self.journal.outboxes().iter().any(|outbox| outbox.has_something());
        if !has_come {
            match at_most {
                Some(at_most) => std::thread::park_timeout(at_most),
                None => std::thread::park(),
            }
        }
        self.journal.set_asleep(false);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    use pantala_base::rng::Rng;

    use super::*;
    use crate::journal::SPARE_CHUNK_BYTES;
    use crate::recorder::Recorder;
    use crate::stamp::ticks;

    /// What is emitted, in words.
    fn taken(reader: &mut JournalReader) -> Vec<String> {
        let (until, mut words) = (reader.gather(), Vec::new());
        reader.take(until, &mut |item| match item {
            Item::Run(run) => {
                let text = String::from_utf8_lossy(run.bytes).into_owned();
                let all = text.split("\r\n").filter(|word| !word.starts_with(['*', '$']));
                words.extend(all.filter(|word| !word.is_empty()).map(str::to_owned));
            }
            Item::Cut(cut) => words.push(format!("cut {}", cut.number)),
        });
        words
    }

    fn step(recorder: &Recorder, word: &str, seen: Stamp) -> Stamp {
        recorder.record(0, &[word.as_bytes()]);
        recorder.end_step(seen)
    }

    #[test]
    fn nothing_leaves_before_what_is_under_way() {
        let journal = Arc::new(Journal::with_clock(|| 0));
        let (one, two) = (journal.join(), journal.join());
        let mut reader = JournalReader::new(Arc::clone(&journal), 0);
        let a = step(&one, "a", Stamp::default());
        step(&two, "b", a);
        two.hand_over();
        assert!(taken(&mut reader).is_empty());
        assert!(reader.has_more());
        one.hand_over();
        assert_eq!(taken(&mut reader), ["SELECT", "0", "a", "b"]);
        assert!(!reader.has_more());
        step(&two, "c", Stamp::default());
        two.hand_over();
        assert_eq!(taken(&mut reader), ["c"]);
    }

    #[test]
    fn a_cut_stands_between_what_was_before_and_after() {
        let journal = Arc::new(Journal::with_clock(|| 0));
        let one = journal.join();
        let mut reader = JournalReader::new(Arc::clone(&journal), 0);
        let a = step(&one, "a", Stamp::default());
        one.hand_over();
        journal.cut(a, 7);
        step(&one, "b", Stamp::default());
        journal.cut(Stamp::default(), 8);
        one.hand_over();
        assert_eq!(taken(&mut reader), ["SELECT", "0", "a", "cut 7", "SELECT", "0", "b", "cut 8"]);
    }

    #[test]
    fn what_waits_is_counted_until_it_is_done_with() {
        let journal = Arc::new(Journal::with_clock(|| 0));
        journal.limit_waiting(5);
        let one = journal.join();
        let mut reader = JournalReader::new(Arc::clone(&journal), 0);
        step(&one, "a", Stamp::default());
        assert!(!journal.is_full());
        one.hand_over();
        assert_eq!(journal.waiting_bytes(), "*1\r\n$1\r\na\r\n".len());
        assert!(journal.is_full());
        assert_eq!(taken(&mut reader), ["SELECT", "0", "a"]);
        assert!(journal.is_full(), "it has not arrived");
        assert!(!journal.calls_held_back());
        reader.done();
        assert_eq!(journal.waiting_bytes(), 0);
        assert!(journal.calls_held_back(), "somebody has asked");
        assert!(!journal.calls_held_back() && !journal.is_full());
    }

    #[test]
    fn room_is_held_until_it_is_spare_and_no_longer_than_it_is_kept() {
        let journal = Arc::new(Journal::with_clock(|| 0));
        let one = journal.join();
        let mut reader = JournalReader::new(Arc::clone(&journal), 0);
        for _ in 0..3 {
            step(&one, &"a".repeat(1 << 20), Stamp::default());
            one.hand_over();
            assert!(journal.held_bytes() > 1 << 20);
            taken(&mut reader);
            reader.done();
            let spare = journal.held_bytes();
            assert!(spare > 0 && spare <= (2 * SPARE_CHUNK_BYTES) as u64, "{spare}");
        }
    }

    #[test]
    fn who_asks_too_early_is_called_when_a_step_is_durable() {
        let journal = Arc::new(Journal::with_clock(|| 0));
        let one = journal.join();
        let a = step(&one, "a", Stamp::first_of(5));
        assert!(!journal.set_durable(Stamp::first_of(2)), "nobody has asked");
        assert!(!journal.is_durable(a));
        assert!(journal.set_durable(Stamp::first_of(3)), "more is durable: ask again");
        assert!(!journal.is_durable(a));
        assert!(!journal.set_durable(Stamp::first_of(3)), "nothing is new");
        assert!(journal.set_durable(Stamp::first_of(6)));
        assert!(journal.is_durable(a));
    }

    #[test]
    fn a_thread_that_follows_another_goes_on_with_its_stamps() {
        let journal = Arc::new(Journal::with_clock(|| 0));
        let one = journal.join();
        let late = step(&one, "a", Stamp::first_of(50));
        drop(one);
        let two = journal.join();
        assert!(step(&two, "b", Stamp::default()) >= late);
        drop(two);
        let mut reader = JournalReader::new(Arc::clone(&journal), 0);
        taken(&mut reader);
        assert_eq!(taken(&mut reader), ["SELECT", "0", "a", "b"]);
    }

    /// Partitions: the last stamp, and the number of steps that held it.
    type Partitions = Vec<Mutex<(Stamp, u64)>>;

    /// Runs steps in one or two partitions; each records for both its number there.
    fn work(journal: &Arc<Journal>, partitions: &Partitions, seed: u64, steps: usize) {
        let (recorder, mut random) = (journal.join(), Rng::from_seed(seed));
        for _ in 0..steps {
            let mut which: Vec<_> =
                (0..2).map(|_| random.below(partitions.len() as u64) as usize).collect();
            which.sort_unstable();
            which.dedup();
            let mut held: Vec<_> =
                which.iter().map(|&id| partitions[id].lock().expect("no panic")).collect();
            for (id, held) in which.iter().zip(&mut held) {
                held.1 += 1;
                let (id, count) = (id.to_string(), held.1.to_string());
                recorder.record(0, &[id.as_bytes(), count.as_bytes()]);
            }
            let stamp = recorder.end_step(held.iter().map(|held| held.0).max().expect("one"));
            held.iter_mut().for_each(|held| held.0 = stamp);
            drop(held);
            if random.below(4) == 0 {
                recorder.hand_over();
            }
        }
    }

    #[test]
    fn many_threads_give_the_order_of_each_partition() {
        const THREADS: u64 = 6;
        const STEPS: usize = 3000;
        let journal = Arc::new(Journal::default());
        let partitions: Partitions = (0..5).map(|_| Mutex::default()).collect();
        let is_over = AtomicBool::new(false);
        let mut bytes = Vec::new();
        std::thread::scope(|scope| {
            let (journal, partitions, is_over) = (&journal, &partitions, &is_over);
            let start = |seed| scope.spawn(move || work(journal, partitions, seed, STEPS));
            let threads: Vec<_> = (0..THREADS).map(start).collect();
            let reading = scope.spawn(move || {
                let mut reader = JournalReader::new(Arc::clone(journal), 0);
                let mut bytes = Vec::new();
                loop {
                    assert!(reader.gathered().time() <= ticks(), "no stamp is ahead");
                    let is_last = is_over.load(Ordering::SeqCst);
                    let until = reader.gather();
                    reader.take(until, &mut |item| {
                        if let Item::Run(run) = item {
                            assert_eq!(run.offset, bytes.len() as u64);
                            bytes.extend_from_slice(run.bytes);
                        }
                    });
                    if is_last && !reader.has_more() {
                        return bytes;
                    }
                    if !is_last {
                        reader.wait(Some(Duration::from_millis(1)));
                    }
                }
            });
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
            is_over.store(true, Ordering::SeqCst);
            journal.wake_reader();
            bytes = reading.join().expect("no panic");
        });
        check_order(&bytes, &partitions);
    }

    /// Checks that the steps of each partition are in order.
    fn check_order(bytes: &[u8], partitions: &Partitions) {
        let mut counts = vec![0; partitions.len()];
        let text = std::str::from_utf8(bytes).expect("text");
        let words = text.split("\r\n").filter(|word| !word.starts_with(['*', '$']));
        let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
        // The first number is SELECT's.
        for pair in numbers[1..].chunks(2) {
            let count = &mut counts[pair[0] as usize];
            *count += 1;
            assert_eq!(*count, pair[1]);
        }
        let totals: Vec<_> = partitions.iter().map(|one| one.lock().expect("free").1).collect();
        assert_eq!(counts, totals);
    }
}
