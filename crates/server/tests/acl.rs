//! Users' rules where no transcript can test them: Memcached's protocols, requests too long for a
//! worker, and every command row.

use pantala_commands::Protocol;
use pantala_server::in_process::LocalServer;
use pantala_settings::Settings;

fn ask(server: &mut LocalServer, request: impl AsRef<[u8]>) -> String {
    let mut reply = Vec::new();
    server.exchange(request.as_ref(), &mut reply);
    String::from_utf8_lossy(&reply).into_owned()
}

fn request(args: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend(format!("${}\r\n{arg}\r\n", arg.len()).bytes());
    }
    bytes
}

/// A server on which an operator has run these commands.
fn server(commands: &[&str]) -> LocalServer {
    // A wrong password is not followed by a delay: in this process no time passes.
    let settings = Settings::defaults().with("auth_failure_delay", "0").expect("a number");
    let mut server = LocalServer::new(settings).expect("descriptors");
    for command in commands {
        let words: Vec<&str> = command.split(' ').collect();
        let told = ask(&mut server, request(&words));
        assert!(!told.starts_with('-'), "{command}: {told}");
    }
    server
}

#[track_caller]
fn check(server: &mut LocalServer, request: impl AsRef<[u8]>, expected: &str) {
    assert_eq!(ask(server, request), expected);
}

const NO_KEY: &str = "-NOPERM No permissions to access a key\r\n";

#[test]
fn a_client_of_memcached_is_the_default_user() {
    let mut server = server(&["ACL SETUSER default resetkeys ~a* -@all +get +incrby +select"]);
    server.speak(Protocol::MemcachedText);
    let not_allowed = |what: &str| {
        format!(
            "CLIENT_ERROR NOPERM User default has no permissions to run the '{what}' command\r\n"
        )
    };
    check(&mut server, "get a\r\n", "END\r\n");
    check(&mut server, "get b\r\n", "CLIENT_ERROR NOPERM No permissions to access a key\r\n");
    check(&mut server, "mg b v\r\n", "CLIENT_ERROR NOPERM No permissions to access a key\r\n");
    check(&mut server, "set a 0 0 1\r\nx\r\n", &not_allowed("mc.set"));
    check(&mut server, "flush_all\r\n", &not_allowed("mc.flush_all"));
    check(&mut server, "cache_memlimit 64\r\n", &not_allowed("mc.cache_memlimit"));
    check(&mut server, "incr a 1\r\n", "NOT_FOUND\r\n");
    check(&mut server, "set a 0 0 1 noreply\r\nx\r\nget a\r\n", "END\r\n");
}

/// A request in the binary protocol.
fn binary(opcode: u8, key: &str, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x80, opcode, 0, key.len() as u8, 0, 0, 0, 0, 0, 0, 0];
    bytes.push((key.len() + value.len()) as u8);
    bytes.extend([0; 12]);
    bytes.extend(key.bytes());
    bytes.extend(value);
    bytes
}

/// The status of the answer.
fn status(server: &mut LocalServer, request: &[u8]) -> (u8, u8) {
    let mut reply = Vec::new();
    server.exchange(request, &mut reply);
    (reply[6], reply[7])
}

#[test]
fn with_sasl_it_is_who_it_says() {
    const GET: u8 = 0;
    const AUTH: u8 = 0x21;
    let mut server = server(&["ACL SETUSER anna on >secret ~b* +get", "ACL SETUSER default -@all"]);
    server.speak(Protocol::MemcachedBinary);
    assert_eq!(status(&mut server, &binary(GET, "b", b"")), (0, 0x20));
    assert_eq!(status(&mut server, &binary(AUTH, "PLAIN", b"\0anna\0wrong")), (0, 0x20));
    assert_eq!(status(&mut server, &binary(AUTH, "PLAIN", b"\0anna\0secret")), (0, 0));
    assert_eq!(status(&mut server, &binary(GET, "b", b"")), (0, 1), "not found");
    assert_eq!(status(&mut server, &binary(GET, "a", b"")), (0, 0x20), "not its key");
}

