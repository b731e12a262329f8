//! The errand of MIGRATE: what happens between two of its runs, on the control plane.

use std::any::Any;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use pantala_commands::families::generic::transfer::KeyTransfer;
use pantala_commands::{AsyncRequest, ResumeGuard};
use pantala_journal::resp::push_command;
use pantala_keyspace::PinWait;
use pantala_keyspace::pins::Pins;
use pantala_keyspace::{Aborted, DbIndex};
use parking_lot::Mutex;

use super::link::{Link, LinkFault};
use crate::Migrations;
use pantala_http::control;

/// About the size of the pieces in which requests are sent.
const PIECE_BYTES: usize = 64 << 10;

/// The target of a migration, and how it is reached.
#[derive(Clone, Debug)]
pub struct Order {
    /// The host, as the client named it.
    pub host: Vec<u8>,
    /// The port.
    pub port: u16,
    /// AUTH with its arguments, if it is to be sent.
    pub auth: Option<Vec<Vec<u8>>>,
    /// The database at the target.
    pub db: i64,
    /// The longest time for each step forward.
    pub limit: Duration,
}

/// The keys to be pinned, and their owner.
#[derive(Clone, Debug)]
pub struct ToPin {
    /// Their database.
    pub db: DbIndex,
    /// Their names.
    pub keys: Vec<Vec<u8>>,
    /// The client that owns the pins.
    pub owner: u64,
}

/// Why the keys are not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The target cannot be reached.
    Fault(LinkFault),
    /// Another MIGRATE is sending one of them.
    Pinned(PinWait),
    /// A thread inside the gate does not leave it.
    Aborted(Aborted),
}

/// The answers of the target.
#[derive(Debug, Default)]
pub struct Answers {
    /// For each parcel whether the target has acknowledged it.
    pub has: Vec<bool>,
    /// The first error it has answered, without the leading sign.
    pub error: Option<String>,
    /// The failure of the connection, if any.
    pub fault: Option<LinkFault>,
}

/// The stage of a migration.
#[derive(Debug)]
pub enum Stage {
    /// A connection is to be opened, and these keys pinned.
    Connect(Option<ToPin>),
    /// The result of that.
    Connected(Result<(Link, Option<Pins>), Failure>),
    /// This request is to be sent, for so many parcels.
    Send(Link, Vec<Vec<u8>>, usize),
    /// The result of that.
    Sent(Answers),
    /// Nothing is left to do.
    Over,
}

/// One MIGRATE, between its runs.
#[derive(Debug)]
pub struct Migration {
    migrations: Shr,
    order: Order,
    state: Mutex<State>,
}

struct Shr(Arc<Migrations>);

impl std::fmt::Debug for Shr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the server")
    }
}

/// What is kept between runs.
#[derive(Debug)]
struct State {
    stage: Stage,
    /// The parcels that are sent, and the pins of their keys.
    parcels: Vec<KeyTransfer>,
    pins: Option<Pins>,
}

impl Migration {
    /// A migration that is to connect first.
    pub fn new(migrations: Arc<Migrations>, order: Order, to_pin: Option<ToPin>) -> Arc<Migration> {
        let state = State { stage: Stage::Connect(to_pin), parcels: Vec::new(), pins: None };
        Arc::new(Migration { migrations: Shr(migrations), order, state: Mutex::new(state) })
    }

