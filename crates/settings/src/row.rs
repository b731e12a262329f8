//! The row of a setting: everything about it, declared once. Parsers, CONFIG, help and the
//! documentation page derive from rows.
//!
//! Invariants
//! 1. Every name and alias, with `_` and `-` equal, belongs to one row.
//! 2. A row's default is canonical text of its kind.
//!
//! Not here: the rows themselves (`active`, `inert`, `dragonfly`). Tests: at the foot.

use crate::kind::{BoolStyle, Kind};
use crate::{Settings, active, dragonfly, inert};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// When a setting may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeTime {
    /// At start and by CONFIG SET.
    Live,
    /// At start only.
    Start,
    /// At start, and by CONFIG SET where `enable-protected-configs` lets the caller.
    Protected,
}

/// Whether anything acts on a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingEffect {
    /// The server acts on it.
    Active,
    /// Accepted and kept, so that files load and CONFIG GET answers; nothing acts on it yet.
    Inert,
}

/// What becomes of a setting that another server has with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CarryRule {
    /// It is the default.
    Default,
    /// It acts, in this canonical form.
    Acts(String),
    /// It is kept, and nothing acts on it.
    Idle,
    /// The start is refused: it promises what nothing keeps yet.
    Refused,
    /// The start is refused: the setting does not allow it, for this reason.
    Invalid(String),
}

/// What the change of a setting means to the server, which reacts to it
/// (`pantala_operator::config::reactions`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnChange {
    /// Nothing: its readers look at the settings in force each time.
    Nothing,
    /// The log has another level or form.
    LogLevel,
    /// The default user has another password.
    Password,
    /// The logs of slow and large commands, and LATENCY's, have other thresholds and lengths.
    Logs,
    /// Interpreters have another limit of memory.
    Scripts,
    /// Other changes of keys are published.
    Events,
    /// Keys that have expired are hidden, or removed.
    Expiry,
    /// There may be too much in memory now.
    Memory,
    /// Other keys are evicted than before, if any.
    Policy,
    /// Replicas, or this one as a replica, may do other things than before.
    Replication,
    /// Other commands run at this node of a cluster, or clients are told other addresses.
    Cluster,
    /// Snapshots are taken at other times, or a failed one means something else.
    Saving,
    /// The process is called otherwise.
    Title,
    /// The kernel may end the process more readily than before, or less; it may refuse that.
    OomScore,
    /// An append-only file is begun, or written no more.
    AppendOnly,
    /// Certificates, or what is spoken with TLS, are others. Files are read, which may fail.
    Tls,
    /// Ports or addresses are others: what is not open yet is opened, which may fail.
    Listeners,
    /// Accepting is tried again: there may be room for more clients.
    Clients,
    /// Workers are started or stopped. It takes a while, and may fail.
    Workers,
}

/// Chapters of the help text and of the documentation page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingGroup {
    /// Listening, connections and their limits.
    Network,
    /// Threads and the event loop.
    Threads,
    /// Memory, eviction, expiry.
    Memory,
    /// Passwords and permissions.
    Security,
    /// Logs, slow commands, latency.
    Observe,
    /// The process and its files.
    Process,
    /// Limits of commands and scripts.
    Commands,
    /// Snapshots and the append-only file.
    Persistence,
    /// Leaders and followers.
    Replication,
    /// Cluster mode.
    Cluster,
    /// Encrypted connections.
    Tls,
    /// Sizes at which collections change their encoding.
    Encodings,
}

impl SettingGroup {
    /// Every group in the order of the documentation.
    pub const ALL: [Self; 12] = [
        Self::Network,
        Self::Threads,
        Self::Memory,
        Self::Security,
        Self::Observe,
        Self::Process,
        Self::Commands,
        Self::Persistence,
        Self::Replication,
        Self::Cluster,
        Self::Tls,
        Self::Encodings,
    ];

    /// The heading of the chapter.
    pub fn title(self) -> &'static str {
        match self {
            Self::Network => "Network and connections",
            Self::Threads => "Threads",
            Self::Memory => "Memory, eviction, expiry",
            Self::Security => "Security",
            Self::Observe => "Logs and latency",
            Self::Process => "Process and files",
            Self::Commands => "Commands and scripts",
            Self::Persistence => "Snapshots and append-only file",
            Self::Replication => "Replication",
            Self::Cluster => "Cluster",
            Self::Tls => "TLS",
            Self::Encodings => "Encodings of collections",
        }
    }
}

/// Whether a canonical value would promise safety that nothing keeps.
pub(crate) type Promise = fn(&str) -> bool;
/// Reads a typed field as canonical text.
pub(crate) type Read = fn(&Settings) -> String;
/// Puts canonical text into a typed field.
pub(crate) type Write = fn(&mut Settings, &str);

