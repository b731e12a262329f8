//! Strings inside records: layout, overwriting, growing and cutting.
//!
//! A string is an *int* when its text is the canonical text of an `i64`; otherwise its bytes lie
//! *inline* after the key, or in a separate block (*long*) where that takes less memory: classes
//! are coarse, so a 16-byte key with 1,024 bytes inline would take 1,280 bytes, and separately
//! takes 32 + 1,024. A value is overwritten in place when it fits and does not waste more than half
//! of its class. A string that is grown gets an eighth more room than it had, which the allocator's
//! classes give anyway while it is small.
//!
//! Invariants: those of `record`.
//! Not here: objects, and ownership of what is taken out (`owned`).
//! Tests: at the foot of this file; `tests/records.rs`; `tests/model.rs`.

use std::ptr;

use pantala_base::UnixMs;

use crate::class::{class_bytes, room_bytes, room_code, size_class};
use crate::records::number::{IntText, as_int, int_width};
use crate::records::record::{
    LONG_PART_BYTES, MAX_STRING_BYTES, Record, allocate, reallocate, record_class, release,
    reshape, value_offset,
};
use crate::records::tail::{self, TAIL_BYTES, Tail};
use crate::word::{BucketWord, Kind};

/// Shorter values are never long: the second cache miss would cost more than the bytes.
const LONG_MIN_BYTES: usize = 64;

/// The layout of a string in a fresh record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Plan {
    Int(i64),
    Inline,
    Long,
}

/// An owned value part that was taken out of its record.
pub(crate) enum LooseValue {
    /// A block with this room.
    Block(*mut u8, usize),
    /// A boxed object.
    Object(*mut u8),
}

fn plan(value_at: usize, value: &[u8]) -> Plan {
    match as_int(value) {
        Some(number) => Plan::Int(number),
        None => plan_bytes(value_at, value.len()),
    }
}

fn plan_bytes(value_at: usize, len: usize) -> Plan {
    if len < LONG_MIN_BYTES {
        return Plan::Inline;
    }
    let long = size_class(value_at + LONG_PART_BYTES) + size_class(len);
    if len > usize::from(u16::MAX) || long < size_class(value_at + len) {
        Plan::Long
    } else {
        Plan::Inline
    }
}

/// Bytes of the value part of a string of `len` bytes under this plan.
fn part_bytes(plan: Plan, len: usize) -> usize {
    match plan {
        Plan::Int(number) => int_width(number),
        Plan::Inline => len,
        Plan::Long => LONG_PART_BYTES,
    }
}

/// Bytes that a record takes with everything it owns, given the lengths of its key and its string,
/// which is not the text of a number.
pub fn string_bytes(key_bytes: usize, value_bytes: usize, has_deadline: bool) -> usize {
    let value_at = value_offset(key_bytes, has_deadline);
    let plan = plan_bytes(value_at, value_bytes);
    let block = if plan == Plan::Long { size_class(value_bytes) } else { 0 };
    class_bytes(record_class(value_at + part_bytes(plan, value_bytes))) + block
}

/// Whether a block of `room` bytes is too much for `need`.
fn wastes(need: usize, room: usize) -> bool {
    room > 64 && size_class(need) * 2 < room
}

/// A record with this key and string.
pub(crate) fn create(key: &[u8], value: &[u8], deadline: Option<UnixMs>) -> BucketWord {
    create_with_room::<0>(key, value, deadline)
}

/// A record with this key, string and tail.
pub(crate) fn create_with_tail(
    key: &[u8],
    value: &[u8],
    deadline: Option<UnixMs>,
    tail: Tail,
) -> BucketWord {
    let mut word = create_with_room::<TAIL_BYTES>(key, value, deadline);
    // SAFETY: a fresh record of a string.
    unsafe { tail::set(&mut word, tail) };
    word
}

