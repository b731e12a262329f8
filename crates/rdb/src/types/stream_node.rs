//! Entries of a stream in one listpack, after the id of the first of them.
//!
//! ```text
//! head:   live | deleted | count of names | name | name ... | 0
//! entry:  flags | time | sequence | value ...                     | elements    (names as above)
//!                                 | count | name value ...        | elements    (other names)
//! ```
//!
//! Time and sequence are relative to the node's id. `elements` is how many elements of the listpack
//! the entry has before it, for reading from the end.
//!
//! The head's names are repeated for each entry that shares them, so few bytes may stand for many:
//! [`MOST_GROWTH`] bounds how many.

use std::collections::VecDeque;
use std::slice;

use pantala_table::IntText;
use pantala_values::Stream;
use pantala_values::packed::{Element, Encoded, View, entry};
use pantala_values::stream::{BlockLimits, Entry, StreamId};

use smallvec::{SmallVec, smallvec};

use crate::input::{Input, Malformed};
use crate::packed::listpack;
use crate::scalars::text;
use crate::{Part, RdbLimits, Strings, Style};

const DELETED: i64 = 1;
const SHARES_NAMES: i64 = 2;

/// The limits of the nodes that are written: the defaults of other servers.
const NODE: BlockLimits = BlockLimits { bytes: 4096, entries: 100 };
/// The texts of all entries may be this many times the bytes of their node.
const MOST_GROWTH: usize = 128;
/// Texts up to this many bytes are always allowed.
const ALWAYS_BYTES: usize = 1 << 20;
/// The largest possible listpack.
const MOST_BYTES: usize = u32::MAX as usize;

const WRONG: Malformed = Malformed("a part of a stream that is not what it says");

/// The bytes of an id, big-endian, so that they sort like ids.
pub fn id_bytes(id: StreamId) -> [u8; 16] {
    (u128::from(id.ms) << 64 | u128::from(id.seq)).to_be_bytes()
}

/// The id of these bytes.
pub fn id_of(bytes: [u8; 16]) -> StreamId {
    let both = u128::from_be_bytes(bytes);
    StreamId { ms: (both >> 64) as u64, seq: both as u64 }
}

#[inline]
fn push_int(number: i64, out: &mut Encoded) {
    // Nearly all are small: one byte, and its length after it.
    match number {
        0..=127 => out.extend_from_slice(&[number as u8, 1]),
        _ => entry::encode(Element::Int(number), out),
    }
}

/// The nodes of a stream, encoded in parts.
#[derive(Debug)]
pub struct Nodes {
    /// In pieces, so that finished bytes never move.
    done: VecDeque<Vec<u8>>,
    count: u64,
    open: Option<Node>,
    /// The entry to continue with; `None` at the end.
    next: Option<StreamId>,
}

impl Default for Nodes {
    fn default() -> Nodes {
        Nodes { done: VecDeque::new(), count: 0, open: None, next: Some(StreamId::MIN) }
    }
}

#[derive(Debug)]
struct Node {
    id: StreamId,
    name_count: usize,
    names: Encoded,
    entries: Encoded,
    live: usize,
    /// The number of elements of all entries.
    elements: usize,
}

