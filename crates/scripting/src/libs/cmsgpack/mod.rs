//! `cmsgpack`: MessagePack, as in lua-cmsgpack 0.4.0 with the changes of Redis and Valkey.
//!
//! - `pack`: values to bytes;  - `unpack`: bytes to values;  - this file: the table.
//!
//! Not here: `cmsgpack_safe`, which the reference does not offer. Tests: tests/libs_answers.rs.

mod pack;
mod unpack;

use mlua::{Error, Lua, MultiValue, Result, Table, Value, Variadic};

use super::argument::Arguments;
use super::budget::Budget;
use crate::bridge::LuaBridge;

/// The table of its functions.
pub fn table(lua: &Lua, bridge: &LuaBridge) -> Result<Table> {
    let table = lua.create_table()?;
    let set = |name: &str, function: fn(&Arguments) -> Result<Variadic<Value>>| {
        let function = lua.create_function(move |lua, values: MultiValue| {
            function(&Arguments::new(lua, values)).map_err(|error| match error {
                Error::StackError => Error::runtime(unpack::TOO_MANY),
                other => other,
            })
        })?;
        table.raw_set(name, function)
    };
    set("pack", pack)?;
    set("unpack", |arguments| unpack(arguments, 0, 0))?;
    for (name, whole) in [("pack", "cmsgpack.pack"), ("unpack", "cmsgpack.unpack")] {
        table.raw_set(name, bridge.short(whole, table.raw_get(name)?)?)?;
    }
    set("unpack_one", |arguments| unpack(arguments, 1, arguments.integer_or(2, 0)?))?;
    set("unpack_limit", |arguments| {
        let limit = arguments.integer(2)?;
        unpack(arguments, limit, arguments.integer_or(3, 0)?)
    })?;
    table.raw_set("_NAME", "cmsgpack")?;
    table.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    table.raw_set("_COPYRIGHT", "Copyright (C) 2012, Redis Ltd.")?;
    table.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    Ok(table)
}

fn pack(arguments: &Arguments) -> Result<Variadic<Value>> {
    if arguments.count() == 0 {
        return Err(arguments.bad(0, "MessagePack pack needs input."));
    }
    let lua = arguments.lua;
    let values = (1..=arguments.count()).filter_map(|place| arguments.get(place));
    let bytes = pack::pack(lua, values)?;
    Budget::open(lua).fits(bytes.len())?;
    Ok([Value::String(lua.create_string(&bytes)?)].into_iter().collect())
}

/// At most `limit` values from `offset` on, after the offset of the next (-1: there is none); all
/// of them, without that offset, if both are 0.
fn unpack(arguments: &Arguments, limit: i64, offset: i64) -> Result<Variadic<Value>> {
    let lua = arguments.lua;
    let bytes = arguments.bytes(1)?;
    let len = bytes.len();
    if offset < 0 || limit < 0 {
        // The reference's error shows the length in place of the limit; both truncated to C's ints.
        let (offset, len) = (offset as i32, len as i32);
        let text = format!("Invalid request to unpack with offset of {offset} and limit of {len}.");
        return Err(Error::runtime(text));
    }
    let Some(rest) = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)) else {
        let text =
            format!("Start offset {} greater than input length {}.", offset as i32, len as i32);
        return Err(Error::runtime(text));
    };
    let all = limit == 0 && offset == 0;
    let limit = if all { i64::from(i32::MAX) } else { limit };
    let mut values = Vec::new();
    if !all {
        values.push(Value::Integer(-1));
    }
    let left = match unpack::unpack(lua, rest, limit, &mut values) {
        Ok(left) => left,
        Err(unpack::UnpackStop::Lua(error)) => return Err(error),
        Err(unpack::UnpackStop::Mistake(text)) => return Err(Error::runtime(text)),
        // Lua itself reports this, without a place.
        Err(unpack::UnpackStop::Key(text)) => return Err(Error::RuntimeError(text.into())),
    };
    if !all && left > 0 {
        values[0] = Value::Integer((len - left) as i64);
    }
    Ok(Variadic::from(values))
}