/// A record with `TAIL` bytes of room after the value part.
#[inline]
fn create_with_room<const TAIL: usize>(
    key: &[u8],
    value: &[u8],
    deadline: Option<UnixMs>,
) -> BucketWord {
    assert!(value.len() <= MAX_STRING_BYTES, "a string has at most 4 GiB - 1 bytes");
    let plan = plan(value_offset(key.len(), deadline.is_some()) + TAIL, value);
    let part = part_bytes(plan, value.len()) + TAIL;
    let mut word = Record::create(key, deadline, Kind::INT, part);
    // SAFETY: the record was made with room for this plan; its value part owns nothing yet.
    unsafe { write::<TAIL>(&mut word, plan, value) };
    word
}

/// Makes a record with another key and a copy of the string, the deadline and the flags; with the
/// same key also of the rest of the tail. An edited string stays edited: bytes that happen to be
/// the text of a number are not converted to a number.
///
/// # Safety
/// `word` owns a live string record.
pub(crate) unsafe fn duplicate(word: BucketWord, key: &[u8]) -> BucketWord {
    // SAFETY: the caller's promise; the new record is made with room for the plan.
    unsafe {
        let record = Record::of(word);
        let mut copy = duplicate_bare(word, key);
        if word.has_tail() {
            let whole = tail::tail_of(word);
            let is_same = record.has_key(key);
            tail::set(&mut copy, if is_same { whole } else { Tail::of_flags(whole.flags) });
        }
        copy
    }
}

/// # Safety
/// As for [`duplicate`].
unsafe fn duplicate_bare(word: BucketWord, key: &[u8]) -> BucketWord {
    // SAFETY: the caller's promise; the new record is made with room for the plan.
    unsafe {
        let record = Record::of(word);
        let deadline = record.deadline();
        if word.form() == Kind::INT {
            return create(key, IntText::new().write(record.int()), deadline);
        }
        let (at, len) = record.bytes();
        let plan = plan_bytes(value_offset(key.len(), deadline.is_some()), len);
        let mut copy = Record::create(key, deadline, Kind::INT, part_bytes(plan, len));
        write::<0>(&mut copy, plan, std::slice::from_raw_parts(at, len));
        copy.set_edited(word.is_edited());
        copy
    }
}

/// Writes the value part.
///
/// # Safety
/// `word` owns a live record with room for the plan's part and `TAIL` bytes, and has no tail; what
/// the value part owned has been taken out.
#[inline]
unsafe fn write<const TAIL: usize>(word: &mut BucketWord, plan: Plan, value: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe {
        match plan {
            Plan::Int(number) => write_int::<TAIL>(word, number),
            Plan::Inline => {
                word.set_kind(Kind::INLINE);
                let record = Record::of(*word);
                ptr::copy_nonoverlapping(value.as_ptr(), record.value(), value.len());
                record.set_aux(value.len() as u16);
            }
            Plan::Long => {
                let code = room_code(value.len());
                let block = allocate(room_bytes(code));
                ptr::copy_nonoverlapping(value.as_ptr(), block, value.len());
                word.set_kind(Kind::LONG);
                Record::of(*word).write_long(block, value.len(), code);
            }
        }
    }
}

/// Writes a number as wide as the record has room for, so that it can grow in place.
///
/// # Safety
/// As for [`write`].
unsafe fn write_int<const TAIL: usize>(word: &mut BucketWord, number: i64) {
    word.set_kind(Kind::INT);
    // SAFETY: the caller's promise; a width wider than the least is taken only when it fits the
    // class.
    unsafe {
        let record = Record::of(*word);
        let spare = record.room() - record.value_at() - TAIL;
        let width = if spare >= 8 { 8 } else { int_width(number) };
        ptr::copy_nonoverlapping(number.to_le_bytes().as_ptr(), record.value(), width);
        record.set_aux(width as u16);
    }
}

