//! The interpreter of one thread: compiles scripts and libraries, and runs them.
//!
//! ```text
//!   run ─> compile once, by digest ─> lpantala.c `run` ─> Lua ─> redis.call ─> `slot` ─> Host
//!    └─ reply <─ from_lua / faults <─────┘                       └─ to_lua <─ reply bytes
//! ```
//!
//! PUC's Lua 5.1.5 with patches (third_party/lua-src/PATCHES.md), through mlua. Not LuaJIT, whose
//! error texts, limits and `string.format` differ from the reference's and whose hooks do not run
//! in compiled code; not an interpreter in Rust, of which none supports 5.1 with its exact texts
//! and numbers. The patches are C because Lua is; everything else is Rust without `unsafe`.
//!
//! 1. A VM belongs to one thread; `Script` and `Library` are shared, compiled code is not.
//! 2. No run leaves anything in the VM for the next, except compiled code and the locals of a
//!    library's functions. These live as long as the library does in this VM, and each VM has its
//!    own: a library that counts in a local counts per thread, and may restart at any time.
//! 3. Everything that a script does ends in a reply or in the host's `Abort`. Memory: `VmLimits`;
//!    depth: Lua's own bounds; time: `ScriptHost::tick`, after each `TICK_INSTRUCTIONS` or so of
//!    work, also inside library functions and while compiling; an abort passes every pcall,
//!    coroutine and handler. C accounts for its loops with `lua_charge`, Rust with `libs::budget`.
//! 4. A reply is appended as a whole or, on `Abort`, not at all.
//!
//! Not here: the globals and `redis.*` (`globals`), conversions (`to_lua`,
//! `from_lua`). Tests: crates/scripting/tests.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::rc::Rc;
use std::sync::Arc;

use mlua::{Function, Lua, LuaOptions, StdLib, Value};
use pantala_protocol::{Reply, Version};

use crate::bridge::{ABORTED, DONE, EMITTED, LuaBridge};
use crate::from_lua::{ReplyFault, ReplyWriter};
use crate::globals::loading::{self, RegisteredFunctions};
use crate::globals::sandbox::Sandbox;
use crate::libs::budget::{Budget, MemoryLimit};
use crate::raw::{RunLists, Spans};
use crate::slot::RunState;
use crate::sources::compiled::Compiled;
use crate::{Abort, ErrorText, Library, LibraryFunction, Script, ScriptHost, faults, libs, slot};

/// The limits of one VM.
#[derive(Clone, Copy, Debug)]
pub struct VmLimits {
    /// Lua's own memory, for the values of scripts; beyond it the script fails with "not enough
    /// memory". 0: no limit.
    pub memory_bytes: usize,
    /// The most compiled scripts; one more drops the oldest. Libraries are counted separately, up
    /// to the same number.
    pub scripts: usize,
    /// The bytes of these, in addition to `memory_bytes`; more drops the oldest, too.
    pub scripts_bytes: usize,
    /// The longest reply of a script; beyond it an error reply is sent.
    pub reply_bytes: usize,
}

impl Default for VmLimits {
    fn default() -> VmLimits {
        VmLimits {
            memory_bytes: 256 << 20,
            scripts: 500,
            scripts_bytes: 64 << 20,
            reply_bytes: 1 << 30,
        }
    }
}

/// An interpreter, made on first use by the thread that uses it.
pub struct Vm {
    limits: VmLimits,
    scripts: Compiled,
    libraries: VecDeque<LoadedLibrary>,
    shared: Rc<RunState>,
    tidy_above_bytes: usize,
    sandbox: Sandbox,
    bridge: LuaBridge,
    lua: Lua,
}

/// A library loaded into this VM. Holding the `Arc` keeps its address from being reused.
struct LoadedLibrary {
    library: Arc<Library>,
    /// By how much the VM has grown, garbage included.
    bytes: usize,
    functions: HashMap<Vec<u8>, Function>,
}

/// Why a library was not loaded.
enum LoadFault {
    /// The text of an error reply.
    Refused(ErrorText),
    /// The host has aborted the run.
    Aborted,
}

impl From<ErrorText> for LoadFault {
    fn from(message: ErrorText) -> LoadFault {
        LoadFault::Refused(message)
    }
}

