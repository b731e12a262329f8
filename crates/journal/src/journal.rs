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
use crate::stamp::{Stamp, ticks};

/// An outbox keeps emptied chunks with so much room in all: as many as are handed over between two
/// looks of the reader, so that none has to be made anew.
pub(crate) const SPARE_BYTES: usize = 4 << 20;
/// Each with so much room at most.
pub(crate) const SPARE_CHUNK_BYTES: usize = 256 << 10;
/// By default so much may wait.
const MOST_WAITING_BYTES: usize = 64 << 20;

/// What one thread has handed over.
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
    /// What the spare ones take.
    spare_bytes: usize,
    last: Stamp,
    /// Where it lies as well, as long as that is wanted.
    ring: Option<Ring>,
}

impl Outbox {
    fn new(thread: usize) -> Outbox {
        Outbox { thread, bound: Bound::default(), given: Mutex::new(Given::default()) }
    }

    /// Hands over what `finished` makes of an empty chunk; how many bytes it is, and how much more
    /// room is held here now.
    pub fn put(&self, last: Stamp, finished: impl FnOnce(Chunk) -> Chunk) -> (usize, isize) {
        let mut given = relock(&self.given);
        let empty = given.spare.pop().unwrap_or_default();
        let reused = empty.room();
        given.spare_bytes -= reused;
        let chunk = finished(empty);
        if let Some(ring) = &mut given.ring {
            ring.put(&chunk);
        }
        let (bytes, room) = (chunk.bytes.len(), chunk.room());
        given.chunks.push(chunk);
        given.last = last;
        (bytes, room.cast_signed() - reused.cast_signed())
    }

    pub fn last(&self) -> Stamp {
        relock(&self.given).last
    }

    /// From now on it has a ring among these, or none.
    fn set_ring(&self, rings: Option<&Arc<Rings>>) {
        let mut given = relock(&self.given);
        given.ring = rings.map(|rings| Ring::new(rings, self.thread, given.last));
    }

    /// Takes everything, in order, and leaves an empty list in its place.
    pub fn collect(&self, into: &mut Vec<Chunk>) {
        debug_assert!(into.is_empty(), "what was collected before has gone on");
        std::mem::swap(&mut relock(&self.given).chunks, into);
    }

    pub fn has_something(&self) -> bool {
        !relock(&self.given).chunks.is_empty()
    }

    /// A chunk to be used again; how much less room is held here now.
    pub fn give_back(&self, mut chunk: Chunk) -> isize {
        let before = chunk.room();
        chunk.clear(SPARE_CHUNK_BYTES);
        let room = chunk.room();
        let mut given = relock(&self.given);
        if given.spare_bytes + room <= SPARE_BYTES {
            given.spare_bytes += room;
            given.spare.push(chunk);
            return before.cast_signed() - room.cast_signed();
        }
        before.cast_signed()
    }
}

/// A place in the stream that somebody has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// All steps before it have smaller stamps, all after it larger ones.
    pub stamp: Stamp,
    /// What it is for.
    pub number: u64,
}

/// How many commands were recorded that not all readers know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asides {
    /// Those that only Pantala knows.
    pub ours: u64,
    /// Those that Redis 7.0 does not know.
    pub newer: u64,
}

/// What INFO tells of the threads that record.
#[derive(Clone, Copy, Debug)]
pub struct Buffers {
    /// Threads that may record.
    pub threads: usize,
    /// Those of which something waits to be gathered.
    pub in_use: usize,
    /// So many bytes may wait.
    pub most_waiting_bytes: usize,
    /// Somebody was told that it is too much.
    pub holds_back: bool,
}

