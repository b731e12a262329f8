//! Error replies, word for word as valkey-server 9.1.2 gives them.

mod fake;

use fake::Bench;

#[track_caller]
fn check(body: &str, expected: &str) {
    Bench::new().check(body, &format!("{expected}|"));
}

#[test]
fn uncaught_errors_say_where() {
    let at = "script: on @user_script:1.";
    check("error('x')", &format!("-ERR user_script:1: x {at}"));
    check("\n\nerror('line3')", "-ERR user_script:3: line3 script: on @user_script:3.");
    check("error({err='My Err'})", &format!("-My Err {at}"));
    check("error({err='-CODE x'})", &format!("--CODE x {at}"));
    check("error({})", &format!("-ERR unknown error {at}"));
    check("error()", &format!("-ERR nil {at}"));
    check("error(true)", &format!("-ERR true {at}"));
    check("error(12)", &format!("-ERR user_script:1: 12 {at}"));
    check("error('')", &format!("-ERR user_script:1:  {at}"));
    check("error('a\\nb')", &format!("-ERR user_script:1: a b {at}"));
    check("assert(false)", &format!("-ERR user_script:1: assertion failed! {at}"));
    check("assert(nil,'msg')", &format!("-ERR user_script:1: msg {at}"));
    let what = "attempt to perform arithmetic on a nil value";
    check("return 1+nil", &format!("-ERR user_script:1: {what} {at}"));
    check(
        "redis.foo()",
        &format!("-ERR user_script:1: attempt to call field 'foo' (a nil value) {at}"),
    );
    let what = "bad argument #1 to 'pairs' (table expected, got string)";
    check("pairs('')", &format!("-ERR user_script:1: {what} {at}"));
    check(
        "coroutine.wrap(function() error('inco') end)()",
        &format!("-ERR user_script:1: user_script:1: inco {at}"),
    );
    check(
        "loadstring('error(\"x\")','chunk')()",
        "-ERR [string \"chunk\"]:1: x script: on chunk:1.",
    );
    check(
        "error(setmetatable({},{__tostring=function() return 'ts' end}))",
        &format!("-ERR unknown error {at}"),
    );
    check(
        "local function f() return f() + 1 end f()",
        &format!("-ERR user_script:1: stack overflow {at}"),
    );
}

#[test]
fn what_does_not_compile() {
    check(
        "if",
        "-ERR Error compiling script (new function): user_script:1: unexpected symbol near '<eof>'",
    );
    check("#!lua flags=x\nreturn 1", "-ERR Unexpected flag in script shebang: x");
    check("#!lua flags=no-writes\nerror('a')", "-ERR user_script:2: a script: on @user_script:2.");
}

#[test]
fn commands_that_fail() {
    let at = "script: on @user_script:1.";
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    check("redis.call('wrong')", &format!("-{wrong} {at}"));
    check("return redis.pcall('wrong')", &format!("-{wrong}"));
    check("error(redis.pcall('wrong'))", &format!("-{wrong} {at}"));
    check("coroutine.wrap(function() redis.call('wrong') end)()", &format!("-{wrong} {at}"));
    check("redis.call()", &format!("-ERR Please specify at least one argument for this call {at}"));
    check("return redis.pcall()", "-ERR Please specify at least one argument for this call");
    let types = "ERR Command arguments must be strings or integers";
    check("redis.call('get',{})", &format!("-{types} {at}"));
    check("redis.call('get',nil)", &format!("-{types} {at}"));
    check("redis.call('get',true)", &format!("-{types} {at}"));
    check("return redis.pcall({})", &format!("-{types}"));
}

#[test]
fn errors_inside_a_script() {
    let mut bench = Bench::new();
    let fields = "local s='' for k,v in pairs(e) do s=s..k..'='..tostring(v)..';' end return #s";
    bench.check(&format!("local e=redis.pcall('wrong') {fields}"), ":101|");
    bench.says("return next(redis.pcall('wrong'))", "ignore_error_stats_update");
    bench.says("local e=redis.pcall('wrong') return tostring(e.ignore_error_stats_update)", "true");
    bench.says("local ok,e=pcall(redis.call,'wrong') return type(e)", "string");
    let body = "local ok,e=xpcall(function() redis.call('wrong') end,\
                function(m) return m end) return type(e)";
    bench.says(body, "table");
    bench.says("local ok,e=pcall(function() error({x=1}) end) return type(e)", "table");
    bench.says("local ok,e=pcall(error,{err='A b'}) return e", "A b");
    bench.says("local ok,e=pcall(function() error('A b') end) return e", "user_script:1: A b");
    bench.check("return {pcall(function() return 1,2,3 end)}", "*4|:1|:1|:2|:3|");
    bench.says("return __server__err__handler('x').err", "ERR x");
    bench.says("return type(__redis__err__handler('x').line)", "number");
}

#[test]
fn error_reply_and_status_reply() {
    check("return redis.error_reply('x y')", "-x y");
    check("return redis.error_reply('-x y')", "-x y");
    check("return redis.error_reply('ERR')", "-ERR ERR");
    check("return redis.error_reply('-My')", "-ERR My");
    check("return redis.error_reply('')", "-ERR ");
    check("return redis.error_reply('-')", "-ERR ");
    check("return redis.error_reply('  ')", "-  ");
    check("return redis.error_reply()", "-ERR wrong number or type of arguments");
    check("return redis.error_reply(1)", "-ERR wrong number or type of arguments");
    check("return redis.error_reply('a','b')", "-ERR wrong number or type of arguments");
    check("return redis.status_reply('a')", "+a");
    check("return redis.status_reply(1)", "-ERR wrong number or type of arguments");
    check("error(redis.error_reply('X y'))", "-X y script: on @user_script:1.");
    check("return {err=''}", "-");
    check("return {err='ERR a\\r\\n'}", "-ERR a");
}

#[test]
fn functions_of_the_api_that_refuse() {
    let refused =
        |body: &str, text: &str| check(body, &format!("-ERR {text} script: on @user_script:1."));
    refused("redis.sha1hex()", "wrong number of arguments");
    refused("redis.sha1hex('a','b')", "wrong number of arguments");
    refused("redis.log()", "server.log() requires two arguments or more.");
    refused("redis.log(9,'x')", "Invalid log level.");
    refused("redis.log('a','x')", "First argument must be a number (log level).");
    refused("redis.setresp()", "server.setresp() requires one argument.");
    refused("redis.setresp(4)", "RESP version must be 2 or 3.");
    refused("redis.setresp('a')", "RESP version must be 2 or 3.");
    refused("redis.acl_check_cmd()", "Please specify at least one argument for this call");
    refused("redis.acl_check_cmd({})", "Command arguments must be strings or integers");
    refused("redis.acl_check_cmd('nope')", "Invalid command passed to server.acl_check_cmd()");
    refused("redis.set_repl()", "server.set_repl() requires one argument.");
    refused(
        "redis.set_repl(99)",
        "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
    );
}
