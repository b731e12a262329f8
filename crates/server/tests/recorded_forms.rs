//! The form in which commands are recorded: such that they give the same whenever they run again.
//!
//! Each case shows the commands that a client sends and their records, a command a line; `<ms>` is
//! a moment near the present, and `some:` and `ours:` mark records that only some followers get.
//! compat's `records` compares the same with valkey-server.

use pantala_base::clock::unix_ms;
use pantala_commands::meant;
use pantala_server::in_process::LocalServer;
use pantala_settings::Settings;

/// Moments this close to the present are shown as `<ms>`.
const NEAR_MS: i64 = 10_000_000;

fn server() -> LocalServer {
    let mut server = LocalServer::new(Settings::defaults()).expect("descriptors");
    server.record();
    server
}

/// Sends commands, a line each; returns the replies.
fn send(server: &mut LocalServer, commands: &str) -> String {
    let mut reply = Vec::new();
    for line in commands.lines().map(str::trim).filter(|line| !line.is_empty()) {
        server.exchange(format!("{line}\r\n").as_bytes(), &mut reply);
    }
    String::from_utf8_lossy(&reply).into_owned()
}

fn check(sent: &str, expected: &str) {
    let mut server = server();
    let replies = send(&mut server, sent);
    let recorded = lines(&server.recorded());
    let recorded = recorded.iter().filter(|line| !line.starts_with("SELECT"));
    let recorded: Vec<_> = recorded.map(String::as_str).collect();
    let expected = expected.lines().map(str::trim).filter(|line| !line.is_empty());
    assert_eq!(recorded, expected.collect::<Vec<_>>(), "{sent}\n{replies}");
}

/// Commands as lines, with near moments as `<ms>`.
fn lines(mut bytes: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    let now = unix_ms().0;
    while !bytes.is_empty() {
        let count = number(&mut bytes);
        let mut words = Vec::new();
        for _ in 0..count {
            let length = number(&mut bytes);
            let word = String::from_utf8_lossy(&bytes[..length]).into_owned();
            let (moment, rest) = word.split_once('-').unwrap_or((&word, ""));
            let is_near = moment.parse::<i64>().is_ok_and(|ms| ms.abs_diff(now) < NEAR_MS as u64);
            words.push(match (is_near, rest) {
                (true, "") => "<ms>".to_string(),
                (true, rest) => format!("<ms>-{rest}"),
                (false, _) => word,
            });
            bytes = &bytes[length + 2..];
        }
        lines.push(shown(&words));
    }
    lines
}

/// A command as a line; a record that only some followers get begins with `some:` or `ours:`.
fn shown(words: &[String]) -> String {
    let bytes: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
    let command = &words[words.len() - meant(&bytes).len()..];
    let who = match (command.len() < words.len(), words[0].as_str()) {
        (false, _) => "",
        (true, "EVAL") => "some: ",
        (true, _) => "ours: ",
    };
    who.to_string() + &command.join(" ")
}

/// The number of a header.
fn number(bytes: &mut &[u8]) -> usize {
    let end = bytes.iter().position(|&byte| byte == b'\r').expect("the end of a header");
    let number = std::str::from_utf8(&bytes[1..end]).expect("digits").parse().expect("a number");
    *bytes = &bytes[end + 2..];
    number
}

#[test]
fn flags_are_dragonflys_word() {
    check(
        "SET a 1 _MCFLAGS 7 EX 100\nSET a 2 NX _mcflags 8\nSET b 2 NX _mcflags 8
         SET b 3 GET _MCFLAGS 4294967295\nSET b 4 _MCFLAGS 4294967296\nSET b 4 _MCFLAGS
         APPEND b 1\nRENAME b c\nSET d 1 _MCFLAGS 0",
        "MULTI\nSET a 1 PXAT <ms>\nours: mc.flags a 7\nEXEC\nMULTI\nSET b 2\nours: mc.flags b 8
         EXEC\nMULTI\nSET b 3\nours: mc.flags b 4294967295\nEXEC\nAPPEND b 1\nRENAME b c
         SET d 1",
    );
}

