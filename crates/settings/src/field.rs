//! Typed forms of the active settings: what the server reads, and their conversion to text.
//!
//! Invariants
//! 1. `read` gets canonical text only; impossible text reads as a default, not as a panic.
//! 2. `read(write(x)) == x`.
//!
//! Not here: validating text (`kind`, `shapes`). Tests: `snapshot` reads and writes every row.

use crate::shapes;

/// A type that a setting can have.
pub trait Field {
    /// The value that canonical `text` stands for.
    fn read(text: &str) -> Self;
    /// Canonical text of the value.
    fn write(&self) -> String;
}

macro_rules! numbers {
    ($($number:ty),+) => {$(
        impl Field for $number {
            fn read(text: &str) -> Self {
                text.parse().unwrap_or_default()
            }
            fn write(&self) -> String {
                self.to_string()
            }
        }
    )+};
}
numbers!(u16, u32, u64, usize, i64, String);

impl Field for bool {
    fn read(text: &str) -> Self {
        text == "yes"
    }
    fn write(&self) -> String {
        String::from(if *self { "yes" } else { "no" })
    }
}

impl Field for Vec<String> {
    fn read(text: &str) -> Self {
        text.split(' ').filter(|word| !word.is_empty()).map(String::from).collect()
    }
    fn write(&self) -> String {
        self.join(" ")
    }
}

/// Bytes, or a share of `maxmemory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryShare {
    /// This many bytes; 0: no limit.
    Bytes(u64),
    /// This many hundredths.
    Percent(u64),
}

impl MemoryShare {
    /// In bytes; a share of no limit is no limit.
    pub fn bytes(self, maxmemory: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => maxmemory / 100 * percent,
        }
    }
}

impl Field for MemoryShare {
    fn read(text: &str) -> Self {
        match text.strip_suffix('%') {
            Some(percent) => Self::Percent(u64::read(percent)),
            None => Self::Bytes(u64::read(text)),
        }
    }
    fn write(&self) -> String {
        match self {
            Self::Bytes(bytes) => bytes.write(),
            Self::Percent(percent) => format!("{percent}%"),
        }
    }
}

/// A snapshot is taken after so long if so much has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavePoint {
    /// Since the last one.
    pub seconds: u32,
    /// Since the last one.
    pub changes: u32,
}

/// When snapshots are taken by themselves; any of these will do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavePoints(pub Vec<SavePoint>);

impl Field for SavePoints {
    fn read(text: &str) -> Self {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let points = words.chunks_exact(2);
        Self(
            points
                .map(|p| SavePoint { seconds: u32::read(p[0]), changes: u32::read(p[1]) })
                .collect(),
        )
    }
    fn write(&self) -> String {
        let texts: Vec<String> =
            self.0.iter().map(|point| format!("{} {}", point.seconds, point.changes)).collect();
        texts.join(" ")
    }
}

/// By which the kernel chooses whom to end when memory runs out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OomScores {
    /// Of a primary.
    pub primary: i32,
    /// Of a replica.
    pub replica: i32,
    /// Of a process that saves.
    pub saving: i32,
}

impl Field for OomScores {
    fn read(text: &str) -> Self {
        let mut scores = text.split(' ').map(|word| word.parse().unwrap_or_default());
        let mut next = || scores.next().unwrap_or_default();
        Self { primary: next(), replica: next(), saving: next() }
    }
    fn write(&self) -> String {
        format!("{} {} {}", self.primary, self.replica, self.saving)
    }
}

/// How a signal shuts the server down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownWords {
    chosen: [bool; shapes::SHUTDOWN_WORDS.len()],
}

impl ShutdownWords {
    fn has(self, word: &str) -> bool {
        let at = shapes::SHUTDOWN_WORDS.iter().position(|known| *known == word);
        at.is_some_and(|at| self.chosen[at])
    }

    /// Whether to save; `None`: if there are save points.
    pub fn saves(self) -> Option<bool> {
        match (self.has("save"), self.has("nosave")) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    /// Whether to end also where saving fails.
    pub fn is_forced(self) -> bool {
        self.has("force")
    }

    /// Whether replicas are not waited for.
    pub fn is_now(self) -> bool {
        self.has("now")
    }
}

impl Field for ShutdownWords {
    fn read(text: &str) -> Self {
        let mut words = Self::default();
        for (chosen, word) in words.chosen.iter_mut().zip(shapes::SHUTDOWN_WORDS) {
            *chosen = word != "default" && text.split(' ').any(|given| given == word);
        }
        words
    }
    fn write(&self) -> String {
        let chosen = shapes::SHUTDOWN_WORDS.iter().zip(self.chosen).filter(|(_, chosen)| *chosen);
        let words: Vec<&str> = chosen.map(|(word, _)| *word).collect();
        if words.is_empty() { "default".into() } else { words.join(" ") }
    }
}

/// Permission bits of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode(pub u32);

impl Field for Mode {
    fn read(text: &str) -> Self {
        Self(u32::from_str_radix(text, 8).unwrap_or(0))
    }
    fn write(&self) -> String {
        format!("{:o}", self.0)
    }
}

/// When a client's unsent replies cost it the connection. 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputLimit {
    /// Above this the connection is closed at once.
    pub hard_bytes: u64,
    /// Above this for `soft_s` seconds the connection is closed.
    pub soft_bytes: u64,
    /// How long `soft_bytes` may be exceeded.
    pub soft_s: u32,
}

