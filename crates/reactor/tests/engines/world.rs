//! A reactor that records the events of each connection, and an echo server to drive it.

use pantala_reactor::{Event, ListenerId, Reactor, ReactorConfig, Receipt, Token, net};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

// Not an expected time: it only makes a broken test fail instead of hanging.
const SILENCE: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(180);

#[derive(Default, Debug)]
pub struct Link {
    pub received: Vec<u8>,
    pub pieces: usize,
    pub connected: usize,
    pub eof: bool,
    pub hung_up: usize,
    pub sent: usize,
    pub failed: Option<std::io::Error>,
    pub closed: usize,
    pub returned: Option<Vec<u8>>,
    pub detached: Option<OwnedFd>,
    pub outgoing: Vec<u8>,
    pub sending: bool,
    pub paused: bool,
}

pub struct World {
    pub reactor: Reactor,
    pub links: HashMap<Token, Link>,
    pub accepted: Vec<(ListenerId, OwnedFd)>,
    pub accept_failures: usize,
    pub unlistened: Vec<ListenerId>,
    pub woken: usize,
    pub turns: usize,
    pub echo: bool,
    pub adopt_accepted: bool,
}

impl World {
    pub fn new(config: ReactorConfig) -> World {
        World {
            reactor: Reactor::new(config).unwrap(),
            links: HashMap::new(),
            accepted: Vec::new(),
            accept_failures: 0,
            unlistened: Vec::new(),
            woken: 0,
            turns: 0,
            echo: false,
            adopt_accepted: false,
        }
    }

    pub fn echo(config: ReactorConfig) -> World {
        World { echo: true, adopt_accepted: true, ..World::new(config) }
    }

    pub fn adopt(&mut self, socket: impl Into<OwnedFd>) -> Token {
        let conn = self.reactor.ops().adopt(socket.into()).unwrap();
        assert!(self.links.insert(conn, Link::default()).is_none(), "a token came twice");
        conn
    }

    pub fn adopt_connecting(&mut self, socket: OwnedFd) -> Token {
        let conn = self.reactor.ops().adopt_connecting(socket).unwrap();
        assert!(self.links.insert(conn, Link::default()).is_none(), "a token came twice");
        conn
    }

    pub fn pair(&mut self) -> (Token, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (self.adopt(ours), theirs)
    }

    pub fn listen(&mut self, id: u32) -> SocketAddr {
        let socket = net::tcp_listener("127.0.0.1:0".parse().unwrap(), 1024, false).unwrap();
        let address = net::local_name(&socket).parse().unwrap();
        self.reactor.ops().listen(socket, ListenerId(id)).unwrap();
        address
    }

    /// Makes a TCP connection: our token and the peer's stream.
    pub fn tcp(&mut self) -> (Token, TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        theirs.set_nodelay(true).unwrap();
        let (ours, _) = listener.accept().unwrap();
        (self.adopt(ours), theirs)
    }

    pub fn link(&self, conn: Token) -> &Link {
        &self.links[&conn]
    }

    pub fn send(&mut self, conn: Token, bytes: impl Into<Vec<u8>>) {
        self.reactor.ops().send(conn, bytes.into(), Receipt::Prompt);
    }

    /// Runs turns until `done`, with every send reported promptly.
    pub fn until_sent(&mut self, done: impl Fn(&World) -> bool) {
        let started = Instant::now();
        while !done(self) {
            self.turn(Some(SILENCE));
            self.reactor.ops().hasten();
            assert!(started.elapsed() < LONGEST, "events, but not the one awaited");
        }
    }

    /// Runs turns until `done`.
    pub fn until(&mut self, done: impl Fn(&World) -> bool) {
        let started = Instant::now();
        while !done(self) {
            self.turn(Some(SILENCE));
            assert!(started.elapsed() < LONGEST, "events, but not the one awaited");
        }
    }

    /// Runs turns that do not sleep, until everything on its way has arrived.
    pub fn settle(&mut self) {
        for _ in 0..20 {
            self.turn(Some(Duration::ZERO));
        }
    }

    pub fn turn(&mut self, timeout: Option<Duration>) {
        self.turns += 1;
        let started = Instant::now();
        let (events, mut ops) = self.reactor.wait(timeout).unwrap();
        let mut touched = Vec::new();
        let mut seen = 0;
        for event in events {
            seen += 1;
            match event {
                Event::Accepted { listener, socket } if self.adopt_accepted => {
                    net::set_nodelay(&socket);
                    assert_eq!(listener, ListenerId(0));
                    let conn = ops.adopt(socket).unwrap();
                    self.links.insert(conn, Link::default());
                }
                Event::Accepted { listener, socket } => self.accepted.push((listener, socket)),
                Event::AcceptFailed { .. } => self.accept_failures += 1,
                Event::Unlistened { listener } => self.unlistened.push(listener),
                Event::Woken => self.woken += 1,
                event => touched.push(note(&mut self.links, self.echo, event)),
            }
        }
        if self.echo {
            for conn in touched {
                let Some(link) = self.links.get_mut(&conn) else { continue };
                answer(&mut ops, conn, link);
            }
        }
        let silent = seen == 0 && started.elapsed() >= SILENCE;
        assert!(!silent, "nothing happened for a minute: a wake-up was lost");
    }
}

