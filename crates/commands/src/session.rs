//! What the server remembers of one connection between two commands.

use pantala_keyspace::DbIndex;
use pantala_protocol::Version;

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
}

/// See the module. Cloned to the slow lane with a command and copied back after it.
#[derive(Clone, Debug)]
pub struct Session {
    /// The client's number, for CLIENT ID; never used twice.
    pub id: u64,
    /// The selected database.
    pub db: DbIndex,
    /// The protocol of replies.
    pub version: Version,
    /// Whether AUTH succeeded, or no password is asked.
    pub authenticated: bool,
    /// CLIENT SETNAME.
    pub name: Vec<u8>,
    /// CLIENT SETINFO LIB-NAME.
    pub lib_name: Vec<u8>,
    /// CLIENT SETINFO LIB-VER.
    pub lib_version: Vec<u8>,
    /// CLIENT REPLY.
    pub reply_mode: ReplyMode,
    /// CLIENT NO-TOUCH is on.
    pub no_touch: bool,
    /// CLIENT NO-EVICT is on.
    pub no_evict: bool,
    /// CLIENT CAPA REDIRECT.
    pub can_redirect: bool,
    /// MONITOR: this connection is shown every command.
    pub monitor: bool,
    /// The connection is to be closed once the replies so far are sent.
    pub closing: bool,
    /// The peer, as CLIENT LIST writes it.
    pub peer: String,
    /// Our end of the connection.
    pub local: String,
    /// When it was accepted (monotonic, microseconds).
    pub since_us: u64,
}

impl Session {
    /// A session as it begins, and as RESET makes it again.
    pub fn new(id: u64, authenticated: bool) -> Self {
        Session {
            id,
            db: DbIndex(0),
            version: Version::Resp2,
            authenticated,
            name: Vec::new(),
            lib_name: Vec::new(),
            lib_version: Vec::new(),
            reply_mode: ReplyMode::On,
            no_touch: false,
            no_evict: false,
            can_redirect: false,
            monitor: false,
            closing: false,
            peer: String::new(),
            local: String::new(),
            since_us: 0,
        }
    }
}
