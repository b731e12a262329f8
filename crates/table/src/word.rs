//! The word: everything the index knows about one record, in 8 bytes.
//!
//! ```text
//!  63 edited | 62 saved | 61 sticky | 60-59 hotness | 58 deadline | 57-53 kind | 52-48 window
//!  47-4 pointer (records are 16-byte aligned) | 3-0 bits 8..12 of the position
//! ```
//!
//! Kind: an object is 16 + its type tag (1..=15); a string is the number of its encoding, in two
//! bits, plus 4 if it has a tail (`records::tail`); one bit is spare, for packed text.
//!
//! The position bits and the window are bits of the key's hash ("trail"). They sharpen the
//! fingerprint, so that a lookup touches a wrong record about once in thousands, and they let a
//! segment grow and split without reading the records; see `segment`.
//!
//! Tests: at the foot of this file.

use std::ptr;

const POINTER: u64 = 0x0000_FFFF_FFFF_FFF0;
const WINDOW_AT: u32 = 48;
const KIND_AT: u32 = 53;
/// For a string: there is a tail. For an object the bit belongs to the type tag.
const TAIL: u64 = 4 << KIND_AT;
/// Of all kinds: the encoding of a string; more than any of them for an object.
const FORM: u8 = 16 | 3;
const DEADLINE: u64 = 1 << 58;
const HOTNESS_AT: u32 = 59;
const STICKY: u64 = 1 << 61;
const SAVED: u64 = 1 << 62;
const EDITED: u64 = 1 << 63;

/// Bits of the directory prefix that a word remembers.
pub(crate) const WINDOW_BITS: u32 = 5;
/// Bits of the position (above the fingerprint's eight) that a word remembers.
pub(crate) const POSITION_BITS: u32 = 4;
/// The bits of a word that come from the hash.
const TRAIL: u64 = 0xF | 0x1F << WINDOW_AT;

/// Highest hotness.
pub const HOTTEST: u8 = 3;

/// The type and encoding of a record's value, as the word stores them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind(u8);

impl Kind {
    pub(crate) const INT: Kind = Kind(0);
    pub(crate) const INLINE: Kind = Kind(1);
    pub(crate) const LONG: Kind = Kind(2);

    /// An object with this type tag, 1..=15.
    pub(crate) fn object(tag: u8) -> Kind {
        assert!((1..16).contains(&tag), "a type tag is 1..=15");
        Kind(16 | tag)
    }

    #[inline]
    pub(crate) fn is_object(self) -> bool {
        self.0 & 16 != 0
    }

    /// The type tag: 0 for strings.
    #[inline]
    pub(crate) fn tag(self) -> u8 {
        if self.is_object() { self.0 & 15 } else { 0 }
    }
}

/// Eight bytes of a bucket; zero where the slot is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct BucketWord(u64);

const _: () = assert!(size_of::<BucketWord>() == 8);
const _: () = assert!(Kind::INT.0 < 4 && Kind::INLINE.0 < 4 && Kind::LONG.0 < 4, "two bits");
const _: () = assert!(WINDOW_AT + WINDOW_BITS == KIND_AT, "the kind is after the window");
const _: () = assert!(DEADLINE == 1 << (KIND_AT + 5), "the deadline's bit is after the kind");
const _: () = assert!(STICKY == 1 << (HOTNESS_AT + 2) && HOTTEST == 3, "two bits of hotness");
const _: () = assert!(POINTER & TRAIL == 0 && TRAIL.count_ones() == POSITION_BITS + WINDOW_BITS);
const _: () = assert!(POINTER >> WINDOW_AT == 0, "an address ends where the window begins");

impl BucketWord {
    pub(crate) const EMPTY: BucketWord = BucketWord(0);

    /// A word for a fresh record: no deadline, cold, not sticky, no trail.
    #[inline]
    pub(crate) fn new(record: *mut u8, kind: Kind) -> BucketWord {
        let address = record.expose_provenance() as u64;
        assert!(address & !POINTER == 0, "a record lies in the low 48 bits, 16-byte aligned");
        BucketWord(address | u64::from(kind.0) << KIND_AT)
    }

    #[inline]
    pub(crate) fn pointer(self) -> *mut u8 {
        ptr::with_exposed_provenance_mut((self.0 & POINTER) as usize)
    }

    /// Points the word at the record's new address; everything else stays.
    #[inline]
    pub(crate) fn set_pointer(&mut self, record: *mut u8) {
        self.0 = self.0 & !POINTER | BucketWord::new(record, Kind(0)).0;
    }

    #[inline]
    pub(crate) fn kind(self) -> Kind {
        Kind((self.0 >> KIND_AT) as u8 & 31)
    }

    /// The kind without type tag or tail: one of the three of strings, or another value.
    #[inline]
    pub(crate) fn form(self) -> Kind {
        Kind((self.0 >> KIND_AT) as u8 & FORM)
    }

    /// Whether it is a string with a tail.
    #[inline]
    pub(crate) fn has_tail(self) -> bool {
        self.0 & (16 << KIND_AT | TAIL) == TAIL
    }

    /// Sets whether the string has a tail.
    #[inline]
    pub(crate) fn set_has_tail(&mut self, on: bool) {
        debug_assert!(!self.kind().is_object(), "a collection has no tail");
        self.set(TAIL, on);
    }

