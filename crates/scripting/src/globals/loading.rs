//! `register_function`, for a library that is being loaded.
//!
//! Names and numbers of functions are checked after the code has run, as in the reference.
//!
//! Tests: crates/scripting/tests/libraries.rs.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use mlua::{Function, Lua, MultiValue, Table, Value};

use crate::bridge::LuaBridge;
use crate::globals::api;
use crate::libs::budget::Budget;
use crate::{ErrorText, Flags, LibraryFunction};

/// The functions registered so far by the library being loaded.
pub type RegisteredFunctions = Rc<RefCell<Vec<(LibraryFunction, Function)>>>;

/// The most functions of one library.
const FUNCTIONS_MAX: usize = 100_000;
/// The most bytes of their names and descriptions: as many as its code may have.
const TEXTS_BYTES_MAX: usize = 64 << 20;

/// The table `redis` while a library loads.
pub fn table(lua: &Lua, bridge: &LuaBridge, gathered: &RegisteredFunctions) -> mlua::Result<Table> {
    let redis = api::facts(lua, bridge)?;
    let gathered = Rc::clone(gathered);
    let text_bytes_left = Cell::new(TEXTS_BYTES_MAX);
    let register = lua.create_function(move |lua, args| {
        // The loader holds it, too; a function that kept `redis` is called later.
        if Rc::strong_count(&gathered) == 1 {
            let late = "server.register_function can only be called on FUNCTION LOAD command";
            return failed(lua, late);
        }
        let function = registered(lua, &args);
        let mut gathered = gathered.borrow_mut();
        match function {
            Ok(_) if gathered.len() == FUNCTIONS_MAX => failed(lua, "too many functions"),
            Ok((facts, _)) if facts.bytes() > text_bytes_left.get() => {
                failed(lua, "too long names and descriptions")
            }
            Ok(function) => {
                text_bytes_left.set(text_bytes_left.get() - function.0.bytes());
                gathered.push(function);
                Ok((Value::Nil, Value::Nil))
            }
            Err(message) => failed(lua, &message),
        }
    })?;
    redis.raw_set("register_function", bridge.raising(register)?)?;
    Ok(redis)
}

fn failed(lua: &Lua, message: &str) -> mlua::Result<(Value, Value)> {
    let message = lua.create_string(format!("ERR {message}"))?;
    Ok((Value::String(message), Value::Boolean(true)))
}

type Refused = String;

fn registered(lua: &Lua, args: &MultiValue) -> Result<(LibraryFunction, Function), Refused> {
    match (args.len(), args.iter().next()) {
        (1, Some(Value::Table(named))) => by_names(lua, named),
        (1, _) => Err("calling server.register_function with a single argument is only \
                       applicable to Lua table (representing named arguments)."
            .into()),
        (2, Some(name)) => {
            let name = text(lua, name)
                .ok_or("first argument to server.register_function must be a string")?;
            let Value::Function(callback) = &args[1] else {
                return Err("second argument to server.register_function must be a function".into());
            };
            let flags = Flags::empty();
            Ok((LibraryFunction { name, description: None, flags }, callback.clone()))
        }
        _ => Err("wrong number of arguments to server.register_function".into()),
    }
}

fn by_names(lua: &Lua, named: &Table) -> Result<(LibraryFunction, Function), Refused> {
    let unknown = || Refused::from("unknown argument given to server.register_function");
    let must = |what: &str, be: &str| {
        Refused::from(format!("{what} argument given to server.register_function must be {be}"))
    };
    let (mut name, mut description, mut callback) = (None, None, None);
    let mut flags = Flags::empty();
    for pair in named.pairs::<Value, Value>() {
        let Ok((key, value)) = pair else { return Err(unknown()) };
        let Some(mut key) = text(lua, &key) else {
            let what = "named argument key given to server.register_function is not a string";
            return Err(what.into());
        };
        key.make_ascii_lowercase();
        match key.as_slice() {
            b"function_name" => {
                let given = text(lua, &value).ok_or_else(|| must("function_name", "a string"))?;
                name = Some(given);
            }
            b"description" => {
                let given = text(lua, &value).ok_or_else(|| must("description", "a string"))?;
                // The reference treats it as a C string.
                let end = given.iter().position(|byte| *byte == 0).unwrap_or(given.len());
                description = Some(given[..end].to_vec());
            }
            b"callback" => match value {
                Value::Function(function) => callback = Some(function),
                _ => return Err(must("callback", "a function")),
            },
            b"flags" => flags = flags_of(lua, &value)?,
            _ => return Err(unknown()),
        }
    }
    let lacks = |what: &str| format!("server.register_function must get a {what} argument");
    let name = name.ok_or_else(|| lacks("function name"))?;
    let callback = callback.ok_or_else(|| lacks("callback"))?;
    Ok((LibraryFunction { name, description, flags }, callback))
}

fn flags_of(lua: &Lua, value: &Value) -> Result<Flags, Refused> {
    let Value::Table(list) = value else {
        return Err("flags argument to server.register_function must be a table representing \
                    function flags"
            .into());
    };
    let mut flags = Flags::empty();
    let mut budget = Budget::open(lua);
    for name in list.sequence_values::<Value>() {
        budget.step().map_err(|error| error.to_string())?;
        let known = match name {
            Ok(Value::String(name)) => Flags::named(&name.as_bytes().to_ascii_lowercase()),
            _ => None,
        };
        flags = flags.with(known.ok_or("unknown flag given")?);
    }
    Ok(flags)
}

/// A string, or a number as text. Copying a long one counts as work.
fn text(lua: &Lua, value: &Value) -> Option<Vec<u8>> {
    let fits = matches!(value, Value::String(_) | Value::Integer(_) | Value::Number(_));
    let text = lua.coerce_string(value.clone()).ok().flatten().filter(|_| fits)?;
    let bytes = text.as_bytes();
    Budget::open(lua).bytes(bytes.len()).ok()?;
    Some(bytes.to_vec())
}

/// Checks the functions that a library has registered. `Err`: the text of an error reply.
pub fn judge(gathered: &[(LibraryFunction, Function)]) -> Result<(), ErrorText> {
    let mut names = std::collections::HashSet::new();
    for (function, _) in gathered {
        if !is_name(&function.name) {
            return Err(
                b"ERR Function names can only contain letters, numbers, or underscores(_) \
                         and must be at least one character long"
                    .to_vec(),
            );
        }
        if !names.insert(&function.name) {
            return Err(b"ERR Function already exists in the library".to_vec());
        }
    }
    if gathered.is_empty() {
        return Err(b"ERR No functions registered".to_vec());
    }
    Ok(())
}

/// Whether this is a valid name for a library or a function.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}
