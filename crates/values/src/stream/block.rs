//! Consecutive entries of a stream in one buffer.
//!
//! ```text
//! | count of names | name | name ... |  entry | entry | entry ...
//! entry: | flags and time | sequence | length | value value ...          (names as above)
//!                                             | count, name value ...    (other names)
//! ```
//!
//! The names are those of the block's first entry. Times are relative to the first id of the block;
//! sequences are, too, as long as the time is the same. `flags and time` is one byte with three
//! flags and the low four bits of the time; if its top bit is set the rest of the time follows as
//! LEB128. In that case a sequence of zero is left out.
//!
//! Invariants
//! 1. `bytes` is whole: names, then `kept` entries, of which `live` are not flagged as deleted.
//! 2. Ids ascend strictly, and none is below `first`.
//! 3. At least half of the stored entries, not counting the last, are live; a deletion that would
//!    break that rewrites the block. The last entry is kept, deleted or not.
//!
//! `put` counts all entries that were ever added here, and `listpack` the bytes that the
//! reference's listpack of them would take: the limits count these, so blocks end where the
//! reference's nodes do, and approximate trimming leaves as much.
//!
//! Not here: the encoding of texts (`text`), which block an entry belongs to (`mod`). Tests: at the
//! foot of the file and `tests/stream.rs`.

use pantala_table::{Renewal, size_class};
use smallvec::SmallVec;

use super::id::StreamId;
use super::sorted::Keyed;
use super::text;
use crate::packed::{Element, entry};

const DELETED: u8 = 1;
const SHARES_NAMES: u8 = 2;
const HAS_SEQ: u8 = 4;
const TIME_SHIFT: u32 = 3;
const TIME_MASK: u8 = 0xf;
const MORE_TIME: u8 = 0x80;

/// The most bytes that an entry takes beside its texts.
const ENTRY_MAX_BYTES: usize = 1 + 4 * text::LEB_MAX_BYTES;
/// The overhead of a listpack: its frame, and the end of a node's head in it.
const LISTPACK_BYTES: usize = 7 + 2;
/// The byte limit of a block; a limit of 0 means this one.
const HARD_LIMIT_BYTES: usize = 1 << 30;

/// How far a block is filled; 0: no limit.
#[derive(Clone, Copy, Debug)]
pub struct BlockLimits {
    /// Bytes, counted as the reference counts them.
    pub bytes: usize,
    /// Entries, including deleted ones.
    pub entries: usize,
}

/// Consecutive entries of a stream in one buffer, with counts of live and deleted ones.
#[derive(Clone, Debug)]
pub struct Block {
    first: StreamId,
    bytes: Vec<u8>,
    live: u32,
    kept: u32,
    put: u32,
    /// The offset at which the entries begin.
    begin: u32,
    /// Size in bytes as a listpack, without the counts of live and deleted entries at its head.
    listpack: u32,
}

impl Keyed for Block {
    fn id(&self) -> StreamId {
        self.first
    }
}

/// The alternating names and values of an entry.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    left: usize,
    names: &'a [u8],
    values: &'a [u8],
    shares_names: bool,
}

/// An entry.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// Its id.
    pub id: StreamId,
    fields: &'a [u8],
    names: Option<&'a [u8]>,
}

