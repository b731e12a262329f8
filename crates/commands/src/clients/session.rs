//! The session: the state of one connection between two commands.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pantala_acl::{AclRefusal, DEFAULT_NAME, VersionedUsers};
use pantala_journal::Stamp;
use pantala_keyspace::DbIndex;
use pantala_protocol::Version;
use pantala_psync::{Phase, Replica};

use crate::calls::errand::AsyncRequest;
use crate::clients::login::{Login, LoginLimits, UserRefresh};
use crate::clients::meters::Meters;
use crate::clients::queue::{TransactionQueue, Watching};

/// CLIENT TRACKING ON: how the client is told of changed keys.
#[derive(Clone, Debug, Default)]
pub struct Tracking {
    /// The client that is told instead (REDIRECT); 0: this one.
    pub redirect: u64,
    /// BCAST: all keys with a prefix are tracked, read or not.
    pub is_broadcast: bool,
    /// The prefixes; an empty one means all keys.
    pub prefixes: Arc<Vec<Vec<u8>>>,
    /// About the memory of the prefixes, in bytes.
    pub prefix_bytes: usize,
    /// OPTIN: only keys of commands after CLIENT CACHING YES are tracked.
    pub opt_in: bool,
    /// OPTOUT: all keys are tracked, except those of commands after CLIENT CACHING NO.
    pub opt_out: bool,
    /// NOLOOP: the client is not told of its own changes.
    pub no_loop: bool,
    /// CLIENT CACHING came before the next command.
    pub caching: bool,
    /// The client that should be told instead has gone.
    pub is_broken: Arc<AtomicBool>,
}

impl Tracking {
    /// Whether keys that the current command reads are tracked.
    pub fn remembers(&self) -> bool {
        match self {
            Tracking { is_broadcast: true, .. } => false,
            Tracking { opt_in: true, .. } => self.caching,
            Tracking { opt_out: true, .. } => !self.caching,
            _ => true,
        }
    }
}

/// A text given by a client, of any length: all copies of its session share it.
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
    /// All replies.
    #[default]
    On,
    /// No reply.
    Off,
    /// All but the next reply.
    SkipNext,
    /// Neither this reply nor the next: the current command was to be skipped, and is itself a
    /// SKIP.
    SkipAgain,
}

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Not known yet: the first bytes will tell.
    Undecided,
    /// RESP, in the session's version.
    #[default]
    Resp,
    /// Memcached's text protocol.
    MemcachedText,
    /// Memcached's binary protocol.
    MemcachedBinary,
}

/// The place where a connection is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServicePlace {
    /// The worker.
    pub worker: u16,
    /// The connection, as the worker numbers it.
    pub connection: u64,
}

/// The numbers of a connection's subscriptions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subscriptions {
    /// Channels.
    pub channels: u32,
    /// Patterns.
    pub patterns: u32,
    /// Shard channels.
    pub slot_channels: u32,
    /// About the memory that they take.
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
    /// Its protocol.
    pub protocol: Protocol,
    /// The version of RESP, if its protocol is that.
    pub version: Version,
    login: Login,
    limits: LoginLimits,
    /// Set if it is a replica, or has announced itself as one.
    pub replica: Option<Arc<Replica>>,
    /// The last journal step of its commands.
    pub last_step: Stamp,
    /// The numbers of its subscriptions; the engine has the names.
    pub subscriptions: Subscriptions,
    /// Where it is served.
    pub place: ServicePlace,
    /// CLIENT SETNAME.
    pub name: SharedText,
    /// CLIENT SETINFO LIB-NAME.
    pub lib_name: SharedText,
    /// CLIENT SETINFO LIB-VER.
    pub lib_version: SharedText,
    /// The commands since MULTI.
    pub multi: Option<Arc<TransactionQueue>>,
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
    /// ASKING: its next command may use a slot that is being moved here.
    pub asks: bool,
    /// CLIENT TRACKING.
    pub tracking: Option<Box<Tracking>>,
    /// It is a script's own session, not a client's.
    pub is_script: bool,
    /// This script has run for too long, so TIME advances in it.
    pub time_goes_on: bool,
    /// MONITOR: this connection is sent every command.
    pub monitor: bool,
    /// The connection is to be closed once the replies so far are sent.
    pub closing: bool,
    /// Its user has lost channels since its worker has looked last, perhaps one that it subscribes
    /// to.
    pub has_fewer_channels: bool,
    /// The peer, as CLIENT LIST writes it.
    pub peer: String,
    /// The local address of the connection.
    pub local: String,
    /// When it was accepted (monotonic, microseconds).
    pub since_us: u64,
    /// How many wrong passwords it has given.
    pub wrong_passwords: u32,
    /// For how many of these it has already waited.
    pub punished_passwords: u32,
    /// It was authenticated before RESET: `auth_timeout` does not apply.
    pub was_let_in: bool,
    /// Commands that its transactions and scripts have run.
    pub inner_commands: u64,
    /// The errand of the current command.
    pub errand: Option<Arc<dyn AsyncRequest>>,
    /// What to do when the current transaction has released everything, before it is answered. Only
    /// on the lane.
    pub epilogue: Option<Arc<dyn AsyncRequest>>,
    /// Figures of its worker, if the current command may be refused.
    pub meters: Option<Box<Meters>>,
    /// A wrong password in the current transaction, to be logged with it.
    pub refused_login: Option<Box<AclRefusal>>,
}