/// A run's status, and its result or error.
type RunResult = mlua::Result<(i64, Value)>;

/// The growth of a VM after which a cleanup is considered.
const TIDY_BYTES: usize = 1 << 20;
/// Keys and arguments up to this size are not checked against the memory limit.
const ALWAYS_ROOM_BYTES: usize = 64 << 10;
const NO_ROOM: &str = "ERR not enough memory for the keys and arguments of the script";
/// Lua's error text when memory is exhausted.
const NO_MEMORY: &[u8] = b"not enough memory";
const SCRIPT_NAME: &str = "@user_script";
const LIBRARY_NAME: &str = "@user_function";

impl Vm {
    /// A new VM, with the reference's sandbox.
    pub fn new(limits: VmLimits) -> Vm {
        let built = Vm::build(limits);
        built.expect("a new state has all the memory it asks for, and the sandbox is fixed text")
    }

    fn build(limits: VmLimits) -> mlua::Result<Vm> {
        let libs = StdLib::STRING | StdLib::TABLE | StdLib::MATH | StdLib::OS;
        // "Catch" leaves Lua's own pcall, which our patch prevents from catching panics.
        let lua = Lua::new_with(libs, LuaOptions::new().catch_rust_panics(true))?;
        lua.set_app_data(MemoryLimit(limits.memory_bytes));
        let bridge = LuaBridge::open(&lua, limits.memory_bytes)?;
        let shared = Rc::<RunState>::default();
        let sandbox = Sandbox::build(&lua, &bridge)?;
        bridge.idle()?;
        let scripts = Compiled::new(limits.scripts.max(1), limits.scripts_bytes);
        let libraries = VecDeque::new();
        let tidy_above_bytes = lua.used_memory() + TIDY_BYTES;
        Ok(Vm { limits, scripts, libraries, shared, tidy_above_bytes, sandbox, bridge, lua })
    }

    /// Compiles `script` unless this VM has it. `Err`: the text of an error reply, without `-`.
    pub fn compile(&mut self, script: &Arc<Script>) -> Result<(), ErrorText> {
        self.function_of(script).map(drop).map_err(|unloaded| match unloaded {
            LoadFault::Refused(message) => message,
            LoadFault::Aborted => b"ERR the script took too long to compile".to_vec(),
        })
    }

    fn function_of(&mut self, script: &Script) -> Result<Function, LoadFault> {
        if let Some(function) = self.scripts.get(script.sha()) {
            return Ok(function.clone());
        }
        let (function, bytes) =
            self.compiled(script.code(), SCRIPT_NAME, None).map_err(|unloaded| match unloaded {
                LoadFault::Refused(message) => {
                    let what = b"ERR Error compiling script (new function): ".as_slice();
                    LoadFault::Refused([what, &message].concat())
                }
                LoadFault::Aborted => LoadFault::Aborted,
            })?;
        self.scripts.keep(*script.sha(), function.clone(), bytes);
        self.apply_limit();
        Ok(function)
    }

    /// A compiled function and its size. The host gets ticks, if there is one.
    fn compiled(
        &mut self,
        code: &[u8],
        name: &str,
        environment: Option<&mlua::Table>,
    ) -> Result<(Function, usize), LoadFault> {
        let mut compiled = self.compiled_at_once(code, name, environment);
        if matches!(&compiled, Err(LoadFault::Refused(message)) if message.ends_with(NO_MEMORY)) {
            // Dropped functions, and what others have left, are garbage.
            let _ = self.lua.gc_collect();
            compiled = self.compiled_at_once(code, name, environment);
        }
        compiled
    }

    fn compiled_at_once(
        &self,
        code: &[u8],
        name: &str,
        environment: Option<&mlua::Table>,
    ) -> Result<(Function, usize), LoadFault> {
        let compile = &self.bridge.compile;
        let compiled = self.lua.create_string(code).and_then(|code| {
            compile.call::<(Value, Value, Option<bool>)>((code, name, environment))
        });
        match compiled {
            Ok((Value::Function(function), weight, _)) => {
                Ok((function, weight.as_usize().unwrap_or(0)))
            }
            Ok((_, _, Some(true))) => Err(LoadFault::Aborted),
            Ok((_, message, _)) => Err(LoadFault::Refused(faults::plain(&message))),
            Err(error) => Err(LoadFault::Refused(error.to_string().into_bytes())),
        }
    }

