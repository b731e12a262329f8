//! Requests: a line of words, followed by data for a store.
//!
//! ```text
//! set a 5 0 3\r\n        word key flags exptime bytes [noreply]
//! abc\r\n
//! ```
//!
//! A line ends with LF, optionally preceded by CR. Words are separated by blanks only; excess words
//! are an error for some commands and skipped by others, as in memcached.
//!
//! Nothing that is too long is kept: the data of a value above the limit is discarded as it
//! arrives, and a line without an end closes the connection, unless it is a request for many keys.

use pantala_base::simd::find_byte;

use crate::arithmetic::Direction;
use crate::meta::{self, Key};
use crate::number::{signed, unsigned};
use crate::reply;
use crate::size::item_bytes;

/// The longest key, in bytes.
pub const MOST_KEY_BYTES: usize = 250;
/// The longest line, except for one that asks for many keys.
const LINE_BYTES: usize = 2048;
/// How many blanks may precede such a line.
const MOST_BLANKS: usize = 100;
/// The bytes after data.
const LINE_END: &[u8] = b"\r\n";
/// The largest announced length of data.
pub(crate) const MOST_TOLD_BYTES: i64 = i32::MAX as i64 - 2;

/// The limits of a client's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest item, as `size` computes it.
    pub item_bytes: usize,
    /// The longest line that asks for many keys.
    pub line_bytes: usize,
}

/// The condition and mode of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMode {
    /// `set`
    Always,
    /// `add`
    IfMissing,
    /// `replace`
    IfPresent,
    /// `append`
    After,
    /// `prepend`
    Before,
    /// `cas`, if the item still has this cas
    IfUnchanged(u64),
}

impl StoreMode {
    /// Whether it keeps the value, and adds something after or before it.
    pub fn is_beside(self) -> bool {
        matches!(self, StoreMode::After | StoreMode::Before)
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// `get`, `gets`, `gat`, `gats`: values, optionally with their cas, optionally with a new time
    /// to live in seconds (see `expiry`).
    Get {
        /// At least one.
        keys: Keys<'a>,
        /// Whether the reply contains the cas.
        with_cas: bool,
        /// The new time to live: a number with a sign.
        exptime_s: Option<&'a [u8]>,
    },
    /// `set` and its kin.
    Store {
        /// The condition and mode.
        storing: StoreMode,
        /// The key.
        key: &'a [u8],
        /// The client's flags: a number, of which 32 bits count.
        flags: &'a [u8],
        /// The time to live in seconds: a number with a sign.
        exptime_s: &'a [u8],
        /// The cas for `cas`: a number.
        unique: Option<&'a [u8]>,
        /// The value.
        data: &'a [u8],
    },
    /// `incr`, `decr`
    Count {
        /// The key.
        key: &'a [u8],
        /// The difference: a number.
        delta: &'a [u8],
        /// The direction.
        direction: Direction,
    },
    /// `touch`
    Touch {
        /// The key.
        key: &'a [u8],
        /// The time to live in seconds: a number with a sign.
        exptime_s: &'a [u8],
    },
    /// `delete`
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// `flush_all`
    FlushAll {
        /// The delay in seconds: a number with a sign.
        delay_s: &'a [u8],
    },
    /// `stats`: the group, if one is named.
    Stats(&'a [u8]),
    /// `verbosity`
    Verbosity,
    /// `cache_memlimit`
    CacheMemlimit {
        /// The memory limit in megabytes.
        megabytes: &'a [u8],
    },
    /// `version`
    Version,
    /// `mn`: only to be answered.
    MetaNothing,
    /// Another meta command, with its own flag for being quiet.
    Meta(meta::Request<'a>),
}

/// An error in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The command is unknown, or not with this many words.
    Unknown,
    /// A word is malformed, or a key too long.
    Format,
    /// The data is not followed by a line end.
    Data,
    /// The value is too large.
    TooLarge,
    /// `incr` by something that is not a number.
    Delta,
    /// The time is malformed.
    Exptime,
    /// `delete` with an excess word.
    DeleteUsage,
    /// `gat` without keys: nothing was found.
    NoKeys,
    /// An error in a meta command.
    Meta(meta::Fault),
}

impl Fault {
    /// The error line for the client.
    pub const fn text(self) -> &'static [u8] {
        match self {
            Fault::Unknown => b"ERROR\r\n",
            Fault::Format => b"CLIENT_ERROR bad command line format\r\n",
            Fault::Data => b"CLIENT_ERROR bad data chunk\r\n",
            Fault::TooLarge => reply::TOO_LARGE,
            Fault::Delta => b"CLIENT_ERROR invalid numeric delta argument\r\n",
            Fault::Exptime => b"CLIENT_ERROR invalid exptime argument\r\n",
            Fault::DeleteUsage => {
                b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"
            }
            Fault::NoKeys => reply::END,
            Fault::Meta(fault) => fault.text(),
        }
    }
}

/// The result of parsing the start of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A request.
    Request {
        /// The request.
        request: Request<'a>,
        /// No reply is wanted, not even an error.
        no_reply: bool,
        /// Bytes to take off the buffer.
        consumed: usize,
    },
    /// A client's error, after which the connection continues.
    Fault {
        /// The error.
        fault: Fault,
        /// No answer is wanted.
        no_reply: bool,
        /// A key whose new value was refused: its old value must be deleted, or the client would
        /// read it.
        stale: Option<Key<'a>>,
        /// Bytes to take off the buffer.
        consumed: usize,
    },
    /// Data that is discarded.
    Nothing {
        /// Bytes to take off the buffer.
        consumed: usize,
    },
    /// Part of a request. Call again with the same start and more bytes after it.
    Incomplete {
        /// At least this many bytes more are needed; 0 if unknown.
        wanted: usize,
    },
    /// The connection is to be closed: by `quit`, or because a line does not end.
    Close,
}

