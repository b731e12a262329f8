//! The binary protocol: each request becomes one command, whose handler reads the header and extras
//! again as they came.

use std::borrow::Cow;

use pantala_commands::families::memcached::{VERSION, Verb};
use pantala_memcached::arithmetic::Direction;
use pantala_memcached::binary::{Access, Command, Limits, Parts, RequestEcho, Step, reply};
use pantala_memcached::sasl;

use super::super::front_end::{ParserView, group_hash};
use super::super::window::{Item, Progress};

/// The largest item, and the longest password, of a client that has yet to authenticate.
const UNAUTHENTICATED_BYTES: usize = 16 << 10;

/// What a request becomes.
enum BinaryAction<'t> {
    /// A command on a key, with data.
    Keyed(Verb, &'t [u8], &'t [u8]),
    /// A complete answer; the flag says whether it closes the connection.
    Answer(Vec<u8>, bool),
}

/// Parses the next request.
pub fn parse<'t>(
    ahead: ParserView<'_, '_, 't>,
    (bytes, progress): (&'t [u8], &mut Progress),
    args: &mut Vec<&'t [u8]>,
) -> Option<(Item, usize)> {
    let ParserView { connection, limited, turn, users, verbs, .. } = ahead;
    let (at, first_arg) = (progress.parsed, args.len());
    let is_authenticated = connection.session.is_authenticated();
    let reader = connection.input.memcached.as_deref_mut()?;
    let item_bytes =
        usize::try_from(limited.settings.memcached_item_size_max).unwrap_or(usize::MAX);
    let limits = Limits {
        item_bytes: match is_authenticated {
            true => item_bytes,
            false => item_bytes.min(UNAUTHENTICATED_BYTES),
        },
        access: match is_authenticated {
            // Only the default user exists, which needs no login.
            true if users.users.needs_no_login() => Access::Open,
            false => Access::Locked,
            true => Access::Granted,
        },
    };
    let (becomes, consumed, skip) = match reader.binary.parse(&bytes[at..], &limits) {
        Step::Request { request, consumed, skip } => {
            (becomes(request.asked, request.is_quiet, request.command), consumed, skip)
        }
        Step::Fault { asked, failure, closes, stale, consumed, skip } => {
            let becomes = match stale {
                Some(key) => BinaryAction::Keyed(Verb::BinaryTooLarge, key, b""),
                None => answer(closes, |out| reply::failure(out, asked, failure)),
            };
            (becomes, consumed, skip)
        }
        Step::Incomplete { wanted } => {
            (progress.wanted, progress.is_half, progress.is_over) = (wanted, true, true);
            return None;
        }
        Step::Close => (BinaryAction::Answer(Vec::new(), true), bytes.len() - at, 0),
    };
    if skip > 0 {
        // Later requests are read once this one was answered.
        (reader.skipped_then, progress.is_over) = (skip, true);
    }
    // Whether later requests may run depends on whether this was the password.
    progress.is_over |= !is_authenticated;
    let (verb, key, data) = match becomes {
        BinaryAction::Keyed(verb, key, data) => (verb, key, data),
        BinaryAction::Answer(text, closes) => {
            progress.is_over |= closes;
            return Some((Item::Answer { text: Cow::Owned(text), closes }, consumed));
        }
    };
    let parts = Parts::of(&bytes[at..]).bytes();
    args.extend_from_slice(&[verb.name().as_bytes(), key, parts, data]);
    let found = Some(verbs.row(verb));
    let group_hash = group_hash(found, &args[first_arg..], &connection.session, turn);
    Some((Item::Command { found, group_hash }, consumed))
}

fn becomes<'t>(asked: RequestEcho, is_quiet: bool, command: Command<'t>) -> BinaryAction<'t> {
    match command {
        Command::Get { key, exptime_s: None, .. } => BinaryAction::Keyed(Verb::BinaryGet, key, b""),
        Command::Get { key, .. } => BinaryAction::Keyed(Verb::BinaryGat, key, b""),
        Command::Touch { key, .. } => BinaryAction::Keyed(Verb::BinaryTouch, key, b""),
        Command::Store { storing, key, data, .. } if storing.is_beside() => {
            BinaryAction::Keyed(Verb::BinaryAppend, key, data)
        }
        Command::Store { key, data, .. } => BinaryAction::Keyed(Verb::BinarySet, key, data),
        Command::Delete { key, .. } => BinaryAction::Keyed(Verb::BinaryDelete, key, b""),
        Command::Count { key, direction: Direction::Up, .. } => {
            BinaryAction::Keyed(Verb::BinaryIncr, key, b"")
        }
        Command::Count { key, .. } => BinaryAction::Keyed(Verb::BinaryDecr, key, b""),
        Command::Flush { .. } => BinaryAction::Keyed(Verb::BinaryFlush, b"", b""),
        Command::Stats(what) => BinaryAction::Keyed(stats(what), what, b""),
        Command::Authenticate { mechanism, data, .. } => {
            BinaryAction::Keyed(Verb::BinaryAuth, mechanism, data)
        }
        Command::Nothing => answer(false, |out| reply::done(out, asked, 0)),
        Command::Version => answer(false, |out| reply::text(out, asked, VERSION)),
        Command::Mechanisms => answer(false, |out| reply::text(out, asked, sasl::MECHANISMS)),
        Command::Quit if is_quiet => BinaryAction::Answer(Vec::new(), true),
        Command::Quit => answer(true, |out| reply::done(out, asked, 0)),
    }
}

fn answer(closes: bool, write: impl FnOnce(&mut Vec<u8>)) -> BinaryAction<'static> {
    let mut text = Vec::new();
    write(&mut text);
    BinaryAction::Answer(text, closes)
}

/// The verb of a page of statistics; each has permissions of its own.
fn stats(what: &[u8]) -> Verb {
    match what {
        b"reset" => Verb::BinaryStatsReset,
        b"conns" => Verb::BinaryStatsConns,
        b"settings" => Verb::BinaryStatsSettings,
        _ => Verb::BinaryStats,
    }
}
