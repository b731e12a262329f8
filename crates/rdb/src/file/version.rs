//! The version of a file, and in whose way it numbers kinds.
//!
//! Up to version 11 Redis and Valkey are the same. From there on Redis counts on, and Valkey began
//! again at 80 with a head of its own; kinds from 22 on, and the mark 243, are different things.

use super::{FIRST_OF_VALKEY, HEAD_BYTES, Head, opcode};
use crate::Kind;
use crate::payload::Versions;

/// Whose kinds above 21 are in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Nobody's: there are none, but for those of Dragonfly, which writes version 9.
    Shared,
    /// Those of Redis 7.4 and later.
    Redis,
    /// Those of Valkey 9, and ours.
    Valkey,
}

/// The last version that Redis and Valkey share.
const LAST_SHARED: u16 = 11;
/// The last versions of each whose kinds we know.
const LAST_KNOWN_OF_REDIS: u16 = 12;
const LAST_KNOWN_OF_VALKEY: u16 = 80;
/// Kinds from here on are different things in different dialects.
const FIRST_DIFFERENT: u8 = Kind::HASH_2.0;

/// What a head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The number.
    pub number: u16,
    /// See there.
    pub dialect: Dialect,
}

impl Version {
    /// That of a head; `None` if it is no head.
    pub(super) fn of(head: &Head) -> Option<Version> {
        let (digits, is_valkey) = match head.strip_prefix(b"REDIS") {
            Some(digits) => (digits, false),
            None => (head.strip_prefix(b"VALKEY")?, true),
        };
        let number = digits.iter().try_fold(0, |number, digit| {
            digit.is_ascii_digit().then(|| 10 * number + u16::from(digit - b'0'))
        })?;
        let dialect = match number {
            _ if is_valkey => Dialect::Valkey,
            0..=LAST_SHARED => Dialect::Shared,
            _ => Dialect::Redis,
        };
        Some(Version { number, dialect })
    }

    /// Whether files of this version are read.
    pub(super) fn is_taken(self, versions: Versions) -> bool {
        let last = match self.dialect {
            Dialect::Shared | Dialect::Redis => LAST_KNOWN_OF_REDIS,
            Dialect::Valkey => LAST_KNOWN_OF_VALKEY,
        };
        let first = if self.dialect == Dialect::Valkey { FIRST_OF_VALKEY } else { 1 };
        versions == Versions::All || (first..=last).contains(&self.number)
    }

    /// Whether a checksum ends the file: since Redis 2.6.
    pub(super) fn has_checksum(self) -> bool {
        self.number >= 5
    }

    /// The kind that a byte stands for. It may be one that nobody knows.
    pub(super) fn kind(self, byte: u8) -> Option<Kind> {
        let redis = [Kind::HASH_BEFORE_RELEASE, Kind::HASH_LISTPACK_BEFORE_RELEASE];
        let later = [Kind::HASH_METADATA, Kind::HASH_LISTPACK_DEADLINES];
        match (self.dialect, byte) {
            (_, 0..FIRST_DIFFERENT) | (Dialect::Shared, 31..=32) => Some(Kind(byte)),
            (Dialect::Redis, 22..=23) => Some(redis[usize::from(byte - 22)]),
            (Dialect::Redis, 24..=25) => Some(later[usize::from(byte - 24)]),
            (Dialect::Valkey, 22 | 112 | 113) => Some(Kind(byte)),
            _ => None,
        }
    }
}

const _: () = assert!(HEAD_BYTES == b"VALKEY080".len());
const _: () = assert!(opcode::KEY_METADATA == opcode::SLOT_IMPORT);
