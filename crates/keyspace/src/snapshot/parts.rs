//! Values that are written in parts.

use pantala_table::ValueRef;
use pantala_values::Object;

use super::output::Output;
use super::target::{
    PIECE_BYTES, PORTION_BYTES, SnapshotEntry, SnapshotParts, SnapshotPiece, Span,
};
use crate::key::DbIndex;

/// How the parts are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartTarget {
    /// All in one piece.
    Together,
    /// In pieces, once the stream is free.
    WantsStream,
    /// In pieces, as owner of the stream.
    Streams {
        /// No piece was sent yet.
        is_first: bool,
    },
}

/// The state of a value after one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    More,
    Last,
    /// Another value owns the stream.
    Blocked,
}

/// A key of which a part is written; see invariant 3 of `snapshot`.
pub(crate) struct PartialKey {
    /// Its database, by its number at the cut.
    pub db: DbIndex,
    pub key: Box<[u8]>,
    parts: Option<Box<dyn SnapshotParts>>,
    bytes: Vec<u8>,
    way: PartTarget,
}

impl PartialKey {
    /// Begins a key: writes everything before the value.
    pub fn begin(output: &Output, db: DbIndex, entry: &SnapshotEntry<'_>, streams: bool) -> Self {
        let mut bytes = Vec::new();
        let target = Some(output.target()).filter(|_| !output.is_over());
        let parts = target.and_then(|target| output.guard(|| target.begin(entry, &mut bytes)));
        let way = if streams { PartTarget::WantsStream } else { PartTarget::Together };
        PartialKey { db, key: entry.key.into(), parts, bytes, way }
    }

    pub fn is(&self, db: DbIndex, key: &[u8]) -> bool {
        self.db == db && *self.key == *key
    }

    /// Writes one more part. It counts as the last if the snapshot is over.
    pub fn go_on(&mut self, output: &Output, value: &ValueRef<'_, Object>) -> Part {
        if output.is_over() {
            return Part::Last;
        }
        if self.way == PartTarget::WantsStream && !self.take_stream(output) {
            return Part::Blocked;
        }
        if !self.write(output, value, PORTION_BYTES) {
            return Part::More;
        }
        self.end(output);
        Part::Last
    }

    /// Writes all that is left, whichever value owns the stream.
    pub fn finish(mut self, output: &Output, value: &ValueRef<'_, Object>) {
        if self.way == PartTarget::WantsStream && !self.take_stream(output) {
            self.way = PartTarget::Together;
        }
        while !self.write(output, value, PIECE_BYTES) {}
        self.end(output);
    }

    fn take_stream(&mut self, output: &Output) -> bool {
        let is_mine = output.take_stream();
        if is_mine {
            debug_assert_eq!(self.way, PartTarget::WantsStream, "it is taken once");
            self.way = PartTarget::Streams { is_first: true };
        }
        is_mine
    }

    /// Writes about `most` bytes; whether that was the last part, or more is of no use.
    fn write(&mut self, output: &Output, value: &ValueRef<'_, Object>, most: usize) -> bool {
        let PartialKey { parts, bytes, .. } = self;
        let Some(parts) = parts.as_mut().filter(|_| !output.is_over()) else { return true };
        let is_last = output.guard(|| parts.go_on(value, most, bytes)).unwrap_or(true);
        if let PartTarget::Streams { is_first } = &mut self.way
            && !is_last
            && bytes.len() >= PIECE_BYTES
        {
            let span = if std::mem::take(is_first) { Span::First } else { Span::Middle };
            output.take(SnapshotPiece::new(self.db, std::mem::take(bytes), 0, span));
        }
        is_last
    }

    fn end(&mut self, output: &Output) {
        let span = match self.way {
            PartTarget::Streams { is_first: false } => Span::Last,
            _ => Span::Whole,
        };
        let bytes = std::mem::take(&mut self.bytes);
        output.take(SnapshotPiece::new(self.db, bytes, 1, span));
        if let PartTarget::Streams { .. } = self.way {
            output.free_stream();
        }
    }
}
