//! The text protocol: lines become commands.

use pantala_commands::families::memcached::{LAST, MORE, NO_REPLY, Verb};
use pantala_engine::engine::limits::Limited;
use pantala_memcached::arithmetic::Direction;
use pantala_memcached::request::{Keys, StoreMode};
use pantala_memcached::{Fault, Limits, Request, Step};
use std::borrow::Cow;

use crate::worker::connection::Connection;

use super::super::front_end::{ParserView, group_hash};
use super::super::window::{Item, Progress};
use super::meta;
use super::reader::{Cut, Line};

/// The longest line that asks for keys.
const LINE_BYTES: usize = 16 << 20;
/// The longest line, and the largest item, of a client that has yet to authenticate.
const UNAUTHENTICATED_BYTES: usize = 16 << 10;

impl Line {
    /// The line that ends at `end`, with these keys left.
    fn new(
        bytes: &[u8],
        (verb, exptime): (Verb, Option<&[u8]>),
        rest: Keys<'_>,
        end: usize,
    ) -> Self {
        let exptime = exptime.map(|word| {
            let begin = place(bytes, word);
            begin..begin + word.len()
        });
        let keys_end = place(bytes, rest.bytes()) + rest.bytes().len();
        Line { verb, exptime, keys_end, end }
    }

    /// Appends the arguments of a command for the key after `at`; returns where that key ends, or
    /// the line.
    #[inline]
    fn push_next<'t>(&self, bytes: &'t [u8], at: usize, args: &mut Vec<&'t [u8]>) -> usize {
        let keys = Keys::rest(&bytes[at..self.keys_end]);
        let exptime = self.exptime.clone().map(|range| &bytes[range]);
        match push_key(keys, (self.verb, exptime), false, args) {
            None => self.end,
            Some(rest) => self.keys_end - rest.bytes().len(),
        }
    }
}

/// The offset of `part` in `bytes`.
fn place(bytes: &[u8], part: &[u8]) -> usize {
    part.as_ptr().addr() - bytes.as_ptr().addr()
}

/// Parses the next key of the current `get`, or the next line.
#[inline]
pub fn parse<'t>(
    ahead: ParserView<'_, '_, 't>,
    (bytes, progress): (&'t [u8], &mut Progress),
    args: &mut Vec<&'t [u8]>,
) -> Option<(Item, usize)> {
    let ParserView { connection, limited, turn, arena, verbs, .. } = ahead;
    let (at, first_arg) = (progress.parsed, args.len());
    let Connection { session, input, .. } = connection;
    let is_authenticated = session.is_authenticated();
    let reader = input.memcached.as_deref_mut()?;
    let command = |verb: Verb, args: &[&[u8]]| {
        let found = Some(verbs.row(verb));
        Item::Command { found, group_hash: group_hash(found, args, session, turn) }
    };
    if let Some(line) = &reader.line {
        let (verb, end) = (line.verb, line.push_next(bytes, at, args));
        if end == line.end {
            reader.line = None;
        }
        return Some((command(verb, &args[first_arg..]), end - at));
    }
    let limits = limits(limited, is_authenticated);
    match reader.text.parse(&bytes[at..], &limits) {
        Step::Request { request: Request::Get { keys, with_cas, exptime_s }, consumed, .. } => {
            let verb = verb_of_get(with_cas, exptime_s.is_some());
            let end = match push_key(keys, (verb, exptime_s), true, args) {
                None => at + consumed,
                Some(rest) => {
                    let line = Line::new(bytes, (verb, exptime_s), rest, at + consumed);
                    let words = at..place(bytes, keys.bytes());
                    reader.lines.push(Cut { words, end: line.end });
                    reader.line = Some(line);
                    place(bytes, rest.bytes())
                }
            };
            Some((command(verb, &args[first_arg..]), end - at))
        }
        Step::Request { request: Request::Meta(request), consumed, .. } => {
            let verb = meta::push_words(request, arena, args);
            progress.is_over = !is_authenticated;
            Some((command(verb, &args[first_arg..]), consumed))
        }
        Step::Request { request, no_reply, consumed } => {
            let verb = push_words(request, no_reply, is_authenticated, args);
            // Whether later lines may run depends on whether this was the password.
            progress.is_over = !is_authenticated;
            Some((command(verb, &args[first_arg..]), consumed))
        }
        Step::Fault { fault, no_reply, stale, consumed } => {
            let skipped = reader.text.take_skipped();
            if skipped > 0 {
                // Later input is read once this request was answered.
                (reader.skipped_then, progress.is_over) = (skipped, true);
            }
            let stale = stale.map(|key| meta::key(key, arena));
            Some((fail(fault, stale, no_reply, args, command), consumed))
        }
        Step::Nothing { consumed } => Some((Item::Nothing, consumed)),
        Step::Incomplete { wanted } => {
            (progress.wanted, progress.is_half, progress.is_over) = (wanted, true, true);
            None
        }
        Step::Close => {
            progress.is_over = true;
            Some((Item::Answer { text: Cow::Borrowed(b""), closes: true }, bytes.len() - at))
        }
    }
}

#[inline]
fn limits(limited: &Limited, is_authenticated: bool) -> Limits {
    let item_bytes =
        usize::try_from(limited.settings.memcached_item_size_max).unwrap_or(usize::MAX);
    match is_authenticated {
        true => Limits { item_bytes, line_bytes: LINE_BYTES },
        false => Limits {
            item_bytes: item_bytes.min(UNAUTHENTICATED_BYTES),
            line_bytes: UNAUTHENTICATED_BYTES,
        },
    }
}

