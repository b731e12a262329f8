//! `cjson`: JSON, as in lua-cjson 2.1.0 with the changes of Redis and Valkey.
//!
//! - `encode`: values to text;  - `decode`: text to values;
//! - `number`: the texts that C's `strtod` takes for numbers;
//! - this file: the table, and the settings that scripts may change.
//!
//! 1. Each table has its own settings: `cjson.new()` makes another. Changes last until
//!    `forget_settings`, which only the VM's own table needs.
//! 2. JSON's null is the light userdata NULL, `cjson.null`.
//!
//! Tests: tests/libs_answers.rs.

mod decode;
mod encode;
mod number;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use mlua::{Function, Lua, MultiValue, Result, Table, Value};

use super::argument::Arguments;
use super::budget::Budget;
use crate::bridge::LuaBridge;

/// The settings of a table's functions. Sizes and depths are C ints, as scripts set them.
#[derive(Clone, Copy)]
struct Settings {
    sparse_convert: bool,
    sparse_ratio: i32,
    sparse_safe: i32,
    encode_max_depth: i32,
    decode_max_depth: i32,
    encode_invalid: Invalid,
    decode_invalid: bool,
    precision: i32,
    /// Without effect: the buffer is kept while it is small.
    keep_buffer: bool,
}

const DEFAULT: Settings = Settings {
    sparse_convert: false,
    sparse_ratio: 2,
    sparse_safe: 10,
    encode_max_depth: 1_000,
    decode_max_depth: 1_000,
    encode_invalid: Invalid::Refused,
    decode_invalid: true,
    precision: PRECISION_MAX,
    keep_buffer: true,
};

const PRECISION_MAX: i32 = 14;

/// The handling of NaN and the infinities, which JSON lacks.
#[derive(Clone, Copy, PartialEq)]
enum Invalid {
    Refused,
    Written,
    Null,
}

/// The largest buffer for text that is kept between calls.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// The state shared by the functions of one table.
#[derive(Clone)]
struct Shared {
    settings: Rc<Cell<Settings>>,
    buffer: Rc<RefCell<Vec<u8>>>,
    /// Lua's `next`.
    next: Function,
    /// Reports that a setting has changed.
    jsonset: Function,
}

thread_local! {
    /// Whether the current run of this thread has changed a setting: nearly none does.
    static CHANGED: Cell<bool> = const { Cell::new(false) };
}

/// The settings of the VM's own table.
struct VmSettings(Rc<Cell<Settings>>);

/// The table of its functions.
pub fn table(lua: &Lua, bridge: &LuaBridge) -> Result<Table> {
    let shared = Shared::new(lua.globals().get("next")?, bridge.jsonset());
    lua.set_app_data(VmSettings(shared.settings.clone()));
    let table = table_of(lua, shared)?;
    // As long as no setting is changed; the tables of `cjson.new()` have no fast path.
    for (name, whole) in [("encode", "cjson.encode"), ("decode", "cjson.decode")] {
        table.raw_set(name, bridge.short(whole, table.raw_get(name)?)?)?;
    }
    Ok(table)
}

/// Resets the settings of the VM's own table: otherwise the next script on this thread would see
/// the changes, and those on other threads would not.
pub fn forget_settings(lua: &Lua) {
    if CHANGED.take()
        && let Some(settings) = lua.app_data_ref::<VmSettings>()
    {
        settings.0.set(DEFAULT);
    }
}

impl Shared {
    fn new(next: Function, jsonset: Function) -> Shared {
        let settings = Rc::new(Cell::new(DEFAULT));
        Shared { settings, buffer: Rc::new(RefCell::new(Vec::new())), next, jsonset }
    }
}

fn table_of(lua: &Lua, shared: Shared) -> Result<Table> {
    let table = lua.create_table()?;
    let encoder = shared.clone();
    table.raw_set(
        "encode",
        lua.create_function(move |lua, values| encode(&Arguments::new(lua, values), &encoder))?,
    )?;
    let decoder = shared.settings.clone();
    table.raw_set(
        "decode",
        lua.create_function(move |lua, values| decode(&Arguments::new(lua, values), &decoder))?,
    )?;
    let setting = |name: &str, set: Setter| {
        let (settings, jsonset) = (shared.settings.clone(), shared.jsonset.clone());
        let function = lua.create_function(move |lua, values: MultiValue| {
            let mut changed = settings.get();
            let result = set(&Arguments::new(lua, values), &mut changed);
            // Settings before an invalid argument take effect all the same.
            settings.set(changed);
            CHANGED.set(true);
            jsonset.call::<()>(())?;
            result
        })?;
        table.raw_set(name, function)
    };
    setting("encode_sparse_array", sparse_array)?;
    setting("encode_max_depth", |arguments, settings| {
        at_most(arguments, 1)?;
        Ok(one(number(arguments, 1, &mut settings.encode_max_depth, 1, i32::MAX)?))
    })?;
    setting("decode_max_depth", |arguments, settings| {
        at_most(arguments, 1)?;
        Ok(one(number(arguments, 1, &mut settings.decode_max_depth, 1, i32::MAX)?))
    })?;
    setting("encode_number_precision", |arguments, settings| {
        at_most(arguments, 1)?;
        Ok(one(number(arguments, 1, &mut settings.precision, 1, PRECISION_MAX)?))
    })?;
    setting("encode_keep_buffer", |arguments, settings| {
        at_most(arguments, 1)?;
        Ok(one(switch(arguments, &mut settings.keep_buffer)?))
    })?;
    setting("decode_invalid_numbers", |arguments, settings| {
        at_most(arguments, 1)?;
        Ok(one(switch(arguments, &mut settings.decode_invalid)?))
    })?;
    setting("encode_invalid_numbers", invalid_numbers)?;
    table.raw_set(
        "new",
        lua.create_function(move |lua, _: MultiValue| {
            table_of(lua, Shared::new(shared.next.clone(), shared.jsonset.clone()))
        })?,
    )?;
    table.raw_set("null", Value::NULL)?;
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    Ok(table)
}

