//! XACK and XPENDING: entries that were delivered and not acknowledged.

use pantala_base::UnixMs;
use pantala_protocol::Reply;
use pantala_values::Stream;
use pantala_values::stream::{Consumer, Group, PendingEntry, StreamId};

use super::options::{id, int, interval_end, interval_start};
use super::{fast, leave_if_long, no_key_or_group, reply_id};
use crate::calls::call::{Call, CommandResult};
use crate::error::{self, ClientError};
use crate::options::is_word;
use crate::rows::command::{Command, Group as Chapter, KeyFlags, KeySpec};

pub(super) const XACK: Command = fast("XACK", xack)
    .arity(-4)
    .complexity("O(N log M) for N ids of M that are pending")
    .syntax("key group id [id ...]")
    .summary("Acknowledges entries that were delivered to a group.");

pub(super) const XPENDING: Command = Command::read("XPENDING", xpending, Chapter::Stream)
    .arity(-3)
    .keys(&[KeySpec::one(1, KeyFlags::READ)])
    .tips(&["nondeterministic_output"])
    .since("5.0.0")
    .complexity("O(N) for N entries returned; O(M) for M consumers without a range")
    .syntax("key group [filters: [IDLE min-idle-time:int] start end count:int [consumer]]")
    .summary("Tells what is pending in a group.");

fn xack(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, name) = (call.key(), call.args[2]);
    let mut opened = call.keys.read(key);
    let has_group = opened.collection::<Stream>()?.is_some_and(|s| s.group(name).is_some());
    if !has_group {
        call.reply.int(0);
        return Ok(());
    }
    for text in &call.args[3..] {
        id(text)?;
    }
    let mut count = 0;
    if let Some(group) = opened.collection_mut::<Stream>()?.and_then(|s| s.group_mut(name)) {
        for text in &call.args[3..] {
            let id = StreamId::parse_strict(text, 0);
            count += i64::from(id.is_some_and(|id| group.acknowledge(id)));
        }
    }
    match count {
        0 => opened.unchanged(),
        _ => opened.publish_silently(),
    }
    call.reply.int(count);
    Ok(())
}

/// The filter of XPENDING.
struct Filter<'a> {
    min_idle_ms: i64,
    start: StreamId,
    end: StreamId,
    count: usize,
    consumer: Option<&'a [u8]>,
}

impl<'a> Filter<'a> {
    /// Parses it; `None`: only a summary is wanted.
    fn parse(words: &[&'a [u8]]) -> Result<Option<Filter<'a>>, ClientError> {
        if words.is_empty() {
            return Ok(None);
        }
        if !(3..=6).contains(&words.len()) {
            return Err(error::SYNTAX);
        }
        let (min_idle_ms, rest) = match words {
            [word, idle, rest @ ..] if is_word(word, "IDLE") => {
                let idle = int(idle)?;
                if rest.len() < 3 {
                    return Err(error::SYNTAX);
                }
                (idle, rest)
            }
            _ => (0, words),
        };
        let count = usize::try_from(int(rest[2])?).unwrap_or(0);
        let (start, end) = (interval_start(rest[0])?, interval_end(rest[1])?);
        let consumer = rest.get(3).copied();
        Ok(Some(Filter { min_idle_ms, start, end, count, consumer }))
    }
}

fn xpending(call: &mut Call<'_, '_>) -> CommandResult {
    let filter = Filter::parse(&call.args[3..])?;
    let (key, name, now) = (call.key(), call.args[2], call.clock());
    let opened = call.keys.read(key);
    let stream = opened.collection::<Stream>()?;
    let group = stream.and_then(|stream| stream.group(name));
    let group = group.ok_or_else(|| no_key_or_group(key.bytes, name))?;
    let Some(filter) = filter else {
        leave_if_long(call.lane, group.consumer_count() as u64)?;
        reply_summary(&mut call.reply, group);
        return Ok(());
    };
    let consumer = match filter.consumer {
        None => None,
        Some(name) => {
            let found = group.find_consumer(name).and_then(|number| group.consumer(number));
            let Some(found) = found else {
                call.reply.array(0);
                return Ok(());
            };
            Some(found)
        }
    };
    let all = consumer.map_or(group.pending().len(), Consumer::pending_count);
    let looked_at = if filter.min_idle_ms > 0 { all } else { all.min(filter.count) };
    leave_if_long(call.lane, looked_at as u64)?;
    let mark = call.reply.begin();
    let mut count = 0;
    let mut reply_one = |pending: &PendingEntry| {
        reply_pending(&mut call.reply, group, pending, now);
        count += 1;
    };
    let fits = |pending: &&PendingEntry| idle_ms(pending, now) >= filter.min_idle_ms;
    match consumer {
        None => {
            let rest = group.pending().iter_from(filter.start);
            let within = rest.take_while(|pending| pending.id <= filter.end).filter(fits);
            within.take(filter.count).for_each(&mut reply_one);
        }
        Some(consumer) => {
            let ids = consumer.pending_from(filter.start).take_while(|id| *id <= filter.end);
            let own = ids.filter_map(|id| group.pending().get(id)).filter(fits);
            own.take(filter.count).for_each(&mut reply_one);
        }
    }
    call.reply.end_array(mark, count);
    Ok(())
}

/// Milliseconds since an entry was delivered; negative if the clock was set back.
pub(super) fn idle_ms(pending: &PendingEntry, now: UnixMs) -> i64 {
    now.0.saturating_sub(pending.delivered_at.0)
}

fn reply_pending(reply: &mut Reply<'_>, group: &Group, pending: &PendingEntry, now: UnixMs) {
    reply.array(4);
    reply_id(reply, pending.id);
    reply.bulk(group.consumer(pending.consumer).map_or(&[], |consumer| &consumer.name));
    reply.int(idle_ms(pending, now).max(0));
    reply.int(pending.count.cast_signed());
}

fn reply_summary(reply: &mut Reply<'_>, group: &Group) {
    reply.array(4);
    reply.int(group.pending().len() as i64);
    let (Some(first), Some(last)) = (group.pending().first(), group.pending().last()) else {
        reply.null();
        reply.null();
        return reply.null_array();
    };
    reply_id(reply, first.id);
    reply_id(reply, last.id);
    let mark = reply.begin();
    let mut count = 0;
    for consumer in group.consumers().filter(|consumer| consumer.pending_count() > 0) {
        reply.array(2);
        reply.bulk(&consumer.name);
        reply.bulk_int(consumer.pending_count() as i64);
        count += 1;
    }
    reply.end_array(mark, count);
}
