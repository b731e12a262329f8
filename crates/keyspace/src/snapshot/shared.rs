//! The shared state of a snapshot: jobs, waiting commands, progress.
//!
//! Invariants
//! 1. A job is in one place: in a queue, or in the hands of one thread (`in_flight`).
//! 2. A waiter sleeps only if what it has seen still holds, checked under the lock (`Versions`).

use std::collections::HashMap;
use std::mem::take;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::ask::SnapshotWait;
use super::jobs::{Job, Jobs};
use super::unwritten::{UnwrittenBytes, UnwrittenShare};
use super::{
    HANDED_BYTES, PendingKeys, SnapshotEntry, SnapshotPiece, SnapshotRoom, SnapshotTarget, Span,
    Target,
};
use crate::access::ticket::Ticket;
use crate::key::{PARTITION_COUNT, PartitionId};
use crate::pins::WaitReasons;

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

/// The state of one snapshot that its threads and the commands share: jobs, waiting clients,
/// progress and the target.
pub(crate) struct Shared {
    target: Target,
    unwritten: UnwrittenBytes,
    jobs: Mutex<Jobs>,
    /// Signals a new job, room, or the end.
    is_news: Condvar,
    waiting: Mutex<WaitingCommands>,
    /// How many partitions are not done.
    open_partitions: AtomicUsize,
    has_stream: AtomicBool,
    handed_bytes: AtomicUsize,
    flushed_keys: AtomicU64,
    keys: u64,
    written: AtomicU64,
    unasked: AtomicU64,
    state: AtomicU8,
}

/// Parked commands, and the counters that tell whether what they wait for has happened.
struct WaitingCommands {
    tickets: HashMap<PartitionId, Vec<Ticket>>,
    partitions: Box<[u32]>,
    room: u32,
}

