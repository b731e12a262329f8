//! XINFO: the state of a stream, its groups and their consumers.
//!
//! The reference keeps blocks in a radix tree and reports on it. Here `radix-tree-keys` are the
//! blocks, and `radix-tree-nodes` what such a tree has for blocks whose ids differ in one place.

use pantala_base::UnixMs;
use pantala_base::number::parse_i64;
use pantala_protocol::Reply;
use pantala_values::Stream;
use pantala_values::stream::{Consumer, Group, StreamId};

use super::{leave_if_long, no_group_of_key, reply_entries, reply_entry, reply_id};
use crate::calls::call::{Call, CommandResult};
use crate::error::{self, ClientError};
use crate::options::is_word;
use crate::rows::command::{Command, Flags, Group as Chapter, Handler, KeyFlags, KeySpec};
use crate::rows::help::help;

pub(super) const XINFO: Command = Command::container("XINFO", Chapter::Stream, SUBCOMMANDS)
    .since("5.0.0")
    .summary("Tells about streams, their groups and consumers.");

const SUBCOMMANDS: &[Command] = &[
    sub("CONSUMERS", consumers)
        .arity(4)
        .tips(&["nondeterministic_output"])
        .complexity("O(N) for N consumers")
        .syntax("key group")
        .summary("Lists the consumers of a group."),
    sub("GROUPS", groups)
        .arity(3)
        .complexity("O(N) for N groups")
        .syntax("key")
        .summary("Lists the groups of a stream."),
    sub("STREAM", stream)
        .arity(-3)
        .complexity("O(N) for N entries returned")
        .syntax("key [full-block: FULL [COUNT count:int]]")
        .summary("Tells about a stream, with FULL about everything in it."),
    Command::new("HELP", help, Chapter::Stream)
        .of("XINFO")
        .arity(2)
        .flags(Flags::LOADING.union(Flags::STALE))
        .since("5.0.0")
        .summary("Lists the subcommands."),
];

const KEY: &[KeySpec] = &[KeySpec::one(2, KeyFlags::READ)];

const fn sub(name: &'static str, handler: Handler) -> Command {
    Command::read(name, handler, Chapter::Stream).of("XINFO").keys(KEY).since("5.0.0")
}

/// How many items of each kind FULL shows by default.
const DEFAULT_COUNT: usize = 10;

fn pair_int(reply: &mut Reply<'_>, name: &str, value: i64) {
    reply.bulk(name.as_bytes());
    reply.int(value);
}

fn pair_id(reply: &mut Reply<'_>, name: &str, id: StreamId) {
    reply.bulk(name.as_bytes());
    reply_id(reply, id);
}

fn pair_int_or_null(reply: &mut Reply<'_>, name: &str, value: Option<i64>) {
    reply.bulk(name.as_bytes());
    match value {
        Some(value) => reply.int(value),
        None => reply.null(),
    }
}

fn consumers(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, name, now) = (call.key(), call.args[3], call.clock());
    let opened = call.keys.read(key);
    let stream = opened.collection::<Stream>()?.ok_or(error::NO_SUCH_KEY)?;
    let group = stream.group(name).ok_or_else(|| no_group_of_key(key.bytes, name))?;
    leave_if_long(call.lane, group.consumer_count() as u64)?;
    let reply = &mut call.reply;
    reply.array(group.consumer_count());
    for consumer in group.consumers() {
        let ago = |at: UnixMs| now.0.saturating_sub(at.0).max(0);
        reply.map(4);
        reply.bulk(b"name");
        reply.bulk(&consumer.name);
        pair_int(reply, "pending", consumer.pending_count() as i64);
        pair_int(reply, "idle", ago(consumer.seen_at));
        pair_int(reply, "inactive", consumer.active_at.map_or(-1, ago));
    }
    Ok(())
}

fn groups(call: &mut Call<'_, '_>) -> CommandResult {
    let key = call.key();
    let opened = call.keys.read(key);
    let stream = opened.collection::<Stream>()?.ok_or(error::NO_SUCH_KEY)?;
    let count = stream.groups().len();
    leave_if_long(call.lane, count as u64)?;
    let reply = &mut call.reply;
    reply.array(count);
    for (name, group) in stream.groups() {
        reply.map(6);
        reply.bulk(b"name");
        reply.bulk(name);
        pair_int(reply, "consumers", group.consumer_count() as i64);
        pair_int(reply, "pending", group.pending().len() as i64);
        reply_progress(reply, stream, group);
    }
    Ok(())
}

/// The progress of a group: three pairs.
fn reply_progress(reply: &mut Reply<'_>, stream: &Stream, group: &Group) {
    pair_id(reply, "last-delivered-id", group.last_id);
    pair_int_or_null(reply, "entries-read", group.entries_read);
    pair_int_or_null(reply, "lag", stream.lag(group));
}

