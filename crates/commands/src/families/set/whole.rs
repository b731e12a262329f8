//! Reading all members of a set.

use pantala_base::number::parse_u64;
use pantala_protocol::Reply;
use pantala_table::IntText;
use pantala_values::Set;
use pantala_values::packed::Element;
use pantala_values::set::SetRef;

use super::{ANY_ORDER, ANY_OUTPUT, check_lane, reads, reply_member};
use crate::calls::call::{Call, CommandResult};
use crate::error;
use crate::long_work::incremental::{self, Aggregate, Header};
use crate::options::{ElementScan, OmitOption};
use crate::rows::command::Command;

pub(super) const SMEMBERS: Command = reads("SMEMBERS", smembers)
    .arity(2)
    .tips(ANY_ORDER)
    .complexity("O(N) for N members")
    .syntax("key")
    .summary("Returns all members of a set.");

fn smembers(call: &mut Call<'_, '_>) -> CommandResult {
    let (now, lane) = (call.now(), call.lane);
    let read = call.read_whole(
        incremental::open,
        |set: &Set, reply| {
            let set = set.view();
            check_lane(lane, set.work())?;
            let length = set.is_exact(now).then_some(set.len());
            Ok((0, Header::begin(Aggregate::Set, reply, length)))
        },
        |set, (from, mut header), step| {
            let next = set.view().part(from, now, |member| {
                reply_member(step.reply, member);
                header.count += 1;
                step.has_room()
            });
            incremental::step(next, header)
        },
    )?;
    match read {
        Some(header) => header.end(Aggregate::Set, &mut call.reply),
        None => call.reply.set(0),
    }
    Ok(())
}

pub(super) const SSCAN: Command = reads("SSCAN", sscan)
    .arity(-3)
    .tips(ANY_OUTPUT)
    .since("2.8.0")
    .complexity("O(COUNT) for one call, O(N) for N members in all")
    .syntax("key cursor:int [MATCH pattern] [COUNT count:int]")
    .summary("Lists some members of a set, and tells where to go on.");

/// As in the reference, a missing key or one of another type is reported before a wrong option.
fn sscan(call: &mut Call<'_, '_>) -> CommandResult {
    let cursor = parse_u64(call.args[2]).ok_or(error::INVALID_CURSOR)?;
    let (key, now) = (call.key(), call.now());
    let opened = call.keys.read(key);
    let Some(set) = opened.collection::<Set>()?.map(Set::view) else {
        ElementScan::begin(&mut call.reply, 0);
        call.reply.array(0);
        return Ok(());
    };
    let options = ElementScan::parse(&call.args[3..], OmitOption::Nothing)?;
    check_lane(call.lane, set.len().min(options.count))?;
    let fits = |member: Element<'_>| options.fits(member.text(&mut IntText::new()));
    let mut count = 0;
    let SetRef::Large(_) = set else {
        let reply = &mut call.reply;
        ElementScan::begin(reply, 0);
        let mark = reply.begin();
        for member in set.iter(now).filter(|member| fits(*member)) {
            reply_member(reply, member);
            count += 1;
        }
        reply.end_array(mark, count);
        return Ok(());
    };
    // The cursor is known last and written first, so the rest goes into a reply of its own.
    let mut behind = Vec::new();
    let mut rest = Reply::new(&mut behind, call.reply.version());
    let next = set.scan(cursor, options.count, now, |member| {
        if fits(member) {
            count += 1;
            reply_member(&mut rest, member);
        }
    });
    ElementScan::begin(&mut call.reply, next);
    call.reply.array(count);
    call.reply.raw(&behind);
    Ok(())
}
