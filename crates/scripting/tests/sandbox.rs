//! What scripts can reach, and that they leave nothing behind. The known escapes from other
//! servers' sandboxes are tested by their CVE numbers.

mod fake;

use fake::Bench;

#[test]
fn the_globals_are_those_of_the_reference() {
    let body = "local r={} for k,v in pairs(_G) do r[#r+1]=k..':'..type(v) end \
                table.sort(r) return table.concat(r,' ')";
    Bench::new().says(
        body,
        "ARGV:table KEYS:table _G:table _VERSION:string __redis__err__handler:function \
         __server__err__handler:function assert:function bit:table cjson:table cmsgpack:table \
         collectgarbage:function coroutine:table error:function gcinfo:function \
         getmetatable:function ipairs:function load:function loadstring:function math:table \
         next:function os:table pairs:function pcall:function rawequal:function rawget:function \
         rawset:function redis:table select:function server:table setmetatable:function \
         string:table struct:table table:table tonumber:function tostring:function type:function \
         unpack:function xpcall:function",
    );
}

#[test]
fn the_members_are_those_of_the_reference() {
    let mut bench = Bench::new();
    let members = |name: &str| {
        format!(
            "local r={{}} for k in pairs({name}) do r[#r+1]=k end table.sort(r) \
                 return table.concat(r,' ')"
        )
    };
    bench.says(
        &members("redis"),
        "LOG_DEBUG LOG_NOTICE LOG_VERBOSE LOG_WARNING REDIS_VERSION REDIS_VERSION_NUM REPL_ALL \
         REPL_AOF REPL_NONE REPL_REPLICA REPL_SLAVE SERVER_NAME VALKEY_VERSION VALKEY_VERSION_NUM \
         acl_check_cmd breakpoint call debug error_reply log pcall replicate_commands set_repl \
         setresp sha1hex status_reply",
    );
    bench.says(&members("os"), "clock");
    bench.says(&members("coroutine"), "create resume running status wrap yield");
    bench.says(
        &members("string"),
        "byte char dump find format gfind gmatch gsub len lower match rep reverse sub upper",
    );
    bench.says(&members("table"), "concat foreach foreachi getn insert maxn remove setn sort");
    bench.says(
        &members("math"),
        "abs acos asin atan atan2 ceil cos cosh deg exp floor fmod frexp huge ldexp log log10 max \
         min mod modf pi pow rad random randomseed sin sinh sqrt tan tanh",
    );
    bench.check("return redis.REDIS_VERSION_NUM", ":459268|");
    bench.check("return redis.VALKEY_VERSION_NUM", ":590082|");
    bench.says("return redis.VALKEY_VERSION", "9.1.2");
    bench.says("return tostring(redis == server)", "true");
    bench.says("return _VERSION", "Lua 5.1");
}

#[test]
fn what_is_missing_is_an_error() {
    let mut bench = Bench::new();
    let names = "print dofile loadfile require module package debug io newproxy getfenv setfenv \
                 jit foo __pantala";
    for name in names.split_whitespace() {
        let what = format!("Script attempted to access nonexistent global variable '{name}'");
        bench.fails(&format!("return {name}"), &what);
    }
    bench.check("return redis.x", "$-1|");
    bench.check("return os.time", "$-1|");
}

/// The metatable of strings cannot be changed (CVE-2025-46818), among others.
#[test]
fn nothing_shared_can_be_changed() {
    let mut bench = Bench::new();
    let ways = [
        "foo=1",
        "_G.x=1",
        "rawset(_G,'a',1)",
        "setmetatable(_G,{})",
        "KEYS=1",
        "table.insert(_G,1)",
        "redis.x=1",
        "rawset(redis,'call',1)",
        "setmetatable(redis,{})",
        "table.insert(redis,1)",
        "string.x=1",
        "string.rep=nil",
        "math.random=1",
        "os.clock=1",
        "cjson.encode=1",
        "bit.x=1",
        "struct.x=1",
        "cmsgpack.x=1",
        "coroutine.x=1",
        "table.x=1",
        "getmetatable('').x=1",
        "getmetatable('').__index=function() end",
        "setmetatable(getmetatable(''),{})",
        "getmetatable(_G).__index=nil",
        "rawset(getmetatable(_G),'__index',nil)",
        "loadstring('x=1')()",
        "table.remove(redis) redis[1]=1",
        "for k in pairs(redis) do redis[k]=nil end",
        "load(function() return nil end) x=1",
        "setmetatable({},{__newindex=_G}).x=1",
        "coroutine.wrap(function() x=1 end)()",
        "table.sort(redis) redis.y=1",
        "table.insert(redis,1,2)",
    ];
    for way in ways {
        bench.fails(way, "Attempt to modify a readonly table");
    }
    bench.check("return setmetatable({1},{__metatable=1}) and 1", ":1|");
    bench.says("local t={} t.x='y' return t.x", "y");
    bench
        .check("for _,t in pairs({'',1,true}) do if getmetatable(t) then return t end end", "$0||");
}

#[test]
fn keys_and_arguments_are_those_of_the_run() {
    let mut bench = Bench::new();
    let body = "return {KEYS[1],#KEYS,ARGV[1],ARGV[2],#ARGV}";
    let reply = bench.eval(body, &[b"k"], &[b"a", b"\0b"]);
    assert_eq!(
        reply.as_deref(),
        Some(&b"*5\r\n$1\r\nk\r\n:1\r\n$1\r\na\r\n$2\r\n\0b\r\n:2\r\n"[..])
    );
    bench.check("ARGV[1]='x' KEYS.y='z' return ARGV[1]", "$1|x|");
    bench.check("return {tostring(ARGV[1]),tostring(KEYS.y)}", "*2|$3|nil|$3|nil|");
    let many: Vec<Vec<u8>> = (0..100_000).map(|at| at.to_string().into_bytes()).collect();
    let many: Vec<&[u8]> = many.iter().map(|one| &one[..]).collect();
    let reply = bench.eval("return {#KEYS,#ARGV,ARGV[100000],KEYS[1]}", &[b"k"], &many);
    assert_eq!(reply.as_deref(), Some(&b"*4\r\n:1\r\n:100000\r\n$5\r\n99999\r\n$1\r\nk\r\n"[..]));
}

