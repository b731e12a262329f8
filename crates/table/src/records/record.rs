//! The record: one allocation that holds a key and, for a short string, its value.
//!
//! ```text
//! | key length u8 | class u8 | aux u16 | [u32 key length] | [i64 deadline] | key | value
//! ```
//!
//! The key length is 255 for a long key, whose true length follows. The deadline exists only when
//! the word says so. The value part is, by the word's kind:
//!
//! | kind | value part | aux |
//! |---|---|---|
//! | int | the number in 1, 2, 4 or 8 bytes | how many bytes |
//! | inline | the bytes | their count |
//! | long | pointer, u32 length; the bytes lie in a block of their own | room code of that block |
//! | object | the object itself, at the next multiple of 8 | its bytes |
//!
//! A 16-byte key with an 8-byte value costs 32 bytes, and so does a 16-byte key with a long value.
//!
//! A string may have memcached's flags and cas number after its value part: see `tail`.
//!
//! Invariants
//! - R1. A live record was allocated with the room of its class byte, 16 bytes at least.
//! - R2. Key length, deadline bit, kind and aux of the record and its word describe bytes that are
//!   inside the class and initialised.
//! - R3. A long value's block was allocated with the room of the code in aux, its length fits and
//!   its bytes up to the length are initialised; it belongs to this record alone.
//! - R4. One word owns one record. A move inside the table copies the word and forgets the old
//!   copy.
//! - R5. An object is an `O` of the table, whole and initialised; it is moved as bytes. `O` is
//!   aligned to 8, and so is its place: a block is aligned to 16, and a deadline shifts by 8.
//!
//! Not here: where words lie (`segment`), changing strings (`text`), owned records (`owned`), flags
//! and cas numbers (`tail`).
//! Tests: `tests/records.rs`, `tests/model.rs`, and at the foot of `text`.

use std::alloc::{self, Layout};
use std::ptr;

use pantala_base::UnixMs;

use crate::Object;
use crate::class::{class_bytes, class_index, room_bytes};
use crate::records::number::int_width;
use crate::records::tail::{self, Tail};
use crate::word::{BucketWord, Kind};

const HEAD_BYTES: usize = 4;
const DEADLINE_BYTES: usize = 8;
/// Key length byte of a key whose length is written in four more bytes.
const LONG_KEY: u8 = 255;
/// Value part of a long string: pointer and length.
pub(crate) const LONG_PART_BYTES: usize = 12;
/// Alignment of objects, in bytes.
pub(crate) const OBJECT_ALIGN_BYTES: usize = 8;
/// Minimum alignment of records and long values: words use the low bits of their address.
const ALIGN_BYTES: usize = 16;
const _: () =
    assert!(HEAD_BYTES + DEADLINE_BYTES <= ALIGN_BYTES, "R1: every record has room for them");
const _: () =
    assert!(DEADLINE_BYTES.is_multiple_of(OBJECT_ALIGN_BYTES), "R5: objects stay aligned");
const _: () = assert!(LONG_PART_BYTES == 8 + 4, "a pointer and a length");

/// Longest key and longest string value. Callers enforce a smaller limit (512 MB by default).
pub const MAX_STRING_BYTES: usize = u32::MAX as usize;

const _: () = assert!(cfg!(target_endian = "little"), "numbers are cut to their low bytes");

/// The layout of a block of `room` bytes.
fn block_layout(room: usize) -> Layout {
    debug_assert!(room > 0 && room.is_multiple_of(ALIGN_BYTES));
    // SAFETY: the alignment is a power of two; a room is below 2^48, far from overflow.
    unsafe { Layout::from_size_align_unchecked(room, ALIGN_BYTES) }
}

/// The smallest class for a record of `bytes`: 16 bytes at least, because of the alignment.
#[inline]
pub(crate) fn record_class(bytes: usize) -> u8 {
    class_index(bytes.max(ALIGN_BYTES))
}

