//! What leaves a table and belongs to the caller: whole records, and replaced values.
//!
//! Freeing a large collection takes long, so the table never does it: it hands the value out, and
//! the caller drops it where there is time (after the lock, on another thread).
//!
//! Invariants: those of `record`; an `OwnedRecord` is the one owner of its record (R4).
//! Tests: `tests/records.rs`.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use pantala_base::UnixMs;
use pantala_base::number::i64_text_len;

use crate::Object;
use crate::records::number::IntText;
use crate::records::record::{
    Record, object_part_bytes, rekey, release, release_record, set_deadline, value_offset,
};
use crate::records::tail::{self, Tail};
use crate::records::text::LooseValue;
use crate::word::{BucketWord, Kind};

/// Replaced string blocks of at least this size are handed out, smaller ones are freed at once.
const COSTLY_BLOCK_BYTES: usize = 64 << 10;

/// The encoding of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// A string that is the text of a number, kept as the number.
    Int,
    /// A string in the record itself.
    Inline,
    /// A string in an allocation of its own.
    Long,
    /// A collection.
    Object,
}

/// A string value as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrRef<'t> {
    /// The text of this number.
    Int(i64),
    /// These bytes.
    Bytes(&'t [u8]),
}

impl<'t> StrRef<'t> {
    /// Length of the text in bytes.
    pub fn len(&self) -> usize {
        match self {
            StrRef::Int(number) => i64_text_len(*number),
            StrRef::Bytes(bytes) => bytes.len(),
        }
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        matches!(self, StrRef::Bytes([]))
    }

    /// The text; a number is written into `scratch`.
    #[inline]
    pub fn bytes<'b>(&self, scratch: &'b mut IntText) -> &'b [u8]
    where
        't: 'b,
    {
        match *self {
            StrRef::Int(number) => scratch.write(number),
            StrRef::Bytes(bytes) => bytes,
        }
    }

    /// A copy of the text.
    pub fn to_vec(&self) -> Vec<u8> {
        self.bytes(&mut IntText::new()).to_vec()
    }
}

/// A value as it is stored.
#[derive(Debug)]
pub enum ValueRef<'t, O> {
    /// A string.
    Str(StrRef<'t>),
    /// A collection.
    Object(&'t O),
}

/// The value of a live record.
///
/// # Safety
/// `word` owns a live record of a table of `O`, which lives unchanged for `'t`.
#[inline]
pub(crate) unsafe fn value_of<'t, O>(word: BucketWord) -> ValueRef<'t, O> {
    // SAFETY: the caller's promise, R2, R3, R5.
    unsafe {
        let record = Record::of(word);
        match word.form() {
            Kind::INT => ValueRef::Str(StrRef::Int(record.int())),
            Kind::INLINE | Kind::LONG => {
                let (at, len) = record.bytes();
                ValueRef::Str(StrRef::Bytes(std::slice::from_raw_parts(at, len)))
            }
            _ => ValueRef::Object(&*record.object::<O>()),
        }
    }
}

/// The encoding of the value, as told by the word.
pub(crate) fn encoding_of(word: BucketWord) -> Encoding {
    match word.form() {
        Kind::INT => Encoding::Int,
        Kind::INLINE => Encoding::Inline,
        Kind::LONG => Encoding::Long,
        _ => Encoding::Object,
    }
}

/// Allocated bytes of a record with all it owns.
///
/// # Safety
/// As for [`value_of`].
pub(crate) unsafe fn bytes_of<O: Object>(word: BucketWord) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        let record = Record::of(word);
        let owned = match word.form() {
            Kind::INT | Kind::INLINE => 0,
            Kind::LONG => record.long_room(),
            _ => (*record.object::<O>()).heap_bytes(),
        };
        record.room() + owned
    }
}

