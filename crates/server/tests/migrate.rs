//! MIGRATE to a target that answers when the test lets it: which commands wait meanwhile, which do
//! not, and what becomes of a key that changes all the same.
//!
//! Each server runs in this process, with a directory and a Unix socket of its own.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

use common::Server;

impl Server {
    fn client(&self) -> Client {
        Client(BufReader::new(self.connect_to_socket()))
    }
}

struct Client(BufReader<UnixStream>);

impl Client {
    fn send(&mut self, command: &str) {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).expect("it reads");
    }

    /// A reply: its lines, one after the other.
    fn reply(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("it answers");
        let line = line.trim_end().to_owned();
        match (line.as_bytes()[0], line[1..].parse::<i64>()) {
            (b'$', Ok(length)) if length >= 0 => {
                let mut text = vec![0; length as usize + 2];
                self.0.read_exact(&mut text).expect("it is whole");
                String::from_utf8_lossy(&text[..length as usize]).into_owned()
            }
            (b'*', Ok(count)) => {
                let parts: Vec<String> = (0..count).map(|_| self.reply()).collect();
                parts.join(" ")
            }
            _ => line,
        }
    }

    fn ask(&mut self, command: &str) -> String {
        self.send(command);
        self.reply()
    }
}

/// A target of MIGRATE.
struct Target(TcpListener);

impl Target {
    fn new() -> Target {
        Target(TcpListener::bind(("127.0.0.1", 0)).expect("a free port"))
    }

    /// Accepts the first MIGRATE of these keys, and reads all up to where their replies are
    /// awaited.
    fn take(&self, client: &mut Client, keys: &str, names: &[&str]) -> TcpStream {
        let port = self.0.local_addr().expect("it listens").port();
        client.send(&format!("MIGRATE 127.0.0.1 {port} {keys}"));
        let (mut stream, _) = self.0.accept().expect("it comes");
        let (mut got, mut buffer) = (Vec::new(), [0; 4096]);
        let has = |got: &[u8], name: &str| got.windows(name.len()).any(|at| at == name.as_bytes());
        while !names.iter().all(|name| has(&got, name)) {
            let count = stream.read(&mut buffer).expect("it sends");
            got.extend_from_slice(&buffer[..count]);
        }
        // They are preceded by SELECT.
        stream.write_all(b"+OK\r\n").expect("it reads");
        stream
    }
}

#[test]
fn only_who_would_write_to_a_key_on_its_way_waits() {
    let (server, target) = (Server::at_socket(&["--threads", "2"]), Target::new());
    let (mut client, mut other) = (server.client(), server.client());
    other.ask("MSET k 1 free 1 second 2");
    let mut answer = target.take(&mut client, "k 0 60000", &["RESTORE", "\r\nk\r\n"]);
    let writes = [
        "INCR k",
        "MSET free 2 k 5",
        "RENAME k elsewhere",
        "COPY second k REPLACE",
        "EXPIRE k 100",
        "EVAL \"return redis.call('APPEND',KEYS[1],'x')\" 1 k",
        "EVAL \"return redis.call('APPEND','k','x')\" 0",
        "EVAL \"redis.call('SET','free','9') return redis.call('LPUSH','k'..'','x')\" 0",
    ];
    let mut waiting: Vec<(Client, &str)> = Vec::new();
    for write in writes {
        let mut writer = server.client();
        writer.send(write);
        waiting.push((writer, write));
    }
    let mut transaction = server.client();
    for command in ["MULTI", "SET free 3", "APPEND k y"] {
        transaction.ask(command);
    }
    transaction.send("EXEC");
    waiting.push((transaction, "EXEC"));
    for (read, expected) in [
        ("GET k", "1"),
        ("EXISTS k", ":1"),
        ("INCR free", ":2"),
        ("EVAL \"return redis.call('GET','k')\" 0", "1"),
        ("SELECT 1", "+OK"),
        ("SET k other", "+OK"),
        ("SELECT 0", "+OK"),
        ("KEYS s*", "second"),
    ] {
        assert_eq!(other.ask(read), expected, "{read}");
    }
    let mut second = server.client();
    let mut of_second = target.take(&mut second, "second 0 60000", &["second"]);
    of_second.write_all(b"+OK\r\n").expect("it reads");
    assert_eq!(second.reply(), "+OK");
    for (writer, write) in &mut waiting {
        writer.0.get_mut().set_nonblocking(true).expect("possible");
        let has_answer = writer.0.fill_buf().is_ok();
        assert!(!has_answer, "{write} did not wait");
        writer.0.get_mut().set_nonblocking(false).expect("possible");
    }
    answer.write_all(b"+OK\r\n").expect("it reads");
    assert_eq!(client.reply(), "+OK");
    // In any order: some of them find data that others have left.
    for (writer, write) in &mut waiting {
        assert!(!writer.reply().is_empty(), "{write}");
    }
}