    /// Runs `script` and appends its reply as RESP of `version`; its errors, including compile
    /// errors, are error replies. `Err`: the host has aborted it, and nothing was appended.
    #[allow(clippy::too_many_arguments, reason = "EVAL has that many parts")]
    pub fn run(
        &mut self,
        script: &Arc<Script>,
        keys: &[&[u8]],
        args: &[&[u8]],
        version: Version,
        host: &mut dyn ScriptHost,
        reply: &mut Vec<u8>,
    ) -> Result<(), Abort> {
        if let Some(function) = self.scripts.get(script.sha()) {
            return self.perform(&self.bridge.run, function, (keys, args), version, host, reply);
        }
        let shared = Rc::clone(&self.shared);
        match slot::with_host(host, &shared, || self.function_of(script)) {
            Ok(function) => {
                self.perform(&self.bridge.run, &function, (keys, args), version, host, reply)
            }
            Err(LoadFault::Aborted) => Err(Abort),
            Err(LoadFault::Refused(message)) => {
                Reply::new(reply, version).error(message);
                Ok(())
            }
        }
    }

    /// Runs a compiled function, and appends its reply.
    #[allow(clippy::too_many_arguments, reason = "EVAL and FCALL have that many parts")]
    fn perform(
        &self,
        bridge: &Function,
        function: &Function,
        (keys, args): (&[&[u8]], &[&[u8]]),
        version: Version,
        host: &mut dyn ScriptHost,
        reply: &mut Vec<u8>,
    ) -> Result<(), Abort> {
        let start = reply.len();
        let shared = &self.shared;
        shared.version.set(Version::Resp2);
        shared.wire.set(version);
        shared.aborted_line.set(0);
        shared.has_aborted.set(false);
        if !self.has_room_for(keys, args) {
            Reply::new(reply, version).error(NO_ROOM);
            return Ok(());
        }
        shared.most_bytes.set(start.saturating_add(self.limits.reply_bytes));
        // Meanwhile the reply is in the shared state, so that Lua's values are written directly to
        // it.
        shared.out.replace(mem::take(reply));
        let answered = slot::with_host(host, shared, || {
            let ended = self.enter(bridge, function, keys, args);
            *reply = shared.out.take();
            if !matches!(ended, Ok((EMITTED, _))) {
                reply.truncate(start);
                return self.answer(ended, version, reply);
            }
            Ok(())
        });
        self.settle();
        answered
    }

    /// Calls lpantala.c's `run` or `call`.
    fn enter(
        &self,
        bridge: &Function,
        function: &Function,
        keys: &[&[u8]],
        args: &[&[u8]],
    ) -> RunResult {
        let (keys, args) = (Spans::of(keys), Spans::of(args));
        let lists = RunLists::of(&keys, &args);
        bridge.call((function, lists.pointer()))
    }

    /// Cleans up after a run. If that fails the next run tries again.
    fn settle(&self) {
        libs::cjson::forget_settings(&self.lua);
        if self.lua.used_memory() > self.tidy_above_bytes {
            let _ = self.bridge.rest.call::<()>(());
        }
        self.shared.settle();
    }

    /// Appends the result of a run.
    fn answer(&self, ended: RunResult, version: Version, out: &mut Vec<u8>) -> Result<(), Abort> {
        let start = out.len();
        let mut reply = Reply::new(out, version);
        match ended {
            Ok((ABORTED, line)) => {
                self.shared.aborted_line.set(line.as_u32().unwrap_or(0));
                return Err(Abort);
            }
            Ok((DONE, value)) => {
                let most_bytes = self.shared.most_bytes.get();
                let script = self.shared.version.get();
                let written = ReplyWriter::new(&mut reply, script, most_bytes).value(&value, 0);
                match written {
                    Ok(()) => {}
                    Err(fault) => {
                        reply.truncate(start);
                        match fault {
                            ReplyFault::Abort => return Err(Abort),
                            ReplyFault::TooLarge => {
                                reply.error("ERR the script's reply is too large")
                            }
                            ReplyFault::Lua => reply.error("ERR the script's reply cannot be read"),
                        }
                    }
                }
            }
            Ok((_, error)) => reply.error(faults::uncaught(&error)),
            Err(_) if self.shared.has_aborted.get() => return Err(Abort),
            Err(error) => reply.error(format!("ERR {error}")),
        }
        Ok(())
    }

