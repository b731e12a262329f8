//! `fuzz_lua --seconds N --seed S`: scripts from anywhere, and the conversions between Lua and the
//! server.
//!
//! A case runs scripts made of pieces of Lua, whole and damaged ones, in a small VM whose host
//! answers with well-formed and damaged replies and ends a run at a random tick. Each run gives a
//! well-formed reply or an abort; never a panic, nor a crash, which is the purpose: the interpreter
//! is C. The VM is sound afterwards.

use std::cell::RefCell;
use std::sync::Arc;

use pantala_base::Rng;
use pantala_protocol::{Version, value};
use pantala_scripting::{Abort, LogLevel, Script, ScriptHost, Vm, VmLimits};

const PIECES: [&str; 72] = [
    "local t={} ",
    "for i=1,20 do ",
    "end ",
    "t[#t+1]=i ",
    "function f(...) ",
    "return ",
    "{...} ",
    "pcall(",
    "error(",
    ")",
    "(",
    "redis.call('a',ARGV[1])",
    "redis.pcall(",
    "ARGV[1]",
    "KEYS[1]",
    "string.rep('ab',300)",
    "string.find(s,'%w-(.-)b*$')",
    "s:gsub('.',f)",
    "coroutine.wrap(f)",
    "coroutine.yield(1)",
    "setmetatable({},{__index=f,__newindex=f,__call=f,__lt=f,__concat=f})",
    "local s='x'..tostring(1e15) ",
    "unpack(t,1,30)",
    "table.sort(t,f)",
    "table.insert(t,1,2)",
    "table.concat(t,',')",
    "select('#',...)",
    "loadstring(",
    "string.dump(f)",
    "collectgarbage()",
    "local f=function(...) return ... end ",
    "while true do ",
    "break ",
    "if x then ",
    "else ",
    "repeat ",
    "until true ",
    "local a,b,c=1,nil,'z' ",
    "a.b.c=1 ",
    "t[1e9]=1 ",
    "t[-1]=nil ",
    "1/0",
    "0/0",
    "2^53",
    "#t",
    "not ",
    "..",
    "==",
    "<",
    ",",
    ";",
    "[[x]]",
    "[==[y]==]",
    "--[[c]]",
    "\\",
    "\"\\255\\0\"",
    "next(t)",
    "for k,v in pairs(t) do t[k]=nil ",
    "string.format('%5.2f%q',1,",
    "math.random(10)",
    "redis.setresp(3) ",
    "{ok='s'}",
    "{err='E'}",
    "{map={a={double=1.5}}}",
    "{set={1,2}}",
    "{verbatim_string={format='txt',string='v'}}",
    "cjson.decode('[1,{}]')",
    "xpcall(f,f)",
    "getmetatable('')",
    "t=t ",
    "{t,{t}}",
    "string.byte(s,1,-1)",
];
const WHOLE: [&str; 6] = [
    "local s='' for i=1,200 do s=s..i end return s:gsub('%d+',function(d) return d+1 end)",
    "local t={} for i=1,500 do t['k'..i]={i,{i}} end for k in pairs(t) do t[k]=nil end return t",
    "local co=coroutine.create(function(...) while true do local x=coroutine.yield(...) end end) \
     for i=1,50 do coroutine.resume(co,i,{}) end return {pcall(coroutine.resume,co)}",
    "local r={} for i=1,30 do r[i]=redis.pcall('x',i,i/3) end redis.setresp(3) \
     for i=31,60 do r[i]=redis.pcall('x') end return r",
    "local t={} for i=1,100 do t[i]=(i*7919)%101 end table.sort(t,function(a,b) return a>b end) \
     return {t,unpack(t,1,50)}",
    "return loadstring('local a={...} return '..string.rep('{',50)..string.rep('}',50))(1,2)",
];

struct Anybody<'r> {
    rng: &'r mut Rng,
    ticks: u64,
}

