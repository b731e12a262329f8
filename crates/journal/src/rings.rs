//! The recorded steps where they outlive the process: one ring per thread, in memory mapped from a
//! file (`Area`).
//!
//! A recorder hands its steps to the reader, and copies them into its ring before the answers of
//! its turn leave. When the reader's bytes are in the append-only file it *confirms* that:
//! everything before this stamp is in this many bytes of that file. The rings do not need confirmed
//! steps any more. When the process dies, the next one finds the confirmed position, and in the
//! rings the rest.
//!
//! ```text
//! head:  magic version identity.. | slot slot | missed (of threads without a ring)
//! ring:  head tail missed         | entry entry entry ...                  (words, going around)
//! entry: words | pieces, bytes | stamp, end, database and flags of each piece | bytes
//! slot:  number | increment | its bytes | stamp | sum
//! ```
//!
//! Invariants
//! 1. An entry is stored before `head` covers it; `tail` has advanced before an entry's place is
//!    reused. A killed thread has done its stores up to some point of its program, so everything
//!    between `tail` and `head` is whole.
//! 2. `tail` advances only over confirmed entries. The confirmed position is in one slot while the
//!    other is being written.
//! 3. A thread without room in its ring stores in `missed` the first and the last stamp that it
//!    left out, before its answers leave. Recovery ends before the first missing stamp, so the
//!    result is a prefix of the journal.
//! 4. Nothing read is trusted: an impossible length ends the reading.
//!
//! Not here: the location of the file, and recovery after a dead process (the server). Tests: at
//! the foot.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, compiler_fence};
use std::sync::{Arc, Mutex, PoisonError};

use crate::chunk::{Audience, Chunk, Frame, JournalPiece};
use crate::merger::Merger;
use crate::resp::command_bytes;
use crate::stamp::Stamp;

/// Memory that outlives the process.
pub type Area = Box<dyn AsRef<[AtomicU64]> + Send + Sync>;

/// Words of the head area.
pub const HEAD_WORDS: usize = 512;
/// Words of a ring: 1 MB, what a busy thread records in some 25 ms.
pub const RING_WORDS: usize = 128 << 10;
/// How many threads can have a ring: all workers there may be, and the other threads.
pub const MOST_RINGS: usize = 320;

const MAGIC: u64 = u64::from_le_bytes(*b"PantRing");
const VERSION: u64 = 1;

// Words of the head.
const IDENTITY_AT: usize = 2;
const SLOTS_AT: usize = 16;
const SLOT_WORDS: usize = 8;
const LOOSE_AT: usize = 40;
// Words of a ring, before its entries.
const HEAD_AT: usize = 0;
const TAIL_AT: usize = 1;
const MISSED_AT: usize = 2;
const ENTRIES_AT: usize = 8;
// Words of an entry, and of each of its pieces.
const ENTRY_WORDS: usize = 2;
const PIECE_WORDS: usize = 3;

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
    /// Opens the area for the ring with this number.
    place: Box<dyn Fn(usize) -> Option<Area> + Send + Sync>,
    /// How many head slots have been written.
    slots: Mutex<u64>,
    /// The confirmed position, once it is in a slot.
    confirmed: AtomicU64,
    /// Serialises writes of the head's `missed`, by threads without a ring.
    loose: Mutex<()>,
    missed: AtomicUsize,
    placed: AtomicUsize,
}

impl fmt::Debug for Rings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Rings").field("missed", &self.missed).finish_non_exhaustive()
    }
}

impl Rings {
    /// Starts with an area of [`HEAD_WORDS`] zeroes; `place` gives an area of [`RING_WORDS`] zeroes
    /// for the ring with a number.
    pub fn new(
        head: Area,
        identity: Identity,
        place: Box<dyn Fn(usize) -> Option<Area> + Send + Sync>,
    ) -> Rings {
        let words = (*head).as_ref();
        for (at, word) in (IDENTITY_AT..).zip(identity) {
            words[at].store(word, Ordering::Relaxed);
        }
        words[1].store(VERSION, Ordering::Relaxed);
        words[0].store(MAGIC, Ordering::Release);
        Rings {
            head,
            place,
            slots: Mutex::new(0),
            confirmed: AtomicU64::new(0),
            loose: Mutex::new(()),
            missed: AtomicUsize::new(0),
            placed: AtomicUsize::new(0),
        }
    }

