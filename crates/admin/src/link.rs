//! A client of the server on behalf of an HTTP request: RESP over one end of a socket pair.
//!
//! ```text
//! Request --ask--> commands in order --> worker
//! worker  --> whole replies --heard--> the answer to a request, or an unsolicited message
//! ```
//!
//! Invariants
//! 1. Replies come in the order of the commands, so a queue tells which request each belongs to.
//!    Commands that would break that are refused (`access::NEVER`).
//! 2. A request that names a database runs there or not at all, and the link knows whether the
//!    request is part of a transaction: requests after a SELECT, MULTI, EXEC or DISCARD wait for
//!    the reply to that command.
//! 3. SUBSCRIBE and its kin are answered only by messages, or by an error; a PING sent after them
//!    shows which. Within MULTI they are queued like any command.
//! 4. Commands that the link sends by itself use their current names (`rename-command`).

use std::collections::VecDeque;
use std::io::{self, ErrorKind};

use pantala_commands::{Login, Registry};
use tokio::io::Interest;
use tokio::net::UnixStream;

use crate::admin::Peer;
use crate::host::{AdminHost, LocalEnd, NewClient};
use crate::reply::to_json;
use crate::scan::{MalformedReply, Scan, ScannedReply};

/// How much is read at a time.
const READ_BYTES: usize = 64 << 10;
/// Commands that are answered by messages.
const SUBSCRIBING: [&str; 6] =
    ["subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe"];

/// These replies as JSON.
const OK: &str = "{\"status\":\"OK\"}";
const QUEUED: &str = "{\"status\":\"QUEUED\"}";
const ELSEWHERE: &str = "ERR no other database within MULTI";
const NO_SELECT: &str = "ERR no other database: SELECT has no name here";
const NO_PING: &str = "ERR nothing can be subscribed to: PING, ECHO and TIME have no name here";

/// A command to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    /// The caller's id for it: JSON, or empty if the order tells.
    pub id: String,
    /// The command with its arguments.
    pub args: Vec<Vec<u8>>,
    /// The database, if one is named.
    pub db: Option<u32>,
    /// The name of the command's row in the table.
    pub name: String,
}

impl Request {
    /// The size of its arguments.
    fn bytes(&self) -> usize {
        self.args.iter().map(|arg| size_of_val(arg) + arg.len()).sum()
    }
}

/// A received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LinkEvent {
    /// The reply to a request, by its id; both are JSON.
    Reply(String, String),
    /// An unsolicited message: JSON.
    Push(String),
}

/// The purpose of an awaited reply.
enum ReplyPurpose {
    /// None: the reply is dropped.
    Nothing,
    /// The answer to a request.
    Answer(String),
    /// The result of selecting this database; also the answer to a request, if one asked for it.
    Select(u32, Option<String>),
    /// The result of starting a transaction.
    Multi(String),
    /// The end of a transaction: by EXEC, or otherwise.
    Ended(String, bool),
    /// The answer to a request that is answered by messages, or to the PING behind it.
    Subscribed(String),
    /// No reply: the request is already answered, and waits for earlier ones.
    Known(String, String),
}

/// The state of the client's transaction.
#[derive(Default)]
struct Transaction {
    /// Whether a SELECT is queued.
    selects: bool,
}

/// The current names of the commands that a link sends by itself; `None`: renamed away.
struct Names {
    select: Option<Vec<u8>>,
    /// A command that is always answered, with its arguments.
    answered: Option<Vec<Vec<u8>>>,
}

impl Names {
    fn of(registry: &Registry) -> Names {
        let called = |name| registry.called(name).map(|name| name.as_bytes().to_vec());
        let echo = || called("ECHO").map(|name| vec![name, Vec::new()]);
        let time = || called("TIME").map(|name| vec![name]);
        let answered = called("PING").map(|name| vec![name]).or_else(echo).or_else(time);
        Names { select: called("SELECT"), answered }
    }
}

