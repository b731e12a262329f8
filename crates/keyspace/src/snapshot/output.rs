//! What the threads and commands of a snapshot write through one target: progress, room, and the
//! commands that wait for either. It knows no jobs (`state`).
//!
//! Invariant
//! 1. A waiter sleeps only if what it has seen still holds, checked under the lock: a command by
//!    the counters of [`WaitingCommands`], a walker by the number of news.

use std::collections::HashMap;
use std::mem::take;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::target::{
    HANDED_BYTES, PendingKeys, SnapshotEntry, SnapshotPiece, SnapshotRoom, SnapshotTarget, Span,
    Target,
};
use super::unwritten::{UnwrittenBytes, UnwrittenShare};
use crate::access::ticket::Ticket;
use crate::key::{PARTITION_COUNT, PartitionId};

/// How a snapshot ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotOutcome {
    /// All that was there at the cut is written.
    Complete,
    /// It was called off.
    Cancelled,
    /// The target panicked.
    Failed,
}

const RUNNING: u8 = 0;
const CANCELLED: u8 = 1;
const FAILED: u8 = 2;

/// The progress of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotProgress {
    /// Keys at the cut.
    pub keys: u64,
    /// Of these, keys that the target has been given.
    pub written: u64,
    /// Bytes of records handed over and not written yet.
    pub handed_bytes: usize,
    /// Keys of flushed databases whose tables are kept because they are not completely written.
    pub flushed_keys: u64,
    /// Large values that were written with their partition held, because the command could not
    /// wait.
    pub unasked: u64,
}

/// The output of one snapshot, shared by its walkers and by the commands that write before they
/// change something.
pub(crate) struct Output {
    target: Target,
    unwritten: UnwrittenBytes,
    pub news: News,
    waiting: Mutex<WaitingCommands>,
    has_stream: AtomicBool,
    handed_bytes: AtomicUsize,
    flushed_keys: AtomicU64,
    keys: u64,
    written: AtomicU64,
    unasked: AtomicU64,
    state: AtomicU8,
}

/// Counts what is new for sleeping walkers: a job, room, or the end.
#[derive(Default)]
pub(crate) struct News {
    count: Mutex<u64>,
    is_more: Condvar,
}

impl News {
    /// How often there was something new.
    pub fn count(&self) -> u64 {
        *self.count.lock()
    }

    /// Wakes one sleeping walker.
    pub fn tell_one(&self) {
        *self.count.lock() += 1;
        self.is_more.notify_one();
    }

    /// Wakes all sleeping walkers.
    pub fn tell_all(&self) {
        *self.count.lock() += 1;
        self.is_more.notify_all();
    }

    /// Sleeps until there is more than was `seen`, for `at_most` at most.
    pub fn sleep(&self, at_most: Duration, seen: u64) {
        let mut count = self.count.lock();
        if *count == seen {
            let _timed_out = self.is_more.wait_for(&mut count, at_most);
        }
    }
}

/// A command's wait for one of its keys to be written, or for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotWait {
    id: PartitionId,
    /// The counters it has seen: values of the partition that were written, and times that room was
    /// made.
    seen: (u32, u32),
}

impl SnapshotWait {
    fn new(id: PartitionId, version: u32, room: u32) -> Self {
        SnapshotWait { id, seen: (version, room) }
    }

    /// The partition of the key.
    pub fn partition(&self) -> PartitionId {
        self.id
    }

    fn seen(&self) -> (u32, u32) {
        self.seen
    }
}

/// Parked commands, and the counters that tell whether what they wait for has happened.
struct WaitingCommands {
    tickets: HashMap<PartitionId, Vec<Ticket>>,
    partitions: Box<[u32]>,
    room: u32,
}

impl Output {
    /// The output of a snapshot of this many keys.
    pub fn new(target: Target, keys: u64, unwritten: UnwrittenBytes) -> Output {
        let partitions = vec![0; PARTITION_COUNT].into();
        Output {
            target,
            unwritten,
            news: News::default(),
            waiting: Mutex::new(WaitingCommands { tickets: HashMap::new(), partitions, room: 0 }),
            has_stream: AtomicBool::new(false),
            handed_bytes: AtomicUsize::new(0),
            flushed_keys: AtomicU64::new(0),
            keys,
            written: AtomicU64::new(0),
            unasked: AtomicU64::new(0),
            state: AtomicU8::new(RUNNING),
        }
    }

    pub fn target(&self) -> &dyn SnapshotTarget {
        &*self.target
    }

    /// Calls the target; `None`: it panicked, and the snapshot is over.
    pub fn guard<R>(&self, call: impl FnOnce() -> R) -> Option<R> {
        let called = catch_unwind(AssertUnwindSafe(call));
        if called.is_err() {
            self.end_early(FAILED);
        }
        called.ok()
    }

    /// Whether to stop writing: the snapshot was cancelled or has failed.
    pub fn is_over(&self) -> bool {
        self.state.load(Ordering::Relaxed) != RUNNING
    }

    pub fn cancel(&self) {
        self.end_early(CANCELLED);
    }

    fn end_early(&self, state: u8) {
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        _ = self.state.compare_exchange(RUNNING, state, success, failure);
        self.has_room();
    }

    pub fn outcome(&self) -> SnapshotOutcome {
        match self.state.load(Ordering::Relaxed) {
            RUNNING => SnapshotOutcome::Complete,
            CANCELLED => SnapshotOutcome::Cancelled,
            _ => SnapshotOutcome::Failed,
        }
    }

    pub fn progress(&self) -> SnapshotProgress {
        SnapshotProgress {
            keys: self.keys,
            written: self.written.load(Ordering::Relaxed),
            handed_bytes: self.handed_bytes.load(Ordering::Relaxed),
            flushed_keys: self.flushed_keys.load(Ordering::Relaxed),
            unasked: self.unasked.load(Ordering::Relaxed),
        }
    }