/// Takes out what the value part owns; the value part must be written again afterwards.
///
/// # Safety
/// `word` owns a live record.
pub(crate) unsafe fn take_loose(word: &mut BucketWord) -> Option<LooseValue> {
    // SAFETY: the caller's promise; the kind is set to one that owns nothing, so it is taken once
    // (R4).
    unsafe {
        let record = Record::of(*word);
        let loose = match word.form() {
            Kind::INT | Kind::INLINE => return None,
            Kind::LONG => LooseValue::Block(record.long().0, record.long_room()),
            _ => LooseValue::Object(record.take_object()),
        };
        word.set_kind(Kind::INLINE);
        record.set_aux(0);
        Some(loose)
    }
}

/// Replaces the value by a string, keeping key and deadline.
///
/// # Safety
/// `word` owns a live record.
pub(crate) unsafe fn set(word: &mut BucketWord, value: &[u8]) -> Option<LooseValue> {
    // SAFETY: the caller's promise.
    unsafe { set_with_room::<0>(word, value) }
}

/// Replaces the value by a string, keeps key and deadline, and sets the tail.
///
/// # Safety
/// `word` owns a live record.
pub(crate) unsafe fn set_with_tail(
    word: &mut BucketWord,
    value: &[u8],
    tail: Tail,
) -> Option<LooseValue> {
    // SAFETY: the caller's promise; after it is set it is a string.
    unsafe {
        let loose = set_with_room::<TAIL_BYTES>(word, value);
        tail::set(word, tail);
        loose
    }
}

/// Replaces the value by a string without a tail. Where the record moves it gets `TAIL` bytes of
/// room more than it needs.
///
/// # Safety
/// `word` owns a live record.
#[inline]
unsafe fn set_with_room<const TAIL: usize>(
    word: &mut BucketWord,
    value: &[u8],
) -> Option<LooseValue> {
    assert!(value.len() <= MAX_STRING_BYTES, "a string has at most 4 GiB - 1 bytes");
    word.begin_anew();
    // SAFETY: the caller's promise.
    unsafe {
        let record = Record::of(*word);
        let number = as_int(value);
        if number.is_none() && word.form() == Kind::LONG && overwrite_long(record, value) {
            return None;
        }
        let (value_at, room) = (record.value_at() + TAIL, record.room());
        let plan = match number {
            Some(number) => Plan::Int(number),
            None if fits_inline(value_at, value.len(), room) => Plan::Inline,
            None => plan_bytes(value_at, value.len()),
        };
        let loose = take_loose(word);
        make_part(word, part_bytes(plan, value.len()) + TAIL);
        write::<TAIL>(word, plan, value);
        loose
    }
}

fn fits_inline(value_at: usize, len: usize, room: usize) -> bool {
    len <= usize::from(u16::MAX) && value_at + len <= room && !wastes(value_at + len, room)
}

/// Replaces the value by a number; flags stay.
///
/// # Safety
/// `word` owns a live record.
pub(crate) unsafe fn set_int(word: &mut BucketWord, number: i64) -> Option<LooseValue> {
    word.set_edited(false);
    // SAFETY: the caller's promise.
    unsafe {
        tail::without(word, Tail::of_other_number, |word| {
            let loose = take_loose(word);
            make_part(word, int_width(number));
            write_int::<0>(word, number);
            loose
        })
    }
}

/// Moves the record to a fitting class when `part_bytes` of value part do not fit or waste its
/// class.
///
/// # Safety
/// `word` owns a live record without a tail whose value part owns nothing.
pub(crate) unsafe fn make_part(word: &mut BucketWord, part_bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let record = Record::of(*word);
        let (need, room) = (record.value_at() + part_bytes, record.room());
        if need > room || wastes(need, room) {
            record.set_aux(0);
            reshape(word, record_class(need));
        }
    }
}

