//! Sorted sets.
//!
//! | file | commands |
//! |---|---|
//! | `add` | ZADD ZINCRBY ZREM |
//! | `ask` | ZCARD ZSCORE ZMSCORE ZRANK ZREVRANK ZCOUNT ZLEXCOUNT |
//! | `range` | ZRANGE and its older forms, ZRANGESTORE, ZREMRANGEBY... |
//! | `bounds` | ranges as clients write them |
//! | `pop` | ZPOPMIN ZPOPMAX ZMPOP, and the blocking BZPOPMIN BZPOPMAX BZMPOP |
//! | `some` | ZRANDMEMBER ZSCAN |
//! | `combine` | ZUNION ZINTER ZDIFF, with STORE, ZINTERCARD |
//! | `deadline` | ZEXPIRE ZPEXPIRE ZEXPIREAT ZPEXPIREAT, ZTTL and its kin, ZPERSIST, ZCOLLECT |
//!
//! Every command opens a key through [`read`] or [`open`], which first remove expired members: so
//! ranks and counts are exact, and no command sees an expired member. Tests:
//! compat/transcripts/zset.

pub(in crate::families) mod add;
mod ask;
mod bounds;
mod combine;
mod deadline;
mod pop;
mod range;
mod some;

use pantala_base::UnixMs;
use pantala_keyspace::{Key, Locked, OpenKey, WrongType};
use pantala_protocol::{Reply, Version};
use pantala_settings::Settings;
use pantala_table::{StrRef, is_expired};
use pantala_values::sorted_set::{SortedSetLimits, SortedSetRef};
use pantala_values::{Collection as _, SortedSet};

use crate::calls::call::{Lane, Stop, reply_string};
use crate::rows::command::{Command, Group, Handler, KeyFlags, KeySpec};

/// The rows of this family.
pub const ROWS: &[Command] = &[
    pop::BZMPOP,
    pop::BZPOPMAX,
    pop::BZPOPMIN,
    add::ZADD,
    ask::ZCARD,
    deadline::ZCOLLECT,
    ask::ZCOUNT,
    combine::ZDIFF,
    combine::ZDIFFSTORE,
    deadline::ZEXPIRE,
    deadline::ZEXPIREAT,
    deadline::ZEXPIRETIME,
    add::ZINCRBY,
    combine::ZINTER,
    combine::ZINTERCARD,
    combine::ZINTERSTORE,
    ask::ZLEXCOUNT,
    pop::ZMPOP,
    ask::ZMSCORE,
    deadline::ZPERSIST,
    deadline::ZPEXPIRE,
    deadline::ZPEXPIREAT,
    deadline::ZPEXPIRETIME,
    pop::ZPOPMAX,
    pop::ZPOPMIN,
    deadline::ZPTTL,
    some::ZRANDMEMBER,
    range::ZRANGE,
    range::ZRANGEBYLEX,
    range::ZRANGEBYSCORE,
    range::ZRANGESTORE,
    ask::ZRANK,
    add::ZREM,
    range::ZREMRANGEBYLEX,
    range::ZREMRANGEBYRANK,
    range::ZREMRANGEBYSCORE,
    range::ZREVRANGE,
    range::ZREVRANGEBYLEX,
    range::ZREVRANGEBYSCORE,
    ask::ZREVRANK,
    some::ZSCAN,
    ask::ZSCORE,
    deadline::ZTTL,
    combine::ZUNION,
    combine::ZUNIONSTORE,
];

const READ: &[KeySpec] = &[KeySpec::one(1, KeyFlags::READ)];
const MODIFY: &[KeySpec] = &[KeySpec::one(1, KeyFlags::MODIFY)];
const CHANGE_REMOVE: &[KeySpec] = &[KeySpec::one(1, KeyFlags::CHANGE_REMOVE)];

const fn reads(name: &'static str, handler: Handler) -> Command {
    Command::read(name, handler, Group::SortedSet)
}

const fn writes(name: &'static str, handler: Handler) -> Command {
    Command::write(name, handler, Group::SortedSet)
}

/// A command that looks at more members than this runs on the slow lane: it takes some hundred
/// microseconds.
const WORKER_MEMBERS: usize = 10_000;
/// How many expired members are removed at once.
const EXPIRED_AT_ONCE: usize = 1000;

pub(in crate::families) fn limits(settings: &Settings) -> SortedSetLimits {
    SortedSetLimits {
        entries: settings.zset_max_listpack_entries,
        value_bytes: settings.zset_max_listpack_value_bytes,
    }
}

/// Opens a key to read a sorted set.
#[inline]
pub(in crate::families) fn read<'l, 'k>(
    keys: &'l mut Locked<'k>,
    key: Key<'l>,
    lane: Lane,
) -> Result<OpenKey<'l, 'k>, Stop> {
    let mut opened = keys.read(key);
    clean(&mut opened, lane)?;
    Ok(opened)
}

/// Opens a key to change a sorted set.
#[inline]
pub(in crate::families) fn open<'l, 'k>(
    keys: &'l mut Locked<'k>,
    key: Key<'l>,
    lane: Lane,
) -> Result<OpenKey<'l, 'k>, Stop> {
    let mut opened = keys.open(key);
    clean(&mut opened, lane)?;
    Ok(opened)
}

/// Removes the expired members. The key may only be a sorted set.
#[inline]
fn clean(opened: &mut OpenKey<'_, '_>, lane: Lane) -> Result<(), Stop> {
    let set = opened.collection::<SortedSet>()?;
    if set.is_some_and(|set| set.next_deadline().is_some()) {
        return expire(opened, lane);
    }
    Ok(())
}

#[cold]
fn expire(opened: &mut OpenKey<'_, '_>, lane: Lane) -> Result<(), Stop> {
    let now = opened.scope().removed_at();
    while is_due(opened, now)? {
        opened.expire_elements(EXPIRED_AT_ONCE);
        // Removed members stay removed: the command begins again.
        if lane == Lane::Worker && is_due(opened, now)? {
            return Err(Stop::Lane);
        }
    }
    Ok(())
}

fn is_due(opened: &OpenKey<'_, '_>, now: UnixMs) -> Result<bool, WrongType> {
    let next = opened.collection::<SortedSet>()?.and_then(|set| set.next_deadline());
    Ok(next.is_some_and(|deadline| is_expired(deadline, now)))
}

/// The sorted set in an opened key, read-only.
#[inline]
pub(in crate::families) fn view<'o>(
    opened: &'o OpenKey<'_, '_>,
) -> Result<Option<SortedSetRef<'o>>, WrongType> {
    Ok(opened.collection::<SortedSet>()?.map(SortedSet::view))
}

/// Sends a command that is about to look at this many members to the slow lane.
#[inline]
fn check_lane(lane: Lane, members: usize) -> Result<(), Stop> {
    if members > WORKER_MEMBERS && lane == Lane::Worker { Err(Stop::Lane) } else { Ok(()) }
}

/// The header of a reply of members, with scores or without.
fn begin_members(reply: &mut Reply<'_>, count: usize, with_scores: bool) {
    let is_flat = with_scores && reply.version() == Version::Resp2;
    reply.array(if is_flat { 2 * count } else { count });
}

/// One member of such a reply.
#[inline]
fn reply_member(reply: &mut Reply<'_>, member: StrRef<'_>, score: f64, with_scores: bool) {
    if with_scores && reply.version() == Version::Resp3 {
        reply.array(2);
    }
    reply_string(reply, member);
    if with_scores {
        reply.double(score);
    }
}
