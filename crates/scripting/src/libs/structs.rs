//! `struct`: values packed in C's layout, as in Roberto Ierusalimschy's struct 0.2.
//!
//! 1. A format is read once from left to right by `Format`, which tracks byte order, alignment and
//!    sizes; packing, unpacking and measuring differ in what they do with an `Item`.
//! 2. Every size is checked against the available bytes before a byte is touched: a format can ask
//!    for sizes up to 2^31 - 1 (CVE-2018-11219), an offset can be any number (CVE-2018-11218's
//!    kin).
//! 3. Behaviour that C leaves undefined follows gcc on x86-64, where a script can see it: numbers
//!    beyond 64 bits (`truncated`, `unsigned`), integers of more than 8 bytes (`signed`).
//!
//! Tests: tests/libs_answers.rs.

use mlua::{Error, Lua, MultiValue, Number, Result, Table, Value, Variadic};

use super::argument::{Arguments, truncated};
use super::budget::{Budget, no_memory};
use super::{OUTPUT_BYTES_MAX, RESULTS_MAX};
use crate::bridge::LuaBridge;

/// The table of its functions.
pub fn table(lua: &Lua, bridge: &LuaBridge) -> Result<Table> {
    let table = lua.create_table()?;
    let pack = lua.create_function(|lua, values: MultiValue| {
        let bytes = pack(&mut Arguments::new(lua, values))?;
        let budget = Budget::open(lua);
        budget.fits(bytes.len())?;
        lua.create_string(&bytes)
    })?;
    let unpack = lua.create_function(|lua, values: MultiValue| {
        unpack(&Arguments::new(lua, values)).map_err(|error| match error {
            Error::StackError => Error::runtime(TOO_MANY),
            other => other,
        })
    })?;
    table.raw_set("pack", bridge.short("struct.pack", pack)?)?;
    table.raw_set("unpack", bridge.short("struct.unpack", unpack)?)?;
    table.raw_set(
        "size",
        lua.create_function(|lua, values: MultiValue| size(&Arguments::new(lua, values)))?,
    )?;
    Ok(table)
}

const TOO_MANY: &str = "stack overflow (too many results)";
/// The initial capacity, enough for most formats.
const EXPECTED_BYTES: usize = 64;
const INTEGER_BYTES_MAX: usize = 32;
/// The alignment of `!` without a number.
const ALIGNMENT_BYTES: usize = 8;

/// A format, read up to some place.
struct Format<'a> {
    text: &'a [u8],
    at: usize,
    big_endian: bool,
    alignment: usize,
}

/// One letter of a format.
#[derive(Clone, Copy)]
struct Item {
    letter: u8,
    /// Its size in bytes; 0 for items without a fixed size, and for control letters.
    size: usize,
}

impl<'a> Format<'a> {
    fn new(text: &'a [u8]) -> Format<'a> {
        // A C string ends at its first zero.
        let len = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Format { text: &text[..len], at: 0, big_endian: false, alignment: 1 }
    }

    fn next(&mut self) -> Result<Option<Item>> {
        let Some(&letter) = self.text.get(self.at) else { return Ok(None) };
        self.at += 1;
        let size = match letter {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'f' => 4,
            b'l' | b'L' | b'T' | b'd' => 8,
            b'c' => self.count(1)?,
            b'i' | b'I' => {
                let size = self.count(4)?;
                if size > INTEGER_BYTES_MAX {
                    let text =
                        format!("integral size {size} is larger than limit of {INTEGER_BYTES_MAX}");
                    return Err(Error::runtime(text));
                }
                size
            }
            _ => 0,
        };
        Ok(Some(Item { letter, size }))
    }

    /// The number in the format here, or `otherwise`.
    fn count(&mut self, otherwise: usize) -> Result<usize> {
        let digits = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit());
        let mut count = None;
        for digit in digits {
            self.at += 1;
            let sum = count.unwrap_or(0i32).checked_mul(10);
            match sum.and_then(|sum| sum.checked_add(i32::from(digit - b'0'))) {
                Some(sum) => count = Some(sum),
                None => return Err(Error::runtime("integral size overflow")),
            }
        }
        Ok(count.map_or(otherwise, |count| count as usize))
    }