impl Nodes {
    /// Encodes about this many bytes of nodes; returns whether those were the last.
    pub fn go_on(&mut self, stream: &Stream, part: Part) -> bool {
        let mut made = Vec::new();
        if let Some(start) = self.next.take() {
            for entry in stream.range(start, StreamId::MAX) {
                self.put(&entry, part.style, &mut made);
                if made.len() >= part.most_bytes {
                    self.next = entry.id.next();
                    break;
                }
            }
        }
        if self.next.is_none() {
            self.close(part.style, &mut made);
        }
        self.done.push_back(made);
        self.next.is_none()
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Takes the next piece of the nodes.
    pub fn next_piece(&mut self) -> Option<Vec<u8>> {
        self.done.pop_front()
    }

    fn put(&mut self, entry: &Entry<'_>, style: Style, made: &mut Vec<u8>) {
        let is_full = self.open.as_ref().is_some_and(Node::is_full);
        if is_full {
            self.close(style, made);
        }
        let node = self.open.get_or_insert_with(|| Node::beginning_with(entry));
        node.put(entry);
    }

    fn close(&mut self, style: Style, made: &mut Vec<u8>) {
        if let Some(node) = self.open.take() {
            node.write(style, made);
            self.count += 1;
        }
    }
}

impl Node {
    fn beginning_with(first: &Entry<'_>) -> Node {
        let mut names = Encoded::new();
        first.fields().for_each(|(name, _)| entry::encode(name, &mut names));
        Node {
            id: first.id,
            name_count: first.fields().len(),
            names,
            entries: Encoded::with_capacity(NODE.bytes),
            live: 0,
            elements: 0,
        }
    }

    fn has_names(&self, entry: &Entry<'_>) -> bool {
        let mut names = View::new(&self.names, self.name_count).iter();
        entry.fields().len() == self.name_count
            && entry.fields().all(|(name, _)| names.next().is_some_and(|(_, own)| own == name))
    }

    fn is_full(&self) -> bool {
        self.live >= NODE.entries || self.names.len() + self.entries.len() >= NODE.bytes
    }

    fn put(&mut self, entry: &Entry<'_>) {
        let fields = entry.fields();
        let count = fields.len();
        let shares_names = self.has_names(entry);
        let out = &mut self.entries;
        push_int(if shares_names { SHARES_NAMES } else { 0 }, out);
        push_int(entry.id.ms.wrapping_sub(self.id.ms).cast_signed(), out);
        push_int(entry.id.seq.wrapping_sub(self.id.seq).cast_signed(), out);
        let elements = if shares_names { 3 + count } else { 4 + 2 * count };
        if !shares_names {
            push_int(count as i64, out);
        }
        for (name, value) in fields {
            if !shares_names {
                entry::encode(name, out);
            }
            entry::encode(value, out);
        }
        push_int(elements as i64, out);
        self.live += 1;
        self.elements += elements + 1;
    }

    fn write(self, style: Style, out: &mut Vec<u8>) {
        let mut head = Encoded::new();
        push_int(self.live as i64, &mut head);
        push_int(0, &mut head);
        push_int(self.name_count as i64, &mut head);
        head.extend_from_slice(&self.names);
        push_int(0, &mut head);
        text::write_raw(&id_bytes(self.id), Strings::Plain, out);
        let count = 4 + self.name_count + self.elements;
        listpack::write_parts(&[&head, &self.entries], count, style, out);
    }
}

/// Iterates over the elements of a node.
struct Elements<'a> {
    left: slice::Iter<'a, Element<'a>>,
}

impl<'a> Elements<'a> {
    fn any(&mut self) -> Result<&'a Element<'a>, Malformed> {
        self.left.next().ok_or(WRONG)
    }

    fn int(&mut self) -> Result<i64, Malformed> {
        self.any()?.int().ok_or(WRONG)
    }

    /// Reads a count of elements that follow.
    fn count(&mut self, each: usize) -> Result<usize, Malformed> {
        let count = usize::try_from(self.int()?).map_err(|_| WRONG)?;
        if count.saturating_mul(each) <= self.left.len() { Ok(count) } else { Err(WRONG) }
    }

    fn take(&mut self, count: usize) -> Result<&'a [Element<'a>], Malformed> {
        let (taken, left) = self.left.as_slice().split_at_checked(count).ok_or(WRONG)?;
        self.left = left.iter();
        Ok(taken)
    }
}

