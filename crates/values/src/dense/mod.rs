//! A hash table for millions of small entries: byte strings, each with an optional value and
//! deadline, with an overhead of about five bytes.
//!
//! ```text
//! chunks: Vec<Chunk> --> bins: Vec<Bin> --> one block: | head | tags | rooms | free | entries |
//!                        64 a chunk         some 12 to 24 entries that share low bits of the hash
//! ```
//!
//! Linear hashing (Litwin, "Linear Hashing: a new tool for file and table addressing", 1980) over
//! bins that are one allocation each. There are `2^depth + split` bins. The lowest `depth` bits of
//! the hash choose the bin; the first `split` bins are split already, and there one more bit says
//! whether the entry has moved to the bin `2^depth` further. When there are more entries than
//! [`MEAN_ENTRIES`] a bin, or more bytes than [`MEAN_BYTES`], the bin at `split` is split and the
//! new half goes to the end. So growth touches one bin at a time, nothing is ever copied as a
//! whole, and there is no directory. Shrinking is the reverse.
//!
//! A bin finds an entry by its tag (seven bits of the hash, compared sixteen at a time) and adds up
//! the rooms before it. A lookup touches the bin's pointer, its first cache line, and the entry.
//!
//! | file | what |
//! |---|---|
//! | here | finding, inserting, removing, growing, shrinking |
//! | `bin` | one bin: tags, rooms, room for raw entries |
//! | `entry` | the content of a room: flags, deadline, key, value |
//! | `large` | entries that would make bins too large |
//! | `walk` | SCAN, all entries, a random one, deadlines |
//!
//! Invariants
//! 1. There are `2^depth + split` bins, `split < 2^depth`, and every entry is in the bin that
//!    [`Dense::index_of`] names.
//! 2. `len`, `inline_bytes` and `bin_heap` are the sums over all bins.
//! 3. No entry's deadline is before its chunk's `earliest`, and none of those before the table's.
//! 4. No entry's deadline is before its chunk's `earliest`, and no chunk's before the table's.
//!
//! Not here: the meaning of keys and values; the clock. An entry whose deadline has passed is still
//! found: callers check [`Entry::deadline`]. Tests: foot of the files, `tests/dense.rs`;
//! `examples/dense.rs` measures.

mod bin;
mod entry;
mod large;
mod walk;

use std::sync::OnceLock;

use pantala_base::UnixMs;
use pantala_base::hash::HashSeed;
use pantala_table::Renewal;

use bin::{Bin, Slot};
use entry::Form;
use large::LargeDense;

pub use entry::{Entry, Values};
pub use walk::Iter;

/// The mean number of entries per bin above which a bin is split; at the end of a round, bins not
/// yet split have twice as many.
const MEAN_ENTRIES: usize = 14;
/// The mean number of bytes of entries per bin above which a bin is split.
const MEAN_BYTES: usize = 1024;
/// Bins of a chunk.
const CHUNK_BINS: usize = 64;
/// No deadline, as a bound.
const NEVER: UnixMs = UnixMs(i64::MAX);

/// The bound of one deadline: also of the last there can be, which is one.
fn bound(deadline: UnixMs) -> UnixMs {
    const LAST: UnixMs = UnixMs(i64::MAX - 1);
    deadline.min(LAST)
}

static SEED: OnceLock<HashSeed> = OnceLock::new();

/// Sets the secret key of all these tables of the process; to be called before the first is used.
/// Otherwise the key comes from the operating system's randomness.
pub fn set_seed(seed: HashSeed) {
    // A second call changes nothing: existing tables rely on the first key.
    let _ = SEED.set(seed);
}

/// The hash of a key: the same in all these tables, so it is computed once for lookups in several.
#[inline]
pub fn hash(key: &[u8]) -> u64 {
    SEED.get_or_init(HashSeed::random).hash(key)
}

