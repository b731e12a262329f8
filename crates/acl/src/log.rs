//! ACL LOG: which accesses were denied, and the counts that INFO shows.
//!
//! 1. A refusal like one of the [`SCANNED`] newest entries, less than [`GROUPED_MS`] after it, is
//!    counted there; the entry moves to the front and keeps its number.
//! 2. The log never holds more entries than the limit of the last call, and no entry keeps more
//!    than [`TEXT_BYTES`] of what a client has sent: a key may be as long as a value.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

/// An entry absorbs similar refusals within this time.
pub const GROUPED_MS: i64 = 60_000;
/// How many entries are searched for a similar one.
pub const SCANNED: usize = 10;
/// How much of a key, a channel or a name is kept, in bytes.
pub const TEXT_BYTES: usize = 1024;

/// The kind of object that was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// A command.
    Command,
    /// A key.
    Key,
    /// A channel.
    Channel,
    /// A database.
    Database,
    /// A failed authentication.
    Auth,
    /// A failed authentication by a client certificate.
    TlsCert,
}

impl Reason {
    /// All reasons with their names in the log and in INFO, in INFO's order.
    pub const ALL: [(Reason, &'static str, &'static str); 6] = [
        (Reason::Auth, "auth", "auth"),
        (Reason::Command, "command", "cmd"),
        (Reason::Key, "key", "key"),
        (Reason::Channel, "channel", "channel"),
        (Reason::TlsCert, "tls-cert", "tls_cert"),
        (Reason::Database, "database", "db"),
    ];

    /// The name in the log.
    pub fn name(self) -> &'static str {
        let found = Reason::ALL.iter().find(|(reason, ..)| *reason == self);
        found.map_or("", |(_, name, _)| name)
    }
}

/// The context of a denied command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// A command sent by a client.
    TopLevel,
    /// A command of a transaction.
    Multi,
    /// A command of a script or a function.
    Script,
}

impl Context {
    /// The name in the log.
    pub fn name(self) -> &'static str {
        match self {
            Context::TopLevel => "toplevel",
            Context::Multi => "multi",
            Context::Script => "lua",
        }
    }
}

/// One denied access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclRefusal {
    /// The kind of object.
    pub reason: Reason,
    /// The context.
    pub context: Context,
    /// The name of the command, key, channel or database; for a password the command it came with.
    pub object: Vec<u8>,
    /// The user, as far as the client has named one.
    pub user: Vec<u8>,
    /// The client, as CLIENT LIST shows it.
    pub client: Vec<u8>,
}

impl AclRefusal {
    /// A refusal for this object and user; names that are too long are shortened.
    pub fn new(
        reason: Reason,
        context: Context,
        (object, user): (&[u8], &[u8]),
        client: String,
    ) -> AclRefusal {
        let (object, user) = (shortened(object), shortened(user));
        AclRefusal { reason, context, object, user, client: client.into_bytes() }
    }
}

/// The start of a text that is too long, and how many bytes are missing, in the form of the slow
/// log.
fn shortened(text: &[u8]) -> Vec<u8> {
    match text.split_at_checked(TEXT_BYTES) {
        Some((begin, rest)) if !rest.is_empty() => {
            [begin, format!("... ({} more bytes)", rest.len()).as_bytes()].concat()
        }
        _ => text.to_vec(),
    }
}

/// A group of similar refusals.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// The last refusal.
    pub refusal: AclRefusal,
    /// How many there were.
    pub count: u64,
    /// The number of the entry; never reused.
    pub id: u64,
    /// When the first occurred (Unix, milliseconds).
    pub created_ms: i64,
    /// When the last occurred (Unix, milliseconds).
    pub updated_ms: i64,
}

impl LogEntry {
    fn takes_up(&self, refusal: &AclRefusal, now_ms: i64) -> bool {
        let mine = &self.refusal;
        mine.reason == refusal.reason
            && mine.context == refusal.context
            && (now_ms - self.updated_ms).abs() <= GROUPED_MS
            && mine.object == refusal.object
            && mine.user == refusal.user
    }
}

#[derive(Default)]
struct Entries {
    newest_first: VecDeque<LogEntry>,
    next_id: u64,
}

/// The entries of ACL LOG and the counts of denied accesses, shared by all threads.
#[derive(Default)]
pub struct AclLog {
    counts: [AtomicU64; Reason::ALL.len()],
    entries: Mutex<Entries>,
}