    /// The padding at `position` before `item`. Sizes that are no power of two give the same as the
    /// reference's masks.
    fn padding(&self, position: usize, item: Item) -> usize {
        if item.size == 0 || item.letter == b'c' {
            return 0;
        }
        let size = item.size.min(self.alignment);
        size.wrapping_sub(position & (size - 1)) & (size - 1)
    }

    /// Handles a letter without a value: byte order, alignment, a space, or an error.
    fn control(&mut self, arguments: &Arguments, letter: u8) -> Result<()> {
        match letter {
            b' ' => {}
            b'>' => self.big_endian = true,
            b'<' => self.big_endian = false,
            b'!' => {
                let alignment = self.count(ALIGNMENT_BYTES)?;
                if !alignment.is_power_of_two() {
                    let text = format!("alignment {alignment} is not a power of 2");
                    return Err(Error::runtime(text));
                }
                self.alignment = alignment;
            }
            _ => {
                let text = format!("invalid format option '{}'", char::from(letter));
                return Err(arguments.bad(1, &text));
            }
        }
        Ok(())
    }
}

fn pack(arguments: &mut Arguments) -> Result<Vec<u8>> {
    let text = arguments.bytes(1)?;
    // The reference finds its own mark in place of a missing argument, and calls it nil.
    arguments.push_nil();
    let mut format = Format::new(&text);
    let mut budget = Budget::open(arguments.lua);
    let mut out = Vec::with_capacity(EXPECTED_BYTES);
    let mut place = 2;
    while let Some(item) = format.next()? {
        budget.step()?;
        out.resize(out.len() + format.padding(out.len(), item), 0);
        match item.letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                push_integer(&mut out, arguments.number(place)?, item.size, format.big_endian);
                place += 1;
            }
            b'x' => out.push(0),
            b'f' => {
                let number = arguments.number(place)? as f32;
                push_ordered(&mut out, number.to_le_bytes(), format.big_endian);
                place += 1;
            }
            b'd' => {
                let number = arguments.number(place)?;
                push_ordered(&mut out, number.to_le_bytes(), format.big_endian);
                place += 1;
            }
            b'c' | b's' => {
                let bytes = arguments.bytes(place)?;
                place += 1;
                let size = if item.size == 0 { bytes.len() } else { item.size };
                let Some(bytes) = bytes.get(..size) else {
                    // The reference has already advanced its counter.
                    return Err(arguments.bad(place, "string too short"));
                };
                budget.bytes(bytes.len())?;
                out.extend_from_slice(bytes);
                if item.letter == b's' {
                    out.push(0);
                }
            }
            letter => format.control(arguments, letter)?,
        }
        if out.len() > OUTPUT_BYTES_MAX {
            return Err(no_memory());
        }
    }
    Ok(out)
}

fn push_integer(out: &mut Vec<u8>, number: f64, size: usize, big_endian: bool) {
    let mut bytes = [0; INTEGER_BYTES_MAX];
    let value = if number < 0.0 { truncated(number) as u64 } else { unsigned(number) };
    bytes[..8].copy_from_slice(&value.to_le_bytes());
    let bytes = &mut bytes[..size];
    if big_endian {
        bytes.reverse();
    }
    out.extend_from_slice(bytes);
}

fn push_ordered<const N: usize>(out: &mut Vec<u8>, mut little: [u8; N], big_endian: bool) {
    if big_endian {
        little.reverse();
    }
    out.extend_from_slice(&little);
}

/// A double that is not negative, as an unsigned integer.
fn unsigned(number: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    if number >= HALF {
        truncated(number - HALF) as u64 ^ 1 << 63
    } else {
        truncated(number) as u64
    }
}

