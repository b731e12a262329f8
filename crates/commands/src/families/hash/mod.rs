//! Hashes.
//!
//! | file | commands |
//! |---|---|
//! | `field` | HSET HMSET HSETNX HGET HMGET HSTRLEN HEXISTS HDEL HLEN |
//! | `whole` | HGETALL HKEYS HVALS HSCAN |
//! | `random` | HRANDFIELD |
//! | `number` | HINCRBY HINCRBYFLOAT |
//! | `deadline` | HEXPIRE HPEXPIRE HEXPIREAT HPEXPIREAT, HTTL and its kin, HPERSIST |
//! | `together` | HSETEX HGETEX HGETDEL |
//! | `dragonfly` | FIELDTTL FIELDEXPIRE |
//! | `words` | `FIELDS count field ...` and the words before it |
//!
//! No command sees fields whose deadline has passed. Those that change a hash remove some of them
//! first ([`open`]); the keyspace's sweep removes the rest. Tests: compat/transcripts/hash.

mod deadline;
mod dragonfly;
mod field;
mod number;
mod random;
mod together;
mod whole;
mod words;

use pantala_base::UnixMs;
use pantala_keyspace::{Key, Locked, OpenKey};
use pantala_settings::Settings;
use pantala_table::is_expired;
use pantala_values::hash::HashLimits;
use pantala_values::{Collection, Hash};

use crate::calls::call::{Call, Lane, Stop};
use crate::calls::record::expire_all;
use crate::rows::command::{Command, Flags, Group, Handler, KeyFlags, KeySpec};

/// The rows of this family.
pub const ROWS: &[Command] = &[
    field::HDEL,
    field::HEXISTS,
    deadline::HEXPIRE,
    deadline::HEXPIREAT,
    deadline::HEXPIRETIME,
    field::HGET,
    whole::HGETALL,
    together::HGETDEL,
    together::HGETEX,
    number::HINCRBY,
    number::HINCRBYFLOAT,
    whole::HKEYS,
    field::HLEN,
    field::HMGET,
    field::HMSET,
    deadline::HPERSIST,
    deadline::HPEXPIRE,
    deadline::HPEXPIREAT,
    deadline::HPEXPIRETIME,
    deadline::HPTTL,
    random::HRANDFIELD,
    whole::HSCAN,
    field::HSET,
    together::HSETEX,
    field::HSETNX,
    field::HSTRLEN,
    deadline::HTTL,
    whole::HVALS,
    dragonfly::FIELDEXPIRE,
    dragonfly::FIELDTTL,
];

const READ: &[KeySpec] = &[KeySpec::one(1, KeyFlags::READ)];
const MODIFY: &[KeySpec] = &[KeySpec::one(1, KeyFlags::MODIFY)];
const CHANGE: &[KeySpec] = &[KeySpec::one(1, KeyFlags::CHANGE)];
const ADD: &[KeySpec] = &[KeySpec::one(1, KeyFlags::ADD)];

const fn reads(name: &'static str, handler: Handler) -> Command {
    Command::read(name, handler, Group::Hash).keys(READ).since("2.0.0")
}

const fn writes(name: &'static str, handler: Handler) -> Command {
    Command::write(name, handler, Group::Hash).flags(Flags::FAST).keys(MODIFY).since("2.0.0")
}

const fn grows(name: &'static str, handler: Handler) -> Command {
    writes(name, handler).flags(Flags::DENYOOM)
}

/// A command that looks at more fields than this runs on the slow lane: it takes some hundred
/// microseconds.
const WORKER_FIELDS: usize = 10_000;
/// How many expired fields are removed before a hash is changed.
const EXPIRED_AT_ONCE: usize = 64;

pub(in crate::families) fn limits(settings: &Settings) -> HashLimits {
    HashLimits {
        entries: settings.hash_max_listpack_entries,
        value_bytes: settings.hash_max_listpack_value_bytes,
    }
}

/// Opens a key to change a hash: some expired fields are removed first, with an event.
#[inline]
fn open<'l, 'k>(
    keys: &'l mut Locked<'k>,
    key: Key<'l>,
    lane: Lane,
) -> Result<OpenKey<'l, 'k>, Stop> {
    let now = keys.scope().now;
    let mut opened = keys.open(key);
    clean::<Hash>(&mut opened, now, lane)?;
    Ok(opened)
}

/// Removes some of the expired fields or members; all of them, if that is recorded.
#[inline]
fn clean<C: Collection>(opened: &mut OpenKey<'_, '_>, now: UnixMs, lane: Lane) -> Result<(), Stop> {
    let deadline = opened.collection::<C>()?.and_then(C::next_deadline);
    if deadline.is_some_and(|deadline| is_expired(deadline, now)) {
        expire_all(opened, lane)?;
        opened.expire_elements(EXPIRED_AT_ONCE);
    }
    Ok(())
}

/// Sends a command that is about to look at this many fields to the slow lane.
#[inline]
fn check_lane(lane: Lane, fields: usize) -> Result<(), Stop> {
    if fields > WORKER_FIELDS && lane == Lane::Worker { Err(Stop::Lane) } else { Ok(()) }
}

/// [`check_lane`] for the number of the command's arguments.
#[inline]
fn check_arguments(call: &Call<'_, '_>) -> Result<(), Stop> {
    check_lane(call.lane, call.args.len())
}
