//! Pieces on their way from walkers to the file; one thread takes them out.
//!
//! Whole keys may be in the file in any order, but the parts of one key must be contiguous: from
//! the first part on, nothing else is taken out until the last.
//!
//! Invariants
//! 1. Putting something in never waits: the caller holds a partition.
//! 2. Whether there is room for parts does not depend on whole keys: those may have to wait for the
//!    parts.
//!
//! Tests: at the foot.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use pantala_keyspace::snapshot::{SnapshotPiece, SnapshotRoom, Span};
use parking_lot::{Condvar, Mutex, MutexGuard};

/// Walkers pause while the queue has this many bytes.
pub const FULL_BYTES: usize = 4 << 20;
/// Commands that would add something wait while the queue has this many bytes.
pub const OVERFULL_BYTES: usize = 16 << 20;
const _: () = assert!(FULL_BYTES < OVERFULL_BYTES, "walkers pause before commands wait");

/// What the writer takes out.
#[derive(Debug)]
pub enum QueueItem {
    /// A piece.
    Piece(SnapshotPiece),
    /// The snapshot is complete.
    End,
    /// The snapshot was aborted, and the file must not be finished.
    Broken,
}

/// The queue from the walkers to the thread that writes the snapshot.
#[derive(Debug, Default)]
pub struct SnapshotQueue {
    inner: Mutex<Inner>,
    arrived: Condvar,
    room: AtomicU8,
    is_full_of_parts: AtomicBool,
}

#[derive(Debug, Default)]
struct Inner {
    whole: Line,
    parts: Line,
    /// The number of the next piece.
    count: u64,
    /// Whether the last piece taken out was a part, and not the last of its key.
    is_inside: bool,
    end: Option<QueueEnd>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueEnd {
    Complete,
    Broken,
}

/// Pieces in order, with their numbers.
#[derive(Debug, Default)]
struct Line {
    pieces: VecDeque<(u64, SnapshotPiece)>,
    bytes: usize,
}

impl Line {
    fn push(&mut self, number: u64, piece: SnapshotPiece) {
        let last = self.pieces.back().map(|(number, _)| *number);
        debug_assert!(last.is_none_or(|last| last < number), "pieces come in order");
        self.bytes += piece.bytes.len();
        self.pieces.push_back((number, piece));
    }

    fn pop(&mut self) -> Option<SnapshotPiece> {
        let (_, piece) = self.pieces.pop_front()?;
        debug_assert!(self.bytes >= piece.bytes.len(), "bytes are those of the pieces");
        self.bytes -= piece.bytes.len();
        debug_assert!(!self.pieces.is_empty() || self.bytes == 0, "an empty line has no bytes");
        Some(piece)
    }

    fn first(&self) -> u64 {
        self.pieces.front().map_or(u64::MAX, |(number, _)| *number)
    }
}

impl Inner {
    fn pop(&mut self) -> Option<SnapshotPiece> {
        let from_parts = self.is_inside || self.parts.first() < self.whole.first();
        let line = if from_parts { &mut self.parts } else { &mut self.whole };
        let piece = line.pop()?;
        debug_assert!(
            !self.is_inside || matches!(piece.span, Span::Middle | Span::Last),
            "the parts of one key come one after the other"
        );
        self.is_inside = matches!(piece.span, Span::First | Span::Middle);
        Some(piece)
    }

    fn room(&self) -> SnapshotRoom {
        match self.whole.bytes + self.parts.bytes {
            _ if self.end == Some(QueueEnd::Broken) => SnapshotRoom::Free,
            OVERFULL_BYTES.. => SnapshotRoom::Overfull,
            FULL_BYTES.. => SnapshotRoom::Full,
            _ => SnapshotRoom::Free,
        }
    }

    fn is_full_of_parts(&self) -> bool {
        self.parts.bytes >= FULL_BYTES
    }
}

impl SnapshotQueue {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    fn publish(&self, inner: &Inner) {
        self.room.store(inner.room() as u8, Ordering::Relaxed);
        self.is_full_of_parts.store(inner.is_full_of_parts(), Ordering::Relaxed);
    }

    /// Adds a piece.
    pub fn push(&self, piece: SnapshotPiece) {
        let mut inner = self.inner();
        if inner.end == Some(QueueEnd::Broken) {
            return;
        }
        debug_assert!(inner.end.is_none(), "nothing follows the end");
        let number = inner.count;
        inner.count += 1;
        match piece.span {
            Span::Whole => inner.whole.push(number, piece),
            Span::First | Span::Middle | Span::Last => inner.parts.push(number, piece),
        }
        self.publish(&inner);
        drop(inner);
        self.arrived.notify_one();
    }

    /// How much more should be added.
    pub fn room(&self) -> SnapshotRoom {
        match self.room.load(Ordering::Relaxed) {
            room if room == SnapshotRoom::Free as u8 => SnapshotRoom::Free,
            room if room == SnapshotRoom::Full as u8 => SnapshotRoom::Full,
            _ => SnapshotRoom::Overfull,
        }
    }

    /// Whether more parts of a key should be added of which parts were added already.
    pub fn has_room_for_parts(&self) -> bool {
        !self.is_full_of_parts.load(Ordering::Relaxed)
    }

