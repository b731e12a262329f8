//! Taking elements from the ends.

use pantala_base::number::parse_i64;
use pantala_keyspace::Key;
use pantala_keyspace::event::{self, KeyEvent};
use pantala_values::List;
use pantala_values::list::{End, ListEnd};
use std::ops::ControlFlow;

use super::{parse_end, reply_element};
use crate::calls::call::{Call, CommandResult, Stop};
use crate::error;
use crate::options::PopOptions;
use crate::rows::command::{Command, Flags, Group, KeyFlags, KeySpec};

const TAKE: &[KeySpec] = &[KeySpec::one(1, KeyFlags::TAKE)];

pub(super) const LPOP: Command = Command::write("LPOP", lpop, Group::List)
    .arity(-2)
    .flags(Flags::FAST)
    .keys(TAKE)
    .complexity("O(N) for N elements")
    .syntax("key [count:int]")
    .summary("Removes elements from the head of a list and returns them.");

fn lpop(call: &mut Call<'_, '_>) -> CommandResult {
    pop(call, End::Head)
}

pub(super) const RPOP: Command = Command::write("RPOP", rpop, Group::List)
    .arity(-2)
    .flags(Flags::FAST)
    .keys(TAKE)
    .complexity("O(N) for N elements")
    .syntax("key [count:int]")
    .summary("Removes elements from the tail of a list and returns them.");

fn rpop(call: &mut Call<'_, '_>) -> CommandResult {
    pop(call, End::Tail)
}

pub(super) fn event_of(end: End) -> KeyEvent {
    match end {
        End::Head => event::LPOP,
        End::Tail => event::RPOP,
    }
}

/// The command that takes from this end, for the journal.
pub(super) fn pop_word(end: End) -> &'static [u8] {
    match end {
        End::Head => b"LPOP",
        End::Tail => b"RPOP",
    }
}

#[inline]
fn pop(call: &mut Call<'_, '_>, end: End) -> CommandResult {
    match call.args {
        [_, _] => pop_one(call, end),
        [_, _, count] => {
            let count = parse_i64(count).and_then(|count| usize::try_from(count).ok());
            pop_count(call, end, count.ok_or(error::NOT_POSITIVE)?)
        }
        _ => Err(error::wrong_arity(call.command.name).into()),
    }
}

fn pop_one(call: &mut Call<'_, '_>, end: End) -> CommandResult {
    let (key, fill) = (call.key(), call.fill());
    let mut opened = call.keys.open(key);
    let Some(list) = opened.collection_mut::<List>()? else {
        call.reply.null();
        return Ok(());
    };
    list.pop(end, |element| reply_element(&mut call.reply, element));
    list.shrink(fill);
    opened.publish_collection::<List>(event_of(end));
    Ok(())
}

fn pop_count(call: &mut Call<'_, '_>, end: End, count: usize) -> CommandResult {
    let key = call.key();
    let Some(len) = call.keys.open(key).collection::<List>()?.map(List::len) else {
        call.reply.null_array();
        return Ok(());
    };
    let count = count.min(len);
    if count == 0 {
        call.reply.array(0);
        return Ok(());
    }
    take(call, key, end, count)
}

/// Returns `count` elements of a list that has as many, as an array, and removes them.
fn take(call: &mut Call<'_, '_>, key: Key<'_>, end: End, count: usize) -> CommandResult {
    call.touches(count)?;
    let fill = call.fill();
    let mut opened = call.keys.peek(key);
    let Some(list) = opened.collection_mut::<List>()? else { return Ok(()) };
    let (from, way, first) = match end {
        End::Head => (0, ListEnd::Forward, 0),
        End::Tail => (list.len() - count, ListEnd::Backward, list.len() - 1),
    };
    call.reply.array(count);
    let mut left = count;
    list.visit(first, way, |element| {
        reply_element(&mut call.reply, element);
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    list.remove(from, count);
    list.shrink(fill);
    opened.counts_as(count);
    opened.publish_collection::<List>(event_of(end));
    Ok(())
}

pub(super) const LMPOP: Command = Command::write("LMPOP", lmpop, Group::List)
    .arity(-4)
    .flags(Flags::MOVABLEKEYS)
    .keys(&[KeySpec::counted(1, 1, KeyFlags::TAKE)])
    .since("7.0.0")
    .complexity("O(N+M) for N keys and M elements")
    .syntax("numkeys:int key [key ...] (where: LEFT | RIGHT) [COUNT count:int]")
    .summary("Removes elements from the first list that has any.");

fn lmpop(call: &mut Call<'_, '_>) -> CommandResult {
    let wanted = PopOptions::parse(&call.args[1..], parse_end)?;
    let keys = call.all_keys();
    if !take_from_first(call, &keys, &wanted)? {
        call.reply.null_array();
    }
    Ok(())
}

/// Takes from the first of the keys that has a list; false if none has.
pub(super) fn take_from_first(
    call: &mut Call<'_, '_>,
    keys: &[Key<'_>],
    wanted: &PopOptions<End>,
) -> Result<bool, Stop> {
    for &key in keys {
        let len = call.keys.open(key).collection::<List>()?.map(List::len);
        if let Some(len) = len {
            let count = wanted.count.min(len);
            call.touches(count)?;
            call.reply.array(2);
            call.reply.bulk(key.bytes);
            take(call, key, wanted.end, count)?;
            if call.is_recorded() {
                call.record_pop(pop_word(wanted.end), key.bytes, count);
            }
            return Ok(true);
        }
    }
    Ok(false)
}
