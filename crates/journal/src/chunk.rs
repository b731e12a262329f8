//! Finished steps of one thread: their bytes, and a description of each piece.
//!
//! The bytes are commands, one after the other, without SELECT, MULTI and EXEC: the merger inserts
//! those, guided by the pieces.
//!
//! Invariants
//! 1. Pieces follow each other without a gap; the first begins at 0.
//! 2. Their stamps never fall.
//! 3. A piece with a frame is part of one step. One without is any number of steps of one command.

use crate::stamp::Stamp;

/// Who is to have a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audience {
    /// Files and replicas.
    #[default]
    All,
    /// Replicas: what leaves no data behind (PUBLISH), and what a script keeps from files.
    Replicas,
    /// Files: what a script keeps from replicas.
    Files,
}

impl Audience {
    /// Those of both; `None`: nobody is.
    fn common(self, other: Audience) -> Option<Audience> {
        match (self, other) {
            (Audience::All, one) | (one, Audience::All) => Some(one),
            (one, other) => (one == other).then_some(one),
        }
    }

    /// Those of these whom a script tells something at all; `None`: nobody.
    #[inline]
    pub(crate) fn within(self, told: Option<Audience>) -> Option<Audience> {
        match told {
            Some(Audience::All) => Some(self),
            told => self.common(told?),
        }
    }

    /// Whether files have it.
    pub fn has_files(self) -> bool {
        self != Audience::Replicas
    }

    /// Whether replicas have it.
    pub fn has_replicas(self) -> bool {
        self != Audience::Files
    }
}

/// Whether a piece begins or ends a step of several commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// MULTI stands before it.
    pub begins: bool,
    /// EXEC stands after it.
    pub ends: bool,
    /// It is part of a step of several commands.
    pub is_inside: bool,
}

/// Commands of one database, with one stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// When.
    pub stamp: Stamp,
    /// Where it ends among the chunk's bytes.
    pub end: usize,
    /// The database.
    pub db: u32,
    /// Who is to have it.
    pub audience: Audience,
    /// Its place in a step.
    pub frame: Frame,
    /// It stays although its step is undone: what time has done.
    pub(crate) lasts: bool,
}

impl Piece {
    /// Whether another one that follows can be part of it.
    fn is_like(&self, other: &Piece) -> bool {
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
    pub pieces: Vec<Piece>,
}

impl Chunk {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Bytes it takes, however much is in it.
    pub(crate) fn room(&self) -> usize {
        self.bytes.capacity() + self.pieces.capacity() * size_of::<Piece>()
    }

    /// Empties it, to be used again, and gives back what is more than this many bytes.
    pub fn clear(&mut self, kept_bytes: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(kept_bytes);
        self.pieces.clear();
    }

    /// Notes the bytes that were appended last; part of piece number `from` or a later one if they
    /// are like it.
    #[inline]
    pub(crate) fn add_piece(&mut self, piece: Piece, from: usize) {
        if self.pieces.len() > from
            && let Some(last) = self.pieces.last_mut()
            && last.is_like(&piece)
        {
            last.end = piece.end;
            return;
        }
        self.pieces.push(piece);
    }

    /// Makes the last piece part of the one before, if they are alike.
    #[inline]
    pub(crate) fn join_last(&mut self) {
        if let [.., before, last] = &mut self.pieces[..]
            && before.is_like(last)
        {
            before.end = last.end;
            self.pieces.pop();
        }
    }
}
