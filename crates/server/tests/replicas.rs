//! Replication of a whole server, byte by byte: the bytes a replica is sent, and the requests it
//! may send.
//!
//! The server runs in this process, with a directory and a Unix socket of its own; the test itself
//! is the replicas. Real replicas are tested in compat/replication.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::Server;

/// The longest that anything may take, on a busy machine.
const GENEROUS: Duration = Duration::from_secs(120);

/// A function that does not end: FUNCTION STATS reports it while it runs.
const LOOP: &str = "FUNCTION LOAD \"#!lua name=lib\\nredis.register_function{\
                    function_name='for_ever', callback=function() while true do end end, \
                    flags={'no-writes'}}\"";

impl Server {
    /// One that sends copies at once, and pings nobody.
    fn primary(more: &[&str]) -> Server {
        let mut args = vec!["--threads", "3", "--repl-diskless-sync-delay", "0"];
        args.extend(["--repl-ping-replica-period", "3600", "--shutdown-timeout", "0"]);
        args.extend(more);
        Server::at_socket(&args)
    }

    fn connect(&self) -> Peer {
        let stream = self.connect_to_socket();
        stream.set_read_timeout(Some(GENEROUS)).expect("a time");
        Peer { stream: Box::new(stream), received: Vec::new() }
    }

    /// A replica that has asked for a copy; and the history and the position it was sent.
    fn replica(&self, more: &[&str]) -> (Peer, String, u64) {
        let mut replica = self.connect();
        for words in more.iter().chain(&["REPLCONF capa eof capa psync2"]) {
            assert_eq!(replica.ask(words), "+OK", "{words}");
        }
        replica.say("PSYNC ? -1");
        let line = replica.line_after_newlines();
        let mut words = line.split(' ');
        assert_eq!(words.next(), Some("+FULLRESYNC"), "{line}");
        let id = words.next().expect("an id").to_owned();
        let position = words.next().and_then(|word| word.parse().ok()).expect("a position");
        (replica, id, position)
    }

    fn has_temporary_file(&self) -> bool {
        let files = std::fs::read_dir(&self.directory).expect("it is there").flatten();
        files.map(|file| file.file_name()).any(|name| name.to_string_lossy().starts_with("temp"))
    }

    /// Lets a client of its own run the function of [`LOOP`] with these keys.
    fn run_for_ever(&self, keys: &str) -> Peer {
        let mut script = self.connect();
        script.say(&format!("FCALL_RO for_ever {keys}"));
        let begun = Instant::now();
        loop {
            let mut client = self.connect();
            client.say("FUNCTION STATS");
            while !has_key(&client.received, "functions_count") {
                assert!(client.receive());
            }
            if has_key(&client.received, "duration_ms") {
                return script;
            }
            assert!(begun.elapsed() < GENEROUS, "it does not begin");
        }
    }

    /// Waits until INFO has this line.
    fn until(&self, line: &str) {
        let (mut client, begun) = (self.connect(), Instant::now());
        loop {
            client.say("INFO replication");
            let info = client.bulk();
            if info.lines().any(|one| one.contains(line)) {
                return;
            }
            assert!(begun.elapsed() < GENEROUS, "{line} in {info}");
            std::thread::yield_now();
        }
    }
}

trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// A client, a replica, or a primary.
struct Peer {
    stream: Box<dyn Stream>,
    received: Vec<u8>,
}

impl Peer {
    fn say(&mut self, command: &str) {
        self.stream.write_all(format!("{command}\r\n").as_bytes()).expect("it reads");
    }

    fn ask(&mut self, command: &str) -> String {
        self.say(command);
        self.line()
    }

    /// Reads more; returns whether there was any.
    fn receive(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let count = loop {
            match self.stream.read(&mut bytes) {
                // A read with a timeout may be interrupted without reason.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read.unwrap_or_default(),
            }
        };
        self.received.extend_from_slice(&bytes[..count]);
        count > 0
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        while self.received.len() < count {
            assert!(self.receive(), "it was closed after {:?}", self.received);
        }
        self.received.drain(..count).collect()
    }

    fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.received.windows(2).position(|pair| pair == b"\r\n") {
                let line = self.take(end + 2);
                return String::from_utf8(line[..end].to_vec()).expect("text");
            }
            assert!(self.receive(), "it was closed after {:?}", self.received);
        }
    }

    fn line_after_newlines(&mut self) -> String {
        self.line().trim_start_matches('\n').to_owned()
    }

    fn bulk(&mut self) -> String {
        let count = self.line()[1..].parse().expect("a length");
        let text = self.take(count);
        self.take(2);
        String::from_utf8(text).expect("text")
    }

    /// Reads a copy that ends with its mark.
    fn marked_copy(&mut self) -> Vec<u8> {
        let line = self.line_after_newlines();
        let mark = line.strip_prefix("$EOF:").expect("a mark").as_bytes().to_vec();
        assert_eq!(mark.len(), 40);
        let end = loop {
            if let Some(end) = self.received.windows(40).position(|bytes| bytes == mark) {
                break end;
            }
            assert!(self.receive(), "it was closed");
        };
        let copy = self.take(end);
        self.take(40);
        copy
    }

    /// Reads a copy that begins with its length.
    fn measured_copy(&mut self) -> Vec<u8> {
        let line = self.line_after_newlines();
        let length = line[1..].parse().expect("a length");
        self.take(length)
    }

    /// The next command of the stream: its words, and its length in bytes.
    fn command(&mut self) -> (String, u64) {
        let header = self.line();
        let count: usize = header[1..].parse().expect("a count");
        let (mut words, mut bytes) = (Vec::new(), header.len() + 2);
        for _ in 0..count {
            let word = self.bulk();
            bytes += format!("${}\r\n{word}\r\n", word.len()).len();
            words.push(word);
        }
        (words.join(" "), bytes as u64)
    }

    fn expect_command(&mut self, expected: &str) -> u64 {
        let (command, bytes) = self.command();
        assert_eq!(command, expected);
        bytes
    }

    /// Acknowledges all that comes after this position, until the connection ends.
    fn follow(mut self, position: u64) {
        loop {
            let at = position + self.received.len() as u64;
            let words = format!("REPLCONF ACK {at} FACK {at}\r\n");
            if self.stream.write_all(words.as_bytes()).is_err() || !self.receive() {
                return;
            }
        }
    }

    /// As a primary: answers all requests before PSYNC, and returns that.
    fn greet(&mut self) -> String {
        loop {
            match self.command().0 {
                command if command.starts_with("PSYNC") => return command,
                command if command == "PING" => self.say("+PONG"),
                _ => self.say("+OK"),
            }
        }
    }

    fn is_closed(&mut self) -> bool {
        while self.receive() {}
        true
    }
}

/// The place a server connects to when it follows this test.
struct Place(TcpListener);

impl Place {
    fn new() -> Place {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("it can");
        Place(listener)
    }

    fn port(&self) -> u16 {
        self.0.local_addr().expect("it is bound").port()
    }

    fn accept(&self) -> Peer {
        let begun = Instant::now();
        loop {
            if let Ok((stream, _)) = self.0.accept() {
                stream.set_read_timeout(Some(GENEROUS)).expect("a time");
                return Peer { stream: Box::new(stream), received: Vec::new() };
            }
            assert!(begun.elapsed() < GENEROUS, "nobody connects");
            std::thread::yield_now();
        }
    }

    /// Answers as a replica: announces its port, takes the copy, and acknowledges all that comes.
    fn follows(&self, server: &Server) -> std::thread::JoinHandle<()> {
        let port = format!("REPLCONF listening-port {}", self.port());
        let (mut replica, _, at) = server.replica(&["REPLCONF ip-address 127.0.0.1", &port]);
        replica.marked_copy();
        replica.say(&format!("REPLCONF ACK {at}"));
        server.until("state=online");
        std::thread::spawn(move || replica.follow(at))
    }
}

/// A server that follows this test, and has its copy. It has the function of [`LOOP`].
struct Followed {
    server: Server,
    primary: Peer,
    place: Place,
    id: String,
}

impl Followed {
    fn new(more: &[&str]) -> Followed {
        let (place, source) = (Place::new(), Server::primary(&[]));
        let mut client = source.connect();
        client.say(LOOP);
        assert_eq!(client.bulk(), "lib");
        let (mut replica, id, at) = source.replica(&[]);
        let copy = replica.marked_copy();
        let follows = format!("127.0.0.1 {}", place.port());
        let server = Server::primary(&[&["--replicaof", &follows], more].concat());
        let mut primary = place.accept();
        assert_eq!(primary.greet(), "PSYNC ? -1");
        primary.say(&format!("+FULLRESYNC {id} {at}\r\n${}", copy.len()));
        primary.stream.write_all(&copy).expect("it reads");
        server.until("master_link_status:up");
        Followed { server, primary, place, id }
    }

