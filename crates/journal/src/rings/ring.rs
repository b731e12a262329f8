//! One thread's ring: a chain of areas that steps are stored in as they end.
//!
//! Tests: `rings`.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use super::layout::{
    AREA_WORDS, CONTINUES, ENTRIES_AT, ENTRY_WORDS, LENGTH_AT, NUMBER_AT, OWNER_AT, USED_AT,
    kind_of,
};
use super::{Area, Rings};
use crate::chunk::JournalPiece;
use crate::stamp::Stamp;

/// A part of a step that is cut in parts has at least this many words.
const LEAST_PART_WORDS: usize = 512;
const _: () =
    assert!(ENTRIES_AT + ENTRY_WORDS + LEAST_PART_WORDS <= AREA_WORDS, "an area has a part");

/// Longer commands are not staged: they may have to be copied once more.
const MOST_STAGED_BYTES: usize = 4 << 10;
const _: () = assert!(MOST_STAGED_BYTES / 8 <= AREA_WORDS, "an area has room for it");

/// The ring of one thread.
pub(crate) struct Ring {
    rings: Arc<Rings>,
    thread: usize,
    /// Oldest first. Steps go into the last one.
    areas: VecDeque<HeldArea>,
    /// Words of the last area's entries that are in use, `USED_AT` of them visible.
    used: usize,
    /// The entry at the end of the last area, which may grow.
    open: Option<OpenEntry>,
    /// How many bytes of the step that has not ended lie behind the last entry ([`Ring::stage`]).
    staged: usize,
    /// What was confirmed when no area was to be had: until more is there is none.
    refused_at: Option<Stamp>,
}

struct HeldArea {
    number: usize,
    area: Area,
    /// The stamp of its last step.
    last: Stamp,
}

/// An entry whose length is not stored yet.
#[derive(Clone, Copy)]
struct OpenEntry {
    at: usize,
    stamp: Stamp,
    kind: u64,
}

impl fmt::Debug for Ring {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Ring").field("areas", &self.areas.len()).finish_non_exhaustive()
    }
}

impl Ring {
    /// The ring of this thread, which has recorded up to `last` already.
    pub fn new(rings: &Arc<Rings>, thread: usize, last: Stamp) -> Ring {
        if last > Stamp::default() {
            rings.leave_out(Stamp::default(), last);
        }
        let (rings, areas) = (Arc::clone(rings), VecDeque::new());
        Ring { rings, thread, areas, used: 0, open: None, staged: 0, refused_at: None }
    }

    /// Frees what was confirmed since the last turn, so that a thread whose steps are written soon
    /// uses the same few cache lines again.
    pub fn begin_turn(&mut self) {
        let confirmed = self.rings.confirmed();
        let Some(last) = self.areas.back() else { return };
        if last.last < confirmed && self.used > 0 {
            (self.used, self.open) = (0, None);
            self.words()[USED_AT].store(0, Ordering::Release);
            // No entry is changed before.
            compiler_fence(Ordering::SeqCst);
        }
        while self.areas.len() > 1
            && let Some(first) = self.areas.pop_front_if(|first| first.last < confirmed)
        {
            self.rings.give_back(first.number, first.area);
        }
    }

    /// Copies the only command of a step that has not ended to where it will most likely be stored:
    /// behind the last step of the same turn. Its bytes come from what the client has sent, since
    /// those that the thread has just written elsewhere are not in its cache yet.
    #[inline]
    pub fn stage(&mut self, kind: u64, bytes: &[u8]) {
        let (used, count) = (self.used, bytes.len().div_ceil(8));
        self.staged = 0;
        if self.open.is_some_and(|open| open.kind == kind)
            && bytes.len() <= MOST_STAGED_BYTES
            && ENTRIES_AT + used + count <= AREA_WORDS
            && let Some(last) = self.areas.back_mut()
        {
            last.area.put(ENTRIES_AT + used, bytes);
            self.staged = bytes.len();
        }
    }

    /// Forgets what was staged: the step is something else.
    #[inline]
    pub fn unstage(&mut self) {
        self.staged = 0;
    }

    /// Stores the pieces of a step that has ended; their bytes begin at `begin`.
    pub fn store_step(&mut self, pieces: &[JournalPiece], bytes: &[u8], mut begin: usize) {
        let [first, ..] = pieces else { return };
        debug_assert!(pieces.iter().all(|piece| piece.stamp == first.stamp), "it is one step");
        let staged = std::mem::take(&mut self.staged);
        for piece in pieces {
            debug_assert!(begin <= piece.end && piece.end <= bytes.len(), "its bytes are these");
            let part = &bytes[begin..piece.end];
            begin = piece.end;
            if !self.store_piece(piece, part, staged) {
                return self.leave_out(first.stamp);
            }
        }
        self.publish();
    }

