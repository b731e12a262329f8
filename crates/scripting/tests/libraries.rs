//! Libraries of FUNCTION: what they can use while they load, what they register, how they are
//! called.

mod fake;

use fake::Bench;
use pantala_scripting::Flags;

#[track_caller]
fn refused(code: &str, expected: &str) {
    let loaded = Bench::new().load(&format!("#!lua name=lib\n{code}"));
    assert_eq!(loaded.err().as_deref(), Some(expected), "{code}");
}

/// Loads the code, calls `f`, and checks the reply.
#[track_caller]
fn calls(code: &str, expected: &str) {
    let mut bench = Bench::new();
    let library = bench.load(&format!("#!lua name=lib\n{code}")).expect("it loads");
    assert_eq!(bench.fcall(&library, "f"), expected, "{code}");
}

const REGISTER: &str = "ERR Error registering functions: ERR ";

#[test]
fn forms_of_registration() {
    calls("redis.register_function('f',function() return 1 end)", ":1|");
    calls("server.register_function('f',function() return 1 end)", ":1|");
    calls("redis.register_function{function_name='f',callback=function() return 1 end}", ":1|");
    let mut bench = Bench::new();
    let code = "#!lua name=l\nredis.register_function{function_name='f',callback=function() end,\
                description='what it does',flags={'allow-oom','no-writes'}} \
                redis.register_function(1,function() end)";
    let library = bench.load(code).unwrap();
    assert_eq!(library.functions.len(), 2);
    assert_eq!(library.functions[0].description.as_deref(), Some(&b"what it does"[..]));
    assert_eq!(library.functions[0].flags, Flags::NO_WRITES.with(Flags::ALLOW_OOM));
    assert_eq!(library.functions[1].name, b"1");
}

#[test]
fn what_registration_refuses() {
    let refused = |code: &str, text: &str| refused(code, &format!("{REGISTER}{text}"));
    refused("redis.register_function()", "wrong number of arguments to server.register_function");
    refused(
        "redis.register_function('f')",
        "calling server.register_function with a single argument is only applicable to Lua table \
         (representing named arguments).",
    );
    refused(
        "redis.register_function('f',function() end,3)",
        "wrong number of arguments to server.register_function",
    );
    refused(
        "redis.register_function('f',1)",
        "second argument to server.register_function must be a function",
    );
    refused(
        "redis.register_function{}",
        "server.register_function must get a function name argument",
    );
    refused(
        "redis.register_function{function_name='f'}",
        "server.register_function must get a callback argument",
    );
    refused(
        "redis.register_function{function_name='f',callback=1}",
        "callback argument given to server.register_function must be a function",
    );
    let with = |field: &str| {
        format!("redis.register_function{{function_name='f',callback=function() end,{field}}}")
    };
    refused(&with("flags={'no-writes','x'}"), "unknown flag given");
    refused(&with("flags={1}"), "unknown flag given");
    refused(
        &with("flags='no-writes'"),
        "flags argument to server.register_function must be a table representing function flags",
    );
    refused(&with("foo=1"), "unknown argument given to server.register_function");
    refused(&with("[1]=1"), "unknown argument given to server.register_function");
}

#[test]
fn names_and_numbers_of_functions() {
    let names = "ERR Function names can only contain letters, numbers, or underscores(_) and must \
                 be at least one character long";
    refused("redis.register_function('',function() end)", names);
    refused("redis.register_function('a b',function() end)", names);
    refused(
        "redis.register_function('f',function() end) redis.register_function('f',function() end)",
        "ERR Function already exists in the library",
    );
    refused("", "ERR No functions registered");
    refused("return 1", "ERR No functions registered");
}

/// While a library loads, it has `redis` and `server`, with few functions in them.
#[test]
fn what_a_library_sees_while_it_loads() {
    let global = |name: &str| {
        format!(
            "{REGISTER}user_function:2: Script attempted to access nonexistent global variable \
                 '{name}'"
        )
    };
    for name in ["string", "pairs", "_G", "KEYS", "error", "math", "foo"] {
        refused(&format!("local x={name}"), &global(name));
    }
    for name in ["call", "pcall", "setresp", "sha1hex", "error_reply", "foo"] {
        refused(&format!("local x=redis.{name}"), &global(name));
    }
    refused("x=1", &format!("{REGISTER}user_function:2: Attempt to modify a readonly table"));
    refused("redis.x=1", &format!("{REGISTER}user_function:2: Attempt to modify a readonly table"));
    refused("if", "ERR Error compiling function: user_function:2: unexpected symbol near '<eof>'");
    calls("local l=redis.LOG_DEBUG redis.register_function('f',function() return l end)", ":0|");
    let mut bench = Bench::new();
    let code = "#!lua name=l\nredis.log(redis.LOG_NOTICE,'loading') \
                redis.register_function('f',function() end)";
    assert!(bench.load(code).is_ok());
    assert_eq!(bench.host.logged.len(), 1);
}