    #[inline]
    pub(crate) fn set_kind(&mut self, kind: Kind) {
        debug_assert!(kind.0 < 32, "a kind has five bits");
        self.0 = self.0 & !(31 << KIND_AT) | u64::from(kind.0) << KIND_AT;
    }

    #[inline]
    pub(crate) fn has_deadline(self) -> bool {
        self.0 & DEADLINE != 0
    }

    #[inline]
    pub(crate) fn set_has_deadline(&mut self, on: bool) {
        self.set(DEADLINE, on);
    }

    #[inline]
    pub(crate) fn hotness(self) -> u8 {
        (self.0 >> HOTNESS_AT) as u8 & HOTTEST
    }

    #[inline]
    pub(crate) fn set_hotness(&mut self, hotness: u8) {
        let hotness = u64::from(hotness.min(HOTTEST));
        self.0 = self.0 & !(3 << HOTNESS_AT) | hotness << HOTNESS_AT;
    }

    #[inline]
    pub(crate) fn is_sticky(self) -> bool {
        self.0 & STICKY != 0
    }

    #[inline]
    pub(crate) fn set_sticky(&mut self, on: bool) {
        self.set(STICKY, on);
    }

    #[inline]
    pub(crate) fn saved(self) -> bool {
        self.0 & SAVED != 0
    }

    #[inline]
    pub(crate) fn set_saved(&mut self, on: bool) {
        self.set(SAVED, on);
    }

    /// Whether the string was changed in place (appended to, overwritten in part, resized) since it
    /// was set.
    #[inline]
    pub(crate) fn is_edited(self) -> bool {
        self.0 & EDITED != 0
    }

    #[inline]
    pub(crate) fn set_edited(&mut self, on: bool) {
        self.set(EDITED, on);
    }

    /// Resets the word before another value is set: not edited, no tail. The type tag of an object
    /// is invalid afterwards.
    #[inline]
    pub(crate) fn begin_anew(&mut self) {
        self.0 &= !(EDITED | TAIL);
    }

    #[inline]
    fn set(&mut self, bit: u64, on: bool) {
        self.0 = if on { self.0 | bit } else { self.0 & !bit };
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The trail of a hash: what [`BucketWord::has_trail`] compares.
    #[inline]
    pub(crate) fn trail(position: u16, window: u8) -> HashBits {
        HashBits(u64::from(position >> 8 & 15) | u64::from(window & 31) << WINDOW_AT)
    }

    #[inline]
    pub(crate) fn has_trail(self, trail: HashBits) -> bool {
        self.0 & TRAIL == trail.0
    }

    #[inline]
    pub(crate) fn set_trail(&mut self, trail: HashBits) {
        debug_assert_eq!(trail.0 & !TRAIL, 0, "nothing but bits of the hash");
        self.0 = self.0 & !TRAIL | trail.0;
    }

    /// Bits 8..12 of the position.
    #[inline]
    pub(crate) fn position_bits(self) -> u16 {
        self.0 as u16 & 15
    }

    #[inline]
    pub(crate) fn window(self) -> u8 {
        (self.0 >> WINDOW_AT) as u8 & 31
    }
}

/// Hash bits at the positions where a word keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HashBits(u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_touch_each_other() {
        let at = ptr::without_provenance_mut::<u8>(0x7FFF_FFFF_FFF0);
        let mut word = BucketWord::new(at, Kind::object(15));
        word.set_trail(BucketWord::trail(0xFFFF, 31));
        word.set_hotness(9);
        word.set_sticky(true);
        word.set_saved(true);
        word.set_has_deadline(true);
        assert_eq!((word.pointer().addr(), word.kind().tag()), (0x7FFF_FFFF_FFF0, 15));
        assert_eq!((word.hotness(), word.window(), word.position_bits()), (3, 31, 15));
        word.set_kind(Kind::LONG);
        word.set_hotness(0);
        word.set_pointer(ptr::without_provenance_mut(0x10));
        word.set_sticky(false);
        assert!(word.saved() && word.has_deadline() && !word.is_sticky());
        assert!(
            word.has_trail(BucketWord::trail(0x0F00, 31))
                && !word.has_trail(BucketWord::trail(0, 31))
        );
        assert_eq!((word.pointer().addr(), word.kind(), word.kind().tag()), (0x10, Kind::LONG, 0));
        assert_eq!((word.hotness(), word.window(), word.position_bits()), (0, 31, 15));
    }

    #[test]
    fn only_strings_have_tails() {
        let at = ptr::without_provenance_mut::<u8>(0x10);
        for kind in [Kind::INT, Kind::INLINE, Kind::LONG] {
            let mut word = BucketWord::new(at, kind);
            assert!(!word.has_tail());
            word.set_has_tail(true);
            assert!(word.has_tail() && word.form() == kind);
            assert_eq!((word.kind().tag(), word.kind().is_object()), (0, false));
            word.set_edited(true);
            word.begin_anew();
            assert_eq!(word, BucketWord::new(at, kind));
        }
        for tag in 1..16 {
            let word = BucketWord::new(at, Kind::object(tag));
            assert!(!word.has_tail() && word.form().is_object());
        }
    }
}