/// Poison is ignored: nothing panics with one of these locked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub fn new(target: Target, keys: u64, unwritten: UnwrittenBytes) -> Shared {
        let partitions = vec![0; PARTITION_COUNT].into();
        Shared {
            target,
            unwritten,
            jobs: Mutex::default(),
            is_news: Condvar::new(),
            waiting: Mutex::new(WaitingCommands { tickets: HashMap::new(), partitions, room: 0 }),
            open_partitions: AtomicUsize::new(0),
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

    pub fn jobs(&self) -> MutexGuard<'_, Jobs> {
        lock(&self.jobs)
    }

    /// Calls the target; `None`: it panicked, and the snapshot is over.
    pub fn guard<R>(&self, call: impl FnOnce() -> R) -> Option<R> {
        let called = catch_unwind(AssertUnwindSafe(call));
        if called.is_err() {
            self.end_early(FAILED);
        }
        called.ok()
    }

    /// Whether nothing more is to be written: it was cancelled or has failed.
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
        self.written.fetch_add(piece.keys, Ordering::Relaxed);
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
            let mut waiting = lock(&self.waiting);
            waiting.room = waiting.room.wrapping_add(1);
            waiting.tickets.drain().flat_map(|(_, tickets)| tickets).collect()
        };
        tickets.into_iter().for_each(pantala_sync::lock::Ticket::wake);
        self.tell_walkers();
    }

    pub fn tell_walkers(&self) {
        self.jobs().news += 1;
        self.is_news.notify_all();
    }

    /// Sleeps until there is more news than `news`, for `at_most` at most.
    pub fn sleep(&self, at_most: Duration, news: u64) {
        let jobs = self.jobs();
        if jobs.news == news {
            _ = self.is_news.wait_timeout(jobs, at_most);
        }
    }

    fn add(&self, add: impl FnOnce(&mut Jobs)) {
        let mut jobs = self.jobs();
        add(&mut jobs);
        jobs.news += 1;
        self.is_news.notify_one();
    }

    /// Hands a job over to the walkers; the partition it comes from is held.
    pub fn hand_over(&self, job: Job) {
        self.handed_bytes.fetch_add(job.handed_bytes(), Ordering::Relaxed);
        self.unwritten.add(job.handed_bytes());
        self.flushed_keys.fetch_add(job.flushed_keys(), Ordering::Relaxed);
        self.add(|jobs| jobs.handed.push_back(job));
    }

    /// Notes that handed-over bytes are written.
    pub fn forget_handed(&self, bytes: usize) {
        let before = self.handed_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.unwritten.remove(bytes);
        if before > HANDED_BYTES && before - bytes <= HANDED_BYTES {
            self.has_room();
        }
    }

    /// Notes that a handed-over table with this many keys is written.
    pub fn forget_flushed(&self, keys: u64) {
        self.flushed_keys.fetch_sub(keys, Ordering::Relaxed);
    }

    /// Adds a job that a command waits for.
    pub fn push_urgent(&self, job: Job) {
        self.add(|jobs| jobs.urgent.push_back(job));
    }

    pub fn open_partition(&self) {
        self.open_partitions.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a partition is done; it is held.
    pub fn close_partition(&self) {
        self.open_partitions.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether [`Snapshot::walk`](super::Snapshot::walk) has nothing left to do.
    pub fn is_walked_to_its_end(&self) -> bool {
        self.is_done(&self.jobs())
    }

    /// Whether everything is done. Nothing is handed over any more once all partitions are done.
    pub fn is_done(&self, jobs: &Jobs) -> bool {
        self.open_partitions.load(Ordering::Acquire) == 0 && jobs.in_flight == 0 && jobs.is_empty()
    }

    /// The wait of a command for this partition, which is held.
    pub fn wait_for(self: &Arc<Self>, id: PartitionId) -> SnapshotWait {
        let waiting = lock(&self.waiting);
        SnapshotWait::new(id, waiting.partitions[id.index()], waiting.room)
    }

    /// Leaves a ticket until there is news for this wait.
    ///
    /// # Errors
    /// There was news meanwhile.
    pub fn park(&self, wait: SnapshotWait, ticket: Ticket) -> Result<(), Ticket> {
        let mut waiting = lock(&self.waiting);
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
        let mut waiting = lock(&self.waiting);
        let version = &mut waiting.partitions[id.index()];
        *version = version.wrapping_add(1);
        waiting.tickets.remove(&id).unwrap_or_default()
    }

    /// Puts a job back, or notes that it has ended; whether everything is done now.
    pub fn settle(&self, back: impl FnOnce(&mut Jobs)) -> bool {
        let mut jobs = self.jobs();
        jobs.in_flight -= 1;
        back(&mut jobs);
        let is_done = self.is_done(&jobs);
        if is_done {
            jobs.news += 1;
            self.is_news.notify_all();
        }
        is_done
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.unwritten.remove(*self.handed_bytes.get_mut());
    }
}

/// The running snapshot, if any.
#[derive(Default)]
pub(crate) struct Current {
    /// The bytes not written of all snapshots: those that an ended one has copied may still be in
    /// use.
    pub unwritten: UnwrittenBytes,
    shared: Mutex<Option<Arc<Shared>>>,
    is_running: AtomicBool,
}

impl Current {
    /// Whether a snapshot runs. Reliable within a turn, or with a partition held.
    #[inline]
    pub fn is_running(&self) -> bool {
        self.is_running.load(Ordering::Relaxed)
    }

    pub fn get(&self) -> Option<Arc<Shared>> {
        lock(&self.shared).clone()
    }

    /// Begins a snapshot. With the gate closed, and none running.
    pub fn begin(&self, shared: &Arc<Shared>, asking: &WaitReasons) {
        let before = lock(&self.shared).replace(Arc::clone(shared));
        debug_assert!(before.is_none(), "one at a time");
        self.is_running.store(true, Ordering::Relaxed);
        asking.begin(WaitReasons::SNAPSHOT);
    }

    /// Ends this snapshot.
    pub fn end(&self, shared: &Arc<Shared>, asking: &WaitReasons) {
        let mut current = lock(&self.shared);
        if current.as_ref().is_some_and(|one| Arc::ptr_eq(one, shared)) {
            *current = None;
            self.is_running.store(false, Ordering::Relaxed);
            asking.end(WaitReasons::SNAPSHOT);
        }
    }
}
