//! The table: keys to records, for one partition and one database. Plain single-threaded code.
//!
//! This file is the interface: finding, reading, changing, inserting and removing one record.
//! Growing and shrinking are in `structure`, walks in `walk`.
//!
//! Keys whose segment can neither grow nor split (more keys with one hash than a segment holds,
//! which no client can cause under a secret hash key) become *strays*: a list that is searched
//! linearly.
//!
//! Invariants
//! - T1. Segments keep S1..S4, the directory D1..D3, records R1..R5 with the `O` of the table.
//! - T2. `len` and `deadlines` count all records and those with a deadline, strays too; `segments`
//!   and `units` count segments and their 128-byte units.
//! - T3. A `RecordPlace` is valid until the next insert, removal, `make_room`, `tidy_after_remove`
//!   or `sweep`. Debug builds check that; it is the only promise of a caller that release builds
//!   trust.
//! - T4. A key is in the table at most once: an insert follows a failed lookup.
//!
//! Tests: `tests/model.rs`, `tests/records.rs`, `fuzz/src/table.rs`.

use std::marker::PhantomData;
use std::ptr;

use pantala_base::UnixMs;

use crate::Object;
use crate::class::size_class;
use crate::directory::{Directory, Entry};
use crate::evict::EvictionState;
use crate::group::prefetch;
use crate::hash::{position, trail};
use crate::records::number::IntText;
use crate::records::owned::{
    DiscardedValue, Encoding, OwnedRecord, StrRef, ValueRef, bytes_of, create_object, encoding_of,
    free, value_of,
};
use crate::records::record::{self, Record};
use crate::records::tail::{self, Tail};
use crate::records::text;
use crate::segment::{Header, SHAPES, Segment, UNIT_BYTES};
use crate::walk::Cursor;
use crate::word::{BucketWord, HOTTEST, Kind};

/// A table of records; collections are of type `O`.
pub struct Table<O: Object> {
    pub(crate) directory: Directory,
    pub(crate) strays: Option<Box<Strays>>,
    pub(crate) len: usize,
    pub(crate) deadlines: usize,
    pub(crate) segments: u32,
    pub(crate) units: u32,
    pub(crate) eviction: EvictionState,
    /// The value of a record's saved bit that counts as saved; see `begin_epoch`.
    epoch: bool,
    #[cfg(debug_assertions)]
    generation: u64,
    object: PhantomData<O>,
}

pub(crate) type Strays = Vec<Stray>;

/// A record outside of the segments.
#[derive(Clone, Copy)]
pub(crate) struct Stray {
    pub(crate) hash: u64,
    pub(crate) word: BucketWord,
}

/// The location of a record, valid until the table is changed (T3).
#[derive(Clone, Copy, Debug)]
pub struct RecordPlace {
    pub(crate) slot: *mut BucketWord,
    /// The header of its segment; null for a stray.
    header: *mut Header,
    #[cfg(debug_assertions)]
    generation: u64,
}

/// The segment is full: call [`Table::make_room`] and insert again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFull;

// SAFETY: a table is the one owner of all it points to, and an `O` may be sent.
unsafe impl<O: Object> Send for Table<O> {}

