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
pub(super) struct OptionWords(u8);

impl OptionWords {
    const NX_XX: OptionWords = OptionWords(1);
    const COMPARES: OptionWords = OptionWords(2);
    const GET: OptionWords = OptionWords(4);
    const KEEPTTL: OptionWords = OptionWords(8);
    const PERSIST: OptionWords = OptionWords(16);
    const FLAGS: OptionWords = OptionWords(32);

    pub(super) const SET: OptionWords = OptionWords(
        OptionWords::NX_XX.0
            | OptionWords::COMPARES.0
            | OptionWords::GET.0
            | OptionWords::KEEPTTL.0
            | OptionWords::FLAGS.0,
    );
    pub(super) const MSETEX: OptionWords =
        OptionWords(OptionWords::NX_XX.0 | OptionWords::KEEPTTL.0);
    pub(super) const GETEX: OptionWords = OptionWords::PERSIST;

    fn has(self, other: OptionWords) -> bool {
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
    pub(super) fn parse(args: &[&'a [u8]], words: OptionWords) -> Result<Self, ClientError> {
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

    fn take_flag(&mut self, word: &[u8], words: OptionWords) -> bool {
        let (condition, time) = (&mut self.condition, &mut self.time);
        if words.has(OptionWords::NX_XX) && is_word(word, "NX") {
            replace(condition, Condition::Missing, &[Condition::Always, Condition::Missing])
        } else if words.has(OptionWords::NX_XX) && is_word(word, "XX") {
            replace(condition, Condition::Present, &[Condition::Always, Condition::Present])
        } else if words.has(OptionWords::GET) && is_word(word, "GET") {
            self.answers_old = true;
            true
        } else if words.has(OptionWords::KEEPTTL) && is_word(word, "KEEPTTL") {
            replace(time, Time::Keep, &[Time::Unsaid, Time::Keep])
        } else if words.has(OptionWords::PERSIST) && is_word(word, "PERSIST") {
            replace(time, Time::Persist, &[Time::Unsaid, Time::Persist])
        } else {
            false
        }
    }

    fn take_comparison(
        &mut self,
        word: &[u8],
        words: OptionWords,
        rest: &mut impl Iterator<Item = &'a [u8]>,
    ) -> Result<bool, ClientError> {
        let Some(form) = CompareForm::of_word(word).filter(|_| words.has(OptionWords::COMPARES))
        else {
            return Ok(false);
        };
        let Some(text) = rest.next() else { return Ok(false) };
        let condition = Condition::Compares(form.with(text)?);
        Ok(replace(&mut self.condition, condition, &[Condition::Always]))
    }

    fn take_memcached_flags(
        &mut self,
        word: &[u8],
        words: OptionWords,
        rest: &mut impl Iterator<Item = &'a [u8]>,
    ) -> Result<bool, ClientError> {
        if !words.has(OptionWords::FLAGS) || !is_word(word, "_MCFLAGS") {
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
