//! Finished steps of one thread: their bytes, and a description of each piece.
//!
//! The bytes are commands, one after the other, without SELECT, MULTI and EXEC: the merger inserts
//! those, guided by the pieces.
//!
//! Invariants
//! 1. Pieces follow each other without a gap; the first begins at 0.
//! 2. Their stamps never decrease.
//! 3. A piece with a frame is part of one step. A piece without a frame is any number of steps of
//!    one command.

use pantala_base::simd::ahead::prefetch_to_write;

use crate::stamp::Stamp;

/// The most bytes for which cache lines are fetched ahead.
const MOST_PREPARED_BYTES: usize = 512;

/// Who receives a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audience {
    /// The append-only file and replicas.
    #[default]
    All,
    /// Only replicas: commands that leave no data behind (PUBLISH), and those that a script keeps
    /// out of the file.
    Replicas,
    /// Only the file: commands that a script keeps from replicas.
    Files,
}

impl Audience {
    /// The audience that both have in common; `None`: there is none.
    fn common(self, other: Audience) -> Option<Audience> {
        match (self, other) {
            (Audience::All, one) | (one, Audience::All) => Some(one),
            (one, other) => (one == other).then_some(one),
        }
    }

    /// The part of this audience that a script lets receive anything; `None`: there is none.
    #[inline]
    pub(crate) fn within(self, told: Option<Audience>) -> Option<Audience> {
        match told {
            Some(Audience::All) => Some(self),
            told => self.common(told?),
        }
    }

    /// Whether the append-only file receives it.
    pub fn has_files(self) -> bool {
        self != Audience::Replicas
    }

    /// Whether replicas receive it.
    pub fn has_replicas(self) -> bool {
        self != Audience::Files
    }
}

/// The place of a piece in a step of several commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The piece is the first of its step: MULTI precedes it.
    pub begins: bool,
    /// The piece is the last of its step: EXEC follows it.
    pub ends: bool,
    /// The piece is part of a step of several commands.
    pub is_inside: bool,
}

/// A run of commands in one database, with one stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalPiece {
    /// The stamp of its steps.
    pub stamp: Stamp,
    /// The offset of its end in the chunk's bytes.
    pub end: usize,
    /// The database.
    pub db: u32,
    /// Who receives it.
    pub audience: Audience,
    /// Its place in a step.
    pub frame: Frame,
    /// It survives when its step is discarded: an expiry, not a change by the command.
    pub(crate) lasts: bool,
}

impl JournalPiece {
    /// Whether `other`, which follows, can be joined to it.
    fn is_like(&self, other: &JournalPiece) -> bool {
        let alike = (self.db, self.audience, self.lasts) == (other.db, other.audience, other.lasts);
        alike && self.stamp == other.stamp && self.frame == other.frame
    }
}

/// Finished steps of one thread, as handed to the reader.
#[derive(Debug, Default)]
pub struct Chunk {
    /// The encoded commands.
    pub bytes: Vec<u8>,
    /// One description for each run of `bytes`, in order.
    pub pieces: Vec<JournalPiece>,
}

impl Chunk {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Prepares for as many bytes to be appended soon, or some of them.
    #[inline]
    pub(crate) fn prepare_for(&mut self, bytes: usize) {
        let room = self.bytes.spare_capacity_mut();
        let next = bytes.min(MOST_PREPARED_BYTES).min(room.len());
        prefetch_to_write(&room[..next]);
    }

    /// Allocated bytes.
    pub(crate) fn room(&self) -> usize {
        const { assert!(size_of::<JournalPiece>() <= 32, "pieces of short commands weigh little") };
        self.bytes.capacity() + self.pieces.capacity() * size_of::<JournalPiece>()
    }

    /// Empties it for reuse, and frees capacity above this many bytes.
    pub fn clear(&mut self, kept_bytes: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(kept_bytes);
        self.pieces.clear();
    }

    /// Adds a piece for the bytes that were appended last, or extends the last piece, if that is
    /// number `from` or later and alike.
    #[inline]
    pub(crate) fn add_piece(&mut self, piece: JournalPiece, from: usize) {
        debug_assert!(self.pieces.last().is_none_or(|last| last.end <= piece.end), "in order");
        debug_assert!(piece.end <= self.bytes.len(), "its bytes are there");
        debug_assert!(from <= self.pieces.len(), "finished pieces stay");
        if self.pieces.len() > from
            && let Some(last) = self.pieces.last_mut()
            && last.is_like(&piece)
        {
            last.end = piece.end;
            return;
        }
        self.pieces.push(piece);
    }

    /// Joins the last piece to the one before, if they are alike.
    #[inline]
    pub(crate) fn join_last(&mut self) {
        if let [.., before, last] = &mut self.pieces[..]
            && before.is_like(last)
        {
            debug_assert!(before.end <= last.end, "pieces follow each other");
            before.end = last.end;
            self.pieces.pop();
        }
    }
}
