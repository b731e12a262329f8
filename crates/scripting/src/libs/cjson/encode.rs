//! Values to JSON text.
//!
//! A table is an array if all its keys are integers from 1 on, otherwise an object. The reference
//! visits each table twice to find out. Here once is mostly enough (`Optimistic`): a table whose
//! first key is 1 is assumed to have the keys 1, 2, 3... in order, one whose first key is a name to
//! be an object. If that is wrong, the output of the table is removed and the table is visited
//! twice. A value that is invalid or nested too deeply is found by starting again without
//! assumptions (`SlowEncoder`).
//!
//! 1. The order of an object's members is that of Lua's `next`, as everywhere.
//! 2. Only `SlowEncoder` makes errors: the reference's, and of several the same one.
//! 3. `Optimistic` recurses and nests protected calls, of which Lua allows 200 in all: at most
//!    `OPTIMISTIC_NESTING_MAX` deep. `SlowEncoder` does neither.
//! 4. Removed output is at most `WASTE_BYTES` more than twice the kept output: otherwise nested
//!    tables whose guess turns out wrong late would be written again and again.
//!
//! Tests: tests/libs_answers.rs, tests/libs_limits.rs.

use mlua::{Error, FromLua, Function, Lua, Result, Table, Value};
use pantala_base::number::{push_general, push_i64};

use super::{Invalid, Settings};
use crate::libs::argument::type_name;
use crate::libs::budget::{Budget, TABLE_WORK, no_memory};
use crate::libs::{NESTING_MAX, OUTPUT_BYTES_MAX};

const OPTIMISTIC_NESTING_MAX: usize = 32;
const WASTE_BYTES: usize = 64 << 10;

/// Appends `value` as JSON. `next` is Lua's.
pub(super) fn encode(
    lua: &Lua,
    next: &Function,
    value: &Value,
    settings: &Settings,
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut budget = Budget::open(lua);
    if (Optimistic { budget: &mut budget, settings, out, wasted_bytes: 0 }).value(value, 0).is_ok()
    {
        return Ok(());
    }
    out.clear();
    // The attempt may have failed because the script must end.
    budget.look()?;
    SlowEncoder { budget, next, settings, out }.value(value.clone())
}

/// Appends a value other than a table. `false`: nothing was appended, JSON has no such value.
#[inline]
fn push_scalar(out: &mut Vec<u8>, value: &Value, settings: &Settings) -> bool {
    match value {
        Value::String(text) => push_string(out, &text.as_bytes()),
        Value::Integer(number) => return push_integer(out, *number, settings),
        Value::Number(number) => return push_number(out, *number, settings),
        Value::Boolean(true) => out.extend_from_slice(b"true"),
        Value::Boolean(false) => out.extend_from_slice(b"false"),
        Value::Nil => out.extend_from_slice(b"null"),
        Value::LightUserData(pointer) if pointer.0.is_null() => out.extend_from_slice(b"null"),
        _ => return false,
    }
    true
}

#[inline]
fn push_integer(out: &mut Vec<u8>, number: i64, settings: &Settings) -> bool {
    if number.unsigned_abs() < 100_000_000_000_000 && settings.precision == super::PRECISION_MAX {
        push_i64(out, number);
        return true;
    }
    push_number(out, number as f64, settings)
}

fn push_number(out: &mut Vec<u8>, number: f64, settings: &Settings) -> bool {
    if !number.is_finite() {
        match settings.encode_invalid {
            Invalid::Refused => return false,
            Invalid::Null => out.extend_from_slice(b"null"),
            Invalid::Written if number.is_nan() => out.extend_from_slice(b"nan"),
            Invalid::Written => push_general(out, number, 1),
        }
        return true;
    }
    push_general(out, number, settings.precision as usize);
    true
}

/// The escape of a byte: 0 for none, `u` for its number, else a backslash and this letter.
static ESCAPES: [u8; 256] = escapes();

