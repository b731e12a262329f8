//! Memcached's text protocol, as a worker serves it. compat/memcached compares the replies with
//! memcached's.

use pantala_base::Rng;
use pantala_commands::{Group, Protocol};
use pantala_server::in_process::LocalServer;
use pantala_settings::{Caller, Settings};

fn server() -> LocalServer {
    let mut server = LocalServer::new(Settings::defaults()).expect("descriptors");
    server.speak(Protocol::MemcachedText);
    server
}

fn ask(server: &mut LocalServer, request: impl AsRef<[u8]>) -> String {
    let mut reply = Vec::new();
    server.exchange(request.as_ref(), &mut reply);
    String::from_utf8(reply).expect("text")
}

#[track_caller]
fn check(server: &mut LocalServer, request: &str, expected: &str) {
    assert_eq!(ask(server, request), expected, "{request:?}");
}

#[test]
fn items_are_stored_and_found() {
    let mut server = server();
    check(&mut server, "set a 5 0 3\r\nabc\r\n", "STORED\r\n");
    check(&mut server, "get a\r\n", "VALUE a 5 3\r\nabc\r\nEND\r\n");
    check(
        &mut server,
        "add a 0 0 1\r\nx\r\nreplace b 0 0 1\r\nx\r\n",
        "NOT_STORED\r\nNOT_STORED\r\n",
    );
    check(&mut server, "append a 0 0 1\r\nd\r\nprepend a 0 0 1\r\n-\r\n", "STORED\r\nSTORED\r\n");
    check(&mut server, "get b a c\r\n", "VALUE a 5 5\r\n-abcd\r\nEND\r\n");
    check(
        &mut server,
        "incr n 1\r\nset n 7 0 2 noreply\r\n10\r\ndecr n 1\r\n",
        "NOT_FOUND\r\n9\r\n",
    );
    check(&mut server, "get n\r\n", "VALUE n 7 2\r\n9 \r\nEND\r\n");
    check(&mut server, "delete a\r\ndelete a\r\n", "DELETED\r\nNOT_FOUND\r\n");
    check(&mut server, "touch n -1\r\nget n\r\n", "TOUCHED\r\nEND\r\n");
}

#[test]
fn what_was_read_is_compared() {
    let mut server = server();
    let told = ask(&mut server, "set a 0 0 1\r\nx\r\ngets a\r\n");
    let unique = told.lines().nth(1).and_then(|line| line.split(' ').nth(4)).expect("a number");
    let request = format!("cas a 0 0 1 {unique}\r\ny\r\n").repeat(2);
    check(&mut server, &request, "STORED\r\nEXISTS\r\n");
    check(
        &mut server,
        "cas b 0 0 1 1\r\ny\r\nget a\r\n",
        "NOT_FOUND\r\nVALUE a 0 1\r\ny\r\nEND\r\n",
    );
}

#[test]
fn a_get_of_very_many_keys_is_one_answer_in_whatever_pieces_it_comes() {
    let mut server = server();
    check(&mut server, "set a 0 0 1\r\nx\r\nset b 1 0 1\r\ny\r\n", "STORED\r\nSTORED\r\n");
    let request = format!("get {}\r\nversion\r\n", "a none b ".repeat(100));
    let values = "VALUE a 0 1\r\nx\r\nVALUE b 1 1\r\ny\r\n".repeat(100);
    let expected = format!("{values}END\r\nVERSION 1.6.18\r\n");
    check(&mut server, &request, &expected);
    for piece in [1, 7, 500] {
        let pieces = request.as_bytes().chunks(piece);
        let told: String = pieces.map(|piece| ask(&mut server, piece)).collect();
        assert_eq!(told, expected, "{piece}");
    }
}

#[test]
fn what_is_too_large_is_thrown_away_as_it_comes_and_what_was_there_goes() {
    let mut server = server();
    let large = "x".repeat(1 << 20);
    let request = format!("set a 0 0 {}\r\n{large}\r\nget a\r\nversion\r\n", large.len());
    let expected = "SERVER_ERROR object too large for cache\r\nEND\r\nVERSION 1.6.18\r\n";
    for piece in [usize::MAX, 100_000] {
        check(&mut server, "set a 0 0 1\r\nx\r\n", "STORED\r\n");
        let pieces = request.as_bytes().chunks(piece);
        let told: String = pieces.map(|piece| ask(&mut server, piece)).collect();
        assert_eq!(told, expected, "{piece}");
    }
}