    /// Counts a large value that was written by a command which did not ask.
    pub fn count_unasked(&self) {
        self.unasked.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts this many bytes as not written, until the result is dropped.
    pub fn unwritten(&self, bytes: usize) -> UnwrittenShare {
        self.unwritten.of(bytes)
    }

    /// Hands a piece to the target.
    pub fn take(&self, mut piece: SnapshotPiece) {
        piece.unwritten = self.unwritten.of(piece.bytes.capacity());
        let written = self.written.fetch_add(piece.keys, Ordering::Relaxed) + piece.keys;
        debug_assert!(written <= self.keys, "each key of the cut is written once");
        if !(self.is_over() || piece.bytes.is_empty() && piece.span == Span::Whole) {
            self.guard(|| self.target.take(piece));
        }
    }

    /// Hands pending keys to the target.
    pub fn flush(&self, pending: &mut PendingKeys) {
        if pending.keys > 0 {
            let bytes = take(&mut pending.bytes);
            let keys = take(&mut pending.keys);
            self.take(SnapshotPiece::new(pending.db, bytes, keys, Span::Whole));
            pending.unwritten = UnwrittenShare::default();
        }
    }

    /// Takes the stream: the right to send a value in pieces.
    pub fn take_stream(&self) -> bool {
        !self.has_stream.swap(true, Ordering::Acquire)
    }

    /// Whether a value is being sent in pieces.
    pub fn has_stream(&self) -> bool {
        self.has_stream.load(Ordering::Relaxed) && !self.is_over()
    }

    /// Whether the target has room for more of that value.
    pub fn has_room_for_parts(&self) -> bool {
        self.is_over() || self.guard(|| self.target.has_room_for_parts()).unwrap_or(true)
    }

    pub fn free_stream(&self) {
        debug_assert!(self.has_stream.load(Ordering::Relaxed), "somebody has it");
        self.has_stream.store(false, Ordering::Release);
        self.tell_walkers();
    }

    /// Writes a whole key; if that panics, what it has written is discarded.
    pub fn write(&self, entry: &SnapshotEntry<'_>, pending: &mut PendingKeys) {
        let PendingKeys { bytes, keys, unwritten, .. } = pending;
        self.guard(|| self.target.write(entry, bytes));
        unwritten.set(&self.unwritten, bytes.capacity());
        *keys += 1;
    }

    /// The room that the target has.
    pub fn target_room(&self) -> SnapshotRoom {
        if self.is_over() {
            return SnapshotRoom::Free;
        }
        self.guard(|| self.target.room()).unwrap_or(SnapshotRoom::Free)
    }

    /// The room left, counting both what the target has and what is handed over.
    pub fn room(&self) -> SnapshotRoom {
        let room = self.target_room();
        let is_much = self.handed_bytes.load(Ordering::Relaxed) > HANDED_BYTES;
        if is_much && !self.is_over() { SnapshotRoom::Overfull } else { room }
    }

    /// Notes that the target has room again, and redeems the tickets of waiting commands.
    pub fn has_room(&self) {
        let tickets: Vec<Ticket> = {
            let mut waiting = self.waiting.lock();
            waiting.room = waiting.room.wrapping_add(1);
            waiting.tickets.drain().flat_map(|(_, tickets)| tickets).collect()
        };
        tickets.into_iter().for_each(pantala_sync::lock::Ticket::wake);
        self.tell_walkers();
    }

    /// Tells all sleeping walkers that something has changed.
    pub fn tell_walkers(&self) {
        self.news.tell_all();
    }

    /// Notes that handed-over bytes are written.
    pub fn forget_handed(&self, bytes: usize) {
        let before = self.handed_bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "they were handed over");
        self.unwritten.remove(bytes);
        if before > HANDED_BYTES && before - bytes <= HANDED_BYTES {
            self.has_room();
        }
    }

    /// Notes that a handed-over table with this many keys is written.
    pub fn forget_flushed(&self, keys: u64) {
        let before = self.flushed_keys.fetch_sub(keys, Ordering::Relaxed);
        debug_assert!(before >= keys, "they were handed over");
    }

    /// The wait of a command for this partition, which is held.
    pub fn wait_for(&self, id: PartitionId) -> SnapshotWait {
        let waiting = self.waiting.lock();
        SnapshotWait::new(id, waiting.partitions[id.index()], waiting.room)
    }

    /// Leaves a ticket until there is news for this wait.
    ///
    /// # Errors
    /// There was news meanwhile.
    pub fn park(&self, wait: SnapshotWait, ticket: Ticket) -> Result<(), Ticket> {
        let mut waiting = self.waiting.lock();
        let now = (waiting.partitions[wait.partition().index()], waiting.room);
        if now != wait.seen() || self.is_over() {
            return Err(ticket);
        }
        waiting.tickets.entry(wait.partition()).or_default().push(ticket);
        Ok(())
    }

    /// Notes that a value of this partition is no longer written in parts; returns the tickets to
    /// redeem once the partition is free.
    pub fn call(&self, id: PartitionId) -> Vec<Ticket> {
        let mut waiting = self.waiting.lock();
        let version = &mut waiting.partitions[id.index()];
        *version = version.wrapping_add(1);
        waiting.tickets.remove(&id).unwrap_or_default()
    }

    /// Counts a job that is handed over.
    pub fn note_handed(&self, bytes: usize, flushed_keys: u64) {
        self.handed_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.unwritten.add(bytes);
        self.flushed_keys.fetch_add(flushed_keys, Ordering::Relaxed);
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.unwritten.remove(*self.handed_bytes.get_mut());
    }
}
