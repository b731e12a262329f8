//! Where things lie in the head, in an area and in an entry, in words of 64 bits.
//!
//! Tests: `rings`.

use super::Identity;
use crate::chunk::{Audience, Frame, JournalPiece};
use crate::stamp::Stamp;

/// Words of the head.
pub const HEAD_WORDS: usize = 512;
/// Words of an area: 256 KB.
pub const AREA_WORDS: usize = 32 << 10;
/// How many areas there are at most: one for every thread, and what they record while the disk
/// does not respond, until the journal holds writers back.
pub const MOST_AREAS: usize = 2_048;

pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"PantRing");
pub(super) const VERSION: u64 = 2;

// The head.
pub(super) const IDENTITY_AT: usize = 2;
/// How many areas there are behind the head.
pub(super) const PLACED_AT: usize = IDENTITY_AT + size_of::<Identity>() / 8;
pub(super) const SLOTS_AT: usize = 16;
pub(super) const SLOT_WORDS: usize = 8;
pub(super) const MISSED_AT: usize = 40;

// An area, before its entries.
/// How many words of entries count.
pub(super) const USED_AT: usize = 0;
/// The number of the thread, plus one.
pub(super) const OWNER_AT: usize = 1;
/// Orders the areas of a thread.
pub(super) const NUMBER_AT: usize = 2;
pub(super) const ENTRIES_AT: usize = 8;

// An entry, before its bytes: its stamp, its kind, and its words of bytes. These are 0 for the last
// entry of an area, which ends where the area does.
pub(super) const KIND_AT: usize = 1;
pub(super) const LENGTH_AT: usize = 2;
pub(super) const ENTRY_WORDS: usize = 3;

const _: () = {
    assert!(PLACED_AT < SLOTS_AT, "the identity ends before the slots");
    assert!(SLOTS_AT + 2 * SLOT_WORDS <= MISSED_AT, "both slots end before what was missed");
    assert!(SLOT_WORDS >= 5, "a slot has its number, position, stamp and sum");
    assert!(MISSED_AT + 2 <= HEAD_WORDS, "the head has all of it");
    assert!((HEAD_WORDS * 8).is_multiple_of(4096), "it is whole pages");
    assert!((AREA_WORDS * 8).is_multiple_of(4096), "it is whole pages");
    assert!(USED_AT < ENTRIES_AT && OWNER_AT < ENTRIES_AT && NUMBER_AT < ENTRIES_AT);
    assert!(KIND_AT < ENTRY_WORDS && LENGTH_AT < ENTRY_WORDS, "an entry's words are its own");
    assert!(CONTINUES >> 32 > 0xf, "it is none of the bits of a frame and an audience");
};

/// Bit of a kind: the next entry has more bytes of this piece.
pub(super) const CONTINUES: u64 = 1 << 36;

/// The database, frame and audience of a piece as a word.
pub(crate) fn kind_of(piece: &JournalPiece) -> u64 {
    let Frame { begins, ends, is_inside } = piece.frame;
    let bits = [begins, ends, is_inside, piece.audience == Audience::Replicas];
    let bits = bits.iter().rev().fold(0, |all, &bit| all << 1 | u64::from(bit));
    u64::from(piece.db) | bits << 32
}

/// The piece with this stamp and kind. Its end is not known.
pub(super) fn piece_of(stamp: Stamp, kind: u64) -> JournalPiece {
    let has = |bit: u64| kind >> (32 + bit) & 1 == 1;
    JournalPiece {
        stamp,
        end: 0,
        db: kind as u32,
        audience: if has(3) { Audience::Replicas } else { Audience::All },
        frame: Frame { begins: has(0), ends: has(1), is_inside: has(2) },
        lasts: false,
    }
}

/// The sum of a slot's words.
pub(super) fn sum(slot: &[u64]) -> u64 {
    slot.iter().fold(MAGIC, |sum, word| sum.rotate_left(7) ^ word)
}
