//! `bit`: operations on 32-bit integers, as in LuaBitOp 1.0.2. All but `tohex` are in lpantala.c:
//! the way into Rust would take six times as long as the operation.
//!
//! 1. An argument is a number or a string that spells one, taken modulo 2^32 after rounding to the
//!    nearest whole number, ties to even; results are signed.
//! 2. Of several wrong arguments the first is named, then the last before the others: the order in
//!    which the reference looks at them.
//!
//! Tests: tests/libs_answers.rs.

use mlua::{Lua, MultiValue, Result, Table, Value};

use super::argument::Arguments;
use crate::door::Door;

/// The table of its functions.
pub fn table(lua: &Lua, door: &Door) -> Result<Table> {
    let tohex = lua.create_function(|lua, values: MultiValue| {
        let (text, len) = hex(&Arguments::new(lua, values))?;
        lua.create_string(&text[..len])
    })?;
    door.bit.raw_set("tohex", tohex)?;
    Ok(door.bit.clone())
}

/// The argument at `place` as 32 bits.
fn word(arguments: &Arguments, place: usize) -> Result<i32> {
    let number = match arguments.get(place) {
        Some(Value::Integer(number)) => *number as f64,
        Some(Value::Number(number)) => *number,
        _ => arguments.number(place)?,
    };
    // With 2^52 + 2^51 added, the lowest bit of the fraction counts ones.
    Ok((number + 6_755_399_441_055_744.0).to_bits() as i32)
}

const HEX_DIGITS_MAX: usize = 8;

/// The last digits of the first argument, as many as the second says, in capitals when that is
/// negative; their count. Any count is allowed, the least number of all, too.
fn hex(arguments: &Arguments) -> Result<([u8; HEX_DIGITS_MAX], usize)> {
    let mut word = word(arguments, 1)? as u32;
    let count = match arguments.get(2) {
        None => HEX_DIGITS_MAX as i32,
        Some(_) => self::word(arguments, 2)?,
    };
    let digits = if count < 0 { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    let len = (count.unsigned_abs() as usize).min(HEX_DIGITS_MAX);
    let mut text = [b'0'; HEX_DIGITS_MAX];
    for place in text[..len].iter_mut().rev() {
        *place = digits[word as usize & 15];
        word >>= 4;
    }
    Ok((text, len))
}