    /// Stores that everything recorded before a stamp is in the append-only file.
    pub fn confirm(&self, now: ConfirmedBytes) {
        let mut number = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
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
        (HEAD_WORDS + self.placed.load(Ordering::Relaxed) * RING_WORDS) * size_of::<u64>()
    }

    /// How often a thread found no room: those steps are only as safe as the file.
    pub fn missed(&self) -> usize {
        self.missed.load(Ordering::Relaxed)
    }
}

/// The ring of one thread.
pub(crate) struct Ring {
    rings: Arc<Rings>,
    area: Option<Area>,
    head: u64,
    tail: u64,
    /// The end of each entry in the ring, with its last stamp.
    entries: VecDeque<(u64, Stamp)>,
}

impl fmt::Debug for Ring {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Ring").field("head", &self.head).finish_non_exhaustive()
    }
}

impl Ring {
    /// The ring of this thread, which has recorded up to `last` already.
    pub fn new(rings: &Arc<Rings>, thread: usize, last: Stamp) -> Ring {
        let area = if thread < MOST_RINGS { (rings.place)(thread) } else { None };
        rings.placed.fetch_add(usize::from(area.is_some()), Ordering::Relaxed);
        let (rings, entries) = (Arc::clone(rings), VecDeque::new());
        let mut ring = Ring { rings, area, head: 0, tail: 0, entries };
        if last > Stamp::default() {
            ring.leave_out(Stamp::default(), last);
        }
        ring
    }

    /// Stores steps that are being handed over.
    pub fn put(&mut self, chunk: &Chunk) {
        let (Some(first), Some(last)) = (chunk.pieces.first(), chunk.pieces.last()) else { return };
        let (first, last) = (first.stamp, last.stamp);
        let count = ENTRY_WORDS + PIECE_WORDS * chunk.pieces.len() + chunk.bytes.len().div_ceil(8);
        if self.make_room(count) {
            self.store(chunk, count, last);
        } else {
            self.rings.missed.fetch_add(1, Ordering::Relaxed);
            self.leave_out(first, last);
        }
    }

    /// Frees confirmed entries. Returns whether there is room for this many words.
    fn make_room(&mut self, count: usize) -> bool {
        let Some(area) = &self.area else { return false };
        let words = (**area).as_ref();
        let room = (words.len() - ENTRIES_AT) as u64;
        let (confirmed, before) = (self.rings.confirmed(), self.tail);
        while let Some((end, _)) = self.entries.front().filter(|(_, last)| *last < confirmed) {
            self.tail = *end;
            self.entries.pop_front();
        }
        if self.tail != before {
            words[TAIL_AT].store(self.tail, Ordering::Release);
            compiler_fence(Ordering::SeqCst);
        }
        self.head + count as u64 - self.tail <= room
    }

    fn store(&mut self, chunk: &Chunk, count: usize, last: Stamp) {
        let Some(area) = &self.area else { return };
        let words = (**area).as_ref();
        let mut entry = RingWords { words: &words[ENTRIES_AT..], at: 0 };
        entry.at = (self.head % entry.words.len() as u64) as usize;
        entry.push(count as u64);
        entry.push(chunk.pieces.len() as u64 | (chunk.bytes.len() as u64) << 32);
        for piece in &chunk.pieces {
            entry.push(piece.stamp.bits());
            entry.push(piece.end as u64);
            entry.push(u64::from(piece.db) | flags(piece) << 32);
        }
        entry.push_bytes(&chunk.bytes);
        self.head += count as u64;
        self.entries.push_back((self.head, last));
        words[HEAD_AT].store(self.head, Ordering::Release);
    }

