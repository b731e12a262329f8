//! The tail of a string: memcached's flags and cas number, at the end of the record's block.
//!
//! ```text
//! | ... value part | room | flags u32 | state u8, cas u56 |      the last 12 bytes of the block
//! ```
//!
//! - A string with a tail has bit 2 of its kind set (`word`). Other strings pay no byte for it, and
//!   a lookup or a read no instruction: the mask that reads the encoding removes that bit anyway.
//! - It is at the end, so no offset of key, deadline or value depends on it.
//! - **Flags** survive an append, an increment, a rename and a copy. A whole new value from
//!   elsewhere (SET) drops the tail, which means flags 0.
//! - **The cas number** is kept only after it was asked for, so writers of records without a tail
//!   pay only for testing a bit that they have loaded. Every change of the text forgets it, and so
//!   does another key, but not another deadline. No number is given twice to one key, so it names
//!   one state of the value. 0 is none.
//! - **The state** is eight bits for the layer that speaks memcached's meta protocol. Another text
//!   forgets it; a number that replaces a number does not.
//! - Collections have none: memcached does not see them.
//!
//! Invariant
//! - L1. The value part of a record with a tail ends at least 12 bytes before its block does. Code
//!   that changes the value part removes the tail first, and restores it after.
//!
//! Not here: who assigns cas numbers (the keyspace). Tests: `tests/tails.rs`, `tests/model.rs`.

use crate::records::number::int_width;
use crate::records::record::{Record, record_class, reshape};
use crate::word::{BucketWord, Kind};

/// Bytes of a tail.
pub(crate) const TAIL_BYTES: usize = 12;
const _: () =
    assert!(TAIL_BYTES == 4 + 8 && CAS_BITS + u8::BITS == 64, "flags; a cas number and a state");

const CAS_BITS: u32 = 56;
/// The largest cas number.
pub const CAS_MAX: u64 = (1 << CAS_BITS) - 1;

/// Memcached's metadata beside a string: flags, cas number, state. All zero is the same as none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// The client's flags, opaque to the server.
    pub flags: u32,
    /// The cas number, at most [`CAS_MAX`]; 0 if nobody has asked for it since the last change.
    pub cas: u64,
    /// Bits whose meaning only the memcached front end knows.
    pub state: u8,
}

impl Tail {
    /// A tail with these flags and nothing else.
    pub fn of_flags(flags: u32) -> Tail {
        Tail { flags, ..Tail::default() }
    }

    /// What survives when the text changes.
    pub(crate) fn of_other_text(self) -> Tail {
        Tail::of_flags(self.flags)
    }

    /// What survives when a number replaces a number.
    pub(crate) fn of_other_number(self) -> Tail {
        Tail { cas: 0, ..self }
    }

    /// Keeps everything; for [`without`].
    pub(crate) fn same(self) -> Tail {
        self
    }

    fn is_none(self) -> bool {
        self == Tail::default()
    }
}

/// Where the tail is, or would be.
fn place(record: Record) -> *mut u8 {
    // A record has 16 bytes at least (R1).
    record.at().wrapping_add(record.room() - TAIL_BYTES)
}

/// The tail of a record; all zero if it has none.
///
/// # Safety
/// `word` owns a live record.
pub(crate) unsafe fn tail_of(word: BucketWord) -> Tail {
    if !word.has_tail() {
        return Tail::default();
    }
    // SAFETY: the caller's promise; L1: the last 12 bytes of the block are initialised.
    unsafe {
        let at = place(Record::of(word));
        let flags = at.cast::<u32>().read_unaligned();
        let rest = at.add(4).cast::<u64>().read_unaligned();
        Tail { flags, cas: rest & CAS_MAX, state: (rest >> CAS_BITS) as u8 }
    }
}

/// # Safety
/// `word` owns a live record whose value part ends 12 bytes before its block does.
unsafe fn write(word: &mut BucketWord, tail: Tail) {
    debug_assert!(tail.cas <= CAS_MAX && !word.kind().is_object());
    let rest = tail.cas & CAS_MAX | u64::from(tail.state) << CAS_BITS;
    // SAFETY: the caller's promise.
    unsafe {
        let at = place(Record::of(*word));
        at.cast::<u32>().write_unaligned(tail.flags);
        at.add(4).cast::<u64>().write_unaligned(rest);
    }
    word.set_has_tail(true);
}

/// Gives a string this tail, or none where it is all zero.
///
/// # Safety
/// `word` owns a live string record.
pub(crate) unsafe fn set(word: &mut BucketWord, tail: Tail) {
    // SAFETY: the caller's promise.
    unsafe {
        if tail.is_none() {
            word.set_has_tail(false);
        } else if word.has_tail() {
            write(word, tail);
        } else {
            put_on(word, tail);
        }
    }
}

/// Gives a string without a tail one. The record moves when 12 bytes more do not fit.
///
/// # Safety
/// `word` owns a live string record without a tail.
unsafe fn put_on(word: &mut BucketWord, tail: Tail) {
    // SAFETY: the caller's promise; room is made before it is used (L1).
    unsafe {
        let used = |word: BucketWord| {
            let record = Record::of(word);
            record.value_at() + record.value_part_bytes() + TAIL_BYTES
        };
        let record = Record::of(*word);
        if used(*word) > record.room() && word.form() == Kind::INT {
            // Little-endian: the narrowest width is a prefix of what is there.
            record.set_aux(int_width(record.int()) as u16);
        }
        if used(*word) > record.room() {
            reshape(word, record_class(used(*word)));
        }
        debug_assert!(used(*word) <= Record::of(*word).room(), "L1: there is room");
        write(word, tail);
    }
}

/// Runs `change`, which may move the value part, without the tail; then restores what `left` keeps
/// of it.
///
/// # Safety
/// `word` owns a live record, also after `change`, and then of a string if it did before.
#[inline]
pub(crate) unsafe fn without<T>(
    word: &mut BucketWord,
    left: fn(Tail) -> Tail,
    change: impl FnOnce(&mut BucketWord) -> T,
) -> T {
    if !word.has_tail() {
        return change(word);
    }
    // SAFETY: the caller's promise: after the change it is a string without a tail.
    unsafe {
        let tail = left(tail_of(*word));
        word.set_has_tail(false);
        let result = change(word);
        debug_assert!(!word.has_tail(), "L1: nobody else restores it");
        set(word, tail);
        result
    }
}

/// Proves L1 and that the value part is inside the block; for tests.
///
/// # Safety
/// As for [`tail_of`].
pub(crate) unsafe fn check(word: BucketWord) {
    // SAFETY: the caller's promise.
    let record = unsafe { Record::of(word) };
    let tail = if word.has_tail() { TAIL_BYTES } else { 0 };
    assert!(record.value_at() + record.value_part_bytes() + tail <= record.room(), "R2, L1");
}