/// The keys of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys<'a>(&'a [u8]);

impl<'a> Keys<'a> {
    /// The rest of a line with such keys, after some of them.
    pub fn rest(line: &'a [u8]) -> Self {
        Keys(line)
    }

    /// The encoded keys.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// The first key, and the others if there are any.
    #[inline]
    pub fn split_first(self) -> Option<(&'a [u8], Option<Keys<'a>>)> {
        let begin = self.0.iter().position(|&byte| byte != b' ')?;
        let from_key = &self.0[begin..];
        let end = find_byte(from_key, b' ').unwrap_or(from_key.len());
        let (key, rest) = from_key.split_at(end);
        let has_more = rest.iter().any(|&byte| byte != b' ');
        Some((key, has_more.then_some(Keys(rest))))
    }

    /// The keys in order.
    pub fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        words(self.0)
    }
}

/// The state of one connection's input between calls.
#[derive(Clone, Debug, Default)]
pub struct RequestParser {
    /// How many bytes were searched without finding a line end.
    scanned: usize,
    /// The length of the request at the start of the buffer.
    needed: usize,
    /// How many bytes must still be discarded.
    skipped: usize,
}

/// A parsed line.
enum Line<'a> {
    Whole(Request<'a>),
    /// A store with this many bytes of data, which are not in the request yet.
    WithData(Request<'a>, usize),
    Quit,
}

impl RequestParser {
    /// Parses the request at the start of `buf`. After `Incomplete` the buffer of the next call
    /// must begin with the same bytes.
    pub fn parse<'a>(&mut self, buf: &'a [u8], limits: &Limits) -> Step<'a> {
        if self.skipped > 0 && !buf.is_empty() {
            let consumed = buf.len().min(self.skipped);
            self.skipped -= consumed;
            return Step::Nothing { consumed };
        }
        if buf.len() < self.needed {
            return Step::Incomplete { wanted: self.needed - buf.len() };
        }
        let Some(end) = find_byte(&buf[self.scanned..], b'\n') else {
            self.scanned = buf.len();
            let may_go_on = buf.len() <= limits.line_bytes && may_be_line(buf);
            return if may_go_on { Step::Incomplete { wanted: 0 } } else { Step::Close };
        };
        let end = self.scanned + end;
        let line = &buf[..end];
        if line.len() > limits.line_bytes || !may_be_line(line) {
            return Step::Close;
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.scanned = end;
        self.follow(buf, line, end + 1, limits)
    }

    /// Takes over how many further bytes must be discarded: the caller does it from now on.
    pub fn take_skipped(&mut self) -> usize {
        std::mem::take(&mut self.skipped)
    }

    /// Continues with the line up to `end`, and its data.
    fn follow<'a>(
        &mut self,
        buf: &'a [u8],
        line: &'a [u8],
        end: usize,
        limits: &Limits,
    ) -> Step<'a> {
        if let Some((letter, rest)) = meta_command(line) {
            return self.follow_meta(buf, letter, rest, end, limits);
        }
        let (understood, no_reply) = read_line(line);
        let (request, length) = match understood {
            Ok(Line::Quit) => return Step::Close,
            Ok(Line::Whole(request)) => {
                self.begin_anew();
                return Step::Request { request, no_reply, consumed: end };
            }
            Ok(Line::WithData(request, length)) => (request, length),
            Err(Fault::Unknown) if is_http(line) => return Step::Close,
            Err(fault) => return self.fail(fault, no_reply, end),
        };
        let Request::Store { storing, key, flags, exptime_s, unique, .. } = request else {
            return self.fail(Fault::Unknown, no_reply, end);
        };
        let flags_value = unsigned(flags).unwrap_or_default() as u32;
        if item_bytes(key.len(), length, flags_value) > limits.item_bytes {
            self.begin_anew();
            self.skipped = length + LINE_END.len();
            let stale = (storing == StoreMode::Always).then_some(Key::Plain(key));
            return Step::Fault { fault: Fault::TooLarge, no_reply, stale, consumed: end };
        }
        self.with_data(buf, end, length, no_reply, |data| Request::Store {
            storing,
            key,
            flags,
            exptime_s,
            unique,
            data,
        })
    }

    /// As `follow`, for a meta command. An error of a store is reported before its data is
    /// discarded.
    fn follow_meta<'a>(
        &mut self,
        buf: &'a [u8],
        letter: u8,
        rest: &'a [u8],
        end: usize,
        limits: &Limits,
    ) -> Step<'a> {
        let (request, length) = match meta::read_line(letter, rest) {
            Ok(meta::Line::Whole(request)) => {
                self.begin_anew();
                let request = Request::Meta(request);
                return Step::Request { request, no_reply: false, consumed: end };
            }
            Ok(meta::Line::WithData(request, length)) => (request, length),
            Err(refusal) => {
                let step = self.fail(Fault::Meta(refusal.fault), false, end);
                self.skipped = refusal.data_bytes.map_or(0, |bytes| bytes + LINE_END.len());
                return step;
            }
        };
        if request.item_bytes(length) > limits.item_bytes {
            self.begin_anew();
            self.skipped = length + LINE_END.len();
            let stale = Some(request.key);
            return Step::Fault { fault: Fault::TooLarge, no_reply: false, stale, consumed: end };
        }
        self.with_data(buf, end, length, false, |data| Request::Meta(request.with_data(data)))
    }

    /// The request of a line with its data, once the data is there.
    fn with_data<'a>(
        &mut self,
        buf: &'a [u8],
        start: usize,
        length: usize,
        no_reply: bool,
        request: impl FnOnce(&'a [u8]) -> Request<'a>,
    ) -> Step<'a> {
        let consumed = start + length + LINE_END.len();
        if buf.len() < consumed {
            self.needed = consumed;
            return Step::Incomplete { wanted: consumed - buf.len() };
        }
        let (data, line_end) = buf[start..consumed].split_at(length);
        if line_end != LINE_END {
            return self.fail(Fault::Data, no_reply, consumed);
        }
        self.begin_anew();
        Step::Request { request: request(data), no_reply, consumed }
    }

    fn fail<'a>(&mut self, fault: Fault, no_reply: bool, consumed: usize) -> Step<'a> {
        self.begin_anew();
        Step::Fault { fault, no_reply, stale: None, consumed }
    }

    fn begin_anew(&mut self) {
        *self = RequestParser::default();
    }
}

