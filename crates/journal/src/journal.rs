//! The state that recorders and the reader share.
//!
//! ```text
//! Recorder --hand_over--> Outbox (one a thread) --gather--> Reader --take--> runs, cuts
//! ```
//!
//! Invariants
//! 1. An outbox belongs to one recorder. When a thread ends, its outbox goes to the next new
//!    thread, whose stamps continue after the last stamp of the old thread.
//! 2. Handed-over bytes count as waiting ([`Journal::waiting_bytes`]) until the reader reports them
//!    done.
//! 3. A sleeping reader is woken by the first thread that hands something over.
//!
//! Tests: at the foot of `reader`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, AtomicUsize, Ordering};
use std::thread::Thread;

use crate::chunk::Chunk;
use crate::order::{Bound, Floor};
use crate::primitives::{Mutex, relock};
use crate::recorder::Recorder;
use crate::rings::{Ring, Rings};
use crate::stamp::{MOST_THREADS, Stamp, ticks};

/// The capacity of all emptied chunks that an outbox keeps: as much as is handed over between two
/// rounds of the reader, so that no chunk has to be allocated.
pub(crate) const SPARE_BYTES: usize = 4 << 20;
/// The most capacity of one such chunk.
pub(crate) const SPARE_CHUNK_BYTES: usize = 256 << 10;
const _: () = assert!(SPARE_CHUNK_BYTES <= SPARE_BYTES, "one chunk is kept at least");
/// The default limit of waiting bytes.
const MOST_WAITING_BYTES: usize = 64 << 20;

/// The finished steps that one thread has handed over.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub thread: usize,
    pub bound: Bound,
    given: Mutex<Given>,
}

#[derive(Debug, Default)]
struct Given {
    chunks: Vec<Chunk>,
    spare: Vec<Chunk>,
    /// The capacity of the spare chunks.
    spare_bytes: usize,
    last: Stamp,
    /// The ring of a thread that has ended, for the next one.
    ring: Option<HeldRing>,
}

impl Outbox {
    fn new(thread: usize) -> Outbox {
        debug_assert!(thread < MOST_THREADS, "a stamp names its thread");
        Outbox { thread, bound: Bound::default(), given: Mutex::new(Given::default()) }
    }

    /// Hands over the chunk that `finished` fills, starting from an empty one. Returns its size in
    /// bytes, and by how much the capacity held here has grown.
    pub fn put(&self, last: Stamp, finished: impl FnOnce(Chunk) -> Chunk) -> (usize, isize) {
        let mut given = relock(&self.given);
        let empty = given.spare.pop().unwrap_or_default();
        let reused = empty.room();
        debug_assert!(given.spare_bytes >= reused, "the capacity of the spare chunks");
        given.spare_bytes -= reused;
        let chunk = finished(empty);
        let (bytes, room) = (chunk.bytes.len(), chunk.room());
        debug_assert!(given.last <= last, "a thread's stamps never fall");
        debug_assert!(
            chunk.pieces.last().is_none_or(|piece| piece.stamp <= last),
            "no step is after the last one"
        );
        given.chunks.push(chunk);
        given.last = last;
        (bytes, room.cast_signed() - reused.cast_signed())
    }

    pub fn last(&self) -> Stamp {
        relock(&self.given).last
    }

    /// Keeps the ring of a thread that ends.
    pub fn keep_ring(&self, ring: HeldRing) {
        relock(&self.given).ring = Some(ring);
    }

    /// Moves all chunks into `into`, in order.
    pub fn collect(&self, into: &mut Vec<Chunk>) {
        debug_assert!(into.is_empty(), "what was collected before has gone on");
        std::mem::swap(&mut relock(&self.given).chunks, into);
    }

    pub fn has_something(&self) -> bool {
        !relock(&self.given).chunks.is_empty()
    }

    /// Keeps a chunk for reuse. Returns by how much the capacity held here has shrunk.
    pub fn give_back(&self, mut chunk: Chunk) -> isize {
        let before = chunk.room();
        chunk.clear(SPARE_CHUNK_BYTES);
        let room = chunk.room();
        debug_assert!(room <= before, "to empty it allocates nothing");
        let mut given = relock(&self.given);
        if given.spare_bytes + room <= SPARE_BYTES {
            given.spare_bytes += room;
            given.spare.push(chunk);
            return before.cast_signed() - room.cast_signed();
        }
        before.cast_signed()
    }
}

