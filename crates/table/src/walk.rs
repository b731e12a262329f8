//! Walks over a table: SCAN, the expiry sweep, a random record, all records.
//!
//! SCAN visits the home buckets in the order of (directory prefix, position). Both are bits of the
//! key's hash, so growing and splitting do not change the order, and "everything before the cursor
//! has been emitted" stays true. A merge would put keys of the second half before the cursor: so
//! the cursor stores the depth it saw, and a segment that has become shallower is restarted. So
//! every key that exists from the first call to the last is emitted at least once.
//!
//! Tests: `tests/scan.rs`.

use pantala_base::UnixMs;

use crate::directory::{Entry, segment_prefix};
use crate::hash::{POSITIONS, PREFIX_BITS, position};
use crate::records::owned::OwnedRecord;
use crate::segment::{MOST_SLOTS, Segment, first_position, home_of};
use crate::{Object, RecordPlace, Table};

/// The position of a scan: prefix (28 bits), depth (5 bits) and position (16 bits), in the low 49
/// bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(u64);

const POSITION_AT: u32 = 0;
const DEPTH_AT: u32 = 16;
const PREFIX_AT: u32 = 21;
const _: () = assert!(Cursor::BITS < 64, "the end is none of them");
const _: () = assert!(POSITIONS.ilog2() <= DEPTH_AT && PREFIX_BITS < 1 << (PREFIX_AT - DEPTH_AT));

impl Cursor {
    /// How many bits a cursor has as a number.
    pub const BITS: u32 = PREFIX_AT + PREFIX_BITS;
    /// The start of a scan.
    pub const START: Cursor = Cursor(0);
    const END: Cursor = Cursor(u64::MAX);

    fn new(prefix: u32, depth: u32, position: u32) -> Cursor {
        debug_assert!(prefix < 1 << PREFIX_BITS && depth <= PREFIX_BITS && position < POSITIONS);
        debug_assert_eq!(aligned(prefix, depth), prefix, "it is a segment's");
        Cursor(
            u64::from(prefix) << PREFIX_AT
                | u64::from(depth) << DEPTH_AT
                | u64::from(position) << POSITION_AT,
        )
    }

    /// The cursor at the segment after the segment with this prefix and depth.
    fn behind(directory_entry: impl Fn(u32) -> Entry, prefix: u32, depth: u32) -> Cursor {
        match prefix.checked_add(1 << (PREFIX_BITS - depth)) {
            Some(next) if next < 1 << PREFIX_BITS => {
                Cursor::new(next, directory_entry(next).depth(), 0)
            }
            _ => Cursor::END,
        }
    }

    /// Whether the scan is over.
    pub fn is_end(self) -> bool {
        self == Cursor::END
    }

    /// The cursor as a number below 2^[`Cursor::BITS`]; not for a finished scan.
    pub fn to_bits(self) -> u64 {
        debug_assert!(!self.is_end());
        self.0
    }

    /// The cursor from a number, which a client may have made up: any value is safe to use.
    pub fn from_bits(bits: u64) -> Cursor {
        Cursor(bits & ((1 << Self::BITS) - 1))
    }

    fn prefix(self) -> u32 {
        (self.0 >> PREFIX_AT) as u32 & ((1 << PREFIX_BITS) - 1)
    }

    fn depth(self) -> u32 {
        (self.0 >> DEPTH_AT) as u32 & 31
    }

    fn position(self) -> u32 {
        (self.0 >> POSITION_AT) as u32 & (POSITIONS - 1)
    }
}

/// The position of an expiry sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepCursor(u32);

impl SweepCursor {
    /// The start of a sweep.
    pub const START: SweepCursor = SweepCursor(0);
}

/// The result of one part of a sweep.
#[derive(Clone, Copy, Debug)]
pub struct SweepCount {
    /// Where to continue; `None` when the table's end was reached.
    pub next: Option<SweepCursor>,
    /// Records whose deadline was read.
    pub visited: usize,
    /// Expired records that were handed out.
    pub expired: usize,
    /// The earliest deadline among the visited records that stay.
    pub earliest: Option<UnixMs>,
}

/// How often `random` tries an empty slot before it takes the next record it finds.
const RANDOM_TRIES: usize = 64;

impl<O: Object> Table<O> {
    /// Emits the records of one home bucket and returns where to continue.
    pub fn scan(&self, cursor: Cursor, emit: &mut dyn FnMut(RecordPlace)) -> Cursor {
        let entry = self.directory.entry_of_prefix(cursor.prefix());
        if cursor.is_end() || entry.is_empty() {
            return Cursor::END;
        }
        let (segment, depth) = (entry.segment(), entry.depth());
        let prefix = aligned(cursor.prefix(), depth);
        let restarted = depth < cursor.depth() || prefix != cursor.prefix();
        let from = if restarted { 0 } else { cursor.position() };
        let home = home_of(from as u16, segment.homes());
        segment.for_home(home, |slot| emit(self.place(slot, segment.header())));
        self.emit_strays(prefix, segment, Some(home), emit);
        let next = first_position(home + 1, segment.homes());
        if next < POSITIONS {
            return Cursor::new(prefix, depth, next);
        }
        Cursor::behind(|prefix| self.directory.entry_of_prefix(prefix), prefix, depth)
    }

