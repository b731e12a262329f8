//! The Dash table and its records: where every key of the store lives.
//!
//! ```text
//! Table -- directory (the hash's top bits) -- segment -- bucket -- word --> record (key, value)
//! ```
//!
//! Extendible hashing over small segments (Dash, arXiv 2003.07302). The caller holds a lock around
//! each call, and a key takes few bytes. Differences from the paper: segments grow through the
//! allocator's size classes before they split, the stash shares the header's cache lines, and words
//! keep enough hash bits that neither growing nor most splits read a record.
//!
//! | file | what |
//! |---|---|
//! | `table` | the surface: find, read, change, insert, remove |
//! | `structure` | growing, splitting, shrinking, merging |
//! | `walk` | SCAN, expiry sweep, random record, all records |
//! | `renewal` | moving blocks out of sparse pages |
//! | `evict` | which records are evicted |
//! | `segment` | buckets, stash, displacement |
//! | `directory` | prefix to segment |
//! | `hash`, `word`, `group` | bits of a hash, of a slot, and the SIMD of a bucket head |
//! | `records` | one record, its string, and values that leave the table |
//! | `class` | allocator classes |
//!
//! A lookup that hits touches a directory entry, one bucket (two cache lines) and one record.
//!
//! Not here: locks, hashing, the clock, when to evict, and the collections themselves.
//! Tests: `tests/`, `examples/measure.rs` (bytes and nanoseconds), `fuzz/src/table.rs`.

pub mod class;
mod directory;
mod evict;
mod group;
mod hash;
mod records;
mod renewal;
mod segment;
mod structure;
mod table;
mod walk;
mod word;

use pantala_base::UnixMs;

pub use class::size_class;
pub use evict::{Choice, EvictionClock, EvictionCount, First, MOST_VICTIMS, TableTurn};
pub use records::number::IntText;
pub use records::owned::{DiscardedValue, Encoding, OwnedRecord, StrRef, ValueRef};
pub use records::record::MAX_STRING_BYTES;
pub use records::tail::{CAS_MAX, Tail};
pub use records::text::string_bytes;
pub use renewal::{PARTS_PER_STEP, Renewal, RenewalCursor};
pub use table::{RecordPlace, SegmentFull, Table};
pub use walk::{Cursor, SweepCount, SweepCursor};
pub use word::HOTTEST;

/// A collection that a record holds: 8-byte aligned, at most 64 bytes, moved as bytes.
pub trait Object: Send + 'static {
    /// The type of the collection: 1..=15, constant for its life. 0 is a string.
    fn type_tag(&self) -> u8;

    /// Allocated bytes that it owns, without its own size.
    fn heap_bytes(&self) -> usize;

    /// Reallocates the parts that `renewal` wants, from number `from` on, for `most` parts or a few
    /// more. Returns where to continue, `None` at the end. Parts may get other numbers between two
    /// calls: then some are skipped. The content stays the same.
    fn renew(&mut self, _from: usize, _most: usize, _renewal: &mut Renewal<'_>) -> Option<usize> {
        None
    }
}

/// Whether a record with this deadline has expired: in the millisecond of its deadline it still
/// exists.
#[inline]
pub fn is_expired(deadline: UnixMs, now: UnixMs) -> bool {
    deadline < now
}