    /// Sends these commands, their words between spaces, as the stream's next; the link reads them.
    fn feed(&mut self, commands: &[&str]) {
        let bytes: Vec<u8> = commands.iter().flat_map(|command| resp(command)).collect();
        self.primary.stream.write_all(&bytes).expect("it reads");
    }

    /// Waits until the server has a key of the stream.
    fn until_there(&self, key: &str) {
        let (mut client, begun) = (self.server.connect(), Instant::now());
        while client.ask(&format!("EXISTS {key}")) != ":1" {
            assert!(begun.elapsed() < GENEROUS, "{key} is not there");
            std::thread::yield_now();
        }
    }
}

fn resp(command: &str) -> Vec<u8> {
    let words: Vec<_> = command.split(' ').collect();
    let args: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{args}", words.len()).into_bytes()
}

fn has_key(copy: &[u8], key: &str) -> bool {
    copy.windows(key.len()).any(|bytes| bytes == key.as_bytes())
}

#[test]
fn the_stream_goes_on_where_the_copy_ends() {
    let server = Server::primary(&[]);
    let mut client = server.connect();
    assert_eq!(client.ask("SET before 1"), "+OK");
    let (mut replica, id, position) = server.replica(&[]);
    let copy = replica.marked_copy();
    assert!(copy.starts_with(b"REDIS0010") && has_key(&copy, "before"));
    assert_eq!(client.ask("SET after 2"), "+OK");
    server.until("state=online");
    // The stream is not sent before the replica has said that it has the copy.
    assert!(replica.received.is_empty());
    replica.say(&format!("REPLCONF ACK {position}"));
    let mut at = position + replica.expect_command("SELECT 0");
    at += replica.expect_command("SET after 2");
    replica.say(&format!("REPLCONF ACK {at}"));
    server.until(&format!("offset={at}"));
    drop(replica);

    // The stream that the replica lacks is kept for it.
    server.until("connected_slaves:0");
    assert_eq!(client.ask("SET meanwhile 3"), "+OK");
    let mut replica = server.connect();
    assert_eq!(replica.ask("REPLCONF capa eof capa psync2"), "+OK");
    assert_eq!(replica.ask(&format!("PSYNC {id} {}", at + 1)), format!("+CONTINUE {id}"));
    replica.expect_command("SET meanwhile 3");

    // A replica of another history cannot continue.
    let mut other = server.connect();
    assert_eq!(other.ask("REPLCONF capa eof capa psync2"), "+OK");
    other.say(&format!("PSYNC {} {}", "0".repeat(40), at + 1));
    assert!(other.line_after_newlines().starts_with("+FULLRESYNC"));
}

#[test]
fn who_waits_for_replicas_is_answered_when_they_say_so() {
    let server = Server::primary(&[]);
    let (mut replica, _, at) = server.replica(&[]);
    replica.marked_copy();
    replica.say(&format!("REPLCONF ACK {at}"));
    server.until("state=online");
    let mut client = server.connect();
    assert_eq!(client.ask("SET a 1"), "+OK");
    assert_eq!(client.ask("WAIT 1 1"), ":0", "nobody has said so");
    let following = std::thread::spawn(move || replica.follow(at));
    assert_eq!(client.ask("WAIT 1 0"), ":1");
    assert_eq!(client.ask("SET a 2"), "+OK");
    assert_eq!(client.ask("WAITAOF 0 1 0"), "*2");
    assert_eq!((client.line(), client.line()), (":0".into(), ":1".into()));
    assert_eq!(client.ask("CLIENT KILL TYPE replica"), ":1");
    following.join().expect("it was closed");
}

#[test]
fn a_copy_by_file_has_its_length_and_the_stream_follows_at_once() {
    let server = Server::primary(&["--repl-diskless-sync", "no"]);
    let mut client = server.connect();
    assert_eq!(client.ask("SET before 1"), "+OK");
    let (mut replica, _, _) = server.replica(&[]);
    assert!(has_key(&replica.measured_copy(), "before"));
    assert_eq!(client.ask("SET after 2"), "+OK");
    replica.expect_command("SELECT 0");
    replica.expect_command("SET after 2");
    let begun = Instant::now();
    while server.has_temporary_file() {
        assert!(begun.elapsed() < GENEROUS);
        std::thread::yield_now();
    }
}

