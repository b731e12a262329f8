//! Adding elements at the ends.

use pantala_keyspace::Expiry;
use pantala_keyspace::event::{self, KeyEvent};
use pantala_values::List;
use pantala_values::list::End;
use pantala_values::packed::Element;

use super::{ADD, storable};
use crate::calls::call::{Call, CommandResult};
use crate::rows::command::{Command, Flags, Group};

const PUSH: Flags = Flags::DENYOOM.union(Flags::FAST);

pub(super) const LPUSH: Command = Command::write("LPUSH", lpush, Group::List)
    .arity(-3)
    .flags(PUSH)
    .keys(ADD)
    .complexity("O(N) for N elements")
    .syntax("key element [element ...]")
    .summary("Puts elements at the head of a list; a missing one is created.");

fn lpush(call: &mut Call<'_, '_>) -> CommandResult {
    push(call, End::Head, true)
}

pub(super) const RPUSH: Command = Command::write("RPUSH", rpush, Group::List)
    .arity(-3)
    .flags(PUSH)
    .keys(ADD)
    .complexity("O(N) for N elements")
    .syntax("key element [element ...]")
    .summary("Puts elements at the tail of a list; a missing one is created.");

fn rpush(call: &mut Call<'_, '_>) -> CommandResult {
    push(call, End::Tail, true)
}

pub(super) const LPUSHX: Command = Command::write("LPUSHX", lpushx, Group::List)
    .arity(-3)
    .flags(PUSH)
    .keys(ADD)
    .since("2.2.0")
    .complexity("O(N) for N elements")
    .syntax("key element [element ...]")
    .summary("Puts elements at the head of a list, if there is one.");

fn lpushx(call: &mut Call<'_, '_>) -> CommandResult {
    push(call, End::Head, false)
}

pub(super) const RPUSHX: Command = Command::write("RPUSHX", rpushx, Group::List)
    .arity(-3)
    .flags(PUSH)
    .keys(ADD)
    .since("2.2.0")
    .complexity("O(N) for N elements")
    .syntax("key element [element ...]")
    .summary("Puts elements at the tail of a list, if there is one.");

fn rpushx(call: &mut Call<'_, '_>) -> CommandResult {
    push(call, End::Tail, false)
}

pub(super) fn event_of(end: End) -> KeyEvent {
    match end {
        End::Head => event::LPUSH,
        End::Tail => event::RPUSH,
    }
}

#[inline]
fn push(call: &mut Call<'_, '_>, end: End, creates: bool) -> CommandResult {
    let (key, fill, elements) = (call.key(), call.fill(), &call.args[2..]);
    let mut bytes = 0;
    for element in elements {
        bytes += storable(element)?.len();
    }
    let extend = |list: &mut List| {
        list.grow(bytes, elements.len(), fill);
        for element in elements {
            list.push(end, Element::of(element));
        }
        list.len()
    };
    let is_copied = creates && call.has_many_args();
    let swapped = if is_copied { call.copy_and_swap(extend)? } else { None };
    let mut opened = call.keys.open(key);
    if !creates && opened.collection::<List>()?.is_none() {
        call.reply.int(0);
        return Ok(());
    }
    let len = match swapped {
        Some((list, len)) => {
            list.into_iter().for_each(|list| opened.set_collection(list, Expiry::Keep));
            len
        }
        None => extend(opened.collection_or_new::<List>()?),
    };
    opened.counts_as(call.args.len() - 2);
    opened.publish(event_of(end));
    call.reply.int(len as i64);
    Ok(())
}
