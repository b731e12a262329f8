//! The RDB format of values, in which Redis and Valkey keep them in snapshot files and DUMP returns
//! them.
//!
//! ```text
//! DUMP's payload:   kind | value                     | version | checksum      (see `payload`)
//! a snapshot file:  kind | key | value  kind | key | value ...                 (see `file`)
//! ```
//!
//! A value has one of some twenty kinds ([`RdbKind`]): several for each type, by encoding and age.
//! All kinds are read. Each value is written in the oldest kind that loses nothing, so old servers
//! can read it:
//!
//! | type | small | large |
//! |---|---|---|
//! | string | 0 | 0 |
//! | list | 18, a listpack | 18, several |
//! | set | 11, numbers; else 2 | 2; 112 with deadlines (ours) |
//! | sorted set | 17, a listpack, with whole scores; else 5 | 5; 113 with deadlines (ours) |
//! | hash | 16, a listpack | 4; 22 with deadlines (Valkey 9); 23 to 25 are Redis's, only read |
//! | stream | 19; 21 where a consumer's two times differ | the same |
//!
//! | file | what |
//! |---|---|
//! | `kind` | the numbers, and which servers know them |
//! | `input` | a cursor over bytes |
//! | `scalars` | lengths, strings, compressed strings, deadlines |
//! | `packed` | packed elements, as they lie in a string |
//! | `types` | encoding and decoding one type of collection each |
//! | `beside` | metadata before a key |
//! | `payload` | version and checksum around one value |
//! | `functions` | the code of libraries |
//! | `file` | snapshot files |
//!
//! Invariants
//! 1. No bytes make anything here panic. Allocation is bounded by the length of the bytes and by
//!    what compression can make of them (88 bytes of one), never by a claimed length.
//! 2. Time is linear in the bytes, times a logarithm for sorted sets.
//! 3. Decoded values hold the invariants of `values`: no duplicates, in order, not empty.
//! 4. A written value is read back unchanged. So are encodings where the limits are the same,
//!    except packed sets of numbers, which become sets of integers.
//!
//! Not here: input and output, threads, clocks. The format follows the public descriptions of RDB
//! files; what these lack was read off the bytes of Valkey 9.1.2 and Redis 7.0.15. Tests: at the
//! foot of the files, `tests/` (round trips, files of other servers), `compat/clients/dump.py` and
//! `rdb_files.py` (both ways with other servers), `fuzz/src/rdb.rs`.

#![forbid(unsafe_code)]

mod beside;
pub mod file;
pub mod functions;
mod input;
mod kind;
mod packed;
pub mod payload;
mod scalars;
mod types;

use pantala_base::UnixMs;
use pantala_table::ValueRef;
use pantala_values::hash::HashLimits;
use pantala_values::list::Fill;
use pantala_values::set::SetLimits;
use pantala_values::sorted_set::SortedSetLimits;
use pantala_values::stream::BlockLimits;
use pantala_values::{Object, Variant};

pub use beside::{KeyMetadata, write_flags};
pub use input::{Input, Malformed};
pub use kind::RdbKind;
pub use scalars::text::{Strings, Style, Text};

use scalars::text;
use types::{hash, list, set, sorted_set, stream};

/// Limits for decoded values, and the sizes up to which collections are packed.
#[derive(Clone, Copy, Debug)]
pub struct RdbLimits {
    /// The longest string or element, in bytes.
    pub text_bytes: usize,
    /// Hashes.
    pub hash: HashLimits,
    /// Lists.
    pub list: Fill,
    /// Sets.
    pub set: SetLimits,
    /// Sorted sets.
    pub sorted_set: SortedSetLimits,
    /// Streams.
    pub stream: BlockLimits,
}

/// A decoded value.
#[derive(Debug)]
pub enum RdbValue<'a> {
    /// A string.
    String(Text<'a>),
    /// A collection.
    Object(Object),
}

impl RdbValue<'_> {
    /// A view for writing.
    pub fn view(&self) -> ValueRef<'_, Object> {
        match self {
            RdbValue::String(text) => ValueRef::Str(text.view()),
            RdbValue::Object(object) => ValueRef::Object(object),
        }
    }
}

/// A time before every deadline.
const BEFORE_ALL: UnixMs = UnixMs(i64::MIN);

/// The kind in which a value is written.
pub fn kind_of(value: &ValueRef<'_, Object>, now: UnixMs) -> RdbKind {
    match value {
        ValueRef::Str(_) => RdbKind::STRING,
        ValueRef::Object(Object::List(_)) => RdbKind::LIST_QUICKLIST_2,
        ValueRef::Object(Object::Set(set)) => set::kind_of(set.view(), now),
        ValueRef::Object(Object::SortedSet(set)) => sorted_set::kind_of(set, now),
        ValueRef::Object(Object::Hash(hash)) => hash::kind_of(hash.view(), now),
        ValueRef::Object(Object::Stream(stream)) => stream::kind_of(stream),
    }
}