    /// Marks the snapshot as complete.
    pub fn complete(&self) {
        self.end(QueueEnd::Complete);
    }

    /// Aborts the snapshot, by a walker or by the writer.
    pub fn break_off(&self) {
        self.end(QueueEnd::Broken);
    }

    fn end(&self, ending: QueueEnd) {
        let mut inner = self.inner();
        if ending == QueueEnd::Broken {
            *inner = Inner { end: Some(QueueEnd::Broken), ..Inner::default() };
        } else if inner.end.is_none() {
            inner.end = Some(ending);
        }
        self.publish(&inner);
        drop(inner);
        self.arrived.notify_all();
    }

    /// Whether the snapshot was aborted.
    pub fn is_broken(&self) -> bool {
        self.inner().end == Some(QueueEnd::Broken)
    }

    /// Takes a piece out, waiting for one; also returns whether there is more room now than before.
    pub fn next(&self) -> (QueueItem, bool) {
        let mut inner = self.inner();
        loop {
            if inner.end == Some(QueueEnd::Broken) {
                return (QueueItem::Broken, false);
            }
            let before = (inner.room(), inner.is_full_of_parts());
            if let Some(piece) = inner.pop() {
                self.publish(&inner);
                let has_more_room = (inner.room(), inner.is_full_of_parts()) != before;
                return (QueueItem::Piece(piece), has_more_room);
            }
            debug_assert!(
                inner.whole.pieces.is_empty() || inner.is_inside,
                "nothing is left behind"
            );
            if inner.end == Some(QueueEnd::Complete) {
                return (if inner.is_inside { QueueItem::Broken } else { QueueItem::End }, false);
            }
            self.arrived.wait(&mut inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantala_keyspace::DbIndex;

    fn piece(name: &str, span: Span, bytes: usize) -> SnapshotPiece {
        let mut text = name.as_bytes().to_vec();
        text.resize(bytes.max(text.len()), 0);
        SnapshotPiece::new(DbIndex(0), text, 1, span)
    }

    fn names(queue: &SnapshotQueue) -> String {
        let mut names = String::new();
        queue.complete();
        while let (QueueItem::Piece(piece), _) = queue.next() {
            names.push(char::from(piece.bytes[0]));
        }
        names
    }

    #[test]
    fn parts_of_a_key_follow_each_other() {
        let queue = SnapshotQueue::default();
        for (name, span) in [
            ("a", Span::Whole),
            ("1", Span::First),
            ("b", Span::Whole),
            ("2", Span::Middle),
            ("c", Span::Whole),
            ("3", Span::Last),
            ("4", Span::First),
            ("5", Span::Last),
            ("d", Span::Whole),
        ] {
            queue.push(piece(name, span, 1));
        }
        assert_eq!(names(&queue), "a123bc45d");
    }

    #[test]
    fn a_key_without_its_end_is_no_end() {
        let queue = SnapshotQueue::default();
        queue.push(piece("1", Span::First, 1));
        queue.complete();
        assert!(matches!(queue.next(), (QueueItem::Piece(_), _)));
        assert!(matches!(queue.next(), (QueueItem::Broken, _)));
    }

    #[test]
    fn room_is_told_and_comes_back() {
        let queue = SnapshotQueue::default();
        assert_eq!(queue.room(), SnapshotRoom::Free);
        queue.push(piece("a", Span::Whole, FULL_BYTES));
        assert_eq!(queue.room(), SnapshotRoom::Full);
        queue.push(piece("b", Span::Whole, OVERFULL_BYTES - FULL_BYTES));
        assert_eq!(queue.room(), SnapshotRoom::Overfull);
        assert!(matches!(queue.next(), (QueueItem::Piece(_), true)));
        assert_eq!(queue.room(), SnapshotRoom::Full);
        assert!(matches!(queue.next(), (QueueItem::Piece(_), true)));
        assert_eq!(queue.room(), SnapshotRoom::Free);
    }

    #[test]
    fn room_for_parts_is_their_own() {
        let queue = SnapshotQueue::default();
        queue.push(piece("1", Span::First, 1));
        queue.push(piece("a", Span::Whole, 2 * OVERFULL_BYTES));
        assert!(queue.has_room_for_parts());
        queue.push(piece("2", Span::Middle, FULL_BYTES));
        assert!(!queue.has_room_for_parts());
        assert!(matches!(queue.next(), (QueueItem::Piece(_), false)));
        assert!(matches!(queue.next(), (QueueItem::Piece(_), true)));
        assert!(queue.has_room_for_parts());
        assert_eq!(queue.room(), SnapshotRoom::Overfull);
        queue.push(piece("3", Span::Last, 1));
        assert_eq!(names(&queue), "3a");
    }

    #[test]
    fn nothing_comes_out_of_a_broken_one() {
        let queue = SnapshotQueue::default();
        queue.push(piece("a", Span::Whole, OVERFULL_BYTES));
        queue.break_off();
        queue.push(piece("b", Span::Whole, OVERFULL_BYTES));
        queue.complete();
        assert!(queue.is_broken());
        assert_eq!(queue.room(), SnapshotRoom::Free);
        assert!(matches!(queue.next(), (QueueItem::Broken, _)));
    }
}
