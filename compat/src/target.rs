//! The targets that a case can be played against. The TCP one is here; the server's crates may add
//! others (in process); `inside` wraps it.

use crate::client::{Connection, Fault, Server, encode};
use crate::parse::{Act, Case};
use crate::pattern::Resp;
use crate::value::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the clients of the previous case may take to disappear.
const GONE_LIMIT: Duration = Duration::from_secs(10);

/// Plays the steps of a case.
pub trait Target {
    /// Prepares for a case: an empty server, no clients; new ones speak `resp`.
    fn begin(&mut self, case: &Case, resp: Resp) -> Result<(), Fault>;
    /// Sends a command from a client, which is connected first if it is new.
    fn send(&mut self, client: &str, args: &[Vec<u8>]) -> Result<(), Fault>;
    /// Sends bytes as they are.
    fn send_bytes(&mut self, client: &str, bytes: &[u8]) -> Result<(), Fault>;
    /// The client's next reply.
    fn receive(&mut self, client: &str) -> Result<Value, Fault>;
    /// The client's next bytes.
    fn receive_bytes(&mut self, client: &str, count: usize) -> Result<Vec<u8>, Fault>;
    /// A reply that has arrived after the last step without being expected.
    fn unread(&mut self, client: &str) -> Option<Value>;

    /// Sends a command and waits for its reply.
    fn command(&mut self, client: &str, args: &[Vec<u8>]) -> Result<Value, Fault> {
        self.send(client, args)?;
        self.receive(client)
    }
}

/// Servers reached over TCP.
pub struct Tcp {
    address: String,
    /// How to start servers; `None` when the address was given.
    spawn: Option<String>,
    server: Option<Server>,
    /// The case's own server, for `#! server:`.
    own: Option<Server>,
    control: Option<Connection>,
    clients: BTreeMap<String, Connection>,
    resp: Resp,
    /// Whether others use the server too, so that it is never alone.
    crowded: bool,
    /// The current case may leave changed users behind.
    changes_users: bool,
    /// How long a client waits for a reply, if not the usual time.
    pub reply_limit: Option<Duration>,
}

impl Tcp {
    /// A server that runs already.
    pub fn at(address: &str) -> Tcp {
        Tcp {
            address: address.to_string(),
            spawn: None,
            server: None,
            own: None,
            control: None,
            clients: BTreeMap::new(),
            resp: Resp::Two,
            crowded: false,
            changes_users: false,
            reply_limit: None,
        }
    }

    /// A server started by `command`, with `{port}` and `{dir}` in it.
    pub fn spawned(command: &str) -> Result<Tcp, String> {
        let server = Server::start(command, "")?;
        let mut tcp = Tcp::at(&server.address);
        tcp.server = Some(server);
        tcp.spawn = Some(command.to_string());
        Ok(tcp)
    }

    /// The address of its server.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The folder of a server that was started here.
    pub fn folder(&self) -> Option<&Path> {
        self.server.as_ref().map(Server::folder)
    }

    /// Whether it can start servers with other arguments.
    pub fn starts_servers(&self) -> bool {
        self.spawn.is_some()
    }

    fn client(&mut self, name: &str) -> Result<&mut Connection, Fault> {
        if !self.clients.contains_key(name) {
            let address = self.own.as_ref().map_or(&self.address, |own| &own.address);
            let mut connection = Connection::open(address, self.resp)?;
            if let Some(limit) = self.reply_limit {
                connection.limit(limit);
            }
            self.clients.insert(name.to_string(), connection);
        }
        self.clients.get_mut(name).ok_or(Fault::Closed)
    }

    /// Sends a command over a connection that is not part of the case; never to a case's own
    /// server.
    pub fn operate(&mut self, args: &[&str]) -> Result<(), Fault> {
        match &mut self.control {
            Some(control) if self.own.is_none() => control.command(args).map(drop),
            _ => Ok(()),
        }
    }

    fn clean(&mut self) -> Result<(), Fault> {
        let mut control = match self.control.take() {
            Some(control) => control,
            None => Connection::open(&self.address, Resp::Two)?,
        };
        for command in [&["FLUSHALL"][..], &["FUNCTION", "FLUSH"], &["SCRIPT", "FLUSH"]] {
            control.command(command)?;
        }
        if self.changes_users {
            put_users_back(&mut control)?;
        }
        let end = Instant::now() + GONE_LIMIT;
        while !self.crowded {
            match control.command(&["CLIENT", "LIST"])? {
                Value::Bulk(text) if text.iter().filter(|&&b| b == b'\n').count() > 1 => {
                    self.crowded = Instant::now() > end;
                }
                _ => break,
            }
        }
        self.control = Some(control);
        Ok(())
    }
}

/// Whether a case may leave changed users behind.
fn has_acl(case: &Case) -> bool {
    let changes = |word: &Vec<u8>| {
        [&b"acl"[..], b"requirepass"].iter().any(|other| word.eq_ignore_ascii_case(other))
    };
    case.steps.iter().any(|step| match &step.act {
        Act::Send(send) => send.args.iter().any(changes),
        _ => false,
    })
}

/// Restores the users: only the default user with all permissions, and an empty log.
fn put_users_back(control: &mut Connection) -> Result<(), Fault> {
    if let Value::Array(names) = control.command(&["ACL", "USERS"])? {
        for name in names {
            let Value::Bulk(name) = name else { continue };
            let name = String::from_utf8_lossy(&name).into_owned();
            if name != "default" {
                control.command(&["ACL", "DELUSER", &name])?;
            }
        }
    }
    control.command(&["CONFIG", "SET", "requirepass", ""])?;
    control
        .command(&["ACL", "SETUSER", "default", "reset", "on", "nopass", "~*", "&*", "+@all"])?;
    control.command(&["ACL", "LOG", "RESET"]).map(drop)
}

impl Target for Tcp {
    fn begin(&mut self, case: &Case, resp: Resp) -> Result<(), Fault> {
        self.clients.clear();
        self.own = None;
        self.resp = resp;
        if let (Some(more), Some(command)) = (&case.server, &self.spawn) {
            self.own = Some(Server::start(command, more).map_err(Fault::Unreachable)?);
            return Ok(());
        }
        // The previous case may have killed the control connection
        if self.clean().is_ok() || self.clean().is_ok() {
            self.changes_users = has_acl(case);
            return Ok(());
        }
        // or brought the server down; this was reported for that case.
        if let Some(command) = &self.spawn {
            let server = Server::start(command, "").map_err(Fault::Unreachable)?;
            self.address = server.address.clone();
            self.server = Some(server);
        }
        self.control = None;
        self.clean()
    }

    fn send(&mut self, client: &str, args: &[Vec<u8>]) -> Result<(), Fault> {
        self.send_bytes(client, &encode(args))
    }

    fn send_bytes(&mut self, client: &str, bytes: &[u8]) -> Result<(), Fault> {
        self.client(client)?.send(bytes);
        Ok(())
    }

    fn receive(&mut self, client: &str) -> Result<Value, Fault> {
        self.client(client)?.receive()
    }

    fn receive_bytes(&mut self, client: &str, count: usize) -> Result<Vec<u8>, Fault> {
        self.client(client)?.receive_bytes(count)
    }

    fn unread(&mut self, client: &str) -> Option<Value> {
        self.clients.get_mut(client)?.unread()
    }
}
