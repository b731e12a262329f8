//! AUTH, HELLO and RESET: the user and the protocol of a connection.

use pantala_acl::{AclRefusal, Context, DEFAULT_NAME, Reason};
use pantala_base::number::parse_i64;
use pantala_commands::options::is_word;
use pantala_commands::{
    Call, ClientError, Command, CommandResult, Flags, Group, Lane, Login, ReplyMode, Session, Stop,
    error,
};
use pantala_protocol::Version;

use crate::{Operator, cluster};
use pantala_commands::REDIS_VERSION;
use pantala_engine::Engine;
use pantala_engine::clients::permission::describe;
use pantala_engine::pubsub::commands as pubsub;

const GREETING: Flags = Flags::NOSCRIPT
    .union(Flags::LOADING)
    .union(Flags::STALE)
    .union(Flags::FAST)
    .union(Flags::NO_AUTH)
    .union(Flags::ALLOW_BUSY)
    .union(Flags::REVERSIBLE);

/// The server name for clients: some decide by it which commands there are.
const SERVER: &str = "redis";

const WRONG_PASSWORD: ClientError =
    ClientError::text("WRONGPASS invalid username-password pair or user is disabled.");
const NO_PASSWORD_SET: ClientError = ClientError::text(
    "ERR AUTH <password> called without any password configured for the default user. Are you \
     sure your configuration is correct?",
);
const HELLO_FIRST: ClientError = ClientError::text(
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
     <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP \
     protocol version at the same time",
);

/// In AUTH everything after the name is a secret.
pub(super) fn is_auth_secret(_args: &[&[u8]], position: usize) -> bool {
    position > 0
}

/// In HELLO the two arguments after AUTH are secrets.
pub(super) fn is_hello_secret(args: &[&[u8]], position: usize) -> bool {
    let is_auth = |back: usize| {
        let word = position.checked_sub(back).filter(|at| *at > 1).and_then(|at| args.get(at));
        word.is_some_and(|word| is_word(word, "AUTH"))
    };
    is_auth(1) || is_auth(2)
}

pub(super) const AUTH: Command = Command::new("AUTH", auth, Group::Connection)
    .arity(-2)
    .flags(GREETING)
    .secrets(is_auth_secret)
    .complexity("O(N) for a password of N bytes")
    .syntax("[username] password")
    .summary("Authenticates the connection.");

fn auth(call: &mut Call<'_, '_>) -> CommandResult {
    let (user, password) = match *call.args {
        [_, password] => (None, password),
        [_, user, password] => (Some(user), password),
        _ => return Err(error::SYNTAX.into()),
    };
    let has_none = Engine::of(call).acl.users().default_user().has_no_password();
    if user.is_none() && has_none {
        return Err(NO_PASSWORD_SET.into());
    }
    authenticate(call, user.unwrap_or(DEFAULT_NAME), password)?;
    call.reply.ok();
    Ok(())
}

/// Logs the connection in as this user; on an error it goes on as it was.
pub(crate) fn authenticate(
    call: &mut Call<'_, '_>,
    name: &[u8],
    password: &[u8],
) -> Result<(), ClientError> {
    let now = Engine::of(call).acl.in_force();
    // Replies of a transaction are held back together, so only its first guess is checked.
    let is_guessing = call.session.multi.is_some() && call.session.is_unpunished();
    let user = now.users.authenticate(name, password).filter(|_| !is_guessing);
    let Some(user) = user else {
        call.session.wrong_passwords = call.session.wrong_passwords.wrapping_add(1);
        note_wrong_password(call, name);
        return Err(WRONG_PASSWORD);
    };
    call.session.log_in(Login::of_user(user, now.version), &now);
    Ok(())
}

/// Logs a wrong password; in a transaction, which may begin again, at its end.
fn note_wrong_password(call: &mut Call<'_, '_>, name: &[u8]) {
    let is_in_multi = call.session.multi.is_some();
    let context = if is_in_multi { Context::Multi } else { Context::TopLevel };
    let line = describe(call.session, call.command);
    let refusal = AclRefusal::new(Reason::Auth, context, (call.args[0], name), line);
    match is_in_multi {
        true => call.session.refused_login = Some(Box::new(refusal)),
        false => Engine::of(call).log_refusal(refusal),
    }
}

pub(super) const HELLO: Command = Command::new("HELLO", hello, Group::Connection)
    .arity(-1)
    .flags(GREETING)
    .secrets(is_hello_secret)
    .since("6.0.0")
    .syntax("[arguments: protover:int [AUTH username password] [SETNAME clientname]]")
    .summary("Chooses the protocol version and tells about server and connection.");

