//! MessagePack to values.
//!
//! Tables are filled by mlua from an iterator that parses the bytes as it goes; values nested
//! deeper than `RECURSION_MAX` with an explicit stack (`Reader::deep`). An error is stored in
//! `Reader::stopped` and ends the iterators from the inside out.
//!
//! 1. Tables start empty and are filled in order, so they iterate in the same order as the
//!    reference's.
//! 2. A count is not trusted: nothing is reserved for it, and the bytes end soon enough.
//! 3. Binary, extension and reserved tags are refused, as in the reference.
//!
//! Tests: tests/libs_answers.rs.

use std::str;

use mlua::{Either, Error, Lua, Result, Table, Value};

use crate::libs::budget::Budget;
use crate::libs::{NESTING_MAX, RESULTS_MAX};

/// The reference has no room for more values, or for deeper ones.
pub(super) const TOO_MANY: &str = "stack overflow (too many return values at once; \
    use unpack_one or unpack_limit instead.)";
/// The nesting of tables up to which recursion is used, each level some kilobytes of stack.
const RECURSION_MAX: usize = 16;
const TOO_DEEP: &str = "stack overflow (in function mp_decode_to_lua_array)";
const CUT_SHORT: &str = "Missing bytes in input.";
const BAD_FORMAT: &str = "Bad data format in input.";

/// Why there will be no more values.
pub(super) enum UnpackStop {
    Mistake(&'static str),
    /// Lua does not accept this key.
    Key(&'static str),
    Lua(Error),
}

/// Appends up to `limit` values; returns how many bytes are left.
pub(super) fn unpack(
    lua: &Lua,
    bytes: &[u8],
    limit: i64,
    values: &mut Vec<Value>,
) -> std::result::Result<usize, UnpackStop> {
    let mut reader = Reader { lua, budget: Budget::open(lua), bytes, depth: 0, stopped: None };
    let mut count = 0;
    while !reader.bytes.is_empty() && count < limit {
        if values.len() >= RESULTS_MAX {
            return Err(UnpackStop::Mistake(TOO_MANY));
        }
        match (reader.value(), reader.stopped.take()) {
            (Some(value), None) => values.push(owned(lua, value).map_err(UnpackStop::Lua)?),
            (_, Some(stop)) => return Err(stop),
            // A reader that yields nothing has stored the reason.
            (None, None) => return Err(UnpackStop::Mistake(BAD_FORMAT)),
        }
        count += 1;
    }
    Ok(reader.bytes.len())
}

/// A value to be stored into a table: text that is UTF-8 uses mlua's shortest path.
type Piece<'a> = Either<&'a str, Value>;

fn owned(lua: &Lua, piece: Piece) -> Result<Value> {
    match piece {
        Either::Left(text) => lua.create_string(text).map(Value::String),
        Either::Right(value) => Ok(value),
    }
}

struct Reader<'a> {
    lua: &'a Lua,
    budget: Budget<'a>,
    bytes: &'a [u8],
    depth: usize,
    stopped: Option<UnpackStop>,
}

impl<'a> Reader<'a> {
    #[inline(always)]
    fn value(&mut self) -> Option<Piece<'a>> {
        match self.head()? {
            Head::Whole(value) => Some(value),
            Head::Array(count) => self.array(count),
            Head::Map(count) => self.map(count),
        }
    }