#[test]
fn who_loads_its_copy_counts_for_nothing_before_it_says_so() {
    let server = Server::primary(&["--repl-diskless-sync", "no"]);
    let mut client = server.connect();
    // The first copy is from before anything was recorded, the second one from after.
    for key in ["a", "b"] {
        assert_eq!(client.ask(&format!("SET {key} 1")), "+OK");
        let (mut replica, _, position) = server.replica(&[]);
        assert!(has_key(&replica.measured_copy(), key));
        server.until("state=online,offset=0");
        assert_eq!(client.ask("WAIT 1 1"), ":0", "it may be loading");
        assert_eq!(client.ask("CONFIG SET min-replicas-to-write 1"), "+OK");
        server.until("min_slaves_good_slaves:0");
        // The replica is busy.
        replica.say("");
        assert_eq!(client.ask("WAIT 1 1"), ":0", "it has said nothing of what it has");
        replica.say(&format!("REPLCONF ACK {position}"));
        assert_eq!(client.ask("WAIT 1 0"), ":1");
        server.until("min_slaves_good_slaves:1");
        assert_eq!(client.ask("CONFIG SET min-replicas-to-write 0"), "+OK");
        drop(replica);
        server.until("connected_slaves:0");
    }
}

#[test]
fn nobody_takes_over_who_has_said_nothing() {
    let server = Server::primary(&["--repl-diskless-sync", "no"]);
    let (mut replica, ..) = server.replica(&["REPLCONF listening-port 1 ip-address 127.0.0.1"]);
    replica.measured_copy();
    server.until("state=online");
    let mut client = server.connect();
    assert_eq!(client.ask("FAILOVER TIMEOUT 1"), "+OK");
    server.until("master_failover_state:no-failover");
    server.until("role:master");
}

#[test]
fn who_wants_only_a_copy_may_take_long_for_it() {
    let limit = ["--client-output-buffer-limit", "replica 1mb 0 0", "--repl-backlog-size", "16kb"];
    let more = ["--rdbcompression", "no", "--repl-diskless-sync", "no"];
    let server = Server::primary(&[&limit[..], &more[..]].concat());
    let (mut client, text) = (server.connect(), "x".repeat(50_000));
    for number in 0..40 {
        assert_eq!(client.ask(&format!("SET key:{number} {text}")), "+OK");
    }
    let (mut replica, _, begun) = server.replica(&["REPLCONF rdb-only 1"]);
    server.until("state=send_bulk");
    for number in 0..40 {
        assert_eq!(client.ask(&format!("SET more:{number} {text}")), "+OK");
    }
    // The stream after the copy is needed by no replica.
    let mut until = |name, is_so: &dyn Fn(u64) -> bool| {
        until_figure(&mut client, "replication", name, is_so);
    };
    until("master_repl_offset", &|end| end >= begun + 2_000_000);
    until("repl_backlog_histlen", &|kept| kept < 200_000);
    let copy = replica.measured_copy();
    assert!(has_key(&copy, "key:39") && !has_key(&copy, "more:39"));
}

#[test]
fn a_part_of_a_copy_is_what_was_asked_for() {
    let server = Server::primary(&[]);
    let mut client = server.connect();
    assert_eq!(client.ask("SET before 1"), "+OK");
    let library = "\"#!lua name=lib\\nredis.register_function('f', function() return 1 end)\"";
    client.say(&format!("FUNCTION LOAD {library}"));
    assert_eq!(client.bulk(), "lib");
    let words = ["REPLCONF rdb-only 1", "REPLCONF rdb-filter-only functions"];
    let (mut replica, _, _) = server.replica(&words);
    let copy = replica.marked_copy();
    assert!(has_key(&copy, "register_function") && !has_key(&copy, "before"));
    let (mut replica, _, _) = server.replica(&["REPLCONF rdb-only 1"]);
    assert!(has_key(&replica.marked_copy(), "before"));
    replica.say("REPLCONF ACK 0");
    assert_eq!(client.ask("SET after 2"), "+OK");
    assert_eq!(client.ask("CLIENT KILL TYPE replica"), ":2");
    assert!(replica.is_closed() && replica.received.is_empty(), "it wanted nothing after the copy");
}

#[test]
fn a_replica_that_sends_commands_is_closed() {
    let server = Server::primary(&[]);
    let (mut replica, _, at) = server.replica(&[]);
    replica.marked_copy();
    replica.say(&format!("\nREPLCONF ACK {at}"));
    server.until("state=online");
    replica.say("SET a 1");
    assert!(replica.is_closed());
    server.until("connected_slaves:0");
    assert_eq!(server.connect().ask("EXISTS a"), ":0");
    assert!(replica.received.is_empty(), "nothing was answered");
}

