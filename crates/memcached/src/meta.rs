//! Meta commands: two letters, a key, and flags of one letter each.
//!
//! ```text
//! mg key v t k              the reply has what is asked for, in the order of the flags
//! ms key 3 F5 T30 q\r\n
//! abc\r\n
//! ```
//!
//! A flag that a command does not use is skipped, as in memcached; an unknown or repeated flag is
//! an error. Flags that ask for something in the reply are not stored: the reply reads them again
//! from the line (`reply`).
//!
//! The order of some flags matters: `R` after `T` checks the new deadline, and of `N` and `T` the
//! later one sets the deadline of a created item. Both are decided here.
//!
//! Not here: finding lines and data, which works as for other requests (`request`).

mod key;
pub mod reply;

use crate::arithmetic::Direction;
use crate::number::{signed, unsigned};
use crate::request::{MOST_KEY_BYTES, MOST_TOLD_BYTES, StoreMode, words};
use crate::size;

pub use key::{Key, KeyRoom};

/// The most words of a line, including the command.
const MOST_WORDS: usize = 19;
/// The longest opaque token, including its letter.
const MOST_OPAQUE_BYTES: usize = 32;

/// A meta command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The key.
    pub key: Key<'a>,
    /// The flags, for the reply.
    pub flags: Flags<'a>,
    /// `q`: no reply with the expected result.
    pub is_quiet: bool,
    /// The command.
    pub action: Action<'a>,
}

impl<'a> Request<'a> {
    /// Whether it has the flag with this letter.
    pub fn asks(&self, letter: u8) -> bool {
        self.flags.iter().any(|flag| flag[0] == letter)
    }

    /// Rebuilds the request from its parts: the second letter of the command, the key's bytes, the
    /// words of its flags, the data of `ms`. `None`: these parts make no request.
    pub fn of_parts(
        letter: u8,
        key: &'a [u8],
        flags: &'a [u8],
        data: &'a [u8],
    ) -> Option<Request<'a>> {
        let flags = Flags(flags);
        let options = Options::read(flags, None).ok()?;
        let action = match letter {
            b'g' => Action::Get(options.get()),
            b's' => Action::Store(options.store().ok()?),
            b'd' => Action::Delete(options.delete()),
            b'a' => Action::Count(options.count().ok()?),
            _ => Action::Describe,
        };
        let key = if options.is_base64 { Key::Decoded(key) } else { Key::Plain(key) };
        let is_quiet = options.is_quiet;
        Some(Request { key, flags, is_quiet, action }.with_data(data))
    }

    /// The size of the item of `ms` with this much data.
    pub(crate) fn item_bytes(&self, data_bytes: usize) -> usize {
        let key_bytes = self.key.bytes(&mut [0; MOST_KEY_BYTES]).len();
        let flags = if let Action::Store(store) = self.action { store.client_flags } else { 0 };
        size::item_bytes(key_bytes, data_bytes, flags)
    }

    /// The request with the data of `ms`.
    pub(crate) fn with_data(mut self, data: &'a [u8]) -> Request<'a> {
        if let Action::Store(store) = &mut self.action {
            store.data = data;
        }
        self
    }
}

/// A meta command. Times are in seconds (see `expiry`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// `mg`
    Get(Get),
    /// `ms`
    Store(Store<'a>),
    /// `md`
    Delete(Delete),
    /// `ma`
    Count(Count),
    /// `me`
    Describe,
}

/// `mg`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Get {
    /// `v`: the reply contains the value.
    pub wants_value: bool,
    /// `u`: the read does not count as an access.
    pub is_unnoticed: bool,
    /// `T`: the new time to live.
    pub exptime_s: Option<i64>,
    /// `N`: a missing item is created empty, with this time to live.
    pub vivify_exptime_s: Option<i64>,
    /// `R`: the first client that finds less than this time to live is told to renew the item.
    pub recache_s: Option<i64>,
    /// `R` checks the time to live after `T`.
    pub recache_after_touch: bool,
}

/// `ms`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'a> {
    /// `M`; never `IfUnchanged`, for which `cas` stands.
    pub storing: StoreMode,
    /// `C`: only if the item has this cas.
    pub cas: Option<u64>,
    /// `I`: a value with a lower cas is also stored, marked as stale.
    pub allows_stale: bool,
    /// `F`
    pub client_flags: u32,
    /// `T`
    pub exptime_s: i64,
    /// The value.
    pub data: &'a [u8],
}

/// `md`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delete {
    /// `C`: only if the item has this cas.
    pub cas: Option<u64>,
    /// `I`: the item stays, marked as stale.
    pub makes_stale: bool,
    /// `T` with `I`: its time to live.
    pub exptime_s: Option<i64>,
}