    /// Whether keys and arguments fit within the memory limit: Lua gets copies of them.
    fn has_room_for(&self, keys: &[&[u8]], args: &[&[u8]]) -> bool {
        let more_bytes: usize = keys.iter().chain(args).map(|text| text.len()).sum();
        // A small amount beside Lua's own needs costs no call.
        more_bytes < ALWAYS_ROOM_BYTES
            || self.bridge.drop.call::<()>(()).is_ok()
                && Budget::open(&self.lua).fits(more_bytes).is_ok()
    }

    /// Sets the limit; compiled scripts have their own, which is added.
    fn apply_limit(&mut self) {
        let bytes = match self.limits.memory_bytes {
            0 => 0,
            bytes => bytes.saturating_add(self.scripts.bytes()),
        };
        if self.bridge.limit(bytes).is_ok() {
            self.lua.set_app_data(MemoryLimit(bytes));
        }
    }

    /// Drops every compiled script and every library: SCRIPT FLUSH, FUNCTION FLUSH.
    pub fn forget(&mut self) {
        self.scripts.clear();
        self.libraries.clear();
        self.apply_limit();
        let _ = self.bridge.idle();
    }

    /// Bytes that Lua uses.
    pub fn memory_bytes(&self) -> usize {
        self.lua.used_memory()
    }

    /// Bytes that libraries took when they were loaded.
    pub fn library_bytes(&self) -> usize {
        self.libraries.iter().map(|one| one.bytes).sum()
    }

    /// Sets how much memory scripts may have from the next run on; 0: no limit.
    pub fn limit_memory(&mut self, bytes: usize) {
        if self.limits.memory_bytes != bytes {
            self.limits.memory_bytes = bytes;
            self.apply_limit();
        }
    }

    /// The line at which the host aborted the last run, if it was in Lua.
    pub fn aborted_line(&self) -> Option<u32> {
        Some(self.shared.aborted_line.get()).filter(|line| *line > 0)
    }

    /// Runs a library's code to collect its functions (FUNCTION LOAD); nothing stays in this VM.
    /// The host gets only ticks and logs: an Abort from `tick` is the time limit.
    pub fn load_library(
        &mut self,
        code: &[u8],
        host: &mut dyn ScriptHost,
    ) -> Result<Vec<LibraryFunction>, ErrorText> {
        match self.gather(code, host) {
            Ok(gathered) => Ok(gathered.into_iter().map(|(registered, _)| registered).collect()),
            Err(LoadFault::Refused(message)) => Err(message),
            Err(LoadFault::Aborted) => Err(b"ERR FUNCTION LOAD timeout".to_vec()),
        }
    }

    /// Runs a library's code; returns the functions it registered.
    fn gather(
        &mut self,
        code: &[u8],
        host: &mut dyn ScriptHost,
    ) -> Result<Vec<(LibraryFunction, Function)>, LoadFault> {
        let gathered = RegisteredFunctions::default();
        let ours = |error: mlua::Error| format!("ERR {error}").into_bytes();
        let (environment, meta) = self.environment(&gathered).map_err(ours)?;
        let shared = Rc::clone(&self.shared);
        let code = after_shebang(code);
        let compiled = slot::with_host(host, &shared, || {
            self.compiled(code, LIBRARY_NAME, Some(&environment))
        });
        let (function, _) = compiled.map_err(|unloaded| match unloaded {
            LoadFault::Refused(message) => {
                let what = b"ERR Error compiling function: ".as_slice();
                LoadFault::Refused([what, &message].concat())
            }
            LoadFault::Aborted => LoadFault::Aborted,
        })?;
        let ended: RunResult = slot::with_host(host, &shared, || self.bridge.load.call(function));
        match ended.map_err(ours)? {
            (DONE, _) => {}
            (ABORTED, _) => return Err(LoadFault::Aborted),
            (_, error) => {
                let message = faults::bare(&error);
                let what = b"ERR Error registering functions: ".as_slice();
                return Err(LoadFault::Refused([what, &message].concat()));
            }
        }
        // From now on it has the globals of functions.
        let opened = self.bridge.readonly(&meta, false);
        opened.and_then(|()| meta.raw_set("__index", &self.sandbox.shared)).map_err(ours)?;
        self.bridge.readonly(&meta, true).map_err(ours)?;
        let gathered = gathered.take();
        loading::judge(&gathered)?;
        Ok(gathered)
    }