#[test]
fn other_types_are_no_items() {
    let mut server = server();
    server.speak(Protocol::Resp);
    ask(&mut server, "RPUSH l a\r\nSET s 10\r\n");
    server.speak(Protocol::MemcachedText);
    let error =
        "SERVER_ERROR WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
    check(&mut server, "get l\r\nset l 0 0 1\r\nx\r\nincr l 1\r\n", &error.repeat(3));
    check(&mut server, "set l 0 0 1 noreply\r\nx\r\n", "");
    check(&mut server, "get l s\r\n", "VALUE s 0 2\r\n10\r\nEND\r\n");
    server.speak(Protocol::Resp);
    assert_eq!(ask(&mut server, "MC.GET s\r\n").split(' ').nth(1), Some("unknown"));
}

#[test]
fn what_was_done_is_recorded_as_commands_of_resp() {
    let mut server = server();
    server.record();
    for (request, expected) in [
        ("set a 0 0 1\r\nx\r\n", "SET a x"),
        ("set a 5 0 1\r\nx\r\n", "MULTI SET a x REPLCONF ACK PANTALA mc.flags a 5 EXEC"),
        ("append a 0 0 1\r\ny\r\n", "APPEND a y"),
        (
            "prepend a 0 0 1\r\nw\r\n",
            "MULTI SET a wxy KEEPTTL REPLCONF ACK PANTALA mc.flags a 5 EXEC",
        ),
        ("get a\r\ngets a\r\ntouch a 0\r\nadd a 0 0 1\r\nx\r\n", ""),
        ("set a 0 -1 1\r\nx\r\n", "DEL a"),
        ("set a 0 0 1\r\n1\r\nincr a 9\r\n", "SET a 1 SET a 10 KEEPTTL"),
        ("touch a 2000000000\r\ngat 0 a\r\n", "PEXPIREAT a 2000000000000 PERSIST a"),
        ("delete a\r\ndelete a\r\n", "DEL a"),
        ("set a 0 2000000000 1\r\nx\r\n", "SET a x PXAT 2000000000000"),
        ("flush_all\r\n", "FLUSHDB"),
    ] {
        ask(&mut server, request);
        let recorded = String::from_utf8(server.recorded()).expect("text");
        let words = recorded.split("\r\n").filter(|word| !word.starts_with(['*', '$']));
        let words: Vec<_> = words.filter(|word| !["", "SELECT", "0"].contains(word)).collect();
        assert_eq!(words.join(" "), expected, "{request:?}");
    }
}

#[test]
fn who_has_to_give_a_password_gives_it_with_set() {
    // A wrong password is not followed by a delay: in this process no time passes.
    let pairs: [(&[u8], &[u8]); 2] = [(b"requirepass", b"secret"), (b"auth_failure_delay", b"0")];
    let settings = Settings::defaults().set(&pairs, Caller::Local).expect("it may be set");
    let mut server = LocalServer::new(settings).expect("descriptors");
    server.speak(Protocol::MemcachedText);
    check(&mut server, "get a\r\n", "CLIENT_ERROR unauthenticated\r\n");
    check(
        &mut server,
        "set x 0 0 13\r\ndefault wrong\r\n",
        "CLIENT_ERROR authentication failure\r\n",
    );
    check(&mut server, "set x 0 0 14\r\ndefault secret\r\nget x\r\n", "STORED\r\nEND\r\n");
}

/// A server whose single port serves both protocols, with a fresh connection.
fn shared_port() -> LocalServer {
    let pairs: [(&[u8], &[u8]); 1] = [(b"primary_port_memcached", b"clear")];
    let settings = Settings::defaults().set(&pairs, Caller::Local).expect("it may be set");
    let mut server = LocalServer::new(settings).expect("descriptors");
    server.speak(Protocol::Undecided);
    server
}

