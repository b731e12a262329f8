//! Commands that take long go to the slow lane before a worker has spent time on them.

use std::sync::Arc;

use pantala_keyspace::event::EventClass;
use pantala_keyspace::{ChangeSink, Effect, EventMask, Ticket};
use pantala_server::in_process::LocalServer;
use pantala_settings::Settings;
use parking_lot::Mutex;

const LONG_BYTES: usize = 3 << 20;

fn ask(server: &mut LocalServer, words: &[&[u8]]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend(format!("${}\r\n", word.len()).bytes());
        request.extend_from_slice(word);
        request.extend(b"\r\n");
    }
    let mut reply = Vec::new();
    server.exchange(&request, &mut reply);
    reply
}

fn line<'w>(server: &mut LocalServer, line: &'w str) -> Vec<u8> {
    let words: Vec<&'w [u8]> = line.split(' ').map(str::as_bytes).collect();
    ask(server, &words)
}

/// How many commands went to the lane.
fn laned(server: &mut LocalServer) -> u64 {
    let info = String::from_utf8(line(server, "INFO pantala")).expect("text");
    let value = info.lines().find_map(|line| line.strip_prefix("lane_commands:"));
    value.and_then(|value| value.parse().ok()).expect("a number")
}

/// A server with `text` as a string, as an element of a list and of a hash, and as many elements.
fn server_with(text: &[u8]) -> LocalServer {
    observed(text, None)
}

fn observed(text: &[u8], sink: Option<Box<dyn ChangeSink>>) -> LocalServer {
    let mut server = LocalServer::observed(Settings::defaults(), sink).expect("descriptors");
    ask(&mut server, &[b"SET", b"s", text]);
    ask(&mut server, &[b"SET", b"t", text]);
    ask(&mut server, &[b"RPUSH", b"l", b"a", text]);
    ask(&mut server, &[b"HSET", b"h", b"f", text]);
    ask(&mut server, &[b"XADD", b"x", b"1-1", b"f", text]);
    server
}

/// Commands whose reply contains the text.
const SHOW: [&str; 18] = [
    "GET s",
    "GETRANGE s 0 -1",
    "SUBSTR s 0 -1",
    "MGET no s no",
    "GETEX s",
    "GETEX s EX 100",
    "SET s new GET KEEPTTL",
    "GETSET t s",
    "GETDEL s",
    "LINDEX l 1",
    "LRANGE l 0 -1",
    "HGET h f",
    "HMGET h no f",
    "HVALS h",
    "HGETALL h",
    "XRANGE x - +",
    "XREAD STREAMS x 0",
    "SORT_RO l ALPHA",
];

#[test]
fn a_long_reply_is_made_on_the_lane() {
    let text: Vec<u8> = (0..LONG_BYTES).map(|at| (at * 7 / 5) as u8).collect();
    for (text, is_long) in [(&text[..], true), (&text[..100], false)] {
        for command in SHOW {
            let mut server = server_with(text);
            let before = laned(&mut server);
            let reply = line(&mut server, command);
            assert_eq!(laned(&mut server) - before, u64::from(is_long), "{command}");
            let at = reply.len().min(200);
            let start = String::from_utf8_lossy(&reply[..at]);
            assert!(reply.windows(text.len()).any(|part| part == text), "{command}: {start}");
        }
    }
}

#[test]
fn a_long_value_is_compared_on_the_lane() {
    let digest = "0123456789abcdef";
    for (length, is_long) in [(LONG_BYTES, true), (100, false)] {
        let mut server = server_with(&vec![b'v'; length]);
        for (command, reply) in [
            (format!("SET s new IFDEQ {digest}"), "$-1\r\n"),
            (format!("DELEX s IFDEQ {digest}"), ":0\r\n"),
            (format!("DELEX s IFDNE {digest}"), ":1\r\n"),
            (format!("SET t new IFDNE {digest}"), "+OK\r\n"),
        ] {
            let before = laned(&mut server);
            assert_eq!(line(&mut server, &command), reply.as_bytes(), "{command}");
            assert_eq!(laned(&mut server) - before, u64::from(is_long), "{command}");
        }
        assert_eq!(line(&mut server, "GET t"), b"$3\r\nnew\r\n");
    }
}

