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
    /// rest(): what is to be tidied up between runs.
    pub rest: Function,
    /// drop(): keys and arguments of the last run are garbage.
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

/// charge(n): this many instructions' worth of work of a function of ours. An error ends the
/// script, whoever catches it.
pub struct Charge(pub Function);

/// The status of a run that the host ended.
pub const ABORTED: i64 = -1;
/// The status of a run whose reply is written.
pub const EMITTED: i64 = -2;
/// The status of a run that ended well.
pub const DONE: i64 = 0;

impl LuaBridge {
    /// Takes the bridge out of the globals and sets the limits up.
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

    /// A function of ours that returns its value and nil, or an error's text and true: that is
    /// raised as a table.
    pub fn raising(&self, function: Function) -> Result<Function> {
        self.raising.call(function)
    }

    /// `redis.call`, or `redis.pcall` where errors are not raised.
    pub fn rediscall(&self, function: &Function, raise: bool) -> Result<Function> {
        self.rediscall.call((function, raise))
    }

    /// Whether scripts may change `table`.
    pub fn readonly(&self, table: &Table, readonly: bool) -> Result<()> {
        self.readonly.call((table, readonly))
    }

    /// How much memory scripts may have from now on; 0: no limit.
    pub fn limit(&self, bytes: usize) -> Result<()> {
        self.limit.call(bytes as f64)
    }

    /// The function of ours that scripts know by this name, with its short way in C (lplibs.c)
    /// before it.
    pub fn short(&self, name: &str, function: Function) -> Result<Function> {
        self.short.call((name, function))
    }

    /// What cjson's short ways ask: a call says that this run has changed a setting.
    pub fn jsonset(&self) -> Function {
        self.jsonset.clone()
    }

    /// What is there now is what an idle VM uses.
    pub fn idle(&self) -> Result<()> {
        self.idle.call(())
    }
}

/// What a script sees of an error of a Rust function: its text.
fn error_text(lua: &Lua, error: Value) -> Result<Value> {
    let Value::Error(error) = error else { return Ok(error) };
    let text = match root(&error) {
        Error::RuntimeError(text) => text.clone(),
        other => other.to_string(),
    };
    Ok(Value::String(lua.create_string(text)?))
}

/// Below what mlua puts around it.
fn root(error: &Error) -> &Error {
    match error {
        Error::CallbackError { cause, .. } | Error::WithContext { cause, .. } => root(cause),
        other => other,
    }
}
