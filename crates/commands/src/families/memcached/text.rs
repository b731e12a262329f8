//! The text protocol: words in, lines out. The parser has checked the words.

use pantala_memcached::arithmetic::Direction;
use pantala_memcached::expiry::Expires;
use pantala_memcached::number::{signed, unsigned};
use pantala_memcached::reply;
use pantala_protocol::Reply;
use pantala_table::IntText;

use super::item::{self, Count, Counted, Deleted, Fetch, Item, Mode, Store, Stored};
use super::refusal;
use super::words::{LAST, MORE, is_answered};
use crate::calls::call::{Call, CommandResult, Stop};
use crate::error;

/// The version of Memcached that clients are told.
pub const VERSION: &str = "1.6.18";

pub(super) fn get(call: &mut Call<'_, '_>) -> CommandResult {
    fetch(call, Fetch::default())
}

pub(super) fn gets(call: &mut Call<'_, '_>) -> CommandResult {
    fetch(call, Fetch { with_cas: true, ..Fetch::default() })
}

pub(super) fn gat(call: &mut Call<'_, '_>) -> CommandResult {
    let expires = Some(expires(call, 2));
    fetch(call, Fetch { expires, ..Fetch::default() })
}

pub(super) fn gats(call: &mut Call<'_, '_>) -> CommandResult {
    let expires = Some(expires(call, 2));
    fetch(call, Fetch { expires, with_cas: true })
}

/// One key of a `get`; after the last of them the end.
#[inline]
fn fetch(call: &mut Call<'_, '_>, how: Fetch) -> CommandResult {
    let (key, others) = (call.args[1], call.args[2..].last());
    let has_more = others.is_some_and(|word| *word == MORE);
    let is_one_of_many = has_more || others.is_some_and(|word| *word == LAST);
    let (tally, is_touch) = (call.keys.scope().tally, how.expires.is_some());
    let found = item::fetch(call, how, |reply, item| {
        match item {
            Some(item) => write_value(reply, key, item, how.with_cas),
            None => {
                let misses = match is_touch {
                    true => &tally.item_touch_misses,
                    false => &tally.item_fetch_misses,
                };
                misses.add(1);
            }
        }
        if !has_more {
            reply.raw(reply::END);
        }
    });
    match found {
        // Replies to the other keys of such a `get` must stay in step.
        Err(Stop::Error(error)) if error == error::WRONG_TYPE && is_one_of_many => {
            tally.item_fetch_misses.add(1);
            if !has_more {
                call.reply.raw(reply::END);
            }
            Ok(())
        }
        found => found,
    }
}

#[inline]
fn write_value(reply: &mut Reply<'_>, key: &[u8], item: &Item<'_>, with_cas: bool) {
    if reply.has_room_for(item.value.len()) {
        let data = &mut IntText::new();
        let cas = with_cas.then_some(item.cas);
        reply::value(reply.output(), key, item.flags, item.value.bytes(data), cas);
    }
}

pub(super) fn set(call: &mut Call<'_, '_>) -> CommandResult {
    store(call, Mode::Set)
}

pub(super) fn add(call: &mut Call<'_, '_>) -> CommandResult {
    store(call, Mode::Add)
}

pub(super) fn replace(call: &mut Call<'_, '_>) -> CommandResult {
    store(call, Mode::Replace)
}

pub(super) fn append(call: &mut Call<'_, '_>) -> CommandResult {
    store(call, Mode::Append)
}

pub(super) fn prepend(call: &mut Call<'_, '_>) -> CommandResult {
    store(call, Mode::Prepend)
}

/// `cas k data flags exptime unique`
pub(super) fn cas(call: &mut Call<'_, '_>) -> CommandResult {
    let tally = call.keys.scope().tally;
    let unchanged = unsigned(call.args[5]);
    let stored = store_if(call, Mode::Set, unchanged)?;
    match stored {
        Stored::NotFound => tally.item_cas_misses.add(1),
        Stored::Exists => tally.item_cas_badval.add(1),
        Stored::Yes(_) | Stored::No => {}
    }
    answer_stored(call, stored);
    Ok(())
}

