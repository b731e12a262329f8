//! Every script ends, whatever it does: limits on memory, depth and time, and aborts.

mod fake;

use fake::Bench;
use pantala_scripting::VmLimits;

fn small() -> Bench {
    Bench::with(VmLimits { memory_bytes: 8 << 20, ..VmLimits::default() })
}

/// Checks that the run is aborted at its 20th tick, neither earlier nor later.
#[track_caller]
fn endless(body: &str) {
    let mut bench = Bench::new();
    bench.host.last_tick = 20;
    bench.check(body, "aborted");
    assert_eq!(bench.host.ticks, 20, "{body}");
    bench.check("return 'alive'", "$5|alive|");
}

#[test]
fn endless_scripts_are_asked() {
    endless("while true do end");
    endless("repeat local x=1 until false");
    endless("for i=1,math.huge do end");
    endless("local function f() return f() end f()");
    endless("while true do coroutine.wrap(function() for i=1,500 do local x=i end end)() end");
    endless("while true do pcall(error) end");
    endless(
        "local t=setmetatable({},{__index=function(t,k) return t[k+1] end}) while true do \
            pcall(function() return t[1] end) end",
    );
    endless("while true do string.rep('x',100000) end");
    endless("while true do redis.call('ping') end");
    endless("while true do loadstring('return 1')() end");
}

/// Nested coroutines share one limit, at any depth.
#[test]
fn coroutines_in_coroutines_are_asked() {
    let body = "local function f(d) if d==0 then for i=1,100 do local x=i end return end \
                for i=1,100 do coroutine.wrap(f)(d-1) end end f(20)";
    endless(body);
}

#[test]
fn an_abort_passes_everything() {
    endless("while true do pcall(function() while true do end end) end");
    endless("while true do xpcall(function() while true do end end, function() end) end");
    let handler = "while true do xpcall(function() while true do end end, \
                   function() while true do end end) end";
    endless(handler);
    endless(
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    );
    endless("local w=coroutine.wrap(function() while true do end end) while true do pcall(w) end");
    endless("string.gsub('aaa','a',function() while true do end end)");
    endless("table.sort({3,2,1},function() while true do end end)");
    endless("load(function() while true do end end)");
    endless("return tostring(setmetatable({},{__tostring=function() while true do end end}))");
    let mut bench = Bench::new();
    for call in ["redis.call('abort')", "redis.pcall('abort')", "pcall(redis.call,'abort')"] {
        bench.check(&format!("{call} return 1"), "aborted");
        bench.check(&format!("coroutine.wrap(function() {call} end)() return 1"), "aborted");
        bench.check(&format!("pcall(pcall,pcall,function() {call} end) return 1"), "aborted");
        bench.check(&format!("string.gsub('a','a',function() {call} end) return 1"), "aborted");
    }
    bench.check("return 'alive'", "$5|alive|");
}

/// The interpreter counts one instruction, but it takes very long.
#[test]
fn library_functions_are_asked() {
    endless("local s=string.rep('a',5000) while true do string.find(s,'.-.-.-.-b') end");
    endless("string.find(string.rep('a',40),string.rep('a?',40)..string.rep('a',40))");
    endless(
        "string.find(string.rep('a',1000000),'.-b.-c.-d') \
            string.find(string.rep('a',1e5),'(.-)(.-)(.-)(.-)b')",
    );
    endless(
        "string.find(string.rep('a',1000000),string.rep('a',500000)..'b',1,true) while true do end",
    );
    endless("table.insert({},-2147483648,1)");
    endless(
        "local t={} for i=1,100000 do t[i]=i end while true do table.insert(t,1,0) \
            table.remove(t,1) end",
    );
    endless("local t={} for i=1,100000 do t[i]='x' end while true do table.concat(t) end");
    endless("local t={} for i=1,100000 do t[i]=i%1000 end while true do table.sort(t) end");
    endless(
        "local t={} for i=1,100000 do t['k'..i]=1 end for k in pairs(t) do t[k]=nil end while \
            true do next(t) end",
    );
    endless(
        "local t={} for i=1,10000 do t[i]=i end while true do table.foreach(t,type) \
            table.foreachi(t,type) table.maxn(t) end",
    );
    endless("local s=string.rep('x=1 ',200000) while true do loadstring(s) end");
    endless("local s=string.rep('x',1000000) while true do s:upper() s:reverse() end");
    endless("while true do collectgarbage() end");
    endless("local t={} for i=1,7000 do t[i]=1 end while true do unpack(t) end");
}

