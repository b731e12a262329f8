//! A client of the server, spoken for by HTTP: RESP over one end of a pair of sockets.
//!
//! ```text
//! Request --ask--> commands in order --> worker
//! worker  --> whole replies --heard--> the answer to a request, or a message nobody asked for
//! ```
//!
//! Invariants
//! 1. Replies come in the order of the commands, so that a queue tells whose each is. What would
//!    break that is not asked (`access::NEVER`).
//! 2. A request that names a database runs there or not at all: those after a SELECT wait until it
//!    is answered.
//! 3. SUBSCRIBE and its kin are answered by messages alone, or by an error: a PING behind them
//!    tells which.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};

use pantala_commands::Login;
use tokio::io::Interest;
use tokio::net::UnixStream;

use crate::admin::Peer;
use crate::host::{Host, NewClient};
use crate::reply::to_json;
use crate::scan::{Broken, Scan, Scanned};

/// Read at a time.
const READ_BYTES: usize = 64 << 10;
/// The names of commands that are answered by messages.
const SUBSCRIBING: [&str; 6] =
    ["subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe"];

/// What is to be run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    /// What the asker knows it by: JSON, or nothing where order tells.
    pub id: String,
    /// The command with its arguments.
    pub args: Vec<Vec<u8>>,
    /// The database, if that matters.
    pub db: Option<u32>,
    /// The row's name in the command table.
    pub name: String,
}

impl Request {
    /// What its arguments take.
    fn bytes(&self) -> usize {
        self.args.iter().map(|arg| size_of_val(arg) + arg.len()).sum()
    }
}

/// What has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The reply to a request, by its id; both are JSON.
    Reply(String, String),
    /// Nobody asked for this: JSON.
    Push(String),
}

/// What a reply is for.
enum Awaited {
    /// For nobody.
    Nothing,
    /// For a request.
    Answer(String),
    /// Whether this database is selected; for the request that said so, if one did.
    Select(u32, Option<String>),
    /// For a request that is answered by messages, or the PING behind it.
    Subscribed(String),
}

/// See the module.
pub(crate) struct Link {
    stream: UnixStream,
    scan: Scan,
    out: Vec<u8>,
    awaited: VecDeque<Awaited>,
    /// They wait for the reply to a SELECT.
    held: VecDeque<Request>,
    /// What their arguments take.
    held_bytes: usize,
    is_selecting: bool,
    /// None: not known, for a SELECT was queued and EXEC may run it.
    db: Option<u32>,
    heard: VecDeque<Heard>,
}

impl Link {
    /// A new client; `credentials`: it says by them who it is. What that is answered is the first
    /// reply, to a request without a name.
    ///
    /// # Errors
    /// A text for the user.
    pub fn open(
        host: &dyn Host,
        peer: &Peer,
        login: Option<Login>,
        credentials: Option<(&str, &str)>,
    ) -> Result<Link, String> {
        let (address, local) = (peer.address.clone(), peer.local.clone());
        let stream = host.connect(NewClient { login, address, local })?;
        let stream = UnixStream::from_std(stream).map_err(|error| error.to_string())?;
        let mut link = Link {
            stream,
            scan: Scan::default(),
            out: Vec::new(),
            awaited: VecDeque::new(),
            held: VecDeque::new(),
            held_bytes: 0,
            is_selecting: false,
            db: Some(0),
            heard: VecDeque::new(),
        };
        match credentials {
            None => link.send(&[b"HELLO", b"3"], Awaited::Nothing),
            Some((user, password)) => {
                let words = [b"HELLO", &b"3"[..], b"AUTH", user.as_bytes(), password.as_bytes()];
                link.send(&words, Awaited::Answer(String::new()));
            }
        }
        Ok(link)
    }

    /// Has a request run after those before it.
    pub fn ask(&mut self, request: Request) {
        self.held_bytes += request.bytes();
        self.held.push_back(request);
        self.send_held();
    }

    /// How many requests are not answered yet.
    pub fn pending(&self) -> usize {
        self.awaited.len() + self.held.len()
    }

    /// How many bytes are still to be sent.
    pub fn unsent_bytes(&self) -> usize {
        self.out.len() + self.held_bytes
    }

    /// A command whose replies are what they are: MONITOR.
    pub fn send_blindly(&mut self, words: &[&[u8]]) {
        self.send(words, Awaited::Nothing);
    }

