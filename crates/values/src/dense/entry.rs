//! The content of a room of a bin.
//!
//! ```text
//! unmarked: | content |
//! marked:   | flags | deadline, 8 bytes | content, or the number of a large one | padding |
//! content:  | key | value of a fixed length |     or     | length of the key | key | value |
//! ```
//!
//! Most entries are unmarked and pay nothing for what they do not use. Flags: bit 0 a deadline, bit
//! 1 content elsewhere, bits 2 to 4 the number of padding bytes at the end.

use pantala_base::UnixMs;

use super::bin::{MARK, MAX_ROOM, code_of, room_of};

const DEADLINE: u8 = 1;
const LARGE: u8 = 2;
const PADDING_SHIFT: u8 = 2;
/// The longest content of an unmarked entry: the longest room whose length is exact.
const UNMARKED_BYTES: usize = 191;
/// Longer content is kept outside the bin.
const INLINE_BYTES: usize = 512;
const LARGE_BYTES: usize = size_of::<u32>();
/// A key of this many bytes or more has its length in four bytes after this one.
const LONG_KEY: u8 = 255;

const _: () = assert!(1 + 8 + INLINE_BYTES <= MAX_ROOM);

/// What values a table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// None: every value is empty.
    None,
    /// All values have this length, in bytes.
    Fixed(u8),
    /// Any bytes.
    Any,
}

/// A decoded entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value; empty in a table without values.
    pub value: &'a [u8],
    /// The deadline, if the entry has one.
    pub deadline: Option<UnixMs>,
}

impl Entry<'_> {
    /// Whether the deadline has passed.
    #[inline]
    pub fn is_gone(&self, now: UnixMs) -> bool {
        self.deadline.is_some_and(|deadline| pantala_table::is_expired(deadline, now))
    }
}

impl Values {
    /// Whether a table of this kind may hold this value.
    pub(super) fn allows(self, value: &[u8]) -> bool {
        match self {
            Values::None => value.is_empty(),
            Values::Fixed(bytes) => value.len() == usize::from(bytes),
            Values::Any => true,
        }
    }

    #[inline]
    fn content_len(self, key: usize, value: usize) -> usize {
        match self {
            Values::None | Values::Fixed(_) => key + value,
            Values::Any => key_head(key) + key + value,
        }
    }

    /// Encodes key and value as content for a block of its own.
    pub(super) fn content(self, key: &[u8], value: &[u8]) -> Box<[u8]> {
        let mut content = vec![0; self.content_len(key.len(), value.len())].into_boxed_slice();
        self.write(key, value, &mut content);
        content
    }

    #[inline]
    fn write(self, key: &[u8], value: &[u8], out: &mut [u8]) {
        let out = match self {
            Values::None | Values::Fixed(_) => out,
            Values::Any if key_head(key.len()) == 1 => {
                out[0] = key.len() as u8;
                &mut out[1..]
            }
            Values::Any => {
                out[0] = LONG_KEY;
                out[1..5].copy_from_slice(&(key.len() as u32).to_le_bytes());
                &mut out[5..]
            }
        };
        let (key_out, value_out) = out.split_at_mut(key.len());
        key_out.copy_from_slice(key);
        value_out.copy_from_slice(value);
    }

    /// Decodes key and value.
    #[inline]
    pub(super) fn entry(self, content: &[u8], deadline: Option<UnixMs>) -> Entry<'_> {
        let (key, value) = match self {
            Values::None => (content, &content[content.len()..]),
            Values::Fixed(bytes) => content.split_at(content.len() - usize::from(bytes)),
            Values::Any => {
                let (head, key) = key_extent(content);
                content[head..].split_at(key)
            }
        };
        Entry { key, value, deadline }
    }

    #[inline]
    pub(super) fn has_key(self, content: &[u8], key: &[u8]) -> bool {
        match self {
            Values::None => content == key,
            Values::Fixed(bytes) => {
                content.len() == key.len() + usize::from(bytes) && content.starts_with(key)
            }
            Values::Any => {
                let (head, len) = key_extent(content);
                len == key.len() && content[head..].starts_with(key)
            }
        }
    }

    #[inline]
    pub(super) fn value_mut(self, content: &mut [u8], key_bytes: usize) -> &mut [u8] {
        match self {
            Values::None | Values::Fixed(_) => &mut content[key_bytes..],
            Values::Any => &mut content[key_head(key_bytes) + key_bytes..],
        }
    }
}

