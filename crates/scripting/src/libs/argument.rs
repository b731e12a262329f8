//! The arguments of a library function, and errors about them.
//!
//! 1. The texts and the order of the checks are those of Lua's C library (`luaL_checknumber` and
//!    its kin), because scripts match on them: "bad argument #1 to 'decode' (...)".
//! 2. An error names the function as the script called it, so it is made in that function, not
//!    inside a callback of it. When the error leaves Rust, our patched Lua prepends the place in
//!    the script (ldebug.c, `convert`).
//!
//! Tests: tests/libs_*.rs.

use mlua::{BorrowedBytes, Error, Lua, MultiValue, Result, Value};

/// The arguments of one call.
pub(super) struct Arguments<'a> {
    pub lua: &'a Lua,
    values: MultiValue,
}

impl<'a> Arguments<'a> {
    pub fn new(lua: &'a Lua, values: MultiValue) -> Arguments<'a> {
        Arguments { lua, values }
    }

    pub fn count(&self) -> usize {
        self.values.len()
    }

    /// The argument at `place`, counted from 1; `None` if it is missing.
    pub fn get(&self, place: usize) -> Option<&Value> {
        self.values.get(place - 1)
    }

    /// Appends a nil argument.
    pub fn push_nil(&mut self) {
        self.values.push_back(Value::Nil);
    }

    /// Whether the argument is nil or missing.
    pub fn is_nil(&self, place: usize) -> bool {
        self.get(place).is_none_or(Value::is_nil)
    }

    /// A number, or a string that spells one.
    pub fn number(&self, place: usize) -> Result<f64> {
        match self.get(place) {
            Some(Value::Number(number)) => Ok(*number),
            Some(Value::Integer(number)) => Ok(*number as f64),
            Some(value @ Value::String(_)) => match self.lua.coerce_number(value.clone())? {
                Some(number) => Ok(number),
                None => Err(self.not_a("number", place)),
            },
            _ => Err(self.not_a("number", place)),
        }
    }

    /// A number without its fraction.
    pub fn integer(&self, place: usize) -> Result<i64> {
        self.number(place).map(truncated)
    }

    /// A number without its fraction; `otherwise` if it is nil or missing.
    pub fn integer_or(&self, place: usize, otherwise: i64) -> Result<i64> {
        if self.is_nil(place) { Ok(otherwise) } else { self.integer(place) }
    }

    /// A string's bytes, or a number's text.
    pub fn bytes(&self, place: usize) -> Result<BorrowedBytes> {
        match self.get(place) {
            Some(Value::String(text)) => Ok(text.as_bytes()),
            Some(number @ (Value::Number(_) | Value::Integer(_))) => {
                match self.lua.coerce_string(number.clone())? {
                    Some(text) => Ok(text.as_bytes()),
                    None => Err(self.not_a("string", place)),
                }
            }
            _ => Err(self.not_a("string", place)),
        }
    }

    /// "number expected, got nil".
    pub fn not_a(&self, wanted: &str, place: usize) -> Error {
        let got = self.get(place).map_or("no value", type_name);
        bad(self.lua, place, &format!("{wanted} expected, got {got}"))
    }

    /// "bad argument #1 to 'decode' (`text`)".
    pub fn bad(&self, place: usize, text: &str) -> Error {
        bad(self.lua, place, text)
    }
}

fn bad(lua: &Lua, mut place: usize, text: &str) -> Error {
    let names = lua.inspect_stack(0, |function| {
        let names = function.names();
        (names.name.map(|name| name.into_owned()), names.name_what)
    });
    let (name, what) = names.unwrap_or_default();
    let name = name.unwrap_or_else(|| "?".into());
    if what == Some("method") {
        place = place.saturating_sub(1);
        if place == 0 {
            return Error::runtime(format!("calling '{name}' on bad self ({text})"));
        }
    }
    Error::runtime(format!("bad argument #{place} to '{name}' ({text})"))
}

/// A value's type, as Lua names it.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nil",
        Value::Boolean(_) => "boolean",
        Value::Integer(_) | Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Table(_) => "table",
        Value::Function(_) => "function",
        Value::Thread(_) => "thread",
        _ => "userdata",
    }
}

/// The conversion of x86-64 to a 64-bit integer: the fraction is dropped, and what does not fit is
/// the least integer.
pub(super) fn truncated(number: f64) -> i64 {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    if (-BOUND..BOUND).contains(&number) { number as i64 } else { i64::MIN }
}