/// One client connection of the HTTP side to a worker, with the requests that await replies.
pub(crate) struct Link {
    stream: UnixStream,
    /// Dropped after the socket.
    _place: Box<dyn Send>,
    names: Names,
    scan: Scan,
    out: Vec<u8>,
    awaited: VecDeque<ReplyPurpose>,
    /// Requests that wait for a reply that decides how they run (SELECT, MULTI, EXEC, DISCARD).
    held: VecDeque<Request>,
    /// The size of their arguments.
    held_bytes: usize,
    is_settling: bool,
    transaction: Option<Transaction>,
    /// The selected database; `None`: unknown, as EXEC has run a SELECT.
    db: Option<u32>,
    heard: VecDeque<LinkEvent>,
}

impl Link {
    /// Opens a new client; with `credentials` it authenticates first. The reply to that is the
    /// first one, to a request without an id.
    ///
    /// # Errors
    /// A text for the user.
    pub fn open(
        host: &dyn AdminHost,
        peer: &Peer,
        login: Option<Login>,
        credentials: Option<(&str, &str)>,
    ) -> Result<Link, String> {
        let registry = &host.engine().registry;
        let auth = registry.called("AUTH");
        if auth.is_none() && credentials.is_some() {
            return Err("ERR nobody can log in: AUTH has no name here".into());
        }
        let (address, local) = (peer.address.clone(), peer.local.clone());
        let LocalEnd { stream, place } = host.connect(NewClient { login, address, local })?;
        let stream = UnixStream::from_std(stream).map_err(|error| error.to_string())?;
        let mut link = Link {
            stream,
            _place: place,
            names: Names::of(registry),
            scan: Scan::default(),
            out: Vec::new(),
            awaited: VecDeque::new(),
            held: VecDeque::new(),
            held_bytes: 0,
            is_settling: false,
            transaction: None,
            db: Some(0),
            heard: VecDeque::new(),
        };
        if let (Some((user, password)), Some(auth)) = (credentials, auth) {
            let words = [auth.as_bytes(), user.as_bytes(), password.as_bytes()];
            link.send(&words, ReplyPurpose::Answer(String::new()));
        }
        Ok(link)
    }

    /// Queues a request after those before it.
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

    /// Sends a command whose replies are read with [`Link::next_reply`]: MONITOR.
    pub fn send_blindly(&mut self, words: &[&[u8]]) {
        self.send(words, ReplyPurpose::Nothing);
    }