#[test]
fn what_a_function_sees() {
    let body = |code: &str| format!("redis.register_function('f',function(keys,args) {code} end)");
    calls(&body("return {#keys,#args}"), "*2|:0|:0|");
    calls(&body("return type(string)"), "$5|table|");
    let at = "script: on @user_function:2.";
    let missing = |name: &str| {
        format!(
            "-ERR user_function:2: Script attempted to access nonexistent global variable \
                 '{name}' {at}|"
        )
    };
    calls(&body("return KEYS"), &missing("KEYS"));
    calls(&body("return _G.x"), &missing("x"));
    calls(&body("return print"), &missing("print"));
    calls(&body("return __server__err__handler"), &missing("__server__err__handler"));
    calls(&body("x=1"), &format!("-ERR user_function:2: Attempt to modify a readonly table {at}|"));
    calls(&body("error('bad')"), &format!("-ERR user_function:2: bad {at}|"));
    let what = "attempt to call field 'register_function' (a nil value)";
    calls(
        &body("redis.register_function('g',function() end)"),
        &format!("-ERR user_function:2: {what} {at}|"),
    );
    calls(&body("return redis.call('echo','x')"), "$1|x|");
    calls(&body("return tostring(redis==server)"), "$4|true|");
    calls(&body("redis.setresp(3) return redis.call('hgetall','h')"), "*2|$1|f|$1|1|");
}

/// A function does not see the keys of an earlier EVAL.
#[test]
fn functions_do_not_see_keys_of_scripts() {
    let mut bench = Bench::new();
    bench.eval("return 1", &[b"secret"], &[]);
    let code = "#!lua name=l\nredis.register_function('f',function() \
                return loadstring('return KEYS[1]')() end)";
    let library = bench.load(code).unwrap();
    let reply = bench.fcall(&library, "f");
    assert!(reply.contains("nonexistent global variable 'KEYS'"), "{reply}");
}

/// A library's own locals persist in this VM; another load of it has its own.
#[test]
fn locals_of_a_library_persist() {
    let mut bench = Bench::new();
    let code = "#!lua name=l\nlocal n=0 redis.register_function('f',function() n=n+1 return n end)";
    let first = bench.load(code).unwrap();
    assert_eq!(bench.fcall(&first, "f"), ":1|");
    assert_eq!(bench.fcall(&first, "f"), ":2|");
    let second = bench.load(code).unwrap();
    assert_eq!(bench.fcall(&second, "f"), ":1|");
    bench.vm.forget();
    assert_eq!(bench.fcall(&first, "f"), ":1|");
    assert_eq!(bench.fcall(&first, "g"), "-ERR Function not found|");
}

#[test]
fn a_library_that_loads_for_ever_is_ended() {
    let mut bench = Bench::new();
    bench.host.last_tick = 5;
    let loaded = bench.load("#!lua name=l\nwhile true do end");
    assert_eq!(loaded.err().as_deref(), Some("ERR FUNCTION LOAD timeout"));
    let code = "#!lua name=l\nredis.register_function('f',function() while true do end end)";
    let library = bench.load(code).unwrap();
    bench.host.last_tick = bench.host.ticks + 5;
    assert_eq!(bench.fcall(&library, "f"), "aborted");
}

#[test]
fn a_call_that_is_ended_while_its_library_loads_is_aborted() {
    let mut bench = Bench::new();
    let code = "#!lua name=l\nfor i=1,1e5 do end\nredis.register_function('f',function() end)";
    let library = bench.load(code).unwrap();
    bench.host.last_tick = bench.host.ticks + 2;
    assert_eq!(bench.fcall(&library, "f"), "aborted");
    assert_eq!(bench.fcall(&library, "f"), "$-1|");
}