#[test]
fn nobody_else_becomes_a_replica() {
    let server = Server::primary(&[]);
    let mut client = server.connect();
    // A request so long that it does not run where it has arrived.
    let id = "x".repeat(3 << 20);
    client.say(&format!("*3\r\n$5\r\nPSYNC\r\n${}\r\n{id}\r\n$1\r\n1", id.len()));
    assert_eq!(client.line(), "-ERR SYNC and PSYNC are for connections of replicas only");
    assert_eq!(client.ask("PING"), "+PONG");
    server.until("connected_slaves:0");
}

#[test]
fn one_that_is_silent_or_behind_is_closed() {
    let limit = ["--client-output-buffer-limit", "replica 100kb 0 0"];
    let more = ["--repl-backlog-size", "16kb", "--repl-timeout", "3600"];
    let server = Server::primary(&[&limit[..], &more[..]].concat());
    let (mut replica, _, at) = server.replica(&[]);
    replica.marked_copy();
    let mut client = server.connect();
    let text = "x".repeat(50_000);
    for number in 0..4 {
        assert_eq!(client.ask(&format!("SET key:{number} {text}")), "+OK");
    }
    assert!(replica.is_closed(), "it has not said that it has the copy");
    server.until("connected_slaves:0");

    let (mut replica, _, at_now) = server.replica(&[]);
    assert!(at_now > at);
    replica.marked_copy();
    replica.say(&format!("REPLCONF ACK {at_now}"));
    server.until("state=online");
    assert_eq!(client.ask("CONFIG SET repl-timeout 1"), "+OK");
    assert!(replica.is_closed());
    server.until("connected_slaves:0");
}

/// Waits until a figure of INFO satisfies a condition.
fn until_figure(client: &mut Peer, section: &str, name: &str, is_so: impl Fn(u64) -> bool) {
    let begun = Instant::now();
    while !is_so(figure(client, section, name)) {
        assert!(begun.elapsed() < GENEROUS, "{name} is {}", figure(client, section, name));
        std::thread::yield_now();
    }
}

/// A figure of INFO.
fn figure(client: &mut Peer, section: &str, name: &str) -> u64 {
    client.say(&format!("INFO {section}"));
    let info = client.bulk();
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.and_then(|value| value.parse().ok()).expect("a number")
}

#[test]
fn nothing_is_evicted_for_what_waits_for_a_replica() {
    let server = Server::primary(&["--repl-backlog-size", "16kb", "--threads", "1"]);
    let (mut replica, _, at) = server.replica(&[]);
    replica.marked_copy();
    replica.say(&format!("REPLCONF ACK {at}"));
    server.until("state=online");
    let mut client = server.connect();
    let text = "x".repeat(50_000);
    for _ in 0..400 {
        assert_eq!(client.ask(&format!("SET key {text}")), "+OK");
    }
    // The replica reads nothing.
    let name = "mem_not_counted_for_evict";
    until_figure(&mut client, "memory", name, |bytes| bytes >= 12_000_000);
    drop(replica);
    server.until("connected_slaves:0");
    // The journal keeps 4 MiB of its only worker's for reuse.
    until_figure(&mut client, "memory", name, |bytes| bytes <= 5_000_000);
}

#[test]
fn a_replica_that_moves_to_another_worker_misses_nothing() {
    let server = Server::primary(&["--threads", "4"]);
    let replicas: Vec<_> = (0..4).map(|_| server.replica(&[])).collect();
    let mut replicas: Vec<_> = replicas
        .into_iter()
        .map(|(mut replica, _, at)| {
            replica.marked_copy();
            replica.say(&format!("REPLCONF ACK {at}"));
            replica
        })
        .collect();
    let mut client = server.connect();
    for number in 0..300 {
        assert_eq!(client.ask(&format!("SET key {number}")), "+OK");
        match number {
            100 => assert_eq!(client.ask("CONFIG SET threads 1"), "+OK"),
            200 => assert_eq!(client.ask("CONFIG SET threads 4"), "+OK"),
            _ => {}
        }
    }
    for replica in &mut replicas {
        let mut wanted = 0;
        while wanted < 300 {
            let (command, _) = replica.command();
            if command != "SELECT 0" {
                assert_eq!(command, format!("SET key {wanted}"));
                wanted += 1;
            }
        }
    }
}