/// A recorder's ring, if it has one, of these [`Journal::ring_version`].
#[derive(Debug, Default)]
pub(crate) struct HeldRing {
    pub version: usize,
    pub ring: Option<Ring>,
}

/// A requested cut of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// All steps before the cut have smaller stamps, all after it larger ones.
    pub stamp: Stamp,
    /// The caller's number for it.
    pub number: u64,
}

/// How many recorded commands some readers do not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnknownCommandCounts {
    /// Commands that only Pantala knows.
    pub ours: u64,
    /// Commands that Redis 7.0 does not know.
    pub newer: u64,
}

/// The state of the recording threads, for INFO.
#[derive(Clone, Copy, Debug)]
pub struct Buffers {
    /// How many threads may record.
    pub threads: usize,
    /// How many of them have handed over something that is not gathered yet.
    pub in_use: usize,
    /// The limit of waiting bytes.
    pub most_waiting_bytes: usize,
    /// Whether a caller has been told that the journal is full, and waits.
    pub holds_back: bool,
}

/// The journal: outboxes of all threads, the cuts, and the settings they share.
#[derive(Debug)]
pub struct Journal {
    is_on: AtomicBool,
    /// How often the rings were set.
    ring_version: AtomicUsize,
    /// The clock that stamps are taken from.
    pub(crate) clock: fn() -> u64,
    pub(crate) floor: Floor,
    outboxes: Mutex<Outboxes>,
    cuts: Mutex<VecDeque<Cut>>,
    waiting_bytes: AtomicUsize,
    /// Capacity of waiting and spare chunks. Briefly below 0 when the reader finishes a chunk that
    /// is not counted yet.
    held_bytes: AtomicIsize,
    most_waiting_bytes: AtomicUsize,
    /// A caller was told that the journal is full.
    holds_back: AtomicBool,
    /// Replies wait until their steps are durable.
    holds_replies: AtomicBool,
    /// Steps with times before this are durable.
    durable: AtomicU64,
    /// A caller was told that a step is not durable yet.
    is_awaited: AtomicBool,
    is_asleep: AtomicBool,
    asides: [AtomicU64; 2],
    reader: std::sync::Mutex<Option<Thread>>,
}

#[derive(Debug, Default)]
struct Outboxes {
    all: Vec<Arc<Outbox>>,
    /// Outboxes whose threads have ended.
    free: Vec<Arc<Outbox>>,
    rings: Option<Arc<Rings>>,
}

impl Default for Journal {
    fn default() -> Self {
        Journal::with_clock(ticks)
    }
}

impl Journal {
    /// A journal whose stamps use this clock, which must be monotonic.
    pub fn with_clock(clock: fn() -> u64) -> Journal {
        Journal {
            is_on: AtomicBool::new(false),
            ring_version: AtomicUsize::new(0),
            clock,
            floor: Floor::default(),
            outboxes: Mutex::new(Outboxes::default()),
            cuts: Mutex::new(VecDeque::new()),
            waiting_bytes: AtomicUsize::new(0),
            held_bytes: AtomicIsize::new(0),
            most_waiting_bytes: AtomicUsize::new(MOST_WAITING_BYTES),
            holds_back: AtomicBool::new(false),
            holds_replies: AtomicBool::new(false),
            durable: AtomicU64::new(0),
            is_awaited: AtomicBool::new(false),
            is_asleep: AtomicBool::new(false),
            asides: [AtomicU64::new(0), AtomicU64::new(0)],
            reader: std::sync::Mutex::new(None),
        }
    }

    /// Makes a recorder for a new thread.
    pub fn join(self: &Arc<Self>) -> Recorder {
        let mut outboxes = relock(&self.outboxes);
        let outbox = outboxes.free.pop().unwrap_or_else(|| {
            let outbox = Arc::new(Outbox::new(outboxes.all.len()));
            outboxes.all.push(Arc::clone(&outbox));
            outbox
        });
        debug_assert!(outboxes.free.len() < outboxes.all.len(), "this one is in use");
        Recorder::new(Arc::clone(self), outbox)
    }