/// The journal: outboxes of all threads, the cuts, and the settings they share.
#[derive(Debug)]
pub struct Journal {
    is_on: AtomicBool,
    /// The clock that stamps are taken from.
    pub(crate) clock: fn() -> u64,
    pub(crate) floor: Floor,
    outboxes: Mutex<Outboxes>,
    cuts: Mutex<VecDeque<Cut>>,
    waiting_bytes: AtomicUsize,
    /// Room of what waits and of what is spare. Below 0 for the moment in which the reader has done
    /// with something that is not counted yet.
    held_bytes: AtomicIsize,
    most_waiting_bytes: AtomicUsize,
    /// Somebody was told that it is full.
    holds_back: AtomicBool,
    /// Replies wait until their steps are durable.
    holds_replies: AtomicBool,
    /// Steps of earlier times are durable.
    durable: AtomicU64,
    /// Somebody was told that a step is not durable yet.
    is_awaited: AtomicBool,
    is_asleep: AtomicBool,
    asides: [AtomicU64; 2],
    reader: std::sync::Mutex<Option<Thread>>,
}

#[derive(Debug, Default)]
struct Outboxes {
    all: Vec<Arc<Outbox>>,
    /// Those whose threads have ended.
    free: Vec<Arc<Outbox>>,
    rings: Option<Arc<Rings>>,
}

impl Default for Journal {
    fn default() -> Self {
        Journal::with_clock(ticks)
    }
}

impl Journal {
    /// One whose stamps have the times of this clock, which never goes back.
    pub fn with_clock(clock: fn() -> u64) -> Journal {
        Journal {
            is_on: AtomicBool::new(false),
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

    /// A recorder for one more thread.
    pub fn join(self: &Arc<Self>) -> Recorder {
        let mut outboxes = relock(&self.outboxes);
        let outbox = outboxes.free.pop().unwrap_or_else(|| {
            let outbox = Arc::new(Outbox::new(outboxes.all.len()));
            outbox.set_ring(outboxes.rings.as_ref());
            outboxes.all.push(Arc::clone(&outbox));
            outbox
        });
        Recorder::new(Arc::clone(self), outbox)
    }

    /// From now on what threads hand over lies in these rings as well, or in none.
    pub fn keep_in(&self, rings: Option<Arc<Rings>>) {
        let mut outboxes = relock(&self.outboxes);
        outboxes.rings = rings;
        outboxes.all.iter().for_each(|outbox| outbox.set_ring(outboxes.rings.as_ref()));
    }

    pub(crate) fn leave(&self, outbox: &Arc<Outbox>) {
        relock(&self.outboxes).free.push(Arc::clone(outbox));
    }

    pub(crate) fn outboxes(&self) -> Vec<Arc<Outbox>> {
        relock(&self.outboxes).all.clone()
    }

    /// Whether changes are recorded. Asked once a turn.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    #[cold]
    pub(crate) fn count_asides(&self, more: Asides) {
        self.asides[0].fetch_add(more.ours, Ordering::Relaxed);
        self.asides[1].fetch_add(more.newer, Ordering::Relaxed);
    }

    /// How many commands were recorded so far that not all readers know.
    pub fn asides(&self) -> Asides {
        let count = |at: usize| self.asides[at].load(Ordering::Relaxed);
        Asides { ours: count(0), newer: count(1) }
    }

    /// From now on changes are recorded, with nobody inside the gate; or they are not, from each
    /// thread's next turn on.
    pub fn turn(&self, on: bool) {
        self.is_on.store(on, Ordering::SeqCst);
    }

    /// Cuts the stream: what was recorded before is before the cut, what will be after it. With
    /// nobody inside the gate and nothing handed over too late; all steps before have stamps before
    /// `next`. The reader meets the cut with this number.
    pub fn cut(&self, next: Stamp, number: u64) -> Cut {
        let mut cuts = relock(&self.cuts);
        let last = self.outboxes().iter().map(|outbox| outbox.last()).max().unwrap_or_default();
        let time = self.floor.raise(next.time().max(last.time() + 1));
        let cut = Cut { stamp: Stamp::first_of(time), number };
        cuts.push_back(cut);
        drop(cuts);
        self.wake_reader();
        cut
    }

    /// The first cut that was not met yet, if it is not after `until`.
    pub(crate) fn next_cut(&self, until: Stamp) -> Option<Cut> {
        let mut cuts = relock(&self.cuts);
        cuts.front().filter(|cut| cut.stamp <= until)?;
        cuts.pop_front()
    }

    /// Bytes that were handed over and that nobody has done with yet.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting(Ordering::Relaxed)
    }

    /// A fast reader may take bytes off before they have been added: then nothing waits.
    fn waiting(&self, ordering: Ordering) -> usize {
        let bytes = self.waiting_bytes.load(ordering);
        if bytes.cast_signed() < 0 { 0 } else { bytes }
    }

    /// Memory that the journal takes, for what waits and to be used again.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed).max(0).cast_unsigned() as u64
    }