fn note(links: &mut HashMap<Token, Link>, echo: bool, event: Event<'_>) -> Token {
    let conn = match &event {
        Event::Data { conn, .. }
        | Event::Connected { conn }
        | Event::Eof { conn }
        | Event::HungUp { conn }
        | Event::Sent { conn, .. }
        | Event::Failed { conn, .. }
        | Event::Closed { conn, .. }
        | Event::Detached { conn, .. } => *conn,
        other => panic!("not a connection's event: {other:?}"),
    };
    let link = links.get_mut(&conn).expect("an event for an unknown token");
    assert_eq!(link.closed, 0, "{event:?} after Closed");
    assert!(link.detached.is_none(), "{event:?} after Detached");
    match event {
        Event::Data { bytes, .. } => {
            assert!(!link.eof, "data after Eof");
            assert!(!bytes.is_empty());
            link.pieces += 1;
            if echo {
                link.outgoing.extend_from_slice(bytes);
            } else {
                link.received.extend_from_slice(bytes);
            }
        }
        Event::Connected { .. } => {
            assert!(link.received.is_empty() && link.failed.is_none(), "Connected comes first");
            link.connected += 1;
        }
        Event::Eof { .. } => {
            assert!(!link.eof, "Eof twice");
            link.eof = true;
        }
        Event::HungUp { .. } => {
            assert!(!link.eof, "HungUp after Eof");
            link.hung_up += 1;
        }
        Event::Sent { buffer, .. } => {
            assert!(buffer.is_empty(), "a returned buffer is empty");
            link.sent += 1;
            link.sending = false;
            if link.outgoing.is_empty() {
                link.outgoing = buffer;
            }
        }
        Event::Failed { error, .. } => {
            assert!(link.failed.is_none(), "Failed twice");
            link.failed = Some(error);
        }
        Event::Closed { buffer, .. } => {
            link.closed += 1;
            link.returned = buffer;
        }
        Event::Detached { socket, .. } => link.detached = Some(socket),
        other => unreachable!("{other:?}"),
    }
    conn
}

/// The echo server's step for a link: sends what was received, stops reading when that is much,
/// closes when the peer has ended and everything is sent.
fn answer(ops: &mut pantala_reactor::Ops<'_>, conn: Token, link: &mut Link) {
    if link.closed > 0 {
        return;
    }
    if link.failed.is_some() {
        return ops.close(conn);
    }
    if !link.sending && !link.outgoing.is_empty() {
        link.sending = true;
        ops.send(conn, std::mem::take(&mut link.outgoing), Receipt::Lazy);
    }
    if link.sending && (link.eof || !link.outgoing.is_empty()) {
        ops.hasten();
    }
    let much = link.outgoing.len() > 256 << 10;
    if much && !link.paused {
        link.paused = true;
        ops.pause_reading(conn);
    } else if !much && link.paused {
        link.paused = false;
        ops.resume_reading(conn);
    }
    if link.eof && !link.sending && link.outgoing.is_empty() {
        ops.close(conn);
    }
}

/// Bytes that depend on their position and on `seed`.
pub fn pattern(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|i| ((i + seed).wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

pub trait Stream: Read + Write + Send + Sized + 'static {
    fn twin(&self) -> Self;
    fn end_writing(&self);
}

impl Stream for UnixStream {
    fn twin(&self) -> Self {
        self.try_clone().unwrap()
    }
    fn end_writing(&self) {
        self.shutdown(Shutdown::Write).unwrap();
    }
}

impl Stream for TcpStream {
    fn twin(&self) -> Self {
        self.try_clone().unwrap()
    }
    fn end_writing(&self) {
        self.shutdown(Shutdown::Write).unwrap();
    }
}

/// A peer that writes `bytes`, ends, reads everything that comes back, and compares.
pub fn echo_peer(stream: impl Stream, bytes: Vec<u8>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut writing = stream.twin();
        let expected = bytes.clone();
        let writer = std::thread::spawn(move || {
            writing.write_all(&bytes).unwrap();
            writing.end_writing();
        });
        let mut back = Vec::new();
        let mut reading = stream;
        reading.read_to_end(&mut back).unwrap();
        writer.join().unwrap();
        assert_eq!(back.len(), expected.len());
        assert!(back == expected, "the bytes differ");
    })
}
