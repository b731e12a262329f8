//! The recorded steps where they outlive the process: one ring per thread, in memory mapped from a
//! file (`Area`).
//!
//! A recorder stores each step in its ring as the step ends, before its partitions are free: what
//! another thread can see and answer is in a ring. When the reader's bytes are in the append-only
//! file it *confirms* that: everything before this stamp is in this many bytes of that file. The
//! rings do not need confirmed steps any more. When the process dies, the next one finds the
//! confirmed position, and in the rings the rest.
//!
//! ```text
//! file:  head | area | area | area ..
//! head:  magic version identity.. areas | slot slot | missed
//! area:  used thread number | entry entry entry ...
//! entry: stamp, kind, words | the bytes of commands, each from a whole word on
//! slot:  number | increment | its bytes | stamp | sum
//! ```
//!
//! A ring is a chain of areas. Steps are stored in the last one; an area that is confirmed is used
//! again, and if none is, the chain grows.
//!
//! Invariants
//! 1. An entry is stored before `used` covers it, and `used` is 0 before an area is used again. A
//!    killed thread has done its stores up to some point of its program, so everything up to `used`
//!    is whole. Of a step that is cut in parts or pieces the last one makes it count.
//! 2. An area is used again only when all its steps are confirmed. The confirmed position is in one
//!    slot while the other is being written.
//! 3. A thread for which there is no area stores in `missed` the first and the last stamp that it
//!    left out, before it frees its partitions. Recovery ends before the first missing stamp, so
//!    the result is a prefix of the journal.
//! 4. Nothing read is trusted: an impossible length ends the reading.
//!
//! Not here: the location of the file, and recovery after a dead process (the server). Tests:
//! `tests`.

mod layout;
mod remains;
mod ring;
#[cfg(all(test, not(loom)))]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, compiler_fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use layout::kind_of;
pub use layout::{AREA_WORDS, HEAD_WORDS, MOST_AREAS};
use layout::{IDENTITY_AT, MAGIC, MISSED_AT, PLACED_AT, SLOT_WORDS, SLOTS_AT, VERSION, sum};
pub use remains::{RingRemains, Unread};
pub(crate) use ring::Ring;

use crate::stamp::Stamp;

/// Memory that outlives the process.
pub type Area = Box<dyn AreaMemory>;

/// The words of an area.
pub trait AreaMemory: AsRef<[AtomicU64]> + Send + Sync {
    /// Copies bytes into the words from number `at` on. What is over in the last word is zero. Not
    /// before stores that precede it in the program, as far as a later process can see.
    ///
    /// # Panics
    /// There are fewer words.
    fn put(&mut self, at: usize, bytes: &[u8]) {
        let places = &(*self).as_ref()[at..][..bytes.len().div_ceil(8)];
        let (words, rest) = bytes.as_chunks::<8>();
        for (place, word) in places.iter().zip(words) {
            place.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            places[words.len()].store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
    }
}

/// Gives areas by their numbers, from 0 on.
pub trait AreaSource: Send + Sync {
    /// An area of [`AREA_WORDS`] words; `None`: there is no room.
    fn place(&self, number: usize) -> Option<Area>;

    /// Gives the memory of an area back; its words are zero when it is placed again.
    fn release(&self, number: usize);
}

/// How many free areas stay placed.
const MOST_SPARE_AREAS: usize = 16;

/// Identifies the owner of rings: machine, run and files.
pub type Identity = [u64; 4];

/// The confirmed position: everything before a stamp is in this many bytes of an increment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConfirmedBytes {
    /// The number of the increment file.
    pub increment: u64,
    /// How many bytes of the file.
    pub bytes: u64,
    /// Steps before this stamp are in the file.
    pub upto: Stamp,
}

/// The rings of all threads and the head with what is confirmed.
pub struct Rings {
    head: Area,
    source: Box<dyn AreaSource>,
    /// How many head slots have been written.
    slots: Mutex<u64>,
    /// The confirmed position, once it is in a slot.
    confirmed: AtomicU64,
    areas: Mutex<FreeAreas>,
    /// How many areas are placed.
    placed: AtomicUsize,
    /// Serialises writes of the head's `missed`.
    missing: Mutex<()>,
    missed: AtomicUsize,
    /// Orders the areas of each thread.
    numbers: AtomicU64,
}

/// The areas that no thread has.
#[derive(Default)]
struct FreeAreas {
    placed: Vec<(usize, Area)>,
    released: Vec<usize>,
    /// The number of the first area that was never placed.
    next: usize,
}