    /// A library's own globals, with their metatable: empty, and behind them only `redis`.
    fn environment(
        &self,
        gathered: &RegisteredFunctions,
    ) -> mlua::Result<(mlua::Table, mlua::Table)> {
        let redis = loading::table(&self.lua, &self.bridge, gathered)?;
        self.sandbox.shut(&self.lua, &self.bridge, &redis)?;
        let visible = self.lua.create_table()?;
        visible.raw_set("redis", &redis)?;
        visible.raw_set("server", &redis)?;
        self.sandbox.shut(&self.lua, &self.bridge, &visible)?;
        let (environment, meta) = (self.lua.create_table()?, self.lua.create_table()?);
        meta.raw_set("__index", visible)?;
        environment.set_metatable(Some(meta.clone()))?;
        self.bridge.readonly(&meta, true)?;
        self.bridge.readonly(&environment, true)?;
        Ok((environment, meta))
    }

    /// FCALL: loads the library into this VM if needed, and calls its function.
    #[allow(clippy::too_many_arguments, reason = "FCALL has that many parts")]
    pub fn call_function(
        &mut self,
        library: &Arc<Library>,
        function: &[u8],
        keys: &[&[u8]],
        args: &[&[u8]],
        version: Version,
        host: &mut dyn ScriptHost,
        reply: &mut Vec<u8>,
    ) -> Result<(), Abort> {
        let at = match self.libraries.iter().position(|one| Arc::ptr_eq(&one.library, library)) {
            Some(at) => at,
            None => match self.keep(library, host) {
                Ok(at) => at,
                Err(LoadFault::Refused(message)) => {
                    Reply::new(reply, version).error(message);
                    return Ok(());
                }
                Err(LoadFault::Aborted) => return Err(Abort),
            },
        };
        let Some(function) = self.libraries[at].functions.get(function) else {
            Reply::new(reply, version).error("ERR Function not found");
            return Ok(());
        };
        self.perform(&self.bridge.call, function, (keys, args), version, host, reply)
    }

    /// Loads a library to stay, in place of an older one with its name; returns its index.
    fn keep(
        &mut self,
        library: &Arc<Library>,
        host: &mut dyn ScriptHost,
    ) -> Result<usize, LoadFault> {
        let mut before_bytes = self.memory_bytes();
        let mut gathered = self.gather(&library.code, host);
        // Dropped libraries are loaded again when they are called.
        while matches!(&gathered, Err(LoadFault::Refused(message)) if message.ends_with(NO_MEMORY))
            && self.libraries.pop_front().is_some()
        {
            let _ = self.lua.gc_collect();
            before_bytes = self.memory_bytes();
            gathered = self.gather(&library.code, host);
        }
        let gathered = gathered?;
        let functions = gathered.into_iter().map(|(facts, function)| (facts.name, function));
        self.libraries.retain(|one| one.library.name != library.name);
        if self.libraries.len() >= self.limits.scripts.max(1) {
            self.libraries.pop_front();
        }
        let (library, functions) = (Arc::clone(library), functions.collect());
        let bytes = self.memory_bytes().saturating_sub(before_bytes);
        self.libraries.push_back(LoadedLibrary { library, bytes, functions });
        Ok(self.libraries.len() - 1)
    }
}

/// A library's code from the end of its shebang line on, so that lines keep their numbers.
fn after_shebang(code: &[u8]) -> &[u8] {
    let end = code.iter().position(|byte| *byte == b'\n');
    if code.starts_with(b"#!") { &code[end.unwrap_or(code.len())..] } else { code }
}