    /// Reads a value, or the head of a table.
    #[inline(always)]
    fn head(&mut self) -> Option<Head<'a>> {
        if let Err(error) = self.budget.step() {
            return self.stop(UnpackStop::Lua(error));
        }
        let tag = self.take(1)?[0];
        Some(Head::Whole(match tag {
            0x00..=0x7f => number(f64::from(tag)),
            0x80..=0x8f => return Some(Head::Map(usize::from(tag & 0xf))),
            0x90..=0x9f => return Some(Head::Array(usize::from(tag & 0xf))),
            0xa0..=0xbf => self.string(usize::from(tag & 0x1f))?,
            0xc0 => Either::Right(Value::Nil),
            0xc2 => Either::Right(Value::Boolean(false)),
            0xc3 => Either::Right(Value::Boolean(true)),
            0xca => number(f64::from(f32::from_be_bytes(self.array_of()?))),
            0xcb => number(f64::from_be_bytes(self.array_of()?)),
            0xcc => number(self.count::<1>()? as f64),
            0xcd => number(self.count::<2>()? as f64),
            0xce => number(self.count::<4>()? as f64),
            // The upper half comes out negative in the reference.
            0xcf | 0xd3 => number(i64::from_be_bytes(self.array_of()?) as f64),
            0xd0 => number(f64::from(i8::from_be_bytes(self.array_of()?))),
            0xd1 => number(f64::from(i16::from_be_bytes(self.array_of()?))),
            0xd2 => number(f64::from(i32::from_be_bytes(self.array_of()?))),
            0xd9 => self.counted::<1>()?,
            0xda => self.counted::<2>()?,
            0xdb => self.counted::<4>()?,
            0xdc => return self.count::<2>().map(Head::Array),
            0xdd => return self.count::<4>().map(Head::Array),
            0xde => return self.count::<2>().map(Head::Map),
            0xdf => return self.count::<4>().map(Head::Map),
            0xe0..=0xff => number(f64::from(tag as i8)),
            0xc1 | 0xc4..=0xc9 | 0xd4..=0xd8 => return self.stop(UnpackStop::Mistake(BAD_FORMAT)),
        }))
    }

    #[inline]
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        match self.bytes.split_at_checked(len) {
            Some((taken, rest)) => {
                self.bytes = rest;
                Some(taken)
            }
            None => self.stop(UnpackStop::Mistake(CUT_SHORT)),
        }
    }

    #[inline]
    fn array_of<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// An unsigned number of `N` bytes, at most 4.
    #[inline]
    fn count<const N: usize>(&mut self) -> Option<usize> {
        let bytes = self.take(N)?;
        Some(bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    }

    fn counted<const N: usize>(&mut self) -> Option<Piece<'a>> {
        let len = self.count::<N>()?;
        self.string(len)
    }

    fn string(&mut self, len: usize) -> Option<Piece<'a>> {
        let bytes = self.take(len)?;
        if let Ok(text) = str::from_utf8(bytes) {
            return Some(Either::Left(text));
        }
        match self.lua.create_string(bytes) {
            Ok(text) => Some(Either::Right(Value::String(text))),
            Err(error) => self.stop(UnpackStop::Lua(error)),
        }
    }

    fn array(&mut self, count: usize) -> Option<Piece<'a>> {
        if self.depth >= RECURSION_MAX {
            return self.deep(count, false);
        }
        self.descend(TOO_DEEP)?;
        let lua = self.lua;
        let table = lua.create_sequence_from(Elements { reader: self, left: count });
        self.ascend(table)
    }

    fn map(&mut self, count: usize) -> Option<Piece<'a>> {
        if self.depth >= RECURSION_MAX {
            return self.deep(count, true);
        }
        self.descend(TOO_MANY)?;
        let lua = self.lua;
        let table = lua.create_table_from(Members { reader: self, left: count });
        self.ascend(table)
    }

    /// Reads the rest of a table whose head was read, without recursion.
    fn deep(&mut self, count: usize, is_map: bool) -> Option<Piece<'a>> {
        let mut open = vec![self.opened(count, is_map)?];
        loop {
            while let Some(done) = open.pop_if(|top| top.left == 0) {
                self.depth -= 1;
                let table = Value::Table(done.table);
                match open.last_mut() {
                    Some(parent) => self.put(parent, table)?,
                    None => return Some(Either::Right(table)),
                }
            }
            let top = open.last_mut()?;
            match self.head()? {
                Head::Whole(value) => {
                    let value = owned(self.lua, value);
                    let value = self.made(value)?;
                    self.put(top, value)?;
                }
                Head::Array(count) => open.push(self.opened(count, false)?),
                Head::Map(count) => open.push(self.opened(count, true)?),
            }
        }
    }

    fn opened(&mut self, count: usize, is_map: bool) -> Option<Open> {
        self.descend(if is_map { TOO_MANY } else { TOO_DEEP })?;
        let table = self.made(self.lua.create_table())?;
        let left = if is_map { 2 * count } else { count };
        Some(Open { table, left, is_map, place: 0, key: None })
    }

    /// Adds a value: an element, a key, or a key's value.
    fn put(&mut self, open: &mut Open, value: Value) -> Option<()> {
        open.left -= 1;
        if !open.is_map {
            open.place += 1;
            return self.made(open.table.raw_set(open.place, value));
        }
        match open.key.take() {
            None => open.key = Some(value),
            Some(key) => {
                self.check_key(&key)?;
                self.made(open.table.raw_set(key, value))?;
            }
        }
        Some(())
    }

    fn check_key(&mut self, key: &Value) -> Option<()> {
        match key {
            Value::Nil => self.stop(UnpackStop::Key("table index is nil")),
            Value::Number(key) if key.is_nan() => self.stop(UnpackStop::Key("table index is NaN")),
            _ => Some(()),
        }
    }

    fn made<T>(&mut self, made: Result<T>) -> Option<T> {
        match made {
            Ok(value) => Some(value),
            Err(error) => self.stop(UnpackStop::Lua(error)),
        }
    }

    fn descend(&mut self, refusal: &'static str) -> Option<()> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return self.stop(UnpackStop::Mistake(refusal));
        }
        Some(())
    }

    fn ascend(&mut self, table: Result<Table>) -> Option<Piece<'a>> {
        self.depth -= 1;
        match table {
            _ if self.stopped.is_some() => None,
            Ok(table) => Some(Either::Right(Value::Table(table))),
            Err(error) => self.stop(UnpackStop::Lua(error)),
        }
    }

    #[cold]
    fn stop<T>(&mut self, stop: UnpackStop) -> Option<T> {
        self.stopped = Some(stop);
        None
    }
}

/// A value, or the number of elements or members that follow.
enum Head<'a> {
    Whole(Piece<'a>),
    Array(usize),
    Map(usize),
}

/// A table being filled without recursion.
struct Open {
    table: Table,
    /// How many values are to come, counting keys, too.
    left: usize,
    is_map: bool,
    /// The index of the last element.
    place: i64,
    /// A key that waits for its value.
    key: Option<Value>,
}

fn number<'a>(value: f64) -> Piece<'a> {
    Either::Right(Value::Number(value))
}

struct Elements<'p, 'a> {
    reader: &'p mut Reader<'a>,
    left: usize,
}

impl<'a> Iterator for Elements<'_, 'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        self.left = self.left.checked_sub(1)?;
        self.reader.value()
    }
}

struct Members<'p, 'a> {
    reader: &'p mut Reader<'a>,
    left: usize,
}

impl<'a> Iterator for Members<'_, 'a> {
    type Item = (Piece<'a>, Piece<'a>);

    fn next(&mut self) -> Option<(Piece<'a>, Piece<'a>)> {
        self.left = self.left.checked_sub(1)?;
        let key = self.reader.value()?;
        let value = self.reader.value()?;
        if let Either::Right(key) = &key {
            self.reader.check_key(key)?;
        }
        Some((key, value))
    }
}
