//! Values to MessagePack.
//!
//! A table with exactly the keys 1 to n is an array, any other one a map. The reference visits all
//! keys to find out, counts them, then writes. Here a first, optimistic attempt writes while it
//! visits: a table with a key 1 is assumed to be an array whose keys come in order, and the head of
//! a map is inserted when its members are counted. If the assumption is wrong the attempt ends, and
//! everything is written again the careful way, so nothing is written more than twice.
//!
//! 1. A map's members come in the order of Lua's `next`, as everywhere.
//! 2. The optimistic attempt makes protected calls, `NESTING_MAX` deep at most; the careful one
//!    makes none.
//! 3. A table nested deeper than `NESTING_MAX` becomes nil, as do values that MessagePack lacks.
//!
//! Tests: tests/libs_answers.rs.

use mlua::{Error, Lua, Result, Table, Value};

use crate::libs::OUTPUT_BYTES_MAX;
use crate::libs::argument::truncated;
use crate::libs::budget::{Budget, TABLE_WORK, no_memory};

const NESTING_MAX: usize = 16;
/// The initial capacity, enough for most values.
const EXPECTED_BYTES: usize = 128;

/// Encodes `values`, one after the other.
pub(super) fn pack<'a>(
    lua: &Lua,
    values: impl Iterator<Item = &'a Value> + Clone,
) -> Result<Vec<u8>> {
    let out = Vec::with_capacity(EXPECTED_BYTES);
    let mut packer = Packer { budget: Budget::open(lua), out, optimistic: true };
    if values.clone().any(|value| packer.value(value, 0).is_err()) {
        packer.out.clear();
        packer.optimistic = false;
        // The attempt may have failed because the script must end.
        packer.budget.look()?;
        for value in values {
            packer.value(value, 0)?;
        }
    }
    Ok(packer.out)
}

struct Packer<'l> {
    budget: Budget<'l>,
    out: Vec<u8>,
    optimistic: bool,
}

