//! The known holes of Lua 5.1.5 and of the libraries that servers give it, each with a script that
//! crashes or corrupts one that lacks the patch. See third_party/lua-src/PATCHES.md.

mod fake;

use fake::Bench;
use pantala_scripting::VmLimits;

/// CVE-2025-49844: the name of a chunk was collected while it was parsed.
#[test]
fn chunk_names_stay_while_parsing() {
    let mut bench = Bench::with(VmLimits { memory_bytes: 32 << 20, ..VmLimits::default() });
    // A name that nothing else holds, a parse that allocates and collects, then a use of the name.
    let body = "for round=1,20 do \
        local name='@'..string.rep('n',200+round)..round \
        local parts={} for i=1,2000 do parts[i]='local s'..(i%150)..\"='v\"..i..round..\"'\" end \
        local source='do '..table.concat(parts,' end do ')..' end error(1)' parts=nil \
        local f=assert(loadstring(source,name)) name=nil \
        local ok,message=pcall(f) \
        assert(message:find('nnnn'),message) end return 'sound'";
    bench.says(body, "sound");
    let body = "collectgarbage('setpause',1) local n=0 \
        local f=load(function() n=n+1 if n>200 then return nil end collectgarbage() \
        return 'local a'..(n%100)..'=\"'..string.rep('x',n)..'\" ' end, \
        '='..string.rep('c',100)..tostring({})) return type(f)";
    bench.says(body, "function");
}

/// CVE-2025-46819: the level of a long bracket is a size.
#[test]
fn long_brackets_of_any_level() {
    let mut bench = Bench::new();
    bench.says("return [==[a]=]b]==]", "a]=]b");
    bench.says("return [[a]]", "a");
    bench.says("return [[\nx]]", "x");
    bench.says("--[==[ comment ]] ]==] return 'x'", "x");
    bench.says("--[=x \n return 'x'", "x");
    bench.says("local t={1} return 'x' --[t[1]]", "x");
    for level in [1, 2, 1000, 1_000_000] {
        let body = format!(
            "local e=string.rep('=',{level}) \
             return tostring(loadstring('return ['..e..'[in'..']'..e:sub(2)..']'..']'..e..']')())"
        );
        bench.says(&body, &format!("in]{}]", "=".repeat(level - 1)));
    }
    bench.fails("return [==", "invalid long string delimiter");
    bench.fails("return [==[ a ]=]", "unfinished long string");
    let body = "return loadstring('return ['..string.rep('=',3000000))";
    bench.check(body, "$-1|");
}

/// CVE-2025-46817: ranges that overflow an int.
#[test]
fn ranges_that_overflow() {
    let mut bench = Bench::new();
    let many = "too many results to unpack";
    for range in [
        "-2147483648,2147483647",
        "0,2147483647",
        "1,1e8",
        "2147483646,-2147483648+1e4",
        "-1,2147483646",
        "-2147483647,2147483646",
        "-2147483648,0",
        "1,8001",
    ] {
        let (first, last) = range.split_once(',').unwrap();
        if range.starts_with("2147483646") {
            bench.check(&format!("return {{unpack({{}},{first},{last})}}"), "*0|");
        } else {
            bench.fails(&format!("return {{unpack({{}},{first},{last})}}"), many);
        }
    }
    bench.check("return select('#',unpack({},2147483647,2147483647))", ":1|");
    bench.check("return select('#',unpack({},2147483645,2147483647))", ":3|");
    bench.check("return select('#',unpack({},-2147483648,-2147483647))", ":2|");
    bench.check("local t={} t[-2147483648]=1 return rawget(t,-2147483648)", ":1|");
    bench.check("return rawget({1,2,3},-2147483648)", "$-1|");
    bench.fails("return select(-2147483648,1)", "index out of range");
    bench.check("return string.byte('x',-2147483648,2147483647)", ":120|");
    bench.says("return string.sub('abc',-2147483648,2147483647)", "abc");
    bench.fails("return table.concat({},'',1,2147483647)", "invalid value (nil) at index 1");
    bench.fails("return table.concat({},'',2147483647,2147483647)", "invalid value");
    bench.check("return table.remove({},2147483647)", "$-1|");
}

/// CVE-2024-46981: finalizers of scripts that run while the state is closed.
#[test]
fn scripts_own_no_finalizer() {
    let mut bench = Bench::new();
    bench.fails("newproxy(true)", "nonexistent global variable 'newproxy'");
    bench.check(
        "keep=nil",
        "-ERR user_script:1: Attempt to modify a readonly table script: on @user_script:1.|",
    );
    let body = "for i=1,1000 do setmetatable({},{__gc=function() error('ran') end,__mode='kv'}) \
        end \
                collectgarbage() collectgarbage() return 'none ran'";
    bench.says(body, "none ran");
    drop(bench);
}

