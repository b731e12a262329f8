//! LMOVE and RPOPLPUSH: an element moves from one list to another, or to an end of its own.

use pantala_keyspace::Key;
use pantala_table::IntText;
use pantala_values::List;
use pantala_values::list::End;
use pantala_values::packed::Element;
use smallvec::SmallVec;

use super::{FROM_TO, parse_end, pop, push, reply_element};
use crate::calls::call::{Call, CommandResult, Stop};
use crate::error::ClientError;
use crate::rows::command::{Command, Flags, Group};

/// The end of the source and the end of the destination.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    from: End,
    to: End,
}

impl Ends {
    /// Those of RPOPLPUSH.
    pub(super) const ROUND: Ends = Ends { from: End::Tail, to: End::Head };

    pub(super) fn parse(from: &[u8], to: &[u8]) -> Result<Ends, ClientError> {
        Ok(Ends { from: parse_end(from)?, to: parse_end(to)? })
    }
}

pub(super) const RPOPLPUSH: Command = Command::write("RPOPLPUSH", rpoplpush, Group::List)
    .arity(3)
    .flags(Flags::DENYOOM)
    .keys(FROM_TO)
    .since("1.2.0")
    .syntax("source:key destination:key")
    .summary("Moves the last element of a list to the head of another, and returns it.");

fn rpoplpush(call: &mut Call<'_, '_>) -> CommandResult {
    shift_or_null(call, Ends::ROUND)
}

pub(super) const LMOVE: Command = Command::write("LMOVE", lmove, Group::List)
    .arity(5)
    .flags(Flags::DENYOOM)
    .keys(FROM_TO)
    .since("6.2.0")
    .syntax("source:key destination:key (wherefrom: LEFT | RIGHT) (whereto: LEFT | RIGHT)")
    .summary("Moves an element from an end of a list to an end of a list, and returns it.");

fn lmove(call: &mut Call<'_, '_>) -> CommandResult {
    let ends = Ends::parse(call.args[3], call.args[4])?;
    shift_or_null(call, ends)
}

fn shift_or_null(call: &mut Call<'_, '_>, ends: Ends) -> CommandResult {
    let (source, target) = (call.nth_key(1, 0), call.nth_key(2, 1));
    if !shift(call, source, target, ends)? {
        call.reply.null();
    }
    Ok(())
}

/// Moves an element and returns it; false if there is no source. The target is not looked at before
/// there is a source.
pub(super) fn shift(
    call: &mut Call<'_, '_>,
    source: Key<'_>,
    target: Key<'_>,
    ends: Ends,
) -> Result<bool, Stop> {
    if call.keys.open(source).collection::<List>()?.is_none() {
        return Ok(false);
    }
    if source.bytes == target.bytes {
        return turn(call, source, ends);
    }
    call.keys.open(target).collection::<List>()?;
    let fill = call.fill();
    let mut moved: SmallVec<[u8; 128]> = SmallVec::new();
    let mut number = None;
    let mut opened = call.keys.peek(source);
    if let Some(list) = opened.collection_mut::<List>()? {
        list.pop(ends.from, |element| match element {
            Element::Int(int) => number = Some(int),
            Element::Bytes(bytes) => moved.extend_from_slice(bytes),
        });
        list.shrink(fill);
    }
    // Published below: the addition first, then the removal.
    let left = opened.suspend();
    let element = number.map_or(Element::Bytes(&moved), Element::Int);
    let mut opened = call.keys.peek(target);
    let list = opened.collection_or_new::<List>()?;
    list.grow(text_bytes(element), 1, fill);
    list.push(ends.to, element);
    // Both together count as one change.
    opened.counts_as(0);
    opened.publish(push::event_of(ends.to));
    drop(opened);
    call.keys.resume(left, source).publish_collection::<List>(pop::event_of(ends.from));
    reply_element(&mut call.reply, element);
    Ok(true)
}

/// Moves an element within one list.
fn turn(call: &mut Call<'_, '_>, key: Key<'_>, ends: Ends) -> Result<bool, Stop> {
    let fill = call.fill();
    let mut opened = call.keys.peek(key);
    let Some(list) = opened.collection_mut::<List>()? else { return Ok(false) };
    let mut moved: SmallVec<[u8; 128]> = SmallVec::new();
    list.pop(ends.from, |element| moved.extend_from_slice(element.text(&mut IntText::new())));
    let element = Element::of(&moved);
    list.grow(text_bytes(element), 1, fill);
    list.push(ends.to, element);
    list.shrink(fill);
    reply_element(&mut call.reply, element);
    opened.publish(push::event_of(ends.to));
    opened.announce(pop::event_of(ends.from));
    Ok(true)
}

/// The reference counts only elements that it moves as text.
fn text_bytes(element: Element<'_>) -> usize {
    match element {
        Element::Int(_) => 0,
        Element::Bytes(bytes) => bytes.len(),
    }
}