#[test]
fn what_was_read_in_vain_has_changed_nothing() {
    let mut server = server_with(&vec![b'v'; LONG_BYTES]);
    let reply = line(&mut server, "GETDEL s");
    assert_eq!(reply.len(), LONG_BYTES + "$3145728\r\n\r\n".len());
    assert_eq!(line(&mut server, "EXISTS s"), b":0\r\n");
    assert_eq!(ask(&mut server, &[b"DIGEST", b"t"]).len(), "$16\r\n0123456789abcdef\r\n".len());
    for _ in 0..5 {
        let reply = line(&mut server, "EVAL return#redis.call('GET',KEYS[1])*ARGV[1] 1 t 2");
        assert_eq!(reply, format!(":{}\r\n", 2 * LONG_BYTES).as_bytes());
    }
    line(&mut server, "MULTI");
    line(&mut server, "APPEND t x");
    line(&mut server, "GET t");
    let reply = line(&mut server, "EXEC");
    let header = format!("*2\r\n:{0}\r\n${0}\r\n", LONG_BYTES + 1);
    assert!(reply.starts_with(header.as_bytes()));
    assert_eq!(reply.len(), header.len() + LONG_BYTES + 1 + 2);
    assert_eq!(line(&mut server, "STRLEN t"), format!(":{}\r\n", LONG_BYTES + 1).as_bytes());
}

/// A text of this many kilobytes, in which `elseif` follows `elseif`.
fn chain(start: &str, kilobytes: usize, end: &str) -> Vec<u8> {
    let arms = "elseif false then return 2 ".repeat(kilobytes * 1024 / 27);
    format!("{start} if false then return 1 {arms} end {end}").into_bytes()
}

#[test]
fn a_long_script_is_compiled_and_run_on_the_lane() {
    for (kilobytes, is_long) in [(128, 1), (1, 0)] {
        let mut server = LocalServer::new(Settings::defaults()).expect("descriptors");
        let registers = "#!lua name=l\nserver.register_function('f', function()";
        let library = chain(registers, kilobytes, "end)");
        let (body, broken) = (chain("", kilobytes, ""), chain("", kilobytes, "end"));
        let loaded = ask(&mut server, &[b"FUNCTION", b"LOAD", &library]);
        assert_eq!(loaded, b"$1\r\nl\r\n");
        for program in ["EVAL", "EVAL_RO", "SCRIPT"] {
            let words: [&[u8]; 3] = match program {
                "SCRIPT" => [b"SCRIPT", b"LOAD", &broken],
                _ => [program.as_bytes(), &broken, b"0"],
            };
            let before = laned(&mut server);
            let reply = ask(&mut server, &words);
            assert!(reply.starts_with(b"-ERR Error compiling script"), "{program}");
            assert_eq!(laned(&mut server) - before, is_long, "{program}");
        }
        let sha = ask(&mut server, &[b"SCRIPT", b"LOAD", &body]);
        let sha = &sha[5..45];
        let calls: [&[&[u8]]; 3] =
            [&[b"EVAL", &body, b"0"], &[b"EVALSHA", sha, b"0"], &[b"FCALL", b"f", b"0"]];
        for call in calls {
            // The first runs show that it is quick; on a busy machine perhaps only later ones.
            let runs = (0..4_000).map(|_| {
                let before = laned(&mut server);
                ask(&mut server, call);
                laned(&mut server) - before
            });
            let name = call[0].escape_ascii();
            match is_long {
                0 => assert!(runs.skip(40).any(|on_lane| on_lane == 0), "{name}"),
                _ => assert!(runs.take(50).all(|on_lane| on_lane == 1), "{name}"),
            }
        }
    }
}

#[test]
fn many_elements_are_not_even_copied_to_be_sorted() {
    let mut server = LocalServer::new(Settings::defaults()).expect("descriptors");
    let numbers: Vec<String> = (0..2000).map(|number| number.to_string()).collect();
    for (kind, key) in [("RPUSH", "l"), ("SADD", "s")] {
        line(&mut server, &format!("{kind} {key} {}", numbers.join(" ")));
    }
    let before = laned(&mut server);
    assert_eq!(line(&mut server, "SORT l BY nosort LIMIT 1500 1"), b"*1\r\n$4\r\n1500\r\n");
    assert_eq!(laned(&mut server), before);
    assert_eq!(line(&mut server, "SORT l LIMIT 1500 1"), b"*1\r\n$4\r\n1500\r\n");
    assert_eq!(line(&mut server, "SORT s LIMIT 1500 1"), b"*1\r\n$4\r\n1500\r\n");
    assert_eq!(laned(&mut server), before + 2);
}

/// More arguments than the parser goes through in one call.
const MANY: usize = 40_000;