impl Session {
    /// The session of a new client, also after RESET.
    pub fn of_client(id: u64, now: &VersionedUsers) -> Self {
        let mut session = Session::new(id);
        session.log_in(Login::of_client(now), now);
        session
    }

    /// A session of the server's own, without restrictions.
    pub fn new(id: u64) -> Self {
        Session {
            id,
            db: DbIndex(0),
            protocol: Protocol::Resp,
            version: Version::Resp2,
            login: Login::default(),
            limits: LoginLimits::default(),
            replica: None,
            last_step: Stamp::default(),
            subscriptions: Subscriptions::default(),
            place: ServicePlace::default(),
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
            asks: false,
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

    /// Sets its login.
    pub fn log_in(&mut self, login: Login, now: &VersionedUsers) {
        self.login = login;
        self.work_out_limits(now);
    }

    /// Takes over another session's user.
    pub fn clone_login(&mut self, other: &Session) {
        self.login = other.login.clone();
        self.limits = other
            .limits
            .with(LoginLimits::SUBSCRIBED, self.is_subscribed())
            .with(LoginLimits::REDIRECTED, self.can_redirect);
    }

    /// Looks its user up again, when the users have changed; false if the user is gone.
    pub fn renew_login(&mut self, now: &VersionedUsers) -> bool {
        let renewed = self.login.renew(now);
        self.work_out_limits(now);
        if let (UserRefresh::Changed(before), Some(user)) = (&renewed, self.login.user()) {
            self.has_fewer_channels |= !user.keeps_channels_of(before);
        }
        renewed != UserRefresh::Gone
    }

    fn work_out_limits(&mut self, now: &VersionedUsers) {
        let is_subscribed = self.is_subscribed();
        let limits = self.login.limits(now.users.default_user().is_open());
        self.limits = limits
            .with(LoginLimits::SUBSCRIBED, is_subscribed)
            .with(LoginLimits::REDIRECTED, self.can_redirect);
    }

    /// Its login.
    pub fn login(&self) -> &Login {
        &self.login
    }

    /// The name of its user.
    pub fn user_name(&self) -> &[u8] {
        self.login.user().map_or(DEFAULT_NAME, |user| user.name())
    }

    /// Whether it has authenticated, or needs not to.
    #[inline]
    pub fn is_authenticated(&self) -> bool {
        !self.limits.has(LoginLimits::LOCKED_OUT)
    }

    /// Whether it has given wrong passwords for which it has not waited yet.
    #[inline]
    pub fn is_unpunished(&self) -> bool {
        self.wrong_passwords != self.punished_passwords
    }

    /// Whether its user has rules.
    #[inline]
    pub fn has_rules(&self) -> bool {
        self.limits.has(LoginLimits::RULES)
    }

    /// Whether it has subscriptions: in RESP2 it may do little else.
    #[inline]
    pub fn is_subscribed(&self) -> bool {
        self.limits.has(LoginLimits::SUBSCRIBED)
    }

    /// Whether it follows redirections: CLIENT CAPA REDIRECT.
    pub fn can_redirect(&self) -> bool {
        self.can_redirect
    }

    /// Sets whether it follows redirections.
    pub fn set_can_redirect(&mut self, can_redirect: bool) {
        self.can_redirect = can_redirect;
        self.limits = self.limits.with(LoginLimits::REDIRECTED, can_redirect);
    }

    /// Whether it has no restriction: one look for the commands of most clients.
    #[inline]
    pub fn is_unrestricted(&self) -> bool {
        self.limits.is_none()
    }

    /// Whether it is a subscribed RESP2 connection, which may do little else.
    pub fn is_confined(&self) -> bool {
        self.is_subscribed() && self.version == Version::Resp2
    }

    /// Whether it is a replica of this server, or waits to become one.
    pub fn is_replica(&self) -> bool {
        self.replica.as_ref().is_some_and(|replica| replica.phase() != Phase::Greeting)
    }

    /// Sets the numbers of its subscriptions.
    pub fn set_subscriptions(&mut self, now: Subscriptions) {
        self.subscriptions = now;
        self.limits = self.limits.with(LoginLimits::SUBSCRIBED, now != Subscriptions::default());
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