#[test]
fn at_a_shared_port_the_first_line_tells_what_is_spoken() {
    let mut noop = [0; 24];
    noop[..2].copy_from_slice(&[0x80, 0x0a]);
    for (request, expected) in [
        (&b"set a 0 0 1\r\nx\r\nget a\r\n"[..], "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n"),
        (b"mn\r\n", "MN\r\n"),
        (b"get a b\r\n", "END\r\n"),
        (b"get a\r\nmn\r\n", "$-1\r\n-ERR unknown command 'mn', with args beginning with: \r\n"),
        (b"*1\r\n$4\r\nPING\r\n", "+PONG\r\n"),
        (b"set a x\r\nget a\r\n", "+OK\r\n$1\r\nx\r\n"),
        (b"\r\nPING\r\n", "+PONG\r\n"),
    ] {
        for piece in [1, 2, 100] {
            let mut server = shared_port();
            let pieces = request.chunks(piece);
            let told: String = pieces.map(|piece| ask(&mut server, piece)).collect();
            assert_eq!(
                told,
                expected,
                "{:?} in pieces of {piece}",
                String::from_utf8_lossy(request)
            );
        }
    }
    let mut reply = Vec::new();
    shared_port().exchange(&noop, &mut reply);
    assert_eq!((reply[0], reply[1], reply.len()), (0x81, 0x0a, 24));
}

#[test]
fn what_stats_tell_is_true() {
    let mut server = server();
    ask(
        &mut server,
        "set a 0 0 1\r\nx\r\nget a b\r\ngat 0 a b\r\nincr a 1\r\ndelete b\r\nincr b 1\r\n",
    );
    let stats = ask(&mut server, "stats\r\n");
    for line in [
        "cmd_get 4",
        "cmd_set 1",
        "cmd_touch 2",
        "get_hits 1",
        "get_misses 1",
        "touch_hits 1",
        "touch_misses 1",
        "delete_misses 1",
        "incr_hits 0",
        "incr_misses 1",
        "curr_items 1",
    ] {
        assert!(stats.contains(&format!("STAT {line}\r\n")), "{line} {stats}");
    }
    assert!(stats.ends_with("END\r\n"));
    check(&mut server, "stats reset\r\nstats nothing\r\n", "RESET\r\nERROR\r\n");
    assert!(ask(&mut server, "stats\r\n").contains("STAT cmd_get 0\r\n"));
}

#[test]
fn a_time_to_live_beyond_32_bits_is_kept_and_told() {
    let mut server = server();
    check(
        &mut server,
        "ms a 1 T4294967296\r\nx\r\nset b 0 4294967296 1\r\nx\r\n",
        "HD\r\nSTORED\r\n",
    );
    let told = ask(&mut server, "mg a t\r\nmg b t\r\nma c N4294967296 t\r\n");
    let seconds: Vec<u64> = told
        .lines()
        .map(|line| line.strip_prefix("HD t").and_then(|s| s.parse().ok()).expect("a number"))
        .collect();
    assert!(seconds.iter().all(|&left_s| left_s > 1 << 30), "{told}");
    check(
        &mut server,
        "mg c t\r\n",
        &told.lines().last().map(|line| format!("{line}\r\n")).unwrap(),
    );
}

#[test]
fn meta_arithmetic_counts_as_what_it_does() {
    let mut server = server();
    ask(&mut server, "set n 0 0 1\r\n5\r\nma n\r\nma n MD\r\nma n M-\r\nma none\r\nma none MD\r\n");
    let stats = ask(&mut server, "stats\r\n");
    for line in ["incr_hits 1", "incr_misses 1", "decr_hits 2", "decr_misses 1"] {
        assert!(stats.contains(&format!("STAT {line}\r\n")), "{line} {stats}");
    }
}

#[test]
fn pages_of_stats_tell_of_one_class() {
    let mut server = server();
    check(&mut server, "stats items\r\n", "END\r\n");
    ask(&mut server, "set a 0 0 1\r\nx\r\nset b 0 0 1\r\nx\r\nget a\r\n");
    let (items, slabs) = (ask(&mut server, "stats items\r\n"), ask(&mut server, "stats slabs\r\n"));
    assert!(items.starts_with("STAT items:1:number 2\r\nSTAT items:1:evicted 0\r\n"), "{items}");
    for line in ["1:used_chunks 2", "1:cmd_set 2", "1:get_hits 1", "active_slabs 1"] {
        assert!(slabs.contains(&format!("STAT {line}\r\n")), "{line} {slabs}");
    }
    let settings = ask(&mut server, "stats settings\r\n");
    assert!(settings.contains("STAT evictions off\r\n"), "{settings}");
    assert!(ask(&mut server, "stats conns\r\n").ends_with("END\r\n"));
}