#[test]
fn memory_is_bounded() {
    let bombs = [
        "local t={} while true do t[#t+1]={} end",
        "local s='x' while true do s=s..s end",
        "local t={} for i=1,1e9 do t['k'..i]=string.rep('y',100) end",
        "return string.rep('x',1e9)",
        "return string.rep(string.rep('x',1e6),1e3)",
        "local t={} for i=1,1e7 do t[i]=i end",
        "local t={} for i=1,1e9 do t[i]=function() return i end end",
        "local t={} for i=1,1e9 do t[i]=coroutine.create(function() end) end",
        "return loadstring('return {'..string.rep('{},',1000000)..'}')()",
        "return table.concat({string.rep('x',4e6),string.rep('y',4e6),string.rep('z',4e6)})",
        "return \
            string.format('%s%s%s',string.rep('x',4e6),string.rep('x',4e6),string.rep('x',4e6))",
        "return (string.gsub(string.rep('x',1e6),'x',string.rep('y',100)))",
        "local t={} for i=1,1e9 do t[i]=redis.call('echo',string.rep('z',100)..i) end",
        "return redis.call('raw','$9000000\\r\\n'..string.rep('x',1)..'\\r\\n')",
    ];
    let mut bench = small();
    let empty = bench.vm.memory_bytes();
    for bomb in &bombs[..13] {
        bench.fails(bomb, "not enough memory");
        assert!(bench.vm.memory_bytes() < empty + (2 << 20), "memory comes back: {bomb}");
        bench.check("return 1", ":1|");
    }
    bench.fails(bombs[13], "");
}

/// Catching the error does not lift the limit.
#[test]
fn memory_is_bounded_for_who_catches_the_error() {
    let mut bench = small();
    bench.host.last_tick = 1_000;
    let body = "local keep={} while true do pcall(function() while true do \
                keep[#keep+1]=string.rep('x',1000) end end) end";
    bench.check(body, "aborted");
    assert!(bench.vm.memory_bytes() < 4 << 20);
    let body = "local ok,e=pcall(function() local t={} while true do t[#t+1]={} end end) return e";
    bench.says(body, "not enough memory");
}

/// A script does not fail because of garbage that could be collected.
#[test]
fn garbage_does_not_count() {
    let mut bench = small();
    bench.check("for i=1,2000 do local s=string.rep('x',100000)..i end return 1", ":1|");
    bench.check("for i=1,200000 do local t={i,{i}} end return 1", ":1|");
    bench.check(
        "local k={} for i=1,40 do k[i]=string.rep('x',100000)..i end \
                 for i=1,300 do local s=string.rep('y',100000)..i end return #k",
        ":40|",
    );
    for round in 0..300 {
        bench.check(
            &format!("return #string.rep('x',1000000)+{round}"),
            &format!(":{}|", 1_000_000 + round),
        );
    }
}

