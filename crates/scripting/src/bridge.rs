//! The functions that our patched Lua has for its host (third_party/lua-src, lpantala.c).
//!
//! Tests: crates/scripting/tests.

use mlua::{Error, Function, Lua, Result, Table, Value};
use pantala_base::Rng;

use crate::{TICK_INSTRUCTIONS, raw};

/// The functions that lpantala.c offers; scripts never see them.
pub struct LuaBridge {
    /// run(f, lists): status, result.
    pub run: Function,
    /// call(f, lists): as `run`, for a library's function, which gets the lists as arguments.
    pub call: Function,
    /// load(f): status, result.
    pub load: Function,
    /// compile(text, chunk name, environment or nil): function, or nil and an error.
    pub compile: Function,
    /// rest(): cleans up between runs.
    pub rest: Function,
    /// drop(): releases the keys and arguments of the last run.
    pub drop: Function,
    /// `bit`.
    pub bit: Table,
    /// The error handler, for the globals of scripts.
    pub errhandler: Function,
    raising: Function,
    rediscall: Function,
    readonly: Function,
    idle: Function,
    limit: Function,
    jsonset: Function,
    short: Function,
}

/// charge(n): accounts for n instructions' worth of work in one of our functions. An error ends the
/// script, even inside a pcall.
pub struct Charge(pub Function);

/// The status of a run that the host has aborted.
pub const ABORTED: i64 = -1;
/// The status of a run whose reply is already written.
pub const EMITTED: i64 = -2;
/// The status of a successful run.
pub const DONE: i64 = 0;

impl LuaBridge {
    /// Takes the bridge out of the globals and sets the limits.
    pub fn open(lua: &Lua, memory_bytes: usize) -> Result<LuaBridge> {
        let globals = lua.globals();
        let table: Table = globals.raw_get("__pantala")?;
        globals.raw_set("__pantala", Value::Nil)?;
        let setup: Function = table.raw_get("setup")?;
        let convert = lua.create_function(|lua, error: Value| error_text(lua, error))?;
        let seed = Rng::random().next_u64() as i32;
        let [call, number, emit, tick] = raw::functions();
        let limits = (memory_bytes as f64, TICK_INSTRUCTIONS, seed);
        setup.call::<()>((convert, limits.0, limits.1, limits.2, call, number, emit, tick))?;
        lua.set_app_data(Charge(table.raw_get("charge")?));
        Ok(LuaBridge {
            run: table.raw_get("run")?,
            call: table.raw_get("call")?,
            load: table.raw_get("load")?,
            compile: table.raw_get("compile")?,
            rest: table.raw_get("rest")?,
            drop: table.raw_get("drop")?,
            errhandler: table.raw_get("errhandler")?,
            bit: table.raw_get("bit")?,
            raising: table.raw_get("raising")?,
            rediscall: table.raw_get("rediscall")?,
            readonly: table.raw_get("readonly")?,
            idle: table.raw_get("idle")?,
            limit: table.raw_get("limit")?,
            jsonset: table.raw_get("jsonset")?,
            short: table.raw_get("short")?,
        })
    }

    /// Wraps a function that returns a value and nil, or an error's text and true, which is raised
    /// as a table.
    pub fn raising(&self, function: Function) -> Result<Function> {
        self.raising.call(function)
    }

    /// `redis.call`, or `redis.pcall` where errors are not raised.
    pub fn rediscall(&self, function: &Function, raise: bool) -> Result<Function> {
        self.rediscall.call((function, raise))
    }

    /// Sets whether scripts may change `table`.
    pub fn readonly(&self, table: &Table, readonly: bool) -> Result<()> {
        self.readonly.call((table, readonly))
    }

    /// Sets how much memory scripts may have from now on; 0: no limit.
    pub fn limit(&self, bytes: usize) -> Result<()> {
        self.limit.call(bytes as f64)
    }

    /// Wraps one of our functions with its fast path in C (lplibs.c), by the name that scripts use.
    pub fn short(&self, name: &str, function: Function) -> Result<Function> {
        self.short.call((name, function))
    }

    /// The function by which cjson tells its fast paths that this run has changed a setting.
    pub fn jsonset(&self) -> Function {
        self.jsonset.clone()
    }

    /// Takes the current memory use as that of an idle VM.
    pub fn idle(&self) -> Result<()> {
        self.idle.call(())
    }
}

/// The text that a script sees of a Rust function's error.
fn error_text(lua: &Lua, error: Value) -> Result<Value> {
    let Value::Error(error) = error else { return Ok(error) };
    let text = match root(&error) {
        Error::RuntimeError(text) => text.clone(),
        other => other.to_string(),
    };
    Ok(Value::String(lua.create_string(text)?))
}

/// The error inside mlua's wrappers.
fn root(error: &Error) -> &Error {
    match error {
        Error::CallbackError { cause, .. } | Error::WithContext { cause, .. } => root(cause),
        other => other,
    }
}