impl ScriptHost for Anybody<'_> {
    fn call(&mut self, args: &[&[u8]], _: Version, reply: &mut Vec<u8>) -> Result<(), Abort> {
        const REPLIES: [&str; 14] = [
            "+OK\r\n",
            "-ERR x\r\n",
            ":7\r\n",
            "$3\r\nabc\r\n",
            "$-1\r\n",
            "*0\r\n",
            "_\r\n",
            "*3\r\n:1\r\n$1\r\na\r\n*1\r\n+s\r\n",
            "%1\r\n+k\r\n,1.5\r\n",
            "~2\r\n:1\r\n_\r\n",
            "#t\r\n",
            "(123\r\n",
            "=5\r\ntxt:v\r\n",
            "*2\r\n$9\r\nshort\r\n",
        ];
        assert!(!args.is_empty());
        let text = REPLIES[self.rng.below(REPLIES.len() as u64) as usize];
        reply.extend_from_slice(text.as_bytes());
        damage(self.rng, reply);
        if self.rng.below(200) == 0 { Err(Abort) } else { Ok(()) }
    }

    fn may_run(&mut self, _: &[&[u8]]) -> Result<bool, Vec<u8>> {
        Ok(true)
    }

    fn log(&mut self, _: LogLevel, _: &[u8]) {}

    fn tell(&mut self, _: bool, _: bool) {}

    fn tick(&mut self, _: u64) -> Result<(), Abort> {
        self.ticks = self.ticks.saturating_sub(1);
        if self.ticks == 0 { Err(Abort) } else { Ok(()) }
    }
}

thread_local! {
    static VM: RefCell<Option<Vm>> = const { RefCell::new(None) };
}

fn main() -> std::process::ExitCode {
    pantala_fuzz::run("fuzz_lua", case)
}

fn case(seed: u64) {
    let mut rng = Rng::from_seed(seed);
    let limits = VmLimits {
        memory_bytes: 4 << 20,
        scripts: 20,
        scripts_bytes: 1 << 20,
        reply_bytes: 1 << 20,
    };
    let mut vm = VM.take().unwrap_or_else(|| Vm::new(limits));
    for _ in 0..20 {
        let body = source(&mut rng);
        let Ok(script) = Script::new(&body) else { continue };
        let version = if rng.below(2) == 0 { Version::Resp2 } else { Version::Resp3 };
        let ticks = 1 + rng.below(30);
        let mut host = Anybody { rng: &mut rng, ticks };
        let mut reply = Vec::new();
        let script = Arc::new(script);
        match vm.run(&script, &[b"k"], &[b"a", b"b"], version, &mut host, &mut reply) {
            Ok(()) => {
                let read = value::parse(&reply);
                let whole = matches!(read, Ok(Some((_, len))) if len == reply.len());
                let shown = String::from_utf8_lossy(&reply[..reply.len().min(200)]);
                assert!(whole, "{}: {shown}", String::from_utf8_lossy(&body));
            }
            Err(Abort) => assert!(reply.is_empty()),
        }
    }
    let script = Script::new(b"return string.rep('x',3)..#KEYS");
    let Ok(script) = script else { panic!("the script has no shebang") };
    let (mut reply, mut host) = (Vec::new(), Anybody { rng: &mut rng, ticks: 9 });
    let ran = vm.run(&Arc::new(script), &[], &[], Version::Resp2, &mut host, &mut reply);
    assert!(ran.is_ok() && reply == b"$4\r\nxxx0\r\n", "{}", String::from_utf8_lossy(&reply));
    assert!(vm.memory_bytes() < 8 << 20);
    VM.set(Some(vm));
}

fn source(rng: &mut Rng) -> Vec<u8> {
    let mut body = Vec::new();
    if rng.below(3) == 0 {
        body.extend_from_slice(WHOLE[rng.below(WHOLE.len() as u64) as usize].as_bytes());
        damage(rng, &mut body);
        return body;
    }
    body.extend_from_slice(b"local t,s,x={},'abab',1 local f=function(...) return ... end ");
    for _ in 0..1 + rng.below(12) {
        body.extend_from_slice(PIECES[rng.below(PIECES.len() as u64) as usize].as_bytes());
        body.push(b' ');
    }
    damage(rng, &mut body);
    body
}

fn damage(rng: &mut Rng, bytes: &mut Vec<u8>) {
    if rng.below(3) > 0 {
        return;
    }
    for _ in 0..rng.below(4) {
        let at = rng.below(bytes.len() as u64 + 1) as usize;
        match rng.below(4) {
            0 if at < bytes.len() => bytes[at] = rng.next_u64() as u8,
            1 => bytes.insert(at, rng.next_u64() as u8),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            _ => bytes.truncate(at),
        }
    }
}