#[test]
fn depth_is_bounded() {
    let mut bench = Bench::new();
    bench.fails("local function f() return 1+f() end return f()", "stack overflow");
    bench.check("local function f() return pcall(f) and 1 end return 1+f()", ":2|");
    bench.fails(
        "return loadstring('return '..string.rep('(',10000)..'1'..string.rep(')',10000))()",
        "",
    );
    bench.fails("assert(loadstring(string.rep('do ',1000)..string.rep(' end',1000)))", "too many");
    bench.fails("local function f(s) return (string.gsub(s,'.',f)) end return f('a')", "overflow");
    bench.fails("local function f() return coroutine.wrap(f)() end return f()", "C stack overflow");
    bench.fails(
        "local t={} for i=1,1e5 do t=setmetatable({},{__index=t}) end return t.x",
        "loop in gettable",
    );
    bench.fails(
        "return string.find(string.rep('a',1e5),string.rep('a?',1e5))",
        "pattern too complex",
    );
    bench.fails("return string.find('a',string.rep('(',1e5))", "");
    bench.fails(
        "return string.find(string.rep('a',1e5),string.rep('a-',1e5)..'b')",
        "pattern too complex",
    );
    bench.fails("return unpack({},1,1e6)", "too many results to unpack");
    bench.fails("return string.byte(string.rep('x',1e6),1,-1)", "string slice too long");
    bench.fails(
        "local t=setmetatable({},{}) getmetatable(t).__lt=function(a,b) return a<b end return t<t",
        "overflow",
    );
    bench.fails("return ('x'):rep(2^31-1):rep(2^31-1)", "");
    bench.check("return 'alive'", "$5|alive|");
}

/// The number of compiled scripts is limited; a dropped one is compiled again when it is called.
#[test]
fn compiled_scripts_are_bounded() {
    let mut bench = Bench::with(VmLimits { scripts: 10, ..VmLimits::default() });
    let start = bench.vm.memory_bytes();
    for _ in 0..2 {
        for script in 0..1000 {
            bench.check(&format!("return {script}"), &format!(":{script}|"));
        }
    }
    bench.vm.forget();
    assert!(bench.vm.memory_bytes() < start + 50_000);
}

/// A script with very many numbers in it, a different one for each name.
fn large(name: usize) -> String {
    let numbers: Vec<String> =
        (0..20_000).map(|number| (number * 1_000 + name).to_string()).collect();
    format!("local t = {{{}}} return {name}", numbers.join(","))
}

/// Large scripts never fill the memory in which all of them run: the oldest are dropped.
#[test]
fn large_compiled_scripts_are_bounded() {
    let scripts_bytes = 4 << 20;
    let mut bench =
        Bench::with(VmLimits { memory_bytes: 8 << 20, scripts_bytes, ..VmLimits::default() });
    let start = bench.vm.memory_bytes();
    let grows = "return #string.rep('x', 1500000)";
    for name in 0..100 {
        bench.check(&large(name), &format!(":{name}|"));
        bench.check(grows, ":1500000|");
    }
    // One that was dropped is compiled again.
    bench.check(&large(0), ":0|");
    bench.vm.forget();
    assert!(bench.vm.memory_bytes() < start + 100_000);
    // Without room for more than one.
    let mut bench =
        Bench::with(VmLimits { memory_bytes: 4 << 20, scripts_bytes: 1, ..VmLimits::default() });
    for name in (0..30).chain(0..3) {
        bench.check(&large(name), &format!(":{name}|"));
    }
    bench.fails(&format!("--{}", "x".repeat(5 << 20)), "not enough memory");
    bench.check("return 1", ":1|");
}

/// Libraries that fill the memory make room for the one that is called.
#[test]
fn large_libraries_make_room() {
    let mut bench = small();
    let code = |name: usize| {
        let code = "local t, i = {}, 1 while i < 60000 do t[i] = i i = i + 1 end \
            redis.register_function('f', function() return #t + ";
        format!("{code}{name} end)")
    };
    let libraries: Vec<_> = (0..20)
        .map(|name| {
            let library = Bench::new().load(&code(name)).expect("it registers");
            let mut library = std::sync::Arc::into_inner(library).expect("nobody else has it");
            library.name = format!("lib{name}").into_bytes();
            std::sync::Arc::new(library)
        })
        .collect();
    for _ in 0..2 {
        for (name, library) in libraries.iter().enumerate() {
            assert_eq!(bench.fcall(library, "f"), format!(":{}|", 59_999 + name));
        }
    }
}