bitflags::bitflags! {
    /// What holds for some settings.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RowFlags: u8 {
        /// Several mentions in one source are strung together instead of the last one winning.
        const ACCUMULATES = 1;
        /// Redis has no such setting.
        const BEYOND_REDIS = 1 << 1;
        /// Logs and MONITOR do not show its value.
        const SECRET = 1 << 2;
        /// For tests: lists leave it out.
        const HIDDEN = 1 << 3;
        /// CONFIG SET refuses it while data is loaded.
        const FIXED_WHILE_LOADING = 1 << 4;
    }
}

/// One setting.
#[derive(Clone, Debug)]
pub struct Row {
    /// The name CONFIG GET answers by: Redis's spelling, or Dragonfly's for settings Redis lacks.
    pub name: &'static str,
    /// Names that CONFIG GET lists beside `name`, as Redis does for its old names.
    pub also: &'static [&'static str],
    /// Names that are understood everywhere but not listed.
    pub understood: &'static [&'static str],
    /// What it may hold.
    pub kind: Kind,
    /// Canonical text of the default.
    pub default: &'static str,
    /// When it may change.
    pub change: ChangeTime,
    /// Whether anything acts on it.
    pub effect: SettingEffect,
    /// Its chapter.
    pub group: SettingGroup,
    /// One line about it.
    pub doc: &'static str,
    /// What else holds for it.
    pub flags: RowFlags,
    /// What its change means to the server.
    pub on_change: OnChange,
    /// Nothing acts on it, and some of its values promise safety (durability, encryption, access
    /// only for some): a start and CONFIG SET refuse those. See [`Row::refuses`].
    pub(crate) promise: Option<Promise>,
    pub(crate) field: Option<(Read, Write)>,
}

impl Row {
    const fn new(
        change: ChangeTime,
        name: &'static str,
        kind: Kind,
        default: &'static str,
        group: SettingGroup,
    ) -> Self {
        Self {
            name,
            also: &[],
            understood: &[],
            kind,
            default,
            change,
            effect: SettingEffect::Inert,
            group,
            doc: "",
            flags: RowFlags::empty(),
            on_change: OnChange::Nothing,
            promise: None,
            field: None,
        }
    }

    pub(crate) const fn also(mut self, names: &'static [&'static str]) -> Self {
        self.also = names;
        self
    }

    pub(crate) const fn understood(mut self, names: &'static [&'static str]) -> Self {
        self.understood = names;
        self
    }

    pub(crate) const fn doc(mut self, doc: &'static str) -> Self {
        self.doc = doc.trim_ascii();
        self
    }

    pub(crate) const fn accumulates(self) -> Self {
        self.flagged(RowFlags::ACCUMULATES)
    }

    pub(crate) const fn beyond_redis(self) -> Self {
        self.flagged(RowFlags::BEYOND_REDIS)
    }

    pub(crate) const fn secret(self) -> Self {
        self.flagged(RowFlags::SECRET)
    }

    pub(crate) const fn hidden(self) -> Self {
        self.flagged(RowFlags::HIDDEN)
    }

    pub(crate) const fn fixed_while_loading(self) -> Self {
        self.flagged(RowFlags::FIXED_WHILE_LOADING)
    }

    const fn flagged(mut self, flag: RowFlags) -> Self {
        self.flags = self.flags.union(flag);
        self
    }

    /// Whether this holds for the setting.
    pub fn has(&self, flag: RowFlags) -> bool {
        self.flags.contains(flag)
    }

    pub(crate) const fn on_change(mut self, on_change: OnChange) -> Self {
        self.on_change = on_change;
        self
    }

    /// Every value but the default promises safety, and nothing keeps the promise yet.
    pub(crate) const fn refused(self) -> Self {
        self.refused_where(|_| true)
    }

    /// Values for which `promise` holds promise safety, and nothing keeps the promise yet.
    pub(crate) const fn refused_where(mut self, promise: Promise) -> Self {
        self.promise = Some(promise);
        self
    }

    /// Whether this canonical value is refused, for what it promises. The default never is.
    pub(crate) fn refuses(&self, canonical: &str) -> bool {
        canonical != self.default && self.promise.is_some_and(|promise| promise(canonical))
    }

    /// What a start here would make of another server's value.
    pub fn carried(&self, value: &str) -> CarryRule {
        match self.kind.canonical(value, self.default, BoolStyle::Lenient) {
            Err(why) => CarryRule::Invalid(why.0.into_owned()),
            Ok(canonical) if canonical == self.default => CarryRule::Default,
            Ok(canonical) if self.refuses(&canonical) => CarryRule::Refused,
            Ok(_) if self.effect == SettingEffect::Inert => CarryRule::Idle,
            Ok(canonical) => CarryRule::Acts(canonical),
        }
    }

    pub(crate) const fn acting(mut self, read: Read, write: Write) -> Self {
        self.effect = SettingEffect::Active;
        self.field = Some((read, write));
        self
    }
}

/// A row that CONFIG SET may change.
pub(crate) const fn live(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    of: SettingGroup,
) -> Row {
    Row::new(ChangeTime::Live, name, kind, default, of)
}