/// `ma`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// `M`
    pub direction: Direction,
    /// `D`
    pub delta: u64,
    /// `C`: only if the item has this cas.
    pub cas: Option<u64>,
    /// `v`: the reply contains the number.
    pub wants_value: bool,
    /// `J`: the initial value of a created item.
    pub initial: u64,
    /// `N`: a missing item is created, with this time to live.
    pub vivify_exptime_s: Option<i64>,
    /// `T`: the new time to live.
    pub exptime_s: Option<i64>,
}

/// The flags of a command, as one run of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags<'a>(&'a [u8]);

impl<'a> Flags<'a> {
    /// The words as they were sent.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// The flags in order; none is empty.
    pub fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        words(self.0)
    }
}

/// An error in a meta command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The command is unknown, or lacks its key.
    Unknown,
    /// A word is malformed, or the key too long.
    Format,
    /// More flags than any command has.
    TooManyFlags,
    /// More flags than any command has, in an `mg`.
    TooManyFlagsOfGet,
    /// A flag occurs twice.
    DuplicateFlag,
    /// A flag is unknown.
    InvalidFlag,
    /// `md` and `ma`: an unknown or repeated flag, or a flag's value that is not a number.
    InvalidOrDuplicateFlag,
    /// The key is not base64.
    Key,
    /// A number is missing.
    Token,
    /// `M` is not one letter.
    ModeLength,
    /// `ms` has no such mode.
    StoreMode,
    /// `ma` has no such mode.
    CountMode,
    /// `J` is not a number.
    Initial,
    /// `D` is not a number.
    Delta,
    /// `O` is too long.
    Opaque,
}

impl Fault {
    /// The error line for the client.
    pub const fn text(self) -> &'static [u8] {
        match self {
            Fault::Unknown => b"ERROR\r\n",
            Fault::Format => b"CLIENT_ERROR bad command line format\r\n",
            Fault::TooManyFlags => b"CLIENT_ERROR options flags too long\r\n",
            Fault::TooManyFlagsOfGet => b"CLIENT_ERROR options flags are too long\r\n",
            Fault::DuplicateFlag => b"CLIENT_ERROR duplicate flag\r\n",
            Fault::InvalidFlag => b"CLIENT_ERROR invalid flag\r\n",
            Fault::InvalidOrDuplicateFlag => b"CLIENT_ERROR invalid or duplicate flag\r\n",
            Fault::Key => b"CLIENT_ERROR error decoding key\r\n",
            Fault::Token => b"CLIENT_ERROR bad token in command line format\r\n",
            Fault::ModeLength => b"CLIENT_ERROR incorrect length for M token\r\n",
            Fault::StoreMode => b"CLIENT_ERROR invalid mode for ms M token\r\n",
            Fault::CountMode => b"CLIENT_ERROR invalid mode for ma M token\r\n",
            Fault::Initial => b"CLIENT_ERROR invalid numeric initial value\r\n",
            Fault::Delta => b"CLIENT_ERROR invalid numeric delta value\r\n",
            Fault::Opaque => b"CLIENT_ERROR opaque token too long\r\n",
        }
    }
}

/// A parsed line.
pub(crate) enum Line<'a> {
    Whole(Request<'a>),
    /// A store with this many bytes of data, which are not in the request yet.
    WithData(Request<'a>, usize),
}

/// Why a line is refused; data that follows it is discarded.
pub(crate) struct Refusal {
    pub(crate) fault: Fault,
    /// How many bytes of data follow, if any.
    pub(crate) data_bytes: Option<usize>,
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Refusal {
        Refusal { fault, data_bytes: None }
    }
}

/// Parses a line whose command is `m` and this letter; `rest` are the words after it.
pub(crate) fn read_line(letter: u8, rest: &[u8]) -> Result<Line<'_>, Refusal> {
    if letter == b'e' {
        return Ok(read_describe(rest)?);
    }
    let text = words(rest).next().ok_or(Fault::Unknown)?;
    if text.len() > MOST_KEY_BYTES {
        return Err(Fault::Format.into());
    }
    if letter == b's' {
        return read_store(text, rest);
    }
    let request = if letter == b'g' {
        let flags = flags_after(rest, 1, Fault::TooManyFlagsOfGet)?;
        let options = Options::read(flags, Some(text))?;
        options.check_opaque()?;
        options.request(text, flags, Action::Get(options.get()))
    } else {
        let flags = flags_after(rest, 1, Fault::TooManyFlags)?;
        let options =
            Options::read(flags, Some(text)).map_err(|_| Fault::InvalidOrDuplicateFlag)?;
        let action = match letter {
            b'd' => Action::Delete(options.delete()),
            _ => Action::Count(options.count()?),
        };
        options.check_opaque()?;
        options.request(text, flags, action)
    };
    Ok(Line::Whole(request))
}