/// Overwrites a long value in its own block if its room fits. Returns whether it did.
///
/// # Safety
/// `record` is a long string.
unsafe fn overwrite_long(record: Record, value: &[u8]) -> bool {
    let room = record.long_room();
    if value.len() < LONG_MIN_BYTES || value.len() > room || wastes(value.len(), room) {
        return false;
    }
    let block = record.long().0;
    // SAFETY: R3: the block has `room` bytes and is nobody else's.
    unsafe { ptr::copy_nonoverlapping(value.as_ptr(), block, value.len()) };
    record.write_long(block, value.len(), record.aux());
    true
}

/// Resizes the value bytes (never an int) to exactly `len`; old bytes up to `len` are kept, new
/// bytes are not initialised. Returns the old length.
///
/// # Safety
/// `word` owns a live string record; the caller writes the new bytes at once.
pub(crate) unsafe fn resize(word: &mut BucketWord, len: usize) -> usize {
    assert!(len <= MAX_STRING_BYTES, "a string has at most 4 GiB - 1 bytes");
    word.set_edited(true);
    // SAFETY: the caller's promise.
    unsafe {
        tail::without(word, Tail::of_other_text, |word| {
            int_to_bytes(word);
            match word.form() {
                Kind::INLINE => resize_inline(word, len),
                _ => resize_long(word, len),
            }
        })
    }
}

/// Prepares changing the bytes in place: an int becomes text, and the tail forgets the old text.
///
/// # Safety
/// `word` owns a live string record.
pub(crate) unsafe fn open_bytes(word: &mut BucketWord) {
    word.set_edited(true);
    // SAFETY: the caller's promise.
    unsafe { tail::without(word, Tail::of_other_text, |word| int_to_bytes(word)) }
}

/// Turns an int into its text.
///
/// # Safety
/// `word` owns a live string record without a tail.
unsafe fn int_to_bytes(word: &mut BucketWord) {
    if word.form() != Kind::INT {
        return;
    }
    // SAFETY: an int owns nothing; the caller's promise.
    unsafe {
        let mut room = IntText::new();
        let text = room.write(Record::of(*word).int());
        make_part(word, text.len());
        write::<0>(word, Plan::Inline, text);
    }
}

/// # Safety
/// `word` owns a live inline record without a tail.
unsafe fn resize_inline(word: &mut BucketWord, len: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        let record = Record::of(*word);
        let (old_len, value_at) = (usize::from(record.aux()), record.value_at());
        if fits_inline(value_at, len, record.room()) {
            record.set_aux(len as u16);
        } else if plan_bytes(value_at, len) == Plan::Inline {
            reshape(word, record_class(value_at + len));
            Record::of(*word).set_aux(len as u16);
        } else {
            let code = room_code(len);
            let block = allocate(room_bytes(code));
            ptr::copy_nonoverlapping(record.value(), block, old_len.min(len));
            make_part(word, LONG_PART_BYTES);
            word.set_kind(Kind::LONG);
            Record::of(*word).write_long(block, len, code);
        }
        old_len
    }
}

/// # Safety
/// `word` owns a live long record without a tail.
unsafe fn resize_long(word: &mut BucketWord, len: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        let record = Record::of(*word);
        let (block, old_len) = record.long();
        let room = record.long_room();
        let shrinks = len < old_len && wastes(len, room);
        if shrinks && plan_bytes(record.value_at(), len) == Plan::Inline {
            make_part_for_inline(word, len);
            let record = Record::of(*word);
            ptr::copy_nonoverlapping(block, record.value(), len);
            record.set_aux(len as u16);
            release(block, room);
        } else if len > room || shrinks {
            // Pages alone would make appending quadratic.
            let code = room_code(if shrinks { len } else { len.max(room + room / 8) });
            record.write_long(reallocate(block, room, room_bytes(code)), len, code);
        } else {
            record.write_long(block, len, record.aux());
        }
        old_len
    }
}

/// # Safety
/// `word` owns a live long record, and the caller has its block.
unsafe fn make_part_for_inline(word: &mut BucketWord, len: usize) {
    word.set_kind(Kind::INLINE);
    // SAFETY: the value part owns nothing now: the caller has the block.
    unsafe { make_part(word, len) };
}