/// Reads a node and appends its entries to a stream.
pub fn read(
    input: &mut Input<'_>,
    stream: &mut Stream,
    limits: &RdbLimits,
) -> Result<(), Malformed> {
    let id = text::read(input, size_of::<u128>())?;
    let id = id.bytes(&mut IntText::new()).try_into().map(id_of).map_err(|_| WRONG)?;
    let bytes = text::read(input, MOST_BYTES)?;
    let mut scratch = IntText::new();
    let (entries, told) = listpack::unwrap(bytes.bytes(&mut scratch))?;
    let most = if told == listpack::UNCOUNTED { 0 } else { usize::from(told) };
    let mut elements = Vec::with_capacity(most.min(entries.len()));
    listpack::each(entries, |element| {
        elements.push(element);
        Ok(())
    })?;
    if told != listpack::UNCOUNTED && usize::from(told) != elements.len() {
        return Err(WRONG);
    }
    let most_bytes = entries.len().saturating_mul(MOST_GROWTH).max(ALWAYS_BYTES);
    let reader = Reader { id, limits, bytes_left: most_bytes };
    reader.read(Elements { left: elements.iter() }, stream)
}

/// Alternating names and values.
type Pairs<'a> = SmallVec<[&'a Element<'a>; 8]>;

struct Reader<'l> {
    id: StreamId,
    limits: &'l RdbLimits,
    /// How many bytes the texts of further entries may have.
    bytes_left: usize,
}

impl Reader<'_> {
    fn read(mut self, mut from: Elements<'_>, stream: &mut Stream) -> Result<(), Malformed> {
        let (live, deleted) = (from.count(0)?, from.count(0)?);
        let name_count = from.count(1)?;
        let names = from.take(name_count)?;
        if from.int()? != 0 {
            return Err(WRONG);
        }
        let (mut found_live, mut found_deleted) = (0, 0);
        while !from.left.as_slice().is_empty() {
            match self.read_entry(&mut from, names, stream)? {
                true => found_live += 1,
                false => found_deleted += 1,
            }
        }
        if (found_live, found_deleted) == (live, deleted) { Ok(()) } else { Err(WRONG) }
    }

    /// Reads an entry; returns whether it is live.
    fn read_entry(
        &mut self,
        from: &mut Elements<'_>,
        names: &[Element<'_>],
        stream: &mut Stream,
    ) -> Result<bool, Malformed> {
        let before = from.left.len();
        let flags = from.int()?;
        let ms = self.id.ms.wrapping_add(from.int()?.cast_unsigned());
        let seq = self.id.seq.wrapping_add(from.int()?.cast_unsigned());
        let mut pairs = Pairs::new();
        if flags & SHARES_NAMES != 0 {
            let values = from.take(names.len())?;
            pairs.extend(names.iter().zip(values).flat_map(|(name, value)| [name, value]));
        } else {
            let count = from.count(2)?;
            pairs.extend(from.take(2 * count)?);
        }
        let elements = before - from.left.len();
        if from.int()? != elements as i64 {
            return Err(WRONG);
        }
        let is_live = flags & DELETED == 0;
        if is_live {
            self.append(StreamId { ms, seq }, &pairs, stream)?;
        }
        Ok(is_live)
    }

    fn append(
        &mut self,
        id: StreamId,
        pairs: &[&Element<'_>],
        stream: &mut Stream,
    ) -> Result<(), Malformed> {
        let bytes = pairs.iter().map(|element| element.len()).sum();
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or(WRONG)?;
        if id <= stream.last_id() || pairs.is_empty() {
            return Err(Malformed("a stream whose entries do not ascend"));
        }
        let mut room: SmallVec<[IntText; 8]> = smallvec![IntText::new(); pairs.len()];
        let texts: SmallVec<[&[u8]; 8]> =
            pairs.iter().zip(&mut room).map(|(element, room)| element.text(room)).collect();
        if Stream::is_too_large(&texts) {
            return Err(Malformed("an entry of a stream that is too large"));
        }
        stream.append(id, &texts, self.limits.stream);
        Ok(())
    }
}
