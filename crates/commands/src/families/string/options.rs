//! The words after key and value: those of SET, and the parts of them that GETEX and MSETEX share.
//! They come in any order and any case; a word may be repeated, contradicting words are an error.

use pantala_base::number::parse_i64;
use pantala_keyspace::Expiry;

use crate::calls::call::Call;
use crate::error::{self, ClientError};
use crate::options::{TimeForm, is_word, positive_deadline};

use super::compare::{CompareForm, Comparison};

/// The words that a command allows beside those for a time.
#[derive(Clone, Copy)]
pub(super) struct Words(u8);

impl Words {
    const NX_XX: Words = Words(1);
    const COMPARES: Words = Words(2);
    const GET: Words = Words(4);
    const KEEPTTL: Words = Words(8);
    const PERSIST: Words = Words(16);
    const FLAGS: Words = Words(32);

    pub(super) const SET: Words = Words(
        Words::NX_XX.0 | Words::COMPARES.0 | Words::GET.0 | Words::KEEPTTL.0 | Words::FLAGS.0,
    );
    pub(super) const MSETEX: Words = Words(Words::NX_XX.0 | Words::KEEPTTL.0);
    pub(super) const GETEX: Words = Words::PERSIST;

    fn has(self, other: Words) -> bool {
        self.0 & other.0 != 0
    }
}

/// When the key is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Condition<'a> {
    #[default]
    Always,
    /// NX.
    Missing,
    /// XX.
    Present,
    /// IFEQ, IFNE, IFDEQ, IFDNE.
    Compares(Comparison<'a>),
}

/// What becomes of the deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Time<'a> {
    /// No word was given.
    #[default]
    Unsaid,
    /// KEEPTTL.
    Keep,
    /// PERSIST.
    Persist,
    /// EX, PX, EXAT, PXAT.
    At(TimeForm, &'a [u8]),
}

/// The options of SET, parsed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SetOptions<'a> {
    pub condition: Condition<'a>,
    /// GET: the reply is the old value.
    pub answers_old: bool,
    pub time: Time<'a>,
    /// _MCFLAGS: Memcached's flags of the value. Dragonfly's word, and for the journal.
    pub flags: u32,
    /// _MCFLAGS was given: other servers do not know it.
    pub says_flags: bool,
}

impl<'a> SetOptions<'a> {
    /// Parses all words, or reports a syntax error. The number of a time is not parsed yet.
    pub(super) fn parse(args: &[&'a [u8]], words: Words) -> Result<Self, ClientError> {
        let mut options = SetOptions::default();
        let mut rest = args.iter().copied();
        while let Some(word) = rest.next() {
            let is_known = options.take_flag(word, words)
                || options.take_time(word, &mut rest)
                || options.take_comparison(word, words, &mut rest)?
                || options.take_memcached_flags(word, words, &mut rest)?;
            if !is_known {
                return Err(error::SYNTAX);
            }
        }
        Ok(options)
    }

    fn take_flag(&mut self, word: &[u8], words: Words) -> bool {
        let (condition, time) = (&mut self.condition, &mut self.time);
        if words.has(Words::NX_XX) && is_word(word, "NX") {
            replace(condition, Condition::Missing, &[Condition::Always, Condition::Missing])
        } else if words.has(Words::NX_XX) && is_word(word, "XX") {
            replace(condition, Condition::Present, &[Condition::Always, Condition::Present])
        } else if words.has(Words::GET) && is_word(word, "GET") {
            self.answers_old = true;
            true
        } else if words.has(Words::KEEPTTL) && is_word(word, "KEEPTTL") {
            replace(time, Time::Keep, &[Time::Unsaid, Time::Keep])
        } else if words.has(Words::PERSIST) && is_word(word, "PERSIST") {
            replace(time, Time::Persist, &[Time::Unsaid, Time::Persist])
        } else {
            false
        }
    }

    fn take_comparison(
        &mut self,
        word: &[u8],
        words: Words,
        rest: &mut impl Iterator<Item = &'a [u8]>,
    ) -> Result<bool, ClientError> {
        let Some(form) = CompareForm::of_word(word).filter(|_| words.has(Words::COMPARES)) else {
            return Ok(false);
        };
        let Some(text) = rest.next() else { return Ok(false) };
        let condition = Condition::Compares(form.with(text)?);
        Ok(replace(&mut self.condition, condition, &[Condition::Always]))
    }

    fn take_memcached_flags(
        &mut self,
        word: &[u8],
        words: Words,
        rest: &mut impl Iterator<Item = &'a [u8]>,
    ) -> Result<bool, ClientError> {
        if !words.has(Words::FLAGS) || !is_word(word, "_MCFLAGS") {
            return Ok(false);
        }
        let Some(number) = rest.next().and_then(parse_i64) else { return Ok(false) };
        self.flags = u32::try_from(number).map_err(|_| error::NOT_INTEGER)?;
        self.says_flags = true;
        Ok(true)
    }

    fn take_time(&mut self, word: &[u8], rest: &mut impl Iterator<Item = &'a [u8]>) -> bool {
        let Some(form) = TimeForm::of_word(word) else { return false };
        let fits = match self.time {
            Time::Unsaid => true,
            Time::At(earlier, _) => earlier == form,
            Time::Keep | Time::Persist => false,
        };
        let Some(text) = rest.next().filter(|_| fits) else { return false };
        self.time = Time::At(form, text);
        true
    }

    /// The deadline that these options set.
    pub(super) fn expiry(&self, call: &Call<'_, '_>) -> Result<Expiry, ClientError> {
        Ok(match self.time {
            Time::Unsaid | Time::Persist => Expiry::Never,
            Time::Keep => Expiry::Keep,
            Time::At(form, text) => {
                Expiry::At(positive_deadline(text, form, call.clock(), call.command.name)?)
            }
        })
    }
}

/// Sets the place if it holds one of these values.
fn replace<T: PartialEq>(place: &mut T, value: T, from: &[T]) -> bool {
    let fits = from.contains(place);
    if fits {
        *place = value;
    }
    fits
}
