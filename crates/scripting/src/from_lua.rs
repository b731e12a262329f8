//! Converts Lua values to RESP: the results of scripts.
//!
//! The reference's rules: strings become bulk strings; numbers become integers, truncated towards
//! zero; false and nil become null, true 1; tables with `err`, `ok`, `double`, `map`, `set`,
//! `big_number` or `verbatim_string` become those, in that order of precedence; other tables become
//! arrays up to the first nil; functions and the like become null. After `redis.setresp(3)`
//! booleans stay booleans. Metatables are not consulted.
//!
//! 1. Nesting is bounded by `MAX_DEPTH`: deeper is an error; the reference's bound is higher. A
//!    table that contains itself twice is bounded by size, and by the host's ticks.
//!
//! lpantala.c does the same for the most frequent values: texts, numbers, plain lists, statuses,
//! errors (`api::emit`). Replies that it cannot make as a whole are made here.
//!
//! Tests: crates/scripting/tests/conversions.rs.

use mlua::{LuaString, Table, Value};
use pantala_protocol::{Reply, Version};

use crate::{Abort, slot};

/// The deepest nesting of tables.
const MAX_DEPTH: usize = 200;
/// How many values are written between two ticks of the host.
const TICK_VALUES: usize = 10_000;
/// The cost of a table in values: its slots may be many, and empty.
const TABLE_VALUES: usize = 500;
/// How many bytes cost as much as a value.
const BYTES_A_VALUE: usize = 1024;

/// Why a value cannot be sent.
pub enum ReplyFault {
    /// The host ends the run.
    Abort,
    /// The reply would exceed its limit.
    TooLarge,
    /// An error of mlua.
    Lua,
}

impl From<mlua::Error> for ReplyFault {
    fn from(_: mlua::Error) -> ReplyFault {
        ReplyFault::Lua
    }
}

impl From<Abort> for ReplyFault {
    fn from(_: Abort) -> ReplyFault {
        ReplyFault::Abort
    }
}

/// Writes the values of one run.
pub struct ReplyWriter<'r, 'o> {
    reply: &'r mut Reply<'o>,
    /// The version the script chose with `redis.setresp`.
    script: Version,
    most_bytes: usize,
    until_tick: usize,
}

impl<'r, 'o> ReplyWriter<'r, 'o> {
    /// A writer for one value; `most_bytes` is the limit for the whole output.
    pub fn new(reply: &'r mut Reply<'o>, script: Version, most_bytes: usize) -> Self {
        ReplyWriter { reply, script, most_bytes, until_tick: TICK_VALUES }
    }

    /// Appends `value`.
    pub fn value(&mut self, value: &Value, depth: usize) -> Result<(), ReplyFault> {
        self.work(1)?;
        match value {
            Value::String(text) => {
                let bytes = text.as_bytes();
                self.work(bytes.len() / BYTES_A_VALUE)?;
                self.reply.bulk(&bytes);
            }
            Value::Integer(number) => self.reply.int(*number),
            Value::Number(number) => self.reply.int(integer(*number)),
            Value::Boolean(truth) if self.script == Version::Resp3 => self.reply.bool(*truth),
            Value::Boolean(true) => self.reply.int(1),
            Value::Table(table) if depth < MAX_DEPTH => return self.table(table, depth),
            Value::Table(_) => self.reply.error("ERR reached lua stack limit"),
            _ => self.reply.null(),
        }
        Ok(())
    }

    fn work(&mut self, values: usize) -> Result<(), ReplyFault> {
        if self.reply.len() > self.most_bytes {
            return Err(ReplyFault::TooLarge);
        }
        self.until_tick = self.until_tick.saturating_sub(values);
        if self.until_tick == 0 {
            self.until_tick = TICK_VALUES;
            slot::tick()?;
        }
        Ok(())
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<(), ReplyFault> {
        self.work(TABLE_VALUES)?;
        if let Value::String(text) = table.raw_get("err")? {
            self.reply.error(text.as_bytes());
            return Ok(());
        }
        if let Value::String(text) = table.raw_get("ok")? {
            status(self.reply, &text.as_bytes());
            return Ok(());
        }
        match table.raw_get("double")? {
            Value::Number(number) => {
                self.reply.double(number);
                return Ok(());
            }
            Value::Integer(number) => {
                self.reply.double(number as f64);
                return Ok(());
            }
            _ => {}
        }
        if let Value::Table(map) = table.raw_get("map")? {
            return self.map(&map, depth);
        }
        if let Value::Table(set) = table.raw_get("set")? {
            return self.set(&set, depth);
        }
        if let Value::String(digits) = table.raw_get("big_number")? {
            self.reply.big_number(&one_line(&digits.as_bytes()));
            return Ok(());
        }
        if let Value::Table(parts) = table.raw_get("verbatim_string")?
            && let (Value::String(format), Value::String(text)) =
                (parts.raw_get("format")?, parts.raw_get("string")?)
        {
            self.verbatim(&format, &text);
            return Ok(());
        }
        self.array(table, depth)
    }

    /// The format has three letters: it is cut, or padded with spaces.
    fn verbatim(&mut self, format: &LuaString, text: &LuaString) {
        let mut letters = [b' '; 3];
        for (letter, byte) in letters.iter_mut().zip(format.as_bytes().iter()) {
            *letter = *byte;
        }
        self.reply.verbatim(&letters, &text.as_bytes());
    }

    fn map(&mut self, map: &Table, depth: usize) -> Result<(), ReplyFault> {
        let mut count = 0;
        for pair in map.pairs::<Value, Value>() {
            self.work(1)?;
            pair?;
            count += 1;
        }
        self.reply.map(count);
        for pair in map.pairs::<Value, Value>() {
            let (key, value) = pair?;
            self.value(&key, depth + 1)?;
            self.value(&value, depth + 1)?;
        }
        Ok(())
    }

    fn set(&mut self, set: &Table, depth: usize) -> Result<(), ReplyFault> {
        let mut count = 0;
        for pair in set.pairs::<Value, Value>() {
            self.work(1)?;
            pair?;
            count += 1;
        }
        self.reply.set(count);
        for pair in set.pairs::<Value, Value>() {
            let (member, _) = pair?;
            self.value(&member, depth + 1)?;
        }
        Ok(())
    }

    /// Writes elements up to the first nil. Lua's own length equals that, except for tables with
    /// holes: for these the header is corrected at the end.
    fn array(&mut self, table: &Table, depth: usize) -> Result<(), ReplyFault> {
        let len = table.raw_len();
        let start = self.reply.len();
        self.reply.array(len);
        let mark_bytes = self.reply.len() - start;
        for index in 1..=len {
            let value: Value = table.raw_get(index)?;
            if value.is_nil() {
                self.reply.shorten_array(start, mark_bytes, index - 1);
                return Ok(());
            }
            self.value(&value, depth + 1)?;
        }
        Ok(())
    }
}

/// A status line.
pub fn status(reply: &mut Reply, text: &[u8]) {
    reply.raw(b"+");
    reply.raw(&one_line(text));
    reply.raw(b"\r\n");
}

/// The conversion of the reference's compiler on x86: what does not fit is the least integer.
pub fn integer(number: f64) -> i64 {
    let fits = number >= i64::MIN as f64 && number < -(i64::MIN as f64);
    if fits { number as i64 } else { i64::MIN }
}

/// Line ends would end the reply.
fn one_line(text: &[u8]) -> Vec<u8> {
    text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect()
}