fn store(call: &mut Call<'_, '_>, mode: Mode) -> CommandResult {
    let stored = store_if(call, mode, None)?;
    answer_stored(call, stored);
    Ok(())
}

fn store_if(call: &mut Call<'_, '_>, mode: Mode, unchanged: Option<u64>) -> Result<Stored, Stop> {
    // Of 64 bits the lower half counts.
    let flags = unsigned(call.args[3]).unwrap_or_default() as u32;
    let expires = expires(call, 4);
    let value = call.args[2];
    item::store(call, Store { mode, flags, expires, unchanged, ..Store::of(value) })
}

fn answer_stored(call: &mut Call<'_, '_>, stored: Stored) {
    let text = match stored {
        Stored::Yes(_) => reply::STORED,
        Stored::No => reply::NOT_STORED,
        Stored::Exists => reply::EXISTS,
        Stored::NotFound => reply::NOT_FOUND,
    };
    answer(call, text);
}

/// An oversized value was to be set: the old one is removed, so that it is not taken for the new
/// one.
pub(super) fn too_large(call: &mut Call<'_, '_>) -> CommandResult {
    item::delete(call, None)?;
    answer(call, reply::TOO_LARGE);
    Ok(())
}

pub(super) fn delete(call: &mut Call<'_, '_>) -> CommandResult {
    let deleted = item::delete(call, None)?;
    if deleted == Deleted::NotFound {
        call.keys.scope().tally.item_delete_misses.add(1);
    }
    answer(call, if deleted == Deleted::Yes { reply::DELETED } else { reply::NOT_FOUND });
    Ok(())
}

pub(super) fn incr(call: &mut Call<'_, '_>) -> CommandResult {
    count(call, Direction::Up)
}

pub(super) fn decr(call: &mut Call<'_, '_>) -> CommandResult {
    count(call, Direction::Down)
}

fn count(call: &mut Call<'_, '_>, direction: Direction) -> CommandResult {
    let delta = unsigned(call.args[2]).unwrap_or_default();
    match item::count(call, Count::by(delta, direction))? {
        Counted::Number(now) if is_answered(call.args) => {
            reply::number(call.reply.output(), now.number);
        }
        Counted::Number(_) | Counted::Exists => {}
        Counted::NotNumeric => return Err(refusal::NOT_NUMERIC.into()),
        Counted::NotFound => {
            count_miss(call, direction);
            answer(call, reply::NOT_FOUND);
        }
    }
    Ok(())
}

/// Counts a miss of `incr` or `decr`.
pub(super) fn count_miss(call: &Call<'_, '_>, direction: Direction) {
    let tally = call.keys.scope().tally;
    match direction {
        Direction::Up => tally.item_incr_misses.add(1),
        Direction::Down => tally.item_decr_misses.add(1),
    }
}

pub(super) fn touch(call: &mut Call<'_, '_>) -> CommandResult {
    let expires = expires(call, 2);
    let is_there = item::touch(call, expires)?;
    if !is_there {
        call.keys.scope().tally.item_touch_misses.add(1);
    }
    answer(call, if is_there { reply::TOUCHED } else { reply::NOT_FOUND });
    Ok(())
}

pub(super) fn verbosity(call: &mut Call<'_, '_>) -> CommandResult {
    answer(call, reply::OK);
    Ok(())
}

pub(super) fn version(call: &mut Call<'_, '_>) -> CommandResult {
    reply::version(call.reply.output(), VERSION);
    Ok(())
}

pub(super) fn meta_nothing(call: &mut Call<'_, '_>) -> CommandResult {
    call.reply.raw(reply::META_NOTHING);
    Ok(())
}

/// The time to live in a word.
fn expires(call: &Call<'_, '_>, position: usize) -> Expires {
    let seconds = signed(call.args[position]).unwrap_or_default();
    Expires::of(seconds, call.now())
}

fn answer(call: &mut Call<'_, '_>, text: &[u8]) {
    if is_answered(call.args) {
        call.reply.raw(text);
    }
}