/// The unpacked values, or the text of an error.
fn unpack(arguments: &Arguments) -> Result<Variadic<Value>> {
    let lua = arguments.lua;
    let text = arguments.bytes(1)?;
    let data = arguments.bytes(2)?;
    let start = arguments.integer_or(3, 1)? as usize;
    if start == 0 {
        return Err(arguments.bad(3, "offset must be 1 or greater"));
    }
    let results_max = RESULTS_MAX.saturating_sub(arguments.count() + 2);
    let too_short = || arguments.bad(2, "data string too short");
    let mut budget = Budget::open(lua);
    let mut format = Format::new(&text);
    let mut position = start - 1;
    let mut found: Vec<Value> = Vec::new();
    while let Some(item) = format.next()? {
        position = position.wrapping_add(format.padding(position, item));
        let rest = data.get(position..).ok_or_else(too_short)?;
        let bytes = rest.get(..item.size).ok_or_else(too_short)?;
        if found.len() > results_max {
            return Err(Error::runtime(TOO_MANY));
        }
        budget.step()?;
        budget.bytes(item.size)?;
        let mut size = item.size;
        match item.letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                found.push(Value::Number(integer(item, bytes, format.big_endian)));
            }
            b'x' => {}
            b'f' => {
                let number = f32::from_le_bytes(ordered(bytes, format.big_endian));
                found.push(Value::Number(f64::from(number)));
            }
            b'd' => {
                let number = f64::from_le_bytes(ordered(bytes, format.big_endian));
                found.push(Value::Number(number));
            }
            b'c' => {
                let mut bytes = bytes;
                if size == 0 {
                    size = previous_size(lua, &mut found)?;
                    bytes = rest.get(..size).ok_or_else(too_short)?;
                }
                found.push(Value::String(lua.create_string(bytes)?));
            }
            b's' => {
                let Some(len) = rest.iter().position(|byte| *byte == 0) else {
                    return Err(Error::runtime("unfinished string in data"));
                };
                size = len + 1;
                budget.bytes(size)?;
                found.push(Value::String(lua.create_string(&rest[..len])?));
            }
            letter => format.control(arguments, letter)?,
        }
        position += size;
    }
    found.push(Value::Number((position as i64).wrapping_add(1) as Number));
    Ok(Variadic::from(found))
}

/// `c0`: the previous number is the string's size.
fn previous_size(lua: &Lua, found: &mut Vec<Value>) -> Result<usize> {
    let size = match found.pop() {
        Some(value) => lua.coerce_number(value)?,
        None => None,
    };
    match size {
        Some(size) if size < 0.0 => Ok(truncated(size) as usize),
        Some(size) => Ok(unsigned(size) as usize),
        None => Err(Error::runtime("format 'c0' needs a previous size")),
    }
}

fn ordered<const N: usize>(bytes: &[u8], big_endian: bool) -> [u8; N] {
    let mut little = [0; N];
    little.copy_from_slice(&bytes[..N]);
    if big_endian {
        little.reverse();
    }
    little
}

fn integer(item: Item, bytes: &[u8], big_endian: bool) -> f64 {
    let shifted = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    let value = if big_endian {
        bytes.iter().fold(0, shifted)
    } else {
        bytes.iter().rev().fold(0, shifted)
    };
    if item.letter.is_ascii_lowercase() { signed(value, item.size) } else { value as f64 }
}

/// Sign-extends an integer of `size` bytes. The shift wraps as the machine's does.
fn signed(value: u64, size: usize) -> f64 {
    let mask = u64::MAX.wrapping_shl((size as u32 * 8).wrapping_sub(1));
    let value = if value & mask != 0 { value | mask } else { value };
    value as i64 as f64
}

fn size(arguments: &Arguments) -> Result<Number> {
    let text = arguments.bytes(1)?;
    let mut format = Format::new(&text);
    let mut budget = Budget::open(arguments.lua);
    let mut position = 0usize;
    while let Some(item) = format.next()? {
        budget.step()?;
        position = position.wrapping_add(format.padding(position, item));
        if item.letter == b's' {
            return Err(arguments.bad(1, "option 's' has no fixed size"));
        }
        if item.letter == b'c' && item.size == 0 {
            return Err(arguments.bad(1, "option 'c0' has no fixed size"));
        }
        if !item.letter.is_ascii_alphanumeric() {
            format.control(arguments, item.letter)?;
        }
        position = position.wrapping_add(item.size);
    }
    Ok(position as i64 as Number)
}