const fn escapes() -> [u8; 256] {
    let mut escapes = [0; 256];
    let mut control = 0;
    while control < 0x20 {
        escapes[control] = b'u';
        control += 1;
    }
    escapes[0x7f] = b'u';
    escapes[0x08] = b'b';
    escapes[b'\t' as usize] = b't';
    escapes[b'\n' as usize] = b'n';
    escapes[0x0c] = b'f';
    escapes[b'\r' as usize] = b'r';
    escapes[b'"' as usize] = b'"';
    escapes[b'\\' as usize] = b'\\';
    escapes[b'/' as usize] = b'/';
    escapes
}

/// How many bytes are scanned together.
const CHUNK_BYTES: usize = 16;

fn push_string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let (chunks, rest) = bytes.as_chunks::<CHUNK_BYTES>();
    for chunk in chunks {
        // Without branches, so that the compiler compares all bytes at once.
        let escapes = chunk.iter().fold(0, |any, byte| {
            let quote = u8::from(*byte == b'"') | u8::from(*byte == b'/');
            let other = u8::from(*byte == b'\\') | u8::from(*byte == 0x7f);
            any | u8::from(*byte < 0x20) | quote | other
        });
        if escapes != 0 {
            push_escaped(out, chunk);
        } else {
            out.extend_from_slice(chunk);
        }
    }
    push_escaped(out, rest);
    out.push(b'"');
}

fn push_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        match ESCAPES[usize::from(*byte)] {
            0 => out.push(*byte),
            b'u' => {
                let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
                out.extend_from_slice(&[
                    b'\\',
                    b'u',
                    b'0',
                    b'0',
                    digit(byte >> 4),
                    digit(byte & 15),
                ]);
            }
            letter => out.extend_from_slice(&[b'\\', letter]),
        }
    }
}

/// Appends a member's name and the colon. `false`: it cannot be a name.
fn push_key(out: &mut Vec<u8>, key: &Value, settings: &Settings) -> bool {
    match key {
        Value::String(text) => push_string(out, &text.as_bytes()),
        Value::Integer(_) | Value::Number(_) => {
            out.push(b'"');
            if !push_scalar(out, key, settings) {
                return false;
            }
            out.push(b'"');
        }
        _ => return false,
    }
    out.push(b':');
    true
}

/// The optimistic attempt cannot write this.
struct FastPathMiss;

type Attempt = std::result::Result<(), FastPathMiss>;

struct Optimistic<'a, 'l> {
    budget: &'a mut Budget<'l>,
    settings: &'a Settings,
    out: &'a mut Vec<u8>,
    /// Bytes that were written and removed.
    wasted_bytes: usize,
}

/// The shape of a table, as far as known while it is written.
enum Shape {
    Unknown,
    /// The key that must come next.
    Array(i64),
    Object,
    /// Not an array in order, and not known to be an object.
    Unclear,
}

impl Optimistic<'_, '_> {
    fn value(&mut self, value: &Value, depth: usize) -> Attempt {
        let worked = match value {
            Value::Table(table) => return self.table(table, depth + 1),
            Value::String(text) => self.budget.bytes(text.as_bytes().len()),
            _ => Ok(()),
        };
        worked.and_then(|()| self.budget.step()).map_err(|_| FastPathMiss)?;
        if push_scalar(self.out, value, self.settings) { Ok(()) } else { Err(FastPathMiss) }
    }

    fn table(&mut self, table: &Table, depth: usize) -> Attempt {
        let depth_max = OPTIMISTIC_NESTING_MAX.min(self.settings.encode_max_depth as usize);
        let start = self.out.len();
        let may_go_on = self.budget.work(TABLE_WORK).is_ok();
        if depth > depth_max || start > OUTPUT_BYTES_MAX || !may_go_on {
            return Err(FastPathMiss);
        }
        let mut shape = Shape::Unknown;
        let walked = walk(table, |key, value| self.member(&mut shape, &key, &value, depth));
        match (walked, shape) {
            (Ok(()), Shape::Unknown) => self.out.extend_from_slice(b"{}"),
            (Ok(()), Shape::Array(_)) => self.out.push(b']'),
            (Ok(()), _) => self.out.push(b'}'),
            (Err(_), Shape::Unclear) => {
                self.wasted_bytes += self.out.len() - start;
                self.out.truncate(start);
                if self.wasted_bytes > 2 * start + WASTE_BYTES {
                    return Err(FastPathMiss);
                }
                return self.unclear(table, depth);
            }
            (Err(_), _) => return Err(FastPathMiss),
        }
        Ok(())
    }

