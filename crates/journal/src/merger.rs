//! Merges the chunks of all threads into one stream of bytes.
//!
//! ```text
//! add(thread, chunk) ...  -->  take(until): every piece with a stamp before `until`, in order
//!                              SELECT where the database changes, MULTI and EXEC around steps
//! ```
//!
//! Invariants
//! 1. Pieces leave in the order of their stamps; pieces with equal stamps, which come from one
//!    thread, in the order in which they were added. So the pieces of one step, which share a
//!    stamp, leave together.
//! 2. An offset is the number of bytes that left before, since the stream began.
//!
//! Not here: up to which stamp one may take (`order`), threads, files. Tests: at the foot.

use std::collections::VecDeque;

use crate::chunk::{Audience, Chunk, JournalPiece};
use crate::resp;
use crate::stamp::{MOST_THREADS, Stamp};

/// A run of bytes of the stream: whole commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalRun<'b> {
    /// The offset of its first byte.
    pub offset: u64,
    /// The commands.
    pub bytes: &'b [u8],
    /// Who receives them.
    pub audience: Audience,
}

/// What one thread has handed over and has not left yet.
#[derive(Debug, Default)]
struct Queue {
    chunks: VecDeque<Chunk>,
    /// How many pieces of the first chunk have left.
    piece: usize,
    bytes: usize,
}

impl Queue {
    fn head(&self) -> Option<&JournalPiece> {
        self.chunks.front()?.pieces.get(self.piece)
    }
}

/// Merges chunks by stamp and writes SELECT, MULTI and EXEC where they are needed.
#[derive(Debug, Default)]
pub struct Merger {
    queues: Vec<Queue>,
    /// The database of the last command that left; `None`: the next command writes a SELECT.
    db: Option<u32>,
    offset: u64,
    spent: Vec<(usize, Chunk)>,
    scratch: Vec<u8>,
}

impl Merger {
    /// A merger whose next byte has this offset.
    pub fn from(offset: u64) -> Merger {
        Merger { offset, ..Merger::default() }
    }

    /// The offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Makes the next command write a SELECT: it is the first of a file.
    pub fn forget_db(&mut self) {
        self.db = None;
    }

    /// Adds steps of a thread, after all its earlier ones.
    pub fn add(&mut self, thread: usize, chunk: Chunk) {
        if chunk.is_empty() {
            return self.spent.push((thread, chunk));
        }
        debug_assert!(thread < MOST_THREADS, "a thread's number fits");
        debug_assert!(chunk.pieces.is_sorted_by_key(|piece| piece.stamp), "stamps never fall");
        debug_assert!(chunk.pieces.is_sorted_by_key(|piece| piece.end), "pieces have no gap");
        debug_assert_eq!(
            chunk.pieces.last().map(|piece| piece.end),
            Some(chunk.bytes.len()),
            "all bytes are of pieces"
        );
        if thread >= self.queues.len() {
            self.queues.resize_with(thread + 1, Queue::default);
        }
        let queue = &mut self.queues[thread];
        let last = queue.chunks.back().and_then(|chunk| chunk.pieces.last());
        debug_assert!(
            last.is_none_or(|last| last.stamp <= chunk.pieces[0].stamp),
            "a thread's stamps never fall"
        );
        queue.chunks.push_back(chunk);
    }

    /// Whether nothing waits to leave.
    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.chunks.is_empty())
    }

    /// Takes the chunks that have left, with their threads' numbers, for reuse.
    pub fn take_spent(&mut self) -> Vec<(usize, Chunk)> {
        std::mem::take(&mut self.spent)
    }

    /// Emits every piece with a stamp before `until`.
    pub fn take(&mut self, until: Stamp, leave: &mut dyn FnMut(JournalRun<'_>)) {
        while let Some((thread, next)) = self.first(until) {
            // Its queue stays the first as long as no other has a smaller head.
            self.leave_from(thread, next.min(until), leave);
        }
    }

    /// The thread whose head has the smallest stamp, if that is before `until`, and the smallest
    /// stamp of the other heads.
    fn first(&self, until: Stamp) -> Option<(usize, Stamp)> {
        let (mut first, mut second) = (None, Stamp::LAST);
        let mut smallest = until;
        for (thread, queue) in self.queues.iter().enumerate() {
            let Some(head) = queue.head() else { continue };
            if head.stamp < smallest {
                second = if first.is_some() { smallest } else { second };
                (first, smallest) = (Some(thread), head.stamp);
            } else {
                second = second.min(head.stamp);
            }
        }
        debug_assert!(first.is_none() || smallest <= second, "the first is not after the second");
        first.map(|thread| (thread, second))
    }

    /// Emits the pieces at the head of a queue with stamps before `until`.
    fn leave_from(&mut self, thread: usize, until: Stamp, leave: &mut dyn FnMut(JournalRun<'_>)) {
        let Merger { queues, db, offset, spent, scratch } = self;
        let queue = &mut queues[thread];
        let mut out = PieceSink { db, offset, scratch, leave };
        while let Some(chunk) = queue.chunks.front() {
            while let Some(piece) = chunk.pieces.get(queue.piece) {
                if piece.stamp >= until {
                    return;
                }
                debug_assert!(queue.bytes <= piece.end, "pieces follow each other");
                out.piece(piece, &chunk.bytes[queue.bytes..piece.end]);
                queue.bytes = piece.end;
                queue.piece += 1;
            }
            debug_assert_eq!(queue.bytes, chunk.bytes.len(), "all of it has left");
            (queue.piece, queue.bytes) = (0, 0);
            spent.extend(queue.chunks.pop_front().map(|chunk| (thread, chunk)));
        }
    }
}

/// The destination of pieces.
struct PieceSink<'m> {
    db: &'m mut Option<u32>,
    offset: &'m mut u64,
    scratch: &'m mut Vec<u8>,
    leave: &'m mut dyn FnMut(JournalRun<'_>),
}

