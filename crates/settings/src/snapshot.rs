//! CONFIG GET and CONFIG SET over a snapshot of the settings.
//!
//! Invariants
//! 1. `set` is all or nothing: it returns a new snapshot or an error, and the old one is unchanged.
//! 2. Names are checked before values, both in the given order, so the reported error is the one
//!    that Redis would report first.
//! 3. Inert values are stored only if they differ from their default.
//!
//! Not here: applying a changed setting (the server compares `changed`), the file (`rewrite`).
//! Tests: at the foot.

use crate::Settings;
use crate::field::{EvictionPolicy, Permission};
use crate::kind::{BoolStyle, ValueRefusal};
use crate::row::{self, ChangeTime, Row, RowFlags};
use pantala_base::{glob, limits};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

/// Why a value is refused that promises safety.
pub(crate) const UNKEPT: &str =
    "does nothing yet, and what this value promises would not hold; leave it at its default";

/// Why CONFIG SET changed nothing. Its text is the reply without the leading `ERR `.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetError {
    /// No setting has this name.
    Unknown(String),
    /// The setting of this name refuses to change, or refuses the value.
    Refused(String, ValueRefusal),
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => {
                write!(f, "Unknown option or number of arguments for CONFIG SET - '{name}'")
            }
            Self::Refused(name, why) => {
                write!(f, "CONFIG SET failed (possibly related to argument '{name}') - {}", why.0)
            }
        }
    }
}

impl std::error::Error for SetError {}

/// From where a client changes settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// This machine: a Unix socket or a loopback address.
    Local,
    /// Elsewhere.
    Remote,
}

/// What a cache without `maxmemory` uses, in percent of the memory there is.
const CACHE_PERCENT: u64 = 80;

/// The memory there is: the machine's, or what the control group has. Read once.
fn available_memory() -> u64 {
    static BYTES: OnceLock<u64> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let machine = limits::total_memory();
        limits::cgroup_memory_limit().map_or(machine, |group| group.min(machine))
    })
}

impl Settings {
    /// The present value of a setting, as CONFIG GET answers it.
    pub fn value(&self, row: &Row) -> String {
        match row.field {
            Some((read, _)) => read(self),
            None => self.inert.get(row.name).map_or(row.default, String::as_str).into(),
        }
    }

    /// Puts a canonical value into a setting.
    pub(crate) fn put(&mut self, row: &'static Row, canonical: String) {
        match row.field {
            Some((_, write)) => write(self, &canonical),
            None if canonical == row.default => {
                self.inert.remove(row.name);
            }
            None => {
                self.inert.insert(row.name, canonical);
            }
        }
    }

    /// CONFIG GET: names and values that any of the patterns matches, each name once.
    /// A pattern without wildcards is looked up and answered by the spelling it came in.
    pub fn get(&self, patterns: &[&str]) -> Vec<(String, String)> {
        let mut found = BTreeMap::new();
        for pattern in patterns {
            if glob::is_literal(pattern.as_bytes()) {
                if let Some(row) = row::find(pattern) {
                    found.insert(String::from(*pattern), self.value(row));
                }
                continue;
            }
            for row in row::rows().iter().filter(|row| !row.has(RowFlags::HIDDEN)) {
                for name in std::iter::once(&row.name).chain(row.also) {
                    if glob::matches(row::plain(pattern).as_bytes(), row::plain(name).as_bytes()) {
                        found.insert(String::from(*name), self.value(row));
                    }
                }
            }
        }
        found.into_iter().collect()
    }

    /// CONFIG SET: the snapshot with all the pairs applied, or the first trouble.
    pub fn set(&self, pairs: &[(&[u8], &[u8])], caller: Caller) -> Result<Self, SetError> {
        let mut chosen: Vec<(String, &'static Row)> = Vec::with_capacity(pairs.len());
        for (name, _) in pairs {
            let name = String::from_utf8_lossy(name).into_owned();
            let row = row::find(&name).ok_or_else(|| SetError::Unknown(name.clone()))?;
            if chosen.iter().any(|(earlier, _)| row::plain(earlier) == row::plain(&name)) {
                return Err(SetError::Refused(name, ValueRefusal::of("duplicate parameter")));
            }
            if let Some(why) = self.locked(row, caller) {
                return Err(SetError::Refused(name, why));
            }
            chosen.push((name, row));
        }
        let mut next = self.clone();
        for ((name, row), (_, value)) in chosen.into_iter().zip(pairs) {
            let canonical = next.judged(row, value).map_err(|why| SetError::Refused(name, why))?;
            next.put(row, canonical);
        }
        Ok(next)
    }

    fn judged(&self, row: &Row, value: &[u8]) -> Result<String, ValueRefusal> {
        let text = std::str::from_utf8(value)
            .map_err(|_| ValueRefusal::of("argument must be UTF-8 text"))?;
        let reading =
            if row.has(RowFlags::BEYOND_REDIS) { BoolStyle::Lenient } else { BoolStyle::Strict };
        let canonical = row.kind.canonical(text, &self.value(row), reading)?;
        if row.refuses(&canonical) {
            return Err(ValueRefusal(Cow::Owned(format!("'{}' {UNKEPT}", row.name))));
        }
        Ok(canonical)
    }

    fn locked(&self, row: &Row, caller: Caller) -> Option<ValueRefusal> {
        match (row.change, self.enable_protected_configs, caller) {
            (ChangeTime::Live, ..)
            | (ChangeTime::Protected, Permission::Yes, _)
            | (ChangeTime::Protected, Permission::Local, Caller::Local) => None,
            (ChangeTime::Start, ..) => Some(ValueRefusal::of("can't set immutable config")),
            (ChangeTime::Protected, ..) => Some(ValueRefusal::of("can't set protected config")),
        }
    }

    /// The settings whose values differ between two snapshots.
    pub fn changed(&self, other: &Self) -> Vec<&'static Row> {
        row::rows().iter().filter(|row| self.value(row) != other.value(row)).collect()
    }