/// Whether a line may begin like this: only a request for keys may be long.
fn may_be_line(line: &[u8]) -> bool {
    if line.len() <= LINE_BYTES {
        return true;
    }
    let blanks = line.iter().take_while(|byte| **byte == b' ').count();
    let rest = &line[blanks..];
    blanks <= MOST_BLANKS && (rest.starts_with(b"get ") || rest.starts_with(b"gets "))
}

pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b' ').filter(|word| !word.is_empty())
}

fn after_blanks(text: &[u8]) -> &[u8] {
    let begin = text.iter().position(|&byte| byte != b' ').unwrap_or(text.len());
    &text[begin..]
}

fn before_blanks(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
    &text[..end]
}

/// Whether a client takes this for a web server. Memcached checks it where no command begins so.
#[cold]
fn is_http(line: &[u8]) -> bool {
    words(line).last().is_some_and(|word| word.starts_with(b"HTTP/"))
        && !words(line).next().is_some_and(|word| b"gsacidtm".contains(&word[0]))
}

/// The second letter of a meta command except `mn`, and the rest of the line.
fn meta_command(line: &[u8]) -> Option<(u8, &[u8])> {
    let start = line.iter().position(|&byte| byte != b' ')?;
    match line[start..] {
        [b'm', letter @ (b'g' | b's' | b'd' | b'a' | b'e'), ref rest @ ..]
            if rest.first().is_none_or(|&byte| byte == b' ') =>
        {
            Some((letter, rest))
        }
        _ => None,
    }
}