impl fmt::Debug for Rings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Rings").field("missed", &self.missed).finish_non_exhaustive()
    }
}

impl Rings {
    /// Starts with an area of [`HEAD_WORDS`] zeroes.
    pub fn new(head: Area, identity: Identity, source: Box<dyn AreaSource>) -> Rings {
        let words = (*head).as_ref();
        for (at, word) in (IDENTITY_AT..).zip(identity) {
            words[at].store(word, Ordering::Relaxed);
        }
        words[1].store(VERSION, Ordering::Relaxed);
        words[0].store(MAGIC, Ordering::Release);
        Rings {
            head,
            source,
            slots: Mutex::new(0),
            confirmed: AtomicU64::new(0),
            areas: Mutex::default(),
            placed: AtomicUsize::new(0),
            missing: Mutex::new(()),
            missed: AtomicUsize::new(0),
            numbers: AtomicU64::new(0),
        }
    }

    /// Stores that everything recorded before a stamp is in the append-only file.
    pub fn confirm(&self, now: ConfirmedBytes) {
        let mut number = held(&self.slots);
        *number += 1;
        let words = (*self.head).as_ref();
        let at = SLOTS_AT + (*number % 2) as usize * SLOT_WORDS;
        let slot = [*number, now.increment, now.bytes, now.upto.bits()];
        words[at + slot.len()].store(0, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
        for (at, word) in (at..).zip(slot) {
            words[at].store(word, Ordering::Relaxed);
        }
        words[at + slot.len()].store(sum(&slot), Ordering::Release);
        compiler_fence(Ordering::SeqCst);
        self.confirmed.store(now.upto.bits(), Ordering::Release);
    }

    fn confirmed(&self) -> Stamp {
        Stamp::from_bits(self.confirmed.load(Ordering::Acquire))
    }

    /// Bytes of memory that the rings take.
    pub fn bytes(&self) -> usize {
        (HEAD_WORDS + self.placed.load(Ordering::Relaxed) * AREA_WORDS) * size_of::<u64>()
    }

    /// How many steps found no room: those are only as safe as the file.
    pub fn missed(&self) -> usize {
        self.missed.load(Ordering::Relaxed)
    }

    /// Whether everything that is not in the file is in the rings.
    pub fn is_complete(&self) -> bool {
        let _one = held(&self.missing);
        let upto = &(*self.head).as_ref()[MISSED_AT + 1];
        let upto = Stamp::from_bits(upto.load(Ordering::Relaxed));
        upto == Stamp::default() || upto < self.confirmed()
    }

    fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// An area that no thread has; `None`: there is no room.
    fn take_area(&self) -> Option<(usize, Area)> {
        let mut free = held(&self.areas);
        if let Some(area) = free.placed.pop() {
            return Some(area);
        }
        let is_new = free.released.is_empty();
        let number = free.released.last().copied().unwrap_or(free.next);
        let area = if number < MOST_AREAS { self.source.place(number) } else { None }?;
        if is_new {
            free.next += 1;
            (*self.head).as_ref()[PLACED_AT].store(free.next as u64, Ordering::Release);
        } else {
            free.released.pop();
        }
        self.placed.fetch_add(1, Ordering::Relaxed);
        Some((number, area))
    }

    /// Takes back an area, all of which is confirmed.
    fn give_back(&self, number: usize, area: Area) {
        let mut free = held(&self.areas);
        if free.placed.len() < MOST_SPARE_AREAS {
            return free.placed.push((number, area));
        }
        drop(area);
        self.source.release(number);
        free.released.push(number);
        self.placed.fetch_sub(1, Ordering::Relaxed);
    }

    /// Stores that the steps from `first` to `last` are in no ring. The range grows, or starts anew
    /// if the old one is confirmed.
    #[cold]
    fn leave_out(&self, first: Stamp, last: Stamp) {
        self.missed.fetch_add(1, Ordering::Relaxed);
        let _one = held(&self.missing);
        let [from, upto, ..] = &(*self.head).as_ref()[MISSED_AT..] else { return };
        let before = Stamp::from_bits(upto.load(Ordering::Relaxed));
        if before < self.confirmed() || before == Stamp::default() {
            // Nothing is missing at this moment: the last missing step is confirmed.
            from.store(first.bits(), Ordering::Release);
        } else {
            from.fetch_min(first.bits(), Ordering::Release);
        }
        compiler_fence(Ordering::SeqCst);
        upto.store(last.max(before).bits(), Ordering::Release);
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