/// Appends a value, without its kind. Elements that have expired at `now` are left out.
pub fn write(value: &ValueRef<'_, Object>, now: UnixMs, strings: Strings, out: &mut Vec<u8>) {
    let mut writing = Writing::begin(value, now, strings);
    while !writing.go_on(value, usize::MAX, out) {}
}

/// The part of a value to be written now.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// The kind in which it is written.
    kind: RdbKind,
    /// Where the last part ended; 0 at the start.
    from: usize,
    now: UnixMs,
    style: Style,
    /// The approximate size of the part in bytes.
    most_bytes: usize,
}

impl Part {
    /// The length of `out` at which the part ends.
    fn end(&self, out: &[u8]) -> usize {
        out.len().saturating_add(self.most_bytes)
    }
}

/// A value that is written in parts, between which it must not change.
#[derive(Debug)]
pub struct Writing {
    kind: RdbKind,
    now: UnixMs,
    style: Style,
    from: usize,
    text: text::Writing,
    stream: stream::Writing,
}

impl Writing {
    /// Prepares writing the value. Elements that have expired at `now` are left out.
    pub fn begin(value: &ValueRef<'_, Object>, now: UnixMs, style: impl Into<Style>) -> Writing {
        let style @ Style { is_portable, is_old, .. } = style.into();
        let kind = match kind_of(value, now) {
            kind if is_old => kind.old(),
            kind if is_portable => kind.portable(),
            kind => kind,
        };
        Writing {
            kind,
            now,
            style,
            from: 0,
            text: text::Writing::default(),
            stream: stream::Writing::default(),
        }
    }

    /// The kind in which it is written.
    pub fn kind(&self) -> RdbKind {
        self.kind
    }

    /// Appends about this many bytes of the value, without its kind; returns whether it is
    /// finished.
    pub fn go_on(
        &mut self,
        value: &ValueRef<'_, Object>,
        most_bytes: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let Writing { kind, now, style, from, .. } = *self;
        let part = Part { kind, from, now, style, most_bytes };
        let next = match value {
            ValueRef::Str(text) => return self.text.go_on(*text, part, out),
            ValueRef::Object(Object::Hash(hash)) => hash::write_part(hash.view(), part, out),
            ValueRef::Object(Object::List(list)) => list::write_part(list, part, out),
            ValueRef::Object(Object::Set(set)) => set::write_part(set.view(), part, out),
            ValueRef::Object(Object::SortedSet(set)) => sorted_set::write_part(set, part, out),
            ValueRef::Object(Object::Stream(stream)) => {
                return self.stream.go_on(stream, part, out);
            }
        };
        self.from = next.unwrap_or_default();
        next.is_none()
    }
}

/// The error of a collection without elements.
const EMPTY: Malformed = Malformed("a collection without elements");

/// Reads a value of a kind. Elements that have expired at `now` are kept like others: the sweep
/// removes them.
pub fn read<'a>(
    kind: RdbKind,
    input: &mut Input<'a>,
    limits: &RdbLimits,
) -> Result<RdbValue<'a>, Malformed> {
    let object = match kind {
        RdbKind::STRING => return text::read(input, limits.text_bytes).map(RdbValue::String),
        RdbKind::LIST
        | RdbKind::LIST_ZIPLIST
        | RdbKind::LIST_QUICKLIST
        | RdbKind::LIST_QUICKLIST_2 => list::read(kind, input, limits)?.into_object(),
        RdbKind::HASH
        | RdbKind::HASH_ZIPMAP
        | RdbKind::HASH_ZIPLIST
        | RdbKind::HASH_LISTPACK
        | RdbKind::HASH_2
        | RdbKind::HASH_BEFORE_RELEASE
        | RdbKind::HASH_LISTPACK_BEFORE_RELEASE
        | RdbKind::HASH_METADATA
        | RdbKind::HASH_LISTPACK_DEADLINES
        | RdbKind::HASH_OF_DRAGONFLY => hash::read(kind, input, limits)?.into_object(),
        RdbKind::SET
        | RdbKind::SET_INTSET
        | RdbKind::SET_LISTPACK
        | RdbKind::SET_OF_DRAGONFLY
        | RdbKind::SET_WITH_DEADLINES => set::read(kind, input, limits)?.into_object(),
        RdbKind::SORTED_SET
        | RdbKind::SORTED_SET_2
        | RdbKind::SORTED_SET_ZIPLIST
        | RdbKind::SORTED_SET_LISTPACK
        | RdbKind::SORTED_SET_WITH_DEADLINES => {
            sorted_set::read(kind, input, limits)?.into_object()
        }
        RdbKind::STREAM | RdbKind::STREAM_2 | RdbKind::STREAM_3 => {
            stream::read(kind, input, limits)?.into_object()
        }
        _ => return Err(Malformed("a kind that is not known")),
    };
    if object.is_empty() {
        return Err(EMPTY);
    }
    Ok(RdbValue::Object(object))
}