/// Parses FULL and its COUNT; `None` without it.
fn parse_full(call: &Call<'_, '_>) -> Result<Option<usize>, ClientError> {
    let count = match &call.args[3..] {
        [] => return Ok(None),
        [full] if is_word(full, "FULL") => None,
        [full, word, count] if is_word(full, "FULL") && is_word(word, "COUNT") => {
            Some(parse_i64(count).ok_or(error::NOT_INTEGER)?)
        }
        _ => return Err(error::subcommand_syntax("XINFO", call.args[1])),
    };
    Ok(Some(match count {
        None => DEFAULT_COUNT,
        Some(0) => usize::MAX,
        Some(count) => usize::try_from(count).unwrap_or(DEFAULT_COUNT),
    }))
}

fn stream(call: &mut Call<'_, '_>) -> CommandResult {
    let key = call.key();
    let full = parse_full(call);
    let opened = call.keys.read(key);
    let stream = opened.collection::<Stream>()?.ok_or(error::NO_SUCH_KEY)?;
    let Some(most) = full? else {
        reply_overview(&mut call.reply, stream);
        return Ok(());
    };
    leave_if_long(call.lane, full_cost(stream, most))?;
    reply_full(&mut call.reply, stream, most);
    Ok(())
}

/// How many items FULL shows.
fn full_cost(stream: &Stream, most: usize) -> u64 {
    let limited = |count: usize| count.min(most) as u64;
    let of_group =
        |group: &Group| 2 * limited(group.pending().len()) + group.consumer_count() as u64 + 1;
    let groups: u64 = stream.groups().map(|(_, group)| of_group(group)).sum();
    stream.len().min(most as u64) + groups
}

/// The pairs that both forms begin with: seven.
fn reply_counters(reply: &mut Reply<'_>, stream: &Stream) {
    let blocks = stream.block_count() as i64;
    pair_int(reply, "length", stream.len().cast_signed());
    pair_int(reply, "radix-tree-keys", blocks);
    pair_int(reply, "radix-tree-nodes", blocks + 1 + i64::from(blocks > 1));
    pair_id(reply, "last-generated-id", stream.last_id());
    pair_id(reply, "max-deleted-entry-id", stream.max_deleted_id());
    pair_int(reply, "entries-added", stream.entries_added().cast_signed());
    pair_id(reply, "recorded-first-entry-id", stream.first_id());
}

fn reply_overview(reply: &mut Reply<'_>, stream: &Stream) {
    reply.map(10);
    reply_counters(reply, stream);
    pair_int(reply, "groups", stream.groups().len() as i64);
    reply.bulk(b"first-entry");
    match stream.range(StreamId::MIN, StreamId::MAX).next() {
        Some(entry) => reply_entry(reply, &entry),
        None => reply.null(),
    }
    reply.bulk(b"last-entry");
    match stream.last_entry() {
        Some(entry) => reply_entry(reply, &entry),
        None => reply.null(),
    }
}

fn reply_full(reply: &mut Reply<'_>, stream: &Stream, most: usize) {
    reply.map(9);
    reply_counters(reply, stream);
    reply.bulk(b"entries");
    reply_entries(reply, stream.range(StreamId::MIN, StreamId::MAX).take(most));
    reply.bulk(b"groups");
    reply.array(stream.groups().len());
    for (name, group) in stream.groups() {
        reply.map(7);
        reply.bulk(b"name");
        reply.bulk(name);
        reply_progress(reply, stream, group);
        pair_int(reply, "pel-count", group.pending().len() as i64);
        reply_group_pending(reply, group, most);
        reply.bulk(b"consumers");
        reply.array(group.consumer_count());
        for consumer in group.consumers() {
            reply_consumer(reply, group, consumer, most);
        }
    }
}

fn reply_group_pending(reply: &mut Reply<'_>, group: &Group, most: usize) {
    reply.bulk(b"pending");
    reply.array(group.pending().len().min(most));
    for pending in group.pending().iter().take(most) {
        reply.array(4);
        reply_id(reply, pending.id);
        reply.bulk(group.consumer(pending.consumer).map_or(&[], |consumer| &consumer.name));
        reply.int(pending.delivered_at.0);
        reply.int(pending.count.cast_signed());
    }
}

fn reply_consumer(reply: &mut Reply<'_>, group: &Group, consumer: &Consumer, most: usize) {
    reply.map(5);
    reply.bulk(b"name");
    reply.bulk(&consumer.name);
    pair_int(reply, "seen-time", consumer.seen_at.0);
    pair_int(reply, "active-time", consumer.active_at.map_or(-1, |at| at.0));
    pair_int(reply, "pel-count", consumer.pending_count() as i64);
    reply.bulk(b"pending");
    reply.array(consumer.pending_count().min(most));
    let ids = consumer.pending_from(StreamId::MIN).take(most);
    for pending in ids.filter_map(|id| group.pending().get(id)) {
        reply.array(3);
        reply_id(reply, pending.id);
        reply.int(pending.delivered_at.0);
        reply.int(pending.count.cast_signed());
    }
}
