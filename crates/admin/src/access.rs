//! Authentication of requests, and their permissions.
//!
//! | caller | user | may |
//! |---|---|---|
//! | has a session, or uses Basic for `/metrics` | that user | what its rules allow |
//! | connects to the admin port with `admin_nopass` | the default user | the same |
//! | anyone else, if the default user has no password | the default user | read |
//! | anyone else | none | nothing |
//!
//! Reading means running a command whose row says that it reads data, but not a script, or one of
//! [`READS`].

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::{COOKIE, HOST};
use pantala_commands::{Flags, Login};
use pantala_engine::Engine;

use crate::admin::{Admin, Peer};
use crate::answer::Refusal;

/// The cookie's name, before the port.
const COOKIE_NAME: &str = "pantala_session";

/// Commands that only read, but not data.
const READS: &[&str] = &[
    "acl|whoami",
    "client|getname",
    "client|id",
    "client|info",
    "client|list",
    "command",
    "command|count",
    "command|docs",
    "command|getkeys",
    "command|getkeysandflags",
    "command|info",
    "command|list",
    "commandlog|get",
    "commandlog|len",
    "config|get",
    "dbsize",
    "function|list",
    "hotkeys|get",
    "info",
    "lastsave",
    "latency|doctor",
    "latency|graph",
    "latency|histogram",
    "latency|history",
    "latency|latest",
    "memory|doctor",
    "memory|malloc-stats",
    "memory|stats",
    "module|list",
    "ping",
    "pubsub|channels",
    "pubsub|numpat",
    "pubsub|numsub",
    "select",
    "slowlog|get",
    "slowlog|len",
    "time",
];

/// Commands that nobody may run: they would change the user, or which reply belongs to which
/// request.
const NEVER: &[&str] =
    &["auth", "client|reply", "hello", "monitor", "psync", "quit", "replconf", "reset", "sync"];

/// An authenticated caller.
#[derive(Clone, Debug)]
pub(crate) struct Requester {
    /// The user.
    pub login: Login,
    /// Whether it may do more than read.
    pub may_write: bool,
}

impl Requester {
    /// The caller, by cookie or by its connection.
    pub fn of(admin: &Admin, peer: &Peer, headers: &HeaderMap) -> Option<Requester> {
        let now = admin.host.engine().acl.in_force();
        let known = cookie(headers).and_then(|cookie| admin.sessions.find(cookie, &now));
        if let Some(login) = known {
            return Some(Requester { login, may_write: true });
        }
        let default = now.users.default_user();
        if !peer.needs_no_login && !default.is_open() {
            return None;
        }
        let login = Login::of_user(Arc::clone(default), now.version);
        Some(Requester { login, may_write: peer.needs_no_login })
    }

    /// As [`Requester::of`], with an error for a caller that is not authenticated.
    ///
    /// # Errors
    /// The caller is not authenticated.
    pub fn needed(admin: &Admin, peer: &Peer, headers: &HeaderMap) -> Result<Requester, Refusal> {
        Requester::of(admin, peer, headers).ok_or_else(|| Refusal::unknown("log in first"))
    }

    /// The user's name.
    pub fn name(&self) -> String {
        let name = self.login.user().map_or(&b"default"[..], |user| user.name());
        String::from_utf8_lossy(name).into_owned()
    }

    /// Whether it may run a command, named as in the table, by those rules of its user that need no
    /// key.
    pub fn may_run(&self, engine: &Engine, name: &str) -> bool {
        let Some(found) = engine.registry.row_of(name) else { return false };
        let permission = engine.registry.permission(found);
        self.login.user().is_none_or(|user| user.may_run(permission, None))
    }

    /// As [`Requester::may_run`], with an error that names the command.
    ///
    /// # Errors
    /// The user may not run the command.
    pub fn must_run(&self, engine: &Engine, name: &str) -> Result<(), Refusal> {
        if self.may_run(engine, name) {
            return Ok(());
        }
        let name = name.replace('|', " ").to_uppercase();
        Err(Refusal::forbidden(format!("user {} may not run {name}", self.name())))
    }

    /// Checks whether it may send this command at all; returns the name of the command's row. The
    /// server checks the rest.
    ///
    /// # Errors
    /// An error in the server's words.
    pub fn admit(&self, engine: &Engine, args: &[Vec<u8>]) -> Result<String, String> {
        let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let Some(found) = engine.registry.resolve(&words) else {
            // The server answers this itself.
            return Ok(String::new());
        };
        let name = found.row.full_name();
        if NEVER.contains(&name.as_str()) {
            return Err(format!("ERR {name} is not possible over HTTP"));
        }
        // A script's commands are checked only as the script's, and SLOWLOG RESET writes no data.
        let flags = found.row.flags;
        let is_read = flags.intersects(Flags::READONLY) && !flags.intersects(Flags::SCRIPT);
        if self.may_write || is_read || READS.contains(&name.as_str()) {
            return Ok(name);
        }
        Err(format!("NOAUTH {name} changes something: log in first, this page only reads"))
    }
}

/// The value of the session's cookie.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let name = cookie_name(headers);
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).map(str::trim);
    let mut pairs = pairs.filter_map(|pair| pair.split_once('='));
    pairs.find(|(one, _)| *one == name).map(|(_, value)| value)
}

/// The name of the session's cookie. It contains the port, since browsers send cookies to all ports
/// of a host.
pub(crate) fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').map(|(_, port)| port);
    match port.filter(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())) {
        Some(port) => format!("{COOKIE_NAME}_{port}"),
        None => COOKIE_NAME.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_cookie_is_that_of_its_port() {
        let mut headers = HeaderMap::new();
        let line = "a=1; pantala_session_6380=two; pantala_session=none;pantala_session_6379=one";
        headers.insert(COOKIE, HeaderValue::from_static(line));
        for (host, expected) in [
            ("127.0.0.1:6379", Some("one")),
            ("[::1]:6380", Some("two")),
            ("localhost", Some("none")),
            ("localhost:1", None),
        ] {
            headers.insert(HOST, HeaderValue::from_static(host));
            assert_eq!(cookie(&headers), expected, "{host}");
        }
    }
}
