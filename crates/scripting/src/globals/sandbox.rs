//! The globals of scripts, and their protection against changes.
//!
//! 1. The globals are named here one by one; everything else that Lua has is removed.
//! 2. Every table that two scripts can reach is read-only, metatables included. So a script leaves
//!    nothing behind, except in the locals of a library's functions.
//! 3. A script sees `KEYS` and `ARGV` as globals; a library's functions do not, and while a library
//!    loads it sees only `redis` and `server` with few functions.
//!
//! ```text
//!   scripts     globals ── missing: error
//!   libraries   its own empty table ── while it loads: { redis, server } ── missing: error
//!                                   └─ later:          `shared`          ── missing: error
//! ```
//!
//! Tests: crates/scripting/tests/sandbox.rs.

use mlua::{Error, Function, Lua, LuaString, Result, Table, Value};

use crate::bridge::LuaBridge;
use crate::globals::api;
use crate::libs;

/// Lua's own globals that scripts keep.
const KEPT: [&str; 23] = [
    "_G",
    "_VERSION",
    "assert",
    "collectgarbage",
    "coroutine",
    "error",
    "gcinfo",
    "getmetatable",
    "ipairs",
    "load",
    "loadstring",
    "math",
    "next",
    "os",
    "pairs",
    "pcall",
    "rawequal",
    "rawget",
    "rawset",
    "select",
    "setmetatable",
    "string",
    "table",
];
const KEPT_TOO: [&str; 5] = ["tonumber", "tostring", "type", "unpack", "xpcall"];

/// The global tables of runs.
pub struct Sandbox {
    /// The globals of library functions.
    pub shared: Table,
    missing: Function,
}

impl Sandbox {
    /// Restricts the globals to what scripts may see, and protects them.
    pub fn build(lua: &Lua, bridge: &LuaBridge) -> Result<Sandbox> {
        let globals = lua.globals();
        take_away(&globals)?;
        let clock: Value = globals.raw_get::<Table>("os")?.raw_get("clock")?;
        let os = lua.create_table()?;
        os.raw_set("clock", clock)?;
        globals.raw_set("os", os)?;
        let own = [
            ("cjson", libs::cjson::table(lua, bridge)?),
            ("cmsgpack", libs::cmsgpack::table(lua, bridge)?),
            ("struct", libs::structs::table(lua, bridge)?),
            ("bit", bridge.bit.clone()),
        ];
        for (name, table) in own {
            globals.raw_set(name, table)?;
        }
        let redis = api::table(lua, bridge)?;
        globals.raw_set("redis", &redis)?;
        globals.raw_set("server", &redis)?;
        let sandbox = Sandbox { shared: lua.create_table()?, missing: missing(lua)? };
        for pair in globals.pairs::<Value, Value>() {
            let (name, value) = pair?;
            sandbox.shared.raw_set(name, value)?;
        }
        sandbox.shared.raw_set("_G", &sandbox.shared)?;
        for name in ["__redis__err__handler", "__server__err__handler"] {
            globals.raw_set(name, &bridge.errhandler)?;
        }
        sandbox.shut_all(lua, bridge, &globals)?;
        Ok(sandbox)
    }

    fn shut_all(&self, lua: &Lua, bridge: &LuaBridge, globals: &Table) -> Result<()> {
        for pair in self.shared.pairs::<Value, Value>() {
            if let (_, Value::Table(table)) = pair? {
                bridge.readonly(&table, true)?;
            }
        }
        if let Some(strings) = lua.type_metatable::<LuaString>() {
            bridge.readonly(&strings, true)?;
        }
        self.shut(lua, bridge, &self.shared)?;
        self.shut(lua, bridge, globals)
    }

    /// Makes reading a missing field of `table` an error, and writing, too.
    pub fn shut(&self, lua: &Lua, bridge: &LuaBridge, table: &Table) -> Result<()> {
        let meta = lua.create_table()?;
        meta.raw_set("__index", &self.missing)?;
        // `_G` contains itself and so may be protected already.
        bridge.readonly(table, false)?;
        table.set_metatable(Some(meta.clone()))?;
        bridge.readonly(&meta, true)?;
        bridge.readonly(table, true)
    }
}

fn take_away(globals: &Table) -> Result<()> {
    let mut unknown = Vec::new();
    for pair in globals.pairs::<Value, Value>() {
        let (name, _) = pair?;
        let kept = name.as_string().is_some_and(|name| {
            let known = |kept: &str| kept.as_bytes() == &name.as_bytes()[..];
            KEPT.iter().chain(&KEPT_TOO).any(|kept| known(kept))
        });
        if !kept {
            unknown.push(name);
        }
    }
    unknown.into_iter().try_for_each(|name| globals.raw_set(name, Value::Nil))
}

fn missing(lua: &Lua) -> Result<Function> {
    lua.create_function(|lua, (_, name): (Value, Value)| -> Result<()> {
        let name = lua.coerce_string(name)?;
        let name = name.as_ref().map_or("nil".into(), |name| name.to_string_lossy());
        let what = "Script attempted to access nonexistent global variable";
        Err(Error::runtime(format!("{what} '{name}'")))
    })
}