#[test]
fn flags_stay_where_resp_changes_a_part_and_go_where_it_puts_a_whole_value() {
    let mut server = server();
    for (command, expected) in [
        ("APPEND k 1", 7),
        ("INCR k", 7),
        ("INCRBYFLOAT k 0.5", 7),
        ("SETRANGE k 0 5", 7),
        ("SETBIT k 0 0", 7),
        ("GETEX k EX 100", 7),
        ("RENAME k k", 7),
        ("SET k 1", 0),
        ("GETSET k 1", 0),
        ("SETEX k 100 1", 0),
        ("MSET k 1", 0),
    ] {
        ask(&mut server, "set k 7 0 1\r\n1\r\n");
        server.speak(Protocol::Resp);
        let told = ask(&mut server, format!("{command}\r\n"));
        assert!(!told.starts_with('-'), "{command} {told}");
        server.speak(Protocol::MemcachedText);
        let flags = format!("HD f{expected}\r\n");
        assert_eq!(ask(&mut server, "mg k f\r\n"), flags, "{command}");
    }
    server.record();
    ask(&mut server, "set k 7 0 1\r\n1\r\n");
    server.speak(Protocol::Resp);
    ask(&mut server, "INCRBYFLOAT k 0.5\r\n");
    let recorded = String::from_utf8(server.recorded()).expect("text");
    assert!(
        recorded.ends_with("mc.flags\r\n$1\r\nk\r\n$1\r\n7\r\n*1\r\n$4\r\nEXEC\r\n"),
        "{recorded}"
    );
}

/// Requests that clients may send, some of them wrong.
fn session(rng: &mut Rng) -> String {
    let key = |rng: &mut Rng| format!("k{}", rng.below(5));
    let mut bytes = String::new();
    for _ in 0..1 + rng.below(30) {
        let (one, length) = (key(rng), rng.below(40) as usize);
        let data = "d".repeat(length);
        bytes += &match rng.below(12) {
            0..3 => format!("set {one} {} 0 {length}\r\n{data}\r\n", rng.below(3)),
            3 => format!("append {one} 0 0 {length} noreply\r\n{data}\r\n"),
            4 => format!("set {one} 0 0 {length}\r\n{data}!\r\n"),
            5 => format!("set {one} 0 0 3000000\r\n{}\r\n", "x".repeat(3_000_000)),
            6 => format!("set {one} 0 0 1\r\n{}\r\nincr {one} 5\r\n", rng.below(10)),
            7 => "nonsense\r\nset a b\r\n".to_owned(),
            8 => format!("delete {one}\r\ntouch {one} 100\r\n"),
            _ => {
                let keys: Vec<_> = (0..1 + rng.below(150)).map(|_| key(rng)).collect();
                let verb = ["get", "gat 100"][rng.below(2) as usize];
                format!("{verb} {}\r\n", keys.join(" "))
            }
        };
    }
    bytes
}

#[test]
fn answers_do_not_depend_on_how_the_bytes_are_cut() {
    for seed in 0..20 {
        let mut rng = Rng::from_seed(seed);
        let bytes = session(&mut rng);
        let whole = ask(&mut server(), &bytes);
        let (mut server, mut told, mut left) = (server(), String::new(), bytes.as_bytes());
        while !left.is_empty() {
            let most = if rng.below(3) == 0 { 2_000_000 } else { 100 };
            let piece;
            (piece, left) = left.split_at(left.len().min(1 + rng.below(most) as usize));
            told += &ask(&mut server, piece);
        }
        assert!(told == whole, "seed {seed}: {} bytes, {} bytes", told.len(), whole.len());
    }
}

