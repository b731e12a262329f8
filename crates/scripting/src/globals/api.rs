//! `redis.*`, also available as `server.*`.
//!
//! Functions return a value and nil, or an error's text and true; lpantala.c raises these. The
//! texts are the reference's.
//!
//! 1. A function finds the host of the run in `slot`.
//!
//! Not here: `register_function` (`loading`). Tests: crates/scripting/tests.

use mlua::{Function, Lua, LuaString, MultiValue, Result, Table, Value};
use pantala_base::{number, sha1};
use pantala_protocol::{Reply, Version};

use crate::bridge::LuaBridge;
use crate::libs::budget::Budget;
use crate::slot::{self, Panic};
use crate::{LogLevel, from_lua, to_lua};

/// The bits of `set_repl`.
const REPL_AOF: i64 = 1;
const REPL_REPLICA: i64 = 2;
const NUMBERS: [(&str, i64); 11] = [
    ("LOG_DEBUG", 0),
    ("LOG_VERBOSE", 1),
    ("LOG_NOTICE", 2),
    ("LOG_WARNING", 3),
    ("REPL_NONE", 0),
    ("REPL_AOF", REPL_AOF),
    ("REPL_SLAVE", REPL_REPLICA),
    ("REPL_REPLICA", REPL_REPLICA),
    ("REPL_ALL", 3),
    ("REDIS_VERSION_NUM", 0x0007_0204),
    ("VALKEY_VERSION_NUM", 0x0009_0102),
];
const TEXTS: [(&str, &str); 3] =
    [("REDIS_VERSION", "7.2.4"), ("SERVER_NAME", "valkey"), ("VALKEY_VERSION", "9.1.2")];

/// The result of a function that may fail: a value and nil, or a text and true.
type Outcome = (Value, Value);

type Fallible = fn(&Lua, MultiValue) -> Result<Outcome>;

/// The table as scripts see it.
pub fn table(lua: &Lua, bridge: &LuaBridge) -> Result<Table> {
    let redis = facts(lua, bridge)?;
    let other = lua.create_function(|lua, ()| last_reply(lua))?;
    redis.raw_set("call", bridge.rediscall(&other, true)?)?;
    redis.raw_set("pcall", bridge.rediscall(&other, false)?)?;
    redis.raw_set("error_reply", lua.create_function(error_reply)?)?;
    redis.raw_set("status_reply", lua.create_function(status_reply)?)?;
    let raising: [(&str, Fallible); 5] = [
        ("sha1hex", sha1hex),
        ("acl_check_cmd", acl_check_cmd),
        ("set_repl", set_repl),
        ("setresp", setresp),
        ("replicate_commands", |_, _| Ok((Value::Boolean(true), Value::Nil))),
    ];
    for (name, function) in raising {
        redis.raw_set(name, bridge.raising(lua.create_function(function)?)?)?;
    }
    let nothing: Function = lua.create_function(|_, _: MultiValue| Ok(()))?;
    redis.raw_set("debug", nothing)?;
    let no: Function = lua.create_function(|_, _: MultiValue| Ok(false))?;
    redis.raw_set("breakpoint", no)?;
    Ok(redis)
}

/// The part that is also available while a library loads: constants and `log`.
pub fn facts(lua: &Lua, bridge: &LuaBridge) -> Result<Table> {
    let redis = lua.create_table()?;
    for (name, value) in NUMBERS {
        redis.raw_set(name, value)?;
    }
    for (name, value) in TEXTS {
        redis.raw_set(name, value)?;
    }
    redis.raw_set("log", bridge.raising(lua.create_function(log)?)?)?;
    Ok(redis)
}

fn text(lua: &Lua, text: impl AsRef<[u8]>) -> Result<Value> {
    Ok(Value::String(lua.create_string(text)?))
}

fn raise(lua: &Lua, message: impl AsRef<[u8]>) -> Result<Outcome> {
    Ok((text(lua, message)?, Value::Boolean(true)))
}

