//! Random members: SPOP removes them, SRANDMEMBER only returns them.

use std::ops::ControlFlow;

use pantala_base::number::parse_i64;
use pantala_keyspace::{Expiry, event};
use pantala_values::Set;

use super::{ANY_OUTPUT, check_lane, limits, open, reads, reply_member, writes};
use crate::calls::call::{Call, CommandResult};
use crate::calls::record::RemovedElements;
use crate::error;
use crate::long_work::draws::{Selection, are_few};
use crate::long_work::incremental::{self, Aggregate, Header};
use crate::rows::command::{Command, Flags, KeyFlags, KeySpec};

const TAKE: &[KeySpec] = &[KeySpec::one(1, KeyFlags::TAKE)];

/// If fewer than a fifth as many members stay as go, those that stay are drawn.
const GOING_FOR_STAYING: usize = 5;

pub(super) const SPOP: Command = writes("SPOP", spop)
    .arity(-2)
    .flags(Flags::FAST)
    .keys(TAKE)
    .tips(ANY_OUTPUT)
    .complexity("O(N) for N members taken out")
    .syntax("key [count:int]")
    .summary("Removes random members of a set and returns them.");

fn spop(call: &mut Call<'_, '_>) -> CommandResult {
    match call.args.len() {
        2 => pop_one(call),
        3 => pop_many(call),
        _ => Err(error::SYNTAX.into()),
    }
}

fn pop_one(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, now, space) = (call.key(), call.now(), call.space());
    let mut gone = RemovedElements::new(call);
    let mut opened = open(call.keys, key, call.lane)?;
    let reply = &mut call.reply;
    let Some(set) = opened.collection_mut::<Set>()? else {
        reply.null();
        return Ok(());
    };
    let popped = set.pop(&mut space.chance(), now, |member| {
        gone.add(member);
        reply_member(reply, member);
    });
    match popped {
        Some(()) => {
            opened.publish_collection::<Set>(event::SPOP);
            drop(opened);
            gone.record(call, b"SREM", key.bytes);
        }
        // All had expired, and are removed now.
        None => {
            opened.publish_collection::<Set>(event::SEXPIRED);
            reply.null();
        }
    }
    Ok(())
}

fn pop_many(call: &mut Call<'_, '_>) -> CommandResult {
    let count = parse_i64(call.args[2]).and_then(|count| usize::try_from(count).ok());
    let count = count.ok_or(error::NOT_POSITIVE)?;
    let (key, now, space) = (call.key(), call.now(), call.space());
    let limits = limits(call.settings);
    let mut gone = RemovedElements::new(call);
    let mut opened = open(call.keys, key, call.lane)?;
    if let Some(set) = opened.collection::<Set>()?.map(Set::view)
        && !set.is_exact(now)
    {
        check_lane(call.lane, set.len())?;
        opened.expire_elements(usize::MAX);
    }
    let Some(set) = opened.collection::<Set>()?.map(Set::view).filter(|_| count > 0) else {
        call.reply.set(0);
        return Ok(());
    };
    check_lane(call.lane, if count >= set.len() { set.work() } else { count })?;
    let reply = &mut call.reply;
    let size = set.len();
    if count >= size {
        reply.set(size);
        set.iter(now).for_each(|member| reply_member(reply, member));
        opened.remove();
        opened.counts_as(size);
        opened.publish(event::SPOP);
        opened.announce(event::DEL);
        drop(opened);
        if call.is_recorded() {
            call.record_end(key.bytes);
        }
        return Ok(());
    }
    let Some(set) = opened.collection_mut::<Set>()? else { return Ok(()) };
    let mut chance = space.chance();
    let left = size - count;
    if left * GOING_FOR_STAYING > count {
        let (mark, mut shown) = (reply.begin(), 0);
        for _ in 0..count {
            let popped = set.pop(&mut chance, now, |member| {
                gone.add(member);
                reply_member(reply, member);
            });
            shown += usize::from(popped.is_some());
        }
        reply.end_set(mark, shown);
        opened.counts_as(shown);
        opened.publish_collection::<Set>(event::SPOP);
        drop(opened);
        gone.record(call, b"SREM", key.bytes);
        return Ok(());
    }
    let stays = set.split_rest(left, limits, &mut chance, now);
    let (mark, mut shown) = (reply.begin(), 0);
    for member in set.view().iter(now) {
        gone.add(member);
        reply_member(reply, member);
        shown += 1;
    }
    reply.end_set(mark, shown);
    opened.set_collection(stays, Expiry::Keep);
    opened.counts_as(shown);
    opened.publish_collection::<Set>(event::SPOP);
    drop(opened);
    gone.record(call, b"SREM", key.bytes);
    Ok(())
}