#[test]
fn deadlines_are_moments() {
    check(
        "SET a 1 EX 100\nSET a 2 PX 100000 GET\nSET a 3 EXAT 33177117420\nSETEX a 100 4
         PSETEX a 100000 5\nSET a 6 KEEPTTL\nGETEX a EX 50\nGETEX a PERSIST\nGETEX a
         GETEX a PERSIST",
        "SET a 1 PXAT <ms>\nSET a 2 PXAT <ms>\nSET a 3 PXAT 33177117420000\nSET a 4 PXAT <ms>
         SET a 5 PXAT <ms>\nSET a 6 KEEPTTL\nPEXPIREAT a <ms>\nPERSIST a",
    );
    check(
        "SET a 1\nEXPIRE a 100\nPEXPIRE a 50000 LT\nEXPIREAT a 33177117420 GT\nEXPIRE a 5 NX
         EXPIRE none 5\nEXPIRE a -1",
        "SET a 1\nPEXPIREAT a <ms>\nPEXPIREAT a <ms>\nPEXPIREAT a 33177117420000\nUNLINK a",
    );
    check(
        "SET a 1\nSET a 2 PXAT 1000\nSET a 3 PXAT 1000\nSET a 4\nGETEX a PXAT 1000",
        "SET a 1\nUNLINK a\nSET a 4\nUNLINK a",
    );
    check(
        "MSETEX 2 a 1 b 2 EX 100\nMSETEX 1 a 1 NX EX 5\nMSETEX 1 a 1 PXAT 1000",
        "MULTI\nSET a 1 PXAT <ms>\nSET b 2 PXAT <ms>\nEXEC\nUNLINK a",
    );
    check("CL.THROTTLE t 4 1 1 0", "");
}

#[test]
fn conditions_are_not_asked_again() {
    check(
        "SET a 1 NX\nSET a 2 NX\nSET a 3 XX\nSET a 4 IFEQ 3\nSET a 5 IFEQ 3\nSET a 6 GET
         GETSET a 7",
        "SET a 1 NX\nSET a 3 XX\nSET a 4\nSET a 6\nSET a 7",
    );
    check(
        "SET a 1\nDELIFEQ a 2\nDELIFEQ a 1\nSET a 1\nDELEX a IFNE 1\nDELEX a IFEQ 1\nSET a 1
         GETDEL a\nGETDEL a",
        "SET a 1\nDEL a\nSET a 1\nDEL a\nSET a 1\nDEL a",
    );
}

#[test]
fn additions_of_fractions_are_their_results() {
    check(
        "INCRBYFLOAT a 0.1\nHINCRBYFLOAT h f 0.5\nHPEXPIREAT h 33177117420000 FIELDS 1 f
         HINCRBYFLOAT h f 1",
        "SET a 0.1 KEEPTTL\nHSET h f 0.5\nsome: HPEXPIREAT h 33177117420000 FIELDS 1 f
         MULTI\nHSET h f 1.5\nsome: HPEXPIREAT h 33177117420000 FIELDS 1 f\nEXEC",
    );
}

#[test]
fn fields_and_members_have_moments() {
    check(
        "HSET h a 1 b 2\nHEXPIRE h 100 FIELDS 2 a none\nHPEXPIRE h 100000 NX FIELDS 2 a b
         HEXPIRE h 5 XX FIELDS 1 none\nHPERSIST h FIELDS 2 a none\nHEXPIRE h 0 FIELDS 1 a",
        "HSET h a 1 b 2\nsome: HPEXPIREAT h <ms> FIELDS 1 a\nsome: HPEXPIREAT h <ms> FIELDS 1 b
         some: HPERSIST h FIELDS 1 a\nHDEL h a",
    );
    check(
        "HSETEX h EX 100 FIELDS 1 a 1\nHSETEX h FNX FIELDS 1 a 2\nHSETEX h FNX FIELDS 1 b 2
         HGETEX h FIELDS 1 a\nHGETEX h EX 50 FIELDS 2 a none\nHGETEX h PERSIST FIELDS 2 a b
         HGETDEL h FIELDS 1 none\nHGETDEL h FIELDS 1 a\nHSETEX h PXAT 1000 FIELDS 1 b 1",
        "MULTI\nHSET h a 1\nsome: HPEXPIREAT h <ms> FIELDS 1 a\nEXEC\nHSET h b 2
         some: HPEXPIREAT h <ms> FIELDS 1 a\nsome: HPERSIST h FIELDS 1 a\nHDEL h a\nHDEL h b",
    );
    check(
        "SADDEX s 100 a b\nSADDEX s KEEPTTL 100 a c\nFIELDEXPIRE s 50 a none\nSREM s none",
        "MULTI\nSADD s a b\nours: SPEXPIREAT s <ms> MEMBERS 2 a b\nEXEC
         MULTI\nSADD s a c\nours: SPEXPIREAT s <ms> MEMBERS 1 c\nEXEC
         ours: SPEXPIREAT s <ms> MEMBERS 1 a",
    );
    check(
        "ZADD z 1 a\nZEXPIRE z 100 MEMBERS 2 a none\nZPERSIST z MEMBERS 1 a\nZCOLLECT z",
        "ZADD z 1 a\nours: ZPEXPIREAT z <ms> MEMBERS 1 a\nours: ZPERSIST z MEMBERS 1 a",
    );
}