/// How many bytes the length of a key takes.
#[inline]
fn key_head(key: usize) -> usize {
    if key < usize::from(LONG_KEY) { 1 } else { 5 }
}

/// How many bytes the key's length takes, and the length.
#[inline]
fn key_extent(content: &[u8]) -> (usize, usize) {
    match content[0] {
        LONG_KEY => {
            let len = [content[1], content[2], content[3], content[4]];
            (5, u32::from_le_bytes(len) as usize)
        }
        len => (1, usize::from(len)),
    }
}

/// The layout chosen for an entry in its room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    is_marked: bool,
    deadline: Option<UnixMs>,
    large: Option<u32>,
    code: u8,
    padding: u8,
}

impl Form {
    #[inline]
    pub fn new(values: Values, key: usize, value: usize, deadline: Option<UnixMs>) -> Form {
        let content = values.content_len(key, value);
        let is_large = content > INLINE_BYTES;
        let content = if is_large { LARGE_BYTES } else { content };
        let is_marked = deadline.is_some() || is_large || content > UNMARKED_BYTES;
        let deadline_bytes = if deadline.is_some() { 8 } else { 0 };
        let bytes = usize::from(is_marked) + deadline_bytes + content;
        let code = code_of(bytes);
        let padding = (room_of(code) - bytes) as u8;
        Form { is_marked, deadline, large: is_large.then_some(0), code, padding }
    }

    /// Whether the content lies outside the bin; then [`Form::set_large`] must be called.
    #[inline]
    pub fn is_large(&self) -> bool {
        self.large.is_some()
    }

    pub fn set_large(&mut self, index: u32) {
        self.large = Some(index);
    }

    /// The mark bit of the tag.
    #[inline]
    pub fn mark(&self) -> u8 {
        if self.is_marked { MARK } else { 0 }
    }

    /// The code of the room.
    #[inline]
    pub fn code(&self) -> u8 {
        self.code
    }

    /// Writes the entry into the room.
    #[inline]
    pub fn write(&self, values: Values, key: &[u8], value: &[u8], room: &mut [u8]) {
        if !self.is_marked {
            return values.write(key, value, room);
        }
        let content_end = room.len() - usize::from(self.padding);
        let (flags, mut rest) = room[..content_end].split_at_mut(1);
        flags[0] = self.padding << PADDING_SHIFT;
        if let Some(deadline) = self.deadline {
            flags[0] |= DEADLINE;
            let (place, behind) = rest.split_at_mut(8);
            place.copy_from_slice(&deadline.0.to_le_bytes());
            rest = behind;
        }
        match self.large {
            None => values.write(key, value, rest),
            Some(index) => {
                flags[0] |= LARGE;
                rest.copy_from_slice(&index.to_le_bytes());
            }
        }
    }
}

/// A decoded marked entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct MarkedEntry<'a> {
    pub deadline: Option<UnixMs>,
    /// The number of the block with the content, if it lies outside the bin.
    pub large: Option<u32>,
    /// The offset of the content in the room.
    pub begin: usize,
    pub content: &'a [u8],
}

pub(super) fn marked(room: &[u8]) -> MarkedEntry<'_> {
    let flags = room[0];
    let end = room.len() - usize::from(flags >> PADDING_SHIFT);
    let mut begin = 1;
    let mut deadline = None;
    if flags & DEADLINE != 0
        && let Some(bytes) = room[1..].first_chunk::<8>()
    {
        deadline = Some(UnixMs(i64::from_le_bytes(*bytes)));
        begin += 8;
    }
    let content = &room[begin..end];
    let large = match content.first_chunk::<LARGE_BYTES>() {
        Some(index) if flags & LARGE != 0 => Some(u32::from_le_bytes(*index)),
        _ => None,
    };
    MarkedEntry { deadline, large, begin, content }
}
