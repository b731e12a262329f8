//! What the server remembers of one connection between two commands.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pantala_acl::{DEFAULT_NAME, InForce, Refusal};
use pantala_journal::Stamp;
use pantala_keyspace::DbIndex;
use pantala_protocol::Version;
use pantala_replication::{Phase, Replica};

use crate::calls::errand::Errand;
use crate::clients::client_line::Meters;
use crate::clients::login::{Limits, Login, Renewed};
use crate::clients::queue::{Queue, Watching};

/// CLIENT TRACKING ON: how the client is told that keys have changed.
#[derive(Clone, Debug, Default)]
pub struct Tracking {
    /// The client that is told instead; 0: this one.
    pub redirect: u64,
    /// All keys with a prefix, read or not.
    pub is_broadcast: bool,
    /// The prefixes; an empty one is all keys.
    pub prefixes: Arc<Vec<Vec<u8>>>,
    /// About what the prefixes take, in bytes.
    pub prefix_bytes: usize,
    /// Only keys of commands after CLIENT CACHING YES.
    pub opt_in: bool,
    /// All but the keys of commands after CLIENT CACHING NO.
    pub opt_out: bool,
    /// What the client changes itself it is not told.
    pub no_loop: bool,
    /// CLIENT CACHING stood before the next command.
    pub caching: bool,
    /// Whoever should be told instead has gone.
    pub is_broken: Arc<AtomicBool>,
}

impl Tracking {
    /// Whether keys that the command at hand reads are remembered.
    pub fn remembers(&self) -> bool {
        match self {
            Tracking { is_broadcast: true, .. } => false,
            Tracking { opt_in: true, .. } => self.caching,
            Tracking { opt_out: true, .. } => !self.caching,
            _ => true,
        }
    }
}

/// Text that a client has given, of any length: all copies of its session share it.
#[derive(Clone, Debug, Default)]
pub struct SharedText(Option<Arc<[u8]>>);

impl From<&[u8]> for SharedText {
    fn from(text: &[u8]) -> Self {
        SharedText((!text.is_empty()).then(|| text.into()))
    }
}

impl Deref for SharedText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

/// Whether replies are sent (CLIENT REPLY).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// All of them.
    #[default]
    On,
    /// None.
    Off,
    /// Not the next one.
    SkipNext,
    /// Neither this one nor the next one: the command at hand was to be skipped, and said so again.
    SkipAgain,
}

/// What a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Its first bytes will tell.
    Undecided,
    /// Redis's, in the version that the session says.
    #[default]
    Resp,
    /// Memcached's, as text.
    MemcachedText,
    /// Memcached's, as numbers.
    MemcachedBinary,
}

/// Where a connection is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The worker.
    pub worker: u16,
    /// The connection, among those of the worker.
    pub connection: u64,
}

/// How many things a connection has subscribed to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subscriptions {
    /// Channels.
    pub channels: u32,
    /// Patterns.
    pub patterns: u32,
    /// Shard channels.
    pub slot_channels: u32,
    /// About what all of them cost.
    pub bytes: usize,
}