impl<'a> Entry<'a> {
    /// The names and values.
    #[inline]
    pub fn fields(&self) -> Fields<'a> {
        let (count, rest) = text::take_leb(self.names.unwrap_or(self.fields));
        let left = count as usize;
        match self.names {
            Some(_) => Fields { left, names: rest, values: self.fields, shares_names: true },
            None => Fields { left, names: rest, values: &[], shares_names: false },
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (Element<'a>, Element<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let (name, behind) = text::take(self.names);
        self.names = behind;
        let from = if self.shares_names { &mut self.values } else { &mut self.names };
        let (value, rest) = text::take(from);
        *from = rest;
        Some((name, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Fields<'_> {}

/// An encoded entry: where it begins and ends, and whether it is deleted.
struct Raw<'a> {
    at: usize,
    end: usize,
    flags: u8,
    id: StreamId,
    fields: &'a [u8],
}

impl Raw<'_> {
    fn is_live(&self) -> bool {
        self.flags & DELETED == 0
    }
}

impl Block {
    /// A block that begins with this entry. `pairs` alternates names and values.
    pub fn new(id: StreamId, pairs: &[&[u8]]) -> Block {
        let names = pairs.iter().step_by(2);
        let names_bytes: usize = names.clone().map(|name| text::len(name)).sum();
        let head_bytes = text::leb_len(pairs.len() as u64 / 2) + names_bytes;
        let texts_bytes = pairs.iter().map(|text| text.len()).sum();
        let bytes = Vec::with_capacity(head_bytes + entry_bound(pairs.len(), texts_bytes));
        let begin = head_bytes as u32;
        let mut block = Block { first: id, bytes, live: 0, kept: 0, put: 0, begin, listpack: 0 };
        text::push_leb(&mut block.bytes, pairs.len() as u64 / 2);
        let names = names.map(|name| text::push(&mut block.bytes, name)).sum::<usize>();
        block.grow_listpack(LISTPACK_BYTES + int_len(pairs.len() as u64 / 2) + names);
        block.write(id, pairs, true);
        block
    }

    /// Appends an entry, whose id is above all others; false if the block is full.
    #[inline]
    pub fn append(&mut self, id: StreamId, pairs: &[&[u8]], limits: BlockLimits) -> bool {
        if limits.entries != 0 && self.put as usize >= limits.entries {
            return false;
        }
        let limit = match limits.bytes {
            0 => HARD_LIMIT_BYTES,
            bytes => bytes.min(HARD_LIMIT_BYTES),
        };
        let texts_bytes = pairs.iter().map(|text| text.len()).sum();
        if self.listpack_bytes().saturating_add(texts_bytes) >= limit {
            return false;
        }
        let bound = entry_bound(pairs.len(), texts_bytes);
        let (len, room) = (self.bytes.len(), self.bytes.capacity());
        if room - len < bound {
            let wanted = (2 * room).min(limit).max(len + bound);
            self.bytes.reserve_exact(wanted - len);
        }
        let shares_names = self.has_names(pairs);
        self.write(id, pairs, shares_names);
        true
    }

    /// Bytes of the reference's listpack with all entries that were added here.
    fn listpack_bytes(&self) -> usize {
        let counts = int_len(u64::from(self.live)) + int_len(u64::from(self.put - self.live));
        self.listpack as usize + counts
    }

    fn grow_listpack(&mut self, bytes: usize) {
        // More than 4 GB in the heads of entries counts as full.
        self.listpack = self.listpack.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// Whether these are the names the block begins with.
    #[inline]
    fn has_names(&self, pairs: &[&[u8]]) -> bool {
        let (count, mut names) = text::take_leb(&self.bytes);
        if count as usize != pairs.len() / 2 {
            return false;
        }
        pairs.iter().step_by(2).all(|given| {
            let (name, rest) = text::take(names);
            names = rest;
            match name {
                Element::Bytes(name) => name == *given,
                number => number == Element::of(given),
            }
        })
    }

    /// Time and sequence relative to the block, as encoded.
    #[inline]
    fn relative(&self, id: StreamId) -> (u64, u64) {
        match id.ms - self.first.ms {
            0 => (0, id.seq - self.first.seq),
            time => (time, id.seq),
        }
    }

    #[inline]
    fn write(&mut self, id: StreamId, pairs: &[&[u8]], shares_names: bool) {
        let (time, seq) = self.relative(id);
        let names_flag = if shares_names { SHARES_NAMES } else { 0 };
        let seq_flag = if seq > 0 { HAS_SEQ } else { 0 };
        let low = (time as u8 & TIME_MASK) << TIME_SHIFT | names_flag | seq_flag;
        let out = &mut self.bytes;
        if time > u64::from(TIME_MASK) {
            out.push(low | MORE_TIME);
            text::push_leb(out, time >> 4);
        } else {
            out.push(low);
        }
        if seq > 0 {
            text::push_leb(out, seq);
        }
        let length_at = out.len();
        out.push(0);
        let count = pairs.len() / 2;
        let (texts, elements) = if shares_names {
            let values = pairs.iter().skip(1).step_by(2);
            (values.map(|value| text::push(out, value)).sum::<usize>(), count)
        } else {
            text::push_leb(out, count as u64);
            let texts = pairs.iter().map(|text| text::push(out, text)).sum::<usize>();
            (texts + int_len(count as u64), 2 * count + 1)
        };
        self.set_length(length_at);
        // In a listpack an entry is flags, time, sequence, its texts and the number of these
        // elements.
        let relative =
            int_len(id.ms - self.first.ms) + int_len(id.seq.wrapping_sub(self.first.seq));
        self.grow_listpack(int_len(0) + relative + texts + int_len(elements as u64 + 3));
        (self.live, self.kept) = (self.live + 1, self.kept + 1);
        self.put = self.put.saturating_add(1);
    }

    /// Writes the length of what follows `at`, where one byte is reserved for it.
    #[inline]
    fn set_length(&mut self, at: usize) {
        let len = self.bytes.len() - at - 1;
        if len < 0x80 {
            self.bytes[at] = len as u8;
            return;
        }
        let mut length = Vec::with_capacity(text::LEB_MAX_BYTES);
        text::push_leb(&mut length, len as u64);
        self.bytes.splice(at..=at, length);
    }

    #[inline]
    fn raw(&self, at: usize) -> Option<Raw<'_>> {
        let first = *self.bytes.get(at)?;
        let mut rest = &self.bytes[at + 1..];
        let (mut time, mut seq) = (u64::from(first >> TIME_SHIFT & TIME_MASK), 0);
        if first & MORE_TIME != 0 {
            let (high, behind) = text::take_leb(rest);
            (time, rest) = (time | high << 4, behind);
        }
        if first & HAS_SEQ != 0 {
            (seq, rest) = text::take_leb(rest);
        }
        let (len, rest) = text::take_leb(rest);
        let id = match time {
            0 => StreamId { ms: self.first.ms, seq: self.first.seq + seq },
            _ => StreamId { ms: self.first.ms + time, seq },
        };
        let fields = &rest[..len as usize];
        let end = self.bytes.len() - rest.len() + fields.len();
        Some(Raw { at, end, flags: first, id, fields })
    }

    #[inline]
    fn raws(&self) -> impl Iterator<Item = Raw<'_>> {
        let mut at = self.begin as usize;
        std::iter::from_fn(move || {
            let raw = self.raw(at)?;
            at = raw.end;
            Some(raw)
        })
    }

    fn entry<'a>(&'a self, raw: &Raw<'a>) -> Entry<'a> {
        let shares_names = raw.flags & SHARES_NAMES != 0;
        let names = shares_names.then_some(self.bytes.as_slice());
        Entry { id: raw.id, fields: raw.fields, names }
    }

    /// The live entries.
    #[inline]
    pub fn entries(&self) -> Entries<'_> {
        Entries { block: self, at: self.begin as usize }
    }

    /// The entries from `start` to `end`, from the end.
    pub fn entries_back(&self, start: StreamId, end: StreamId) -> Back<'_> {
        let within = |raw: &Raw<'_>| raw.is_live() && raw.id >= start;
        let up_to_end = self.raws().take_while(|raw| raw.id <= end);
        Back { block: self, offsets: up_to_end.filter(within).map(|raw| raw.at as u32).collect() }
    }

