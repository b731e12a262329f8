//! The shapes of sections and values: enough to find where they end without decoding them.
//!
//! A shape is a list of items, each of which tells its own length. `skim` walks it.

use super::opcode;
use super::version::Dialect;
use crate::RdbKind;

/// A sequence of items.
pub type EntryShape = &'static [Item];

/// One item of a shape.
#[derive(Clone, Copy, Debug)]
pub enum Item {
    /// A string in any encoding.
    String,
    /// A number, encoded as in `scalars::length`.
    Length,
    /// This many bytes.
    Bytes(u8),
    /// A score as text.
    OldScore,
    /// A count, and this shape so many times.
    Times(EntryShape),
    /// Four bytes of bits, and four more if the second bit is set.
    KeyBits,
    /// A module's data: opcodes and what they announce, up to the end opcode.
    ModuleParts,
}

use Item::{Bytes, KeyBits, Length, ModuleParts, OldScore, String, Times};

/// The shape of an entry's key.
pub const KEY: EntryShape = &[String];

const ID: EntryShape = &[Bytes(16)];
const STREAM_NODES: Item = Times(&[String, String]);
const PENDING: Item = Times(&[Bytes(16), Bytes(8), Length]);
const STREAM: EntryShape = &[
    STREAM_NODES,
    Length,
    Length,
    Length,
    Times(&[String, Length, Length, PENDING, Times(&[String, Bytes(8), Times(ID)])]),
];
/// The length, last id, first id, largest deleted id, entries added.
const COUNTERS: [Item; 8] = [Length; 8];
const CONSUMERS: Item = Times(&[String, Bytes(8), Bytes(8), Times(ID)]);
const GROUPS: Item = Times(&[String, Length, Length, Length, PENDING, CONSUMERS]);

const fn stream_2(groups: Item) -> [Item; 10] {
    let [a, b, c, d, e, f, g, h] = COUNTERS;
    [STREAM_NODES, a, b, c, d, e, f, g, h, groups]
}

const STREAM_2: &[Item; 10] = &stream_2(Times(&[
    String,
    Length,
    Length,
    Length,
    PENDING,
    Times(&[String, Bytes(8), Times(ID)]),
]));
const STREAM_3: &[Item; 10] = &stream_2(GROUPS);

/// The shape of a value of this kind.
pub fn of_value(kind: RdbKind) -> Option<EntryShape> {
    Some(match kind {
        RdbKind::LIST | RdbKind::SET | RdbKind::LIST_QUICKLIST => &[Times(&[String])],
        RdbKind::SORTED_SET => &[Times(&[String, OldScore])],
        RdbKind::SORTED_SET_2 | RdbKind::SET_WITH_DEADLINES => &[Times(&[String, Bytes(8)])],
        RdbKind::SORTED_SET_WITH_DEADLINES => &[Times(&[String, Bytes(8), Bytes(8)])],
        RdbKind::HASH => &[Times(&[String, String])],
        RdbKind::HASH_2 => &[Times(&[String, String, Bytes(8)])],
        RdbKind::HASH_BEFORE_RELEASE => &[Times(&[Length, String, String])],
        RdbKind::HASH_METADATA => &[Bytes(8), Times(&[Length, String, String])],
        RdbKind::HASH_LISTPACK_DEADLINES => &[Bytes(8), String],
        RdbKind::HASH_OF_DRAGONFLY => &[Times(&[String, String, String])],
        RdbKind::SET_OF_DRAGONFLY => &[Times(&[String, String])],
        RdbKind::LIST_QUICKLIST_2 => &[Times(&[Length, String])],
        RdbKind::STRING
        | RdbKind::HASH_ZIPMAP
        | RdbKind::LIST_ZIPLIST
        | RdbKind::SET_INTSET
        | RdbKind::SORTED_SET_ZIPLIST
        | RdbKind::HASH_ZIPLIST
        | RdbKind::HASH_LISTPACK
        | RdbKind::SORTED_SET_LISTPACK
        | RdbKind::SET_LISTPACK
        | RdbKind::HASH_LISTPACK_BEFORE_RELEASE => &[String],
        RdbKind::STREAM => STREAM,
        RdbKind::STREAM_2 => STREAM_2,
        RdbKind::STREAM_3 => STREAM_3,
        RdbKind::MODULE => &[Length, ModuleParts],
        _ => return None,
    })
}

/// The shape of a field before the kind of an entry.
pub fn of_prefix(mark: u8, dialect: Dialect) -> Option<EntryShape> {
    Some(match mark {
        opcode::DEADLINE_MS => &[Bytes(8)],
        opcode::DEADLINE_SECONDS => &[Bytes(4)],
        opcode::IDLE => &[Length],
        opcode::FREQUENCY => &[Bytes(1)],
        opcode::KEY_BITS if dialect != Dialect::Redis => &[KeyBits],
        opcode::KEY_METADATA if dialect == Dialect::Redis => &[Times(&[Bytes(4), ModuleParts])],
        _ => return None,
    })
}

/// The shape of a section other than an entry, after its opcode.
pub fn of_section(mark: u8, dialect: Dialect) -> Option<EntryShape> {
    Some(match mark {
        opcode::AUX => &[String, String],
        opcode::FUNCTION => &[String],
        opcode::DATABASE => &[Length],
        opcode::SIZES => &[Length, Length],
        opcode::SLOT_SIZES => &[Length, Length, Length],
        opcode::SLOT_IMPORT if dialect == Dialect::Valkey => &[String, Times(&[Length, Length])],
        opcode::COMPRESSED_LZ4 | opcode::COMPRESSED_ZSTD if dialect == Dialect::Shared => &[String],
        opcode::MODULE_AUX => &[Length, ModuleParts],
        opcode::END => &[Bytes(8)],
        _ => return None,
    })
}