/// Parses a line; also returns whether a reply is suppressed.
fn read_line(line: &[u8]) -> (Result<Line<'_>, Fault>, bool) {
    let line = after_blanks(line);
    let end = line.iter().position(|&byte| byte == b' ').unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    let whole = |request| Ok(Line::Whole(request));
    let asked = match name {
        b"get" | b"gets" | b"gat" | b"gats" | b"bget" => read_get(name, rest),
        b"version" => whole(Request::Version),
        b"quit" => Ok(Line::Quit),
        b"mn" => whole(Request::MetaNothing),
        b"stats" => whole(Request::Stats(before_blanks(after_blanks(rest)))),
        _ => return read_others(name, rest),
    };
    (asked, false)
}

/// Parses a command that may end with `noreply`, which also suppresses its errors, except that
/// there are too few or too many words.
fn read_others<'a>(name: &[u8], rest: &'a [u8]) -> (Result<Line<'a>, Fault>, bool) {
    const MOST_WORDS: usize = 6;
    let mut places: [&[u8]; MOST_WORDS] = [b""; MOST_WORDS];
    let mut count = 0;
    for word in words(rest) {
        let Some(place) = places.get_mut(count) else { return (Err(Fault::Unknown), false) };
        *place = word;
        count += 1;
    }
    let places = &places[..count];
    let fits = match name {
        b"set" | b"add" | b"replace" | b"append" | b"prepend" => (4..=5).contains(&count),
        b"cas" => (5..=6).contains(&count),
        b"incr" | b"decr" | b"touch" => (2..=3).contains(&count),
        b"delete" => (1..=3).contains(&count),
        b"flush_all" => count <= 2,
        b"verbosity" | b"cache_memlimit" => (1..=2).contains(&count),
        _ => false,
    };
    if !fits {
        return (Err(Fault::Unknown), false);
    }
    let is_silent = places.last() == Some(&&b"noreply"[..]);
    let asked = match name {
        b"incr" => read_count(places, Direction::Up),
        b"decr" => read_count(places, Direction::Down),
        b"touch" => read_touch(places),
        b"delete" if count == 1 => return (read_delete(places, false), false),
        b"delete" => read_delete(places, is_silent),
        b"flush_all" => read_flush(places, is_silent),
        b"cache_memlimit" => match unsigned(places[0]) {
            Some(_) => Ok(Line::Whole(Request::CacheMemlimit { megabytes: places[0] })),
            None => Err(Fault::Unknown),
        },
        b"verbosity" => match unsigned(places[0]) {
            Some(_) => Ok(Line::Whole(Request::Verbosity)),
            None => Err(Fault::Format),
        },
        _ => read_store(name, places),
    };
    (asked, is_silent)
}

