//! Reading all fields of a hash.

use pantala_base::number::parse_u64;
use pantala_protocol::Reply;
use pantala_table::{IntText, StrRef};
use pantala_values::hash::HashRef;
use pantala_values::{Collection as _, Hash};

use super::{check_lane, reads};
use crate::calls::call::{Call, CommandResult, Lane, Stop, reply_string};
use crate::error;
use crate::long_work::incremental::{self, Aggregate, Header};
use crate::options::{ElementScan, OmitOption};
use crate::rows::command::{Command, Flags};

/// A hash of more bytes than this is read as a whole on the slow lane.
const WORKER_BYTES: usize = 4 << 20;

/// Moves a command that is about to read a whole large hash to the slow lane.
fn check_whole(lane: Lane, hash: &Hash) -> Result<(), Stop> {
    if lane == Lane::Worker && hash.heap_bytes() > WORKER_BYTES {
        return Err(Stop::Lane);
    }
    check_lane(lane, hash.view().len())
}

pub(super) const HGETALL: Command = reads("HGETALL", hgetall)
    .arity(2)
    .flags(Flags::STEADY)
    .tips(&["nondeterministic_output_order"])
    .complexity("O(N) for N fields")
    .syntax("key")
    .summary("Returns all fields of a hash and their values.");

fn hgetall(call: &mut Call<'_, '_>) -> CommandResult {
    read_whole(call, Aggregate::Map, |reply, field, value| {
        reply_string(reply, field);
        reply_string(reply, value);
    })
}

pub(super) const HKEYS: Command = reads("HKEYS", hkeys)
    .arity(2)
    .flags(Flags::STEADY)
    .tips(&["nondeterministic_output_order"])
    .complexity("O(N) for N fields")
    .syntax("key")
    .summary("Returns all fields of a hash, without their values.");

fn hkeys(call: &mut Call<'_, '_>) -> CommandResult {
    read_whole(call, Aggregate::Array, |reply, field, _| reply_string(reply, field))
}

pub(super) const HVALS: Command = reads("HVALS", hvals)
    .arity(2)
    .flags(Flags::STEADY)
    .tips(&["nondeterministic_output_order"])
    .complexity("O(N) for N fields")
    .syntax("key")
    .summary("Returns the values of all fields of a hash.");

fn hvals(call: &mut Call<'_, '_>) -> CommandResult {
    read_whole(call, Aggregate::Array, |reply, _, value| reply_string(reply, value))
}

#[inline]
fn read_whole(
    call: &mut Call<'_, '_>,
    aggregate: Aggregate,
    write: impl Fn(&mut Reply<'_>, StrRef<'_>, StrRef<'_>),
) -> CommandResult {
    let (now, lane) = (call.now(), call.lane);
    let read = call.read_whole(
        incremental::open,
        |hash: &Hash, reply| {
            check_whole(lane, hash)?;
            let hash = hash.view();
            let length = hash.is_exact(now).then_some(hash.len());
            Ok((0, Header::begin(aggregate, reply, length)))
        },
        |hash, (from, mut header), step| {
            let next = hash.view().part(from, now, |field, value| {
                write(step.reply, field, value);
                header.count += 1;
                step.has_room()
            });
            incremental::step(next, header)
        },
    )?;
    match read {
        Some(header) => header.end(aggregate, &mut call.reply),
        None => aggregate.header(&mut call.reply, 0),
    }
    Ok(())
}

pub(super) const HSCAN: Command = reads("HSCAN", hscan)
    .arity(-3)
    .tips(&["nondeterministic_output"])
    .since("2.8.0")
    .complexity("O(COUNT) for one call, O(N) for N fields in all")
    .syntax("key cursor:int [MATCH pattern] [COUNT count:int] [NOVALUES]")
    .summary("Lists some fields of a hash, and tells where to go on.");

/// As in the reference, a missing key or one of another type is reported before a wrong option.
fn hscan(call: &mut Call<'_, '_>) -> CommandResult {
    let cursor = parse_u64(call.args[2]).ok_or(error::INVALID_CURSOR)?;
    let (key, now) = (call.key(), call.now());
    let opened = call.keys.read(key);
    let Some(hash) = opened.collection::<Hash>()?.map(Hash::view) else {
        ElementScan::begin(&mut call.reply, 0);
        call.reply.array(0);
        return Ok(());
    };
    let options = ElementScan::parse(&call.args[3..], OmitOption::Values)?;
    let looked_at = match hash {
        HashRef::Packed(_) => hash.len(),
        HashRef::Large(_) => hash.len().min(options.count),
    };
    check_lane(call.lane, looked_at)?;
    let fits = |field: StrRef<'_>| options.fits(field.bytes(&mut IntText::new()));
    let per_field = if options.is_whole { 2 } else { 1 };
    let mut count = 0;
    if let HashRef::Packed(_) = hash {
        let reply = &mut call.reply;
        ElementScan::begin(reply, 0);
        let mark = reply.begin();
        hash.for_each(now, |field, value| {
            if fits(field) {
                count += per_field;
                reply_string(reply, field);
                if options.is_whole {
                    reply_string(reply, value);
                }
            }
        });
        reply.end_array(mark, count);
        return Ok(());
    }
    // The cursor is known last and written first, so the rest goes into a reply of its own.
    let mut behind = Vec::new();
    let mut rest = Reply::new(&mut behind, call.reply.version());
    let next = hash.scan(cursor, options.count, now, |field, value| {
        if fits(field) {
            count += per_field;
            reply_string(&mut rest, field);
            if options.is_whole {
                reply_string(&mut rest, value);
            }
        }
    });
    ElementScan::begin(&mut call.reply, next);
    call.reply.array(count);
    call.reply.raw(&behind);
    Ok(())
}
