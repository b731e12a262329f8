//! Blocking commands of lists.
//!
//! One that is served for a changed key ([`Call::ready`]) looks at that key only; the destination
//! of the element is another key, whose partition must be free.

use pantala_base::UnixMs;
use pantala_keyspace::Key;
use pantala_values::list::End;
use pantala_values::{List, Type};

use super::pop::{event_of, pop_word, take_from_first};
use super::shift::{Ends, shift};
use super::{FROM_TO, parse_end, reply_element};
use crate::calls::call::{Call, CommandResult, KeyWait, Park, Stop, TimeoutReply, WaitedKeys};
use crate::options::{PopOptions, timeout};
use crate::rows::command::{Command, Flags, Group, KeyFlags, KeySpec};

const ALL_BUT_LAST: &[KeySpec] = &[KeySpec::range(1, -2, 1, KeyFlags::TAKE)];
const WAIT_AND_PUSH: Flags = Flags::BLOCKING.union(Flags::DENYOOM);
const WAIT: Flags = Flags::BLOCKING;

pub(super) const BLPOP: Command = Command::write("BLPOP", blpop, Group::List)
    .arity(-3)
    .flags(WAIT)
    .keys(ALL_BUT_LAST)
    .since("2.0.0")
    .complexity("O(N) for N keys")
    .syntax("key [key ...] timeout:float")
    .summary("Removes the first element of the first list that has any, waiting for one.");

fn blpop(call: &mut Call<'_, '_>) -> CommandResult {
    pop(call, End::Head)
}

pub(super) const BRPOP: Command = Command::write("BRPOP", brpop, Group::List)
    .arity(-3)
    .flags(WAIT)
    .keys(ALL_BUT_LAST)
    .since("2.0.0")
    .complexity("O(N) for N keys")
    .syntax("key [key ...] timeout:float")
    .summary("Removes the last element of the first list that has any, waiting for one.");

fn brpop(call: &mut Call<'_, '_>) -> CommandResult {
    pop(call, End::Tail)
}

fn is_list(call: &mut Call<'_, '_>, key: Key<'_>) -> bool {
    call.keys.peek(key).kind() == Some(Type::List)
}

fn wait(call: &mut Call<'_, '_>, until: Option<UnixMs>, keys: WaitedKeys) -> CommandResult {
    call.wait(KeyWait { until, keys, at_timeout: TimeoutReply::NullArray, args: None })
}

fn pop(call: &mut Call<'_, '_>, end: End) -> CommandResult {
    let until = timeout(call.args[call.args.len() - 1], call.now())?;
    let fill = call.fill();
    for key in call.keys_of_type(Type::List) {
        let mut opened = call.keys.open(key);
        let Some(list) = opened.collection_mut::<List>()? else { continue };
        call.reply.array(2);
        call.reply.bulk(key.bytes);
        list.pop(end, |element| reply_element(&mut call.reply, element));
        list.shrink(fill);
        opened.publish_collection::<List>(event_of(end));
        drop(opened);
        if call.is_recorded() {
            call.record_as(&[pop_word(end), key.bytes]);
        }
        return Ok(());
    }
    wait(call, until, WaitedKeys::All)
}

pub(super) const BLMPOP: Command = Command::write("BLMPOP", blmpop, Group::List)
    .arity(-5)
    .flags(WAIT.union(Flags::MOVABLEKEYS))
    .keys(&[KeySpec::counted(2, 1, KeyFlags::TAKE)])
    .since("7.0.0")
    .complexity("O(N+M) for N keys and M elements")
    .syntax("timeout:float numkeys:int key [key ...] (where: LEFT | RIGHT) [COUNT count:int]")
    .summary("Removes elements from the first list that has any, waiting until one has.");

fn blmpop(call: &mut Call<'_, '_>) -> CommandResult {
    let wanted = PopOptions::parse(&call.args[2..], parse_end)?;
    let until = timeout(call.args[1], call.now())?;
    let keys = call.keys_of_type(Type::List);
    if take_from_first(call, &keys, &wanted)? {
        return Ok(());
    }
    wait(call, until, WaitedKeys::All)
}

pub(super) const BRPOPLPUSH: Command = Command::write("BRPOPLPUSH", brpoplpush, Group::List)
    .arity(4)
    .flags(WAIT_AND_PUSH)
    .keys(FROM_TO)
    .since("2.2.0")
    .syntax("source:key destination:key timeout:float")
    .summary("Moves the last element of a list to the head of another, waiting for one.");

fn brpoplpush(call: &mut Call<'_, '_>) -> CommandResult {
    let until = timeout(call.args[3], call.now())?;
    let args = call.args;
    shift_or_wait(call, until, Ends::ROUND, &[b"RPOPLPUSH", args[1], args[2]])
}

pub(super) const BLMOVE: Command = Command::write("BLMOVE", blmove, Group::List)
    .arity(6)
    .flags(WAIT_AND_PUSH)
    .keys(FROM_TO)
    .since("6.2.0")
    .syntax(
        "source:key destination:key (wherefrom: LEFT | RIGHT) (whereto: LEFT | RIGHT) \
         timeout:float",
    )
    .summary("Moves an element from one list to another, waiting until there is one.");

fn blmove(call: &mut Call<'_, '_>) -> CommandResult {
    let ends = Ends::parse(call.args[3], call.args[4])?;
    let until = timeout(call.args[5], call.now())?;
    let args = call.args;
    shift_or_wait(call, until, ends, &[b"LMOVE", args[1], args[2], args[3], args[4]])
}

/// Moves an element or blocks. `recorded` is the command without blocking, for the journal.
fn shift_or_wait(
    call: &mut Call<'_, '_>,
    until: Option<UnixMs>,
    ends: Ends,
    recorded: &[&[u8]],
) -> CommandResult {
    let (source, target) = (call.nth_key(1, 0), call.space().key(call.args[2]));
    let is_served = call.ready.is_some();
    if is_served && !is_list(call, source) {
        return wait(call, until, WaitedKeys::First);
    }
    if is_served && !call.keys.try_hold(target.hash) {
        return Err(Stop::Park(Park::Again));
    }
    if shift(call, source, target, ends)? {
        call.record_as(recorded);
        return Ok(());
    }
    if !call.may_wait {
        call.reply.null();
        return Ok(());
    }
    wait(call, until, WaitedKeys::First)
}