/// Parses `me key [b]`; further words are skipped.
fn read_describe(rest: &[u8]) -> Result<Line<'_>, Fault> {
    let mut words = words(rest);
    let text = words.next().filter(|text| text.len() <= MOST_KEY_BYTES).ok_or(Fault::Format)?;
    let is_base64 = words.next() == Some(b"b");
    if is_base64 && key::decode(text, &mut [0; MOST_KEY_BYTES]).is_none() {
        return Err(Fault::Format);
    }
    Ok(Line::Whole(Request {
        key: if is_base64 { Key::Base64(text) } else { Key::Plain(text) },
        flags: Flags(if is_base64 { b"b" } else { b"" }),
        is_quiet: false,
        action: Action::Describe,
    }))
}

/// Parses `ms key length flags`: once the length is known, an error is one about a value, whose
/// data follows.
fn read_store<'a>(text: &'a [u8], rest: &'a [u8]) -> Result<Line<'a>, Refusal> {
    let length = words(rest).nth(1).ok_or(Fault::Format)?;
    let flags = flags_after(rest, 2, Fault::TooManyFlags)?;
    let length = signed(length).map(|length| i64::from(length as i32));
    let length = length.filter(|length| (0..=MOST_TOLD_BYTES).contains(length));
    let length = length.ok_or(Fault::Format)?.unsigned_abs() as usize;
    let understood = Options::read(flags, Some(text)).and_then(|options| {
        let store = options.store()?;
        options.check_opaque()?;
        Ok(options.request(text, flags, Action::Store(store)))
    });
    match understood {
        Ok(request) => Ok(Line::WithData(request, length)),
        Err(fault) => Err(Refusal { fault, data_bytes: Some(length) }),
    }
}

/// The flags after `passed` words.
fn flags_after(rest: &[u8], passed: usize, too_many: Fault) -> Result<Flags<'_>, Fault> {
    if words(rest).count() >= MOST_WORDS {
        return Err(too_many);
    }
    let mut left = rest;
    for _ in 0..passed {
        let start = left.iter().position(|&byte| byte != b' ').unwrap_or(left.len());
        let word = &left[start..];
        left = &word[word.iter().position(|&byte| byte == b' ').unwrap_or(word.len())..];
    }
    Ok(Flags(left))
}

/// The parsed flags of any command.
#[derive(Default)]
struct Options {
    is_base64: bool,
    is_quiet: bool,
    is_unnoticed: bool,
    wants_value: bool,
    invalidates: bool,
    opaque_is_too_long: bool,
    mode: Option<u8>,
    client_flags: u32,
    cas: Option<u64>,
    numbers: Numbers,
    times: Times,
}

/// `J`, `D`
#[derive(Default)]
struct Numbers {
    initial: u64,
    delta: Option<u64>,
}

/// `T`, `N`, `R`, and their order.
#[derive(Default)]
struct Times {
    exptime_s: Option<i64>,
    vivify_exptime_s: Option<i64>,
    touch_after_vivify: bool,
    recache_s: Option<i64>,
    recache_after_touch: bool,
}

impl Options {
    /// Parses all flags: the first unknown or repeated flag ends it; of the errors before it the
    /// last is reported. The key is checked if it must be decoded.
    fn read(flags: Flags<'_>, key: Option<&[u8]>) -> Result<Options, Fault> {
        let mut options = Options::default();
        let (mut seen, mut found) = (0_u128, Ok(()));
        for word in flags.iter() {
            let (letter, value) = (word[0], &word[1..]);
            if letter >= 127 || seen & 1 << letter != 0 {
                return Err(Fault::DuplicateFlag);
            }
            seen |= 1 << letter;
            match options.take(letter, value, key) {
                Ok(()) => {}
                Err(Fault::InvalidFlag) => return Err(Fault::InvalidFlag),
                // A malformed number after `F` has no text of its own.
                Err(Fault::Format) => found = found.and(Err(Fault::Format)),
                Err(fault) => found = Err(fault),
            }
        }
        found.map(|()| options)
    }