/// Keys and arguments count, too: they are copied into Lua's memory.
#[test]
fn arguments_are_within_the_limit_of_memory() {
    let mut bench = small();
    let long = vec![b'x'; 5_000_000];
    for _ in 0..5 {
        assert_eq!(bench.eval("return #ARGV[1]", &[], &[&long]), Some(b":5000000\r\n".to_vec()));
    }
    let before = bench.vm.memory_bytes();
    for (keys, args) in [(&[&long[..], &long[..]][..], &[][..]), (&[&long[..]], &[&long[..]])] {
        let reply = bench.eval("return 1", keys, args).expect("a reply");
        let text = "-ERR not enough memory for the keys and arguments of the script\r\n";
        assert_eq!(String::from_utf8_lossy(&reply), text);
    }
    assert!(bench.vm.memory_bytes() <= before);
    bench.check("return 1", ":1|");
    bench.vm.limit_memory(0);
    assert!(bench.eval("return 1", &[], &[&long, &long]).is_some_and(|reply| reply[0] == b':'));
}

/// Replies and arguments of any size are passed on.
#[test]
fn large_things() {
    let mut bench = Bench::new();
    let reply = bench.eval("return redis.call('echo',ARGV[1])", &[], &[&vec![b'x'; 5_000_000]]);
    assert_eq!(reply.map(|reply| reply.len()), Some(5_000_000 + 12));
    bench.check(
        "local t={} for i=1,7998 do t[i]=i end return redis.call('count',unpack(t))",
        ":7998|",
    );
    bench.check(
        "return #redis.call('mget',unpack({},1,7000))",
        "-ERR Command arguments must be strings or integers script: on @user_script:1.|",
    );
    let reply = bench.text("local t={} for i=1,100000 do t[i]=i end return t");
    assert!(reply.starts_with("*100000|:1|:2|"));
}

/// A panic in a command is our own bug: it passes through the script, and the VM is sound
/// afterwards.
#[test]
fn a_panic_passes_the_script() {
    let mut bench = Bench::new();
    for call in ["redis.call('panic')", "pcall(redis.pcall,'panic')"] {
        let body = format!("{call} while true do end");
        let run = std::panic::AssertUnwindSafe(|| bench.text(&body));
        let panic = std::panic::catch_unwind(run).expect_err("it goes on panicking");
        assert_eq!(panic.downcast_ref(), Some(&"a command panics"));
        bench.check("return redis.call('echo','alive')", "$5|alive|");
    }
}

#[test]
fn the_limit_of_memory_changes_between_runs() {
    let mut bench = small();
    let body = "return #string.rep('x', 10000000)";
    bench.fails(body, "not enough memory");
    bench.vm.limit_memory(0);
    bench.check(body, ":10000000|");
    bench.check("return #cjson.encode(string.rep('x', 10000000))", ":10000002|");
    bench.vm.limit_memory(1 << 20);
    bench.fails(body, "not enough memory");
    bench.fails("return #cmsgpack.pack(string.rep('x', 500000))", "not enough memory");
    bench.check("return 'alive'", "$5|alive|");
}

#[test]
fn an_abort_tells_the_line() {
    let mut bench = Bench::new();
    for (body, line) in [
        ("return 1", None),
        ("\nredis.call('ABORT')", Some(2)),
        ("pcall(function()\n\nredis.call('ABORT') end)", Some(3)),
        ("\n\n\ncoroutine.wrap(function() redis.call('ABORT') end)()", Some(4)),
    ] {
        bench.text(body);
        assert_eq!(bench.vm.aborted_line(), line, "{body}");
    }
    bench.host.last_tick = bench.host.ticks + 1;
    bench.check("\nwhile true do end", "aborted");
    assert_eq!(bench.vm.aborted_line(), Some(2));
}

#[test]
fn libraries_are_weighed() {
    let mut bench = Bench::new();
    let library =
        bench.load("redis.register_function('f', function() return 1 end)").expect("it registers");
    assert_eq!(bench.vm.library_bytes(), 0);
    assert_eq!(bench.fcall(&library, "f"), ":1|");
    assert!((100..100_000).contains(&bench.vm.library_bytes()));
    bench.vm.forget();
    assert_eq!(bench.vm.library_bytes(), 0);
}