#[test]
fn what_chance_took_is_named() {
    let mut server = server();
    send(&mut server, "SADD s 1 2 3 4 5 6 7 8 9\nSPOP s\nSPOP s 2\nSPOP s 0\nSPOP s 5\nSPOP s 9");
    let recorded = lines(&server.recorded());
    let counts: Vec<_> = recorded.iter().map(|line| line.split(' ').count()).collect();
    assert_eq!(counts, [2, 11, 3, 4, 7, 2], "{recorded:?}");
    assert!(recorded[2..5].iter().all(|line| line.starts_with("SREM s ")), "{recorded:?}");
    assert_eq!(recorded[5], "UNLINK s");
    let mut popped: Vec<_> =
        recorded[2..5].iter().flat_map(|line| line.split(' ').skip(2)).collect();
    popped.sort_unstable();
    popped.dedup();
    assert_eq!(popped.len(), 8);
}

#[test]
fn what_waits_is_recorded_as_what_does_not() {
    check(
        "RPUSH l a b c d e f g\nBLPOP none l 0\nBRPOP l 0\nLMPOP 2 none l LEFT COUNT 2
         BLMPOP 0 1 l RIGHT COUNT 9\nBLMPOP 0.001 1 l RIGHT",
        "RPUSH l a b c d e f g\nLPOP l\nRPOP l\nLPOP l 2\nRPOP l 3",
    );
    check(
        "RPUSH l a b\nBLMOVE l m LEFT RIGHT 0\nBRPOPLPUSH l m 0\nLPOP none\nLTRIM m 0 9",
        "RPUSH l a b\nLMOVE l m LEFT RIGHT\nRPOPLPUSH l m",
    );
    check(
        "ZADD z 1 a 2 b 3 c 4 d\nBZPOPMIN z 0\nBZPOPMAX none z 0\nZMPOP 1 z MIN COUNT 1
         BZMPOP 0 1 z MAX COUNT 5",
        "ZADD z 1 a 2 b 3 c 4 d\nZPOPMIN z\nZPOPMAX z\nZPOPMIN z 1\nZPOPMAX z 1",
    );
}

#[test]
fn entries_of_streams_have_their_ids() {
    check(
        "XADD s * a 1\nXADD t 5-* a 1\nXADD t 7 a 1\nXADD t MAXLEN 2 8-1 a 1
         XADD t NOMKSTREAM 9-1 a 1
         XADD t MAXLEN ~ 3 LIMIT 10 KEEPREF 9-2 a 1\nXADD none NOMKSTREAM * a 1",
        "XADD s <ms>-0 a 1\nXADD t 5-0 a 1\nXADD t 7 a 1\nXADD t MAXLEN 2 8-1 a 1\nXADD t 9-1 a 1
         XADD t MAXLEN = 4 9-2 a 1",
    );
    check(
        "XADD t 1-1 a 1\nXTRIM t MAXLEN ~ 5\nXTRIM t MAXLEN = 5\nXADD t 1-2 a 1\nXTRIM t MAXLEN 1
         XTRIM t MINID ~ 9",
        "XADD t 1-1 a 1\nXADD t 1-2 a 1\nXTRIM t MAXLEN 1
         XTRIM t MINID = 18446744073709551615-18446744073709551615",
    );
}