    #[inline]
    fn member(&mut self, shape: &mut Shape, key: &Value, value: &Value, depth: usize) -> Attempt {
        match (&mut *shape, key) {
            (Shape::Array(next), Value::Integer(place)) if place == next => {
                *next += 1;
                self.out.push(b',');
            }
            (Shape::Unknown, Value::Integer(1)) => {
                *shape = Shape::Array(2);
                self.out.push(b'[');
            }
            (Shape::Unknown, Value::String(key)) => {
                *shape = Shape::Object;
                self.out.push(b'{');
                push_string(self.out, &key.as_bytes());
                self.out.push(b':');
            }
            (Shape::Object, _) => {
                self.out.push(b',');
                if !push_key(self.out, key, self.settings) {
                    return Err(FastPathMiss);
                }
            }
            _ => {
                *shape = Shape::Unclear;
                return Err(FastPathMiss);
            }
        }
        self.value(value, depth)
    }

    /// The reference's way: first all keys, then the values.
    fn unclear(&mut self, table: &Table, depth: usize) -> Attempt {
        let mut keys = Keys::default();
        let budget = &mut *self.budget;
        let _ = walk(table, |key, _: bool| match keys.see(&key) && budget.step().is_ok() {
            true => Ok(()),
            false => Err(FastPathMiss),
        });
        match keys.array_len(self.settings) {
            Len::Array(len) => {
                for place in 1..=len {
                    self.out.push(if place == 1 { b'[' } else { b',' });
                    self.value(&table.raw_get(place).map_err(|_| FastPathMiss)?, depth)?;
                    if self.out.len() > OUTPUT_BYTES_MAX {
                        return Err(FastPathMiss);
                    }
                }
                self.out.push(b']');
            }
            Len::Object => {
                let mut shape = Shape::Object;
                let start = self.out.len();
                walk(table, |key, value| self.member(&mut shape, &key, &value, depth))?;
                // A comma is where the brace must be.
                self.out[start] = b'{';
                self.out.push(b'}');
            }
            Len::Sparse | Len::TooLong => return Err(FastPathMiss),
        }
        Ok(())
    }
}

/// Calls `visit` for each pair of the table until it returns an error.
fn walk<V: FromLua>(table: &Table, mut visit: impl FnMut(Value, V) -> Attempt) -> Attempt {
    // Any error ends the iteration; this one costs nothing.
    table
        .for_each(|key: Value, value: V| visit(key, value).map_err(|_| Error::StackError))
        .map_err(|_| FastPathMiss)
}

/// What is known of a table's keys, in C's ints as in the reference.
#[derive(Default)]
struct Keys {
    max: i32,
    count: i32,
    has_other: bool,
}

enum Len {
    Array(i32),
    Object,
    Sparse,
    /// An array whose holes alone would exceed the limit.
    TooLong,
}

impl Keys {
    /// Whether the keys seen so far may be those of an array.
    fn see(&mut self, key: &Value) -> bool {
        let key = match key {
            Value::Integer(key) => *key as f64,
            Value::Number(key) => *key,
            _ => f64::NAN,
        };
        self.has_other = key.floor() != key || key < 1.0;
        if key > f64::from(self.max) {
            self.max = if key > f64::from(i32::MAX) { i32::MIN } else { key as i32 };
        }
        self.count = self.count.wrapping_add(1);
        !self.has_other
    }

    /// Bytes of "null," for the missing elements.
    fn holes_len(&self) -> usize {
        usize::try_from(self.max.saturating_sub(self.count)).unwrap_or(0) * b"null,".len()
    }