    #[inline]
    fn store_piece(&mut self, piece: &JournalPiece, bytes: &[u8], staged: usize) -> bool {
        let (kind, count) = (kind_of(piece), bytes.len().div_ceil(8));
        let is_more = self.open.is_some_and(|open| {
            (open.stamp, open.kind) == (piece.stamp, kind) && !piece.frame.is_inside
        });
        if is_more && staged == bytes.len() {
            self.used += count;
            debug_assert!(ENTRIES_AT + self.used <= AREA_WORDS, "there was room to stage it");
            return true;
        }
        let needs = if is_more { count } else { ENTRY_WORDS + count };
        if self.areas.is_empty() || ENTRIES_AT + self.used + needs > AREA_WORDS {
            return self.store_in_parts(piece, bytes);
        }
        if !is_more {
            self.begin_entry(piece.stamp, kind);
        }
        self.push_bytes(bytes);
        true
    }

    /// Stores a piece for which the last area has no room: in a new one, or cut.
    #[cold]
    fn store_in_parts(&mut self, piece: &JournalPiece, mut bytes: &[u8]) -> bool {
        loop {
            let left = self.words().len().saturating_sub(ENTRIES_AT + self.used);
            let room = left.saturating_sub(ENTRY_WORDS);
            if bytes.len().div_ceil(8) <= room {
                self.begin_entry(piece.stamp, kind_of(piece));
                self.push_bytes(bytes);
                return true;
            }
            if room >= LEAST_PART_WORDS {
                let (part, rest) = bytes.split_at(room * 8);
                self.begin_entry(piece.stamp, kind_of(piece) | CONTINUES);
                self.push_bytes(part);
                bytes = rest;
            }
            if !self.begin_area(piece.stamp) {
                return false;
            }
        }
    }

    fn begin_entry(&mut self, stamp: Stamp, kind: u64) {
        self.close_entry();
        let at = self.used;
        debug_assert!(ENTRIES_AT + at + ENTRY_WORDS <= AREA_WORDS, "there is room");
        let entries = &self.words()[ENTRIES_AT..];
        for (place, word) in entries[at..].iter().zip([stamp.bits(), kind, 0]) {
            place.store(word, Ordering::Relaxed);
        }
        self.used = at + ENTRY_WORDS;
        self.open = Some(OpenEntry { at, stamp, kind });
    }

    fn close_entry(&mut self) {
        if let Some(open) = self.open.take() {
            debug_assert!(open.at + ENTRY_WORDS <= self.used, "its head is stored");
            let length = self.used - open.at - ENTRY_WORDS;
            self.words()[ENTRIES_AT + open.at + LENGTH_AT].store(length as u64, Ordering::Relaxed);
        }
    }

    /// Stores bytes in whole words; what is over in the last one is zero.
    #[inline]
    fn push_bytes(&mut self, bytes: &[u8]) {
        if let Some(last) = self.areas.back_mut() {
            last.area.put(ENTRIES_AT + self.used, bytes);
            self.used += bytes.len().div_ceil(8);
            debug_assert!(ENTRIES_AT + self.used <= AREA_WORDS, "there was room");
        }
    }

    /// Makes everything stored so far part of what the next start finds.
    #[inline]
    fn publish(&mut self) {
        let (used, open) = (self.used, self.open);
        if let (Some(last), Some(open)) = (self.areas.back_mut(), open) {
            debug_assert!(last.last <= open.stamp, "a thread's stamps never fall");
            last.last = open.stamp;
            (*last.area).as_ref()[USED_AT].store(used as u64, Ordering::Release);
        }
    }

    /// Goes on in another area, in the middle of a step: one that is confirmed, or a new one.
    fn begin_area(&mut self, step: Stamp) -> bool {
        self.close_entry();
        let (used, number) = (self.used, self.rings.next_number());
        if let Some(last) = self.areas.back_mut() {
            (*last.area).as_ref()[USED_AT].store(used as u64, Ordering::Release);
            last.last = step;
        }
        let confirmed = self.rings.confirmed();
        let free = self.areas.pop_front_if(|first| first.last < confirmed);
        let free = free.map(|held| (held.number, held.area));
        let is_refused = || self.refused_at == Some(confirmed);
        let taken = || if is_refused() { None } else { self.rings.take_area() };
        let Some((place, area)) = free.or_else(taken) else {
            self.refused_at = Some(confirmed);
            return false;
        };
        debug_assert!(self.areas.iter().all(|held| held.number != place), "nobody has it");
        self.areas.push_back(HeldArea { number: place, area, last: Stamp::default() });
        self.used = 0;
        let words = self.words();
        words[USED_AT].store(0, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
        words[OWNER_AT].store(self.thread as u64 + 1, Ordering::Relaxed);
        words[NUMBER_AT].store(number, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
        true
    }

    fn words(&self) -> &[AtomicU64] {
        self.areas.back().map_or(&[], |last| (*last.area).as_ref())
    }

    /// Notes that a step is not in the ring, and drops what is stored of it.
    #[cold]
    fn leave_out(&mut self, step: Stamp) {
        self.rings.leave_out(step, step);
        let visible = self.words().first().map_or(0, |used| used.load(Ordering::Relaxed));
        debug_assert!(
            ENTRIES_AT as u64 + visible <= AREA_WORDS as u64,
            "what is visible is stored"
        );
        (self.used, self.open) = (visible as usize, None);
    }
}