    /// Sets the rings that also store what threads record; `None`: no rings. A thread uses them
    /// from its next turn on.
    pub fn keep_in(&self, rings: Option<Arc<Rings>>) {
        let mut outboxes = relock(&self.outboxes);
        outboxes.rings = rings;
        self.ring_version.fetch_add(1, Ordering::Release);
    }

    /// How often the rings were set: a ring of another version is not to be used.
    #[inline]
    pub(crate) fn ring_version(&self) -> usize {
        self.ring_version.load(Ordering::Relaxed)
    }

    /// The ring in force for the thread of an outbox, which has recorded up to `last`.
    #[cold]
    pub(crate) fn ring(&self, outbox: &Outbox, last: Stamp) -> HeldRing {
        let outboxes = relock(&self.outboxes);
        let version = self.ring_version();
        let left = relock(&outbox.given).ring.take().filter(|left| left.version == version);
        left.unwrap_or_else(|| {
            let ring = outboxes.rings.as_ref().map(|rings| Ring::new(rings, outbox.thread, last));
            HeldRing { version, ring }
        })
    }

    pub(crate) fn leave(&self, outbox: &Arc<Outbox>) {
        let mut outboxes = relock(&self.outboxes);
        let is_free = outboxes.free.iter().any(|free| Arc::ptr_eq(free, outbox));
        debug_assert!(!is_free, "an outbox belongs to one recorder");
        outboxes.free.push(Arc::clone(outbox));
    }

    pub(crate) fn outboxes(&self) -> Vec<Arc<Outbox>> {
        relock(&self.outboxes).all.clone()
    }

    /// Whether changes are recorded. Checked once a turn.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    #[cold]
    pub(crate) fn count_asides(&self, more: UnknownCommandCounts) {
        self.asides[0].fetch_add(more.ours, Ordering::Relaxed);
        self.asides[1].fetch_add(more.newer, Ordering::Relaxed);
    }

    /// How many commands recorded so far some readers do not know.
    pub fn asides(&self) -> UnknownCommandCounts {
        let count = |at: usize| self.asides[at].load(Ordering::Relaxed);
        UnknownCommandCounts { ours: count(0), newer: count(1) }
    }

    /// Switches recording. On: to be called with nobody inside the gate. Off: takes effect from
    /// each thread's next turn on.
    pub fn turn(&self, on: bool) {
        self.is_on.store(on, Ordering::SeqCst);
    }

    /// Cuts the stream between what was recorded so far and what follows, and reports the cut to
    /// the reader under `number`. To be called with nobody inside the gate and everything handed
    /// over; all steps so far have stamps before `next`.
    pub fn cut(&self, next: Stamp, number: u64) -> Cut {
        let mut cuts = relock(&self.cuts);
        let last = self.outboxes().iter().map(|outbox| outbox.last()).max().unwrap_or_default();
        let time = self.floor.raise(next.time().max(last.time() + 1));
        let cut = Cut { stamp: Stamp::first_of(time), number };
        debug_assert!(cut.stamp > last, "all steps so far are before it");
        debug_assert!(cuts.back().is_none_or(|before| before.stamp < cut.stamp), "in order");
        cuts.push_back(cut);
        drop(cuts);
        self.wake_reader();
        cut
    }

    /// Takes the first pending cut, if it is not after `until`.
    pub(crate) fn next_cut(&self, until: Stamp) -> Option<Cut> {
        let mut cuts = relock(&self.cuts);
        cuts.front().filter(|cut| cut.stamp <= until)?;
        cuts.pop_front()
    }

