//! The cost of a script without the commands it runs: `cargo run --profile fast -p
//! pantala-scripting --example call_cost`.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use pantala_protocol::Version;
use pantala_scripting::{Abort, LogLevel, Script, ScriptHost, Vm, VmLimits};

struct Still;

impl ScriptHost for Still {
    fn call(&mut self, args: &[&[u8]], _: Version, reply: &mut Vec<u8>) -> Result<(), Abort> {
        let set = black_box(args)[0] == b"SET";
        reply.extend_from_slice(if set { b"+OK\r\n" } else { b"$5\r\nhello\r\n" });
        Ok(())
    }

    fn may_run(&mut self, _: &[&[u8]]) -> Result<bool, Vec<u8>> {
        Ok(true)
    }

    fn log(&mut self, _: LogLevel, _: &[u8]) {}

    fn tell(&mut self, _: bool, _: bool) {}

    fn tick(&mut self, _: u64) -> Result<(), Abort> {
        Ok(())
    }
}

fn main() {
    let mut vm = Vm::new(VmLimits::default());
    let scripts = [
        ("nothing", "return 1", 0, 0),
        ("GET", "return redis.call('GET',KEYS[1])", 1, 0),
        ("GET, two arguments", "return redis.call('GET',KEYS[1])", 1, 2),
        ("SET", "return redis.call('SET',KEYS[1],ARGV[1])", 1, 1),
        ("10 GETs", "for i=1,10 do redis.call('GET',KEYS[1]) end return 1", 1, 0),
        ("a list of 10", "return {1,2,3,4,5,6,7,8,9,'x'}", 0, 0),
        ("1000 bit.band", "local f=bit.band for i=1,1000 do f(i,255) end", 0, 0),
        ("100 struct", "for i=1,100 do struct.unpack('>HI', struct.pack('>HI', 7, i)) end", 0, 0),
        (
            "cjson of 100 texts",
            "local t={} for i=1,100 do t[i]='text'..i end cjson.decode(cjson.encode(t))",
            0,
            0,
        ),
        (
            "cmsgpack of 100 texts",
            "local t={} for i=1,100 do t[i]='text'..i end cmsgpack.unpack(cmsgpack.pack(t))",
            0,
            0,
        ),
    ];
    let rounds: u32 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(300_000);
    let only: Option<usize> = std::env::args().nth(2).and_then(|n| n.parse().ok());
    for (at, (name, body, keys, args)) in scripts.into_iter().enumerate() {
        if only.is_some_and(|only| only != at) {
            continue;
        }
        let script = Arc::new(Script::new(body.as_bytes()).expect("there is no shebang line"));
        let keys: Vec<&[u8]> = vec![b"key:000012345"; keys];
        let args: Vec<&[u8]> = vec![b"some value"; args];
        let mut reply = Vec::new();
        let start = Instant::now();
        for _ in 0..rounds {
            reply.clear();
            let ran = vm.run(&script, &keys, &args, Version::Resp2, &mut Still, &mut reply);
            assert!(ran.is_ok());
        }
        let each_ns = start.elapsed().as_nanos() / u128::from(rounds);
        println!("{name}: {each_ns} ns, {} bytes in use", vm.memory_bytes());
    }
}