/// A fresh block of `room` bytes, which is the size of a class.
pub(crate) fn allocate(room: usize) -> *mut u8 {
    let layout = block_layout(room);
    // SAFETY: no class is empty.
    let block = unsafe { alloc::alloc(layout) };
    if block.is_null() {
        alloc::handle_alloc_error(layout);
    }
    block
}

/// Frees a block.
///
/// # Safety
/// `block` came from [`allocate`] or [`reallocate`] with this room and is not used again.
pub(crate) unsafe fn release(block: *mut u8, room: usize) {
    // SAFETY: the caller's promise.
    unsafe { alloc::dealloc(block, block_layout(room)) }
}

/// Reallocates a block, keeping the bytes that both sizes have room for.
///
/// # Safety
/// As for [`release`].
pub(crate) unsafe fn reallocate(block: *mut u8, room: usize, new_room: usize) -> *mut u8 {
    let layout = block_layout(new_room);
    // SAFETY: the caller's promise; the new size is not zero and far below isize::MAX.
    let block = unsafe { alloc::realloc(block, block_layout(room), new_room) };
    if block.is_null() {
        alloc::handle_alloc_error(layout);
    }
    block
}

/// The largest object, in bytes.
const MAX_OBJECT_BYTES: usize = 64;

/// Bytes between the key's end and an object.
#[inline]
fn object_padding(value_at: usize) -> usize {
    value_at.next_multiple_of(OBJECT_ALIGN_BYTES) - value_at
}

/// Bytes of the value part of an `O` behind a value offset.
#[inline]
pub(crate) fn object_part_bytes<O>(value_at: usize) -> usize {
    object_padding(value_at) + size_of::<O>()
}

/// Bytes before the value part.
#[inline]
pub(crate) fn value_offset(key_len: usize, deadline: bool) -> usize {
    key_offset(key_len >= usize::from(LONG_KEY), deadline) + key_len
}

#[inline]
fn key_offset(long_key: bool, deadline: bool) -> usize {
    HEAD_BYTES + if long_key { 4 } else { 0 } + if deadline { DEADLINE_BYTES } else { 0 }
}

/// A view of the record behind a word. Copies of it are valid until the record moves.
#[derive(Clone, Copy)]
pub(crate) struct Record {
    at: *mut u8,
    word: BucketWord,
}

impl Record {
    /// # Safety
    /// `word` owns a live record (R1..R5), which outlives all use of the result.
    #[inline]
    pub(crate) unsafe fn of(word: BucketWord) -> Record {
        Record { at: word.pointer(), word }
    }

    /// Allocates a record with this key and deadline, with `value_bytes` of room for the value part
    /// at least. The value part is not written yet: the caller does so before anyone reads it.
    pub(crate) fn create(
        key: &[u8],
        deadline: Option<UnixMs>,
        kind: Kind,
        value_bytes: usize,
    ) -> BucketWord {
        assert!(key.len() <= MAX_STRING_BYTES, "a key has at most 4 GiB - 1 bytes");
        let class = record_class(value_offset(key.len(), deadline.is_some()) + value_bytes);
        debug_assert!(
            value_offset(key.len(), deadline.is_some()) + value_bytes <= class_bytes(class),
            "R2: it has room"
        );
        let at = allocate(class_bytes(class));
        let long_key = key.len() >= usize::from(LONG_KEY);
        let mut word = BucketWord::new(at, kind);
        word.set_has_deadline(deadline.is_some());
        // SAFETY: head, long length, deadline and key lie before the value part, inside the class.
        unsafe {
            at.write(if long_key { LONG_KEY } else { key.len() as u8 });
            at.add(1).write(class);
            at.add(2).cast::<u16>().write(0);
            if long_key {
                at.add(HEAD_BYTES).cast::<u32>().write(key.len() as u32);
            }
            let key_at = key_offset(long_key, deadline.is_some());
            if let Some(UnixMs(ms)) = deadline {
                at.add(key_at - DEADLINE_BYTES).cast::<i64>().write_unaligned(ms);
            }
            ptr::copy_nonoverlapping(key.as_ptr(), at.add(key_at), key.len());
        }
        word
    }