/// A command with `count` arguments behind its first words.
fn wide(start: &str, count: usize) -> Vec<u8> {
    let words: Vec<String> = start
        .split(' ')
        .map(str::to_owned)
        .chain((0..count).map(|number| number.to_string()))
        .collect();
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    request.into_bytes()
}

fn exchange(server: &mut LocalServer, requests: &[Vec<u8>]) -> String {
    let mut reply = Vec::new();
    server.exchange(&requests.concat(), &mut reply);
    String::from_utf8(reply).expect("text")
}

#[test]
fn many_arguments_run_on_the_lane_in_their_order() {
    for count in [2046, 2047, 3000, MANY] {
        let mut server = LocalServer::new(Settings::defaults()).expect("descriptors");
        let before = laned(&mut server);
        let pipeline = [
            b"SET k 1\r\n".to_vec(),
            wide("RPUSH l", count),
            b"LLEN l\r\n".to_vec(),
            wide("DEL k l", count),
            b"EXISTS k l\r\n".to_vec(),
        ];
        let expected = format!("+OK\r\n:{count}\r\n:{count}\r\n:2\r\n:0\r\n");
        assert_eq!(exchange(&mut server, &pipeline), expected);
        let is_long = count + 2 > 2048;
        let is_long_too = count + 3 > 2048;
        assert_eq!(laned(&mut server) - before, u64::from(is_long) + u64::from(is_long_too));
    }
}

#[test]
fn many_arguments_that_come_in_pieces_are_one_command() {
    let mut server = LocalServer::new(Settings::defaults()).expect("descriptors");
    let request = [wide("SADD s", MANY), b"SCARD s\r\nSADD".to_vec()].concat();
    let mut reply = Vec::new();
    for piece in request.chunks(7001) {
        server.exchange(piece, &mut reply);
    }
    server.exchange(b" s x\r\n", &mut reply);
    assert_eq!(String::from_utf8_lossy(&reply), ":40000\r\n:40000\r\n:1\r\n");
}