    /// Records that these steps are not in the ring.
    #[cold]
    fn leave_out(&mut self, first: Stamp, last: Stamp) {
        let confirmed = self.rings.confirmed();
        let Some(area) = &self.area else {
            let _one = self.rings.loose.lock().unwrap_or_else(PoisonError::into_inner);
            return miss(&(*self.rings.head).as_ref()[LOOSE_AT..], (first, last), confirmed);
        };
        miss(&(**area).as_ref()[MISSED_AT..], (first, last), confirmed);
    }
}

/// Extends the range of missing stamps, or starts a new one if the old range is confirmed.
fn miss(words: &[AtomicU64], (first, last): (Stamp, Stamp), confirmed: Stamp) {
    let [from, upto, ..] = words else { return };
    let before = Stamp::from_bits(upto.load(Ordering::Relaxed));
    if before < confirmed || before == Stamp::default() {
        // Nothing is missing at this moment: the last missing step is confirmed.
        from.store(first.bits(), Ordering::Release);
    } else {
        from.fetch_min(first.bits(), Ordering::Release);
    }
    compiler_fence(Ordering::SeqCst);
    upto.store(last.max(before).bits(), Ordering::Release);
}

/// A cursor that stores words, wrapping around.
struct RingWords<'r> {
    words: &'r [AtomicU64],
    at: usize,
}

impl RingWords<'_> {
    fn push(&mut self, word: u64) {
        self.words[self.at].store(word, Ordering::Relaxed);
        self.at = if self.at + 1 == self.words.len() { 0 } else { self.at + 1 };
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        let (before, after) = words.split_at(words.len().min(self.words.len() - self.at));
        for part in [before, after] {
            let places = &self.words[self.at..self.at + part.len()];
            for (place, word) in places.iter().zip(part) {
                place.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
            }
            self.at = (self.at + part.len()) % self.words.len();
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.push(u64::from_ne_bytes(word));
        }
    }
}

fn sum(slot: &[u64]) -> u64 {
    slot.iter().fold(MAGIC, |sum, word| sum.rotate_left(7) ^ word)
}

fn flags(piece: &JournalPiece) -> u64 {
    let Frame { begins, ends, is_inside } = piece.frame;
    let bits = [begins, ends, is_inside, piece.audience == Audience::Replicas];
    bits.iter().rev().fold(0, |all, &bit| all << 1 | u64::from(bit))
}

/// What a dead process has left in its rings.
#[derive(Debug, PartialEq, Eq)]
pub struct RingRemains {
    /// The confirmed position.
    pub confirmed: ConfirmedBytes,
    /// The commands after it, framed and with SELECT.
    pub commands: Vec<u8>,
    /// Further steps existed but are incomplete.
    pub is_cut: bool,
}

/// Why nothing can be taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// Nothing was confirmed, or it is of another version, or of another run of the machine.
    Nothing,
    /// It is of this run of the machine, for other files.
    Others,
    /// It is not what was stored.
    Damaged,
}

impl RingRemains {
    /// Reads a file of rings.
    ///
    /// # Errors
    /// It is none of this identity, is damaged, or has nothing to add.
    pub fn read(bytes: &[u8], identity: &Identity) -> Result<RingRemains, Unread> {
        let words: Vec<u64> =
            bytes.as_chunks::<8>().0.iter().map(|w| u64::from_ne_bytes(*w)).collect();
        let (head, rings) = words.split_at_checked(HEAD_WORDS).ok_or(Unread::Nothing)?;
        check_identity(head, identity)?;
        let confirmed = read_slots(head).ok_or(Unread::Nothing)?;
        let (mut merger, upto) = (Merger::default(), confirmed.upto);
        let mut until = missing_from(&head[LOOSE_AT..], upto);
        for (thread, ring) in rings.chunks_exact(RING_WORDS).enumerate() {
            until = until.min(missing_from(&ring[MISSED_AT..], upto));
            let mut add = |chunk| merger.add(thread, chunk);
            read_ring(ring, thread, upto, &mut add).ok_or(Unread::Damaged)?;
        }
        let mut commands = Vec::new();
        merger.take(until, &mut |run| {
            if run.audience.has_files() {
                commands.extend_from_slice(run.bytes);
            }
        });
        Ok(RingRemains { confirmed, commands, is_cut: until != Stamp::LAST })
    }
}