    /// Sets one setting as a start would, for tests and tools: bounds are judged; locks and
    /// promises are not.
    pub fn with(mut self, name: &str, value: &str) -> Result<Self, SetError> {
        let row = row::find(name).ok_or_else(|| SetError::Unknown(name.into()))?;
        let canonical = row
            .kind
            .canonical(value, &self.value(row), BoolStyle::Lenient)
            .map_err(|why| SetError::Refused(name.into(), why))?;
        self.put(row, canonical);
        Ok(self)
    }

    /// What happens when a write would exceed the limit: in cache mode always an eviction, and one
    /// by recency may take the place of one by frequency (`pantala_engine`, `eviction`).
    pub fn eviction_policy(&self) -> EvictionPolicy {
        match self.maxmemory_policy {
            EvictionPolicy::NoEviction if self.cache_mode => EvictionPolicy::AllkeysLfu,
            policy => policy,
        }
    }

    /// Whether the policy is one that counts how often a key is used.
    pub fn counts_uses(&self) -> bool {
        matches!(self.eviction_policy(), EvictionPolicy::AllkeysLfu | EvictionPolicy::VolatileLfu)
    }

    /// How many logical databases there are.
    pub fn database_count(&self) -> u32 {
        if self.cluster_enabled { self.cluster_databases } else { self.databases }
    }

    /// The bytes that may be used, 0 without a limit: in cache mode there is always one.
    pub fn memory_limit(&self) -> u64 {
        match self.maxmemory {
            0 if self.cache_mode => available_memory() / 100 * CACHE_PERCENT,
            most => most,
        }
    }

    /// How many threads write and read snapshots: `snapshot_threads`, or one for each core.
    pub fn snapshot_thread_count(&self) -> usize {
        match self.snapshot_threads {
            0 => limits::available_cores(),
            threads => threads,
        }
    }