#[test]
fn many_arguments_wait_for_exec_like_few() {
    let long = vec![b'v'; LONG_BYTES];
    let set = [b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3145728\r\n".as_slice(), &long, b"\r\n"].concat();
    let mut server = LocalServer::new(Settings::defaults()).expect("descriptors");
    let commands = [
        b"MULTI\r\n".to_vec(),
        wide("RPUSH l", MANY),
        set,
        wide("GET k", MANY),
        b"STRLEN k\r\n".to_vec(),
    ];
    let queued = "+OK\r\n+QUEUED\r\n+QUEUED\r\n\
                  -ERR wrong number of arguments for 'get' command\r\n+QUEUED\r\n";
    let aborted = "-EXECABORT Transaction discarded because of previous errors.\r\n";
    let exec = b"EXEC\r\nLLEN l\r\n".to_vec();
    let all = [&commands[..], std::slice::from_ref(&exec)].concat();
    assert_eq!(exchange(&mut server, &all), format!("{queued}{aborted}:0\r\n"));
    let all = [&commands[..3], &commands[4..], &[exec]].concat();
    let expected =
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n:40000\r\n+OK\r\n:3145728\r\n:40000\r\n";
    assert_eq!(exchange(&mut server, &all), expected);
}

#[test]
fn what_is_wrong_with_many_arguments_is_said_without_the_lane() {
    let mut server = LocalServer::new(Settings::defaults()).expect("descriptors");
    let before = laned(&mut server);
    let unknown = exchange(&mut server, &[wide("NOSUCH", MANY)]);
    let quoted: String = (0..34).map(|number| format!("'{number}' ")).collect();
    assert!(unknown.starts_with("-ERR unknown command 'NOSUCH', with args beginning with: '0' "));
    assert!(unknown.contains(&quoted[..120]) && unknown.len() < 300, "{unknown}");
    let wrong = exchange(&mut server, &[wide("GET k", MANY), b"PING\r\n".to_vec()]);
    assert_eq!(wrong, "-ERR wrong number of arguments for 'get' command\r\n+PONG\r\n");
    assert_eq!(laned(&mut server), before);
    assert_eq!(exchange(&mut server, &[wide("POST /", MANY), b"PING\r\n".to_vec()]), "");
}

#[derive(Clone, Default)]
struct Ear(Arc<Mutex<Vec<String>>>);

impl ChangeSink for Ear {
    fn hear(&self, happened: Vec<Effect>, _wakers: &mut Vec<Ticket>) {
        let mut heard = self.0.lock();
        heard.extend(happened.into_iter().map(|effect| match effect {
            Effect::Happened { event, key, .. } => {
                format!("{} {}", event.name, String::from_utf8_lossy(&key))
            }
            Effect::Publish { message, .. } => String::from_utf8_lossy(&message).into_owned(),
            Effect::Invalidate { .. } => "invalidate".into(),
        }));
    }

    fn forget_all(&self, _wakers: &mut Vec<Ticket>) {}
}

/// The reply to a transaction of these commands, and the events heard meanwhile.
fn transaction(server: &mut LocalServer, ear: &Ear, commands: &[&str]) -> (String, Vec<String>) {
    line(server, "MULTI");
    for command in commands {
        assert_eq!(line(server, command), b"+QUEUED\r\n", "{command}");
    }
    let reply = line(server, "EXEC");
    let start = String::from_utf8_lossy(&reply[..reply.len().min(60)]).replace("\r\n", " ");
    (start, std::mem::take(&mut *ear.0.lock()))
}

#[test]
fn a_transaction_that_goes_to_the_lane_has_done_nothing_before() {
    let ear = Ear::default();
    let mut server = observed(&vec![b'v'; LONG_BYTES], Some(Box::new(ear.clone())));
    server.space().want(EventMask::events(EventClass(!0)));
    line(&mut server, "SET foo 0");
    line(&mut server, "SELECT 5");
    line(&mut server, "SET foo five");
    line(&mut server, "SELECT 0");
    line(&mut server, "CONFIG RESETSTAT");
    ear.0.lock().clear();

    let before = laned(&mut server);
    let commands = [
        "STRLEN foo",
        "SELECT 5",
        "STRLEN foo",
        "PUBLISH c m",
        "HGET foo x",
        "GET no",
        "CLIENT SETNAME me",
        "SELECT 0",
        "GET s",
    ];
    let (reply, told) = transaction(&mut server, &ear, &commands);
    assert_eq!(laned(&mut server), before + 1);
    assert!(reply.starts_with("*9 :1 +OK :4 :0 -WRONGTYPE "), "{reply}");
    assert_eq!(told, ["m", "keymiss no"]);
    assert_eq!(line(&mut server, "CLIENT GETNAME"), b"$2\r\nme\r\n");
    assert_eq!(line(&mut server, "GET foo"), b"$1\r\n0\r\n", "database 0 is selected again");
    let info = String::from_utf8(line(&mut server, "INFO everything")).expect("text");
    for expected in [
        "cmdstat_strlen:calls=2,",
        "cmdstat_select:calls=2,",
        "cmdstat_publish:calls=1,",
        "errorstat_WRONGTYPE:count=1\r",
        "total_error_replies:1\r",
        "keyspace_misses:1\r",
        "cmdstat_hget:calls=1,",
        "cmdstat_exec:calls=1,",
    ] {
        assert!(info.contains(expected), "{expected}: {info}");
    }
    for expected in ["strlen", "publish", "select"] {
        let histogram = line(&mut server, &format!("LATENCY HISTOGRAM {expected}"));
        let histogram = String::from_utf8(histogram).expect("text").replace("\r\n", " ");
        let calls = if expected == "publish" { "calls :1 " } else { "calls :2 " };
        assert!(histogram.contains(calls), "{histogram}");
    }
}

#[test]
fn the_session_is_as_it_was_when_a_transaction_begins_again() {
    let mut server = server_with(&vec![b'v'; LONG_BYTES]);
    let ear = Ear::default();
    line(&mut server, "SELECT 5");
    line(&mut server, "SET foo five");
    line(&mut server, "SELECT 0");
    let (reply, _) =
        transaction(&mut server, &ear, &["DEL foo", "SELECT 5", "STRLEN foo", "SELECT 0", "GET s"]);
    assert!(reply.starts_with("*5 :0 +OK :4 +OK $3145728 "), "{reply}");
    let (reply, _) = transaction(&mut server, &ear, &["HGETALL h", "HELLO 3", "HGETALL h"]);
    assert!(reply.starts_with("*3 *2 $1 f $3145728 "), "{reply}");
    let (reply, _) = transaction(&mut server, &ear, &["HELLO 2", "GET no", "GET s"]);
    assert!(reply.starts_with("*3 "), "{reply}");
    let (reply, _) = transaction(&mut server, &ear, &["GET no", "HELLO 3", "GET no", "GET s"]);
    assert!(reply.starts_with("*4 $-1 "), "{reply}");
}