/// Frees a record with all it owns.
///
/// # Safety
/// `word` owns a live record of a table of `O` and is not used again.
pub(crate) unsafe fn free<O>(word: BucketWord) {
    // SAFETY: the caller's promise; R3 and R5 say how each part was allocated.
    unsafe {
        let record = Record::of(word);
        match word.form() {
            Kind::INT | Kind::INLINE => {}
            Kind::LONG => release(record.long().0, record.long_room()),
            _ => std::ptr::drop_in_place(record.object::<O>()),
        }
        release_record(word);
    }
}

/// A record with an object.
pub(crate) fn create_object<O: Object>(
    key: &[u8],
    object: O,
    deadline: Option<UnixMs>,
) -> BucketWord {
    let part = object_part_bytes::<O>(value_offset(key.len(), deadline.is_some()));
    let word = Record::create(key, deadline, Kind::object(object.type_tag()), part);
    // SAFETY: the record was made with room for it.
    unsafe { Record::of(word).write_object(object) };
    word
}

/// A replaced value whose freeing may take long. Dropping it frees it.
pub struct DiscardedValue<O> {
    loose: LooseValue,
    object: PhantomData<O>,
}

// SAFETY: the one owner of what it points to (R3, R4), and an `O` may be sent.
unsafe impl<O: Send> Send for DiscardedValue<O> {}

impl<O: Object> DiscardedValue<O> {
    /// Frees small parts at once and wraps the rest.
    ///
    /// # Safety
    /// The caller owns what `loose` points to, which was in a table of `O`.
    pub(crate) unsafe fn from_loose(loose: Option<LooseValue>) -> Option<DiscardedValue<O>> {
        let discarded = DiscardedValue { loose: loose?, object: PhantomData };
        let is_small = match discarded.loose {
            LooseValue::Block(_, room) => room < COSTLY_BLOCK_BYTES,
            LooseValue::Object(object) => {
                // SAFETY: R5; it is owned and lives until `discarded` is dropped.
                let object = unsafe { &*object.cast::<O>() };
                object.heap_bytes() < COSTLY_BLOCK_BYTES
            }
        };
        (!is_small).then_some(discarded)
    }
}

impl<O: Object> DiscardedValue<O> {
    /// Allocated bytes, with all it owns.
    pub fn bytes(&self) -> usize {
        match self.loose {
            LooseValue::Block(_, room) => room,
            LooseValue::Object(object) => {
                // SAFETY: R5; it is owned and lives as long as `self`.
                size_of::<O>() + unsafe { &*object.cast::<O>() }.heap_bytes()
            }
        }
    }
}

impl<O> DiscardedValue<O> {
    /// The object, if it was one.
    pub fn into_object(self) -> Option<O> {
        let kept = ManuallyDrop::new(self);
        match kept.loose {
            // SAFETY: R5, and `kept` is not dropped.
            LooseValue::Object(object) => Some(*unsafe { Box::from_raw(object.cast::<O>()) }),
            LooseValue::Block(..) => {
                drop(ManuallyDrop::into_inner(kept));
                None
            }
        }
    }
}

impl<O> Drop for DiscardedValue<O> {
    fn drop(&mut self) {
        // SAFETY: the one owner of what it points to; R3 and R5 say how it was allocated.
        unsafe {
            match self.loose {
                LooseValue::Block(block, room) => release(block, room),
                LooseValue::Object(object) => drop(Box::from_raw(object.cast::<O>())),
            }
        }
    }
}

/// A record outside of any table. Dropping it frees it.
pub struct OwnedRecord<O> {
    word: BucketWord,
    object: PhantomData<O>,
}

// SAFETY: the one owner of its record (R4), and an `O` may be sent.
unsafe impl<O: Send> Send for OwnedRecord<O> {}

impl<O> OwnedRecord<O> {
    /// # Safety
    /// `word` owns a live record of a table of `O`, and nobody else keeps it.
    pub(crate) unsafe fn from_word(word: BucketWord) -> Self {
        debug_assert!(!word.is_empty(), "R4: it owns a record");
        Self { word, object: PhantomData }
    }

    pub(crate) fn into_word(self) -> BucketWord {
        ManuallyDrop::new(self).word
    }

