//! Ports and addresses that change while a server runs, with both event loops.
//!
//! Each server runs in this process.

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use common::{Server, connect_to, free_port};

const ENGINES: [&str; 2] = ["epoll", "auto"];

/// A connection that answers, if there is one.
fn connect(address: &str, port: u16) -> Option<Client> {
    connect_to((address, port)).map(Client)
}

struct Client(TcpStream);

impl Client {
    /// The first line of the answer.
    fn ask(&mut self, line: &str) -> String {
        self.0.write_all(format!("{line}\r\n").as_bytes()).expect("it reads");
        self.line()
    }

    fn line(&mut self) -> String {
        let (mut told, mut byte) = (Vec::new(), [0]);
        while !told.ends_with(b"\r\n") {
            self.0.read_exact(&mut byte).expect("it answers");
            told.push(byte[0]);
        }
        String::from_utf8_lossy(&told).trim_end().to_owned()
    }
}

/// Waits until connections are no longer accepted there.
fn until_closed(address: &str, port: u16) {
    while connect(address, port).is_some() {
        std::thread::yield_now();
    }
}

#[test]
fn a_port_changes_and_who_is_in_stays() {
    for engine in ENGINES {
        let server = Server::at_port("--port", &["--io_engine", engine]);
        let mut client = connect("127.0.0.1", server.port).expect("it listens");
        let other = free_port();
        assert_eq!(client.ask(&format!("CONFIG SET port {other}")), "+OK");
        let mut late = connect("127.0.0.1", other).expect("it listens there");
        assert_eq!(late.ask("PING"), "+PONG");
        until_closed("127.0.0.1", server.port);
        assert_eq!(client.ask("PING"), "+PONG");
        assert_eq!(client.ask("CONFIG SET port 0"), "+OK");
        until_closed("127.0.0.1", other);
        assert_eq!(client.ask(&format!("CONFIG SET port {}", server.port)), "+OK");
        assert!(connect("127.0.0.1", server.port).is_some());
    }
}

#[test]
fn a_port_that_is_taken_changes_nothing() {
    for engine in ENGINES {
        let server = Server::at_port("--port", &["--io_engine", engine]);
        let mut client = connect("127.0.0.1", server.port).expect("it listens");
        let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = taken.local_addr().expect("a port").port();
        let told = client.ask(&format!("CONFIG SET timeout 7 port {port}"));
        let expected = "-ERR CONFIG SET failed (possibly related to argument 'port') - Unable to \
                        listen on this port. Check server logs.";
        assert_eq!(told, expected);
        assert!(connect("127.0.0.1", server.port).is_some());
        assert_eq!(client.ask("CONFIG GET timeout"), "*2");
        for expected in ["$7", "timeout", "$1", "0"] {
            assert_eq!(client.line(), expected);
        }
    }
}

#[test]
fn addresses_may_overlap_those_before() {
    for engine in ENGINES {
        let server = Server::at_port("--port", &["--io_engine", engine]);
        let mut client = connect("127.0.0.1", server.port).expect("it listens");
        assert!(connect("127.0.0.9", server.port).is_none());
        assert_eq!(client.ask("CONFIG SET bind *"), "+OK");
        assert!(connect("127.0.0.9", server.port).is_some());
        assert_eq!(client.ask("CONFIG SET bind \"127.0.0.1 127.0.0.2\""), "+OK");
        until_closed("127.0.0.9", server.port);
        assert!(connect("127.0.0.2", server.port).is_some());
        // An address that this machine does not have: nothing changes.
        assert!(client.ask("CONFIG SET bind \"* 192.0.2.1\"").starts_with("-ERR CONFIG SET"));
        assert!(connect("127.0.0.2", server.port).is_some());
        until_closed("127.0.0.9", server.port);
    }
}