    /// Where the record begins.
    #[inline]
    pub(crate) fn at(self) -> *mut u8 {
        self.at
    }

    /// Bytes of the record's own allocation.
    #[inline]
    pub(crate) fn room(self) -> usize {
        // SAFETY: R1: every record has its four bytes of head.
        class_bytes(unsafe { *self.at.add(1) })
    }

    #[inline]
    pub(crate) fn aux(self) -> u16 {
        // SAFETY: R1; the head is aligned.
        unsafe { *self.at.add(2).cast::<u16>() }
    }

    #[inline]
    pub(crate) fn set_aux(self, aux: u16) {
        // SAFETY: R1; the head is aligned; the caller that changes a record has the table borrowed
        // mutably.
        unsafe { self.at.add(2).cast::<u16>().write(aux) }
    }

    /// Where the key begins, and its length.
    #[inline]
    fn key_span(self) -> (usize, usize) {
        // SAFETY: R2.
        unsafe {
            let short = *self.at;
            if short != LONG_KEY {
                return (key_offset(false, self.word.has_deadline()), usize::from(short));
            }
            let len = *self.at.add(HEAD_BYTES).cast::<u32>();
            (key_offset(true, self.word.has_deadline()), len as usize)
        }
    }

    /// The key, for as long as the record lives unchanged (the caller picks the lifetime).
    #[inline]
    pub(crate) fn key<'r>(self) -> &'r [u8] {
        let (at, len) = self.key_span();
        debug_assert!(at + len <= self.room(), "R2: the key is inside");
        // SAFETY: R2.
        unsafe { std::slice::from_raw_parts(self.at.add(at), len) }
    }

    /// Whether this record has this key.
    #[inline]
    pub(crate) fn has_key(self, key: &[u8]) -> bool {
        // SAFETY: R2; the key bytes are compared only when the lengths are equal.
        unsafe {
            if key.len() < usize::from(LONG_KEY) {
                usize::from(*self.at) == key.len()
                    && same_bytes(self.at.add(key_offset(false, self.word.has_deadline())), key)
            } else {
                self.key() == key
            }
        }
    }

    #[inline]
    pub(crate) fn deadline(self) -> Option<UnixMs> {
        if !self.word.has_deadline() {
            return None;
        }
        // SAFETY: R2: the word says there is a deadline in front of the key.
        unsafe {
            let at = key_offset(*self.at == LONG_KEY, true) - DEADLINE_BYTES;
            Some(UnixMs(self.at.add(at).cast::<i64>().read_unaligned()))
        }
    }

    /// Overwrites the deadline of a record that has one.
    pub(crate) fn write_deadline(self, UnixMs(ms): UnixMs) {
        debug_assert!(self.word.has_deadline());
        // SAFETY: as in `deadline`.
        unsafe {
            let at = key_offset(*self.at == LONG_KEY, true) - DEADLINE_BYTES;
            self.at.add(at).cast::<i64>().write_unaligned(ms);
        }
    }

    /// Bytes before the value part.
    #[inline]
    pub(crate) fn value_at(self) -> usize {
        let (at, len) = self.key_span();
        at + len
    }

    /// The value part.
    #[inline]
    pub(crate) fn value(self) -> *mut u8 {
        // SAFETY: R2: the value part begins inside the class.
        unsafe { self.at.add(self.value_at()) }
    }

    /// Bytes of the value part.
    pub(crate) fn value_part_bytes(self) -> usize {
        match self.word.form() {
            Kind::INT | Kind::INLINE => usize::from(self.aux()),
            Kind::LONG => LONG_PART_BYTES,
            _ => object_padding(self.value_at()) + usize::from(self.aux()),
        }
    }