    fn array_len(&self, settings: &Settings) -> Len {
        let sparse = settings.sparse_ratio > 0
            && self.max > self.count.wrapping_mul(settings.sparse_ratio)
            && self.max > settings.sparse_safe;
        match self.has_other {
            true => Len::Object,
            false if sparse && settings.sparse_convert => Len::Object,
            false if sparse => Len::Sparse,
            false if self.holes_len() > OUTPUT_BYTES_MAX => Len::TooLong,
            false if self.max > 0 => Len::Array(self.max),
            false => Len::Object,
        }
    }
}

/// Writes every value, and reports errors. Slow: each step is a call of Lua's `next`.
struct SlowEncoder<'a> {
    budget: Budget<'a>,
    next: &'a Function,
    settings: &'a Settings,
    out: &'a mut Vec<u8>,
}

/// A table being written.
struct Open {
    table: Table,
    place: Place,
}

enum Place {
    /// The element written last, and how many there are.
    Array(i32, i32),
    /// The key written last.
    Object(Value),
}

impl SlowEncoder<'_> {
    fn value(&mut self, value: Value) -> Result<()> {
        let mut open = Vec::new();
        self.begin(value, &mut open)?;
        while let Some(top) = open.last_mut() {
            if self.out.len() > OUTPUT_BYTES_MAX {
                return Err(no_memory());
            }
            match self.step(top)? {
                Some(value) => self.begin(value, &mut open)?,
                None => drop(open.pop()),
            }
        }
        Ok(())
    }

    /// Appends a value, or the start of a table.
    fn begin(&mut self, value: Value, open: &mut Vec<Open>) -> Result<()> {
        if let Value::String(text) = &value {
            self.budget.bytes(text.as_bytes().len())?;
        }
        let Value::Table(table) = value else {
            return match push_scalar(self.out, &value, self.settings) {
                true => Ok(()),
                false => Err(self.refused(&value)),
            };
        };
        let depth = open.len() + 1;
        if depth > NESTING_MAX.min(self.settings.encode_max_depth as usize) {
            let text = format!("Cannot serialise, excessive nesting ({depth})");
            return Err(Error::runtime(text));
        }
        self.budget.work(TABLE_WORK)?;
        let mut keys = Keys::default();
        for pair in table.pairs::<Value, bool>() {
            self.budget.step()?;
            if !keys.see(&pair?.0) {
                break;
            }
        }
        let place = match keys.array_len(self.settings) {
            Len::Array(len) => Place::Array(0, len),
            Len::Object => Place::Object(Value::Nil),
            Len::TooLong => return Err(no_memory()),
            Len::Sparse => {
                let text = "Cannot serialise table: excessively sparse array";
                return Err(Error::runtime(text));
            }
        };
        self.out.push(if matches!(place, Place::Array(..)) { b'[' } else { b'{' });
        open.push(Open { table, place });
        Ok(())
    }

    /// Continues a table: returns the next value to be written. `None`: the table is complete.
    fn step(&mut self, open: &mut Open) -> Result<Option<Value>> {
        self.budget.step()?;
        match &mut open.place {
            Place::Array(place, len) if place == len => {
                self.out.push(b']');
                Ok(None)
            }
            Place::Array(place, _) => {
                if *place > 0 {
                    self.out.push(b',');
                }
                *place += 1;
                open.table.raw_get(*place).map(Some)
            }
            Place::Object(key) => {
                let is_first = key.is_nil();
                let (next, value) = self.next.call::<(Value, Value)>((&open.table, &*key))?;
                if next.is_nil() {
                    self.out.push(b'}');
                    return Ok(None);
                }
                if !is_first {
                    self.out.push(b',');
                }
                if !push_key(self.out, &next, self.settings) {
                    return Err(self.refused_key(&next));
                }
                *key = next;
                Ok(Some(value))
            }
        }
    }

    fn refused_key(&self, key: &Value) -> Error {
        match key {
            Value::Number(_) => self.refused(key),
            _ => {
                let kind = type_name(key);
                let text = format!("Cannot serialise {kind}: table key must be a number or string");
                Error::runtime(text)
            }
        }
    }

    fn refused(&self, value: &Value) -> Error {
        let kind = type_name(value);
        let why = if kind == "number" { "must not be NaN or Inf" } else { "type not supported" };
        Error::runtime(format!("Cannot serialise {kind}: {why}"))
    }
}