pub(super) const SRANDMEMBER: Command = reads("SRANDMEMBER", srandmember)
    .arity(-2)
    .tips(ANY_OUTPUT)
    .complexity("O(N) for N members wished for")
    .syntax("key [count:int]")
    .summary("Returns random members of a set.");

fn srandmember(call: &mut Call<'_, '_>) -> CommandResult {
    match call.args.len() {
        2 => show_one(call),
        3 => show_many(call),
        _ => Err(error::SYNTAX.into()),
    }
}

fn show_one(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, now, space) = (call.key(), call.now(), call.space());
    let opened = call.keys.read(key);
    let set = opened.collection::<Set>()?.map(Set::view);
    match set.and_then(|set| set.random(&mut space.chance(), now)) {
        Some(member) => reply_member(&mut call.reply, member),
        None => call.reply.null(),
    }
    Ok(())
}

fn show_many(call: &mut Call<'_, '_>) -> CommandResult {
    let wanted = parse_i64(call.args[2]).ok_or(error::NOT_INTEGER)?;
    if wanted == i64::MIN {
        return Err(error::COUNT_OUT_OF_RANGE.into());
    }
    let count = usize::try_from(wanted.unsigned_abs()).unwrap_or(usize::MAX);
    if wanted >= 0 {
        return show_different(call, count);
    }
    let (now, lane, mut chance) = (call.now(), call.lane, call.space().chance());
    call.draw_repeatedly(
        incremental::open,
        (count, 1),
        || check_lane(lane, count),
        |set: &Set, left, step| {
            let mut drawn = 0;
            set.view().draw_many(left, &mut chance, now, |member| {
                reply_member(step.reply, member);
                drawn += 1;
                step.has_room()
            });
            drawn
        },
    )
}

fn show_different(call: &mut Call<'_, '_>, count: usize) -> CommandResult {
    let (key, now, lane, mut chance) = (call.key(), call.now(), call.lane, call.space().chance());
    let opened = call.keys.read(key);
    let set = opened.collection::<Set>()?.map(Set::view).filter(|_| count > 0);
    let Some(set) = set else {
        call.reply.array(0);
        return Ok(());
    };
    if are_few(count, set.len()) {
        let picked = set.sample(count, &mut chance, now);
        call.reply.array(picked.len());
        picked.into_iter().for_each(|member| reply_member(&mut call.reply, member));
        return Ok(());
    }
    drop(opened);
    let read = call.read_whole(
        |keys, key| Ok(keys.peek(key)),
        |set: &Set, reply| {
            let set = set.view();
            check_lane(lane, set.work())?;
            let selection = Selection::new(count, set.live_len(now));
            Ok((0, selection, Header::later(reply)))
        },
        |set, (from, mut selection, mut header), step| {
            selection.begin_step();
            let next = set.view().part(from, now, |member| {
                if selection.picks(&mut chance) {
                    reply_member(step.reply, member);
                    header.count += 1;
                }
                selection.goes_on(step)
            });
            match next.filter(|_| !selection.is_done()) {
                Some(next) => ControlFlow::Continue((next, selection, header)),
                None => ControlFlow::Break(header),
            }
        },
    )?;
    match read {
        Some(header) => header.end(Aggregate::Array, &mut call.reply),
        None => call.reply.array(0),
    }
    Ok(())
}