/// The state of one connection between two commands. It is cloned to the slow lane with a command
/// and copied back afterwards, so whatever may be large in it is shared, not copied.
#[derive(Clone, Debug)]
pub struct Session {
    /// The client's number, for CLIENT ID; never used twice.
    pub id: u64,
    /// The selected database.
    pub db: DbIndex,
    /// What it speaks.
    pub protocol: Protocol,
    /// The version of RESP, if it speaks that.
    pub version: Version,
    login: Login,
    limits: Limits,
    /// It is a replica, or has said something of itself as one.
    pub replica: Option<Arc<Replica>>,
    /// The last step of the journal that a command of its has ended.
    pub last_step: Stamp,
    /// What it has subscribed to; the server knows the names.
    pub subscriptions: Subscriptions,
    /// Where it is served.
    pub place: Place,
    /// CLIENT SETNAME.
    pub name: SharedText,
    /// CLIENT SETINFO LIB-NAME.
    pub lib_name: SharedText,
    /// CLIENT SETINFO LIB-VER.
    pub lib_version: SharedText,
    /// The commands since MULTI.
    pub multi: Option<Arc<Queue>>,
    /// The keys of WATCH.
    pub watching: Option<Arc<Watching>>,
    /// CLIENT REPLY.
    pub reply_mode: ReplyMode,
    /// CLIENT NO-TOUCH is on.
    pub no_touch: bool,
    /// CLIENT NO-EVICT is on.
    pub no_evict: bool,
    /// CLIENT IMPORT-SOURCE is on.
    pub is_import_source: bool,
    /// CLIENT CAPA REDIRECT.
    can_redirect: bool,
    /// READONLY: it may read from a replica, though it follows redirections.
    pub reads_replicas: bool,
    /// CLIENT TRACKING.
    pub tracking: Option<Box<Tracking>>,
    /// It is a script's own, not a client's.
    pub is_script: bool,
    /// TIME goes on in this script, which has run for too long.
    pub time_goes_on: bool,
    /// MONITOR: this connection is shown every command.
    pub monitor: bool,
    /// The connection is to be closed once the replies so far are sent.
    pub closing: bool,
    /// Since its worker has looked last its user has lost channels, perhaps one that it listens to.
    pub has_fewer_channels: bool,
    /// The peer, as CLIENT LIST writes it.
    pub peer: String,
    /// Our end of the connection.
    pub local: String,
    /// When it was accepted (monotonic, microseconds).
    pub since_us: u64,
    /// Wrong passwords that it has given.
    pub wrong_passwords: u32,
    /// Those for which it has waited.
    pub punished_passwords: u32,
    /// It was authenticated before RESET: it may take its time to be so again.
    pub was_let_in: bool,
    /// Commands that its transactions and scripts have run.
    pub inner_commands: u64,
    /// What the command at hand has had done elsewhere.
    pub errand: Option<Arc<dyn Errand>>,
    /// What is to be done when the transaction at hand holds nothing any more, before it is
    /// answered. Only on the lane.
    pub epilogue: Option<Arc<dyn Errand>>,
    /// What its worker knows of it, where the command at hand may be refused something.
    pub meters: Option<Box<Meters>>,
    /// A wrong password that the transaction at hand has just met, to be logged with it.
    pub refused_login: Option<Box<Refusal>>,
}

impl Session {
    /// A client's session as it begins, and as RESET makes it again.
    pub fn of_client(id: u64, now: &InForce) -> Self {
        let mut session = Session::new(id);
        session.log_in(Login::of_client(now), now);
        session
    }

    /// A session of the server's own, which may do everything.
    pub fn new(id: u64) -> Self {
        Session {
            id,
            db: DbIndex(0),
            protocol: Protocol::Resp,
            version: Version::Resp2,
            login: Login::default(),
            limits: Limits::default(),
            replica: None,
            last_step: Stamp::default(),
            subscriptions: Subscriptions::default(),
            place: Place::default(),
            name: SharedText::default(),
            lib_name: SharedText::default(),
            lib_version: SharedText::default(),
            multi: None,
            watching: None,
            reply_mode: ReplyMode::On,
            no_touch: false,
            no_evict: false,
            is_import_source: false,
            can_redirect: false,
            reads_replicas: false,
            tracking: None,
            is_script: false,
            time_goes_on: false,
            monitor: false,
            closing: false,
            has_fewer_channels: false,
            peer: String::new(),
            local: String::new(),
            since_us: 0,
            wrong_passwords: 0,
            punished_passwords: 0,
            was_let_in: false,
            inner_commands: 0,
            errand: None,
            epilogue: None,
            meters: None,
            refused_login: None,
        }
    }

    /// It is this from now on.
    pub fn log_in(&mut self, login: Login, now: &InForce) {
        self.login = login;
        self.work_out_limits(now);
    }

    /// It acts as another session's user from now on.
    pub fn clone_login(&mut self, other: &Session) {
        self.login = other.login.clone();
        self.limits = other
            .limits
            .with(Limits::SUBSCRIBED, self.is_subscribed())
            .with(Limits::REDIRECTED, self.can_redirect);
    }