    /// The number of an int record.
    #[inline]
    pub(crate) fn int(self) -> i64 {
        debug_assert!(self.word.form() == Kind::INT);
        debug_assert!(matches!(self.aux(), 1 | 2 | 4 | 8), "R2: a number has a width");
        let at = self.value();
        // SAFETY: R2: aux tells how many bytes the number has.
        unsafe {
            match self.aux() {
                1 => i64::from(at.cast::<i8>().read()),
                2 => i64::from(at.cast::<i16>().read_unaligned()),
                4 => i64::from(at.cast::<i32>().read_unaligned()),
                _ => at.cast::<i64>().read_unaligned(),
            }
        }
    }

    /// Pointer and length of a long value.
    #[inline]
    pub(crate) fn long(self) -> (*mut u8, usize) {
        debug_assert!(self.word.form() == Kind::LONG);
        let at = self.value();
        // SAFETY: R2 and R3; unaligned because the key before it has any length.
        unsafe {
            let block = at.cast::<*mut u8>().read_unaligned();
            (block, at.add(8).cast::<u32>().read_unaligned() as usize)
        }
    }

    /// Bytes of the allocation of a long value.
    #[inline]
    pub(crate) fn long_room(self) -> usize {
        debug_assert!(self.word.form() == Kind::LONG);
        room_bytes(self.aux())
    }

    /// Writes the value part of a long value; `len` is at most [`MAX_STRING_BYTES`]; the block was
    /// allocated with the room of `code`.
    pub(crate) fn write_long(self, block: *mut u8, len: usize, code: u16) {
        debug_assert!(len <= room_bytes(code), "R3: it fits");
        debug_assert!(self.value_at() + LONG_PART_BYTES <= self.room(), "R2: there is room");
        let at = self.value();
        // SAFETY: the caller made 12 bytes of room at the value part.
        unsafe {
            at.cast::<*mut u8>().write_unaligned(block);
            at.add(8).cast::<u32>().write_unaligned(len as u32);
        }
        self.set_aux(code);
    }

    /// The object of an object record.
    #[inline]
    pub(crate) fn object<O>(self) -> *mut O {
        debug_assert!(self.word.kind().is_object());
        self.object_place().cast::<O>()
    }

    #[inline]
    fn object_place(self) -> *mut u8 {
        let at = self.value_at().next_multiple_of(OBJECT_ALIGN_BYTES);
        // SAFETY: R2: an object, or the room for one, lies inside the class.
        unsafe { self.at.add(at) }
    }

    /// Writes the value part of an object.
    ///
    /// # Safety
    /// The record has room for [`object_part_bytes`] at its value part.
    pub(crate) unsafe fn write_object<O>(self, object: O) {
        const {
            assert!(align_of::<O>() == OBJECT_ALIGN_BYTES && size_of::<O>() <= MAX_OBJECT_BYTES);
        }
        // SAFETY: the caller's promise; R5 about the alignment.
        unsafe { self.object_place().cast::<O>().write(object) }
        self.set_aux(size_of::<O>() as u16);
    }

    /// Moves the object into a box of its own; the record does not own it any more.
    ///
    /// # Safety
    /// This is an object record, and its value part is written anew after.
    pub(crate) unsafe fn take_object(self) -> *mut u8 {
        let bytes = usize::from(self.aux());
        // SAFETY: R5; an object is not empty, and this is the layout of its type.
        unsafe {
            let layout = Layout::from_size_align_unchecked(bytes, OBJECT_ALIGN_BYTES);
            let boxed = alloc::alloc(layout);
            if boxed.is_null() {
                alloc::handle_alloc_error(layout);
            }
            ptr::copy_nonoverlapping(self.object_place(), boxed, bytes);
            boxed
        }
    }

    /// The bytes of an inline or long value, with a lifetime the caller picks.
    #[inline]
    pub(crate) fn bytes(self) -> (*mut u8, usize) {
        if self.word.form() == Kind::LONG {
            return self.long();
        }
        debug_assert!(self.word.form() == Kind::INLINE);
        let len = usize::from(self.aux());
        debug_assert!(self.value_at() + len <= self.room(), "R2: the value is inside");
        (self.value(), len)
    }
}