#[test]
fn reading_by_groups_is_what_became_of_it() {
    check(
        "XADD s 1-1 a 1\nXADD s 1-2 a 1\nXADD s 1-3 a 1\nXGROUP CREATE s g 0
         XREADGROUP GROUP g c COUNT 2 STREAMS s >\nXREADGROUP GROUP g c STREAMS s 0
         XREADGROUP GROUP g d NOACK STREAMS s >\nXREADGROUP GROUP g d STREAMS s >
         XREADGROUP GROUP g e STREAMS s 0",
        "XADD s 1-1 a 1\nXADD s 1-2 a 1\nXADD s 1-3 a 1\nXGROUP CREATE s g 0
         MULTI
         XCLAIM s g c 0 1-1 1-2 TIME <ms> RETRYCOUNT 1 FORCE JUSTID LASTID 1-2
         XGROUP SETID s g 1-2 ENTRIESREAD 2
         EXEC
         XCLAIM s g c 0 1-1 1-2 TIME <ms> RETRYCOUNT 2 FORCE JUSTID LASTID 1-2
         MULTI
         XGROUP CREATECONSUMER s g d
         XGROUP SETID s g 1-3 ENTRIESREAD 3
         EXEC
         XGROUP CREATECONSUMER s g e",
    );
    check(
        "XADD s 1-1 a 1\nXADD s 1-2 a 1\nXGROUP CREATE s g 0\nXREADGROUP GROUP g c NOACK STREAMS s >
         XCLAIM s g d 0 1-1 FORCE\nXCLAIM s g d 0 1-1 1-2 JUSTID RETRYCOUNT 7\nXDEL s 1-1
         XAUTOCLAIM s g e 0 0\nXAUTOCLAIM s g e 100000 0\nXCLAIM s g e 0 9-9\nXACK s g 1-2",
        "XADD s 1-1 a 1\nXADD s 1-2 a 1\nXGROUP CREATE s g 0
         MULTI
         XGROUP CREATECONSUMER s g c
         XGROUP SETID s g 1-2 ENTRIESREAD 2
         EXEC
         XCLAIM s g d 0 1-1 TIME <ms> RETRYCOUNT 2 FORCE JUSTID LASTID 1-2
         XCLAIM s g d 0 1-1 TIME <ms> RETRYCOUNT 7 FORCE JUSTID LASTID 1-2
         XDEL s 1-1
         MULTI
         XGROUP CREATECONSUMER s g e
         XACK s g 1-1
         EXEC",
    );
}

#[test]
fn redis_8_2_on_entries_is_what_all_servers_know() {
    check(
        "XADD s 1-1 a 1\nXADD s 1-2 a 1\nXADD s 1-3 a 1\nXGROUP CREATE s g 0
         XDELEX s KEEPREF IDS 1 1-1\nXDELEX s DELREF IDS 2 1-2 9-9\nXACKDEL s g IDS 1 1-3",
        "XADD s 1-1 a 1\nXADD s 1-2 a 1\nXADD s 1-3 a 1\nXGROUP CREATE s g 0\nXDEL s 1-1
         XDEL s 1-2",
    );
}

#[test]
fn what_was_restored_has_a_moment() {
    let payload = r#""\x00\x03abc\n\x00\xd9\xac0=Ar\xa2\xe2""#;
    let mut server = server();
    let replies = send(
        &mut server,
        &format!(
            "RESTORE k 100000 {payload}\nRESTORE k 0 {payload} REPLACE
             RESTORE l 99999999999999 {payload} absttl"
        ),
    );
    assert_eq!(replies, "+OK\r\n+OK\r\n+OK\r\n");
    let recorded = lines(&server.recorded());
    assert!(recorded[1].starts_with("RESTORE k <ms> "), "{recorded:?}");
    assert!(recorded[1].ends_with(" REPLACE ABSTTL"), "{recorded:?}");
    assert!(recorded[2].starts_with("RESTORE k 0 "), "{recorded:?}");
    assert!(recorded[3].ends_with(" absttl"), "{recorded:?}");
}

#[test]
fn what_few_servers_know_is_told_aside_or_as_its_result() {
    check(
        "SET a abc\nSET b b\nBITOP DIFF d a b\nBITOP ONE d none none2\nBITOP OR e a b
         STICK a b\nUNSTICK a\nUNSTICK a",
        "SET a abc\nSET b b\nSET d \u{1}bc\nDEL d\nBITOP OR e a b\nours: STICK a b
         ours: UNSTICK a",
    );
    check(
        "GEOADD g 13 38 P 15 37 Q\nGEOSEARCHSTORE r g BYPOLYGON 4 10 30 20 30 20 40 10 40
         GEOSEARCHSTORE r g BYPOLYGON 3 1 1 2 2 1 2",
        "GEOADD g 13 38 P 15 37 Q
         MULTI\nDEL r\nZADD r 3476504601741708 Q 3479065152021743 P\nEXEC\nDEL r",
    );
}

