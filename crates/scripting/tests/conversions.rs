//! Conversion of values from Lua to RESP and back, as valkey-server 9.1.2 does it.

mod fake;

use fake::Bench;
use pantala_protocol::Version;

#[track_caller]
fn both(body: &str, resp2: &str, resp3: &str) {
    let mut bench = Bench::new();
    bench.check(body, resp2);
    bench.version = Version::Resp3;
    bench.check(body, resp3);
}

#[track_caller]
fn same(body: &str, expected: &str) {
    both(body, expected, expected);
}

#[test]
fn what_a_script_returns() {
    same("return '\\0'", "$1|\0|");
    same("return 3.99", ":3|");
    same("return -3.99", ":-3|");
    same("return 2^31", ":2147483648|");
    same("return 1e300", ":-9223372036854775808|");
    same("return 0/0", ":-9223372036854775808|");
    same("return 2^63", ":-9223372036854775808|");
    same("return -2^63", ":-9223372036854775808|");
    same("return true", ":1|");
    both("return false", "$-1|", "_|");
    both("return nil", "$-1|", "_|");
    both("", "$-1|", "_|");
    both("return function() end", "$-1|", "_|");
    same("return '','a'", "$0||");
    same("return {1,2,nil,4}", "*2|:1|:2|");
    same("return {nil,1}", "*0|");
    same("local t={1,2,3,4,5} t[2]=nil return {t,'x'}", "*2|*1|:1|$1|x|");
    same("return {{},{1,{2}}}", "*2|*0|*2|:1|*1|:2|");
    both("return {true,false,1.5,'a'}", "*4|:1|$-1|:1|$1|a|", "*4|:1|_|:1|$1|a|");
    same("return {ok='fine',1,2}", "+fine|");
    same("return {ok='a\\r\\nb'}", "+a  b|");
    same("return {ok='OK',err='E'}", "-E|");
    same("return {err='a\\r\\nb'}", "-a  b|");
    same("return {{err='x'},1}", "*2|-x|:1|");
    same("return {ok=1}", "*0|");
    same("return setmetatable({},{__index=function() error('boo') end})", "*0|");
}

#[test]
fn types_of_resp3() {
    both("return {double=3.5}", "$3|3.5|", ",3.5|");
    both("return {double=1}", "$1|1|", ",1|");
    both("return {double=1/0}", "$3|inf|", ",inf|");
    same("return {double='x'}", "*0|");
    both("return {map={a=1}}", "*2|$1|a|:1|", "%1|$1|a|:1|");
    both("return {map={}}", "*0|", "%0|");
    both("return {1,2,map={a={double=1.5}}}", "*2|$1|a|$3|1.5|", "%1|$1|a|,1.5|");
    same("return {map=1}", "*0|");
    both("return {set={[1]=true}}", "*1|:1|", "~1|:1|");
    both("return {big_number='12\\r\\n3'}", "$5|12  3|", "(12  3|");
    same("return {big_number=12}", "*0|");
    both("return {verbatim_string={string='x',format='toolong'}}", "$1|x|", "=5|too:x|");
    same("return {verbatim_string={string='x'}}", "*0|");
    same("return {verbatim_string='x'}", "*0|");
    both("redis.setresp(3) return true", ":1|", "#t|");
    both("redis.setresp(3) return false", ":0|", "#f|");
    both("redis.setresp(3) return {map={a=true}}", "*2|$1|a|:1|", "%1|$1|a|#t|");
    both("return redis.setresp(3)", "$-1|", "_|");
}

const SHOW: &str = "local function show(v) if type(v)=='table' then local r={} \
    for k,x in pairs(v) do r[#r+1]=tostring(k)..'='..show(x) end table.sort(r) \
    return '{'..table.concat(r,',')..'}' end return type(v)..':'..tostring(v) end ";

#[track_caller]
fn shows(resp: u8, call: &str, expected: &str) {
    let body = format!("{SHOW} redis.setresp({resp}) return show(redis.call({call}))");
    Bench::new().says(&body, expected);
}

