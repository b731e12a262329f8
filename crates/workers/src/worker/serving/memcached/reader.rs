//! The parsers of a connection, and what they keep between turns.

use std::ops::Range;

use pantala_commands::families::memcached::Verb;
use pantala_memcached::RequestParser;

/// The parsers of a connection, and what they keep.
#[derive(Default)]
pub struct Reader {
    pub(crate) text: RequestParser,
    pub(crate) binary: pantala_memcached::binary::RequestParser,
    /// The first byte has told which protocol it is.
    pub(crate) is_decided: bool,
    /// A `get` of which only some keys have been parsed.
    pub(crate) line: Option<Line>,
    /// The `get`s of several keys in this turn.
    pub(crate) lines: Vec<Cut>,
    /// Bytes of data still to be thrown away as they come.
    pub(crate) skipped: usize,
    /// Bytes of data to throw away once the last command that was parsed has run.
    pub(crate) skipped_then: usize,
}

/// A `get` of which only some keys have been parsed.
pub struct Line {
    pub(crate) verb: Verb,
    /// The position of its time to live in the chunk, if it has one.
    pub(crate) exptime: Option<Range<usize>>,
    /// Where its keys end.
    pub(crate) keys_end: usize,
    /// Where the next request begins.
    pub(crate) end: usize,
}

/// A `get` of several keys, by offsets in its chunk.
#[derive(Clone)]
pub struct Cut {
    /// The words before its keys.
    pub(crate) words: Range<usize>,
    pub(crate) end: usize,
}

impl Cut {
    /// Whether the rest after `done` begins inside it.
    pub fn has(&self, done: usize) -> bool {
        self.words.end < done && done < self.end
    }
}