#[cfg(debug_assertions)]
fn next_generation() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    // Shared by all tables, so that a place of another table is detected.
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl<O: Object> Table<O> {
    /// An empty table; it allocates nothing.
    pub const fn new() -> Self {
        Self {
            directory: Directory::new(),
            strays: None,
            len: 0,
            deadlines: 0,
            segments: 0,
            units: 0,
            eviction: EvictionState::START,
            epoch: false,
            #[cfg(debug_assertions)]
            generation: 0,
            object: PhantomData,
        }
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of records with a deadline.
    pub fn deadline_count(&self) -> usize {
        self.deadlines
    }

    /// Allocated bytes of the index: segments and directory, not the records.
    pub fn heap_bytes(&self) -> usize {
        let strays = self.strays.as_ref().map_or(0, |strays| {
            size_class(size_of::<Strays>()) + size_class(strays.capacity() * size_of::<Stray>())
        });
        self.units as usize * UNIT_BYTES + self.directory.heap_bytes() + strays
    }

    /// Number of segments.
    pub fn segment_count(&self) -> usize {
        self.segments as usize
    }

    /// Slots of all segments: `len / slot_count` is the utilisation.
    pub fn slot_count(&self) -> usize {
        let mut slots = 0;
        self.directory.for_each(|_, segment| slots += usize::from(segment.shape().slots));
        slots
    }

    /// Records in their home bucket, in the bucket after it, and in a stash; for measurements.
    pub fn spread(&self) -> [usize; 3] {
        let mut sum = [0; 3];
        self.directory.for_each(|_, segment| {
            for (sum, part) in sum.iter_mut().zip(segment.spread()) {
                *sum += part;
            }
        });
        sum
    }

    /// Fetches the bucket of a hash into the cache; first of the two steps before a batch of
    /// lookups.
    #[inline]
    pub fn prefetch_bucket(&self, hash: u64) {
        let entry = self.directory.entry(hash);
        if !entry.is_empty() {
            entry.segment().prefetch(position(hash));
        }
    }

    /// Fetches the record of a hash, if the bucket has one; second step.
    #[inline]
    pub fn prefetch_record(&self, hash: u64) {
        let entry = self.directory.entry(hash);
        if !entry.is_empty() {
            let trail = trail(hash, entry.window_shift());
            entry.segment().prefetch_record(position(hash), trail);
        }
    }

    /// Fetches the record at a place into the cache.
    #[inline]
    pub fn prefetch(&self, p: RecordPlace) {
        let record = self.word(p).pointer();
        prefetch(record);
        prefetch(record.wrapping_add(64));
    }

    /// Looks a key up.
    #[inline]
    pub fn find(&self, hash: u64, key: &[u8]) -> Option<RecordPlace> {
        let entry = self.directory.entry(hash);
        if entry.is_empty() {
            return None;
        }
        let segment = entry.segment();
        let trail = trail(hash, entry.window_shift());
        match segment.find(position(hash), trail, key) {
            Some(slot) => Some(self.place(slot, segment.header())),
            None if self.strays.is_none() => None,
            None => self.find_stray(hash, key),
        }
    }

    #[cold]
    fn find_stray(&self, hash: u64, key: &[u8]) -> Option<RecordPlace> {
        let stray = self.strays.as_ref()?.iter().find(|stray| {
            // SAFETY: T1: a stray's word owns a live record.
            stray.hash == hash && unsafe { Record::of(stray.word) }.has_key(key)
        })?;
        Some(self.place(ptr::from_ref(&stray.word).cast_mut(), ptr::null_mut()))
    }

    #[inline]
    pub(crate) fn place(&self, slot: *mut BucketWord, header: *mut Header) -> RecordPlace {
        RecordPlace {
            slot,
            header,
            #[cfg(debug_assertions)]
            generation: self.generation,
        }
    }

    /// Makes all places handed out so far invalid.
    #[inline]
    pub(crate) fn outdate_places(&mut self) {
        #[cfg(debug_assertions)]
        {
            self.generation = next_generation();
        }
    }

    /// The word at a place.
    #[inline]
    fn word(&self, p: RecordPlace) -> BucketWord {
        #[cfg(debug_assertions)]
        assert_eq!(p.generation, self.generation, "T3: a place of an older state or another table");
        // SAFETY: T3.
        unsafe { *p.slot }
    }

    /// Mutable access to the word at a place.
    #[inline]
    fn word_mut(&mut self, p: RecordPlace) -> &mut BucketWord {
        #[cfg(debug_assertions)]
        assert_eq!(p.generation, self.generation, "T3: a place of an older state or another table");
        // SAFETY: T3; the table is borrowed as long as the result.
        unsafe { &mut *p.slot }
    }

    #[inline]
    fn record(&self, p: RecordPlace) -> Record {
        // SAFETY: T1.
        unsafe { Record::of(self.word(p)) }
    }

    /// The key at a place.
    #[inline]
    pub fn key(&self, p: RecordPlace) -> &[u8] {
        self.record(p).key()
    }

    /// The value at a place.
    #[inline]
    pub fn value(&self, p: RecordPlace) -> ValueRef<'_, O> {
        // SAFETY: T1; the table is borrowed as long as the result.
        unsafe { value_of(self.word(p)) }
    }

    /// The string at a place, if it is one.
    #[inline]
    pub fn string(&self, p: RecordPlace) -> Option<StrRef<'_>> {
        match self.value(p) {
            ValueRef::Str(text) => Some(text),
            ValueRef::Object(_) => None,
        }
    }

    /// The object at a place, if it is one.
    #[inline]
    pub fn object(&self, p: RecordPlace) -> Option<&O> {
        match self.value(p) {
            ValueRef::Str(_) => None,
            ValueRef::Object(object) => Some(object),
        }
    }

    /// Mutable access to the object at a place, if it is one. Its type tag must not change.
    #[inline]
    pub fn object_mut(&mut self, p: RecordPlace) -> Option<&mut O> {
        let word = self.word(p);
        if !word.kind().is_object() {
            return None;
        }
        // SAFETY: R5; the table is borrowed as long as the result.
        unsafe { Some(&mut *Record::of(word).object::<O>()) }
    }

    /// 0 for a string, otherwise the object's tag; reads no record.
    #[inline]
    pub fn type_tag(&self, p: RecordPlace) -> u8 {
        self.word(p).kind().tag()
    }

    /// The encoding of the value; reads no record.
    pub fn encoding(&self, p: RecordPlace) -> Encoding {
        encoding_of(self.word(p))
    }

    /// Allocated bytes of the record and all it owns, without its share of the index.
    pub fn record_bytes(&self, p: RecordPlace) -> usize {
        // SAFETY: T1.
        unsafe { bytes_of::<O>(self.word(p)) }
    }

    /// The deadline, if there is one.
    #[inline]
    pub fn deadline(&self, p: RecordPlace) -> Option<UnixMs> {
        self.record(p).deadline()
    }

    /// Sets or removes the deadline.
    pub fn set_deadline(&mut self, p: RecordPlace, deadline: Option<UnixMs>) {
        let before = self.word(p).has_deadline();
        debug_assert!(!before || self.deadlines > 0, "T2: it was counted");
        // SAFETY: T1.
        unsafe { record::set_deadline(self.word_mut(p), deadline) };
        if before == deadline.is_some() {
            return;
        }
        let add = if before { -1 } else { 1 };
        self.deadlines = self.deadlines.wrapping_add_signed(add);
        debug_assert!(self.deadlines <= self.len, "T2: no more than records");
        if !p.header.is_null() {
            // SAFETY: T3: the header of the place's segment.
            unsafe {
                (*p.header).deadlines = (*p.header).deadlines.wrapping_add_signed(add as i16)
            };
        }
    }

    /// How hot the record is, 0..=3: uses raise it, eviction lowers it; see `evict`.
    pub fn hotness(&self, p: RecordPlace) -> u8 {
        self.word(p).hotness()
    }

    /// Sets the hotness, at most 3.
    pub fn set_hotness(&mut self, p: RecordPlace, hotness: u8) {
        self.word_mut(p).set_hotness(hotness);
    }

    /// The initial hotness of a new record.
    pub fn fresh_hotness(&self) -> u8 {
        self.eviction.fresh()
    }

    /// Raises the hotness by the policy's step, at most to the top; writes nothing at the top.
    #[inline]
    pub fn touch(&mut self, p: RecordPlace) {
        let step = self.eviction.step();
        let word = self.word_mut(p);
        let hotness = word.hotness();
        if hotness < HOTTEST {
            word.set_hotness(hotness + step);
        }
    }

    /// Whether eviction skips the record.
    pub fn sticky(&self, p: RecordPlace) -> bool {
        self.word(p).is_sticky()
    }

    /// Sets whether eviction skips the record.
    pub fn set_sticky(&mut self, p: RecordPlace, sticky: bool) {
        self.word_mut(p).set_sticky(sticky);
    }

    /// Begins a point-in-time snapshot: from now on no record counts as saved, and records inserted
    /// later do. All records must be saved when this is called: an aborted snapshot must have
    /// called [`Table::end_epoch`].
    ///
    /// The mark is one bit of the record's word and moves with it, so growing, splitting and
    /// merging cannot lose it, and a record is saved exactly once: by the walk, or by the writer
    /// that is about to change it.
    pub fn begin_epoch(&mut self) {
        self.epoch = !self.epoch;
    }

    /// Whether the snapshot already has this record; always true while no snapshot runs.
    #[inline]
    pub fn is_saved(&self, p: RecordPlace) -> bool {
        self.word(p).saved() == self.epoch
    }

    /// The value of [`OwnedRecord::saved_mark`] for a record that left this table saved.
    #[inline]
    pub fn saved_mark(&self) -> bool {
        self.epoch
    }

    /// Marks the record as saved in the running snapshot.
    pub fn mark_saved(&mut self, p: RecordPlace) {
        let epoch = self.epoch;
        self.word_mut(p).set_saved(epoch);
    }

    /// Marks every record as saved; touches only the index.
    pub fn end_epoch(&mut self) {
        let epoch = self.epoch;
        self.directory.for_each(|_, segment| {
            // SAFETY: S2.
            segment.for_each(|slot| unsafe { (*slot).set_saved(epoch) });
        });
        for stray in self.strays.iter_mut().flat_map(|strays| strays.iter_mut()) {
            stray.word.set_saved(epoch);
        }
    }

    /// The memcached metadata beside a string; none beside an object.
    #[inline]
    pub fn tail(&self, p: RecordPlace) -> Tail {
        // SAFETY: T1.
        unsafe { tail::tail_of(self.word(p)) }
    }

    /// Sets the memcached metadata beside a string.
    pub fn set_tail(&mut self, p: RecordPlace, tail: Tail) {
        assert!(!self.word(p).kind().is_object(), "a collection has no tail");
        // SAFETY: T1; it is a string.
        unsafe { tail::set(self.word_mut(p), tail) };
    }

    /// Takes the whole record out and leaves one with the same key, deadline, flags and marks and
    /// an empty string, to be overwritten. The cost does not depend on the value.
    pub fn take_value(&mut self, p: RecordPlace) -> OwnedRecord<O> {
        let old = self.word(p);
        let flags = self.tail(p).flags;
        let empty = {
            let record = self.record(p);
            text::create(record.key(), b"", record.deadline())
        };
        let word = self.word_mut(p);
        word.set_pointer(empty.pointer());
        word.set_kind(empty.kind());
        word.set_edited(false);
        // SAFETY: the slot keeps the new record, of a string, and nobody the old one (R4).
        unsafe {
            tail::set(word, Tail::of_flags(flags));
            OwnedRecord::from_word(old)
        }
    }

    /// As [`Table::set_string`], and sets the tail.
    pub fn set_string_with_tail(
        &mut self,
        p: RecordPlace,
        value: &[u8],
        tail: Tail,
    ) -> Option<DiscardedValue<O>> {
        // SAFETY: T1; what is loose is not the table's any more.
        unsafe { DiscardedValue::from_loose(text::set_with_tail(self.word_mut(p), value, tail)) }
    }

    /// Replaces the value by a string, keeping key and deadline but no tail. A part that may take
    /// long to free is returned.
    pub fn set_string(&mut self, p: RecordPlace, value: &[u8]) -> Option<DiscardedValue<O>> {
        // SAFETY: T1; what is loose is not the table's any more.
        unsafe { DiscardedValue::from_loose(text::set(self.word_mut(p), value)) }
    }

    /// Replaces value and deadline by a string, keeping the key.
    pub fn set_string_and_deadline(
        &mut self,
        p: RecordPlace,
        value: &[u8],
        deadline: Option<UnixMs>,
    ) -> Option<DiscardedValue<O>> {
        let keeps_space = self.word(p).has_deadline() || deadline.is_none();
        if keeps_space {
            self.set_deadline(p, deadline);
        }
        let discarded = self.set_string(p, value);
        if !keeps_space {
            self.set_deadline(p, deadline);
        }
        discarded
    }

    /// Replaces the value by a number, keeping key and deadline.
    pub fn set_int(&mut self, p: RecordPlace, value: i64) -> Option<DiscardedValue<O>> {
        // SAFETY: T1; what is loose is not the table's any more.
        unsafe { DiscardedValue::from_loose(text::set_int(self.word_mut(p), value)) }
    }

    /// Appends to a string; returns the new length. The sum is at most
    /// [`MAX_STRING_BYTES`](crate::MAX_STRING_BYTES). Panics on an object, as the other string
    /// operations do.
    pub fn append(&mut self, p: RecordPlace, tail: &[u8]) -> usize {
        let old_len = self.string_len(p);
        let len = old_len + tail.len();
        debug_assert!(len <= crate::MAX_STRING_BYTES, "the caller has refused longer ones");
        self.resize_uninit(p, len);
        // SAFETY: T1; `resize_uninit` made `len` bytes.
        unsafe {
            let (at, _) = self.record(p).bytes();
            ptr::copy_nonoverlapping(tail.as_ptr(), at.add(old_len), tail.len());
        }
        len
    }

    /// Writes bytes at an offset, filling a gap with zeros; returns the new length.
    pub fn set_range(&mut self, p: RecordPlace, offset: usize, bytes: &[u8]) -> usize {
        let len = self.string_len(p).max(offset + bytes.len());
        debug_assert!(len <= crate::MAX_STRING_BYTES, "the caller has refused longer ones");
        self.resize(p, len);
        // SAFETY: T1; `resize` made `len` bytes.
        unsafe {
            let (at, _) = self.record(p).bytes();
            ptr::copy_nonoverlapping(bytes.as_ptr(), at.add(offset), bytes.len());
        }
        len
    }

    /// Truncates a string or extends it with zeros. A number becomes text.
    pub fn resize(&mut self, p: RecordPlace, len: usize) {
        let old_len = self.resize_uninit(p, len);
        if len > old_len {
            // SAFETY: T1; `resize_uninit` made `len` bytes.
            unsafe { self.record(p).bytes().0.add(old_len).write_bytes(0, len - old_len) };
        }
    }

    /// Mutable access to the bytes of a string. A number becomes text.
    pub fn string_mut(&mut self, p: RecordPlace) -> Option<&mut [u8]> {
        if self.word(p).kind().is_object() {
            return None;
        }
        // SAFETY: T1; the table is borrowed as long as the result.
        unsafe {
            text::open_bytes(self.word_mut(p));
            let (at, len) = self.record(p).bytes();
            Some(std::slice::from_raw_parts_mut(at, len))
        }
    }

    /// Whether the string was changed in place since it was set.
    pub fn is_edited(&self, p: RecordPlace) -> bool {
        self.word(p).is_edited()
    }

    /// A copy of a string with its deadline and flags under another key; `None` for an object.
    pub fn copy_string(&self, p: RecordPlace, key: &[u8]) -> Option<OwnedRecord<O>> {
        let word = self.word(p);
        // SAFETY: T1; the copy is a fresh record, owned by nobody else.
        (!word.kind().is_object())
            .then(|| unsafe { OwnedRecord::from_word(text::duplicate(word, key)) })
    }

    fn resize_uninit(&mut self, p: RecordPlace, len: usize) -> usize {
        // SAFETY: T1; the callers write the new bytes at once. `string_len` panics on objects.
        unsafe { text::resize(self.word_mut(p), len) }
    }

    fn string_len(&self, p: RecordPlace) -> usize {
        self.string(p).expect("the caller has checked the type").len()
    }

    /// Replaces the value by an object, keeping key and deadline.
    pub fn set_object(&mut self, p: RecordPlace, object: O) -> Option<DiscardedValue<O>> {
        const { assert!(align_of::<O>() <= 8, "R5: the place of an object is aligned to 8") };
        let kind = Kind::object(object.type_tag());
        let word = self.word_mut(p);
        // SAFETY: T1; what is loose is not the table's any more; the part is made before it is
        // written.
        unsafe {
            word.begin_anew();
            let loose = text::take_loose(word);
            let part = record::object_part_bytes::<O>(Record::of(*word).value_at());
            text::make_part(word, part);
            word.set_kind(kind);
            Record::of(*word).write_object(object);
            DiscardedValue::from_loose(loose)
        }
    }

    /// Inserts a string under a key that is not in the table (T4).
    pub fn insert_string(
        &mut self,
        hash: u64,
        key: &[u8],
        value: &[u8],
        deadline: Option<UnixMs>,
    ) -> Result<RecordPlace, SegmentFull> {
        debug_assert!(self.find(hash, key).is_none(), "T4: a key is there once");
        let spot = self.vacate(hash)?;
        let word = text::create(key, value, deadline);
        Ok(self.settle(spot, hash, word))
    }

    /// Inserts a number under a key that is not in the table (T4).
    pub fn insert_int(
        &mut self,
        hash: u64,
        key: &[u8],
        value: i64,
        deadline: Option<UnixMs>,
    ) -> Result<RecordPlace, SegmentFull> {
        self.insert_string(hash, key, IntText::new().write(value), deadline)
    }

    /// Inserts an object under a key that is not in the table (T4).
    pub fn insert_object(
        &mut self,
        hash: u64,
        key: &[u8],
        object: O,
        deadline: Option<UnixMs>,
    ) -> Result<RecordPlace, (SegmentFull, O)> {
        debug_assert!(self.find(hash, key).is_none(), "T4: a key is there once");
        match self.vacate(hash) {
            Ok(spot) => {
                let word = create_object(key, object, deadline);
                Ok(self.settle(spot, hash, word))
            }
            Err(full) => Err((full, object)),
        }
    }

    /// Inserts a whole record, whose key is not in the table (T4). The record keeps its stickiness,
    /// and its hotness if that is above a new record's.
    pub fn insert_record(
        &mut self,
        hash: u64,
        record: OwnedRecord<O>,
    ) -> Result<RecordPlace, OwnedRecord<O>> {
        debug_assert!(self.find(hash, record.key()).is_none(), "T4: a key is there once");
        match self.vacate(hash) {
            Ok(spot) => Ok(self.settle(spot, hash, record.into_word())),
            Err(SegmentFull) => Err(record),
        }
    }

    fn vacate(&mut self, hash: u64) -> Result<InsertSlot, SegmentFull> {
        let entry = self.directory.entry(hash);
        if entry.is_empty() {
            return Err(SegmentFull);
        }
        let segment = entry.segment();
        self.outdate_places();
        match segment.vacate(position(hash)) {
            Some(slot) => Ok(InsertSlot { slot, entry }),
            None if segment.is_stuck() => Ok(InsertSlot { slot: ptr::null_mut(), entry }),
            None => Err(SegmentFull),
        }
    }

    fn settle(&mut self, spot: InsertSlot, hash: u64, mut word: BucketWord) -> RecordPlace {
        debug_assert!(!word.is_empty(), "R4: it owns a record");
        word.set_saved(self.epoch);
        self.len += 1;
        self.deadlines += usize::from(word.has_deadline());
        if spot.slot.is_null() {
            return self.settle_stray(hash, word);
        }
        word.set_trail(trail(hash, spot.entry.window_shift()));
        let segment = spot.entry.segment();
        if self.eviction.has_begun() {
            self.welcome(segment, hash, &mut word);
        }
        segment.occupy(spot.slot, position(hash), word);
        self.place(spot.slot, segment.header())
    }

    #[cold]
    fn settle_stray(&mut self, hash: u64, word: BucketWord) -> RecordPlace {
        let strays = self.strays.get_or_insert_default();
        strays.push(Stray { hash, word });
        let last = strays.len() - 1;
        let slot = ptr::from_mut(&mut strays[last].word);
        self.place(slot, ptr::null_mut())
    }

    /// Takes a record out. The segment stays as it is: see [`Table::tidy_after_remove`].
    pub fn remove(&mut self, p: RecordPlace) -> OwnedRecord<O> {
        let word = self.word(p);
        self.outdate_places();
        if p.header.is_null() {
            self.remove_stray(p.slot);
        } else {
            // SAFETY: T3: the header of the place's segment, after its buckets (S1).
            let segment = unsafe {
                let homes = usize::from(SHAPES[usize::from((*p.header).class)].homes);
                Segment::from_raw(p.header.cast::<u8>().sub(homes * UNIT_BYTES), homes)
            };
            segment.remove(p.slot);
        }
        self.disown(word)
    }

    #[cold]
    fn remove_stray(&mut self, slot: *mut BucketWord) {
        let strays = self.strays.as_mut().expect("the place is in it");
        let at = strays.iter().position(|stray| ptr::from_ref(&stray.word) == slot.cast_const());
        strays.swap_remove(at.expect("T3: the place is in it"));
        if strays.is_empty() {
            self.strays = None;
        }
    }

    /// An estimate of the bytes allocated for the index and all records, from a sample of them.
    pub fn estimated_bytes(&self) -> usize {
        const LOOKED_AT: usize = 8;
        let (mut sum, mut count) = (0, 0);
        let mut at = Cursor::START;
        while count < LOOKED_AT && !at.is_end() && self.len > 0 {
            at = self.scan(at, &mut |place| {
                sum += self.record_bytes(place);
                count += 1;
            });
        }
        self.heap_bytes() + sum.checked_div(count).unwrap_or(0) * self.len
    }

    /// Wraps a word that no slot keeps any more.
    pub(crate) fn disown(&mut self, word: BucketWord) -> OwnedRecord<O> {
        let deadline = usize::from(word.has_deadline());
        debug_assert!(self.len > 0 && self.deadlines >= deadline, "T2: it was counted");
        self.len -= 1;
        self.deadlines -= deadline;
        debug_assert!(self.deadlines <= self.len, "T2: no more than records");
        // SAFETY: the slot has given the word up (R4).
        unsafe { OwnedRecord::from_word(word) }
    }

    /// Checks S2..S4, D1..D3, L1 and T2, given the hash of keys; for tests. Panics where one does
    /// not hold.
    #[doc(hidden)]
    pub fn check(&self, rehash: &mut dyn FnMut(&[u8]) -> u64) {
        let (mut len, mut deadlines, mut segments, mut units) = (0, 0, 0, 0);
        self.directory.for_each(|prefix, segment| {
            segment.check(rehash);
            segment.for_each(|slot| {
                // SAFETY: S2.
                let hash = unsafe {
                    tail::check(*slot);
                    rehash(Record::of(*slot).key())
                };
                let own = crate::directory::segment_prefix(hash, segment.depth());
                assert_eq!(own, prefix, "D3: prefix");
            });
            len += segment.count();
            deadlines += segment.deadlines();
            segments += 1;
            units += u32::from(segment.shape().units);
        });
        for stray in self.strays.iter().flat_map(|strays| strays.iter()) {
            len += 1;
            deadlines += usize::from(stray.word.has_deadline());
        }
        assert_eq!((len, deadlines), (self.len, self.deadlines), "T2");
        assert_eq!((segments, units), (self.segments, self.units), "T2");
    }
}

/// The place for a new record: an empty slot, or among the strays (null).
struct InsertSlot {
    slot: *mut BucketWord,
    entry: Entry,
}

impl<O: Object> Default for Table<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: Object> Drop for Table<O> {
    fn drop(&mut self) {
        let strays = self.strays.take();
        for stray in strays.iter().flat_map(|strays| strays.iter()) {
            // SAFETY: T1; the table is gone after.
            unsafe { free::<O>(stray.word) };
        }
        self.directory.for_each(|_, segment| {
            // SAFETY: T1; the table is gone after. `for_each` reads an entry before it visits its
            // segment.
            unsafe {
                segment.for_each(|slot| free::<O>(*slot));
                segment.release();
            }
        });
    }
}