    /// The entry with this id.
    pub fn find(&self, id: StreamId) -> Option<Entry<'_>> {
        let raw = self.raws().find(|raw| raw.id >= id)?;
        (raw.id == id && raw.is_live()).then(|| self.entry(&raw))
    }

    /// The last live entry.
    pub fn last(&self) -> Option<Entry<'_>> {
        self.raws().filter(Raw::is_live).last().map(|raw| self.entry(&raw))
    }

    /// The id of the last entry that was added, deleted or not.
    pub fn last_id(&self) -> StreamId {
        self.raws().last().map_or(self.first, |raw| raw.id)
    }

    /// How many live entries there are.
    pub fn len(&self) -> usize {
        self.live as usize
    }

    /// Reallocates the buffer, at the same size, if it lies in sparse pages.
    pub fn renew(&mut self, renewal: &mut Renewal<'_>) {
        if self.bytes.capacity() > 0 && renewal.wants(self.bytes.as_ptr()) {
            let mut bytes = Vec::with_capacity(self.bytes.capacity());
            bytes.extend_from_slice(&self.bytes);
            self.bytes = bytes;
        }
    }

    /// Allocated bytes.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        match self.bytes.capacity() {
            0 => 0,
            room => size_class(room),
        }
    }

    /// Frees unused room: nothing more will be appended.
    pub fn close(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// Deletes an entry; false if it is not there.
    pub fn delete(&mut self, id: StreamId) -> bool {
        let Some(raw) = self.raws().find(|raw| raw.id >= id) else { return false };
        if raw.id != id || !raw.is_live() {
            return false;
        }
        let at = raw.at;
        self.flag(at);
        self.thin_out();
        true
    }

    /// Deletes entries from the front for which `is_dropped` returns true, until `stop` returns
    /// true; returns how many. Both get the id, `stop` first and with the number deleted so far.
    pub fn delete_front(
        &mut self,
        mut stop: impl FnMut(StreamId, usize) -> bool,
        mut is_dropped: impl FnMut(StreamId) -> bool,
    ) -> usize {
        let (mut at, mut deleted) = (self.begin as usize, 0);
        while let Some(Raw { at: here, end, flags, id, .. }) = self.raw(at) {
            if stop(id, deleted) {
                break;
            }
            at = end;
            if flags & DELETED == 0 && is_dropped(id) {
                self.flag(here);
                deleted += 1;
            }
        }
        self.thin_out();
        deleted
    }

    /// Drops the deleted entries at the end whose ids are above `id`, so that new entries may get
    /// such ids. No live entry is above `id`.
    pub fn forget_above(&mut self, id: StreamId) {
        let mut above = self.raws().skip_while(|raw| raw.id <= id);
        let Some(first) = above.next() else { return };
        let (at, count) = (first.at, 1 + above.count() as u32);
        self.bytes.truncate(at);
        self.kept -= count;
        debug_assert!(self.raws().filter(Raw::is_live).count() == self.live as usize);
    }

    fn flag(&mut self, at: usize) {
        self.bytes[at] |= DELETED;
        self.live -= 1;
    }

    /// Rewrites the block if more than half of its entries are deleted.
    fn thin_out(&mut self) {
        if 2 * self.live + 1 >= self.kept || self.live == 0 {
            return;
        }
        let stays = |raw: &Raw<'_>| raw.is_live() || raw.end == self.bytes.len();
        let bytes: usize = self.raws().filter(stays).map(|raw| raw.end - raw.at).sum();
        let begin = self.begin as usize;
        let (mut kept, mut count) = (Vec::with_capacity(begin + bytes), 0);
        kept.extend_from_slice(&self.bytes[..begin]);
        for raw in self.raws().filter(stays) {
            kept.extend_from_slice(&self.bytes[raw.at..raw.end]);
            count += 1;
        }
        self.bytes = kept;
        self.kept = count;
    }
}