    /// Looks its user up again, when there are other users than it knows; whether it is still
    /// there.
    pub fn renew_login(&mut self, now: &InForce) -> bool {
        let renewed = self.login.renew(now);
        self.work_out_limits(now);
        if let (Renewed::Changed(before), Some(user)) = (&renewed, self.login.user()) {
            self.has_fewer_channels |= !user.keeps_channels_of(before);
        }
        renewed != Renewed::Gone
    }

    fn work_out_limits(&mut self, now: &InForce) {
        let is_subscribed = self.is_subscribed();
        let limits = self.login.limits(now.users.default_user().is_open());
        self.limits = limits
            .with(Limits::SUBSCRIBED, is_subscribed)
            .with(Limits::REDIRECTED, self.can_redirect);
    }

    /// Who it is.
    pub fn login(&self) -> &Login {
        &self.login
    }

    /// The name of its user.
    pub fn user_name(&self) -> &[u8] {
        self.login.user().map_or(DEFAULT_NAME, |user| user.name())
    }

    /// Whether AUTH succeeded, or no password is asked.
    #[inline]
    pub fn is_authenticated(&self) -> bool {
        !self.limits.has(Limits::LOCKED_OUT)
    }

    /// Whether it has given wrong passwords for which it has not waited yet.
    #[inline]
    pub fn is_unpunished(&self) -> bool {
        self.wrong_passwords != self.punished_passwords
    }

    /// Whether its user may not do everything.
    #[inline]
    pub fn has_rules(&self) -> bool {
        self.limits.has(Limits::RULES)
    }

    /// Whether it has subscribed to something: in RESP2 it may do little else.
    #[inline]
    pub fn is_subscribed(&self) -> bool {
        self.limits.has(Limits::SUBSCRIBED)
    }

    /// Whether it follows redirections: CLIENT CAPA REDIRECT.
    pub fn can_redirect(&self) -> bool {
        self.can_redirect
    }

    /// It follows redirections from now on, or does not.
    pub fn set_can_redirect(&mut self, can_redirect: bool) {
        self.can_redirect = can_redirect;
        self.limits = self.limits.with(Limits::REDIRECTED, can_redirect);
    }

    /// Whether nothing restricts what it may do: one look for all commands of most clients.
    #[inline]
    pub fn is_unrestricted(&self) -> bool {
        self.limits.is_none()
    }

    /// Whether it is one of those RESP2 connections that may do little but subscribe.
    pub fn is_confined(&self) -> bool {
        self.is_subscribed() && self.version == Version::Resp2
    }

    /// Whether it follows this server, or waits for that.
    pub fn is_replica(&self) -> bool {
        self.replica.as_ref().is_some_and(|replica| replica.phase() != Phase::Greeting)
    }

    /// Counts its subscriptions anew.
    pub fn set_subscriptions(&mut self, now: Subscriptions) {
        self.subscriptions = now;
        self.limits = self.limits.with(Limits::SUBSCRIBED, now != Subscriptions::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_shares_what_may_be_large() {
        let mut session = Session::new(1);
        assert_eq!(&*session.name, b"", "none yet");
        let long = vec![b'n'; 1 << 20];
        session.name = long.as_slice().into();
        session.lib_name = long.as_slice().into();
        session.lib_version = long.as_slice().into();
        let mut watching = Watching::default();
        watching.add(DbIndex(0), &long);
        session.watching = Some(Arc::new(watching));
        session.multi = Some(Arc::default());
        let copy = session.clone();
        let texts =
            |one: &Session| [&one.name, &one.lib_name, &one.lib_version].map(|text| text.as_ptr());
        assert_eq!(texts(&copy), texts(&session));
        let shared = |one: &Session| {
            let (watching, multi) = (one.watching.as_ref(), one.multi.as_ref());
            (watching.map(Arc::as_ptr), multi.map(Arc::as_ptr))
        };
        assert_eq!(shared(&copy), shared(&session));
    }
}