#[test]
fn a_payload_that_redis_70_does_not_read_is_told_in_its_version() {
    let mut server = server();
    let far = 33_177_117_420_000_i64;
    send(&mut server, &format!("HSETEX h PXAT {far} FIELDS 1 f v\nSADDEX s 1000 a\nSET m v"));
    for key in ["h", "s", "m"] {
        let mut dumped = Vec::new();
        server.exchange(format!("DUMP {key}\r\n").as_bytes(), &mut dumped);
        let begin = dumped.iter().position(|&byte| byte == b'\n').expect("a header") + 1;
        let payload = dumped[begin..dumped.len() - 2].to_vec();
        server.recorded();
        let command: [&[u8]; 4] = [b"RESTORE", b"copy", b"0", &payload];
        let mut sent = Vec::new();
        pantala_journal::resp::push_command(&mut sent, &command);
        let sent = [&sent[..], b"DEL copy\r\n"].concat();
        server.exchange(&sent, &mut Vec::new());
        let recorded = lines(&server.recorded());
        let names: Vec<_> = recorded.iter().map(|line| line.split(" 0 ").next()).collect();
        let expected = match key {
            "h" => vec!["MULTI", "RESTORE copy", "some: RESTORE copy", "EXEC", "DEL copy"],
            "s" => vec!["MULTI", "RESTORE copy", "ours: RESTORE copy", "EXEC", "DEL copy"],
            _ => vec!["RESTORE copy", "DEL copy"],
        };
        assert_eq!(names.into_iter().flatten().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_script_says_who_is_told() {
    check(
        "EVAL \"redis.call('set','a',1) redis.set_repl(redis.REPL_NONE) redis.call('set','b',1) \
         redis.set_repl(redis.REPL_AOF) redis.call('set','c',1) \
         redis.set_repl(redis.REPL_REPLICA) redis.call('set','d',1)\" 4 a b c d\nSET e 1",
        "MULTI\nset a 1\nset c 1\nEXEC\nSET e 1",
    );
}

/// Valkey and Redis leave the order of equal texts as weights open: the list is recorded.
#[test]
fn sorting_by_texts_records_the_list() {
    check(
        "RPUSH l d b a\nMSET w_b x w_d x\nSORT l BY w_* ALPHA STORE to\n\
         SORT no BY w_* ALPHA STORE to\nSORT no BY w_* ALPHA STORE to\n\
         SORT l ALPHA STORE to\nSORT l BY v_* STORE to",
        "RPUSH l d b a
         MSET w_b x w_d x
         MULTI
         DEL to
         RPUSH to a b d
         EXEC
         DEL to
         SORT l ALPHA STORE to
         SORT l BY v_* STORE to",
    );
}

/// Longer than commands sent at once take to run, however busy the machine is.
const SOON_MS: i64 = 2_000;

/// Waits until this moment has passed.
fn wait_until(moment: i64) {
    while unix_ms().0 <= moment {
        std::thread::yield_now();
    }
}

/// Expired elements are recorded as removed before the command that works on the rest.
#[test]
fn elements_that_have_expired_are_gone_before_a_command() {
    let mut server = server();
    let soon = unix_ms().0 + SOON_MS;
    send(&mut server, "HSET h keep 1 f 1\nHSET w1 p 2\nSADD s 1 2\nSADD t 1 2\nRPUSH l 1");
    send(&mut server, &format!("HPEXPIREAT h {soon} FIELDS 1 f\nHPEXPIREAT w1 {soon} FIELDS 1 p"));
    for key in ["s", "t"] {
        send(&mut server, &format!("SPEXPIREAT {key} {soon} MEMBERS 1 2"));
    }
    wait_until(soon);
    server.recorded();
    send(&mut server, "HSETNX h f 2\nSUNIONSTORE d s\nZUNIONSTORE e 1 t\nSORT l BY w*->p STORE o");
    let recorded = lines(&server.recorded());
    let is_frame = |line: &str| line == "MULTI" || line == "EXEC" || line.starts_with("SELECT");
    let recorded: Vec<_> = recorded.iter().filter(|line| !is_frame(line)).collect();
    assert_eq!(
        recorded,
        [
            "HDEL h f",
            "HSETNX h f 2",
            "SREM s 2",
            "SUNIONSTORE d s",
            "SREM t 2",
            "ZUNIONSTORE e 1 t",
            "HDEL w1 p",
            "SORT l BY w*->p STORE o",
        ]
    );
}

/// Expired elements stay while they are hidden, and no command waits for their removal.
#[test]
fn a_sorted_set_is_read_while_what_has_expired_is_hidden() {
    let mut server = server();
    let soon = unix_ms().0 + SOON_MS;
    send(&mut server, &format!("ZADD z 1 a 2 b\nZPEXPIREAT z {soon} MEMBERS 1 a"));
    send(&mut server, "CONFIG SET import-mode yes");
    wait_until(soon);
    assert_eq!(send(&mut server, "ZRANGE z 0 -1"), "*2\r\n$1\r\na\r\n$1\r\nb\r\n");
}