    /// The next message. Cancel-safe. `None`: the server has closed the connection.
    ///
    /// # Errors
    /// The received bytes are not RESP.
    pub async fn next(&mut self) -> Result<Option<LinkEvent>, MalformedReply> {
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

    /// The next whole reply, whatever its purpose.
    ///
    /// # Errors
    /// The received bytes are not RESP.
    pub async fn next_reply(&mut self) -> Result<Option<ScannedReply>, MalformedReply> {
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

    /// Waits until it can send or receive something, and does as much as possible; returns whether
    /// there may be more.
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

    fn send(&mut self, words: &[&[u8]], awaited: ReplyPurpose) {
        push_command(words, &mut self.out);
        self.awaited.push_back(awaited);
    }

    fn send_held(&mut self) {
        while !self.is_settling
            && let Some(request) = self.held.front()
        {
            if let Some(db) = request.db.filter(|db| Some(*db) != self.db) {
                let why = match (&self.transaction, &self.names.select) {
                    (Some(_), _) => ELSEWHERE,
                    (None, None) => NO_SELECT,
                    (None, Some(name)) => {
                        let (name, number) = (name.clone(), db.to_string());
                        self.is_settling = true;
                        return self
                            .send(&[&name, number.as_bytes()], ReplyPurpose::Select(db, None));
                    }
                };
                self.refuse_held(why);
            } else if let Some(request) = self.take_held() {
                self.send_one(request);
            }
        }
    }

    /// Answers the first held request with an error, after those before it.
    fn refuse_held(&mut self, why: &str) {
        if let Some(request) = self.take_held() {
            self.answer(request.id, format!("{{\"error\":\"{why}\"}}"));
        }
    }

    /// Answers a request without asking the server.
    fn answer(&mut self, id: String, json: String) {
        self.awaited.push_back(ReplyPurpose::Known(id, json));
        self.tell_known();
    }

    fn tell_known(&mut self) {
        while matches!(self.awaited.front(), Some(ReplyPurpose::Known(..)))
            && let Some(ReplyPurpose::Known(id, json)) = self.awaited.pop_front()
        {
            self.heard.push_back(LinkEvent::Reply(id, json));
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
        if let Some(transaction) = &mut self.transaction
            && !matches!(name.as_str(), "multi" | "exec" | "discard")
        {
            transaction.selects |= name == "select";
            return self.send(&words, ReplyPurpose::Answer(id));
        }
        if SUBSCRIBING.contains(&name.as_str()) {
            let Some(answered) = self.names.answered.clone() else {
                return self.answer(id, format!("{{\"error\":\"{NO_PING}\"}}"));
            };
            push_command(&words, &mut self.out);
            let answered: Vec<&[u8]> = answered.iter().map(Vec::as_slice).collect();
            return self.send(&answered, ReplyPurpose::Subscribed(id));
        }
        let number = args.get(1).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
        let awaited = match (name.as_str(), number) {
            ("select", Some(db)) => ReplyPurpose::Select(db, Some(id)),
            ("multi", _) => ReplyPurpose::Multi(id),
            ("exec" | "discard", _) => ReplyPurpose::Ended(id, name == "exec"),
            _ => return self.send(&words, ReplyPurpose::Answer(id)),
        };
        self.is_settling = true;
        self.send(&words, awaited);
    }

    /// Handles a whole reply.
    fn take(&mut self, reply: &ScannedReply) -> Result<(), MalformedReply> {
        let mut json = String::new();
        let (is_push, is_error) = match reply {
            ScannedReply::Reply(bytes) => {
                (to_json(bytes, &mut json)?, bytes.first() == Some(&b'-'))
            }
            ScannedReply::TooLarge(bytes) => {
                json = format!("{{\"tooLarge\":{bytes}}}");
                (false, false)
            }
        };
        if is_push {
            self.heard.push_back(LinkEvent::Push(json));
            return Ok(());
        }
        let is_ok = json == OK;
        match self.awaited.pop_front() {
            None | Some(ReplyPurpose::Nothing | ReplyPurpose::Known(..)) => {}
            Some(ReplyPurpose::Answer(id)) => self.heard.push_back(LinkEvent::Reply(id, json)),
            Some(ReplyPurpose::Select(db, asked)) => self.selected(db, asked, (json, is_error)),
            Some(ReplyPurpose::Multi(id)) => {
                if is_ok {
                    self.transaction = Some(Transaction::default());
                }
                self.settled(Some((id, json)));
            }
            Some(ReplyPurpose::Ended(id, has_run)) => {
                let ended = self.transaction.take();
                if has_run && ended.is_some_and(|ended| ended.selects) {
                    self.db = None;
                }
                self.settled(Some((id, json)));
            }
            Some(ReplyPurpose::Subscribed(id)) => {
                if is_error || json == QUEUED {
                    self.awaited.push_front(ReplyPurpose::Nothing);
                } else {
                    json = OK.to_owned();
                }
                self.heard.push_back(LinkEvent::Reply(id, json));
            }
        }
        self.tell_known();
        Ok(())
    }

    fn selected(&mut self, db: u32, asked: Option<String>, (json, is_error): (String, bool)) {
        let is_done = json == OK;
        if !is_error {
            self.db = is_done.then_some(db);
        }
        match asked {
            Some(id) => self.settled(Some((id, json))),
            None if is_done => self.settled(None),
            None => {
                let error = || format!("{{\"error\":\"{ELSEWHERE}\"}}");
                let json = if is_error { json } else { error() };
                let refused = self.take_held().map(|request| (request.id, json));
                self.settled(refused);
            }
        }
    }

    /// Continues after the reply that held requests waited for.
    fn settled(&mut self, answer: Option<(String, String)>) {
        self.is_settling = false;
        self.heard.extend(answer.map(|(id, json)| LinkEvent::Reply(id, json)));
        self.send_held();
    }
}

/// Encodes a command as an array of strings.
fn push_command(words: &[&[u8]], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}