/// Moves a record to a block of another class; everything before the value part is kept, the value
/// part as far as it fits.
///
/// # Safety
/// `word` owns a live record; `class` has room for all that is before the value part.
pub(crate) unsafe fn reshape(word: &mut BucketWord, class: u8) {
    // SAFETY: the caller's promise, R1.
    unsafe {
        let record = Record::of(*word);
        debug_assert!(record.value_at() <= class_bytes(class), "all before the value fits");
        let at = reallocate(record.at, record.room(), class_bytes(class));
        at.add(1).write(class);
        word.set_pointer(at);
    }
}

/// Reallocates the record and what it owns, where `renewal` wants it. If a collection has too many
/// parts for one step, `large` gets its key and the number of the next part.
///
/// # Safety
/// `word` owns a live record of a table of `O`, to which nothing refers.
pub(crate) unsafe fn renew_blocks<O: Object>(
    word: &mut BucketWord,
    renewal: &mut crate::Renewal<'_>,
    large: &mut dyn FnMut(&[u8], usize),
) {
    // SAFETY: the caller's promise; R1, R3 and R5 for what is moved, as bytes (R5), to a block of
    // the same room.
    unsafe {
        if renewal.wants(word.pointer()) {
            let room = Record::of(*word).room();
            word.set_pointer(renewed(word.pointer(), room));
        }
        let record = Record::of(*word);
        if word.form() == Kind::LONG {
            let (block, len) = record.long();
            if renewal.wants(block) {
                record.write_long(renewed(block, record.long_room()), len, record.aux());
            }
        } else if word.kind().is_object() {
            let object = &mut *record.object::<O>();
            if let Some(next) = object.renew(0, crate::PARTS_PER_STEP, renewal) {
                large(record.key(), next);
            }
        }
    }
}

/// A block of this room with the same bytes; the old one is freed.
///
/// # Safety
/// As for [`release`].
unsafe fn renewed(block: *mut u8, room: usize) -> *mut u8 {
    let fresh = allocate(room);
    // SAFETY: the caller's promise; bytes that were never written are copied as such.
    unsafe {
        ptr::copy_nonoverlapping(block, fresh, room);
        release(block, room);
    }
    fresh
}

/// Frees the record alone; a long value or an object must have been taken out or be freed after.
///
/// # Safety
/// `word` owns a live record and is not used again.
pub(crate) unsafe fn release_record(word: BucketWord) {
    // SAFETY: the caller's promise, R1.
    unsafe { release(word.pointer(), Record::of(word).room()) }
}

/// Makes a record with another key and the same deadline, flags and value part; the old one is
/// freed.
///
/// # Safety
/// `word` owns a live record and is not used again.
pub(crate) unsafe fn rekey(mut word: BucketWord, key: &[u8]) -> BucketWord {
    // SAFETY: the caller's promise. A cas number belongs to its key: it is forgotten.
    unsafe { tail::without(&mut word, Tail::of_other_text, |word| *word = rekey_bare(*word, key)) };
    word
}

/// # Safety
/// As for [`rekey`]; there is no tail.
unsafe fn rekey_bare(word: BucketWord, key: &[u8]) -> BucketWord {
    // SAFETY: the caller's promise. The value part is copied as it is: an object it points to has
    // one owner again once the old record is gone (R3, R4).
    unsafe {
        let old = Record::of(word);
        let part = old.value_part_bytes();
        let is_object = word.kind().is_object();
        // The padding before an object depends on the key.
        let most = if is_object { part + OBJECT_ALIGN_BYTES } else { part };
        let created = Record::create(key, old.deadline(), word.kind(), most);
        let new = Record::of(created);
        if is_object {
            let bytes = usize::from(old.aux());
            ptr::copy_nonoverlapping(old.object_place(), new.object_place(), bytes);
        } else {
            ptr::copy_nonoverlapping(old.value(), new.value(), part);
        }
        new.set_aux(old.aux());
        release_record(word);
        let mut moved = word;
        moved.set_pointer(created.pointer());
        moved
    }
}

