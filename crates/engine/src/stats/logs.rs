//! COMMANDLOG (and SLOWLOG, its older name): commands that took long or were large.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use pantala_base::clock::unix_us;
use pantala_commands::{CommandRef, Flags, Session, SharedText};
use parking_lot::Mutex;

/// How many arguments an entry keeps.
const KEPT_ARGUMENTS: usize = 32;
/// How many bytes of an argument an entry keeps.
const KEPT_BYTES: usize = 128;
/// A longer client name is cut like an argument, as entries keep names that the client has given
/// up.
const KEPT_NAME_BYTES: usize = 1024;

/// One of the three logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Commands that took long.
    Slow,
    /// Large requests.
    LargeRequest,
    /// Large replies.
    LargeReply,
}

/// One entry of a log.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its number; never used twice in its log.
    pub id: u64,
    /// When the command ended (Unix, microseconds).
    pub unix_us: i64,
    /// Microseconds or bytes, by log.
    pub value: i64,
    /// The arguments, shortened.
    pub args: Vec<Vec<u8>>,
    /// The client's address.
    pub peer: String,
    /// The client's name.
    pub name: SharedText,
}

impl Entry {
    /// An entry for now; its log assigns the number.
    #[cold]
    pub(super) fn new(session: &Session, found: CommandRef, args: &[&[u8]], value: i64) -> Self {
        Entry {
            id: 0,
            unix_us: unix_us(),
            value,
            args: shorten(found, args),
            peer: session.peer.clone(),
            name: kept_name(&session.name),
        }
    }
}

/// Entries of commands in a script or transaction that may still be undone.
#[derive(Default)]
pub struct Notes {
    slow: VecDeque<Entry>,
    large_requests: VecDeque<Entry>,
    large_replies: VecDeque<Entry>,
}

impl Notes {
    /// Whether there is none, as nearly always.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slow.is_empty() && self.large_replies.is_empty() && self.large_requests.is_empty()
    }
}

/// One log: its newest entries and its threshold.
pub struct Log {
    /// Values of this and more are logged; negative: nothing is.
    threshold: AtomicI64,
    most: AtomicU64,
    next_id: AtomicU64,
    entries: Mutex<VecDeque<Entry>>,
}

impl Log {
    fn new() -> Self {
        Log {
            threshold: AtomicI64::new(-1),
            most: AtomicU64::new(0),
            next_id: AtomicU64::new(0),
            entries: Mutex::new(VecDeque::new()),
        }
    }

    /// Sets the threshold, and how many entries are kept.
    pub fn configure(&self, threshold: i64, most: u64) {
        self.threshold.store(threshold, Ordering::Relaxed);
        self.most.store(most, Ordering::Relaxed);
        let mut entries = self.entries.lock();
        entries.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    }

    #[inline]
    pub(super) fn wants(&self, value: i64) -> bool {
        let threshold = self.threshold.load(Ordering::Relaxed);
        threshold >= 0 && value >= threshold
    }