    /// How many worker threads to start: `threads`, or one for each core this process may use.
    pub fn worker_count(&self) -> usize {
        match self.threads {
            0 => limits::available_cores(),
            threads => threads,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::defaults()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(settings: &Settings, words: &[&str]) -> Result<Settings, String> {
        let pairs: Vec<(&[u8], &[u8])> =
            words.chunks(2).map(|pair| (pair[0].as_bytes(), pair[1].as_bytes())).collect();
        settings.set(&pairs, Caller::Local).map_err(|error| error.to_string())
    }

    fn check_refused(words: &[&str], want: &str) {
        assert_eq!(set(&Settings::defaults(), words), Err(want.into()), "{words:?}");
    }

    fn get(settings: &Settings, patterns: &[&str]) -> String {
        let pairs = settings.get(patterns);
        pairs.iter().map(|(name, value)| format!("{name}={value} ")).collect()
    }

    #[test]
    fn every_row_reads_what_it_wrote() {
        let defaults = Settings::defaults();
        for row in row::rows() {
            assert_eq!(defaults.value(row), row.default, "{}", row.name);
            let mut next = defaults.clone();
            next.put(row, defaults.value(row));
            assert_eq!(next, defaults, "{}", row.name);
        }
    }

    #[test]
    fn the_policy_says_whether_uses_are_counted() {
        let counts = |policy| {
            let settings = Settings::defaults().with("maxmemory-policy", policy);
            settings.map(|settings| settings.counts_uses())
        };
        assert_eq!((counts("allkeys-lfu"), counts("allkeys-lru")), (Ok(true), Ok(false)));
    }

    #[test]
    fn every_number_keeps_its_bounds() {
        use crate::kind::Kind;
        for row in row::rows() {
            let (Kind::Int(min, max) | Kind::IntOr(min, max, _)) = row.kind else { continue };
            for n in [min, max] {
                let next = Settings::defaults().with(row.name, &n.to_string());
                let value = next.map(|next| next.value(row));
                assert_eq!(value, Ok(n.to_string()), "{}: its field is too narrow", row.name);
            }
        }
    }

    #[test]
    fn get_knows_patterns_aliases_and_both_spellings() {
        let s = Settings::defaults();
        assert_eq!(get(&s, &["time*"]), "timeout=0 ");
        assert_eq!(get(&s, &["TIMEOUT"]), "TIMEOUT=0 ");
        assert_eq!(get(&s, &["[p]ort"]), "port=6379 ");
        assert_eq!(get(&s, &["port", "po*", "port"]), "port=6379 ");
        assert_eq!(get(&s, &["nosuch"]), "");
        assert_eq!(get(&s, &["slaveof"]), "slaveof= ");
        assert_eq!(get(&s, &["tcp_keepalive"]), "tcp_keepalive=300 ");
        assert_eq!(get(&s, &["dbnum"]), "dbnum=16 ");
        assert_eq!(
            get(&s, &["min-*"]),
            "min-replicas-max-lag=10 min-replicas-to-write=0 min-slaves-max-lag=10 \
             min-slaves-to-write=0 "
        );
        assert!(get(&s, &["*"]).contains("keys_output_limit=0 "));
    }

    #[test]
    fn set_changes_all_or_nothing() {
        let old = Settings::defaults();
        let new = set(&old, &["timeout", "5", "maxmemory", "1mb"]).unwrap();
        assert_eq!((new.timeout_s, new.maxmemory), (5, 1 << 20));
        assert_eq!(old.timeout_s, 0);
        let changed: Vec<&str> = old.changed(&new).iter().map(|row| row.name).collect();
        assert_eq!(changed, ["maxmemory", "timeout"]);
        check_refused(
            &["timeout", "9", "maxclients", "0"],
            "CONFIG SET failed (possibly related to argument 'maxclients') - argument must be \
             between 1 and 4294967295 inclusive",
        );
    }

    #[test]
    fn the_first_trouble_is_reported_names_first() {
        const LOCKED: &str = "CONFIG SET failed (possibly related to argument 'databases') - \
                              can't set immutable config";
        check_refused(
            &["NOSUCH", "1", "timeout", "x"],
            "Unknown option or number of arguments for CONFIG SET - 'NOSUCH'",
        );
        check_refused(
            &["timeout", "x", "nosuch", "1", "databases", "5"],
            "Unknown option or number of arguments for CONFIG SET - 'nosuch'",
        );
        check_refused(&["databases", "5", "nosuch", "x"], LOCKED);
        check_refused(
            &["timeout", "x", "timeout", "y"],
            "CONFIG SET failed (possibly related to argument 'timeout') - duplicate parameter",
        );
        check_refused(
            &["lfu-log-factor", "x", "timeout", "y"],
            "CONFIG SET failed (possibly related to argument 'lfu-log-factor') - argument \
             couldn't be parsed into an integer",
        );
    }

    #[test]
    fn an_alias_beside_its_name_is_no_duplicate() {
        let s = set(
            &Settings::defaults(),
            &["slowlog-log-slower-than", "3", "commandlog-execution-slower-than", "4"],
        );
        assert_eq!(s.unwrap().commandlog_execution_slower_than_us, 4);
    }

    #[test]
    fn what_promises_safety_and_does_nothing_is_refused() {
        let own = "tls-cluster";
        assert!(set(&Settings::defaults(), &[own, "no"]).is_ok());
        check_refused(
            &["timeout", "1", own, "yes"],
            &format!(
                "CONFIG SET failed (possibly related to argument '{own}') - '{own}' does nothing \
                 yet, and what this value promises would not hold; leave it at its default"
            ),
        );
    }

    #[test]
    fn protected_settings_ask_who_calls() {
        const WHY: &str =
            "CONFIG SET failed (possibly related to argument 'dir') - can't set protected config";
        check_refused(&["dir", "/"], WHY);
        let open = Settings::defaults().with("enable-protected-configs", "local").unwrap();
        assert_eq!(set(&open, &["dir", "/"]).unwrap().dir, "/");
        let pairs: &[(&[u8], &[u8])] = &[(b"dir", b"/")];
        assert_eq!(open.set(pairs, Caller::Remote).map_err(|e| e.to_string()), Err(WHY.into()));
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_not_fatal() {
        let pairs: &[(&[u8], &[u8])] = &[(b"requirepass", b"\xff")];
        assert!(Settings::defaults().set(pairs, Caller::Local).is_err());
        let pairs: &[(&[u8], &[u8])] = &[(b"\xff", b"x")];
        assert!(Settings::defaults().set(pairs, Caller::Local).is_err());
    }

    #[test]
    fn inert_values_are_kept_and_amended() {
        let s = set(&Settings::defaults(), &["hz", "20", "slave-priority", "7"]).unwrap();
        assert_eq!(get(&s, &["hz", "replica-priority"]), "hz=20 replica-priority=7 ");
        let s = set(&s, &["hz", "10"]).unwrap();
        assert!(!s.inert.contains_key("hz"));
        let s = set(&s, &["client-output-buffer-limit", "pubsub 1 2 3"]).unwrap();
        assert_eq!(s.client_output_buffer_limit.pubsub.soft_s, 3);
        assert_eq!(s.client_output_buffer_limit.replica.hard_bytes, 268_435_456);
    }
}