    /// What threads have, and what waits of it.
    pub fn buffers(&self) -> Buffers {
        let outboxes = relock(&self.outboxes);
        let (all, free) = (outboxes.all.clone(), outboxes.free.len());
        drop(outboxes);
        Buffers {
            threads: all.len() - free,
            in_use: all.iter().filter(|outbox| outbox.has_something()).count(),
            most_waiting_bytes: self.most_waiting_bytes.load(Ordering::Relaxed),
            holds_back: self.holds_back.load(Ordering::Relaxed),
        }
    }

    /// So much may wait.
    pub fn limit_waiting(&self, bytes: usize) {
        self.most_waiting_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Whether so much waits that nothing more should be recorded for the moment. Who hears yes is
    /// called when that has changed ([`Journal::calls_held_back`]).
    #[inline]
    pub fn is_full(&self) -> bool {
        self.waiting_bytes() > self.most_waiting_bytes.load(Ordering::Relaxed)
            && self.is_full_for_sure()
    }

    #[cold]
    fn is_full_for_sure(&self) -> bool {
        // First the word that somebody waits, then the look; the reader does both the other way.
        self.holds_back.store(true, Ordering::SeqCst);
        let most = self.most_waiting_bytes.load(Ordering::Relaxed);
        self.waiting(Ordering::SeqCst) > most
    }

    /// Whether somebody was held back who need not be any more; to be asked after
    /// [`crate::Reader::done`].
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

    /// Everything before this stamp is durable; whether somebody waits to hear that.
    pub fn set_durable(&self, upto: Stamp) -> bool {
        let before = self.durable.fetch_max(upto.time(), Ordering::SeqCst);
        before < upto.time() && self.is_awaited.swap(false, Ordering::SeqCst)
    }

    /// Whether a command's reply waits until its step is durable.
    #[inline]
    pub fn holds_replies(&self) -> bool {
        self.holds_replies.load(Ordering::Relaxed)
    }

    /// From now on replies wait, or do not; whether that is new.
    pub fn hold_replies(&self, on: bool) -> bool {
        self.holds_replies.swap(on, Ordering::SeqCst) != on
    }

    /// Whether a step is durable. Who hears no is called when more is
    /// ([`Journal::set_durable`]).
    pub fn is_durable(&self, step: Stamp) -> bool {
        if step.time() < self.durable.load(Ordering::Relaxed) {
            return true;
        }
        // First the word that somebody waits, then the look; the reader does both the other way.
        self.is_awaited.store(true, Ordering::SeqCst);
        step.time() < self.durable.load(Ordering::SeqCst)
    }

    pub(crate) fn given(&self, bytes: usize, held: isize) {
        self.held_bytes.fetch_add(held, Ordering::Relaxed);
        self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        // After the outbox's mutex was free: the reader looks there after it has said that it
        // sleeps, so one of the two sees the other.
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

    /// The calling thread reads from now on.
    pub(crate) fn read_here(&self) {
        let mut reader = self.reader.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *reader = Some(std::thread::current());
    }

    pub(crate) fn set_asleep(&self, is_asleep: bool) {
        self.is_asleep.store(is_asleep, Ordering::SeqCst);
    }
}