    fn most(&self) -> usize {
        usize::try_from(self.most.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    #[cold]
    fn add(&self, mut entry: Entry) {
        let most = self.most();
        if most == 0 {
            // As in Valkey, a log that keeps nothing counts nothing.
            return;
        }
        let mut entries = self.entries.lock();
        // Under the lock, so that their order is that of their numbers.
        entry.id = self.next_id.fetch_add(1, Ordering::Relaxed);
        entries.push_front(entry);
        entries.truncate(most);
    }

    /// Keeps an entry for later; drops those before it that the log itself would drop.
    #[cold]
    fn put_off(&self, entry: Entry, entries: &mut VecDeque<Entry>) {
        if entries.len() >= self.most() {
            entries.pop_front();
        }
        entries.push_back(entry);
    }

    /// The newest `count` entries.
    pub fn newest(&self, count: usize) -> Vec<Entry> {
        let entries = self.entries.lock();
        entries.iter().take(count).cloned().collect()
    }

    /// The entries from this number on, oldest first, and the number of the next entry.
    pub fn since(&self, id: u64) -> (Vec<Entry>, u64) {
        let entries = self.entries.lock();
        let mut newer: Vec<Entry> =
            entries.iter().take_while(|entry| entry.id >= id).cloned().collect();
        newer.reverse();
        (newer, self.next_id.load(Ordering::Relaxed))
    }

    /// How many entries there are.
    pub fn count(&self) -> usize {
        self.entries.lock().len()
    }

    /// Forgets all entries.
    pub fn clear(&self) {
        self.entries.lock().clear();
    }
}

/// The three logs of COMMANDLOG: slow commands, large requests, large replies.
pub struct Logs {
    slow: Log,
    large_request: Log,
    large_reply: Log,
}

impl Default for Logs {
    fn default() -> Self {
        Logs { slow: Log::new(), large_request: Log::new(), large_reply: Log::new() }
    }
}

impl Logs {
    /// One of the logs.
    pub fn of(&self, kind: Kind) -> &Log {
        match kind {
            Kind::Slow => &self.slow,
            Kind::LargeRequest => &self.large_request,
            Kind::LargeReply => &self.large_reply,
        }
    }

    /// Logs a command that has run, if it was slow or large.
    pub fn note(
        &self,
        session: &Session,
        found: CommandRef,
        args: &[&[u8]],
        took_us: u64,
        reply_bytes: usize,
    ) {
        if found.row.flags.intersects(Flags::SKIP_COMMANDLOG) {
            return;
        }
        let took_us = took_us.cast_signed();
        if self.slow.wants(took_us) {
            self.slow.add(Entry::new(session, found, args, took_us));
        }
        let request_bytes = request_bytes(args);
        if self.large_request.wants(request_bytes) {
            self.large_request.add(Entry::new(session, found, args, request_bytes));
        }
        if self.large_reply.wants(reply_bytes.cast_signed() as i64) {
            let reply_bytes = reply_bytes.cast_signed() as i64;
            self.large_reply.add(Entry::new(session, found, args, reply_bytes));
        }
    }

    /// Like [`Logs::note`], for a command of a transaction that may still be undone.
    pub fn note_later(
        &self,
        notes: &mut Notes,
        session: &Session,
        (found, args): (CommandRef, &[&[u8]]),
        took_us: u64,
        reply_bytes: usize,
    ) {
        self.note_inside(notes, session, (found, args), Some(took_us), reply_bytes);
        let request_bytes = request_bytes(args);
        if self.large_request.wants(request_bytes)
            && !found.row.flags.intersects(Flags::SKIP_COMMANDLOG)
        {
            let entry = Entry::new(session, found, args, request_bytes);
            self.large_request.put_off(entry, &mut notes.large_requests);
        }
    }

    /// Like [`Logs::note_later`], for a command that a script of this client has run, timed or not.
    /// What a script sends is no request.
    #[inline]
    pub fn note_inside(
        &self,
        notes: &mut Notes,
        client: &Session,
        (found, args): (CommandRef, &[&[u8]]),
        took_us: Option<u64>,
        reply_bytes: usize,
    ) {
        let took_us = took_us.map(u64::cast_signed).filter(|took_us| self.slow.wants(*took_us));
        let reply_bytes = reply_bytes.cast_signed() as i64;
        let is_large = self.large_reply.wants(reply_bytes);
        if (took_us.is_none() && !is_large) || found.row.flags.intersects(Flags::SKIP_COMMANDLOG) {
            return;
        }
        if let Some(took_us) = took_us {
            self.slow.put_off(Entry::new(client, found, args, took_us), &mut notes.slow);
        }
        if is_large {
            let entry = Entry::new(client, found, args, reply_bytes);
            self.large_reply.put_off(entry, &mut notes.large_replies);
        }
    }

    /// Adds the entries of a script or transaction to the logs.
    pub fn add_all(&self, notes: Notes) {
        notes.slow.into_iter().for_each(|entry| self.slow.add(entry));
        notes.large_requests.into_iter().for_each(|entry| self.large_request.add(entry));
        notes.large_replies.into_iter().for_each(|entry| self.large_reply.add(entry));
    }
}

/// Shown in place of a secret.
pub const REDACTED: &[u8] = b"(redacted)";

fn request_bytes(args: &[&[u8]]) -> i64 {
    let bytes: usize = args.iter().map(|arg| arg.len()).sum();
    bytes.cast_signed() as i64
}

fn shorten(found: CommandRef, args: &[&[u8]]) -> Vec<Vec<u8>> {
    let shown = if args.len() > KEPT_ARGUMENTS { KEPT_ARGUMENTS - 1 } else { args.len() };
    let is_secret = |at| found.row.is_secret.is_some_and(|is_secret| is_secret(args, at));
    let shown_one = |at: usize| match is_secret(at) {
        true => REDACTED.to_vec(),
        false => shorten_one(args[at]),
    };
    let mut kept: Vec<Vec<u8>> = (0..shown).map(shown_one).collect();
    if shown < args.len() {
        kept.push(format!("... ({} more arguments)", args.len() - shown).into_bytes());
    }
    kept
}

fn kept_name(name: &SharedText) -> SharedText {
    match name.len() {
        0..=KEPT_NAME_BYTES => name.clone(),
        _ => shorten_one(name).as_slice().into(),
    }
}

fn shorten_one(arg: &[u8]) -> Vec<u8> {
    if arg.len() <= KEPT_BYTES {
        return arg.to_vec();
    }
    let mut kept = arg[..KEPT_BYTES].to_vec();
    kept.extend_from_slice(format!("... ({} more bytes)", arg.len() - KEPT_BYTES).as_bytes());
    kept
}