    /// Bytes that were handed over and are not done yet.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting(Ordering::Relaxed)
    }

    /// A fast reader may subtract bytes before they were added: then nothing waits.
    fn waiting(&self, ordering: Ordering) -> usize {
        let bytes = self.waiting_bytes.load(ordering);
        if bytes.cast_signed() < 0 { 0 } else { bytes }
    }

    /// Memory of the journal: waiting and spare chunks.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed).max(0).cast_unsigned() as u64
    }

    /// The state of the recording threads.
    pub fn buffers(&self) -> Buffers {
        let outboxes = relock(&self.outboxes);
        let (all, free) = (outboxes.all.clone(), outboxes.free.len());
        drop(outboxes);
        debug_assert!(free <= all.len(), "free ones are among all");
        Buffers {
            threads: all.len() - free,
            in_use: all.iter().filter(|outbox| outbox.has_something()).count(),
            most_waiting_bytes: self.most_waiting_bytes.load(Ordering::Relaxed),
            holds_back: self.holds_back.load(Ordering::Relaxed),
        }
    }

    /// Sets the limit of waiting bytes.
    pub fn limit_waiting(&self, bytes: usize) {
        self.most_waiting_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Whether so much waits that nothing more should be recorded now. A caller that gets `true` is
    /// called when that has changed ([`Journal::calls_held_back`]).
    #[inline]
    pub fn is_full(&self) -> bool {
        self.waiting_bytes() > self.most_waiting_bytes.load(Ordering::Relaxed)
            && self.is_full_for_sure()
    }

    #[cold]
    fn is_full_for_sure(&self) -> bool {
        // First announces a waiter, then looks; the reader does both in the other order.
        self.holds_back.store(true, Ordering::SeqCst);
        let most = self.most_waiting_bytes.load(Ordering::Relaxed);
        self.waiting(Ordering::SeqCst) > most
    }

    /// Whether a caller that was held back can continue; to be asked after
    /// [`crate::JournalReader::done`].
    pub fn calls_held_back(&self) -> bool {
        let most = self.most_waiting_bytes.load(Ordering::Relaxed);
        self.waiting(Ordering::SeqCst) <= most
            && self.holds_back.load(Ordering::SeqCst)
            && self.holds_back.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn done(&self, bytes: usize, released: isize) {
        self.held_bytes.fetch_sub(released, Ordering::Relaxed);
        self.waiting_bytes.fetch_sub(bytes, Ordering::SeqCst);
    }

    /// Marks everything before this stamp as durable. Returns whether a caller waits for that.
    pub fn set_durable(&self, upto: Stamp) -> bool {
        let before = self.durable.fetch_max(upto.time(), Ordering::SeqCst);
        before < upto.time() && self.is_awaited.swap(false, Ordering::SeqCst)
    }

    /// Whether a command's reply waits until its step is durable.
    #[inline]
    pub fn holds_replies(&self) -> bool {
        self.holds_replies.load(Ordering::Relaxed)
    }

    /// Sets whether replies wait. Returns whether that is a change.
    pub fn hold_replies(&self, on: bool) -> bool {
        self.holds_replies.swap(on, Ordering::SeqCst) != on
    }

    /// Whether a step is durable. A caller that gets `false` is called when more is durable
    /// ([`Journal::set_durable`]).
    pub fn is_durable(&self, step: Stamp) -> bool {
        if step.time() < self.durable.load(Ordering::Relaxed) {
            return true;
        }
        // First announces a waiter, then looks; the reader does both in the other order.
        self.is_awaited.store(true, Ordering::SeqCst);
        step.time() < self.durable.load(Ordering::SeqCst)
    }

    pub(crate) fn given(&self, bytes: usize, held: isize) {
        self.held_bytes.fetch_add(held, Ordering::Relaxed);
        self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        // After the outbox's mutex was released: the reader looks there after it has announced its
        // sleep, so one of the two sees the other.
        if self.is_asleep.load(Ordering::Relaxed) {
            self.wake_reader();
        }
    }

    /// Wakes the reader, whether or not there is something to read.
    #[cold]
    pub fn wake_reader(&self) {
        self.is_asleep.store(false, Ordering::Relaxed);
        let reader = self.reader.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(thread) = &*reader {
            thread.unpark();
        }
    }

    /// Makes the calling thread the reader.
    pub(crate) fn read_here(&self) {
        let mut reader = self.reader.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *reader = Some(std::thread::current());
    }

    pub(crate) fn set_asleep(&self, is_asleep: bool) {
        self.is_asleep.store(is_asleep, Ordering::SeqCst);
    }
}