fn hello(call: &mut Call<'_, '_>) -> CommandResult {
    let version = match call.args.get(1) {
        None => call.session.version,
        Some(text) => parse_version(text)?,
    };
    let options = Options::parse(call.args.get(2..).unwrap_or_default())?;
    if let Some((user, password)) = options.credentials {
        authenticate(call, user, password)?;
    }
    if !call.session.is_authenticated() {
        return Err(HELLO_FIRST.into());
    }
    if let Some(name) = options.name {
        call.session.name = name.into();
    }
    call.session.version = version;
    call.reply.speak(version);
    reply_greeting(call);
    Ok(())
}

fn parse_version(text: &[u8]) -> Result<Version, ClientError> {
    const NO_NUMBER: ClientError =
        ClientError::text("ERR Protocol version is not an integer or out of range");
    match parse_i64(text).ok_or(NO_NUMBER)? {
        2 => Ok(Version::Resp2),
        3 => Ok(Version::Resp3),
        _ => Err(error::NO_PROTO),
    }
}

/// The options of HELLO after the version.
#[derive(Default)]
struct Options<'a> {
    credentials: Option<(&'a [u8], &'a [u8])>,
    name: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(args: &[&'a [u8]]) -> Result<Self, ClientError> {
        let mut options = Options::default();
        let mut rest = args;
        loop {
            rest = match *rest {
                [] => return Ok(options),
                [word, user, password, ref rest @ ..] if is_word(word, "AUTH") => {
                    options.credentials = Some((user, password));
                    rest
                }
                [word, text, ref rest @ ..] if is_word(word, "SETNAME") => {
                    super::check_printable(text, "Client names")?;
                    options.name = Some(text);
                    rest
                }
                [word, ..] => {
                    let word = String::from_utf8_lossy(word);
                    let error = format!("ERR Syntax error in HELLO option '{word}'");
                    return Err(ClientError::new(error));
                }
            };
        }
    }
}

fn reply_greeting(call: &mut Call<'_, '_>) {
    let id = call.session.id.cast_signed();
    let settings = Engine::of(call).settings.current();
    let zone = settings.availability_zone.as_bytes();
    let operator = Operator::of(call);
    let is_cluster = cluster::is_on(operator);
    let follows = operator.replication.is_replica();
    let reply = &mut call.reply;
    reply.map(7 + usize::from(!zone.is_empty()));
    reply.bulk(b"server");
    reply.bulk(SERVER.as_bytes());
    reply.bulk(b"version");
    reply.bulk(REDIS_VERSION.as_bytes());
    reply.bulk(b"proto");
    reply.int(if reply.version() == Version::Resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.int(id);
    reply.bulk(b"mode");
    reply.bulk(if is_cluster { b"cluster" } else { b"standalone" });
    reply.bulk(b"role");
    reply.bulk(if follows { b"replica" } else { b"master" });
    reply.bulk(b"modules");
    reply.array(0);
    if !zone.is_empty() {
        reply.bulk(b"availability_zone");
        reply.bulk(zone);
    }
}

pub(super) const RESET: Command = Command::new("RESET", reset, Group::Connection)
    .arity(1)
    .flags(GREETING.union(Flags::UNQUEUED).union(Flags::SUBSCRIBED))
    .since("6.2.0")
    .summary("Makes the connection as it was when it began.");

/// Resets a connection to its initial state; the library's name stays.
fn reset(call: &mut Call<'_, '_>) -> CommandResult {
    if call.lane == Lane::Worker && pubsub::is_long(&call.session.subscriptions) {
        return Err(Stop::Lane);
    }
    let now = Engine::of(call).acl.in_force();
    Engine::of(call).notices.pubsub.forget(call.session.place);
    let old = std::mem::replace(call.session, Session::of_client(call.session.id, &now));
    if old.tracking.is_some() {
        let operator = Operator::of(call);
        operator.engine.end_tracking(old.id);
    }
    let was_let_in = old.was_let_in || old.is_authenticated();
    let session = &mut *call.session;
    session.set_can_redirect(old.can_redirect());
    session.lib_name = old.lib_name;
    session.lib_version = old.lib_version;
    session.place = old.place;
    session.peer = old.peer;
    session.local = old.local;
    session.since_us = old.since_us;
    session.wrong_passwords = old.wrong_passwords;
    session.punished_passwords = old.punished_passwords;
    session.was_let_in = was_let_in;
    session.inner_commands = old.inner_commands;
    if old.reply_mode == ReplyMode::SkipNext {
        // The reply that is skipped is that of RESET itself.
        session.reply_mode = ReplyMode::SkipNext;
    }
    call.reply.speak(session.version);
    call.reply.simple("RESET");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hides_what_follows_auth() {
        let args: [&[u8]; 6] = [b"HELLO", b"3", b"auth", b"user", b"password", b"SETNAME"];
        let hidden: Vec<bool> = (0..args.len()).map(|at| is_hello_secret(&args, at)).collect();
        assert_eq!(hidden, [false, false, false, true, true, false]);
    }
}