impl PieceSink<'_> {
    fn piece(&mut self, piece: &JournalPiece, bytes: &[u8]) {
        // As in Valkey, a SELECT that belongs to a step stands within its MULTI.
        if piece.frame.begins {
            self.run(resp::MULTI, Audience::All);
        }
        if *self.db != Some(piece.db) {
            *self.db = Some(piece.db);
            let mut select = std::mem::take(self.scratch);
            select.clear();
            resp::push_select(&mut select, piece.db);
            self.run(&select, Audience::All);
            *self.scratch = select;
        }
        self.run(bytes, piece.audience);
        if piece.frame.ends {
            self.run(resp::EXEC, Audience::All);
        }
    }

    fn run(&mut self, bytes: &[u8], audience: Audience) {
        (self.leave)(JournalRun { offset: *self.offset, bytes, audience });
        *self.offset += bytes.len() as u64;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::{Journal, Recorder};

    /// Records one step of these commands.
    fn step(recorder: &Recorder, seen: Stamp, commands: &[(u32, &str)]) -> Stamp {
        for (db, word) in commands {
            recorder.record(*db, &[word.as_bytes()]);
        }
        recorder.end_step(seen)
    }

    /// The emitted bytes, in words.
    fn leaving(merger: &mut Merger, until: Stamp) -> String {
        let (mut text, before) = (String::new(), merger.offset());
        let mut bytes = 0;
        merger.take(until, &mut |run| {
            assert_eq!(run.offset, before + bytes);
            bytes += run.bytes.len() as u64;
            text += &String::from_utf8_lossy(run.bytes);
        });
        assert_eq!(merger.offset(), before + bytes);
        let words = text.split("\r\n").filter(|word| !word.starts_with(['*', '$']));
        words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn stamps_say_the_order() {
        let journal = Arc::new(Journal::with_clock(|| 0));
        let (one, two) = (journal.join(), journal.join());
        let start = Stamp::first_of(5);
        let a = step(&one, start, &[(0, "a")]);
        let b = step(&two, a, &[(0, "b")]);
        let c = step(&one, b, &[(0, "c"), (3, "d")]);
        step(&two, c, &[(3, "e")]);
        step(&one, start, &[(3, "f")]);
        let mut merger = Merger::from(100);
        merger.add(2, two.take_finished());
        merger.add(1, one.take_finished());
        assert_eq!(leaving(&mut merger, Stamp::first_of(5)), "");
        assert_eq!(leaving(&mut merger, Stamp::first_of(6)), "SELECT 0 a b");
        assert!(!merger.is_empty());
        // `f` met nobody after `c`, and nobody has met it.
        assert_eq!(leaving(&mut merger, Stamp::LAST), "MULTI c SELECT 3 d EXEC f e");
        assert!(merger.is_empty());
        assert_eq!(merger.take_spent().len(), 2);
    }

    #[test]
    fn steps_of_a_thread_that_meets_nobody_are_one_run() {
        let (recorder, mut merger) =
            (Arc::new(Journal::with_clock(|| 0)).join(), Merger::default());
        for _ in 0..10 {
            step(&recorder, Stamp::default(), &[(0, "a")]);
        }
        recorder.record_for_replicas(0, &[b"p"]);
        recorder.end_step(Stamp::default());
        merger.add(0, recorder.take_finished());
        let mut runs = Vec::new();
        merger.take(Stamp::LAST, &mut |run| runs.push((run.bytes.len(), run.audience)));
        assert_eq!(runs.len(), 3);
        assert_eq!(runs[1], (10 * "*1\r\n$1\r\na\r\n".len(), Audience::All));
        assert_eq!(runs[2].1, Audience::Replicas);
    }
}