/// The most bytes that an entry with this many texts takes.
#[inline]
fn entry_bound(texts: usize, texts_bytes: usize) -> usize {
    texts_bytes + texts * text::HEAD_MAX_BYTES + ENTRY_MAX_BYTES
}

/// Bytes of a number in a listpack.
#[inline]
fn int_len(number: u64) -> usize {
    entry::encoded_len(Element::Int(number.cast_signed()))
}

/// An iterator over live entries, see [`Block::entries`].
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    block: &'a Block,
    at: usize,
}

impl<'a> Entries<'a> {
    /// Skips all entries below this id.
    #[inline]
    pub fn skip_to(&mut self, id: StreamId) {
        while let Some(raw) = self.block.raw(self.at) {
            if raw.id >= id {
                break;
            }
            self.at = raw.end;
        }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        loop {
            let raw = self.block.raw(self.at)?;
            self.at = raw.end;
            if raw.is_live() {
                return Some(self.block.entry(&raw));
            }
        }
    }
}

/// An iterator over entries from the end, see [`Block::entries_back`].
#[derive(Clone, Debug)]
pub struct Back<'a> {
    block: &'a Block,
    offsets: SmallVec<[u32; 100]>,
}

impl<'a> Iterator for Back<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let raw = self.block.raw(self.offsets.pop()? as usize)?;
        Some(self.block.entry(&raw))
    }
}