/// CVE-2014-5461: few arguments for a vararg function of many parameters.
#[test]
fn vararg_functions_of_many_parameters() {
    let names: Vec<String> = (0..150).map(|at| format!("p{at}")).collect();
    let body = format!(
        "local function f({},...) return select('#',...) end \
         local function g(n) if n==0 then return f() end return (g(n-1)) end \
         for i=1,190 do assert(g(i)==0) end \
         for i=1,50 do assert(coroutine.wrap(f)()==0) end return f()",
        names.join(",")
    );
    Bench::new().check(&body, ":0|");
}

/// CVE-2024-31449 and similar ones: bit.tohex of the least integer.
#[test]
fn hexadecimal_of_the_least_number() {
    let mut bench = Bench::new();
    bench.says("return bit.tohex(65535,-2147483648)", "0000FFFF");
    bench.says("return bit.tohex(255,4)", "00ff");
}

/// CVE-2015-4335, CVE-2018-11219, CVE-2020-14147: struct with sizes that overflow.
#[test]
fn struct_sizes_that_overflow() {
    let mut bench = Bench::new();
    for format in [">I2147483648", "!2147483648i", "i99999999999", "I4294967297"] {
        assert!(
            bench.text(&format!("return struct.pack('{format}','10')")).starts_with('-'),
            "{format}"
        );
        assert!(
            bench.text(&format!("return struct.unpack('{format}','aaaaaa')")).starts_with('-'),
            "{format}"
        );
    }
    bench.fails("return struct.unpack('>I4','aaaa',2147483647)", "");
    bench.fails("return struct.unpack('s','no end')", "");
}

/// CVE-2018-11218, CVE-2022-24834: cmsgpack and cjson with many or deep values.
#[test]
fn packing_deep_and_wide() {
    let mut bench = Bench::new();
    let deep = "local t={} for i=1,1e5 do t={t} end";
    bench.fails(&format!("{deep} return cjson.encode(t)"), "");
    bench.check(&format!("{deep} return #cmsgpack.pack(t) > 0"), ":1|");
    bench.fails("return cjson.decode(string.rep('[',1e5))", "");
    bench.fails("return cmsgpack.unpack(string.rep('\\145',1e6))", "");
    bench.fails("return cmsgpack.unpack('\\221\\255\\255\\255\\255')", "");
    bench.fails("local t={} for i=1,9000 do t[i]=1 end return cmsgpack.pack(unpack(t))", "");
    bench.check("return 'alive'", "$5|alive|");
}

/// string.format writes into a buffer of fixed size.
#[test]
fn formats_of_any_width() {
    let mut bench = Bench::new();
    bench.fails("return string.format('%100d',1)", "invalid format");
    bench.fails("return string.format('%.100f',1)", "invalid format");
    bench.fails("return string.format('%0000000d',1)", "invalid format");
    bench.check("return #string.format('%99.99f',-1e308)", ":410|");
    bench.check("return #string.format('%99s%5.1s','a','bcd')", ":104|");
    bench.check("return #string.format('%s',string.rep('x',100000))", ":100000|");
    bench.fails("return string.format('%q')", "bad argument");
    bench.check("return #string.format('%q',string.rep('\\0\\r\\n',1000))", ":8002|");
    bench.fails("return string.format('%y',1)", "invalid option");
    bench.fails("return string.format('%',1)", "invalid option");
}

/// Callbacks that the code of Lua 5.1 trusted: inconsistent orders, tables that change meanwhile.
#[test]
fn callbacks_that_lie() {
    let mut bench = Bench::new();
    bench
        .fails("local t={} for i=1,100 do t[i]=i end table.sort(t,function() return true end)", "");
    let body = "local t={} for i=1,1000 do t[i]=i end table.sort(t,function(a,b) \
                for i=1,1000 do t[i]=nil end return a and b and a<b end) return 1";
    bench.text(body);
    bench.fails(
        "local t={1,2,3} for k in pairs(t) do t[k]=nil t['x'..k]=1 collectgarbage() end \
        next(t,'gone')",
        "",
    );
    bench.fails("return next({},'x')", "invalid key");
    bench.check(
        "local s=string.gsub('abc','.',function() collectgarbage() return nil end) return s",
        "$3|abc|",
    );
    bench.check(
        "local co co=coroutine.create(function() return coroutine.resume(co) end) \
                 return select(2,coroutine.resume(co)) and 1 or 0",
        ":0|",
    );
    bench.fails(
        "local co=coroutine.wrap(function() string.gsub('a','a',coroutine.yield) end) co()",
        "C-call",
    );
    bench.fails("string.gsub('x','x','%2')", "invalid capture");
    bench.fails("return string.find('a','%1')", "invalid capture");
    bench.fails("return string.find('a','[a')", "malformed");
    bench.fails("return string.find('a','[%')", "malformed");
    bench.fails("return string.find('a','%')", "malformed");
    bench.fails("return string.find('a','%b')", "unbalanced");
    bench.fails("return string.find('a','%f')", "missing");
    bench.says("return 'alive'", "alive");
}