/// A row that only a start may change.
pub(crate) const fn start(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    of: SettingGroup,
) -> Row {
    Row::new(ChangeTime::Start, name, kind, default, of)
}

/// A row that CONFIG SET may change where `enable-protected-configs` says so.
pub(crate) const fn protected(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    of: SettingGroup,
) -> Row {
    Row::new(ChangeTime::Protected, name, kind, default, of)
}

/// A flag that sets another setting to a word.
pub(crate) struct Switch {
    pub name: &'static str,
    pub target: &'static str,
    pub on: &'static str,
    pub off: &'static str,
}

/// Dragonfly's flags that are one choice of a setting of ours.
pub(crate) const SWITCHES: [Switch; 1] =
    [Switch { name: "force_epoll", target: "io_engine", on: "epoll", off: "auto" }];

/// Every setting, by name.
pub fn rows() -> &'static [Row] {
    static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
        let mut all = active::ROWS.to_vec();
        all.extend_from_slice(inert::ROWS);
        all.extend_from_slice(dragonfly::ROWS);
        all.sort_by_key(|row| row.name);
        all
    });
    &ROWS
}

/// The spelling under which names are compared: lower case, `-` for `_`.
pub(crate) fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

/// Every name that is understood, in plain spelling.
pub(crate) fn names() -> &'static BTreeMap<String, &'static Row> {
    static NAMES: LazyLock<BTreeMap<String, &'static Row>> = LazyLock::new(|| {
        let of_row = |row: &'static Row| {
            let others = row.also.iter().chain(row.understood);
            std::iter::once(&row.name).chain(others).map(move |name| (plain(name), row))
        };
        rows().iter().flat_map(of_row).collect()
    });
    &NAMES
}

/// The setting of that name or alias; case, `-` and `_` do not matter.
pub fn find(name: &str) -> Option<&'static Row> {
    names().get(&plain(name)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_belongs_to_one_row() {
        let of_row = |row: &Row| 1 + row.also.len() + row.understood.len();
        // `-` and `_` twins, as in aof_rewrite_cpulist, count once.
        let twins = |row: &Row| row.also.iter().filter(|n| plain(n) == plain(row.name)).count();
        let declared: usize = rows().iter().map(|row| of_row(row) - twins(row)).sum();
        assert_eq!(names().len(), declared);
        for switch in &SWITCHES {
            assert!(find(switch.name).is_none());
            assert!(find(switch.target).is_some());
        }
    }

    #[test]
    fn defaults_are_canonical() {
        for row in rows() {
            let canonical = row.kind.canonical(row.default, row.default, BoolStyle::Strict);
            assert_eq!(canonical.as_deref(), Ok(row.default), "{}", row.name);
        }
    }

    #[test]
    fn only_what_nothing_acts_on_is_refused() {
        for row in rows() {
            assert!(row.promise.is_none() || row.effect == SettingEffect::Inert, "{}", row.name);
            assert!(!row.refuses(row.default), "{}", row.name);
        }
    }

    #[test]
    fn it_is_known_what_becomes_of_a_value() {
        let carried = |name, value| find(name).expect("there is one").carried(value);
        assert_eq!(carried("maxmemory", "0"), CarryRule::Default);
        assert_eq!(carried("maxmemory", "1gb"), CarryRule::Acts("1073741824".into()));
        assert_eq!(carried("io-threads", "4"), CarryRule::Idle);
        assert_eq!(carried("tls-cluster", "yes"), CarryRule::Refused);
        assert!(matches!(carried("maxmemory-policy", "lrx"), CarryRule::Invalid(_)));
    }

    #[test]
    fn passwords_are_secret() {
        for row in rows() {
            let words = ["pass", "auth", "password"];
            let is_named_so = words.iter().any(|word| row.name.ends_with(word));
            let is_password = is_named_so && matches!(row.kind, Kind::Text);
            // A header may be a password.
            // So is the name of a user to Valkey.
            let is_secret = is_password || ["otlp_headers", "primaryuser"].contains(&row.name);
            assert_eq!(row.has(RowFlags::SECRET), is_secret, "{}", row.name);
        }
        assert!(find("masterauth").is_some_and(|row| row.has(RowFlags::SECRET)));
    }

    #[test]
    fn what_is_done_on_a_change_can_be_asked_for() {
        for row in rows().iter().filter(|row| row.on_change != OnChange::Nothing) {
            let is_live = row.change == ChangeTime::Live && row.effect == SettingEffect::Active;
            assert!(is_live, "{}", row.name);
        }
    }

    #[test]
    fn every_row_says_what_it_is() {
        for row in rows() {
            assert!(row.doc.len() > 8 && row.doc.ends_with('.'), "{}: {:?}", row.name, row.doc);
            assert!(row.doc.len() < 160, "{}: one line", row.name);
        }
    }
}