fn read_get<'a>(name: &[u8], rest: &'a [u8]) -> Result<Line<'a>, Fault> {
    let touches = name.starts_with(b"gat");
    let (keys, exptime) = if touches {
        let rest = after_blanks(rest);
        let end = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
        (Keys(&rest[end..]), Some(&rest[..end]))
    } else {
        (Keys(rest), None)
    };
    let has_words = exptime.map_or_else(|| keys.iter().next().is_some(), |word| !word.is_empty());
    if !has_words {
        return Err(Fault::Unknown);
    }
    if exptime.is_some_and(|word| signed(word).is_none()) {
        return Err(Fault::Exptime);
    }
    if keys.iter().next().is_none() {
        return Err(Fault::NoKeys);
    }
    if has_too_long(keys.bytes()) {
        return Err(Fault::Format);
    }
    Ok(Line::Whole(Request::Get { keys, with_cas: name.ends_with(b"s"), exptime_s: exptime }))
}

/// Whether one of these words is longer than a key may be. Most bytes are skipped: a blank at the
/// end of a key's length proves that no word that starts before it is too long.
fn has_too_long(words: &[u8]) -> bool {
    let mut at = 0;
    while let Some(window) = words.get(at..=at + MOST_KEY_BYTES) {
        match window.iter().rposition(|&byte| byte == b' ') {
            None => return true,
            Some(blank) => at += blank + 1,
        }
    }
    false
}

fn read_store<'a>(name: &[u8], words: &[&'a [u8]]) -> Result<Line<'a>, Fault> {
    let key = checked(words[0])?;
    let (flags, exptime_s) = (words[1], words[2]);
    unsigned(flags).ok_or(Fault::Format)?;
    signed(exptime_s).ok_or(Fault::Format)?;
    let length = signed(words[3]).filter(|length| (0..=MOST_TOLD_BYTES).contains(length));
    let length = length.ok_or(Fault::Format)?.unsigned_abs() as usize;
    let storing = match name {
        b"set" => StoreMode::Always,
        b"add" => StoreMode::IfMissing,
        b"replace" => StoreMode::IfPresent,
        b"append" => StoreMode::After,
        b"prepend" => StoreMode::Before,
        _ => StoreMode::IfUnchanged(unsigned(words[4]).ok_or(Fault::Format)?),
    };
    let unique = matches!(storing, StoreMode::IfUnchanged(_)).then(|| words[4]);
    let request = Request::Store { storing, key, flags, exptime_s, unique, data: b"" };
    Ok(Line::WithData(request, length))
}

fn read_count<'a>(words: &[&'a [u8]], direction: Direction) -> Result<Line<'a>, Fault> {
    let key = checked(words[0])?;
    let delta = words[1];
    unsigned(delta).ok_or(Fault::Delta)?;
    Ok(Line::Whole(Request::Count { key, delta, direction }))
}

fn read_touch<'a>(words: &[&'a [u8]]) -> Result<Line<'a>, Fault> {
    let key = checked(words[0])?;
    let exptime_s = words[1];
    signed(exptime_s).ok_or(Fault::Exptime)?;
    Ok(Line::Whole(Request::Touch { key, exptime_s }))
}

/// After the key nothing, a zero (from old clients, which could delay), or `noreply`, or both.
fn read_delete<'a>(words: &[&'a [u8]], is_silent: bool) -> Result<Line<'a>, Fault> {
    let has_zero = words.get(1) == Some(&&b"0"[..]);
    let is_right = match words.len() {
        1 => true,
        2 => has_zero || is_silent,
        _ => has_zero && is_silent,
    };
    if !is_right {
        return Err(Fault::DeleteUsage);
    }
    Ok(Line::Whole(Request::Delete { key: checked(words[0])? }))
}

fn read_flush<'a>(words: &[&'a [u8]], is_silent: bool) -> Result<Line<'a>, Fault> {
    let delay_s: &[u8] = match words {
        [] => b"0",
        [_] if is_silent => b"0",
        [delay, ..] => delay,
    };
    signed(delay_s).ok_or(Fault::Exptime)?;
    Ok(Line::Whole(Request::FlushAll { delay_s }))
}

fn checked(key: &[u8]) -> Result<&[u8], Fault> {
    if key.len() <= MOST_KEY_BYTES { Ok(key) } else { Err(Fault::Format) }
}

#[cfg(test)]
mod tests;