#[test]
fn a_key_that_changes_all_the_same_stays() {
    let (server, target) = (Server::at_socket(&[]), Target::new());
    let (mut client, mut other) = (server.client(), server.client());
    other.ask("SELECT 1");
    other.ask("MSET a new c new");
    other.ask("SELECT 0");
    other.ask("MSET a 1 b 2");
    let names = ["\r\na\r\n", "\r\nb\r\n"];
    let mut answer = target.take(&mut client, "\"\" 0 60000 KEYS a b c", &names);
    assert_eq!(other.ask("SWAPDB 0 1"), "+OK");
    answer.write_all(b"+OK\r\n+OK\r\n").expect("it reads");
    let reply = client.reply();
    assert!(reply.starts_with("-ERR A key was changed while it was sent"), "{reply}");
    assert_eq!(other.ask("MGET a b c"), "new $-1 new");
    let names = ["\r\na\r\n", "\r\nc\r\n"];
    let target = Target::new();
    let mut answer = target.take(&mut client, "\"\" 0 60000 KEYS a c", &names);
    assert_eq!(other.ask("FLUSHALL"), "+OK");
    answer.write_all(b"+OK\r\n+OK\r\n").expect("it reads");
    assert_eq!(client.reply(), "+OK", "nothing is left to be removed");
}

#[test]
fn two_that_send_the_same_key_come_one_after_the_other() {
    let (server, target) = (Server::at_socket(&[]), Target::new());
    let (mut first, mut second) = (server.client(), server.client());
    first.ask("MSET a 1 b 2");
    let mut answer = target.take(&mut first, "a 0 60000", &["\r\na\r\n"]);
    let port = target.0.local_addr().expect("it listens").port();
    second.send(&format!("MIGRATE 127.0.0.1 {port} \"\" 0 60000 KEYS b a"));
    answer.write_all(b"-ERR not now\r\n").expect("it reads");
    assert_eq!(first.reply(), "-ERR Target instance replied with error: ERR not now");
    // It comes over the same connection, if that had been put back by then.
    let (mut got, mut buffer) = (Vec::new(), [0; 4096]);
    target.0.set_nonblocking(true).expect("possible");
    answer.set_nonblocking(true).expect("possible");
    let mut streams = vec![answer];
    while !got.ends_with(b"\r\n") || !got.windows(5).any(|at| at == b"\r\na\r\n") {
        if let Ok((stream, _)) = target.0.accept() {
            stream.set_nonblocking(true).expect("possible");
            streams.push(stream);
        }
        for stream in &mut streams {
            if let Ok(count) = stream.read(&mut buffer) {
                got.extend_from_slice(&buffer[..count]);
            }
        }
        std::thread::yield_now();
    }
    for stream in &mut streams {
        // Only the one that has asked takes the answer.
        let _one_of_them = stream.write_all(b"+OK\r\n+OK\r\n+OK\r\n");
    }
    assert_eq!(second.reply(), "+OK");
    assert_eq!(second.ask("EXISTS a b"), ":0");
}

#[test]
fn what_was_sent_is_gone_after_a_restart() {
    let mut server = Server::at_socket(&["--appendonly", "yes"]);
    let target = Target::new();
    let mut client = server.client();
    client.ask("MSET a 1 b 2 c 3 d 4");
    let names = ["\r\na\r\n", "\r\nb\r\n", "\r\nc\r\n"];
    let mut answer = target.take(&mut client, "\"\" 0 60000 KEYS a b c", &names);
    answer.write_all(b"+OK\r\n-BUSYKEY no\r\n+OK\r\n").expect("it reads");
    assert_eq!(client.reply(), "-ERR Target instance replied with error: BUSYKEY no");
    client.ask("MULTI");
    client.ask("SET e 5");
    let target = Target::new();
    let port = target.0.local_addr().expect("it listens").port();
    client.ask(&format!("MIGRATE 127.0.0.1 {port} d 0 60000"));
    client.send("EXEC");
    let (mut again, _) = target.0.accept().expect("it comes");
    again.write_all(b"+OK\r\n+OK\r\n").expect("it reads");
    assert_eq!(client.reply(), "+OK +OK");
    drop(client);
    server.restart(&["--appendonly", "yes"]);
    assert_eq!(server.client().ask("MGET a b c d e"), "$-1 2 $-1 $-1 5");
}