    fn record(&self) -> Record {
        // SAFETY: the word owns a live record.
        unsafe { Record::of(self.word) }
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        self.record().key()
    }

    /// The value.
    pub fn value(&self) -> ValueRef<'_, O> {
        // SAFETY: the word owns a live record, borrowed as long as the result.
        unsafe { value_of(self.word) }
    }

    /// 0 for a string, otherwise the object's tag.
    pub fn type_tag(&self) -> u8 {
        self.word.kind().tag()
    }

    /// The deadline, if there is one.
    pub fn deadline(&self) -> Option<UnixMs> {
        self.record().deadline()
    }

    /// Whether eviction skips the record.
    pub fn is_sticky(&self) -> bool {
        self.word.is_sticky()
    }

    /// The memcached flags, cas number and state beside a string.
    pub fn tail(&self) -> Tail {
        // SAFETY: the word owns a live record.
        unsafe { tail::tail_of(self.word) }
    }

    /// Sets what is kept beside the value, which is a string.
    pub fn with_tail(mut self, tail: Tail) -> Self {
        assert!(!self.word.kind().is_object(), "a collection has no tail");
        // SAFETY: the word owns a live record of a string.
        unsafe { tail::set(&mut self.word, tail) };
        self
    }

    /// The saved bit with which it left the table: see
    /// [`Table::saved_mark`](crate::Table::saved_mark).
    pub fn saved_mark(&self) -> bool {
        self.word.saved()
    }

    /// Sets or removes the deadline.
    pub fn set_deadline(&mut self, deadline: Option<UnixMs>) {
        // SAFETY: the word owns a live record.
        unsafe { set_deadline(&mut self.word, deadline) }
    }

    /// Sets whether eviction skips the record.
    pub fn with_stickiness(mut self, sticky: bool) -> Self {
        self.word.set_sticky(sticky);
        self
    }

    /// Moves the record to another key; a long string or an object is not copied. Of the tail, the
    /// flags stay.
    pub fn with_key(self, key: &[u8]) -> Self {
        // SAFETY: the word owns a live record, and `into_word` gave it up.
        unsafe { Self::from_word(rekey(self.into_word(), key)) }
    }

    /// The object, if it is one; the record is freed.
    pub fn into_object(self) -> Option<O> {
        if !self.word.kind().is_object() {
            return None;
        }
        let word = self.into_word();
        // SAFETY: R5; the record is freed without its object, which is the caller's now.
        unsafe {
            let object = Record::of(word).object::<O>().read();
            release_record(word);
            Some(object)
        }
    }
}

impl<O: Object> OwnedRecord<O> {
    /// A record with a string that is in no table yet.
    pub fn new_string(key: &[u8], value: &[u8], deadline: Option<UnixMs>) -> Self {
        // SAFETY: a fresh record, owned by nobody else.
        unsafe { Self::from_word(crate::records::text::create(key, value, deadline)) }
    }

    /// A record with a string and a tail that is in no table yet.
    pub fn new_string_with_tail(
        key: &[u8],
        value: &[u8],
        deadline: Option<UnixMs>,
        tail: Tail,
    ) -> Self {
        if tail == Tail::default() {
            return Self::new_string(key, value, deadline);
        }
        // SAFETY: a fresh record, owned by nobody else.
        unsafe {
            Self::from_word(crate::records::text::create_with_tail(key, value, deadline, tail))
        }
    }

    /// A record with an object that is in no table yet.
    pub fn new_object(key: &[u8], object: O, deadline: Option<UnixMs>) -> Self {
        // SAFETY: a fresh record, owned by nobody else.
        unsafe { Self::from_word(create_object(key, object, deadline)) }
    }

    /// Allocated bytes, with all it owns.
    pub fn bytes(&self) -> usize {
        // SAFETY: the word owns a live record.
        unsafe { bytes_of::<O>(self.word) }
    }
}

impl<O> Drop for OwnedRecord<O> {
    fn drop(&mut self) {
        // SAFETY: the one owner of the record.
        unsafe { free::<O>(self.word) }
    }
}