fn encode(arguments: &Arguments, shared: &Shared) -> Result<Value> {
    let Some(value) = arguments.get(1).filter(|_| arguments.count() == 1) else {
        return Err(arguments.bad(1, "expected 1 argument"));
    };
    let lua = arguments.lua;
    let mut buffer = shared.buffer.take();
    buffer.clear();
    let text = encode::encode(lua, &shared.next, value, &shared.settings.get(), &mut buffer)
        .and_then(|()| {
            Budget::open(lua).fits(buffer.len())?;
            lua.create_string(&buffer)
        });
    if buffer.capacity() <= KEPT_BYTES_MAX {
        shared.buffer.replace(buffer);
    }
    text.map(Value::String)
}

fn decode(arguments: &Arguments, settings: &Cell<Settings>) -> Result<Value> {
    if arguments.count() != 1 {
        return Err(arguments.bad(1, "expected 1 argument"));
    }
    let text = arguments.bytes(1)?;
    decode::decode(arguments.lua, &text, &settings.get())
}

type Setter = fn(&Arguments, &mut Settings) -> Result<MultiValue>;

fn one(value: Value) -> MultiValue {
    [value].into_iter().collect()
}

fn at_most(arguments: &Arguments, count: usize) -> Result<()> {
    if arguments.count() > count {
        return Err(arguments.bad(count + 1, "found too many arguments"));
    }
    Ok(())
}

fn sparse_array(arguments: &Arguments, settings: &mut Settings) -> Result<MultiValue> {
    at_most(arguments, 3)?;
    let convert = switch(arguments, &mut settings.sparse_convert)?;
    let ratio = number(arguments, 2, &mut settings.sparse_ratio, 0, i32::MAX)?;
    let safe = number(arguments, 3, &mut settings.sparse_safe, 0, i32::MAX)?;
    Ok([convert, ratio, safe].into_iter().collect())
}

/// Sets a number if one is given, and returns the current one.
fn number(
    arguments: &Arguments,
    place: usize,
    setting: &mut i32,
    min: i32,
    max: i32,
) -> Result<Value> {
    if !arguments.is_nil(place) {
        // A C int: the upper half is lost.
        let value = arguments.integer(place)? as i32;
        if value < min || value > max {
            let text = format!("expected integer between {min} and {max}");
            return Err(arguments.bad(1, &text));
        }
        *setting = value;
    }
    Ok(Value::Integer((*setting).into()))
}

/// Sets a switch if the first argument is true, false, "on" or "off", and returns the current one.
fn switch(arguments: &Arguments, setting: &mut bool) -> Result<Value> {
    match arguments.get(1) {
        None | Some(Value::Nil) => {}
        Some(Value::Boolean(on)) => *setting = *on,
        Some(_) => *setting = option(arguments, &["off", "on"])? == 1,
    }
    Ok(Value::Boolean(*setting))
}

fn invalid_numbers(arguments: &Arguments, settings: &mut Settings) -> Result<MultiValue> {
    at_most(arguments, 1)?;
    let chosen = match arguments.get(1) {
        None | Some(Value::Nil) => None,
        Some(Value::Boolean(on)) => Some(usize::from(*on)),
        Some(_) => Some(option(arguments, &["off", "on", "null"])?),
    };
    match chosen {
        Some(0) => settings.encode_invalid = Invalid::Refused,
        Some(1) => settings.encode_invalid = Invalid::Written,
        Some(_) => settings.encode_invalid = Invalid::Null,
        None => {}
    }
    Ok(one(match settings.encode_invalid {
        Invalid::Refused => Value::Boolean(false),
        Invalid::Written => Value::Boolean(true),
        Invalid::Null => Value::String(arguments.lua.create_string("null")?),
    }))
}

/// The index in `options` of the first argument.
fn option(arguments: &Arguments, options: &[&str]) -> Result<usize> {
    let text = arguments.bytes(1)?;
    // A C string ends at its first zero.
    let name = text.split(|byte| *byte == 0).next().unwrap_or_default();
    options.iter().position(|option| option.as_bytes() == name).ok_or_else(|| {
        let text = format!("invalid option '{}'", String::from_utf8_lossy(name));
        arguments.bad(1, &text)
    })
}
