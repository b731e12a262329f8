//! Going through all members of a set.

use pantala_base::number::parse_u64;
use pantala_protocol::Reply;
use pantala_table::IntText;
use pantala_values::Set;
use pantala_values::packed::Element;
use pantala_values::set::SetRef;

use super::{check_lane, reply_member};
use crate::call::{Call, Done};
use crate::error;
use crate::options::{ElementScan, LeaveOut};

pub(super) fn smembers(call: &mut Call<'_, '_>) -> Done {
    let (key, now) = (call.key(), call.now());
    let opened = call.keys.read(key);
    let Some(set) = opened.collection::<Set>()?.map(Set::view) else {
        call.reply.set(0);
        return Ok(());
    };
    check_lane(call.lane, set.work())?;
    let reply = &mut call.reply;
    if set.is_exact(now) {
        reply.set(set.len());
        set.iter(now).for_each(|member| reply_member(reply, member));
        return Ok(());
    }
    let (mark, mut count) = (reply.begin(), 0);
    for member in set.iter(now) {
        reply_member(reply, member);
        count += 1;
    }
    reply.end_set(mark, count);
    Ok(())
}

/// As in the reference, a missing key and one of another type are found before a wrong option is.
pub(super) fn sscan(call: &mut Call<'_, '_>) -> Done {
    let cursor = parse_u64(call.args[2]).ok_or(error::INVALID_CURSOR)?;
    let (key, now) = (call.key(), call.now());
    let opened = call.keys.read(key);
    let Some(set) = opened.collection::<Set>()?.map(Set::view) else {
        ElementScan::begin(&mut call.reply, 0);
        call.reply.array(0);
        return Ok(());
    };
    let options = ElementScan::parse(&call.args[3..], LeaveOut::Nothing)?;
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
    // The cursor is known last and written first: the rest waits in a reply of its own.
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
