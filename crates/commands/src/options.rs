//! Argument parsing that several commands share.

use pantala_base::number::{I64_TEXT_MAX_BYTES, LongDouble, fmt_u64, parse_i64, parse_u64};
use pantala_base::{UnixMs, glob};
use pantala_keyspace::{DbIndex, Keyspace};
use pantala_protocol::Reply;

use crate::error::{self, ClientError};

/// Whether an argument is this word, in any case.
#[inline]
pub fn is_word(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

/// The number of a database, as in COPY and MOVE.
pub fn database(text: &[u8], space: &Keyspace) -> Result<DbIndex, ClientError> {
    let index = parse_i64(text).ok_or(error::NOT_INTEGER)?;
    let index = i32::try_from(index).map_err(|_| error::INT_OUT_OF_RANGE)?;
    match u32::try_from(index) {
        Ok(index) if index < space.database_count() => Ok(DbIndex(index)),
        _ => Err(error::DB_OUT_OF_RANGE),
    }
}

/// The unit and the base of a time in a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeForm {
    /// Seconds from now.
    Seconds,
    /// Milliseconds from now.
    Milliseconds,
    /// A Unix time in seconds.
    UnixSeconds,
    /// A Unix time in milliseconds.
    UnixMilliseconds,
}

impl TimeForm {
    /// The form that EX, PX, EXAT or PXAT announces.
    pub fn of_word(word: &[u8]) -> Option<TimeForm> {
        match word {
            _ if is_word(word, "EX") => Some(TimeForm::Seconds),
            _ if is_word(word, "PX") => Some(TimeForm::Milliseconds),
            _ if is_word(word, "EXAT") => Some(TimeForm::UnixSeconds),
            _ if is_word(word, "PXAT") => Some(TimeForm::UnixMilliseconds),
            _ => None,
        }
    }
}

/// A time argument as a deadline. Error texts name the command, in lower case.
pub fn deadline(
    text: &[u8],
    form: TimeForm,
    now: UnixMs,
    command: &str,
) -> Result<UnixMs, ClientError> {
    let number = parse_i64(text).ok_or(error::NOT_INTEGER)?;
    moment(number, form, now).ok_or_else(|| invalid_time(command))
}

/// A deadline that must be after the epoch or, for relative times, after now: for SET, not for
/// EXPIRE.
pub fn positive_deadline(
    text: &[u8],
    form: TimeForm,
    now: UnixMs,
    command: &str,
) -> Result<UnixMs, ClientError> {
    let number = parse_i64(text).ok_or(error::NOT_INTEGER)?;
    let moment = if number > 0 { moment(number, form, now) } else { None };
    moment.ok_or_else(|| invalid_time(command))
}

/// A deadline of a field: negative ones are refused, passed ones are not.
pub fn field_deadline(
    text: &[u8],
    form: TimeForm,
    now: UnixMs,
    command: &str,
) -> Result<UnixMs, ClientError> {
    let number = parse_i64(text).ok_or(error::NOT_INTEGER)?;
    let moment = if number >= 0 { moment(number, form, now) } else { None };
    moment.ok_or_else(|| invalid_time(command))
}

/// The timeout of a blocking command: seconds with a fraction, parsed as an 80-bit float like the
/// reference's; 0: for ever. Rounded up to milliseconds.
pub fn timeout(text: &[u8], now: UnixMs) -> Result<Option<UnixMs>, ClientError> {
    let milliseconds = match parse_u64(text) {
        // Most clients send integers, which need no float.
        Some(seconds @ 0..=0xffff_ffff) => seconds as i64 * 1000,
        _ => {
            let seconds = LongDouble::parse(text).ok_or(error::TIMEOUT_NOT_FLOAT)?;
            let milliseconds = seconds * LongDouble::from_i64(1000);
            milliseconds.ceil_i64().ok_or(error::TIMEOUT_OUT_OF_RANGE)?
        }
    };
    match milliseconds {
        ..0 => Err(error::TIMEOUT_NEGATIVE),
        0 => Ok(None),
        wait => match now.0.checked_add(wait) {
            Some(until) => Ok(Some(UnixMs(until))),
            None => Err(error::TIMEOUT_OUT_OF_RANGE),
        },
    }
}

fn moment(number: i64, form: TimeForm, now: UnixMs) -> Option<UnixMs> {
    let milliseconds = match form {
        TimeForm::Seconds | TimeForm::UnixSeconds => number.checked_mul(1000)?,
        TimeForm::Milliseconds | TimeForm::UnixMilliseconds => number,
    };
    match form {
        TimeForm::Seconds | TimeForm::Milliseconds => milliseconds.checked_add(now.0).map(UnixMs),
        TimeForm::UnixSeconds | TimeForm::UnixMilliseconds => Some(UnixMs(milliseconds)),
    }
}

fn invalid_time(command: &str) -> ClientError {
    let command = command.to_ascii_lowercase();
    ClientError::new(format!("ERR invalid expire time in '{command}' command"))
}

