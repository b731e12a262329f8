//! The form in which a command is recorded in the journal.
//!
//! A command that has changed something is recorded as it came. A handler may record its effect
//! instead, in commands that give the same result whenever they run.
//!
//! ```text
//! SETEX k 10 v    call.record_as(&[b"SET", k, v, b"PXAT", moment])
//! SPOP k          call.record_as(&[b"SREM", k, member])
//! SINTERSTORE to an empty set    nothing to do: the keyspace knows that nothing has changed
//! ```
//!
//! Redis 7.0 knows all of these forms. Data that it does not know is recorded in a special form
//! (`aside`), the same for replicas and files of all kinds.
//!
//! A handler that formats something for the journal checks [`Call::is_recorded`] first. It may
//! record several commands; they are one step, between MULTI and EXEC. The keyspace itself records
//! what expired or was evicted.
//!
//! Code that runs records again (a file is loaded, a replica applies them)
//!
//! 1. sees keys and elements until a record removes them, whatever their deadlines
//!    ([`Scope::sees_expired`](pantala_keyspace::Scope::sees_expired)): it keeps a deadline that
//!    has passed, too;
//! 2. is refused nothing that was accepted before: not for memory, a state of the server,
//!    `proto-max-bulk-len` or a payload's version ([`Call::most_string_bytes`],
//!    [`Call::rdb_versions`]);
//! 3. records nothing, waits for nothing, and has no client that gets a reply.
//!
//! Tests: the server's `tests/journal.rs` and `tests/recorded_forms.rs`; compat's `records`
//! compares with Valkey. `server/commands/mod.rs` has a list of all commands that change something.

use pantala_base::UnixMs;
use pantala_base::number::{I64_TEXT_MAX_BYTES, fmt_i64, fmt_u64};
use pantala_keyspace::{DbIndex, Expiry, OpenKey};
use pantala_table::IntText;
use pantala_values::packed::Element;
use smallvec::SmallVec;

use crate::calls::aside;
use crate::calls::call::{Call, Lane, Stop};

/// The words of a command that is put together to be recorded.
pub(crate) type RecordedWords<'w> = SmallVec<[&'w [u8]; 16]>;

/// Which servers have a command that Redis 7.0 does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Only Pantala.
    ToOurs,
    /// Also Valkey 9, and Redis after 7.0.
    ToSome,
}

/// The most elements recorded in one command.
pub(crate) const RECORDED_AT_ONCE: usize = 1024;
/// The most expired elements removed at once.
const EXPIRED_AT_ONCE: usize = 1000;

impl Call<'_, '_> {
    /// Whether changes are recorded.
    #[inline]
    pub fn is_recorded(&self) -> bool {
        self.keys.scope().recorder.is_some()
    }

    /// Records what the command did as the command in `args`, in the current database.
    pub fn record_as(&self, args: &[&[u8]]) {
        self.record_as_in(self.keys.scope().db, args);
    }

    /// Records what the command did as the command in `args`, in the database `db`.
    pub fn record_as_in(&self, db: DbIndex, args: &[&[u8]]) {
        if let Some(recorder) = self.keys.scope().recorder {
            recorder.record(db.0, args);
        }
    }

    /// Records the command in `args`, which concerns `key` and which Redis 7.0 does not have, so
    /// that servers that do not have it ignore it.
    #[inline(never)]
    pub(crate) fn record_aside(&self, known: Known, key: &[u8], args: &[&[u8]]) {
        if let Some(recorder) = self.keys.scope().recorder {
            recorder.count_aside(known == Known::ToOurs);
        }
        match known {
            Known::ToOurs => aside::for_ours(args, |words| self.record_as(words)),
            Known::ToSome => aside::for_some(key, args, |words| self.record_as(words)),
        }
    }

    /// Records nothing: the command has left no change.
    #[inline]
    pub fn record_nothing(&self) {
        if let Some(recorder) = self.keys.scope().recorder {
            recorder.record_nothing();
        }
    }

    /// Records the command as it came, although no key has changed (FUNCTION LOAD).
    pub fn record_as_it_came(&self) {
        self.record_as(self.args);
    }

    /// Records the command as it came, for replicas only: it leaves no data behind (PUBLISH).
    pub fn record_for_replicas(&self) {
        self.record_other_for_replicas(self.args);
    }

    /// Records the command in `args`, which need not exist, for replicas only.
    pub fn record_other_for_replicas(&self, args: &[&[u8]]) {
        let scope = self.keys.scope();
        if let Some(recorder) = scope.recorder {
            recorder.record_for_replicas(scope.db.0, args);
        }
    }

    /// Records the new deadline of the key.
    #[inline(never)]
    pub(crate) fn record_deadline(&self, key: &[u8], deadline: UnixMs) {
        let digits = &mut [0; I64_TEXT_MAX_BYTES];
        self.record_as(&[b"PEXPIREAT", key, fmt_i64(deadline.0, digits)]);
    }