/// A compact hash table of byte strings with optional values and deadlines.
#[derive(Clone, Debug)]
pub struct Dense {
    chunks: Vec<Chunk>,
    large: LargeDense,
    values: Values,
    depth: u32,
    split: usize,
    len: usize,
    /// Bytes of the rooms of all entries in bins.
    inline_bytes: usize,
    /// Allocated bytes of all bins.
    bin_heap: usize,
    earliest: UnixMs,
}

#[derive(Clone, Debug)]
struct Chunk {
    bins: Vec<Bin>,
    /// No entry of this chunk expires before this time.
    earliest: UnixMs,
}

/// The bits of an entry's hash that follow from its place.
#[derive(Clone, Copy, Debug)]
pub struct HashHint {
    low: usize,
    /// This many low bits are known.
    bits: u32,
    tag: u8,
}

/// The location of an entry.
#[derive(Clone, Copy, Debug)]
struct Place {
    bin: usize,
    slot: Slot,
}

impl Dense {
    /// An empty table.
    pub fn new(values: Values) -> Dense {
        let first = Chunk { bins: vec![Bin::default()], earliest: NEVER };
        Dense {
            chunks: vec![first],
            large: LargeDense::default(),
            values,
            depth: 0,
            split: 0,
            len: 0,
            inline_bytes: 0,
            bin_heap: 0,
            earliest: NEVER,
        }
    }

    /// How many entries there are, expired ones included.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the table is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Allocated bytes it owns, exact but for the small overhead of its own vectors.
    pub fn heap_bytes(&self) -> usize {
        let bins = self.bin_count().next_multiple_of(4) * size_of::<Bin>();
        let chunks = self.chunks.capacity() * size_of::<Chunk>();
        self.bin_heap + self.large.heap_bytes() + bins + chunks
    }

    /// Reallocates parts that lie in sparse pages: first bins, then long content. See
    /// [`pantala_table::Object::renew`].
    pub fn renew(&mut self, from: usize, most: usize, renewal: &mut Renewal<'_>) -> Option<usize> {
        let (bins, end) = (self.bin_count(), from.saturating_add(most));
        for index in from..end.min(bins) {
            self.bin_mut(index).renew(renewal);
        }
        if end < bins {
            return Some(end);
        }
        let from = from.max(bins);
        self.large.renew(from - bins, end - from, renewal).map(|next| next + bins)
    }

    #[inline]
    fn bin_count(&self) -> usize {
        (1 << self.depth) + self.split
    }

    /// The bin of a hash (invariant 1).
    #[inline]
    fn index_of(&self, hash: u64) -> usize {
        let index = hash as usize & ((1 << self.depth) - 1);
        if index < self.split { hash as usize & ((2 << self.depth) - 1) } else { index }
    }

    #[inline]
    fn bin(&self, index: usize) -> &Bin {
        &self.chunks[index / CHUNK_BINS].bins[index % CHUNK_BINS]
    }

    #[inline]
    fn bin_mut(&mut self, index: usize) -> &mut Bin {
        &mut self.chunks[index / CHUNK_BINS].bins[index % CHUNK_BINS]
    }

    #[inline]
    fn find(&self, hash: u64, key: &[u8]) -> Option<Place> {
        self.find_in(self.index_of(hash), tag_of(hash), key)
    }

    #[inline]
    fn find_in(&self, bin: usize, tag: u8, key: &[u8]) -> Option<Place> {
        self.find_slot(self.bin(bin), tag, key).map(|slot| Place { bin, slot })
    }

    #[inline]
    fn find_slot(&self, bin: &Bin, tag: u8, key: &[u8]) -> Option<Slot> {
        bin.find(tag, |is_marked, raw| {
            if !is_marked {
                return self.values.has_key(raw, key);
            }
            let marked = entry::marked(raw);
            match marked.large {
                None => self.values.has_key(marked.content, key),
                Some(index) => self.values.has_key(self.large.get(index), key),
            }
        })
    }

    /// The bin for a hash of which the lowest `bits` bits are known, if those are enough.
    #[inline]
    fn bin_of_low(&self, low: usize, bits: u32) -> Option<usize> {
        let index = low & ((1 << self.depth) - 1);
        match index < self.split {
            true => (bits > self.depth).then_some(low & ((2 << self.depth) - 1)),
            false => (bits >= self.depth).then_some(index),
        }
    }

