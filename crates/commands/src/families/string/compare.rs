//! Conditions of SET and DELEX on the present value: IFEQ, IFNE and, with a digest in place of a
//! long text, IFDEQ, IFDNE.

use pantala_table::{IntText, StrRef};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{self, ClientError};
use crate::options::is_word;

/// One of the four words.
#[derive(Clone, Copy)]
pub(super) struct CompareForm {
    wants_same: bool,
    by_digest: bool,
}

/// The word and its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Comparison<'a> {
    wants_same: bool,
    wanted: Operand<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operand<'a> {
    Text(&'a [u8]),
    Digest(u64),
}

impl CompareForm {
    pub(super) fn of_word(word: &[u8]) -> Option<Self> {
        let form = |wants_same, by_digest| Some(CompareForm { wants_same, by_digest });
        match word {
            word if is_word(word, "IFEQ") => form(true, false),
            word if is_word(word, "IFNE") => form(false, false),
            word if is_word(word, "IFDEQ") => form(true, true),
            word if is_word(word, "IFDNE") => form(false, true),
            _ => None,
        }
    }

    pub(super) fn with(self, text: &[u8]) -> Result<Comparison<'_>, ClientError> {
        let wanted = match self.by_digest {
            true => Operand::Digest(parse_digest(text)?),
            false => Operand::Text(text),
        };
        Ok(Comparison { wants_same: self.wants_same, wanted })
    }
}

impl Comparison<'_> {
    /// An absent value is equal to nothing.
    pub(super) fn holds(self, value: Option<StrRef<'_>>) -> bool {
        let is_same = value.is_some_and(|value| match self.wanted {
            Operand::Text(text) => is_text(value, text),
            Operand::Digest(digest) => digest_of(value) == digest,
        });
        is_same == self.wants_same
    }
}

/// Whether a value has this text.
pub(super) fn is_text(value: StrRef<'_>, text: &[u8]) -> bool {
    value.bytes(&mut IntText::new()) == text
}

/// The digest by which clients tell whether a value has changed.
pub(super) fn digest_of(value: StrRef<'_>) -> u64 {
    xxh3_64(value.bytes(&mut IntText::new()))
}

/// Parses sixteen hexadecimal digits, in either case.
fn parse_digest(text: &[u8]) -> Result<u64, ClientError> {
    let is_digest = text.len() == 16 && text.iter().all(u8::is_ascii_hexdigit);
    let digits = str::from_utf8(text).ok().filter(|_| is_digest);
    digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).ok_or(error::DIGEST)
}