#[test]
fn a_flush_comes_after_its_delay_unless_it_is_called_off() {
    let mut server = server();
    let stored = "set a 0 0 1\r\nx\r\n";
    check(&mut server, stored, "STORED\r\n");
    check(&mut server, "flush_all 100\r\nget a\r\n", "OK\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    check(&mut server, "flush_all\r\nget a\r\n", "OK\r\nEND\r\n");
    check(&mut server, stored, "STORED\r\n");
    check(&mut server, "flush_all 1\r\n", "OK\r\n");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while ask(&mut server, "get a\r\n") != "END\r\n" {
        assert!(std::time::Instant::now() < deadline, "nothing was flushed");
        std::thread::yield_now();
    }
    check(&mut server, stored, "STORED\r\n");
    check(&mut server, "get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn a_flush_waits_while_clients_are_paused() {
    let mut server = server();
    check(&mut server, "set a 0 0 1\r\nx\r\nflush_all 1\r\n", "STORED\r\nOK\r\n");
    let began = std::time::Instant::now();
    server.speak(Protocol::Resp);
    check(&mut server, "CLIENT PAUSE 100000 WRITE\r\n", "+OK\r\n");
    while began.elapsed() < std::time::Duration::from_millis(1_300) {
        check(&mut server, "EXISTS a\r\n", ":1\r\n");
    }
    check(&mut server, "CLIENT UNPAUSE\r\n", "+OK\r\n");
    while ask(&mut server, "EXISTS a\r\n") != ":0\r\n" {
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "nothing was flushed");
        std::thread::yield_now();
    }
}

#[test]
fn a_large_delay_of_a_flush_is_a_moment() {
    let mut server = server();
    let stored = "set a 0 0 1\r\nx\r\n";
    check(&mut server, stored, "STORED\r\n");
    check(&mut server, "flush_all 4102444800\r\nget a\r\n", "OK\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    check(&mut server, "flush_all 1700000000\r\nget a\r\n", "OK\r\nEND\r\n");
}

#[test]
fn every_row_is_allowed_as_a_command_that_rules_know() {
    let server = LocalServer::new(Settings::defaults()).expect("descriptors");
    let registry = server.registry();
    for (number, row) in registry.rows().iter().enumerate() {
        let found = registry.row_of(&row.full_name()).expect("it is there");
        let permission = registry.permission(found);
        let is_its_own = usize::from(permission.0) == number;
        assert_eq!(is_its_own, row.group != Group::Memcached, "{}", row.full_name());
    }
}

#[test]
fn a_request_is_allowed_to_whom_a_command_is_that_does_the_same() {
    let mut server = LocalServer::new(Settings::defaults()).expect("descriptors");
    let allowed = |server: &mut LocalServer, rules: &str, asked: &str| -> bool {
        server.speak(Protocol::Resp);
        let rules: Vec<&str> = rules.split(' ').collect();
        let words = [&["ACL", "SETUSER", "default", "resetkeys", "~*", "-@all"][..], &rules];
        let words = words.concat();
        let encoded = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        let request = format!("*{}\r\n{}", words.len(), encoded.collect::<String>());
        assert_eq!(ask(server, request), "+OK\r\n");
        server.speak(Protocol::MemcachedText);
        !ask(server, asked).contains("no permissions")
    };
    let item = "set k 0 0 1\r\nv\r\n";
    for (asked, rules, no_rules) in [
        ("stats\r\n", "+info", "+ping"),
        ("stats reset\r\n", "+config|resetstat", "+info"),
        ("stats conns\r\n", "+client|list", "+info"),
        ("stats settings\r\n", "+config|get", "+info"),
        (item, "+set", "+append"),
        ("append k 0 0 1\r\nv\r\n", "+append", "+set"),
        ("prepend k 0 0 1\r\nv\r\n", "+append", "+set"),
        ("ms k 1 MA\r\nv\r\n", "+append", "+set"),
        ("ms k 1 MP\r\nv\r\n", "+append", "+set"),
        ("ms k 1\r\nv\r\n", "+set", "+append"),
        ("mg k v\r\n", "+get", "+set"),
        ("mg k v T10\r\n", "+getex +get", "+set"),
        ("mg k v T10\r\n", "+getex +get", "+set +getex"),
        ("mg k v N10\r\n", "+set +get", "+set"),
        ("mg k v N10\r\n", "+set +get", "+get"),
    ] {
        let with = |rules: &str| format!("{rules} +acl|setuser");
        assert!(allowed(&mut server, &with(rules), asked), "{asked:?} with {rules}");
        assert!(!allowed(&mut server, &with(no_rules), asked), "{asked:?} with {no_rules}");
    }
}