    fn emit_strays(
        &self,
        prefix: u32,
        segment: Segment,
        home: Option<usize>,
        emit: &mut dyn FnMut(RecordPlace),
    ) {
        for stray in self.strays.iter().flat_map(|strays| strays.iter()) {
            let of = home_of(position(stray.hash), segment.homes());
            if segment_prefix(stray.hash, segment.depth()) == prefix
                && home.is_none_or(|home| home == of)
            {
                let slot = std::ptr::from_ref(&stray.word).cast_mut();
                emit(self.place(slot, std::ptr::null_mut()));
            }
        }
    }

    /// Calls `each` with every record.
    pub fn for_each(&self, each: &mut dyn FnMut(RecordPlace)) {
        self.directory.for_each(|prefix, segment| {
            segment.for_each(|slot| each(self.place(slot, segment.header())));
            self.emit_strays(prefix, segment, None, each);
        });
    }

    /// Hands out expired records, segment by segment, until about `max_records` deadlines were read
    /// (a segment is always finished). Only records with a deadline are touched. The caller calls
    /// [`Table::tidy_after_remove`] for the keys it was given, as after any removal.
    pub fn sweep(
        &mut self,
        at: SweepCursor,
        now: UnixMs,
        max_records: usize,
        out: &mut dyn FnMut(OwnedRecord<O>),
    ) -> SweepCount {
        let mut swept = SweepCount { next: Some(at), visited: 0, expired: 0, earliest: None };
        if at == SweepCursor::START {
            self.sweep_strays(now, &mut swept, out);
        }
        while let Some(SweepCursor(prefix)) = swept.next {
            let entry = self.directory.entry_of_prefix(prefix);
            if entry.is_empty() || self.deadlines == 0 {
                swept.next = None;
                break;
            }
            let segment = entry.segment();
            if segment.deadlines() > 0 {
                let expired = self.expire_segment(segment, now, out);
                swept.visited += expired.seen;
                swept.expired += expired.removed;
                swept.earliest = earlier(swept.earliest, expired.earliest);
            }
            let next = aligned(prefix, entry.depth()) + (1 << (PREFIX_BITS - entry.depth()));
            swept.next = (next < 1 << PREFIX_BITS).then_some(SweepCursor(next));
            // Checked after a segment, so that every call makes progress.
            if swept.visited >= max_records {
                break;
            }
        }
        debug_assert!(swept.expired <= swept.visited, "expired ones were looked at");
        swept
    }

    fn sweep_strays(
        &mut self,
        now: UnixMs,
        swept: &mut SweepCount,
        out: &mut dyn FnMut(OwnedRecord<O>),
    ) {
        let Some(mut strays) = self.strays.take() else {
            return;
        };
        self.outdate_places();
        strays.retain(|stray| {
            // SAFETY: T1: a stray's word owns a live record.
            let Some(deadline) =
                unsafe { crate::records::record::Record::of(stray.word) }.deadline()
            else {
                return true;
            };
            swept.visited += 1;
            if crate::is_expired(deadline, now) {
                swept.expired += 1;
                out(self.disown(stray.word));
                return false;
            }
            swept.earliest = earlier(swept.earliest, Some(deadline));
            true
        });
        self.strays = (!strays.is_empty()).then_some(strays);
    }

    /// A random record, near-uniformly: a random slot of a random segment, tried again when it is
    /// empty. Shallow segments are drawn more often, so each of their slots is accepted more
    /// rarely.
    pub fn random(&self, random: &mut dyn FnMut() -> u64) -> Option<RecordPlace> {
        if self.len == 0 {
            return None;
        }
        if let Some(strays) = &self.strays {
            let pick = below(random(), self.len);
            if let Some(stray) = strays.get(pick) {
                let slot = std::ptr::from_ref(&stray.word).cast_mut();
                return Some(self.place(slot, std::ptr::null_mut()));
            }
        }
        let span = if self.directory.depth() == 0 {
            usize::from(self.directory.entry(0).segment().shape().slots)
        } else {
            MOST_SLOTS
        };
        for _ in 0..RANDOM_TRIES {
            let entry = self.directory.entry(random());
            let (segment, draw) = (entry.segment(), random());
            // A segment with 2^k entries is drawn 2^k times too often, so each of its slots is
            // accepted 2^k times more rarely.
            debug_assert!(entry.depth() <= self.directory.depth(), "D3: no segment is deeper");
            let spread = self.directory.depth() - entry.depth();
            let number = below(draw, span << spread);
            if number >= span {
                continue;
            }
            if number < usize::from(segment.shape().slots)
                && let Some(slot) = segment.slot(number)
            {
                return Some(self.place(slot, segment.header()));
            }
        }
        self.first_from(random())
    }

    /// The first record at or after a random prefix.
    fn first_from(&self, hash: u64) -> Option<RecordPlace> {
        let begin = segment_prefix(hash, PREFIX_BITS);
        let (mut behind, mut before) = (None, None);
        self.directory.for_each(|prefix, segment| {
            let found = if prefix >= begin { &mut behind } else { &mut before };
            if found.is_none() && segment.count() > 0 {
                segment.for_each(|slot| *found = Some(self.place(slot, segment.header())));
            }
        });
        behind.or(before)
    }
}

fn aligned(prefix: u32, depth: u32) -> u32 {
    let unused = PREFIX_BITS - depth;
    prefix >> unused << unused
}

fn earlier(a: Option<UnixMs>, b: Option<UnixMs>) -> Option<UnixMs> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// A number below `bound` from 64 random bits.
fn below(random: u64, bound: usize) -> usize {
    ((u128::from(random) * bound as u128) >> 64) as usize
}