impl OutputLimit {
    /// `hard_bytes`, as a length.
    pub fn most_bytes(&self) -> usize {
        match self.hard_bytes {
            0 => usize::MAX,
            most => usize::try_from(most).unwrap_or(usize::MAX),
        }
    }
}

/// Limits of the three classes of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputLimits {
    /// Ordinary clients, MONITOR included.
    pub normal: OutputLimit,
    /// Replicas.
    pub replica: OutputLimit,
    /// Clients with a subscription.
    pub pubsub: OutputLimit,
}

impl Field for OutputLimits {
    fn read(text: &str) -> Self {
        let words: Vec<&str> = text.split(' ').collect();
        let number = |i: usize| words.get(i).map_or(0, |word| u64::read(word));
        let limit = |class: usize| OutputLimit {
            hard_bytes: number(class * 4 + 1),
            soft_bytes: number(class * 4 + 2),
            soft_s: u32::try_from(number(class * 4 + 3)).unwrap_or(u32::MAX),
        };
        Self { normal: limit(0), replica: limit(1), pubsub: limit(2) }
    }

    fn write(&self) -> String {
        let classes = shapes::OUTPUT_CLASSES.iter().zip([self.normal, self.replica, self.pubsub]);
        let texts: Vec<String> = classes
            .map(|(class, l)| format!("{class} {} {} {}", l.hard_bytes, l.soft_bytes, l.soft_s))
            .collect();
        texts.join(" ")
    }
}

/// Percentiles from 0 to 100, in the order given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Percentiles(pub Vec<f64>);

impl Field for Percentiles {
    fn read(text: &str) -> Self {
        Self(text.split(' ').filter_map(|word| word.parse().ok()).collect())
    }
    fn write(&self) -> String {
        let texts: Vec<String> = self.0.iter().map(|&p| shapes::percentile_text(p)).collect();
        texts.join(" ")
    }
}

/// Declares an enum whose values are words: the words stand once, here.
macro_rules! words {
    ($($(#[$about:meta])* $name:ident {
        $($(#[$of:meta])* $value:ident = $word:literal,)+
    })+) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$of])* $value,)+
        }

        impl $name {
            /// Every word, in the order in which a refusal lists them.
            pub const WORDS: &'static [&'static str] = &[$($word),+];
            const VALUES: &'static [Self] = &[$(Self::$value),+];

            /// Its word.
            pub fn word(self) -> &'static str {
                Self::WORDS[self as usize]
            }
        }

        impl Field for $name {
            fn read(text: &str) -> Self {
                let index = Self::WORDS.iter().position(|word| *word == text);
                Self::VALUES[index.unwrap_or(0)]
            }
            fn write(&self) -> String {
                Self::WORDS[*self as usize].into()
            }
        }
    )+};
}