#[test]
fn a_stream_that_nobody_follows_is_freed() {
    let server = Server::primary(&[]);
    let (mut replica, id, at) = server.replica(&[]);
    replica.marked_copy();
    server.until("repl_backlog_active:1");
    drop(replica);
    server.until("connected_slaves:0");
    let mut client = server.connect();
    assert_eq!(client.ask("CONFIG SET repl-backlog-ttl 1"), "+OK");
    server.until("repl_backlog_active:0");
    let mut replica = server.connect();
    assert_eq!(replica.ask("REPLCONF capa eof capa psync2"), "+OK");
    replica.say(&format!("PSYNC {id} {}", at + 1));
    assert!(replica.line_after_newlines().starts_with("+FULLRESYNC"));
}

#[test]
fn writes_are_refused_while_too_few_follow() {
    let server = Server::primary(&["--min-replicas-to-write", "1"]);
    let mut client = server.connect();
    let refused = "-NOREPLICAS Not enough good replicas to write.";
    assert_eq!(client.ask("SET a 1"), refused);
    let (mut replica, _, at) = server.replica(&[]);
    replica.marked_copy();
    replica.say(&format!("REPLCONF ACK {at}"));
    server.until("min_slaves_good_slaves:1");
    let begun = Instant::now();
    while client.ask("SET a 1") != "+OK" {
        assert!(begun.elapsed() < GENEROUS);
    }
    drop(replica);
    server.until("connected_slaves:0");
    while client.ask("SET a 1") != refused {
        assert!(begun.elapsed() < GENEROUS);
    }
    assert_eq!(client.ask("CONFIG SET min-replicas-to-write 0"), "+OK");
    assert_eq!(client.ask("SET a 1"), "+OK");
}

/// Ends the writing threads, also when a check has failed.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn the_next_replica_is_served_when_the_backlog_was_freed_amid_writes() {
    let server = Server::primary(&["--repl-backlog-ttl", "1"]);
    assert_eq!(server.connect().ask("CONFIG SET appendonly yes"), "+OK");
    let (mut replica, ..) = server.replica(&[]);
    replica.marked_copy();
    drop(replica);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (server, is_over) = (&server, &is_over);
            scope.spawn(move || {
                let mut client = server.connect();
                while !is_over.load(Ordering::Relaxed) {
                    client.ask(&format!("INCR n:{number}"));
                }
            });
        }
        let _at_the_end = Ends(&is_over);
        server.until("repl_backlog_active:0");
        let (mut replica, ..) = server.replica(&[]);
        replica.marked_copy();
    });
}

#[test]
fn who_becomes_a_primary_counts_its_replicas() {
    let more = ["--replicaof", "127.0.0.1 1", "--replica-read-only", "no"];
    let server = Server::primary(&[&more[..], &["--min-replicas-to-write", "1"]].concat());
    let mut client = server.connect();
    assert_eq!(client.ask("SET a 1"), "+OK", "a replica needs none");
    assert_eq!(client.ask("REPLICAOF NO ONE"), "+OK");
    assert_eq!(client.ask("SET a 1"), "-NOREPLICAS Not enough good replicas to write.");
    assert_eq!(client.ask("REPLICAOF 127.0.0.1 1"), "+OK");
    assert_eq!(client.ask("SET a 1"), "+OK");
}

#[test]
fn no_script_keeps_a_replica_from_becoming_a_primary() {
    let mut of = Followed::new(&["--busy-reply-threshold", "1"]);
    let mut script = of.server.run_for_ever("1 k");
    of.feed(&["SET there 1", "SET k 1"]);
    of.until_there("there");
    let Followed { server, id, .. } = of;
    let mut client = server.connect();
    assert_eq!(client.ask("REPLICAOF NO ONE"), "+OK");
    assert!(script.line().starts_with("-ERR"), "it was ended");
    server.until("role:master");
    // Nothing was left out: this is a branch of the same history.
    server.until(&format!("master_replid2:{id}"));
    assert_eq!(client.ask("EXISTS k"), ":1");
}

#[test]
fn a_failover_whose_answer_was_lost_has_happened() {
    let (place, server) = (Place::new(), Server::primary(&[]));
    let following = place.follows(&server);
    let mut client = server.connect();
    assert_eq!(client.ask("FAILOVER"), "+OK");
    let mut replica = place.accept();
    assert!(replica.greet().ends_with(" FAILOVER"));
    drop(replica);
    let mut primary = place.accept();
    // It does not say whether it has taken over.
    assert!(primary.greet().ends_with(" FAILOVER"));
    primary.say("-LOADING a file");
    let mut primary = place.accept();
    assert!(primary.greet().ends_with(" FAILOVER"));
    primary.say("-ERR PSYNC FAILOVER can't be sent to a master.");
    let mut primary = place.accept();
    assert!(!primary.greet().ends_with("FAILOVER"));
    primary.say(&format!("+CONTINUE {}", "1".repeat(40)));
    server.until("master_link_status:up");
    server.until("master_failover_state:no-failover");
    assert_eq!(client.ask("SET a 1"), "-READONLY You can't write against a read only replica.");
    drop(server);
    following.join().expect("it was closed");
}