/// Bytecode can do anything, so it is never loaded.
#[test]
fn bytecode_is_refused() {
    let mut bench = Bench::new();
    let refused = "return {type(f),type(e)}";
    let nothing = "*2|$3|nil|$6|string|";
    bench.check(&format!("local f,e=loadstring('\\27Lua') {refused}"), nothing);
    let dumped = "local code=string.dump(function() return 1 end)";
    bench.check(&format!("{dumped} local f,e=loadstring(code) {refused}"), nothing);
    let read = "local f,e=load(function() local c=code code=nil return c end)";
    bench.check(&format!("{dumped} {read} {refused}"), nothing);
    bench.fails("\u{1b}Lua", "Error compiling script");
}

/// CVE-2022-0543 and similar ones: there is no table from which C could be loaded.
#[test]
fn no_way_to_c() {
    let mut bench = Bench::new();
    let body = "local seen={} local function walk(v) \
        if type(v)~='table' or seen[v] then return end \
        seen[v]=true for k,x in pairs(v) do if k=='loadlib' or k=='loaders' or k=='preload' or \
        k=='getinfo' or k=='popen' or k=='execute' then error(k) end walk(x) end \
        walk(getmetatable(v)) end walk(_G) walk(getmetatable('')) return 'none'";
    bench.says(body, "none");
}

#[test]
fn the_small_functions() {
    let mut bench = Bench::new();
    bench.says("return redis.sha1hex('a')", "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8");
    bench.says("return redis.sha1hex(1)", "356a192b7913b04c54574d18c28d46e6395428ab");
    bench.says("return redis.sha1hex({})", "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    bench.check("return redis.replicate_commands()", ":1|");
    bench.check("return redis.set_repl(redis.REPL_ALL)", "$-1|");
    bench.check("return redis.breakpoint()", "$-1|");
    bench.check("return redis.debug(1)", "$-1|");
    bench.check("return {redis.acl_check_cmd('get','a'),1}", "*2|:1|:1|");
    bench.check("return redis.acl_check_cmd('set','a',1)", "$-1|");
    bench.check("redis.log(redis.LOG_WARNING,'a',{},'b',3)", "$-1|");
    assert_eq!(bench.host.logged[0], (pantala_scripting::LogLevel::Warning, b"a  b 3".to_vec()));
    bench.check("return os.clock() >= 0", ":1|");
    bench.check("return gcinfo() > 0 and collectgarbage('count') > 0", ":1|");
    bench.check("return collectgarbage('stop')", ":0|");
    bench.check("return collectgarbage('setpause',1000000)", ":200|");
}

/// The sequences that the reference server gives for a seed.
#[test]
fn random_numbers_of_a_seed() {
    let mut bench = Bench::new();
    let body = "math.randomseed(10) return {math.random(100),math.random(5,10),\
                tostring(math.random())}";
    let first = bench.text(body);
    assert_eq!(first, bench.text(body));
    assert_eq!(first, SEED_10);
    assert_ne!(bench.text("return math.random(1e9)"), bench.text("return math.random(1e9)"));
}

const SEED_10: &str = "*3|:88|:9|$16|0.48082728100979|";

/// The tables of keys and arguments are reused from the last run, and scripts cannot notice it.
#[test]
fn lists_are_new_for_each_script() {
    let mut bench = Bench::new();
    let (keys, args): ([&[u8]; 2], [&[u8]; 3]) = ([b"k1", b"k2"], [b"a1", b"a2", b"a3"]);
    let shows = "local all = {} for _, list in ipairs({KEYS, ARGV}) do for k, v in pairs(list) do \
        all[#all + 1] = k .. '=' .. v end all[#all + 1] = '#' .. #list \
        all[#all + 1] = tostring(getmetatable(list)) .. tostring(list[9]) end \
        return table.concat(all, ' ')";
    let fresh = bench.eval(shows, &keys, &args).expect("a reply");
    for spoils in [
        "KEYS[1] = nil ARGV[3] = nil",
        "KEYS[2] = 'other' ARGV[9] = 'more'",
        "KEYS.name = 1 ARGV.name = KEYS",
        "table.insert(KEYS, 'x') table.remove(ARGV, 1)",
        "setmetatable(KEYS, {__index = function() return 'left' end}) ARGV = nil",
        "for i = 1, 100 do KEYS[i] = i ARGV[i] = i end",
        "for i = 1, 100 do KEYS[i] = i end for i = 1, 100 do KEYS[i] = nil end",
        "local c = coroutine.wrap(function(t) coroutine.yield() t[1] = 'late' end) c(KEYS)",
        "for i = 1, 100000 do local t = {} end collectgarbage()",
    ] {
        for _ in 0..2 {
            bench.eval(spoils, &keys, &args);
            assert_eq!(bench.eval(shows, &keys, &args).as_ref(), Some(&fresh), "{spoils}");
        }
        bench.eval(spoils, &keys, &args);
        bench.eval("return #KEYS", &keys[..1], &args[..1]);
        assert_eq!(bench.eval(shows, &keys, &args).as_ref(), Some(&fresh), "{spoils}");
    }
}