fn check_identity(head: &[u64], identity: &Identity) -> Result<(), Unread> {
    let (found, boot) = (&head[IDENTITY_AT..][..identity.len()], &identity[..2]);
    match head[..2] == [MAGIC, VERSION] && found.starts_with(boot) {
        false => Err(Unread::Nothing),
        true if found != identity => Err(Unread::Others),
        true => Ok(()),
    }
}

/// What was confirmed last.
fn read_slots(head: &[u64]) -> Option<ConfirmedBytes> {
    let slots = (0..2).map(|slot| &head[SLOTS_AT + slot * SLOT_WORDS..][..5]);
    let whole = slots.filter(|slot| slot[0] != 0 && slot[4] == sum(&slot[..4]));
    let slot = whole.max_by_key(|slot| slot[0])?;
    let upto = Stamp::from_bits(slot[3]);
    Some(ConfirmedBytes { increment: slot[1], bytes: slot[2], upto })
}

/// The first missing stamp that is not confirmed.
fn missing_from(words: &[u64], confirmed: Stamp) -> Stamp {
    let (from, upto) = (Stamp::from_bits(words[0]), Stamp::from_bits(words[1]));
    if upto < confirmed || upto == Stamp::default() { Stamp::LAST } else { from }
}

/// Reads the entries of a thread's ring that are not confirmed, in order; `None`: it is damaged.
fn read_ring(
    ring: &[u64],
    thread: usize,
    confirmed: Stamp,
    found: &mut dyn FnMut(Chunk),
) -> Option<()> {
    let (head, mut at, entries) = (ring[HEAD_AT], ring[TAIL_AT], &ring[ENTRIES_AT..]);
    head.checked_sub(at).filter(|used| *used <= entries.len() as u64)?;
    let mut last = Stamp::default();
    while at < head {
        let word = |offset: u64| entries[((at + offset) % entries.len() as u64) as usize];
        let (count, lengths) = (word(0), word(1));
        let (pieces, len) = (lengths & u64::from(u32::MAX), lengths >> 32);
        let wanted = ENTRY_WORDS as u64 + PIECE_WORDS as u64 * pieces + len.div_ceil(8);
        if count != wanted || count > head - at {
            return None;
        }
        let first = ENTRY_WORDS as u64 + PIECE_WORDS as u64 * pieces;
        let bytes = (first..count).flat_map(|offset| word(offset).to_ne_bytes());
        let bytes: Vec<u8> = bytes.take(len as usize).collect();
        let pieces = (0..pieces).map(|piece| ENTRY_WORDS as u64 + PIECE_WORDS as u64 * piece);
        let pieces = pieces.map(|at| read_piece([word(at), word(at + 1), word(at + 2)]));
        let chunk = later_part(&bytes, pieces, confirmed)?;
        // In order, and its own: the merger relies on it.
        for piece in &chunk.pieces {
            let is_next = piece.stamp >= last && piece.stamp.thread() == thread;
            last = is_next.then_some(piece.stamp)?;
        }
        are_commands(&chunk.bytes).then(|| found(chunk))?;
        at += count;
    }
    Some(())
}

/// Whether these are commands, the last one whole.
fn are_commands(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let rest = command_bytes(bytes).and_then(|length| bytes.get(length..));
        let Some(rest) = rest else { return false };
        bytes = rest;
    }
    true
}

