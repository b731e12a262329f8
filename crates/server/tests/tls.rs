//! A whole server that speaks TLS, with both event loops: requests and replies, strangers, slow
//! handshakes, certificates that change, connections that move.
//!
//! Each server runs in this process; certificates are made by openssl.

#[path = "../../tls/tests/common/mod.rs"]
mod certificates;
mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, LazyLock};

use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use certificates::{Authority, server_name};
use common::{Server, free_port};

const ENGINES: [&str; 2] = ["epoll", "auto"];

static AUTHORITY: LazyLock<Authority> = LazyLock::new(|| {
    let authority = Authority::new();
    for name in ["server", "second", "client"] {
        authority.sign(name);
    }
    authority
});

impl Server {
    /// A server with the authority's certificates and these settings; clients need no certificate.
    fn sealed(engine: &str, more: &[&str]) -> Server {
        let path = |name| AUTHORITY.path(name);
        let files = [path("server.crt"), path("server.key"), path("ca.crt")];
        let mut args = vec!["--port", "0", "--io_engine", engine, "--threads", "3"];
        args.extend(["--tls-cert-file", &files[0], "--tls-key-file", &files[1]]);
        args.extend(["--tls-ca-cert-file", &files[2], "--tls-auth-clients", "no"]);
        args.extend(more);
        Server::at_port("--tls-port", &args)
    }

    fn client(&self) -> Client {
        self.client_with(AUTHORITY.client(None, &[&TLS12, &TLS13]))
    }

    fn client_with(&self, config: Arc<ClientConfig>) -> Client {
        let mut tls = ClientConnection::new(config, server_name()).expect("a client");
        tls.set_buffer_limit(None);
        Client { stream: StreamOwned::new(tls, self.connect_to_port()), heard: Vec::new() }
    }
}

struct Client {
    stream: StreamOwned<ClientConnection, TcpStream>,
    heard: Vec<u8>,
}

impl Client {
    fn say(&mut self, text: impl AsRef<[u8]>) {
        self.stream.write_all(text.as_ref()).expect("it reads");
        self.stream.flush().expect("it reads");
    }

    /// Reads this many bytes.
    fn hear(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).expect("it answers");
        bytes
    }

    #[track_caller]
    fn check(&mut self, request: &str, reply: &str) {
        self.say(format!("{request}\r\n"));
        self.hears(reply);
    }

    #[track_caller]
    fn hears(&mut self, text: &str) {
        assert_eq!(String::from_utf8_lossy(&self.hear(text.len())), text);
    }

    /// Reads to the end, which must be announced by TLS.
    fn rest(mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.heard);
        self.stream.read_to_end(&mut bytes).expect("an end that is said");
        bytes
    }

    /// One line of a reply, without its end.
    fn line(&mut self) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.extend(self.hear(1));
        }
        String::from_utf8_lossy(&line[..line.len() - 2]).into_owned()
    }

    fn set_long(&mut self, key: &str, length: usize) {
        let (value, key_length) = ("v".repeat(length), key.len());
        let text = format!("*3\r\n$3\r\nSET\r\n${key_length}\r\n{key}\r\n${length}\r\n{value}");
        self.check(&text, "+OK\r\n");
    }

    fn bulk(&mut self, request: &str) -> String {
        self.say(format!("{request}\r\n"));
        let length = self.line()[1..].parse().expect("a length");
        let text = String::from_utf8_lossy(&self.hear(length)).into_owned();
        self.hears("\r\n");
        text
    }
}

#[test]
fn commands_and_pipelines_are_answered_in_both_versions() {
    for engine in ENGINES {
        let server = Server::sealed(engine, &[]);
        for version in [&TLS12, &TLS13] {
            let mut client = server.client_with(AUTHORITY.client(None, &[version]));
            client.check("PING", "+PONG\r\n");
            client.check("SET k v\r\nGET k\r\nDEL k", "+OK\r\n$1\r\nv\r\n:1\r\n");
            client.say("INCR n\r\n".repeat(20_000));
            let expected: String = (1..=20_000).map(|n| format!(":{n}\r\n")).collect();
            client.hears(&expected);
            client.check("DEL n", ":1\r\n");
        }
    }
}

