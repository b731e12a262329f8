//! `FIELDS count field [field ...]`, and the words that may stand before it.
//!
//! The word FIELDS is searched; what precedes it are options, and the number after it must be that
//! of all arguments that follow. Errors come in the reference's order: options, number, count.

use pantala_base::UnixMs;
use pantala_base::number::parse_i64;

use crate::calls::call::Call;
use crate::error::{self, ClientError};
use crate::options::{TimeForm, field_deadline, is_word};

/// The position of FIELDS, searched from `from` on. The last argument is not searched.
pub(super) fn find_fields(args: &[&[u8]], from: usize) -> Result<usize, ClientError> {
    let last = args.len().saturating_sub(1);
    let words = args.get(from..last).unwrap_or_default();
    let at = words.iter().position(|word| is_word(word, "FIELDS"));
    at.map(|at| from + at).ok_or(error::FIELD_COUNT)
}

/// The arguments after FIELDS at `at`, whose number counts groups of `size` arguments.
pub(super) fn counted<'c>(
    args: &'c [&'c [u8]],
    at: usize,
    size: i64,
) -> Result<&'c [&'c [u8]], ClientError> {
    let count = args.get(at + 1).and_then(|text| parse_i64(text)).ok_or(error::NOT_INTEGER)?;
    let rest = args.get(at + 2..).unwrap_or_default();
    let fits = count > 0 && count.checked_mul(size) == i64::try_from(rest.len()).ok();
    if fits { Ok(rest) } else { Err(error::FIELD_COUNT) }
}

/// Whether something must be present or absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ExistenceRule {
    #[default]
    Any,
    Missing,
    Present,
}

/// What becomes of the fields' deadlines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Time<'c> {
    /// No word was given.
    #[default]
    Unsaid,
    /// KEEPTTL.
    Keep,
    /// PERSIST.
    Persist,
    /// EX, PX, EXAT, PXAT.
    At(TimeForm, &'c [u8]),
}

impl Time<'_> {
    /// The deadline to be set.
    pub(super) fn deadline(self, now: UnixMs, name: &str) -> Result<Option<UnixMs>, ClientError> {
        match self {
            Time::At(form, text) => field_deadline(text, form, now, name).map(Some),
            Time::Unsaid | Time::Keep | Time::Persist => Ok(None),
        }
    }
}

/// The options of HSETEX (without PERSIST) and HGETEX (only PERSIST and the times).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FieldOptions<'c> {
    /// NX, XX: the key.
    pub key: ExistenceRule,
    /// FNX, FXX: the fields.
    pub fields: ExistenceRule,
    pub time: Time<'c>,
}

impl<'c> FieldOptions<'c> {
    /// Parses the options; returns the position where they end, and them.
    pub(super) fn parse(
        call: &Call<'c, '_>,
        sets: bool,
    ) -> Result<(usize, FieldOptions<'c>), ClientError> {
        let at = match find_fields(call.args, 2) {
            // The reference searches from the command's name on. If FIELDS is nowhere else, the key
            // itself is taken for the word, with the reference's reply.
            Err(_) if is_word(call.args[1], "FIELDS") => 1,
            found => found?,
        };
        let mut words = FieldOptions::default();
        let mut rest = call.args.get(2..at).unwrap_or_default().iter().copied();
        while let Some(word) = rest.next() {
            let is_known = (sets && words.take_condition(word))
                || words.take_lifetime(word, sets)
                || words.take_time(word, &mut rest);
            if !is_known {
                return Err(error::SYNTAX);
            }
        }
        Ok((at, words))
    }

    fn take_condition(&mut self, word: &[u8]) -> bool {
        let (place, wanted) = match word {
            _ if is_word(word, "NX") => (&mut self.key, ExistenceRule::Missing),
            _ if is_word(word, "XX") => (&mut self.key, ExistenceRule::Present),
            _ if is_word(word, "FNX") => (&mut self.fields, ExistenceRule::Missing),
            _ if is_word(word, "FXX") => (&mut self.fields, ExistenceRule::Present),
            _ => return false,
        };
        let fits = *place == ExistenceRule::Any || *place == wanted;
        *place = wanted;
        fits
    }

    fn take_lifetime(&mut self, word: &[u8], sets: bool) -> bool {
        let wanted = match sets {
            true if is_word(word, "KEEPTTL") => Time::Keep,
            false if is_word(word, "PERSIST") => Time::Persist,
            _ => return false,
        };
        let fits = self.time == Time::Unsaid || self.time == wanted;
        self.time = wanted;
        fits
    }

    fn take_time(&mut self, word: &[u8], rest: &mut impl Iterator<Item = &'c [u8]>) -> bool {
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
}