    /// Records that the key is gone.
    #[inline(never)]
    pub(crate) fn record_removal(&self, key: &[u8]) {
        self.record_as(&[b"DEL", key]);
    }

    /// Records that the key is gone because its time has come, or because it is empty: with
    /// Valkey's word.
    #[inline(never)]
    pub(crate) fn record_end(&self, key: &[u8]) {
        self.record_as(&[b"UNLINK", key]);
    }

    /// Records that the key is this string now.
    pub(crate) fn record_string(&self, key: &[u8], value: &[u8], expiry: Expiry) {
        self.record_string_with_flags(key, value, expiry, 0);
    }

    /// Records that the key is this string now, with these flags of Memcached's.
    #[inline(never)]
    pub(crate) fn record_string_with_flags(
        &self,
        key: &[u8],
        value: &[u8],
        expiry: Expiry,
        flags: u32,
    ) {
        let moment = &mut [0; I64_TEXT_MAX_BYTES];
        let mut words = RecordedWords::from_slice(&[b"SET", key, value]);
        match expiry {
            Expiry::Never => {}
            Expiry::Keep => words.push(b"KEEPTTL"),
            Expiry::At(deadline) => {
                words.extend_from_slice(&[b"PXAT", fmt_i64(deadline.0, moment)]);
            }
        }
        self.record_as(&words);
        if flags != 0 {
            let number = &mut [0; I64_TEXT_MAX_BYTES];
            let words: [&[u8]; 3] = [b"mc.flags", key, fmt_u64(u64::from(flags), number)];
            self.record_aside(Known::ToOurs, key, &words);
        }
    }

    /// Records that `count` elements were taken from an end of the value.
    #[inline(never)]
    pub(crate) fn record_pop(&self, name: &[u8], key: &[u8], count: usize) {
        let digits = &mut [0; I64_TEXT_MAX_BYTES];
        self.record_as(&[name, key, fmt_u64(count as u64, digits)]);
    }

    /// Records a command about elements in the special form: the words `first`, of which the second
    /// is the key, then the number of elements, and the elements; split into several commands if
    /// there are many.
    #[inline(never)]
    pub(crate) fn record_counted_aside(&self, known: Known, first: &[&[u8]], elements: &[&[u8]]) {
        for elements in elements.chunks(RECORDED_AT_ONCE) {
            let digits = &mut [0; I64_TEXT_MAX_BYTES];
            let count = fmt_u64(elements.len() as u64, digits);
            self.record_aside(known, first[1], &[first, &[count], elements].concat());
        }
    }

    /// Records a command about elements: the words `first`, then the elements.
    #[inline(never)]
    pub(crate) fn record_listed(&self, first: &[&[u8]], elements: &[&[u8]]) {
        if elements.is_empty() {
            return;
        }
        let mut words = RecordedWords::from_slice(first);
        words.extend_from_slice(elements);
        self.record_as(&words);
    }
}

/// Elements removed while a command runs, to be recorded by name; empty if nothing is recorded.
pub(crate) struct RemovedElements {
    is_recorded: bool,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl RemovedElements {
    /// None so far.
    pub(crate) fn new(call: &Call<'_, '_>) -> RemovedElements {
        RemovedElements { is_recorded: call.is_recorded(), bytes: Vec::new(), ends: Vec::new() }
    }

    /// Adds an element.
    #[inline]
    pub(crate) fn add(&mut self, element: Element<'_>) {
        if self.is_recorded {
            self.bytes.extend_from_slice(element.text(&mut IntText::new()));
            self.ends.push(self.bytes.len());
        }
    }

    /// Records them with this command and key, in several commands if there are many.
    pub(crate) fn record(&self, call: &Call<'_, '_>, name: &[u8], key: &[u8]) {
        let mut from = 0;
        for ends in self.ends.chunks(RECORDED_AT_ONCE) {
            let elements =
                ends.iter().map(|&end| &self.bytes[std::mem::replace(&mut from, end)..end]);
            let elements: RecordedWords<'_> = elements.collect();
            call.record_listed(&[name, key], &elements);
        }
    }
}

/// If changes are recorded: removes expired elements, and records that, before a command changes a
/// collection or derives something from it. Code that runs the command again later sees every
/// element that was not said to be gone.
#[inline]
pub(crate) fn expire_all(opened: &mut OpenKey<'_, '_>, lane: Lane) -> Result<(), Stop> {
    match opened.scope().recorder {
        Some(_) if opened.has_due_elements() => expire_due(opened, lane),
        _ => Ok(()),
    }
}

#[cold]
fn expire_due(opened: &mut OpenKey<'_, '_>, lane: Lane) -> Result<(), Stop> {
    while opened.has_due_elements() {
        opened.expire_elements(EXPIRED_AT_ONCE);
        // Removed elements stay removed: the command begins again.
        if lane == Lane::Worker && opened.has_due_elements() {
            return Err(Stop::Lane);
        }
    }
    Ok(())
}