words! {
    /// Whether clients of a cluster are served.
    ClusterMode {
        /// They are not: this is a server by itself.
        Off = "",
        /// As by a cluster of one node that owns every slot.
        Emulated = "emulated",
    }

    /// How a node is named to clients of a cluster.
    EndpointType {
        /// By its address.
        Ip = "ip",
        /// By its host name.
        Hostname = "hostname",
        /// Not at all: the client goes on with the address that it has.
        Unknown = "unknown-endpoint",
    }

    /// What moves bytes between sockets and memory.
    IoEngine {
        /// io_uring where the kernel allows it, else epoll.
        Auto = "auto",
        /// io_uring or nothing.
        Uring = "uring",
        /// epoll.
        Epoll = "epoll",
    }

    /// Whether a port is shared with clients of another protocol.
    PortSharing {
        /// It is not.
        No = "no",
        /// With those whose first bytes can be nothing else.
        Clear = "clear",
        /// Also with those whose first bytes may be either.
        Yes = "yes",
    }

    /// Which channels a new user may use.
    ChannelDefault {
        /// All.
        All = "allchannels",
        /// None.
        None = "resetchannels",
    }

    /// When the append-only file is synced to disk.
    AppendSync {
        /// Once a second.
        EverySecond = "everysec",
        /// Before a write is answered.
        Always = "always",
        /// When the system likes.
        Never = "no",
    }

    /// Whether what a full copy sends over several connections is compressed.
    CopyCompression {
        /// While the network is slower than what is sent, and it gets smaller.
        Auto = "auto",
        /// Wherever it gets smaller.
        Yes = "yes",
        /// Never.
        No = "no",
    }

    /// What a command does that fails as a primary, or an append-only file, repeats it.
    PropagationErrors {
        /// It is counted and logged.
        Ignore = "ignore",
        /// The link to the primary, or the start from a file, ends.
        Panic = "panic",
        /// The link to the primary ends.
        PanicOnReplicas = "panic-on-replicas",
    }

    /// Whether a replica loads a full copy straight from the socket.
    DisklessLoad {
        /// It is written to a file first; the old data is served until that is whole.
        Disabled = "disabled",
        /// Only if there is no data.
        OnEmpty = "on-empty-db",
        /// Beside the old data, which is served meanwhile.
        Swap = "swapdb",
        /// The old data goes first.
        Flush = "flush-before-load",
    }

    /// Least important lines that are logged.
    LogLevel {
        /// Everything.
        Debug = "debug",
        /// Much.
        Verbose = "verbose",
        /// What an operator wants to know.
        Notice = "notice",
        /// What needs attention.
        Warning = "warning",
        /// Nothing.
        Nothing = "nothing",
    }

    /// Form of log lines.
    LogFormat {
        /// That of Redis and Valkey.
        Legacy = "legacy",
        /// Names and values.
        Logfmt = "logfmt",
        /// An object of JSON.
        Json = "json",
    }

    /// Form of times in the log.
    LogTimes {
        /// That of Redis and Valkey, in local time.
        Legacy = "legacy",
        /// ISO 8601, with the distance from UTC.
        Iso8601 = "iso8601",
        /// Milliseconds since 1970.
        Milliseconds = "milliseconds",
    }

    /// Who speaks in the system log.
    Facility {
        /// Programs of users.
        User = "user",
        /// Free for the site.
        Local0 = "local0",
        /// Free for the site.
        Local1 = "local1",
        /// Free for the site.
        Local2 = "local2",
        /// Free for the site.
        Local3 = "local3",
        /// Free for the site.
        Local4 = "local4",
        /// Free for the site.
        Local5 = "local5",
        /// Free for the site.
        Local6 = "local6",
        /// Free for the site.
        Local7 = "local7",
    }

    /// Who may use a guarded command.
    Permission {
        /// Nobody.
        No = "no",
        /// Everybody.
        Yes = "yes",
        /// Connections from this machine.
        Local = "local",
    }

    /// The service manager that is told how the server is.
    Supervised {
        /// upstart.
        Upstart = "upstart",
        /// systemd.
        Systemd = "systemd",
        /// The one that has set its variables.
        Auto = "auto",
        /// None.
        No = "no",
    }

    /// What is done with the score by which the kernel chooses whom to end.
    OomScoreAdj {
        /// Nothing.
        No = "no",
        /// The values of the settings are added to the one that it was.
        Relative = "yes",
        /// It is what the settings say.
        Absolute = "absolute",
    }

    /// What a template of the process's title may name.
    TitleVariable {
        /// The program.
        Title = "title",
        /// The first address and port, or the Unix socket.
        ListenAddr = "listen-addr",
        /// A mode other than the usual one.
        ServerMode = "server-mode",
        /// The port.
        Port = "port",
        /// The port with TLS.
        TlsPort = "tls-port",
        /// The path of the Unix socket.
        UnixSocket = "unixsocket",
        /// The configuration file.
        ConfigFile = "config-file",
    }

    /// Whether clients show a certificate.
    TlsClients {
        /// They are not asked.
        No = "no",
        /// They must.
        Yes = "yes",
        /// They may.
        Optional = "optional",
    }

    /// The field of a client's certificate that names its user.
    TlsUserField {
        /// The common name of its subject.
        CommonName = "CN",
        /// A URI of its alternative names.
        Uri = "URI",
        /// None: certificates name nobody.
        Off = "off",
    }

    /// Which versions of the format of snapshots and payloads are taken.
    VersionCheck {
        /// Those that are known.
        Strict = "strict",
        /// All.
        Relaxed = "relaxed",
    }

    /// What happens when a write would exceed `maxmemory`.
    EvictionPolicy {
        /// Evict among keys with a deadline, least recently used first.
        VolatileLru = "volatile-lru",
        /// Evict among keys with a deadline, least frequently used first.
        VolatileLfu = "volatile-lfu",
        /// Evict any key with a deadline.
        VolatileRandom = "volatile-random",
        /// Evict the key whose deadline is nearest.
        VolatileTtl = "volatile-ttl",
        /// Evict among all keys, least recently used first.
        AllkeysLru = "allkeys-lru",
        /// Evict among all keys, least frequently used first.
        AllkeysLfu = "allkeys-lfu",
        /// Evict any key.
        AllkeysRandom = "allkeys-random",
        /// Refuse the write.
        NoEviction = "noeviction",
    }
}
