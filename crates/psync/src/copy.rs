//! The bytes of a snapshot on their way to one replica: from the thread that makes or reads them to
//! the worker that sends them. Bounded: a producer waits while it is full.
//!
//! Tests: at the foot.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// The most bytes in the queue, plus one piece.
const MOST_BYTES: usize = 1 << 20;

/// The result of taking bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum CopyRead {
    /// This many bytes; more will come.
    Bytes(usize),
    /// The last bytes.
    End(usize),
    /// The copy was aborted.
    Broken,
}

/// A bounded queue of snapshot bytes for one replica.
#[derive(Debug, Default)]
pub struct CopyQueue {
    state: Mutex<State>,
    has_room: Condvar,
}

#[derive(Debug, Default)]
struct State {
    pieces: VecDeque<Arc<[u8]>>,
    /// How many bytes of the first piece were taken.
    taken: usize,
    bytes: usize,
    /// The copy is in a file, which is complete.
    is_in_file: bool,
    end: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Whole,
    Broken,
}

impl CopyQueue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Adds a piece without waiting; returns whether there is room for more. The caller wakes the
    /// worker.
    pub fn put(&self, piece: Arc<[u8]>) -> bool {
        let mut state = self.state();
        if state.end.is_none() && !piece.is_empty() {
            state.bytes += piece.len();
            state.pieces.push_back(piece);
        }
        state.bytes < MOST_BYTES
    }

    /// Marks that the copy is in a complete file and will be sent from now on.
    pub fn begin_file(&self) {
        self.state().is_in_file = true;
    }

    /// Whether the copy is in a complete file.
    pub fn is_in_file(&self) -> bool {
        self.state().is_in_file
    }

    /// Waits until there is room, the replica has gone, or `most` has passed; returns whether the
    /// replica is there and there is room.
    pub fn wait_for_room(&self, most: Duration) -> bool {
        let is_full = |state: &mut State| state.end.is_none() && state.bytes >= MOST_BYTES;
        let mut state = self.state();
        let _timed_out = self.has_room.wait_while_for(&mut state, is_full, most);
        state.end.is_none() && state.bytes < MOST_BYTES
    }

    /// Whether the copy has ended: complete or aborted.
    pub fn is_over(&self) -> bool {
        self.state().end.is_some()
    }

    /// Marks the copy as complete.
    pub fn finish(&self) {
        self.state().end.get_or_insert(End::Whole);
    }

    /// Adds the last piece. The taker learns at once that it is the last: what a replica answers to
    /// it finds the copy ended.
    pub fn finish_with(&self, piece: Arc<[u8]>) {
        let mut state = self.state();
        if state.end.is_none() {
            state.bytes += piece.len();
            state.pieces.push_back(piece);
            state.end = Some(End::Whole);
        }
    }

    /// Aborts the copy, because it cannot be completed or the replica has gone.
    pub fn break_off(&self) {
        let mut state = self.state();
        *state = State { end: Some(End::Broken), ..State::default() };
        self.has_room.notify_all();
    }

    /// Appends about `most` bytes to `out`.
    pub fn take(&self, most: usize, out: &mut Vec<u8>) -> CopyRead {
        let mut state = self.state();
        let before = out.len();
        while out.len() - before < most
            && let Some(piece) = state.pieces.front().cloned()
        {
            debug_assert!(state.taken < piece.len(), "a piece that was taken is gone");
            let rest = &piece[state.taken..];
            let bytes = rest.len().min(most - (out.len() - before));
            out.extend_from_slice(&rest[..bytes]);
            state.taken += bytes;
            if state.taken == piece.len() {
                state.taken = 0;
                state.pieces.pop_front();
            }
        }
        let bytes = out.len() - before;
        debug_assert!(state.bytes >= bytes, "only what was put is taken");
        state.bytes -= bytes;
        debug_assert!(!state.pieces.is_empty() || state.bytes == 0, "an empty queue has no bytes");
        if bytes > 0 {
            self.has_room.notify_all();
        }
        match state.end {
            Some(End::Broken) => CopyRead::Broken,
            Some(End::Whole) if state.pieces.is_empty() => CopyRead::End(bytes),
            _ => CopyRead::Bytes(bytes),
        }
    }

    /// Bytes in the queue.
    pub fn bytes(&self) -> usize {
        self.state().bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in_and_then_the_end() {
        let (queue, mut out) = (CopyQueue::default(), Vec::new());
        assert_eq!(queue.take(10, &mut out), CopyRead::Bytes(0));
        assert!(queue.put((*b"hello").into()));
        assert!(queue.put((*b" world").into()));
        assert_eq!(queue.take(7, &mut out), CopyRead::Bytes(7));
        queue.finish();
        queue.put((*b"too late").into());
        assert_eq!(queue.take(2, &mut out), CopyRead::Bytes(2));
        assert_eq!(queue.take(7, &mut out), CopyRead::End(2));
        assert_eq!(out, b"hello world");
        assert_eq!(queue.bytes(), 0);
    }

    #[test]
    fn the_last_piece_is_taken_together_with_the_end() {
        let (queue, mut out) = (CopyQueue::default(), Vec::new());
        queue.put((*b"hello").into());
        queue.finish_with((*b" world").into());
        queue.finish_with((*b"too late").into());
        assert_eq!(queue.take(100, &mut out), CopyRead::End(11));
        assert_eq!(out, b"hello world");
    }

    #[test]
    fn who_brings_too_much_waits_until_some_was_taken_or_all_is_over() {
        let queue = Arc::new(CopyQueue::default());
        assert!(!queue.put(vec![0; MOST_BYTES].into()));
        assert!(!queue.wait_for_room(Duration::ZERO));
        let taker = Arc::clone(&queue);
        let taking = std::thread::spawn(move || taker.take(1, &mut Vec::new()));
        assert!(queue.wait_for_room(Duration::from_secs(600)));
        assert_eq!(taking.join().expect("no panic"), CopyRead::Bytes(1));
        queue.put(vec![0; 1].into());
        let leaver = Arc::clone(&queue);
        let leaving = std::thread::spawn(move || leaver.break_off());
        assert!(!queue.wait_for_room(Duration::from_secs(600)));
        leaving.join().expect("no panic");
        assert!(queue.is_over());
        assert_eq!((queue.take(1, &mut Vec::new()), queue.bytes()), (CopyRead::Broken, 0));
    }
}