fn read_piece([stamp, end, rest]: [u64; 3]) -> JournalPiece {
    let has = |bit: u64| rest >> (32 + bit) & 1 == 1;
    JournalPiece {
        stamp: Stamp::from_bits(stamp),
        end: end as usize,
        db: rest as u32,
        audience: if has(3) { Audience::Replicas } else { Audience::All },
        frame: Frame { begins: has(0), ends: has(1), is_inside: has(2) },
        lasts: false,
    }
}

/// The unconfirmed pieces of an entry; `None`: damaged.
fn later_part(
    bytes: &[u8],
    pieces: impl Iterator<Item = JournalPiece>,
    confirmed: Stamp,
) -> Option<Chunk> {
    let (mut chunk, mut begin) = (Chunk::default(), 0);
    for piece in pieces {
        let part = bytes.get(begin..piece.end)?;
        begin = piece.end;
        if piece.stamp >= confirmed {
            chunk.bytes.extend_from_slice(part);
            chunk.pieces.push(JournalPiece { end: chunk.bytes.len(), ..piece });
        }
    }
    (begin == bytes.len()).then_some(chunk)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use pantala_base::rng::Rng;

    use super::*;
    use crate::{Item, Journal, JournalReader, Recorder};

    const IDENTITY: Identity = [1, 2, 3, 4];

    /// Areas that outlive the tested code, as those of a file do.
    #[derive(Clone)]
    struct Kept(Arc<Vec<Arc<Vec<AtomicU64>>>>);

    struct Part(Arc<Vec<AtomicU64>>);

    impl AsRef<[AtomicU64]> for Part {
        fn as_ref(&self) -> &[AtomicU64] {
            &self.0
        }
    }

    impl Kept {
        fn new(rings: usize) -> Kept {
            let area = |count| Arc::new((0..count).map(|_| AtomicU64::new(0)).collect());
            let all = std::iter::once(HEAD_WORDS).chain(std::iter::repeat_n(RING_WORDS, rings));
            Kept(Arc::new(all.map(area).collect()))
        }

        fn rings(&self) -> Arc<Rings> {
            let part = |one: &Arc<Vec<AtomicU64>>| -> Area { Box::new(Part(Arc::clone(one))) };
            let all = self.clone();
            let place = move |number: usize| all.0.get(number + 1).map(part);
            Arc::new(Rings::new(part(&self.0[0]), IDENTITY, Box::new(place)))
        }

        fn bytes(&self) -> Vec<u8> {
            let words = self.0.iter().flat_map(|area| area.iter());
            words.flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect()
        }

        /// What would be left if the process died now, in words, and whether that is incomplete.
        fn left(&self) -> Option<(String, bool)> {
            let remains = RingRemains::read(&self.bytes(), &IDENTITY).ok()?;
            Some((words(&remains.commands), remains.is_cut))
        }
    }

    fn words(bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes);
        let words = text.split("\r\n").filter(|word| !word.starts_with(['*', '$']));
        words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }

    fn step(recorder: &Recorder, seen: Stamp, commands: &[&str]) -> Stamp {
        commands.iter().for_each(|word| recorder.record(0, &[word.as_bytes()]));
        let stamp = recorder.end_step(seen);
        recorder.hand_over();
        stamp
    }

    fn confirm(rings: &Rings, upto: Stamp) {
        rings.confirm(ConfirmedBytes { increment: 1, bytes: 10, upto });
    }

    #[test]
    fn what_was_handed_over_and_not_confirmed_is_left() {
        let (kept, journal) = (Kept::new(2), Arc::new(Journal::with_clock(|| 0)));
        let (one, rings) = (journal.join(), kept.rings());
        journal.keep_in(Some(Arc::clone(&rings)));
        let two = journal.join();
        let a = step(&one, Stamp::first_of(5), &["a"]);
        assert_eq!(kept.left(), None, "nothing is confirmed");
        let b = step(&two, a, &["b", "c"]);
        step(&one, b, &["d"]);
        two.record_for_replicas(0, &[b"p"]);
        two.end_step(Stamp::first_of(9));
        two.hand_over();
        confirm(&rings, a);
        let all = ("SELECT 0 a MULTI b c EXEC d".to_owned(), false);
        assert_eq!(kept.left(), Some(all));
        confirm(&rings, b);
        assert_eq!(kept.left(), Some(("MULTI SELECT 0 b c EXEC d".to_owned(), false)));
        confirm(&rings, Stamp::first_of(20));
        assert_eq!(kept.left(), Some((String::new(), false)));
        assert_eq!(rings.missed(), 0);
    }

    #[test]
    fn a_ring_goes_around_and_tells_what_it_has_no_room_for() {
        let (kept, journal) = (Kept::new(2), Arc::new(Journal::with_clock(|| 0)));
        let (rings, long) = (kept.rings(), "x".repeat(300 << 10));
        journal.keep_in(Some(Arc::clone(&rings)));
        let (one, two) = (journal.join(), journal.join());
        let mut reader = JournalReader::new(Arc::clone(&journal), 0);
        for round in 1..20 {
            let seen = Stamp::first_of(round * 10);
            let last = step(&one, step(&one, seen, &[&long]), &["y"]);
            let left = RingRemains::read(&kept.bytes(), &IDENTITY);
            let found = left.map_or(true, |left| words(&left.commands).ends_with("x y"));
            assert!(found && rings.missed() == 0, "round {round}");
            confirm(&rings, Stamp::first_of(last.time() + 1));
        }
        let mut last = Stamp::first_of(1000);
        for number in 0..5 {
            last = step(&one, last, &[&long]);
            last = step(&two, Stamp::first_of(last.time() + 1), &[&number.to_string()]);
        }
        assert!(rings.missed() > 0);
        let (left, is_cut) = kept.left().expect("something was confirmed");
        assert!(
            is_cut && left.ends_with("x 2") && !left.contains("x 3"),
            "a part to its beginning"
        );
        // The missing steps are confirmed: everything after them counts again.
        confirm(&rings, Stamp::first_of(last.time() + 1));
        step(&one, Stamp::first_of(last.time() + 2), &["z"]);
        assert_eq!(kept.left(), Some(("SELECT 0 z".to_owned(), false)));
        reader.take_all(&mut |_: Item<'_>| {});
    }

    #[test]
    fn what_has_no_ring_is_missing_until_it_is_confirmed() {
        let (kept, journal) = (Kept::new(1), Arc::new(Journal::with_clock(|| 0)));
        let (one, two) = (journal.join(), journal.join());
        let before = step(&one, Stamp::first_of(5), &["before"]);
        let rings = kept.rings();
        journal.keep_in(Some(Arc::clone(&rings)));
        confirm(&rings, before);
        let a = step(&one, before, &["a"]);
        assert_eq!(kept.left(), Some((String::new(), true)), "not without what came before");
        confirm(&rings, Stamp::first_of(before.time() + 1));
        let a = step(&one, Stamp::first_of(a.time() + 1), &["b"]);
        let lost = step(&two, a, &["lost"]);
        step(&one, lost, &["c"]);
        assert_eq!(kept.left(), Some(("SELECT 0 b".to_owned(), true)));
        confirm(&rings, Stamp::first_of(lost.time() + 1));
        step(&one, Stamp::first_of(lost.time() + 1), &["d"]);
        assert_eq!(kept.left(), Some(("SELECT 0 c d".to_owned(), false)), "c met what was lost");
    }

    #[test]
    fn what_is_torn_damaged_or_of_others_is_not_read() {
        let (kept, journal) = (Kept::new(1), Arc::new(Journal::with_clock(|| 0)));
        let rings = kept.rings();
        journal.keep_in(Some(Arc::clone(&rings)));
        let one = journal.join();
        confirm(&rings, Stamp::first_of(1));
        step(&one, Stamp::first_of(5), &["a"]);
        let good = kept.bytes();
        assert_eq!(RingRemains::read(&good, &[1, 2, 3, 5]), Err(Unread::Others));
        assert_eq!(RingRemains::read(&good, &[1, 5, 3, 4]), Err(Unread::Nothing));
        assert_eq!(RingRemains::read(&good[..100], &IDENTITY), Err(Unread::Nothing));
        // Killed while it wrote the second slot: the first one holds.
        let mut torn = good.clone();
        let slot = (SLOTS_AT + SLOT_WORDS - SLOT_WORDS) * 8;
        torn[slot..slot + 8].copy_from_slice(&9u64.to_ne_bytes());
        assert_eq!(RingRemains::read(&torn, &IDENTITY), RingRemains::read(&good, &IDENTITY));
        // An entry that `head` does not cover is not there.
        let mut early = good.clone();
        early[HEAD_WORDS * 8..][..8].fill(0);
        assert_eq!(words(&RingRemains::read(&early, &IDENTITY).expect("read").commands), "");
        // No changed byte makes it read what is not there, or panic.
        for at in 0..HEAD_WORDS * 8 + 200 {
            let mut other = good.clone();
            other[at] ^= 0x41;
            let _whatever = RingRemains::read(&other, &IDENTITY);
        }
    }

    /// Some entries of two threads, of all kinds.
    fn filled() -> Vec<u8> {
        let (kept, journal) = (Kept::new(2), Arc::new(Journal::with_clock(|| 0)));
        let rings = kept.rings();
        journal.keep_in(Some(Arc::clone(&rings)));
        let threads = [journal.join(), journal.join()];
        confirm(&rings, Stamp::first_of(1));
        for round in 0..6 {
            let one = &threads[round % 2];
            step(one, Stamp::first_of(5 + round as u64), &["a", "bc"][..1 + round % 2]);
        }
        kept.bytes()
    }

    #[test]
    fn whatever_words_are_there_it_ends_and_gives_whole_commands() {
        let (good, mut random) = (filled(), Rng::from_seed(7));
        // Words that mean something: of the head, of what rings begin with, of entries.
        let ring = |number: usize| HEAD_WORDS + number * RING_WORDS;
        let places: Vec<usize> = [0, ring(0), ring(1)].iter().flat_map(|at| *at..at + 60).collect();
        let (mut read, mut damaged) = (0, 0);
        for _ in 0..2000 {
            let mut other = good.clone();
            for _ in 0..=random.below(3) {
                let at = 8 * places[random.below(places.len() as u64) as usize];
                let from = 8 * places[random.below(places.len() as u64) as usize];
                let word = match random.below(4) {
                    0 => random.below(u64::MAX),
                    1 => random.below(40),
                    2 => u64::MAX - random.below(3),
                    _ => u64::from_ne_bytes(good[from..from + 8].try_into().expect("eight")),
                };
                other[at..at + 8].copy_from_slice(&word.to_ne_bytes());
            }
            match RingRemains::read(&other, &IDENTITY) {
                Ok(remains) => {
                    read += 1;
                    assert!(are_commands(&remains.commands));
                }
                Err(unread) => damaged += usize::from(unread == Unread::Damaged),
            }
        }
        assert!(read > 0 && damaged > 0, "{read} were read, {damaged} were damaged");
    }

    #[test]
    fn stamps_of_other_threads_or_out_of_order_are_damage() {
        let good = filled();
        let stamp_at =
            |ring: usize| 8 * (HEAD_WORDS + ring * RING_WORDS + ENTRIES_AT + ENTRY_WORDS);
        let (first, second) = (stamp_at(0), stamp_at(1));
        let mut twins = good.clone();
        twins.copy_within(second..second + 8, first);
        assert_eq!(RingRemains::read(&twins, &IDENTITY), Err(Unread::Damaged));
        let mut late = good.clone();
        late[first..first + 8].copy_from_slice(&Stamp::first_of(90).bits().to_ne_bytes());
        assert_eq!(RingRemains::read(&late, &IDENTITY), Err(Unread::Damaged));
    }
}
