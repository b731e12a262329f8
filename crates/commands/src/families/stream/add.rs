//! Adding entries at the end, trimming at the front, and setting the counters.

use pantala_base::UnixMs;
use pantala_keyspace::event;
use pantala_values::Stream;
use pantala_values::stream::{Counters, StreamId, next_id};

use super::options::{self, AddOptions, NewId};
use super::trimmed::TrimResult;
use super::{fast, leave_if_long, limits, reply_id};
use crate::calls::call::{Call, CommandResult};
use crate::error::{self, ClientError};
use crate::options::is_word;
use crate::rows::command::{Command, Flags, Group, KeyFlags, KeySpec};

pub(super) const XADD: Command = fast("XADD", xadd)
    .arity(-5)
    .flags(Flags::DENYOOM)
    .tips(&["nondeterministic_output"])
    .complexity("O(1), and O(N) for N entries trimmed")
    .syntax(
        "key [NOMKSTREAM] [references: KEEPREF | DELREF | ACKED] \
         [trim: (strategy: MAXLEN | MINID) [operator: (equal: =) | (approximately: ~)] \
         threshold [LIMIT count:int]] \
         (id-selector: (auto-id: *) | id) field value [field value ...]",
    )
    .summary("Appends an entry to a stream; a missing key is created.");

pub(super) const XTRIM: Command = Command::write("XTRIM", xtrim, Group::Stream)
    .arity(-4)
    .keys(&[KeySpec::one(1, KeyFlags::CHANGE_REMOVE)])
    .tips(&["nondeterministic_output"])
    .since("5.0.0")
    .complexity("O(N) for N entries removed")
    .syntax(
        "key (trim: (strategy: MAXLEN | MINID) [operator: (equal: =) | (approximately: ~)] \
         threshold [LIMIT count:int]) \
         [references: KEEPREF | DELREF | ACKED]",
    )
    .summary("Removes the oldest entries of a stream.");

pub(super) const XSETID: Command = fast("XSETID", xsetid)
    .arity(-3)
    .flags(Flags::DENYOOM)
    .syntax("key last-id [ENTRIESADDED entries-added:int] [MAXDELETEDID max-deleted-id]")
    .summary("Sets what a stream remembers about all entries it ever had.");

const ZERO_ID: ClientError =
    ClientError::text("ERR The ID specified in XADD must be greater than 0-0");
const EXHAUSTED: ClientError = ClientError::text(
    "ERR The stream has exhausted the last possible ID, unable to add more items",
);
const ID_TOO_SMALL: ClientError = ClientError::text(
    "ERR The ID specified in XADD is equal or smaller than the target stream top item",
);
const TOO_LARGE: ClientError = ClientError::text("ERR Elements are too large to be stored");

fn xadd(call: &mut Call<'_, '_>) -> CommandResult {
    let options = AddOptions::of_xadd(call)?;
    let pairs = match options.id {
        Some((_, at)) => &call.args[at + 1..],
        None => &[],
    };
    let Some((new_id, _)) = options.id.filter(|_| !pairs.is_empty() && pairs.len() % 2 == 0) else {
        return Err(error::wrong_arity(call.command.name).into());
    };
    if matches!(new_id, NewId::Given(StreamId::MIN)) {
        return Err(ZERO_ID.into());
    }
    let (key, now) = (call.key(), call.clock());
    let limits = limits(call.settings);
    let mut opened = call.keys.open(key);
    let stream = opened.collection::<Stream>()?;
    if stream.is_none() && options.only_existing {
        call.reply.null();
        return Ok(());
    }
    let last = stream.map_or(StreamId::MIN, Stream::last_id);
    let id = choose_id(new_id, last, now)?;
    if Stream::is_too_large(pairs) {
        return Err(TOO_LARGE.into());
    }
    if let (Some(trim), Some(stream)) = (options.trim, stream) {
        leave_if_long(call.lane, stream.trim_cost(trim))?;
    }
    let is_recorded = opened.scope().recorder.is_some();
    let stream = opened.collection_or_new::<Stream>()?;
    stream.append(id, pairs, limits);
    let trimmed = options
        .trim
        .map_or_else(TrimResult::default, |trim| TrimResult::of(stream, trim, is_recorded));
    opened.publish(event::XADD);
    if trimmed.count > 0 {
        opened.announce(event::XTRIM);
    }
    drop(opened);
    if is_recorded {
        let id_at = options.id.map_or(0, |(_, at)| at);
        trimmed.record(call, &options, Some((id, id_at)));
    }
    reply_id(&mut call.reply, id);
    Ok(())
}