impl Packer<'_> {
    fn value(&mut self, value: &Value, level: usize) -> Result<()> {
        self.budget.step()?;
        match value {
            Value::String(text) => {
                let bytes = text.as_bytes();
                self.budget.bytes(bytes.len())?;
                self.string(&bytes);
            }
            Value::Integer(number) => self.integer(*number),
            Value::Number(number) => self.number(*number),
            Value::Boolean(on) => self.out.push(if *on { 0xc3 } else { 0xc2 }),
            Value::Table(table) if level < NESTING_MAX => return self.table(table, level),
            _ => self.out.push(0xc0),
        }
        Ok(())
    }

    fn table(&mut self, table: &Table, level: usize) -> Result<()> {
        if self.out.len() > OUTPUT_BYTES_MAX {
            return Err(no_memory());
        }
        self.budget.work(TABLE_WORK)?;
        if !self.optimistic {
            return self.carefully(table, level);
        }
        match table.raw_len() {
            0 => self.map(table, level),
            len => self.array(table, len, level),
        }
    }

    /// Writes an array, assuming that the keys are 1 to `len` in order.
    fn array(&mut self, table: &Table, len: usize, level: usize) -> Result<()> {
        self.head(len, ARRAY);
        let mut next = 1;
        table.for_each(|key: Value, value: Value| {
            if !matches!(key, Value::Integer(place) if place == next) {
                return Err(Error::StackError);
            }
            next += 1;
            self.value(&value, level + 1)
        })?;
        if next as usize == len + 1 { Ok(()) } else { Err(Error::StackError) }
    }

    /// Writes a table without a key 1: a map, or empty.
    fn map(&mut self, table: &Table, level: usize) -> Result<()> {
        let start = self.out.len();
        let mut count = 0;
        self.out.push(MAP.small);
        table.for_each(|key: Value, value: Value| {
            count += 1;
            self.value(&key, level + 1)?;
            self.value(&value, level + 1)
        })?;
        match count {
            0 => self.out[start] = ARRAY.small,
            1..=15 => self.out[start] |= count as u8,
            _ => {
                let end = self.out.len();
                self.head(count, MAP);
                let head_len = self.out.len() - end;
                self.out[start..].rotate_right(head_len);
                self.out.remove(start + head_len);
            }
        }
        Ok(())
    }

    fn carefully(&mut self, table: &Table, level: usize) -> Result<()> {
        let (count, is_array) = counted(&mut self.budget, table)?;
        if is_array {
            self.head(count, ARRAY);
            for place in 1..=count {
                self.value(&table.raw_get(place)?, level + 1)?;
            }
            return Ok(());
        }
        self.head(count, MAP);
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            self.value(&key, level + 1)?;
            self.value(&value, level + 1)?;
        }
        Ok(())
    }

    fn head(&mut self, count: usize, kind: Kind) {
        match count {
            0..=15 => self.out.push(kind.small | count as u8),
            16..=0xffff => self.tagged(kind.long, (count as u16).to_be_bytes()),
            _ => self.tagged(kind.long + 1, (count as u32).to_be_bytes()),
        }
    }

    fn tagged<const N: usize>(&mut self, tag: u8, bytes: [u8; N]) {
        self.out.push(tag);
        self.out.extend_from_slice(&bytes);
    }

    fn string(&mut self, bytes: &[u8]) {
        let len = bytes.len();
        self.out.reserve(len + 5);
        match len {
            0..=31 => self.out.push(0xa0 | len as u8),
            32..=0xff => self.tagged(0xd9, [len as u8]),
            0x100..=0xffff => self.tagged(0xda, (len as u16).to_be_bytes()),
            _ => self.tagged(0xdb, (len as u32).to_be_bytes()),
        }
        self.out.extend_from_slice(bytes);
    }

    /// Writes an integer that fits 64 bits as such, other numbers as the smallest exact float.
    fn number(&mut self, number: f64) {
        let whole = truncated(number);
        if whole as f64 == number {
            self.integer(whole);
        } else if f64::from(number as f32) == number {
            self.tagged(0xca, (number as f32).to_be_bytes());
        } else {
            self.tagged(0xcb, number.to_be_bytes());
        }
    }

    fn integer(&mut self, number: i64) {
        match number {
            0..=0x7f => self.out.push(number as u8),
            0x80..=0xff => self.tagged(0xcc, [number as u8]),
            0x100..=0xffff => self.tagged(0xcd, (number as u16).to_be_bytes()),
            0x1_0000..=0xffff_ffff => self.tagged(0xce, (number as u32).to_be_bytes()),
            0x1_0000_0000.. => self.tagged(0xcf, number.to_be_bytes()),
            -32..=-1 => self.out.push(number as u8),
            -0x80..=-33 => self.tagged(0xd0, [number as u8]),
            -0x8000..=-0x81 => self.tagged(0xd1, (number as i16).to_be_bytes()),
            -0x8000_0000..=-0x8001 => self.tagged(0xd2, (number as i32).to_be_bytes()),
            _ => self.tagged(0xd3, number.to_be_bytes()),
        }
    }
}

/// The tags of arrays or maps: up to 15 elements, and a 16-bit count; the tag of a 32-bit count is
/// the next one.
#[derive(Clone, Copy)]
struct Kind {
    small: u8,
    long: u8,
}

const ARRAY: Kind = Kind { small: 0x90, long: 0xdc };
const MAP: Kind = Kind { small: 0x80, long: 0xde };

/// How many keys a table has, and whether they are exactly 1 to n.
fn counted(budget: &mut Budget<'_>, table: &Table) -> Result<(usize, bool)> {
    let mut count = 0;
    let mut max = 0;
    let mut all_places = true;
    for pair in table.pairs::<Value, bool>() {
        count += 1;
        budget.step()?;
        match pair?.0 {
            Value::Integer(place) if (1..=i64::from(i32::MAX)).contains(&place) => {
                max = place.max(max);
            }
            _ => all_places = false,
        }
    }
    Ok((count, all_places && max as usize == count))
}