    /// What comes next. May be given up at any moment and begun again. `None`: the server has ended
    /// it.
    ///
    /// # Errors
    /// What came is no RESP.
    pub async fn next(&mut self) -> Result<Option<Heard>, Broken> {
        loop {
            if let Some(heard) = self.heard.pop_front() {
                return Ok(Some(heard));
            }
            match self.next_reply().await? {
                Some(reply) => self.take(&reply)?,
                None => return Ok(None),
            }
        }
    }

    /// The next whole reply, whatever it is for.
    ///
    /// # Errors
    /// What came is no RESP.
    pub async fn next_reply(&mut self) -> Result<Option<Scanned>, Broken> {
        loop {
            if let Some(reply) = self.scan.next()? {
                return Ok(Some(reply));
            }
            let is_going = self.exchange().await.unwrap_or(false);
            if !is_going {
                return Ok(None);
            }
        }
    }

    /// Sends and receives what can be at this moment, at least something; whether there may be
    /// more.
    async fn exchange(&mut self) -> io::Result<bool> {
        let interest = match self.out.is_empty() {
            true => Interest::READABLE,
            false => Interest::READABLE | Interest::WRITABLE,
        };
        let ready = self.stream.ready(interest).await?;
        if ready.is_writable() && !self.out.is_empty() {
            match self.stream.try_write(&self.out) {
                Ok(sent) => drop(self.out.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        if ready.is_readable() {
            let mut buffer = Vec::with_capacity(READ_BYTES);
            match self.stream.try_read_buf(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(_) => self.scan.take(&buffer),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn send(&mut self, words: &[&[u8]], awaited: Awaited) {
        push_command(words, &mut self.out);
        self.awaited.push_back(awaited);
    }

    fn send_held(&mut self) {
        while !self.is_selecting
            && let Some(request) = self.held.front()
        {
            if let Some(db) = request.db.filter(|db| Some(*db) != self.db) {
                self.is_selecting = true;
                let number = db.to_string();
                return self.send(&[b"SELECT", number.as_bytes()], Awaited::Select(db, None));
            }
            if let Some(request) = self.take_held() {
                self.send_one(request);
            }
        }
    }

    fn take_held(&mut self) -> Option<Request> {
        let request = self.held.pop_front()?;
        self.held_bytes -= request.bytes();
        Some(request)
    }

    fn send_one(&mut self, request: Request) {
        let Request { id, args, name, .. } = request;
        let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        if SUBSCRIBING.contains(&name.as_str()) {
            push_command(&words, &mut self.out);
            return self.send(&[b"PING"], Awaited::Subscribed(id));
        }
        let selected = args.get(1).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
        match selected.filter(|_| name == "select") {
            Some(db) => {
                self.is_selecting = true;
                self.send(&words, Awaited::Select(db, Some(id)));
            }
            None => self.send(&words, Awaited::Answer(id)),
        }
    }

    /// A whole reply has come.
    fn take(&mut self, reply: &Scanned) -> Result<(), Broken> {
        let mut json = String::new();
        let (is_push, is_error) = match reply {
            Scanned::Reply(bytes) => (to_json(bytes, &mut json)?, bytes.first() == Some(&b'-')),
            Scanned::TooLarge(bytes) => {
                json = format!("{{\"tooLarge\":{bytes}}}");
                (false, false)
            }
        };
        if is_push {
            self.heard.push_back(Heard::Push(json));
            return Ok(());
        }
        match self.awaited.pop_front() {
            None | Some(Awaited::Nothing) => {}
            Some(Awaited::Answer(id)) => self.heard.push_back(Heard::Reply(id, json)),
            Some(Awaited::Select(db, asked)) => self.selected(db, asked, (json, is_error)),
            Some(Awaited::Subscribed(id)) => {
                if is_error {
                    self.awaited.push_front(Awaited::Nothing);
                } else {
                    json = "{\"status\":\"OK\"}".to_owned();
                }
                self.heard.push_back(Heard::Reply(id, json));
            }
        }
        Ok(())
    }

    fn selected(&mut self, db: u32, asked: Option<String>, (json, is_error): (String, bool)) {
        self.is_selecting = false;
        // Between MULTI and EXEC it is only queued.
        let is_done = json == "{\"status\":\"OK\"}";
        if !is_error {
            self.db = is_done.then_some(db);
        }
        match asked {
            Some(id) => self.heard.push_back(Heard::Reply(id, json)),
            None if is_done => {}
            None => {
                let why = match is_error {
                    true => json,
                    false => "{\"error\":\"ERR no other database within MULTI\"}".to_owned(),
                };
                if let Some(request) = self.take_held() {
                    self.heard.push_back(Heard::Reply(request.id, why));
                }
            }
        }
        self.send_held();
    }
}

/// A command as an array of strings.
fn push_command(words: &[&[u8]], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}