/// The id of a new entry after `last`.
#[inline]
fn choose_id(id: NewId, last: StreamId, now: UnixMs) -> Result<StreamId, ClientError> {
    if last == StreamId::MAX {
        return Err(EXHAUSTED);
    }
    let id = match id {
        NewId::Auto => return next_id(last, now).ok_or(EXHAUSTED),
        NewId::Time(ms) if ms == last.ms => {
            StreamId { ms, seq: last.seq.checked_add(1).ok_or(ID_TOO_SMALL)? }
        }
        NewId::Time(ms) => StreamId { ms, seq: 0 },
        NewId::Given(id) => id,
    };
    if id > last { Ok(id) } else { Err(ID_TOO_SMALL) }
}

fn xtrim(call: &mut Call<'_, '_>) -> CommandResult {
    let options = AddOptions::of_xtrim(call)?;
    let key = call.key();
    let mut opened = call.keys.open(key);
    let (Some(stream), Some(trim)) = (opened.collection::<Stream>()?, options.trim) else {
        call.reply.int(0);
        return Ok(());
    };
    leave_if_long(call.lane, stream.trim_cost(trim))?;
    let is_recorded = opened.scope().recorder.is_some();
    let trimmed = match opened.collection_mut::<Stream>()? {
        Some(stream) => TrimResult::of(stream, trim, is_recorded),
        None => TrimResult::default(),
    };
    match trimmed.count {
        0 => opened.unchanged(),
        _ => opened.publish(event::XTRIM),
    }
    drop(opened);
    if is_recorded && trimmed.count > 0 {
        trimmed.record(call, &options, None);
    }
    call.reply.int(trimmed.count.cast_signed());
    Ok(())
}

const ADDED_NEGATIVE: ClientError = ClientError::text("ERR entries_added must be positive");
const BELOW_GIVEN_DELETED: ClientError = ClientError::text(
    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
);
const BELOW_DELETED: ClientError = ClientError::text(
    "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id",
);
const BELOW_TOP: ClientError =
    ClientError::text("ERR The ID specified in XSETID is smaller than the target stream top item");
const ADDED_BELOW_LENGTH: ClientError = ClientError::text(
    "ERR The entries_added specified in XSETID is smaller than the target stream length",
);

fn xsetid(call: &mut Call<'_, '_>) -> CommandResult {
    let is_repeated = call.is_repeated();
    let counters = parse_counters(call.args, is_repeated)?;
    let key = call.key();
    let mut opened = call.keys.open(key);
    let stream = opened.collection::<Stream>()?.ok_or(error::NO_SUCH_KEY)?;
    check_counters(stream, &counters, is_repeated)?;
    if let Some(stream) = opened.collection_mut::<Stream>()? {
        stream.set_counters(counters);
    }
    opened.publish_unwatched(event::XSETID);
    call.reply.ok();
    Ok(())
}

fn parse_counters(args: &[&[u8]], is_repeated: bool) -> Result<Counters, ClientError> {
    let last_id = options::id(args[2])?;
    let mut counters = Counters { last_id, entries_added: None, max_deleted_id: None };
    let mut rest = &args[3..];
    while !rest.is_empty() {
        match rest {
            [word, value, behind @ ..] if is_word(word, "ENTRIESADDED") => {
                let count = options::int(value)?;
                counters.entries_added = Some(u64::try_from(count).map_err(|_| ADDED_NEGATIVE)?);
                rest = behind;
            }
            [word, value, behind @ ..] if is_word(word, "MAXDELETEDID") => {
                let id = options::id(value)?;
                if last_id < id && !is_repeated {
                    return Err(BELOW_GIVEN_DELETED);
                }
                counters.max_deleted_id = Some(id).filter(|id| *id != StreamId::MIN);
                rest = behind;
            }
            _ => return Err(error::SYNTAX),
        }
    }
    Ok(counters)
}

/// The counters of a repeated command may be below a deleted entry: Redis 7.0 does not check that.
fn check_counters(
    stream: &Stream,
    counters: &Counters,
    is_repeated: bool,
) -> Result<(), ClientError> {
    if counters.last_id < stream.max_deleted_id() && !is_repeated {
        return Err(BELOW_DELETED);
    }
    let Some(top) = stream.last_entry() else { return Ok(()) };
    if counters.last_id < top.id {
        return Err(BELOW_TOP);
    }
    match counters.entries_added {
        Some(added) if added < stream.len() => Err(ADDED_BELOW_LENGTH),
        _ => Ok(()),
    }
}