    /// The entry of a key that was found in another of these tables. The hash bits that follow from
    /// its place there mostly suffice here, if this table is not larger.
    #[inline]
    pub fn get_known(&self, known: HashHint, key: &[u8]) -> Option<Entry<'_>> {
        match self.bin_of_low(known.low, known.bits) {
            None => self.get(key),
            Some(bin) => self.find_in(bin, known.tag, key).map(|place| self.entry_at(place)),
        }
    }

    #[inline]
    fn entry_at(&self, place: Place) -> Entry<'_> {
        self.entry_of(self.bin(place.bin).raw(place.slot))
    }

    /// Decodes the entry in a room.
    #[inline]
    fn entry_of<'a>(&'a self, (is_marked, raw): (bool, &'a [u8])) -> Entry<'a> {
        if !is_marked {
            return self.values.entry(raw, None);
        }
        let marked = entry::marked(raw);
        let content = match marked.large {
            None => marked.content,
            Some(index) => self.large.get(index),
        };
        self.values.entry(content, marked.deadline)
    }

    /// The entry with a key.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<Entry<'_>> {
        self.get_hashed(hash(key), key)
    }

    /// [`Dense::get`] with the key's [`hash`] computed already.
    #[inline]
    pub fn get_hashed(&self, hash: u64, key: &[u8]) -> Option<Entry<'_>> {
        self.find(hash, key).map(|place| self.entry_at(place))
    }

    /// Whether there is an entry with this key.
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.find(hash(key), key).is_some()
    }

    /// [`Dense::contains`] with the key's [`hash`] computed already.
    #[inline]
    pub fn contains_hashed(&self, hash: u64, key: &[u8]) -> bool {
        self.find(hash, key).is_some()
    }

    /// Mutable access to the value of a key, to be overwritten in place.
    #[inline]
    pub fn value_mut(&mut self, key: &[u8]) -> Option<&mut [u8]> {
        self.value_mut_hashed(hash(key), key)
    }

    /// [`Dense::value_mut`] with the key's [`hash`] computed already.
    #[inline]
    pub fn value_mut_hashed(&mut self, hash: u64, key: &[u8]) -> Option<&mut [u8]> {
        let place = self.find(hash, key)?;
        Some(self.value_at(place, key.len()))
    }

    fn value_at(&mut self, place: Place, key_bytes: usize) -> &mut [u8] {
        let Dense { chunks, large, values, .. } = self;
        let bin = &mut chunks[place.bin / CHUNK_BINS].bins[place.bin % CHUNK_BINS];
        let (is_marked, raw) = bin.raw_mut(place.slot);
        if !is_marked {
            return values.value_mut(raw, key_bytes);
        }
        let marked = entry::marked(raw);
        match marked.large {
            Some(index) => values.value_mut(large.get_mut(index), key_bytes),
            None => {
                let (begin, end) = (marked.begin, marked.begin + marked.content.len());
                values.value_mut(&mut raw[begin..end], key_bytes)
            }
        }
    }

    /// Sets the value of a key, inserting it if missing, and keeps its deadline. Returns whether
    /// the key is new.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.insert_hashed(hash(key), key, value)
    }

    /// [`Dense::insert`] with the key's [`hash`] computed already.
    pub fn insert_hashed(&mut self, hash: u64, key: &[u8], value: &[u8]) -> bool {
        let Some(place) = self.find(hash, key) else {
            self.put(hash, key, value, None);
            return true;
        };
        let old = self.entry_at(place);
        if old.value.len() != value.len() {
            let deadline = old.deadline;
            self.cut(place);
            self.put(hash, key, value, deadline);
        } else {
            self.value_at(place, key.len()).copy_from_slice(value);
        }
        false
    }

    /// Inserts an entry, or replaces the one with its key. Returns whether the key is new.
    pub fn insert_until(&mut self, key: &[u8], value: &[u8], deadline: Option<UnixMs>) -> bool {
        let hash = hash(key);
        let old = self.find(hash, key);
        if let Some(place) = old {
            self.cut(place);
        }
        self.put(hash, key, value, deadline);
        old.is_none()
    }

    /// Inserts an entry, or replaces the one with its key. `deadline` decides from the old entry
    /// when the new one expires. Searches for the key once.
    pub fn set_hashed(
        &mut self,
        hash: u64,
        key: &[u8],
        value: &[u8],
        deadline: impl FnOnce(Option<Entry<'_>>) -> Option<UnixMs>,
    ) {
        let Some(place) = self.find(hash, key) else {
            let deadline = deadline(None);
            return self.put(hash, key, value, deadline);
        };
        let old = self.entry_at(place);
        let (old_len, old_deadline) = (old.value.len(), old.deadline);
        let deadline = deadline(Some(old));
        if old_len == value.len() && old_deadline == deadline {
            self.value_at(place, key.len()).copy_from_slice(value);
        } else {
            self.cut(place);
            self.put(hash, key, value, deadline);
        }
    }

    /// Inserts an entry whose key is known to be missing.
    pub fn insert_missing(&mut self, hash: u64, key: &[u8], value: &[u8]) {
        debug_assert!(!self.contains_hashed(hash, key), "it would be there twice");
        self.put(hash, key, value, None);
    }

    /// Removes the entry of a key; returns whether it existed.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        self.remove_hashed(hash(key), key)
    }

    /// [`Dense::remove`] with the key's [`hash`] computed already.
    pub fn remove_hashed(&mut self, hash: u64, key: &[u8]) -> bool {
        let Some(place) = self.find(hash, key) else { return false };
        self.cut(place);
        self.shrink();
        true
    }

    /// The deadline of a key's entry; the outer `None`: there is no entry.
    pub fn deadline(&self, key: &[u8]) -> Option<Option<UnixMs>> {
        self.get(key).map(|entry| entry.deadline)
    }

    /// Sets or clears the deadline of a key; returns whether the entry exists.
    pub fn set_deadline(&mut self, key: &[u8], deadline: Option<UnixMs>) -> bool {
        let hash = hash(key);
        let Some(place) = self.find(hash, key) else { return false };
        let old = self.entry_at(place);
        if old.deadline != deadline {
            let value = old.value.to_vec();
            self.cut(place);
            self.put(hash, key, &value, deadline);
        }
        true
    }

    /// Inserts a missing entry, and grows the table if due.
    fn put(&mut self, hash: u64, key: &[u8], value: &[u8], deadline: Option<UnixMs>) {
        debug_assert!(self.values.allows(value), "all values of such a table have one length");
        let mut form = Form::new(self.values, key.len(), value.len(), deadline);
        if form.is_large() {
            form.set_large(self.large.put(self.values.content(key, value)));
        }
        if let Some(deadline) = deadline {
            self.lower_bound(self.index_of(hash), deadline);
        }
        // A bin is full only at many times its mean, which a keyed hash prevents in practice;
        // splitting helps all the same.
        for _ in 0..=self.bin_count() {
            if self.put_form(hash, &form, key, value) {
                break;
            }
            self.split_one();
        }
        self.len += 1;
        self.grow();
    }

    /// Inserts into the bin; returns whether there was room.
    #[inline]
    fn put_form(&mut self, hash: u64, form: &Form, key: &[u8], value: &[u8]) -> bool {
        let (index, values) = (self.index_of(hash), self.values);
        let bin = self.bin_mut(index);
        let before = bin.allocated();
        let Some(room) = bin.push(tag_of(hash) | form.mark(), form.code()) else { return false };
        let room_bytes = room.len();
        form.write(values, key, value, room);
        let after = bin.allocated();
        self.inline_bytes += room_bytes;
        self.bin_heap = self.bin_heap + after - before;
        true
    }

    /// Removes an entry without shrinking the table: something may be inserted again.
    fn cut(&mut self, place: Place) {
        let (is_marked, raw) = self.bin(place.bin).raw(place.slot);
        let room_bytes = raw.len();
        if is_marked && let Some(index) = entry::marked(raw).large {
            self.large.free(index);
        }
        self.inline_bytes -= room_bytes;
        let bin = self.bin_mut(place.bin);
        let before = bin.allocated();
        bin.remove(place.slot);
        let after = bin.allocated();
        self.bin_heap = self.bin_heap + after - before;
        self.len -= 1;
    }

    fn lower_bound(&mut self, bin: usize, deadline: UnixMs) {
        let chunk = &mut self.chunks[bin / CHUNK_BINS];
        chunk.earliest = chunk.earliest.min(bound(deadline));
        self.earliest = self.earliest.min(bound(deadline));
    }

    #[inline]
    fn grow(&mut self) {
        let bins = self.bin_count();
        if self.len > bins * MEAN_ENTRIES || self.inline_bytes > bins * MEAN_BYTES {
            self.split_one();
        }
    }

    /// Splits the next bin.
    fn split_one(&mut self) {
        let (from, to) = (self.split, self.bin_count());
        let old = std::mem::take(self.bin_mut(from));
        let mut moves = [false; bin::MAX_ENTRIES];
        let mut earliest = NEVER;
        for (moves, one) in moves.iter_mut().zip(old.iter()) {
            let entry = self.entry_of(one);
            *moves = hash(entry.key) >> self.depth & 1 == 1;
            if *moves {
                earliest = earliest.min(entry.deadline.map_or(NEVER, bound));
            }
        }
        let (stays, goes) = (old.part(|index| !moves[index]), old.part(|index| moves[index]));
        self.bin_heap = self.bin_heap + stays.allocated() + goes.allocated() - old.allocated();
        *self.bin_mut(from) = stays;
        self.push_bin(goes);
        if earliest < NEVER {
            self.lower_bound(to, earliest);
        }
        self.split += 1;
        if self.split == 1 << self.depth {
            self.depth += 1;
            self.split = 0;
        }
    }

    fn push_bin(&mut self, bin: Bin) {
        match self.chunks.last_mut().filter(|chunk| chunk.bins.len() < CHUNK_BINS) {
            Some(chunk) => chunk.bins.push(bin),
            None => {
                let mut bins = Vec::with_capacity(CHUNK_BINS);
                bins.push(bin);
                self.chunks.push(Chunk { bins, earliest: NEVER });
            }
        }
    }

    #[inline]
    fn shrink(&mut self) {
        let bins = self.bin_count();
        let is_sparse =
            self.len < bins * MEAN_ENTRIES / 2 && self.inline_bytes < bins * MEAN_BYTES / 2;
        if is_sparse && bins > 1 {
            self.merge_one();
        }
    }

    /// Merges the last bin back into the bin it was split from.
    fn merge_one(&mut self) {
        let (depth, split) = match self.split {
            0 => (self.depth - 1, (1 << (self.depth - 1)) - 1),
            split => (self.depth, split - 1),
        };
        let from = self.bin_count() - 1;
        let source_bound = self.chunks[from / CHUNK_BINS].earliest;
        let source = std::mem::take(self.bin_mut(from));
        let target = self.bin_mut(split);
        let before = source.allocated() + target.allocated();
        if !target.absorb(&source) {
            // Together they are too full for one bin, which takes a mean far above the usual.
            *self.bin_mut(from) = source;
            return;
        }
        let after = target.allocated();
        self.bin_heap = self.bin_heap + after - before;
        (self.depth, self.split) = (depth, split);
        if source_bound < NEVER {
            self.lower_bound(split, source_bound);
        }
        let last = &mut self.chunks[from / CHUNK_BINS].bins;
        last.pop();
        if last.is_empty() {
            self.chunks.pop();
        }
    }
}

/// The seven hash bits by which a bin finds an entry; the choice of the bin uses others.
#[inline]
fn tag_of(hash: u64) -> u8 {
    (hash >> 57) as u8
}