#[test]
fn a_primary_that_was_asked_first_is_none_that_has_taken_over() {
    let (place, server) = (Place::new(), Server::primary(&["--busy-reply-threshold", "1"]));
    let following = place.follows(&server);
    let mut client = server.connect();
    client.say(LOOP);
    assert_eq!(client.bulk(), "lib");
    assert_eq!(client.ask("FAILOVER"), "+OK");
    let mut replica = place.accept();
    assert!(replica.greet().ends_with(" FAILOVER"));
    let mut script = server.run_for_ever("0");
    replica.say("-ERR PSYNC FAILOVER can't be sent to a master.");
    // The role is taken back, whatever is running.
    server.until("role:master");
    server.until("master_failover_state:no-failover");
    assert_eq!(client.ask("SET a 1"), "+OK");
    assert!(script.line().starts_with("-ERR"), "it was ended");
    drop(server);
    following.join().expect("it was closed");
}

#[test]
fn a_failover_is_given_up_when_the_server_is_to_save_and_stop() {
    let mut server = Server::primary(&[]);
    let (mut replica, _, at) = server.replica(&[]);
    replica.marked_copy();
    replica.say(&format!("REPLCONF ACK {at}"));
    server.until("state=online");
    let mut client = server.connect();
    assert_eq!(client.ask("SET a 1"), "+OK");
    assert_eq!(client.ask("FAILOVER"), "+OK");
    server.until("master_failover_state:waiting-for-sync");
    let mut other = server.connect();
    other.say("SHUTDOWN SAVE");
    assert!(other.is_closed() && other.received.is_empty());
    assert!(server.directory.join("dump.rdb").exists());
    server.wait();
}

#[test]
fn what_a_primary_has_accepted_is_obeyed() {
    let mut of = Followed::new(&["--proto-max-bulk-len", "1mb"]);
    let mut client = of.server.connect();
    let load = "SCRIPT LOAD redis.call('INCR',KEYS[1])";
    client.stream.write_all(&resp(load)).expect("it reads");
    let known = client.bulk();
    client.ask("SCRIPT FLUSH");
    of.feed(&["XADD s 1-1 a b", "XADD s 2-1 a b", "XADD s 3-1 a b", "XADD s 4-1 a b"]);
    // Valkey and Redis write the exact trim that `~` came to, and keep LIMIT.
    of.feed(&["XADD s MAXLEN = 4 LIMIT 2 5-1 a b", "XTRIM s MAXLEN = 3 LIMIT 1"]);
    of.feed(&["XADD s MINID = 4-1 LIMIT 100 6-1 a b"]);
    // Redis 7.0 does not check against deleted entries.
    of.feed(&["XADD t 1-1 a b", "XADD t 9-1 a b", "XDEL t 9-1", "XSETID t 5-1"]);
    of.feed(&["XADD t 6-1 a b", "XSETID t 7-1 ENTRIESADDED 9 MAXDELETEDID 8-1"]);
    // Redis before 7.0 sends the scripts themselves.
    of.feed(&[load, &format!("EVALSHA {known} 1 n")]);
    of.feed(&["SETRANGE long 2000000 x", "SET last 1"]);
    of.until_there("last");
    assert_eq!(client.ask("XLEN s"), ":3");
    assert_eq!(client.ask("XLEN t"), ":2");
    assert_eq!(client.ask("STRLEN long"), ":2000001");
    client.say("GET n");
    assert_eq!(client.bulk(), "1");
    assert_eq!(figure(&mut client, "stats", "unexpected_error_replies"), 0);
}

