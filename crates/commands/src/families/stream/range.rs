//! Reading entries: their number, and those between two ids.

use pantala_values::Stream;
use pantala_values::stream::{Entry, StreamId};

use super::options::{int, interval_end, interval_start};
use super::{WORKER_ENTRIES, leave_if_long, reply_entry};
use crate::calls::call::{Call, CommandResult};
use crate::error::{self, ClientError};
use crate::long_work::incremental::{self, Aggregate, Header, WorkStep};
use crate::options::is_word;
use crate::rows::command::{Command, Flags, Group, Handler, KeyFlags, KeySpec};

pub(super) const XLEN: Command = Command::read("XLEN", xlen, Group::Stream)
    .arity(2)
    .flags(Flags::FAST)
    .keys(&[KeySpec::one(1, KeyFlags::LOOK)])
    .since("5.0.0")
    .syntax("key")
    .summary("Counts the entries of a stream.");

const KEY: &[KeySpec] = &[KeySpec::one(1, KeyFlags::READ)];

const fn range_row(name: &'static str, handler: Handler) -> Command {
    Command::read(name, handler, Group::Stream)
        .arity(-4)
        .keys(KEY)
        .since("5.0.0")
        .complexity("O(N) for N entries returned")
}

pub(super) const XRANGE: Command = range_row("XRANGE", |call| xrange(call, false))
    .syntax("key start end [COUNT count:int]")
    .summary("Returns the entries of a stream from one id to another.");

pub(super) const XREVRANGE: Command = range_row("XREVRANGE", |call| xrange(call, true))
    .syntax("key end start [COUNT count:int]")
    .summary("Returns the entries of a stream from one id back to another.");

fn xlen(call: &mut Call<'_, '_>) -> CommandResult {
    let key = call.key();
    let count = call.keys.read(key).collection::<Stream>()?.map_or(0, Stream::len);
    call.reply.int(count.cast_signed());
    Ok(())
}

fn xrange(call: &mut Call<'_, '_>, is_back: bool) -> CommandResult {
    let (start_at, end_at) = if is_back { (3, 2) } else { (2, 3) };
    let start = interval_start(call.args[start_at])?;
    let end = interval_end(call.args[end_at])?;
    let count = parse_count(&call.args[4..])?;
    if count == Some(0) {
        let key = call.key();
        match call.keys.read(key).collection::<Stream>()? {
            Some(_) => call.reply.null_array(),
            None => call.reply.array(0),
        }
        return Ok(());
    }
    let (most, lane) = (count.unwrap_or(usize::MAX), call.lane);
    let read = call.read_whole(
        incremental::open,
        |stream: &Stream, reply| {
            if most as u64 > WORKER_ENTRIES {
                leave_if_long(lane, stream.count_about(start, end).min(most as u64))?;
            }
            Ok(((start, end), Header::begin(Aggregate::Array, reply, None)))
        },
        |stream, ((start, end), mut header), step| {
            let left = most - header.count;
            let last = match is_back {
                false => reply_some(step, stream.range(start, end).take(left), &mut header),
                true => reply_some(step, stream.range_back(start, end).take(left), &mut header),
            };
            let rest = match is_back {
                false => last.and_then(StreamId::next).map(|start| (start, end)),
                true => last.and_then(StreamId::previous).map(|end| (start, end)),
            };
            incremental::step(rest, header)
        },
    )?;
    match read {
        Some(header) => header.end(Aggregate::Array, &mut call.reply),
        None => call.reply.array(0),
    }
    Ok(())
}

/// Writes entries while there is room; returns the last one, if there may be more after it.
fn reply_some<'a>(
    step: &mut WorkStep<'_, '_>,
    entries: impl Iterator<Item = Entry<'a>>,
    header: &mut Header,
) -> Option<StreamId> {
    for entry in entries {
        reply_entry(step.reply, &entry);
        header.count += 1;
        if !step.has_room() {
            return Some(entry.id);
        }
    }
    None
}

/// Parses COUNT; negative ones count as 0.
fn parse_count(words: &[&[u8]]) -> Result<Option<usize>, ClientError> {
    let mut count = None;
    let mut rest = words;
    while !rest.is_empty() {
        match rest {
            [word, value, behind @ ..] if is_word(word, "COUNT") => {
                count = Some(usize::try_from(int(value)?).unwrap_or(0));
                rest = behind;
            }
            _ => return Err(error::SYNTAX),
        }
    }
    Ok(count)
}