/// Sets or removes the deadline; the record moves when eight more bytes do not fit.
///
/// # Safety
/// `word` owns a live record.
pub(crate) unsafe fn set_deadline(word: &mut BucketWord, deadline: Option<UnixMs>) {
    // SAFETY: the caller's promise.
    let record = unsafe { Record::of(*word) };
    match (word.has_deadline(), deadline) {
        (false, None) => {}
        (true, Some(deadline)) => record.write_deadline(deadline),
        // SAFETY: the caller's promise.
        (false, Some(deadline)) => unsafe {
            tail::without(word, Tail::same, |word| open_deadline(word, deadline));
        },
        // SAFETY: the caller's promise.
        (true, None) => unsafe { close_deadline(word) },
    }
}

/// # Safety
/// `word` owns a live record without a deadline and without a tail.
unsafe fn open_deadline(word: &mut BucketWord, deadline: UnixMs) {
    // SAFETY: the record is moved to a class with eight bytes more before they are used (R2).
    unsafe {
        let record = Record::of(*word);
        if word.form() == Kind::INT {
            // Little-endian: the narrowest width is a prefix of what is there.
            record.set_aux(int_width(record.int()) as u16);
        }
        let (key_at, key_len) = record.key_span();
        let used = key_at + key_len + record.value_part_bytes();
        if used + DEADLINE_BYTES > record.room() {
            reshape(word, record_class(used + DEADLINE_BYTES));
        }
        debug_assert!(used + DEADLINE_BYTES <= Record::of(*word).room(), "R2: there is room");
        let key = word.pointer().add(key_at);
        ptr::copy(key, key.add(DEADLINE_BYTES), used - key_at);
        word.set_has_deadline(true);
        Record::of(*word).write_deadline(deadline);
    }
}

/// # Safety
/// `word` owns a live record with a deadline.
unsafe fn close_deadline(word: &mut BucketWord) {
    // SAFETY: key and value part move down over the deadline, inside the class (R2).
    unsafe {
        let record = Record::of(*word);
        let (key_at, key_len) = record.key_span();
        let used = key_at + key_len + record.value_part_bytes();
        debug_assert!(used <= record.room(), "R2: all of it is inside");
        let key = record.at.add(key_at);
        ptr::copy(key, key.sub(DEADLINE_BYTES), used - key_at);
        word.set_has_deadline(false);
    }
}

/// Whether the bytes at `at` are `key`; short keys are compared by words, without a call.
///
/// # Safety
/// `key.len()` bytes at `at` are readable.
#[inline(always)]
unsafe fn same_bytes(at: *const u8, key: &[u8]) -> bool {
    let (other, len) = (key.as_ptr(), key.len());
    // SAFETY: the caller's promise; every read below ends at `len` or before.
    unsafe {
        let differs8 = |from: usize| {
            at.add(from).cast::<u64>().read_unaligned()
                ^ other.add(from).cast::<u64>().read_unaligned()
        };
        if len > 32 {
            return std::slice::from_raw_parts(at, len) == key;
        }
        if len >= 16 {
            let head = differs8(0) | differs8(8);
            return head | differs8(len - 16) | differs8(len - 8) == 0;
        }
        if len >= 8 {
            return differs8(0) | differs8(len - 8) == 0;
        }
        if len >= 4 {
            let differs4 = |from: usize| {
                at.add(from).cast::<u32>().read_unaligned()
                    ^ other.add(from).cast::<u32>().read_unaligned()
            };
            return differs4(0) | differs4(len - 4) == 0;
        }
        (0..len).all(|i| *at.add(i) == *other.add(i))
    }
}