#[test]
fn what_a_command_returns() {
    for resp in [2, 3] {
        shows(resp, "'ping'", "{ok=string:PONG}");
        shows(resp, "'echo','a'", "string:a");
        shows(resp, "'count','a'", "number:1");
    }
    shows(2, "'get','none'", "boolean:false");
    shows(3, "'get','none'", "nil:nil");
    shows(2, "'hgetall','h'", "{1=string:f,2=string:1}");
    shows(3, "'hgetall','h'", "{map={f=string:1}}");
    shows(2, "'smembers','s'", "{1=string:x}");
    shows(3, "'smembers','s'", "{set={x=boolean:true}}");
    shows(2, "'zscore','z','m'", "string:1.5");
    shows(3, "'zscore','z','m'", "{double=number:1.5}");
    shows(2, "'true'", "number:1");
    shows(3, "'true'", "boolean:true");
    shows(2, "'verbatim'", "string:hello");
    shows(3, "'verbatim'", "{verbatim_string={format=string:txt,string=string:hello}}");
    shows(3, "'big'", "{big_number=string:12345678901234567890}");
    shows(2, "'mget','a','b'", "{1=boolean:false,2=boolean:false}");
    shows(3, "'raw','*2\\r\\n_\\r\\n$1\\r\\nv\\r\\n'", "{2=string:v}");
    shows(3, "'raw','|1\\r\\n+a\\r\\n+b\\r\\n:7\\r\\n'", "number:7");
    let error = "{1={err=string:ERR x,ignore_error_stats_update=boolean:true}}";
    shows(3, "'raw','*1\\r\\n-ERR x\\r\\n'", error);
    shows(2, "'raw','*-1\\r\\n'", "boolean:false");
    shows(2, "'raw','*0\\r\\n'", "{}");
}

#[test]
fn numbers_as_arguments() {
    let mut bench = Bench::new();
    let cases = [
        ("0.1", "0.1"),
        ("100", "100"),
        ("3.0", "3"),
        ("1e15", "1000000000000000"),
        ("123456789012345678", "123456789012345680"),
        ("1e18", "1000000000000000000"),
        ("-1.5", "-1.5"),
        ("1e20", "1e+20"),
        ("1e100", "1e+100"),
        ("-0", "0"),
        ("-0.0", "0"),
        ("3.14159265358979", "3.14159265358979"),
        ("1/0", "inf"),
        ("-1/0", "-inf"),
        ("2^53", "9007199254740992"),
        ("2^63", "9223372036854776000"),
        ("1e-17", "1e-17"),
        ("-2^63", "-9223372036854776000"),
        ("1.5e-300", "1.5e-300"),
    ];
    for (number, text) in cases {
        bench.says(&format!("return redis.call('echo',{number})"), text);
    }
}

#[test]
fn a_table_in_itself_ends() {
    let mut bench = Bench::new();
    let reply = bench.text("local t={} t[1]=t return t");
    assert!(reply.ends_with("-ERR reached lua stack limit|"), "{reply}");
    bench.host.last_tick = bench.host.ticks + 50;
    bench.check("local t={} for i=1,100 do t[i]=t end return t", "aborted");
    let mut bench =
        Bench::with(pantala_scripting::VmLimits { reply_bytes: 100_000, ..Default::default() });
    bench.check(
        "local t={} for i=1,100 do t[i]=t end return t",
        "-ERR the script's reply is too large|",
    );
}

/// Numbers are written as by `%.14g`, whichever way they become text.
#[test]
fn numbers_become_text() {
    let mut bench = Bench::new();
    for (number, text) in [
        ("7", "7"),
        ("-10", "-10"),
        ("0", "0"),
        ("-0.0", "-0"),
        ("0/-1", "-0"),
        ("99999999999999", "99999999999999"),
        ("-99999999999999", "-99999999999999"),
        ("100000000000000", "1e+14"),
        ("123456789012345", "1.2345678901234e+14"),
        ("2^53", "9.007199254741e+15"),
        ("0.5", "0.5"),
        ("1/0", "inf"),
        ("-1/0", "-inf"),
        ("1e300", "1e+300"),
    ] {
        bench.says(&format!("local n = {number} return 'n' .. n"), &format!("n{text}"));
        bench.says(&format!("return tostring({number})"), text);
    }
}