#[test]
fn a_command_of_the_stream_that_fails_is_told_and_may_end_the_link() {
    let mut of = Followed::new(&[]);
    let mut client = of.server.connect();
    of.feed(&["SET k x", "INCR k", "SET last 1"]);
    of.until_there("last");
    assert_eq!(figure(&mut client, "stats", "unexpected_error_replies"), 1);
    client.say("INFO pantala");
    let told = "propagation_last_error:INCR: ERR value is not an integer or out of range";
    let info = client.bulk();
    assert!(info.contains("propagation_errors:1\r\n") && info.contains(told), "{info}");
    of.server.until("master_link_status:up");

    assert_eq!(client.ask("CONFIG SET propagation-error-behavior panic-on-replicas"), "+OK");
    of.feed(&["INCR k"]);
    assert!(of.primary.is_closed());
    of.server.until("master_link_status:down");
    assert_eq!(client.ask("SET a 1"), "-READONLY You can't write against a read only replica.");
    // It does not follow again by itself; once told to, it asks for a copy.
    assert_eq!(client.ask(&format!("REPLICAOF 127.0.0.1 {}", of.place.port())), "+OK");
    assert_eq!(of.place.accept().greet(), "PSYNC ? -1");
    assert_eq!(client.ask("REPLICAOF NO ONE"), "+OK");
    assert_eq!(client.ask("SET a 1"), "+OK");
}

#[test]
fn an_endless_script_of_the_stream_ends_when_the_role_changes() {
    for role in ["NO ONE", "127.0.0.1 1"] {
        let mut of = Followed::new(&[]);
        of.feed(&["SET there 1", "EVAL redis.call('INCR',KEYS[1])while(true)do(type)(1)end 1 n"]);
        of.feed(&["SET never 1"]);
        of.until_there("there");
        let mut client = of.server.connect();
        assert_eq!(client.ask(&format!("REPLICAOF {role}")), "+OK");
        // Its changes stay, and what came after is missing: this is no branch of the history.
        client.say("GET n");
        assert_eq!(client.bulk(), "1");
        assert_eq!(client.ask("EXISTS never"), ":0");
        client.say("INFO replication");
        let info = client.bulk();
        assert!(!info.contains(&of.id) && info.contains("repl_backlog_active:0"), "{info}");
    }
}

#[test]
fn a_transaction_of_the_stream_without_an_end_ends_the_link() {
    let limits = ["--proto-max-bulk-len", "1mb", "--client-query-buffer-limit", "1mb"];
    let mut of = Followed::new(&limits);
    let set = resp(&format!("SET k {}", "x".repeat(100_000)));
    of.feed(&["SET last 1", "MULTI"]);
    of.until_there("last");
    let mut sets = 0;
    while of.primary.stream.write_all(&set).is_ok() {
        sets += 1;
        assert!(sets < 1_000, "it takes all of them");
    }
    // Continuing would bring the same commands again.
    assert_eq!(of.place.accept().greet(), "PSYNC ? -1");
    let mut client = of.server.connect();
    assert_eq!(client.ask("EXISTS k"), ":0");
    assert_eq!(client.ask("REPLICAOF NO ONE"), "+OK");
}

#[test]
fn a_role_that_changes_in_a_transaction_is_in_force_when_exec_answers() {
    let server = Server::primary(&[]);
    let (mut client, mut other) = (server.connect(), server.connect());
    let readonly = "-READONLY You can't write against a read only replica.";
    for _ in 0..20 {
        for (to, answer) in [("127.0.0.1 1", readonly), ("NO ONE", "+OK")] {
            assert_eq!(client.ask("MULTI"), "+OK");
            for command in [&format!("REPLICAOF {to}"), "CLIENT KILL TYPE pubsub"] {
                assert_eq!(client.ask(command), "+QUEUED");
            }
            assert_eq!(client.ask("EXEC"), "*2");
            assert_eq!((client.line(), client.line()), ("+OK".into(), ":0".into()));
            assert_eq!(other.ask("SET a 1"), answer);
            assert_eq!(client.ask("SET a 1"), answer);
            let role = if answer == "+OK" { "role:master" } else { "role:slave" };
            client.say("INFO replication");
            assert!(client.bulk().contains(role));
        }
    }
}

#[test]
fn an_emulated_cluster_names_the_replicas_that_can_be_read_from() {
    let server = Server::primary(&["--cluster_mode", "emulated"]);
    let place = Place::new();
    let mut client = server.connect();
    let line = format!("127.0.0.1:{}@", place.port());
    client.say("CLUSTER NODES");
    let before = client.bulk();
    assert!(before.contains("myself,master - 0 0 1 connected 0-16383"), "{before}");
    let following = place.follows(&server);
    client.say("CLUSTER NODES");
    let after = client.bulk();
    let replica = after.lines().find(|one| one.contains(&line)).expect("a line of the replica");
    assert!(replica.contains(" slave ") && !before.contains(&line), "{before}{after}");
    drop(server);
    following.join().expect("it follows to the end");
}
