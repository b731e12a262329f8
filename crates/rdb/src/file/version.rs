//! The version of a file, and the dialect that gives the kinds their meaning.
//!
//! Up to version 11 Redis and Valkey are the same. After that Redis counts on, and Valkey continues
//! at 80 with a head of its own; kinds from 22 on, and opcode 243, have different meanings.

use super::{FIRST_OF_VALKEY, HEAD_BYTES, Head, opcode};
use crate::RdbKind;
use crate::payload::Versions;

/// The meaning of the kinds above 21 in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// No dialect: there are none, except those of Dragonfly, which writes version 9.
    Shared,
    /// Redis 7.4 and later.
    Redis,
    /// Valkey 9 and Pantala.
    Valkey,
}

/// The last version that Redis and Valkey share.
const LAST_SHARED: u16 = 11;
/// The last known version of each.
const LAST_KNOWN_OF_REDIS: u16 = 12;
const LAST_KNOWN_OF_VALKEY: u16 = 80;
/// Kinds from here on have different meanings in different dialects.
const FIRST_DIFFERENT: u8 = RdbKind::HASH_2.0;

/// The version in a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RdbVersion {
    /// The number.
    pub number: u16,
    /// Its dialect.
    pub dialect: Dialect,
}

impl RdbVersion {
    /// Parses a head; `None` if it is invalid.
    pub(super) fn of(head: &Head) -> Option<RdbVersion> {
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
        Some(RdbVersion { number, dialect })
    }

    /// Whether files of this version are accepted.
    pub(super) fn is_taken(self, versions: Versions) -> bool {
        let last = match self.dialect {
            Dialect::Shared | Dialect::Redis => LAST_KNOWN_OF_REDIS,
            Dialect::Valkey => LAST_KNOWN_OF_VALKEY,
        };
        let first = if self.dialect == Dialect::Valkey { FIRST_OF_VALKEY } else { 1 };
        versions == Versions::All || (first..=last).contains(&self.number)
    }

    /// Whether the file ends with a checksum: since Redis 2.6.
    pub(super) fn has_checksum(self) -> bool {
        self.number >= 5
    }

    /// The kind for a byte. The kind may be unknown.
    pub(super) fn kind(self, byte: u8) -> Option<RdbKind> {
        let redis = [RdbKind::HASH_BEFORE_RELEASE, RdbKind::HASH_LISTPACK_BEFORE_RELEASE];
        let later = [RdbKind::HASH_METADATA, RdbKind::HASH_LISTPACK_DEADLINES];
        match (self.dialect, byte) {
            (_, 0..FIRST_DIFFERENT) | (Dialect::Shared, 31..=32) => Some(RdbKind(byte)),
            (Dialect::Redis, 22..=23) => Some(redis[usize::from(byte - 22)]),
            (Dialect::Redis, 24..=25) => Some(later[usize::from(byte - 24)]),
            (Dialect::Valkey, 22 | 112 | 113) => Some(RdbKind(byte)),
            _ => None,
        }
    }
}

const _: () = assert!(HEAD_BYTES == b"VALKEY080".len());
const _: () = assert!(opcode::KEY_METADATA == opcode::SLOT_IMPORT);