fn verb_of_get(with_cas: bool, touches: bool) -> Verb {
    match (with_cas, touches) {
        (false, false) => Verb::Get,
        (true, false) => Verb::Gets,
        (false, true) => Verb::Gat,
        (true, true) => Verb::Gats,
    }
}

/// Appends the arguments of a command for the first of these keys; returns the other keys.
#[inline]
fn push_key<'t>(
    keys: Keys<'t>,
    (verb, exptime): (Verb, Option<&'t [u8]>),
    is_first: bool,
    args: &mut Vec<&'t [u8]>,
) -> Option<Keys<'t>> {
    let (key, rest) = keys.split_first()?;
    args.extend_from_slice(&[verb.name().as_bytes(), key]);
    args.extend(exptime);
    match (&rest, is_first) {
        (Some(_), _) => args.push(MORE),
        (None, false) => args.push(LAST),
        (None, true) => {}
    }
    rest
}

/// Appends the arguments of a command for a request that is no retrieval.
fn push_words<'t>(
    request: Request<'t>,
    no_reply: bool,
    is_authenticated: bool,
    args: &mut Vec<&'t [u8]>,
) -> Verb {
    let verb = match request {
        // Before authentication only `set` is understood: its data carry the password.
        Request::Store { storing: StoreMode::Always, .. } if !is_authenticated => Verb::Auth,
        Request::Store { storing, .. } => match storing {
            StoreMode::Always => Verb::Set,
            StoreMode::IfMissing => Verb::Add,
            StoreMode::IfPresent => Verb::Replace,
            StoreMode::After => Verb::Append,
            StoreMode::Before => Verb::Prepend,
            StoreMode::IfUnchanged(_) => Verb::Cas,
        },
        Request::Count { direction, .. } => match direction {
            Direction::Up => Verb::Incr,
            Direction::Down => Verb::Decr,
        },
        Request::Touch { .. } => Verb::Touch,
        Request::Delete { .. } => Verb::Delete,
        Request::FlushAll { .. } => Verb::FlushAll,
        Request::Stats(b"reset") => Verb::StatsReset,
        Request::Stats(b"conns") => Verb::StatsConns,
        Request::Stats(b"settings") => Verb::StatsSettings,
        Request::Stats(_) => Verb::Stats,
        Request::Verbosity => Verb::Verbosity,
        Request::CacheMemlimit { .. } => Verb::CacheMemlimit,
        Request::Version => Verb::Version,
        Request::Get { .. } | Request::MetaNothing | Request::Meta(_) => Verb::MetaNothing,
    };
    args.push(verb.name().as_bytes());
    match request {
        Request::Store { key, flags, exptime_s, unique, data, .. } => {
            args.extend_from_slice(&[key, data, flags, exptime_s]);
            args.extend(unique);
        }
        Request::Count { key, delta, .. } => args.extend_from_slice(&[key, delta]),
        Request::Touch { key, exptime_s } => args.extend_from_slice(&[key, exptime_s]),
        Request::Delete { key } => args.push(key),
        Request::FlushAll { delay_s } => args.push(delay_s),
        Request::Stats(what) => args.push(what),
        Request::CacheMemlimit { megabytes } => args.push(megabytes),
        Request::Verbosity => args.push(b"1"),
        Request::Version | Request::Get { .. } | Request::MetaNothing | Request::Meta(_) => {}
    }
    if no_reply {
        args.push(NO_REPLY);
    }
    verb
}

/// The item that answers a malformed request.
#[cold]
fn fail<'t>(
    fault: Fault,
    stale: Option<&'t [u8]>,
    no_reply: bool,
    args: &mut Vec<&'t [u8]>,
    command: impl Fn(Verb, &[&[u8]]) -> Item,
) -> Item {
    let Some(key) = stale else {
        let text = if no_reply { b"" } else { fault.text() };
        return Item::Answer { text: Cow::Borrowed(text), closes: false };
    };
    let first_arg = args.len();
    args.extend_from_slice(&[b"set", key]);
    if no_reply {
        args.push(NO_REPLY);
    }
    command(Verb::TooLarge, &args[first_arg..])
}

/// What is left of an input from `done` on, with `words` in front of it.
pub fn begin_rest((mut bytes, done): (Vec<u8>, usize), words: &[u8]) -> (Vec<u8>, usize) {
    match done.checked_sub(words.len()) {
        Some(begin) => {
            bytes[begin..done].copy_from_slice(words);
            (bytes, begin)
        }
        None => {
            bytes.splice(..done, words.iter().copied());
            (bytes, 0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_begins_with_the_words() {
        for (before, after, expected) in
            [("get a", " b c\r\n", "get b c\r\n"), ("gat 100 a b", " c\n", "gat 100 c\n")]
        {
            let bytes = format!("{before}{after}").into_bytes();
            let words = &expected.as_bytes()[..expected.len() - after.len()];
            for rest in [(after.as_bytes().to_vec(), 0), (bytes.clone(), before.len())] {
                let (bytes, done) = begin_rest(rest, words);
                assert_eq!(String::from_utf8_lossy(&bytes[done..]), expected);
            }
        }
    }
}
