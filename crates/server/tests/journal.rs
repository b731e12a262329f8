//! The journal's records: which commands are recorded, in which form, and which are one step.
//!
//! Each case shows what clients send and what is recorded of it, a command a line.

use pantala_server::in_process::LocalServer;
use pantala_settings::Settings;

/// Runs the commands of `sent`, a line each, and compares what was recorded.
fn check(sent: &str, expected: &str) {
    let mut server = LocalServer::new(Settings::defaults()).expect("descriptors");
    server.record();
    check_with(&mut server, sent, expected);
}

fn check_with(server: &mut LocalServer, sent: &str, expected: &str) {
    let mut reply = Vec::new();
    for line in sent.lines().map(str::trim).filter(|line| !line.is_empty()) {
        server.exchange(format!("{line}\r\n").as_bytes(), &mut reply);
    }
    let recorded = lines(&server.recorded());
    let expected: Vec<_> = expected.lines().map(str::trim).collect();
    let expected: Vec<_> = expected.into_iter().filter(|line| !line.is_empty()).collect();
    assert_eq!(recorded, expected, "{sent}\n{}", String::from_utf8_lossy(&reply));
}

/// Commands as lines of words.
fn lines(mut bytes: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    while !bytes.is_empty() {
        let count = number(&mut bytes);
        let mut words = Vec::new();
        for _ in 0..count {
            let length = number(&mut bytes);
            words.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
            bytes = &bytes[length + 2..];
        }
        lines.push(words.join(" ").replace('\n', "\\n"));
    }
    lines
}

/// The number of a header.
fn number(bytes: &mut &[u8]) -> usize {
    let end = bytes.iter().position(|&byte| byte == b'\r').expect("the end of a header");
    let number = std::str::from_utf8(&bytes[1..end]).expect("digits").parse().expect("a number");
    *bytes = &bytes[end + 2..];
    number
}

#[test]
fn what_changes_is_recorded_as_it_came() {
    check("SET k v\nAPPEND k w\nDEL k", "SELECT 0\nSET k v\nAPPEND k w\nDEL k");
}

#[test]
fn what_changes_nothing_is_not_recorded() {
    check("GET k\nDEL k\nSETNX k v\nSETNX k w\nLPUSH k x\nGET k", "SELECT 0\nSETNX k v");
}

#[test]
fn the_database_is_said_when_it_changes() {
    let expected = "SELECT 0\nSET a 1\nSET b 1\nSELECT 3\nSET c 1\nSELECT 0\nSET d 1";
    check(
        "SET a 1\nSET b 1\nSELECT 3\nSET c 1\nSELECT 0\nGET a\nSELECT 3\nSELECT 0\nSET d 1",
        expected,
    );
}

#[test]
fn a_transaction_is_one_step() {
    check(
        "MULTI\nSET a 1\nSET b 1\nEXEC\nMULTI\nSET a 2\nGET b\nEXEC\nMULTI\nGET a\nEXEC",
        "MULTI\nSELECT 0\nSET a 1\nSET b 1\nEXEC\nSET a 2",
    );
    check(
        "MULTI\nSET a 1\nSELECT 2\nSET b 1\nEXEC\nSET c 1",
        "MULTI\nSELECT 0\nSET a 1\nSELECT 2\nSET b 1\nEXEC\nSET c 1",
    );
}

#[test]
fn a_script_is_one_step_of_what_it_did() {
    check(
        "EVAL \"redis.call('SET', KEYS[1], 1) redis.call('INCR', KEYS[1]) return 1\" 1 k",
        "MULTI\nSELECT 0\nSET k 1\nINCR k\nEXEC",
    );
    check("EVAL \"return redis.call('GET', KEYS[1])\" 1 k", "");
}

#[test]
fn functions_are_recorded() {
    let code = "#!lua name=l\\nredis.register_function('f', function() return 1 end)";
    let sent = format!("FUNCTION LOAD \"{code}\"\nFCALL f 0\nFUNCTION DELETE l");
    check(&sent, &format!("SELECT 0\nFUNCTION LOAD {code}\nFUNCTION DELETE l"));
}

#[test]
fn whole_databases_are_recorded() {
    check(
        "SET k v\nFLUSHALL\nSELECT 2\nFLUSHDB\nSWAPDB 0 2",
        "SELECT 0\nSET k v\nFLUSHALL\nSELECT 2\nFLUSHDB\nSWAPDB 0 2",
    );
    check("MULTI\nSET k v\nFLUSHALL\nEXEC", "MULTI\nSELECT 0\nSET k v\nFLUSHALL\nEXEC");
}

#[test]
fn a_script_that_begins_again_is_recorded_once() {
    // A script known as quick begins on the worker, takes too long there, and runs again on the
    // lane.
    let script = "EVAL \"redis.call('INCR', KEYS[1]) for i = 1, ARGV[1] do end\" 1 k";
    let sent = format!("{script} 1\n{script} 1\n{script} 3000000\nGET k");
    check(&sent, "SELECT 0\nINCR k\nINCR k\nINCR k");
}

#[test]
fn keys_of_many_partitions_are_one_step() {
    let keys: String = (0..3000).map(|number| format!(" k{number} v")).collect();
    let mut server = LocalServer::new(Settings::defaults()).expect("descriptors");
    server.record();
    let sent = format!("MSET{keys}");
    check_with(&mut server, &sent, &format!("SELECT 0\n{sent}"));
}
