//! Converts RESP to Lua values: the results of `redis.call`.
//!
//! The reference's rules: integers become numbers; bulk strings strings; arrays tables; status and
//! error lines tables with `ok` and `err`; nil of RESP2 `false`, of RESP3 nil; doubles, maps, sets,
//! big numbers and verbatim strings tables with the field `double`, `map`, `set`, `big_number`,
//! `verbatim_string`.
//!
//! 1. The bytes come from this server and are well-formed; malformed bytes give an error.
//! 2. Nesting is bounded by `MAX_DEPTH`.
//!
//! Not here: errors and statuses as whole replies, which need no table on this side
//! (`globals::api`). Tests: crates/scripting/tests/conversions.rs.

use mlua::{Error, Lua, Result, Table, Value};
use pantala_base::number;

use crate::libs::budget::Budget;

/// A limit; replies of this server nest four deep at most.
const MAX_DEPTH: usize = 64;

/// The value of all of `bytes`.
pub fn value(lua: &Lua, bytes: &[u8]) -> Result<Value> {
    Reader { lua, rest: bytes, budget: Budget::open(lua) }.value(0)
}

struct Reader<'a> {
    lua: &'a Lua,
    rest: &'a [u8],
    budget: Budget<'a>,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Value> {
        if depth > MAX_DEPTH {
            return Err(malformed());
        }
        self.budget.step()?;
        let line = self.line()?;
        let (kind, text) = line.split_first().ok_or_else(malformed)?;
        match kind {
            b'$' => match size(text)? {
                Some(len) => self.string(len),
                None => Ok(Value::Boolean(false)),
            },
            b':' => Ok(Value::Integer(number::parse_i64(text).ok_or_else(malformed)?)),
            b'+' => self.one("ok", self.text(text)?),
            b'-' => self.error(text),
            b'*' | b'>' => match size(text)? {
                Some(count) => self.array(count, depth),
                None => Ok(Value::Boolean(false)),
            },
            b'_' => Ok(Value::Nil),
            b'#' => Ok(Value::Boolean(text == b"t")),
            b',' => self.double(text),
            b'(' => self.one("big_number", self.text(text)?),
            b'=' => self.verbatim(size(text)?.ok_or_else(malformed)?),
            b'%' => self.map(size(text)?.ok_or_else(malformed)?, depth),
            b'~' => self.set(size(text)?.ok_or_else(malformed)?, depth),
            b'|' => {
                for _ in 0..2 * size(text)?.ok_or_else(malformed)? {
                    self.value(depth + 1)?;
                }
                self.value(depth + 1)
            }
            _ => Err(malformed()),
        }
    }

    fn line(&mut self) -> Result<&'a [u8]> {
        let end = self.rest.iter().position(|byte| *byte == b'\r').ok_or_else(malformed)?;
        let line = &self.rest[..end];
        self.rest = self.rest.get(end + 2..).ok_or_else(malformed)?;
        Ok(line)
    }

    /// Reads `len` bytes and the line end after them.
    fn bytes(&mut self, len: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or_else(malformed)?;
        self.rest = rest.get(2..).ok_or_else(malformed)?;
        Ok(bytes)
    }

    fn text(&self, text: &[u8]) -> Result<Value> {
        Ok(Value::String(self.lua.create_string(text)?))
    }

    fn string(&mut self, len: usize) -> Result<Value> {
        let bytes = self.bytes(len)?;
        self.text(bytes)
    }

    fn one(&self, name: &str, value: Value) -> Result<Value> {
        let table = self.lua.create_table_with_capacity(0, 1)?;
        table.raw_set(name, value)?;
        Ok(Value::Table(table))
    }

    fn error(&self, text: &[u8]) -> Result<Value> {
        // It grows as in the reference, which determines the order in which `pairs` visits its
        // fields.
        let table = self.lua.create_table()?;
        table.raw_set("err", self.text(text)?)?;
        table.raw_set("ignore_error_stats_update", true)?;
        Ok(Value::Table(table))
    }

    fn double(&self, text: &[u8]) -> Result<Value> {
        let text = std::str::from_utf8(text).map_err(|_| malformed())?;
        self.one("double", Value::Number(text.parse().map_err(|_| malformed())?))
    }

    fn verbatim(&mut self, len: usize) -> Result<Value> {
        let (format, text) = self.bytes(len)?.split_at_checked(4).ok_or_else(malformed)?;
        let parts = self.lua.create_table_with_capacity(0, 2)?;
        parts.raw_set("format", self.text(&format[..3])?)?;
        parts.raw_set("string", self.text(text)?)?;
        self.one("verbatim_string", Value::Table(parts))
    }

    fn array(&mut self, count: usize, depth: usize) -> Result<Value> {
        let table = self.sized(count, 0)?;
        for index in 1..=count {
            let value = self.value(depth + 1)?;
            if !value.is_nil() {
                table.raw_seti(index, value)?;
            }
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, count: usize, depth: usize) -> Result<Value> {
        let table = self.sized(0, count)?;
        for _ in 0..count {
            let key = self.value(depth + 1)?;
            let value = self.value(depth + 1)?;
            set(&table, key, value)?;
        }
        self.one("map", Value::Table(table))
    }

    fn set(&mut self, count: usize, depth: usize) -> Result<Value> {
        let table = self.sized(0, count)?;
        for _ in 0..count {
            let member = self.value(depth + 1)?;
            set(&table, member, Value::Boolean(true))?;
        }
        self.one("set", Value::Table(table))
    }

    /// A table with room for at most what the remaining bytes can hold.
    fn sized(&self, elements: usize, pairs: usize) -> Result<Table> {
        let most = self.rest.len() / 3 + 1;
        self.lua.create_table_with_capacity(elements.min(most), pairs.min(most))
    }
}

/// Stores a pair; a nil key is ignored.
fn set(table: &Table, key: Value, value: Value) -> Result<()> {
    if key.is_nil() { Ok(()) } else { table.raw_set(key, value) }
}

/// Parses a length, `None` for the -1 of nil.
fn size(text: &[u8]) -> Result<Option<usize>> {
    let size = number::parse_i64(text).ok_or_else(malformed)?;
    Ok(usize::try_from(size).ok())
}

fn malformed() -> Error {
    Error::runtime("malformed reply")
}