/// Conditions for a new deadline. A key without one counts as having the latest of all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conditions {
    /// Only if there is none.
    nx: bool,
    /// Only if there is one.
    xx: bool,
    /// Only if it is later.
    gt: bool,
    /// Only if it is earlier.
    lt: bool,
}

impl Conditions {
    /// Parses the words after the time.
    pub fn parse(words: &[&[u8]]) -> Result<Conditions, ClientError> {
        let mut found = Conditions::default();
        for word in words {
            let condition = match word {
                word if is_word(word, "NX") => &mut found.nx,
                word if is_word(word, "XX") => &mut found.xx,
                word if is_word(word, "GT") => &mut found.gt,
                word if is_word(word, "LT") => &mut found.lt,
                word => return Err(error::unsupported_option(word)),
            };
            *condition = true;
        }
        if found.nx && (found.xx || found.gt || found.lt) {
            return Err(error::NX_WITH_OTHERS);
        }
        if found.gt && found.lt {
            return Err(error::GT_WITH_LT);
        }
        Ok(found)
    }

    /// Whether `new` may replace `old`.
    pub fn allow(self, new: UnixMs, old: Option<UnixMs>) -> bool {
        match old {
            None => !self.xx && !self.gt,
            Some(old) => !self.nx && (!self.gt || new > old) && (!self.lt || new < old),
        }
    }
}

/// The options of LMPOP, ZMPOP and their kin: from which end, and how many.
pub struct PopOptions<E> {
    /// The end, as the family calls it.
    pub end: E,
    /// COUNT; 1 by default.
    pub count: usize,
}

impl<E> PopOptions<E> {
    /// Parses the arguments from the number of keys on.
    pub fn parse(
        args: &[&[u8]],
        parse_end: impl FnOnce(&[u8]) -> Result<E, ClientError>,
    ) -> Result<Self, ClientError> {
        let keys = parse_i64(args[0]).filter(|keys| *keys > 0).ok_or(error::KEYS_NOT_POSITIVE)?;
        let behind = usize::try_from(keys).ok().and_then(|keys| args.get(keys..)?.get(1..));
        let (end, mut rest) = behind.and_then(<[_]>::split_first).ok_or(error::SYNTAX)?;
        let end = parse_end(end)?;
        let mut count = None;
        while let [word, behind @ ..] = rest {
            let [number, behind @ ..] = behind else { return Err(error::SYNTAX) };
            if count.is_some() || !is_word(word, "COUNT") {
                return Err(error::SYNTAX);
            }
            let number = parse_i64(number).filter(|number| *number > 0);
            let number = number.ok_or(error::COUNT_NOT_POSITIVE)?;
            count = Some(usize::try_from(number).unwrap_or(usize::MAX));
            rest = behind;
        }
        Ok(PopOptions { end, count: count.unwrap_or(1) })
    }
}

/// The options that HSCAN, SSCAN and ZSCAN share.
pub struct ElementScan<'c> {
    /// MATCH.
    pub pattern: Option<&'c [u8]>,
    /// COUNT.
    pub count: usize,
    /// Elements are returned whole: neither NOVALUES nor NOSCORES was given.
    pub is_whole: bool,
}

/// The word by which a part of each element is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OmitOption {
    /// Hashes: NOVALUES.
    Values,
    /// Sorted sets: NOSCORES.
    Scores,
    /// Sets have nothing to leave out.
    Nothing,
}

/// COUNT of the SCAN family by default.
const SCAN_COUNT: usize = 10;

impl<'c> ElementScan<'c> {
    /// Parses the words after the cursor.
    pub fn parse(words: &[&'c [u8]], leave_out: OmitOption) -> Result<Self, ClientError> {
        let mut found = ElementScan { pattern: None, count: SCAN_COUNT, is_whole: true };
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            if is_word(word, "MATCH") {
                found.pattern = Some(rest.next().ok_or(error::SYNTAX)?);
            } else if is_word(word, "COUNT") {
                let count = parse_i64(rest.next().ok_or(error::SYNTAX)?);
                let count = count.ok_or(error::NOT_INTEGER)?;
                let count = usize::try_from(count).ok().filter(|count| *count > 0);
                found.count = count.ok_or(error::SYNTAX)?;
            } else if is_word(word, "NOVALUES") {
                if leave_out != OmitOption::Values {
                    return Err(error::NOVALUES_NOT_HERE);
                }
                found.is_whole = false;
            } else if is_word(word, "NOSCORES") {
                if leave_out != OmitOption::Scores {
                    return Err(error::NOSCORES_NOT_HERE);
                }
                found.is_whole = false;
            } else {
                return Err(error::SYNTAX);
            }
        }
        Ok(found)
    }

    /// Whether an element with this text is returned.
    #[inline]
    pub fn fits(&self, text: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, text))
    }

    /// Writes the beginning of a reply: the next cursor. The elements follow, as an array.
    pub fn begin(reply: &mut Reply<'_>, next: u64) {
        reply.array(2);
        reply.bulk(fmt_u64(next, &mut [0; I64_TEXT_MAX_BYTES]));
    }
}