#[test]
fn commands_may_come_byte_by_byte_each_in_a_record() {
    for engine in ENGINES {
        let server = Server::sealed(engine, &[]);
        let mut client = server.client();
        for byte in b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nhello\r\nGET k\r\n" {
            client.say([*byte]);
        }
        client.hears("+OK\r\n$5\r\nhello\r\n");
        // Also with the records in pieces of one byte.
        let tls = &mut client.stream.conn;
        tls.writer().write_all(b"PING\r\n").expect("memory");
        let mut wire = Vec::new();
        tls.write_tls(&mut wire).expect("memory");
        for byte in wire {
            client.stream.sock.write_all(&[byte]).expect("it reads");
        }
        client.hears("+PONG\r\n");
    }
}

#[test]
fn long_values_go_both_ways_while_others_are_served() {
    for engine in ENGINES {
        let server = Server::sealed(engine, &[]);
        let (mut client, mut other) = (server.client(), server.client());
        let value: Vec<u8> = (0..50_000_000_u32).map(|n| (n >> 9) as u8).collect();
        client.say(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", value.len()));
        client.say(&value);
        client.check("", "+OK\r\n");
        // Requested twice, and not read for a while.
        client.say("GET k\r\nGET k\r\nPING\r\n");
        for _ in 0..100 {
            other.check("PING", "+PONG\r\n");
        }
        for _ in 0..2 {
            client.hears("$50000000\r\n");
            assert!(client.hear(value.len()) == value);
            client.hears("\r\n");
        }
        client.hears("+PONG\r\n");
    }
}

#[test]
fn output_that_nobody_reads_counts_and_costs_the_connection() {
    for engine in ENGINES {
        let server = Server::sealed(engine, &["--client-output-buffer-limit", "normal 3mb 0 0"]);
        let mut client = server.client();
        client.set_long("k", 8 << 20);
        client.say("GET k\r\n");
        let mut bytes = Vec::new();
        let end = client.stream.read_to_end(&mut bytes);
        assert!(end.is_err() || bytes.len() < 8 << 20);
    }
}

#[test]
fn who_waits_is_served_and_who_listens_is_told() {
    for engine in ENGINES {
        let server = Server::sealed(engine, &[]);
        let (mut waiting, mut listening, mut other) =
            (server.client(), server.client(), server.client());
        listening.check("SUBSCRIBE c", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
        waiting.say("BLPOP l 0\r\n");
        while !other.bulk("INFO clients").contains("blocked_clients:1") {}
        other.check("RPUSH l x", ":1\r\n");
        waiting.hears("*2\r\n$1\r\nl\r\n$1\r\nx\r\n");
        other.check("PUBLISH c hi", ":1\r\n");
        listening.hears("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n");
    }
}

#[test]
fn an_end_is_said_to_whoever_quits_is_killed_or_closes_his_side() {
    for engine in ENGINES {
        let server = Server::sealed(engine, &[]);
        let mut client = server.client();
        client.say("PING\r\nQUIT\r\nPING\r\n");
        assert_eq!(client.rest(), b"+PONG\r\n+OK\r\n");
        let mut client = server.client();
        client.say("PING\r\n");
        client.stream.conn.send_close_notify();
        client.stream.flush().expect("it reads");
        assert_eq!(client.rest(), b"+PONG\r\n");
        let mut client = server.client();
        client.say("PING\r\n");
        client.stream.sock.shutdown(Shutdown::Write).expect("a socket");
        assert_eq!(client.rest(), b"+PONG\r\n");
        let (mut client, mut killer) = (server.client(), server.client());
        client.say("CLIENT ID\r\n");
        let id = client.line()[1..].to_owned();
        killer.check(&format!("CLIENT KILL ID {id}"), ":1\r\n");
        assert_eq!(client.rest(), b"");
    }
}

#[test]
fn who_has_no_certificate_comes_in_only_where_none_is_needed() {
    for engine in ENGINES {
        for (policy, may) in [("yes", false), ("optional", true), ("no", true)] {
            let server = Server::sealed(engine, &["--tls-auth-clients", policy]);
            let known = AUTHORITY.client(Some("client"), &[&TLS13]);
            server.client_with(known).check("PING", "+PONG\r\n");
            let mut client = server.client();
            // With TLS 1.3 a client may send before it is refused.
            let said = client.stream.write_all(b"PING\r\n");
            let mut reply = [0; 7];
            let heard = said.and_then(|()| client.stream.read_exact(&mut reply));
            assert_eq!(heard.is_ok(), may, "{policy}");
        }
    }
}

#[test]
fn a_certificate_may_name_its_user() {
    for engine in ENGINES {
        let server = Server::sealed(engine, &["--tls-auth-clients", "optional"]);
        let named = || server.client_with(AUTHORITY.client(Some("client"), &[&TLS13, &TLS12]));
        let mut admin = server.client();
        assert_eq!(named().bulk("ACL WHOAMI"), "default", "nobody has asked for it");
        admin.check("ACL SETUSER client on >secret ~* +@all", "+OK\r\n");
        admin.check("ACL SETUSER urn:second on nopass ~* +@all", "+OK\r\n");
        admin.check("CONFIG SET tls-auth-clients-user CN", "+OK\r\n");
        assert_eq!(named().bulk("ACL WHOAMI"), "client");
        admin.check("CONFIG SET tls-auth-clients-user URI", "+OK\r\n");
        assert_eq!(named().bulk("ACL WHOAMI"), "urn:second", "the first that is a user");
        admin.check("CONFIG SET tls-auth-clients-user CN", "+OK\r\n");
        admin.check("ACL SETUSER client off", "+OK\r\n");
        assert_eq!(named().bulk("ACL WHOAMI"), "default");
        assert!(admin.bulk("INFO stats").contains("acl_access_denied_tls_cert:1"));
        // A client without a certificate is served as before, also where a password is needed.
        assert_eq!(server.client().bulk("ACL WHOAMI"), "default");
        admin.check("ACL SETUSER client on", "+OK\r\n");
        admin.check("CONFIG SET requirepass x", "+OK\r\n");
        assert_eq!(named().bulk("ACL WHOAMI"), "client");
        let mut stranger = server.client();
        stranger.say("PING\r\n");
        assert_eq!(stranger.line(), "-NOAUTH Authentication required.");
    }
}

#[test]
fn handshakes_that_end_nowhere_are_ended_and_hold_up_nobody() {
    for engine in ENGINES {
        // Enough time for a good handshake on a busy machine.
        let server = Server::sealed(engine, &["--tls_handshake_timeout", "4"]);
        let mut half = Vec::new();
        let config = AUTHORITY.client(None, &[&TLS13]);
        let mut hello = ClientConnection::new(config, server_name()).expect("a client");
        hello.write_tls(&mut half).expect("memory");
        let stalled: Vec<TcpStream> = [0, 1, half.len() / 2, half.len()]
            .into_iter()
            .map(|length| {
                let mut socket = server.connect_to_port();
                socket.write_all(&half[..length]).expect("it reads");
                socket
            })
            .collect();
        let mut client = server.client();
        client.check("PING", "+PONG\r\n");
        for mut socket in stalled {
            // The last one has been answered.
            let mut rest = Vec::new();
            let end = socket.read_to_end(&mut rest);
            assert!(!matches!(&end, Err(error) if error.kind() == ErrorKind::WouldBlock));
        }
        client.check("PING", "+PONG\r\n");
        assert!(client.bulk("INFO tls").contains("tls_handshakes_late:4"));
    }
}

#[test]
fn what_is_no_tls_is_told_so_or_served() {
    for engine in ENGINES {
        let server = Server::sealed(engine, &[]);
        let mut socket = server.connect_to_port();
        socket.write_all(b"PING\r\n").expect("it reads");
        let mut text = String::new();
        socket.read_to_string(&mut text).expect("an end");
        assert!(text.starts_with("-ERR This port speaks TLS"), "{text}");
        let mut garbage = server.connect_to_port();
        garbage.write_all(b"\x16\x03\x01\x40\x00garbage\0\0\0\0").expect("it reads");
        garbage.shutdown(Shutdown::Write).expect("a socket");
        assert!(garbage.read_to_end(&mut Vec::new()).is_ok());
        let mut client = server.client();
        client.check("CONFIG SET tls_accept_plain yes", "+OK\r\n");
        let mut socket = server.connect_to_port();
        socket.write_all(b"PING\r\n").expect("it reads");
        let mut reply = [0; 7];
        socket.read_exact(&mut reply).expect("it answers");
        assert_eq!(&reply, b"+PONG\r\n");
        server.client().check("PING", "+PONG\r\n");
    }
}

#[test]
fn the_main_port_and_memcacheds_may_speak_tls() {
    for engine in ENGINES {
        let (main, items) = (free_port(), free_port());
        let (main_text, items_text) = (main.to_string(), items.to_string());
        let more = ["--tls", "--port", &main_text, "--memcached_port", &items_text];
        let mut server = Server::sealed(engine, &more);
        server.client().check("PING", "+PONG\r\n");
        server.port = main;
        server.client().check("SET k v", "+OK\r\n");
        server.port = items;
        server.client().check("get k", "VALUE k 0 1\r\nv\r\nEND\r\n");
    }
}

#[test]
fn certificates_change_while_the_server_runs_all_or_nothing() {
    for engine in ENGINES {
        let server = Server::sealed(engine, &[]);
        let serial = |client: &mut Client| {
            let info = client.bulk("INFO tls");
            let line = info.lines().find(|line| line.starts_with("tls_server_cert_serial"));
            line.expect("it is told").to_owned()
        };
        let mut client = server.client();
        let first = serial(&mut client);
        let (crt, key) = (AUTHORITY.path("second.crt"), AUTHORITY.path("second.key"));
        for (name, file) in [("tls-cert-file", &crt), ("tls-key-file", &key)] {
            client.say(format!("CONFIG SET timeout 600 {name} {file}\r\n"));
            let why = client.line();
            let begins = format!(
                "-ERR CONFIG SET failed (possibly related to argument '{name}') - Unable to \
                 update TLS configuration"
            );
            assert!(why.starts_with(&begins), "{why}");
            assert_eq!(serial(&mut client), first);
        }
        let got = format!(
            "tls-cert-file\r\n${}\r\n{}\r\n",
            AUTHORITY.path("server.crt").len(),
            AUTHORITY.path("server.crt")
        );
        client.check("CONFIG GET tls-cert-file", &format!("*2\r\n$13\r\n{got}"));
        client.check(&format!("CONFIG SET tls-cert-file {crt} tls-key-file {key}"), "+OK\r\n");
        assert_ne!(serial(&mut client), first);
        let mut fresh = server.client();
        fresh.check("PING", "+PONG\r\n");
        let shown = fresh.stream.conn.peer_certificates().expect("one");
        assert!(shown[0] == certificates::certificate(&crt));
        client.check("CONFIG SET tls-protocols TLSv1.3", "+OK\r\n");
        let mut old = server.client_with(AUTHORITY.client(None, &[&TLS12]));
        assert!(old.stream.write_all(b"PING\r\n").is_err());
        client.check("PING", "+PONG\r\n");
    }
}

/// A server whose certificate and key are replaced under their names.
struct Renewed {
    files: Authority,
    server: Server,
}

impl Renewed {
    fn new(more: &[&str]) -> Renewed {
        let files = Authority::new();
        replace(&files, "server");
        let (crt, key) = (files.path("own.crt"), files.path("own.key"));
        let own = ["--tls-cert-file", &crt, "--tls-key-file", &key];
        let server = Server::sealed("auto", &[&own[..], more].concat());
        Renewed { files, server }
    }

    fn shows(&self, name: &str) -> bool {
        let mut client = self.server.client();
        client.check("PING", "+PONG\r\n");
        let shown = &client.stream.conn.peer_certificates().expect("one")[0];
        *shown == certificates::certificate(&AUTHORITY.path(&format!("{name}.crt")))
    }
}

fn replace(files: &Authority, name: &str) {
    for kind in ["crt", "key"] {
        files.write(&format!("fresh.{kind}"), &AUTHORITY.read(&format!("{name}.{kind}")));
        files.rename(&format!("fresh.{kind}"), &format!("own.{kind}"));
    }
}

#[test]
fn files_that_are_replaced_are_read_anew_by_themselves() {
    let renewed = Renewed::new(&["--tls-auto-reload-interval", "1"]);
    assert!(renewed.shows("server"));
    replace(&renewed.files, "second");
    while !renewed.shows("second") {}
}

#[test]
fn the_same_name_set_again_has_the_files_read_anew() {
    let renewed = Renewed::new(&[]);
    replace(&renewed.files, "second");
    assert!(renewed.shows("server"), "nobody has asked for the others yet");
    let mut client = renewed.server.client();
    let same = format!("CONFIG SET tls-cert-file {}", renewed.files.path("own.crt"));
    client.check(&same, "+OK\r\n");
    assert!(renewed.shows("second"));
    // One that does not go with the key is refused, and what is in force stays.
    renewed.files.write("own.crt", &AUTHORITY.read("server.crt"));
    client.say(format!("{same}\r\n"));
    let why = client.line();
    assert!(why.contains("Unable to update TLS configuration"), "{why}");
    assert!(renewed.shows("second"));
}

#[test]
fn connections_move_between_workers_with_their_keys() {
    for engine in ENGINES {
        let server = Server::sealed(engine, &["--tls_handshake_timeout", "0"]);
        let mut clients: Vec<Client> = (0..24).map(|_| server.client()).collect();
        for client in &mut clients {
            client.check("PING", "+PONG\r\n");
        }
        // Some have not begun, and some are in the middle of a reply, when their worker goes.
        let mut fresh: Vec<Client> = (0..6).map(|_| server.client()).collect();
        clients[0].set_long("big", 3 << 20);
        for client in &mut clients[1..] {
            client.say("GET big\r\n");
        }
        clients[0].check("CONFIG SET threads 1", "+OK\r\n");
        for client in &mut clients[1..] {
            client.hears("$3145728\r\n");
            assert!(client.hear(3 << 20).iter().all(|byte| *byte == b'v'));
            client.hears("\r\n");
        }
        for client in clients.iter_mut().chain(&mut fresh) {
            client.check("PING", "+PONG\r\n");
        }
    }
}

#[test]
fn hundreds_of_handshakes_at_once_all_end_well() {
    for engine in ENGINES {
        let server = Server::sealed(engine, &["--tls_handshake_timeout", "0"]);
        let mut clients: Vec<Client> = (0..400).map(|_| server.client()).collect();
        // All client hellos are sent before any answer is read.
        for client in &mut clients {
            client.stream.conn.writer().write_all(b"PING\r\n").expect("memory");
            client.stream.conn.write_tls(&mut client.stream.sock).expect("it reads");
        }
        for client in &mut clients {
            client.hears("+PONG\r\n");
        }
    }
}

#[test]
fn beyond_maxclients_nobody_is_let_in_and_those_inside_stay() {
    for engine in ENGINES {
        let server = Server::sealed(engine, &["--maxclients", "2"]);
        let (mut one, mut two) = (server.client(), server.client());
        one.check("PING", "+PONG\r\n");
        two.check("PING", "+PONG\r\n");
        let mut third = server.client();
        assert!(
            third
                .stream
                .write_all(b"PING\r\n")
                .and_then(|()| third.stream.read_exact(&mut [0]))
                .is_err()
        );
        one.check("PING", "+PONG\r\n");
    }
}

/// A request whose answer ends with its connection.
fn http(method: &str, path: &str, more: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Pantala: 1\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n{more}\r\n{body}"
    )
}

#[test]
fn http_is_served_over_tls_by_whoever_takes_the_connection_over() {
    for engine in ENGINES {
        let server = Server::sealed(engine, &[]);
        for pieces in [1, 7, 10_000] {
            let mut client = server.client();
            for piece in http("GET", "/healthz", "", "").as_bytes().chunks(pieces) {
                client.say(piece);
            }
            let answer = String::from_utf8_lossy(&client.rest()).into_owned();
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            assert!(answer.ends_with("\r\n\r\nok\n"), "{answer}");
        }
        let mut client = server.client();
        client.say(http("GET", "/api/commands", "", ""));
        let answer = client.rest();
        assert!(answer.len() > 100_000 && answer.ends_with(b"]"), "{}", answer.len());
        let mut client = server.client();
        client.say(http("POST", "/api/login", "", r#"{"user":"default","password":""}"#));
        let answer = String::from_utf8_lossy(&client.rest()).into_owned();
        let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: "));
        let cookie = cookie.expect("a cookie");
        assert!(cookie.ends_with("; Secure"), "{cookie}");
        let cookie = format!("Cookie: {cookie}\r\n");
        let mut client = server.client();
        let long = "x".repeat(300_000);
        let body = format!(r#"{{"run":["SET","k","{long}"]}}"#);
        client.say(http("POST", "/api/run", &cookie, &body));
        assert!(client.rest().ends_with(br#"{"reply":{"status":"OK"}}"#));
        server.client().check("STRLEN k", ":300000\r\n");
        let mut client = server.client();
        client.check("PING", "+PONG\r\n");
        client.say(http("GET", "/healthz", "", ""));
        assert!(!client.rest().starts_with(b"HTTP"), "amid RESP there is no HTTP");
    }
}
