//! A host for tests: a few commands, and a limit on ticks.
#![allow(dead_code, reason = "each test uses its part")]

use std::collections::HashMap;
use std::sync::Arc;

use pantala_protocol::{Reply, Version};
use pantala_scripting::{Abort, Library, LogLevel, Script, ScriptHost, Vm, VmLimits};

/// Ticks left after the command `ARM`.
pub const ARMED_TICKS: u64 = 20;

/// A host with the commands SET, GET, ECHO, PING, HGETALL, ZSCORE, MGET, ABORT, PANIC, WRONG,
/// COUNT...
#[derive(Default)]
pub struct Fake {
    pub values: HashMap<Vec<u8>, Vec<u8>>,
    pub logged: Vec<(LogLevel, Vec<u8>)>,
    /// The last choice by `set_repl`: files, replicas.
    pub told: (bool, bool),
    pub ticks: u64,
    /// The number of the tick that answers `Abort`; 0: none does.
    pub last_tick: u64,
    pub calls: u64,
}

impl ScriptHost for Fake {
    fn call(&mut self, args: &[&[u8]], version: Version, out: &mut Vec<u8>) -> Result<(), Abort> {
        self.calls += 1;
        let mut reply = Reply::new(out, version);
        match (args[0].to_ascii_uppercase().as_slice(), &args[1..]) {
            (b"SET", [key, value]) => {
                self.values.insert(key.to_vec(), value.to_vec());
                reply.ok();
            }
            (b"GET", [key]) => match self.values.get(*key) {
                Some(value) => reply.bulk(value),
                None => reply.null(),
            },
            (b"MGET", keys) => {
                reply.array(keys.len());
                for key in keys {
                    match self.values.get(*key) {
                        Some(value) => reply.bulk(value),
                        None => reply.null(),
                    }
                }
            }
            (b"ECHO", [text]) => reply.bulk(text),
            (b"PING", []) => reply.simple("PONG"),
            (b"COUNT", args) => reply.int(args.len() as i64),
            (b"HGETALL", [_]) => {
                reply.map(1);
                reply.bulk(b"f");
                reply.bulk(b"1");
            }
            (b"SMEMBERS", [_]) => {
                reply.set(1);
                reply.bulk(b"x");
            }
            (b"ZSCORE", [_, _]) => reply.double(1.5),
            (b"TRUE", []) => reply.bool(true),
            (b"VERBATIM", []) => reply.verbatim(b"txt", b"hello"),
            (b"BIG", []) => reply.big_number(b"12345678901234567890"),
            (b"RAW", [bytes]) => reply.raw(bytes),
            (b"ABORT", _) => return Err(Abort),
            // From here on this many ticks are left.
            (b"ARM", []) => {
                self.last_tick = self.ticks + ARMED_TICKS;
                reply.ok();
            }
            (b"PANIC", _) => panic!("a command panics"),
            (b"WRONG", _) => {
                reply.error("WRONGTYPE Operation against a key holding the wrong kind of value")
            }
            _ => reply.error("ERR Unknown command called from script"),
        }
        Ok(())
    }

    fn may_run(&mut self, args: &[&[u8]]) -> Result<bool, Vec<u8>> {
        match args[0] {
            b"get" => Ok(true),
            b"set" => Ok(false),
            _ => Err(b"ERR Invalid command passed to server.acl_check_cmd()".to_vec()),
        }
    }

    fn log(&mut self, level: LogLevel, message: &[u8]) {
        self.logged.push((level, message.to_vec()));
    }

    fn tell(&mut self, files: bool, replicas: bool) {
        self.told = (files, replicas);
    }

    fn tick(&mut self, _: u64) -> Result<(), Abort> {
        self.ticks += 1;
        if self.ticks == self.last_tick { Err(Abort) } else { Ok(()) }
    }
}

/// A VM and its host.
pub struct Bench {
    pub vm: Vm,
    pub host: Fake,
    pub version: Version,
}

impl Bench {
    pub fn new() -> Bench {
        Bench::with(VmLimits { memory_bytes: 64 << 20, ..VmLimits::default() })
    }

    pub fn with(limits: VmLimits) -> Bench {
        Bench { vm: Vm::new(limits), host: Fake::default(), version: Version::Resp2 }
    }

    /// The reply of a script, or `None` if it was aborted.
    pub fn eval(&mut self, body: &str, keys: &[&[u8]], args: &[&[u8]]) -> Option<Vec<u8>> {
        let script = match Script::new(body.as_bytes()) {
            Ok(script) => Arc::new(script),
            Err(message) => return Some([b"-", &message[..], b"\r\n"].concat()),
        };
        let mut out = Vec::new();
        let host = &mut self.host;
        let ran = self.vm.run(&script, keys, args, self.version, host, &mut out);
        assert!(ran.is_ok() || out.is_empty(), "an aborted run wrote a reply");
        ran.ok().map(|()| out)
    }

    /// The reply of a script without keys, as text with `|` for line ends.
    pub fn text(&mut self, body: &str) -> String {
        match self.eval(body, &[], &[]) {
            Some(reply) => String::from_utf8_lossy(&reply).replace("\r\n", "|"),
            None => "aborted".into(),
        }
    }

    #[track_caller]
    pub fn check(&mut self, body: &str, expected: &str) {
        let found = self.text(body);
        assert_eq!(found, expected, "{body}");
    }

    /// Checks that the reply is this bulk string.
    #[track_caller]
    pub fn says(&mut self, body: &str, expected: &str) {
        self.check(body, &format!("${}|{expected}|", expected.len()));
    }

    /// Checks that the reply is an error whose text contains `expected`.
    #[track_caller]
    pub fn fails(&mut self, body: &str, expected: &str) {
        let found = self.text(body);
        assert!(found.starts_with('-') && found.contains(expected), "{body}: {found}");
    }

    /// Loads a library: its registered functions, or the error.
    pub fn load(&mut self, code: &str) -> Result<Arc<Library>, String> {
        let text = |message: Vec<u8>| String::from_utf8_lossy(&message).into_owned();
        let functions = self.vm.load_library(code.as_bytes(), &mut self.host).map_err(text)?;
        let (name, code) = (b"lib".to_vec(), code.as_bytes().to_vec());
        Ok(Arc::new(Library { name, code, functions }))
    }

    pub fn fcall(&mut self, library: &Arc<Library>, function: &str) -> String {
        let mut out = Vec::new();
        let (name, host) = (function.as_bytes(), &mut self.host);
        let ran = self.vm.call_function(library, name, &[], &[], self.version, host, &mut out);
        match ran {
            Ok(()) => String::from_utf8_lossy(&out).replace("\r\n", "|"),
            Err(Abort) => "aborted".into(),
        }
    }
}
