//! Pieces of argument parsing that several commands share.

use pantala_base::UnixMs;
use pantala_base::number::parse_i64;
use pantala_keyspace::{DbIndex, Keyspace};

use crate::error::{self, ClientError};

/// Whether an argument is this word, in any case.
#[inline]
pub fn is_word(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

/// The number of a database, as COPY and MOVE are given it.
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

/// A time as clients write it, as a deadline. Errors name the command, in lower case.
pub fn deadline(
    text: &[u8],
    form: TimeForm,
    now: UnixMs,
    command: &str,
) -> Result<UnixMs, ClientError> {
    let number = parse_i64(text).ok_or(error::NOT_INTEGER)?;
    moment(number, form, now).ok_or_else(|| invalid_time(command))
}

/// A deadline that must lie after the epoch or, counted from now, after now: SET's, not EXPIRE's.
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