#[test]
fn a_request_that_no_worker_has_as_a_whole_is_asked_about_too() {
    let mut server = server(&["ACL SETUSER anna on nopass ~a* +@all", "SET b secret"]);
    check(&mut server, request(&["AUTH", "anna", "x"]), "+OK\r\n");
    let names: Vec<String> = (0..3000).map(|number| format!("a{number}")).collect();
    let mut mget: Vec<&str> = vec!["MGET"];
    mget.extend(names.iter().map(String::as_str));
    let allowed = ask(&mut server, request(&mget));
    assert!(allowed.starts_with("*3000\r\n"), "{}", &allowed[..20]);
    mget.push("b");
    check(&mut server, request(&mget), NO_KEY);
    let long = "x".repeat(3 << 20);
    check(&mut server, request(&["SET", "b", &long]), NO_KEY);
    check(&mut server, request(&["SET", "a", &long]), "+OK\r\n");
    for refused in [request(&mget), request(&["SET", "b", &long])] {
        check(&mut server, request(&["MULTI"]), "+OK\r\n");
        check(&mut server, &refused, NO_KEY);
        let aborted = "-EXECABORT Transaction discarded because of previous errors.\r\n";
        check(&mut server, request(&["EXEC"]), aborted);
    }
    check(&mut server, request(&["AUTH", "default", ""]), "+OK\r\n");
    check(&mut server, request(&["STRLEN", "b"]), ":6\r\n");
}

#[test]
fn rules_hold_from_the_next_command_on() {
    let mut server = server(&["ACL SETUSER anna on nopass ~a* +@all"]);
    check(&mut server, request(&["AUTH", "anna", "x"]), "+OK\r\n");
    let pipeline = [
        request(&["GET", "a"]),
        request(&["ACL", "SETUSER", "anna", "-get"]),
        request(&["GET", "a"]),
        request(&["AUTH", "default", ""]),
        request(&["GET", "b"]),
    ];
    let refused = "-NOPERM User anna has no permissions to run the 'get' command\r\n";
    check(&mut server, pipeline.concat(), &format!("$-1\r\n+OK\r\n{refused}+OK\r\n$-1\r\n"));
}

#[test]
fn what_a_transaction_that_begins_again_is_refused_is_logged_once() {
    let mut server = server(&["ACL SETUSER anna on nopass ~s +@all"]);
    let long = "x".repeat(3 << 20);
    check(&mut server, request(&["SET", "s", &long]), "+OK\r\n");
    // Long arguments are read by the lane.
    for line in ["MULTI", "AUTH anna x", "GET b", "AUTH nobody x", "GET s"] {
        ask(&mut server, request(&line.split(' ').collect::<Vec<_>>()));
    }
    let told = ask(&mut server, request(&["EXEC"]));
    assert!(told.ends_with("xx\r\n"), "{}", &told[..200]);
    let log = ask(&mut server, request(&["ACL", "LOG"]));
    assert!(log.starts_with("*2\r\n"), "{log}");
    assert_eq!(log.matches("count\r\n:1\r\n").count(), 2, "{log}");
}

#[test]
fn of_many_passwords_in_a_transaction_only_the_first_is_looked_at() {
    let mut server = server(&["ACL SETUSER anna on >secret +@all"]);
    let pipeline = [
        request(&["MULTI"]),
        request(&["AUTH", "anna", "wrong"]),
        request(&["AUTH", "anna", "secret"]),
        request(&["ACL", "WHOAMI"]),
        request(&["EXEC"]),
    ];
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    let queued = "+QUEUED\r\n".repeat(3);
    let told = format!("+OK\r\n{queued}*3\r\n{wrong}{wrong}$7\r\ndefault\r\n");
    check(&mut server, pipeline.concat(), &told);
}
