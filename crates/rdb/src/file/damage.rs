//! The damage in a file: offset, expectation and finding.

use std::fmt;

use crate::input::Malformed;
use crate::kind::RdbKind;

pub(super) const EXPECTED_HEAD: &str = "REDIS or VALKEY and a version";
pub(super) const EXPECTED_VERSION: &str = "a version that is known";
pub(super) const EXPECTED_MARK: &str = "a mark or a kind of value that is known";
pub(super) const EXPECTED_KIND: &str = "a kind of value that is known";

/// The first invalid place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdbDamage {
    /// The offset in the file where the damage begins.
    pub offset: u64,
    /// What the format requires there.
    pub expected: &'static str,
    /// What the file has there.
    pub found: DamageFinding,
}

/// What the file has in place of what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageFinding {
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
    /// Bytes that are not a value of this kind, where the kind is known.
    Unsound(RdbKind, Malformed),
}

impl RdbDamage {
    /// What it is, in the words of Redis and Valkey, by which operators and tools look for it.
    pub fn words(&self) -> String {
        match self.found {
            DamageFinding::End | DamageFinding::TooMany(_) => {
                "Short read or OOM loading DB. Unrecoverable error, aborting now".into()
            }
            DamageFinding::Checksum { .. } => "RDB CRC error".into(),
            DamageFinding::Number(number) if self.expected == EXPECTED_VERSION => {
                format!("Can't handle RDB format version {number}")
            }
            DamageFinding::Number(_) if [EXPECTED_MARK, EXPECTED_KIND].contains(&self.expected) => {
                "Unknown type or opcode when loading DB. Unrecoverable error, aborting now".into()
            }
            _ if self.expected == EXPECTED_HEAD => {
                "Wrong signature trying to load DB from file".into()
            }
            DamageFinding::Unsound(kind, _) if kind.packed().is_some() => {
                format!("{} integrity check failed", kind.packed().unwrap_or_default())
            }
            _ => "Failure loading rdb format".into(),
        }
    }
}

impl fmt::Display for RdbDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: expected {}, found ", self.offset, self.expected)?;
        match self.found {
            DamageFinding::End => f.write_str("the end of the file"),
            DamageFinding::Number(number) => write!(f, "{number}"),
            DamageFinding::Checksum { written, computed } => {
                write!(f, "{written:016x}, where the bytes before it have {computed:016x}")
            }
            DamageFinding::TooMany(count) => write!(f, "{count}, which is more than the file has"),
            DamageFinding::Value(why) | DamageFinding::Unsound(_, why) => write!(f, "this: {why}"),
        }
    }
}

impl std::error::Error for RdbDamage {}
