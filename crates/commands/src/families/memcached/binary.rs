//! The binary protocol: header and extras, key and data of a request are the arguments, and there
//! is one row for each operation, so admission treats each operation as what it is.
//!
//! ```text
//! [verb, key, header and extras, data]        without a key an empty one
//! ```

use pantala_memcached::binary::{Command, Parts, Request, reply};
use pantala_memcached::expiry::Expires;
use pantala_table::IntText;

use super::item::{self, Count, Counted, Deleted, Fetch, Store, Stored};
use super::meta::mode_of;
use super::refusal;
use super::text::count_miss;
use crate::calls::call::{Call, CommandResult, Stop};
use reply::Failure;

fn request<'a>(call: &Call<'a, '_>) -> Result<Request<'a>, Stop> {
    let (key, parts) = (call.args[1], call.args[2]);
    let data = call.args.get(3).copied().unwrap_or_default();
    Parts::request(parts, key, data).ok_or_else(|| refusal::MALFORMED.into())
}

/// GET, GETK, GAT, GATK
pub(super) fn get(call: &mut Call<'_, '_>) -> CommandResult {
    let Request { asked, is_quiet, command } = request(call)?;
    let Command::Get { key, with_key, exptime_s } = command else {
        return Err(refusal::MALFORMED.into());
    };
    let expires = exptime_s.map(|exptime_s| Expires::of(exptime_s, call.now()));
    let (tally, shown_key) = (call.keys.scope().tally, with_key.then_some(key));
    item::fetch(call, Fetch { with_cas: true, expires }, |out, item| match item {
        Some(item) if out.has_room_for(item.value.len()) => {
            let out = out.output();
            reply::value(out, asked, shown_key, (item.flags, item.cas), item.value.len());
            out.extend_from_slice(item.value.bytes(&mut IntText::new()));
        }
        Some(_) => {}
        None => {
            let is_touch = expires.is_some();
            let misses = if is_touch { &tally.item_touch_misses } else { &tally.item_fetch_misses };
            misses.add(1);
            if !is_quiet {
                reply::miss(out.output(), asked, shown_key);
            }
        }
    })
}

pub(super) fn touch(call: &mut Call<'_, '_>) -> CommandResult {
    let Request { asked, command, .. } = request(call)?;
    let Command::Touch { exptime_s, .. } = command else {
        return Err(refusal::MALFORMED.into());
    };
    let expires = Some(Expires::of(exptime_s, call.now()));
    let tally = call.keys.scope().tally;
    item::fetch(call, Fetch { with_cas: true, expires }, |out, item| match item {
        Some(item) => reply::value(out.output(), asked, None, (item.flags, item.cas), 0),
        None => {
            tally.item_touch_misses.add(1);
            reply::miss(out.output(), asked, None);
        }
    })
}

/// SET, ADD, REPLACE, APPEND, PREPEND
pub(super) fn set(call: &mut Call<'_, '_>) -> CommandResult {
    let Request { asked, is_quiet, command } = request(call)?;
    let Command::Store { storing, cas, flags, exptime_s, data, .. } = command else {
        return Err(refusal::MALFORMED.into());
    };
    let mode = mode_of(storing);
    let how = Store {
        mode,
        flags,
        expires: Expires::of(exptime_s, call.now()),
        unchanged: cas,
        wants_cas: !is_quiet,
        ..Store::of(data)
    };
    let stored = item::store(call, how)?;
    let failure = match (stored, mode) {
        (Stored::Yes(cas), _) => {
            if !is_quiet {
                reply::done(call.reply.output(), asked, cas);
            }
            return Ok(());
        }
        (Stored::Exists, _) | (Stored::No, item::Mode::Add) => Failure::Exists,
        (Stored::NotFound, _) | (Stored::No, item::Mode::Replace) => Failure::NotFound,
        (Stored::No, _) => Failure::NotStored,
    };
    reply::failure(call.reply.output(), asked, failure);
    Ok(())
}

pub(super) fn delete(call: &mut Call<'_, '_>) -> CommandResult {
    let Request { asked, is_quiet, command } = request(call)?;
    let Command::Delete { cas, .. } = command else { return Err(refusal::MALFORMED.into()) };
    let failure = match item::delete(call, cas)? {
        Deleted::Yes if is_quiet => return Ok(()),
        Deleted::Yes => {
            reply::done(call.reply.output(), asked, 0);
            return Ok(());
        }
        Deleted::Exists => Failure::Exists,
        Deleted::NotFound => {
            call.keys.scope().tally.item_delete_misses.add(1);
            Failure::NotFound
        }
    };
    reply::failure(call.reply.output(), asked, failure);
    Ok(())
}

/// INCREMENT, DECREMENT
pub(super) fn count(call: &mut Call<'_, '_>) -> CommandResult {
    let Request { asked, is_quiet, command } = request(call)?;
    let Command::Count { direction, delta, made_as, cas, .. } = command else {
        return Err(refusal::MALFORMED.into());
    };
    let now = call.now();
    let how = Count {
        unchanged: cas,
        made_as: made_as.map(|(initial, exptime_s)| (initial, Expires::of(exptime_s, now))),
        wants_cas: !is_quiet,
        ..Count::by(delta, direction)
    };
    let failure = match item::count(call, how)? {
        Counted::Number(_) if is_quiet => return Ok(()),
        Counted::Number(made) => {
            reply::number(call.reply.output(), asked, made.number, made.cas);
            return Ok(());
        }
        Counted::NotFound => {
            count_miss(call, direction);
            Failure::NotFound
        }
        Counted::NotNumeric => Failure::NotNumeric,
        Counted::Exists => Failure::Exists,
    };
    reply::failure(call.reply.output(), asked, failure);
    Ok(())
}

/// An oversized value was to be set: the old one is removed.
pub(super) fn too_large(call: &mut Call<'_, '_>) -> CommandResult {
    let asked = Parts::asked(call.args[2]);
    item::delete(call, None)?;
    if let Some(asked) = asked {
        reply::failure(call.reply.output(), asked, Failure::TooLarge);
    }
    Ok(())
}