    fn state(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Takes the stage; the next one is `Over` unless another is set.
    pub fn take_stage(&self) -> Stage {
        std::mem::replace(&mut self.state().stage, Stage::Over)
    }

    /// Takes the parcels that were sent, and the pins.
    pub fn take_parcels(&self) -> (Vec<KeyTransfer>, Option<Pins>) {
        let mut state = self.state();
        (std::mem::take(&mut state.parcels), state.pins.take())
    }

    /// Sets these parcels to be sent next, over this connection, as this request.
    pub fn send_next(
        &self,
        link: Link,
        (parcels, request): (Vec<KeyTransfer>, Vec<Vec<u8>>),
        pins: Option<Pins>,
    ) {
        let mut state = self.state();
        state.stage = Stage::Send(link, request, parcels.len());
        (state.parcels, state.pins) = (parcels, pins);
    }

    /// Does the next step, and waits for it on this thread.
    pub fn wait(self: &Arc<Self>) {
        let (sender, receiver) = channel::<()>();
        let migrations = Arc::clone(&self.migrations.0);
        let is_unwanted = move || migrations.engine.condition.shutdown.is_final();
        // The other end is dropped when it has ended, in whatever way.
        Arc::clone(self).begin(ResumeGuard::new(move || drop(sender), is_unwanted));
        let _ended = receiver.recv();
    }

    async fn run(&self, way_back: &ResumeGuard) {
        let next = match self.take_stage() {
            Stage::Connect(to_pin) => Stage::Connected(self.connect(to_pin, way_back).await),
            Stage::Send(link, request, count) => {
                Stage::Sent(self.send(link, &request, count, way_back).await)
            }
            stage => stage,
        };
        self.state().stage = next;
    }

    async fn open(&self, way_back: &ResumeGuard) -> Result<Link, LinkFault> {
        let Order { host, port, limit, .. } = &self.order;
        let host = std::str::from_utf8(host).map_err(|_| LinkFault::Connecting)?;
        Link::open(host, *port, *limit, way_back).await
    }

    async fn connect(
        &self,
        to_pin: Option<ToPin>,
        way_back: &ResumeGuard,
    ) -> Result<(Link, Option<Pins>), Failure> {
        let link = match self.migrations.0.links.take(&self.target()) {
            Some(link) => link,
            None => self.open(way_back).await.map_err(Failure::Fault)?,
        };
        let Some(ToPin { db, keys, owner }) = to_pin else { return Ok((link, None)) };
        let migrations = Arc::clone(&self.migrations.0);
        // It may have to wait for the gate.
        let pins = tokio::task::spawn_blocking(move || migrations.engine.space.pins()).await;
        let pins = pins.map_err(|_| Failure::Fault(LinkFault::Connecting))?;
        let mut pins = pins.map_err(Failure::Aborted)?;
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        match pins.pin(db, &keys, owner) {
            Ok(()) => Ok((link, Some(pins))),
            Err(wait) => {
                self.keep(link);
                Err(Failure::Pinned(wait))
            }
        }
    }

    /// Sends the request; once more over another connection if the first turns out to be closed.
    async fn send(
        &self,
        link: Link,
        request: &[Vec<u8>],
        count: usize,
        way_back: &ResumeGuard,
    ) -> Answers {
        let (mut link, mut may_retry) = (link, true);
        loop {
            let answers = self.send_once(&mut link, request, count, way_back).await;
            let is_untouched = answers.has.is_empty() && answers.error.is_none();
            match answers.fault {
                Some(fault) if fault.may_retry() && may_retry && is_untouched => {
                    may_retry = false;
                    link = match self.open(way_back).await {
                        Ok(link) => link,
                        Err(fault) => return Answers { fault: Some(fault), ..answers },
                    };
                }
                Some(_) => return answers,
                None => {
                    self.keep(link);
                    return answers;
                }
            }
        }
    }

    async fn send_once(
        &self,
        link: &mut Link,
        request: &[Vec<u8>],
        count: usize,
        way_back: &ResumeGuard,
    ) -> Answers {
        let Order { auth, db, limit, .. } = &self.order;
        let mut head = Vec::new();
        let mut heads = 0;
        if let Some(words) = auth {
            push_command(&mut head, &words.iter().map(Vec::as_slice).collect::<Vec<_>>());
            heads += 1;
        }
        if link.last_db != *db {
            push_command(&mut head, &[b"SELECT", db.to_string().as_bytes()]);
            heads += 1;
        }
        let mut pieces: Vec<&[u8]> = vec![&head];
        pieces.extend(request.iter().map(Vec::as_slice));
        let (lines, fault) = link.exchange(&pieces, heads + count, *limit, way_back).await;
        let (heads, lines) = lines.split_at(heads.min(lines.len()));
        // Everything requested here is answered OK; a server with another answer may be none of the
        // kind.
        let error_in = |line: &String| match line.strip_prefix('+') {
            Some(_) => None,
            None => Some(line.strip_prefix('-').unwrap_or(line).to_owned()),
        };
        let of_heads = heads.iter().find_map(error_in);
        let has = lines.iter().map(|line| of_heads.is_none() && error_in(line).is_none());
        let has: Vec<bool> = has.collect();
        // The reference looks at this error once it has an answer for a key.
        let error = of_heads.filter(|_| !lines.is_empty());
        let error = error.or_else(|| lines.iter().find_map(error_in));
        link.last_db = if error.is_some() { -1 } else { *db };
        Answers { has, error, fault }
    }

    fn target(&self) -> Vec<u8> {
        [&self.order.host, &b":"[..], self.order.port.to_string().as_bytes()].concat()
    }

    fn keep(&self, link: Link) {
        self.migrations.0.keep_link(&self.target(), link);
    }

    /// Returns a connection that was not needed.
    pub fn give_back(&self, link: Link) {
        if let Ok(runtime) = control::runtime() {
            let _inside = runtime.enter();
            self.keep(link);
        }
    }
}

impl AsyncRequest for Migration {
    fn begin(self: Arc<Self>, way_back: ResumeGuard) {
        match control::runtime() {
            Ok(runtime) => drop(runtime.spawn(async move { self.run(&way_back).await })),
            Err(error) => {
                tracing::warn!("MIGRATE: {error}");
                let failed = Stage::Connected(Err(Failure::Fault(LinkFault::Connecting)));
                self.state().stage = failed;
            }
        }
    }

    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// The commands that restore these parcels, in pieces; the payloads are moved into them. `word` is
/// the command: RESTORE, or RESTORE-ASKING.
pub fn request(
    keys: &[&[u8]],
    parcels: &mut [KeyTransfer],
    word: &str,
    replaces: bool,
) -> Vec<Vec<u8>> {
    let (mut pieces, mut piece) = (Vec::new(), Vec::new());
    for parcel in parcels {
        let (key, ttl) = (keys[parcel.nth], parcel.ttl_ms.to_string());
        let count = if replaces { 5 } else { 4 };
        piece.extend_from_slice(format!("*{count}\r\n${}\r\n{word}\r\n", word.len()).as_bytes());
        piece.extend_from_slice(format!("${}\r\n", key.len()).as_bytes());
        piece.extend_from_slice(key);
        let length = parcel.bytes();
        let head = format!("\r\n${}\r\n{ttl}\r\n${length}\r\n", ttl.len());
        piece.extend_from_slice(head.as_bytes());
        for part in parcel.payload.drain(..) {
            piece.extend_from_slice(&part);
            if piece.len() > PIECE_BYTES {
                pieces.push(std::mem::take(&mut piece));
            }
        }
        piece.extend_from_slice(if replaces { b"\r\n$7\r\nREPLACE\r\n" } else { b"\r\n" });
    }
    pieces.push(piece);
    pieces
}
