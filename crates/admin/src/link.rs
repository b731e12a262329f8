//! A client of the server on behalf of an HTTP request: RESP over one end of a socket pair.
//!
//! ```text
//! Request --ask--> commands in order --> worker
//! worker  --> whole replies --heard--> the answer to a request, or a message nobody asked for
//! ```
//!
//! Invariants
//! 1. Replies come in the order of the commands, so a queue tells which request each belongs to.
//!    Commands that would break that are refused (`access::NEVER`).
//! 2. A request that names a database runs there or not at all, and it is known whether it is part
//!    of a transaction: requests after a SELECT, MULTI, EXEC or DISCARD wait for its reply.
//! 3. SUBSCRIBE and its kin are answered by messages alone, or by an error: a PING behind them
//!    tells which. Within MULTI they are queued like any command.
//! 4. What is said without being asked to is called as clients call it (`rename-command`).

use std::collections::VecDeque;
use std::io::{self, ErrorKind};

use pantala_commands::{Login, Registry};
use tokio::io::Interest;
use tokio::net::UnixStream;

use crate::admin::Peer;
use crate::host::{Host, NearEnd, NewClient};
use crate::reply::to_json;
use crate::scan::{Broken, Scan, Scanned};

/// Read at a time.
const READ_BYTES: usize = 64 << 10;
/// The names of commands that are answered by messages.
const SUBSCRIBING: [&str; 6] =
    ["subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe"];

/// How these replies are as JSON.
const OK: &str = "{\"status\":\"OK\"}";
const QUEUED: &str = "{\"status\":\"QUEUED\"}";
const ELSEWHERE: &str = "ERR no other database within MULTI";
const NO_SELECT: &str = "ERR no other database: SELECT has no name here";
const NO_PING: &str = "ERR nothing can be subscribed to: PING, ECHO and TIME have no name here";

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
    /// Whether a transaction has begun.
    Multi(String),
    /// A transaction has ended: by EXEC, or not.
    Ended(String, bool),
    /// For a request that is answered by messages, or the PING behind it.
    Subscribed(String),
    /// No reply: the request has its answer, which waits for those before it.
    Known(String, String),
}

/// What is known of the transaction that the client is in.
#[derive(Default)]
struct Transaction {
    /// A SELECT is queued.
    selects: bool,
}

/// How clients call the commands that a link says by itself; `None`: they can not.
struct Names {
    select: Option<Vec<u8>>,
    /// A command that is surely answered, with its arguments.
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
    awaited: VecDeque<Awaited>,
    /// Requests that wait for a reply that decides how they run (SELECT, MULTI, EXEC, DISCARD).
    held: VecDeque<Request>,
    /// What their arguments take.
    held_bytes: usize,
    is_settling: bool,
    transaction: Option<Transaction>,
    /// None: not known, for EXEC has run a SELECT.
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
        let registry = &host.engine().registry;
        let auth = registry.called("AUTH");
        if auth.is_none() && credentials.is_some() {
            return Err("ERR nobody can log in: AUTH has no name here".into());
        }
        let (address, local) = (peer.address.clone(), peer.local.clone());
        let NearEnd { stream, place } = host.connect(NewClient { login, address, local })?;
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
            link.send(&words, Awaited::Answer(String::new()));
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
                        return self.send(&[&name, number.as_bytes()], Awaited::Select(db, None));
                    }
                };
                self.refuse_held(why);
            } else if let Some(request) = self.take_held() {
                self.send_one(request);
            }
        }
    }

    /// The first that waits is answered with an error, after those before it.
    fn refuse_held(&mut self, why: &str) {
        if let Some(request) = self.take_held() {
            self.answer(request.id, format!("{{\"error\":\"{why}\"}}"));
        }
    }

    /// Answers a request that the server is not asked for.
    fn answer(&mut self, id: String, json: String) {
        self.awaited.push_back(Awaited::Known(id, json));
        self.tell_known();
    }

    fn tell_known(&mut self) {
        while matches!(self.awaited.front(), Some(Awaited::Known(..)))
            && let Some(Awaited::Known(id, json)) = self.awaited.pop_front()
        {
            self.heard.push_back(Heard::Reply(id, json));
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
            return self.send(&words, Awaited::Answer(id));
        }
        if SUBSCRIBING.contains(&name.as_str()) {
            let Some(answered) = self.names.answered.clone() else {
                return self.answer(id, format!("{{\"error\":\"{NO_PING}\"}}"));
            };
            push_command(&words, &mut self.out);
            let answered: Vec<&[u8]> = answered.iter().map(Vec::as_slice).collect();
            return self.send(&answered, Awaited::Subscribed(id));
        }
        let number = args.get(1).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
        let awaited = match (name.as_str(), number) {
            ("select", Some(db)) => Awaited::Select(db, Some(id)),
            ("multi", _) => Awaited::Multi(id),
            ("exec" | "discard", _) => Awaited::Ended(id, name == "exec"),
            _ => return self.send(&words, Awaited::Answer(id)),
        };
        self.is_settling = true;
        self.send(&words, awaited);
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
        let is_ok = json == OK;
        match self.awaited.pop_front() {
            None | Some(Awaited::Nothing | Awaited::Known(..)) => {}
            Some(Awaited::Answer(id)) => self.heard.push_back(Heard::Reply(id, json)),
            Some(Awaited::Select(db, asked)) => self.selected(db, asked, (json, is_error)),
            Some(Awaited::Multi(id)) => {
                if is_ok {
                    self.transaction = Some(Transaction::default());
                }
                self.settled(Some((id, json)));
            }
            Some(Awaited::Ended(id, has_run)) => {
                let ended = self.transaction.take();
                if has_run && ended.is_some_and(|ended| ended.selects) {
                    self.db = None;
                }
                self.settled(Some((id, json)));
            }
            Some(Awaited::Subscribed(id)) => {
                if is_error || json == QUEUED {
                    self.awaited.push_front(Awaited::Nothing);
                } else {
                    json = OK.to_owned();
                }
                self.heard.push_back(Heard::Reply(id, json));
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

    /// What others waited for has been answered.
    fn settled(&mut self, answer: Option<(String, String)>) {
        self.is_settling = false;
        self.heard.extend(answer.map(|(id, json)| Heard::Reply(id, json)));
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
