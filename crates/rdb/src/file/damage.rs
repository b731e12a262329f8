//! The damage in a file: offset, expectation and finding.

use std::fmt;

use crate::input::Malformed;

/// The first invalid place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The offset in the file where the damage begins.
    pub offset: u64,
    /// What the format requires there.
    pub expected: &'static str,
    /// What the file has there.
    pub found: Found,
}

/// What the file has in place of what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The end of the file.
    End,
    /// A mark, a kind or a version.
    Number(u64),
    /// A checksum.
    Checksum {
        /// The checksum in the file.
        written: u64,
        /// The checksum of the bytes before it.
        computed: u64,
    },
    /// More bytes or elements than the file has.
    TooMany(u64),
    /// Bytes that are not a value of their kind.
    Value(Malformed),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: expected {}, found ", self.offset, self.expected)?;
        match self.found {
            Found::End => f.write_str("the end of the file"),
            Found::Number(number) => write!(f, "{number}"),
            Found::Checksum { written, computed } => {
                write!(f, "{written:016x}, where the bytes before it have {computed:016x}")
            }
            Found::TooMany(count) => write!(f, "{count}, which is more than the file has"),
            Found::Value(why) => write!(f, "this: {why}"),
        }
    }
}

impl std::error::Error for Damage {}