const NOTHING: Outcome = (Value::Nil, Value::Nil);

/// Runs a command for `redis.call`; returns the result of `done` for its reply, which stays until
/// the next call. `None`: the script must end.
pub fn call<R>(args: &[&[u8]], done: impl FnOnce(&[u8]) -> R) -> Option<R> {
    slot::run(|host, shared| {
        let mut reply = shared.reply.borrow_mut();
        reply.clear();
        let ran = host.call(args, shared.version.get(), &mut reply);
        ran.is_ok().then(|| done(&reply))
    })?
}

/// A value that a script returns, or the head of a list.
pub enum ReplyPart<'a> {
    Bulk(&'a [u8]),
    Number(f64),
    Truth(bool),
    Nil,
    Array(usize),
    Status(&'a [u8]),
    Error(&'a [u8]),
}

/// Appends a value to the run's reply; returns whether more may follow.
pub fn emit(value: ReplyPart) -> bool {
    let more = slot::run(|_, shared| {
        let mut out = shared.out.borrow_mut();
        let mut reply = Reply::new(&mut out, shared.wire.get());
        match value {
            ReplyPart::Bulk(bytes) => reply.bulk(bytes),
            ReplyPart::Number(number) => reply.int(from_lua::integer(number)),
            ReplyPart::Truth(truth) if shared.version.get() == Version::Resp3 => reply.bool(truth),
            ReplyPart::Truth(true) => reply.int(1),
            ReplyPart::Truth(false) | ReplyPart::Nil => reply.null(),
            ReplyPart::Array(count) => reply.array(count),
            ReplyPart::Status(text) => from_lua::status(&mut reply, text),
            ReplyPart::Error(text) => reply.error(text),
        }
        reply.len() <= shared.most_bytes.get()
    });
    more.unwrap_or(false)
}

/// Keeps a command's panic until the run is over.
pub fn keep_panic(panic: Panic) {
    slot::run(|_, shared| shared.panic.set(Some(panic)));
}

/// Formats a number as an argument: integers of up to 62 bits by their digits, others by their
/// shortest form.
pub fn push_number(out: &mut Vec<u8>, value: f64) {
    if value == 0.0 {
        out.push(b'0');
    } else if value.is_nan() {
        out.extend_from_slice(if value.is_sign_negative() { b"-nan" } else { b"nan" });
    } else {
        number::push_f64(out, value);
    }
}

/// The last reply as a value, for types that lpantala.c does not convert.
fn last_reply(lua: &Lua) -> Result<Value> {
    // Taken out, so that the host can be asked meanwhile whether to continue.
    let reply = slot::run(|_, shared| shared.reply.take()).unwrap_or_default();
    let value = to_lua::value(lua, &reply);
    slot::run(|_, shared| shared.reply.replace(reply));
    value
}

fn sha1hex(lua: &Lua, args: MultiValue) -> Result<Outcome> {
    if args.len() != 1 {
        return raise(lua, "ERR wrong number of arguments");
    }
    let given = lua.coerce_string(args[0].clone())?;
    let bytes = given.as_ref().map(|given| given.as_bytes());
    let mut budget = Budget::open(lua);
    let digest =
        sha1::digest_in_pieces(bytes.as_deref().unwrap_or_default(), |count| budget.bytes(count))?;
    Ok((text(lua, sha1::text(&digest))?, Value::Nil))
}

fn acl_check_cmd(lua: &Lua, args: MultiValue) -> Result<Outcome> {
    if args.is_empty() {
        return raise(lua, "ERR Please specify at least one argument for this call");
    }
    let fits =
        |value: &Value| matches!(value, Value::String(_) | Value::Integer(_) | Value::Number(_));
    if !args.iter().all(fits) {
        return raise(lua, "ERR Command arguments must be strings or integers");
    }
    let texts: Vec<Vec<u8>> = args.iter().map(argument).collect();
    let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    match slot::host(|host| host.may_run(&texts)) {
        Some(Ok(may)) => Ok((Value::Boolean(may), Value::Nil)),
        Some(Err(message)) => raise(lua, message),
        None => Ok((Value::Boolean(false), Value::Nil)),
    }
}

fn argument(value: &Value) -> Vec<u8> {
    let mut text = Vec::new();
    match value {
        Value::String(bytes) => text.extend_from_slice(&bytes.as_bytes()),
        Value::Integer(number) => push_number(&mut text, *number as f64),
        Value::Number(number) => push_number(&mut text, *number),
        _ => {}
    }
    text
}

fn set_repl(lua: &Lua, args: MultiValue) -> Result<Outcome> {
    if args.len() != 1 {
        return raise(lua, "ERR server.set_repl() requires one argument.");
    }
    match number_of(lua, &args[0])?.unwrap_or(0.0) as i64 {
        told @ 0..=3 => {
            slot::host(|host| host.tell(told & REPL_AOF != 0, told & REPL_REPLICA != 0));
            Ok(NOTHING)
        }
        _ => raise(
            lua,
            "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
        ),
    }
}

fn setresp(lua: &Lua, args: MultiValue) -> Result<Outcome> {
    if args.len() != 1 {
        return raise(lua, "ERR server.setresp() requires one argument.");
    }
    let version = match number_of(lua, &args[0])?.unwrap_or(0.0) as i64 {
        2 => Version::Resp2,
        3 => Version::Resp3,
        _ => return raise(lua, "ERR RESP version must be 2 or 3."),
    };
    slot::run(|_, shared| shared.version.set(version));
    Ok(NOTHING)
}

fn log(lua: &Lua, args: MultiValue) -> Result<Outcome> {
    if args.len() < 2 {
        return raise(lua, "ERR server.log() requires two arguments or more.");
    }
    let Some(level) = number_of(lua, &args[0])? else {
        return raise(lua, "ERR First argument must be a number (log level).");
    };
    let level = match level as i64 {
        0 => LogLevel::Debug,
        1 => LogLevel::Verbose,
        2 => LogLevel::Notice,
        3 => LogLevel::Warning,
        _ => return raise(lua, "ERR Invalid log level."),
    };
    let mut message = Vec::new();
    for (index, value) in args.iter().skip(1).enumerate() {
        if index > 0 {
            message.push(b' ');
        }
        if let Some(text) = lua.coerce_string(value.clone())? {
            message.extend_from_slice(&text.as_bytes());
        }
    }
    slot::host(|host| host.log(level, &message));
    Ok(NOTHING)
}

/// Lua's conversion to a number, which includes texts that spell one.
fn number_of(lua: &Lua, value: &Value) -> Result<Option<f64>> {
    lua.coerce_number(value.clone())
}

/// `redis.error_reply`: a text of one word gets a code in front.
fn error_reply(lua: &Lua, args: MultiValue) -> Result<Table> {
    let Some(message) = only_text(&args) else { return wrong_arguments(lua) };
    let message = message.as_bytes();
    let message = message.strip_prefix(b"-").unwrap_or(&message);
    let coded = message.contains(&b' ');
    let whole = if coded { message.to_vec() } else { [b"ERR ", message].concat() };
    single(lua, "err", text(lua, whole)?)
}

/// `redis.status_reply`.
fn status_reply(lua: &Lua, args: MultiValue) -> Result<Table> {
    match only_text(&args) {
        Some(status) => single(lua, "ok", Value::String(status)),
        None => wrong_arguments(lua),
    }
}

fn only_text(args: &MultiValue) -> Option<LuaString> {
    match args.iter().next() {
        Some(Value::String(text)) if args.len() == 1 => Some(text.clone()),
        _ => None,
    }
}

fn wrong_arguments(lua: &Lua) -> Result<Table> {
    single(lua, "err", text(lua, "ERR wrong number or type of arguments")?)
}

fn single(lua: &Lua, name: &str, value: Value) -> Result<Table> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(name, value)?;
    Ok(table)
}