impl AclLog {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock()
    }

    /// Counts a refusal and logs it, with a limit of `most` entries.
    #[cold]
    pub fn add(&self, refusal: AclRefusal, now_ms: i64, most: usize) {
        self.counts[usize::from(refusal.reason as u8)].fetch_add(1, Ordering::Relaxed);
        let mut entries = self.entries();
        let mut recent = entries.newest_first.iter().take(SCANNED);
        let entry = match recent.position(|entry| entry.takes_up(&refusal, now_ms)) {
            Some(at) => entries.newest_first.remove(at),
            None => None,
        };
        let entry = match entry {
            Some(entry) => {
                LogEntry { refusal, count: entry.count + 1, updated_ms: now_ms, ..entry }
            }
            None => {
                let id = entries.next_id;
                entries.next_id += 1;
                LogEntry { refusal, count: 1, id, created_ms: now_ms, updated_ms: now_ms }
            }
        };
        entries.newest_first.push_front(entry);
        entries.newest_first.truncate(most);
    }

    /// The newest entries, the newest first.
    pub fn newest(&self, count: usize) -> Vec<LogEntry> {
        self.entries().newest_first.iter().take(count).cloned().collect()
    }

    /// Removes all entries.
    pub fn clear(&self) {
        self.entries().newest_first.clear();
    }

    /// How many refusals there were for this reason.
    pub fn count(&self, reason: Reason) -> u64 {
        self.counts[usize::from(reason as u8)].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(object: &str) -> AclRefusal {
        AclRefusal {
            reason: Reason::Key,
            context: Context::TopLevel,
            object: object.into(),
            user: b"anna".to_vec(),
            client: b"id=1".to_vec(),
        }
    }

    /// Objects, counts and numbers, newest first.
    fn shown(log: &AclLog) -> Vec<(String, u64, u64)> {
        let entry = |entry: &LogEntry| {
            let object = String::from_utf8_lossy(&entry.refusal.object).into_owned();
            (object, entry.count, entry.id)
        };
        log.newest(100).iter().map(entry).collect()
    }

    #[test]
    fn what_is_alike_is_one_entry() {
        let log = AclLog::default();
        log.add(refusal("a"), 1_000, 128);
        log.add(refusal("b"), 2_000, 128);
        log.add(refusal("a"), 1_000 + GROUPED_MS, 128);
        assert_eq!(shown(&log), [("a".into(), 2, 0), ("b".into(), 1, 1)]);
        log.add(refusal("a"), 1_001 + 2 * GROUPED_MS, 128);
        assert_eq!(shown(&log)[..2], [("a".into(), 1, 2), ("a".into(), 2, 0)]);
        assert_eq!(log.count(Reason::Key), 4);
        assert_eq!(log.count(Reason::Auth), 0);
    }

    #[test]
    fn it_keeps_the_newest() {
        let log = AclLog::default();
        for object in 0..20 {
            log.add(refusal(&object.to_string()), 0, 12);
        }
        assert_eq!(shown(&log).len(), 12);
        // Its entry is the eleventh.
        log.add(refusal("9"), 0, 12);
        assert_eq!(shown(&log)[0], ("9".into(), 1, 20));
        log.clear();
        log.add(refusal("9"), 0, 0);
        assert_eq!(shown(&log), []);
        assert_eq!(log.count(Reason::Key), 22);
    }

    #[test]
    fn what_a_client_makes_long_is_told_by_its_length() {
        let long = vec![b'x'; TEXT_BYTES + 7];
        let told = |text: &[u8]| {
            let refusal =
                AclRefusal::new(Reason::Key, Context::Multi, (text, text), "id=1".to_owned());
            assert_eq!(refusal.object, refusal.user);
            refusal.object
        };
        assert_eq!(told(&long), [&long[..TEXT_BYTES], b"... (7 more bytes)"].concat());
        assert_eq!(told(&long[7..]), &long[7..]);
        assert_eq!(told(b""), b"");
    }

    #[test]
    fn every_reason_has_a_count_and_a_name() {
        let log = AclLog::default();
        for (reason, name, _) in Reason::ALL {
            log.add(AclRefusal { reason, ..refusal("x") }, 0, 9);
            assert_eq!(log.count(reason), 1);
            assert_eq!(reason.name(), name);
        }
    }
}