    fn take(&mut self, letter: u8, value: &[u8], key: Option<&[u8]>) -> Result<(), Fault> {
        match letter {
            b'b' => {
                self.is_base64 = true;
                if key.is_some_and(|key| key::decode(key, &mut [0; MOST_KEY_BYTES]).is_none()) {
                    return Err(Fault::Key);
                }
            }
            b'T' | b'N' | b'R' => return self.times.take(letter, value),
            b'v' => self.wants_value = true,
            b'u' => self.is_unnoticed = true,
            b'q' => self.is_quiet = true,
            b'I' => self.invalidates = true,
            b'O' => self.opaque_is_too_long = value.len() >= MOST_OPAQUE_BYTES,
            b'F' => self.client_flags = unsigned(value).ok_or(Fault::Format)? as u32,
            b'C' => self.cas = Some(unsigned(value).ok_or(Fault::Token)?),
            b'M' => match value {
                [mode] => self.mode = Some(*mode),
                _ => return Err(Fault::ModeLength),
            },
            b'J' => self.numbers.initial = unsigned(value).ok_or(Fault::Initial)?,
            b'D' => self.numbers.delta = Some(unsigned(value).ok_or(Fault::Delta)?),
            b'c' | b'f' | b'h' | b'k' | b'l' | b's' | b't' | b'P' | b'L' => {}
            _ => return Err(Fault::InvalidFlag),
        }
        Ok(())
    }

    fn check_opaque(&self) -> Result<(), Fault> {
        if self.opaque_is_too_long { Err(Fault::Opaque) } else { Ok(()) }
    }

    fn request<'a>(&self, text: &'a [u8], flags: Flags<'a>, action: Action<'a>) -> Request<'a> {
        let key = if self.is_base64 { Key::Base64(text) } else { Key::Plain(text) };
        Request { key, flags, is_quiet: self.is_quiet, action }
    }

    fn get(&self) -> Get {
        Get {
            wants_value: self.wants_value,
            is_unnoticed: self.is_unnoticed,
            exptime_s: self.times.exptime_s,
            vivify_exptime_s: self.times.when_vivified(),
            recache_s: self.times.recache_s,
            recache_after_touch: self.times.recache_after_touch,
        }
    }

    fn store<'a>(&self) -> Result<Store<'a>, Fault> {
        let storing = match self.mode {
            None | Some(b'S') => StoreMode::Always,
            Some(b'E') => StoreMode::IfMissing,
            Some(b'A') => StoreMode::After,
            Some(b'P') => StoreMode::Before,
            Some(b'R') => StoreMode::IfPresent,
            Some(_) => return Err(Fault::StoreMode),
        };
        let is_whole = matches!(storing, StoreMode::Always | StoreMode::IfPresent);
        let cas = match storing {
            StoreMode::IfMissing => None,
            // A cas of 0 means none.
            StoreMode::After | StoreMode::Before => self.cas.filter(|&cas| cas != 0),
            _ => self.cas,
        };
        Ok(Store {
            storing,
            cas,
            allows_stale: self.invalidates && is_whole && cas.is_some(),
            client_flags: self.client_flags,
            exptime_s: self.times.exptime_s.unwrap_or(0),
            data: b"",
        })
    }

    fn delete(&self) -> Delete {
        Delete {
            cas: self.cas,
            makes_stale: self.invalidates,
            exptime_s: self.times.exptime_s.filter(|_| self.invalidates),
        }
    }

    fn count(&self) -> Result<Count, Fault> {
        let direction = match self.mode {
            None | Some(b'I' | b'+') => Direction::Up,
            Some(b'D' | b'-') => Direction::Down,
            Some(_) => return Err(Fault::CountMode),
        };
        Ok(Count {
            direction,
            delta: self.numbers.delta.unwrap_or(1),
            cas: self.cas.filter(|&cas| cas != 0),
            wants_value: self.wants_value,
            initial: self.numbers.initial,
            vivify_exptime_s: self.times.when_vivified(),
            exptime_s: self.times.exptime_s,
        })
    }
}

impl Times {
    fn take(&mut self, letter: u8, value: &[u8]) -> Result<(), Fault> {
        let time_s = Some(signed(value).ok_or(Fault::Token)?);
        match letter {
            b'T' => {
                self.exptime_s = time_s;
                self.touch_after_vivify = self.vivify_exptime_s.is_some();
            }
            b'N' => self.vivify_exptime_s = time_s,
            _ => {
                self.recache_s = time_s;
                self.recache_after_touch = self.exptime_s.is_some();
            }
        }
        Ok(())
    }

    /// The time to live of a created item.
    fn when_vivified(&self) -> Option<i64> {
        match self.exptime_s {
            Some(exptime_s) if self.touch_after_vivify => Some(exptime_s),
            _ => self.vivify_exptime_s,
        }
    }
}

#[cfg(test)]
mod tests;
