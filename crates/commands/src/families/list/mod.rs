//! Lists.
//!
//! | file | commands |
//! |---|---|
//! | here | LLEN LINDEX LRANGE LSET LINSERT LREM LTRIM |
//! | `push` | LPUSH RPUSH LPUSHX RPUSHX |
//! | `pop` | LPOP RPOP LMPOP |
//! | `shift` | LMOVE RPOPLPUSH |
//! | `position` | LPOS |
//! | `blocking` | BLPOP BRPOP BLMOVE BRPOPLPUSH BLMPOP |
//!
//! A command that reaches far into a long list runs on the slow lane; one that touches at most
//! [`WORKER_ELEMENTS`] elements does not.
//!
//! Tests: compat/transcripts/list.

mod blocking;
mod pop;
mod position;
mod push;
mod shift;

use std::ops::{ControlFlow, Range};

use pantala_base::number::parse_i64;
use pantala_keyspace::event;
use pantala_protocol::Reply;
use pantala_values::List;
use pantala_values::list::{End, ListEnd};
use pantala_values::packed::Element;

use crate::calls::call::{Call, CommandResult, Lane, Stop};
use crate::error::{self, ClientError};
use crate::long_work::incremental::{self, WorkStep};
use crate::options::is_word;
use crate::rows::command::{Command, Flags, Group, KeyFlags, KeySpec};

/// The rows of this family.
pub const ROWS: &[Command] = &[
    blocking::BLMOVE,
    blocking::BLMPOP,
    blocking::BLPOP,
    blocking::BRPOP,
    blocking::BRPOPLPUSH,
    LINDEX,
    LINSERT,
    LLEN,
    shift::LMOVE,
    pop::LMPOP,
    pop::LPOP,
    position::LPOS,
    push::LPUSH,
    push::LPUSHX,
    LRANGE,
    LREM,
    LSET,
    LTRIM,
    pop::RPOP,
    shift::RPOPLPUSH,
    push::RPUSH,
    push::RPUSHX,
];

const READ: &[KeySpec] = &[KeySpec::one(1, KeyFlags::READ)];
const ADD: &[KeySpec] = &[KeySpec::one(1, KeyFlags::ADD)];
const REMOVE: &[KeySpec] = &[KeySpec::one(1, KeyFlags::CHANGE_REMOVE)];
const FROM_TO: &[KeySpec] = &[KeySpec::one(1, KeyFlags::TAKE), KeySpec::one(2, KeyFlags::ADD)];

/// The most elements that a command touches on a worker: some tens of microseconds.
const WORKER_ELEMENTS: usize = 10_000;

/// Longer elements are refused: a packed buffer has at most a gigabyte.
const MOST_ELEMENT_BYTES: usize = (1 << 30) - 64;

/// Checks that a text can be an element.
#[inline]
fn storable(text: &[u8]) -> Result<&[u8], ClientError> {
    match text.len() <= MOST_ELEMENT_BYTES {
        true => Ok(text),
        false => Err(error::STRING_TOO_LONG),
    }
}

impl Call<'_, '_> {
    /// Moves the command to the lane if it touches many elements.
    #[inline]
    fn touches(&self, elements: usize) -> Result<(), Stop> {
        match elements > WORKER_ELEMENTS && self.lane == Lane::Worker {
            true => Err(Stop::Lane),
            false => Ok(()),
        }
    }
}

#[inline]
fn reply_element(reply: &mut Reply<'_>, element: Element<'_>) {
    match element {
        Element::Int(number) => reply.bulk_int(number),
        Element::Bytes(bytes) => reply.bulk(bytes),
    }
}

/// Parses LEFT or RIGHT.
fn parse_end(word: &[u8]) -> Result<End, ClientError> {
    if is_word(word, "LEFT") {
        Ok(End::Head)
    } else if is_word(word, "RIGHT") {
        Ok(End::Tail)
    } else {
        Err(error::SYNTAX)
    }
}

/// The position of an index, negative ones counted from the end; `None` if it is outside.
fn place(index: i64, len: usize) -> Option<usize> {
    let place = match index {
        0.. => usize::try_from(index).ok()?,
        _ => len.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?,
    };
    (place < len).then_some(place)
}

/// The first position and the number of the elements from `start` to `stop`; negative ones count
/// from the end, and both may be outside.
fn span(start: i64, stop: i64, len: usize) -> (usize, usize) {
    let len = len as i64;
    let from_end = |index: i64| if index < 0 { index.saturating_add(len) } else { index };
    let start = from_end(start).max(0);
    let stop = from_end(stop).min(len - 1);
    if start > stop { (0, 0) } else { (start as usize, (stop - start) as usize + 1) }
}

/// Writes the elements of a range while there is room; returns the rest of the range.
fn reply_span(step: &mut WorkStep<'_, '_>, list: &List, places: Range<usize>) -> Range<usize> {
    let mut left = places;
    if left.is_empty() {
        return left;
    }
    list.visit(left.start, ListEnd::Forward, |element| {
        reply_element(step.reply, element);
        left.start += 1;
        match left.is_empty() || !step.has_room() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    left
}

/// The position of the first equal element. On a worker it is not searched for long.
fn find(list: &List, wanted: Element<'_>, lane: Lane) -> Result<Option<usize>, Stop> {
    let most = if lane == Lane::Worker { WORKER_ELEMENTS } else { usize::MAX };
    list.find(wanted, most).ok_or(Stop::Lane)
}

const LLEN: Command = Command::read("LLEN", llen, Group::List)
    .arity(2)
    .flags(Flags::FAST)
    .keys(&[KeySpec::one(1, KeyFlags::LOOK)])
    .syntax("key")
    .summary("Counts the elements of a list.");

fn llen(call: &mut Call<'_, '_>) -> CommandResult {
    let key = call.key();
    let len = call.keys.read(key).collection::<List>()?.map_or(0, List::len);
    call.reply.int(len as i64);
    Ok(())
}

const LINDEX: Command = Command::read("LINDEX", lindex, Group::List)
    .arity(3)
    .flags(Flags::STEADY)
    .keys(READ)
    .complexity("O(1) at the ends, O(sqrt(N)) in between")
    .syntax("key index:int")
    .summary("Returns the element at an index; negative ones count from the end.");

/// A missing key is reported before the index is checked.
fn lindex(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, index) = (call.key(), parse_i64(call.args[2]));
    let opened = call.keys.read(key);
    let Some(list) = opened.collection::<List>()? else {
        call.reply.null();
        return Ok(());
    };
    let index = index.ok_or(error::NOT_INTEGER)?;
    let reply = &mut call.reply;
    let shown = place(index, list.len())
        .and_then(|place| list.at(place, |element| reply_element(reply, element)));
    if shown.is_none() {
        call.reply.null();
    }
    Ok(())
}

const LRANGE: Command = Command::read("LRANGE", lrange, Group::List)
    .arity(4)
    .keys(READ)
    .complexity("O(N) for N elements returned")
    .syntax("key start:int stop:int")
    .summary("Returns the elements between two indices, both included.");

fn lrange(call: &mut Call<'_, '_>) -> CommandResult {
    let (start, stop, lane) = (call.int(2)?, call.int(3)?, call.lane);
    let read = call.read_whole(
        incremental::open,
        |list: &List, reply| {
            let (from, count) = span(start, stop, list.len());
            if lane == Lane::Worker && count > WORKER_ELEMENTS {
                return Err(Stop::Lane);
            }
            reply.array(count);
            Ok(from..from + count)
        },
        |list, rest, step| {
            let left = reply_span(step, list, rest);
            if left.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(left) }
        },
    )?;
    if read.is_none() {
        call.reply.array(0);
    }
    Ok(())
}

const LSET: Command = Command::write("LSET", lset, Group::List)
    .arity(4)
    .flags(Flags::DENYOOM)
    .keys(&[KeySpec::one(1, KeyFlags::MODIFY)])
    .complexity("O(1) at the ends, O(sqrt(N)) in between")
    .syntax("key index:int element")
    .summary("Puts an element in the place of the one at an index.");

/// A missing key is reported before the index is checked.
fn lset(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, index, text) = (call.key(), parse_i64(call.args[2]), storable(call.args[3])?);
    let fill = call.fill();
    let mut opened = call.keys.open(key);
    let len = opened.collection::<List>()?.ok_or(error::NO_SUCH_KEY)?.len();
    let index = index.ok_or(error::NOT_INTEGER)?;
    let place = place(index, len);
    if let Some(list) = opened.collection_mut::<List>()? {
        list.grow(text.len(), 1, fill);
        if let Some(place) = place {
            list.replace(place, Element::of(text));
            list.shrink(fill);
        }
    }
    if place.is_none() {
        opened.unchanged();
        return Err(error::INDEX_OUT_OF_RANGE.into());
    }
    opened.publish(event::LSET);
    call.reply.ok();
    Ok(())
}

const LINSERT: Command = Command::write("LINSERT", linsert, Group::List)
    .arity(5)
    .flags(Flags::DENYOOM)
    .keys(ADD)
    .since("2.2.0")
    .complexity("O(N) for N elements before the pivot")
    .syntax("key (where: BEFORE | AFTER) pivot element")
    .summary("Puts an element before or after the first one equal to the pivot.");

fn linsert(call: &mut Call<'_, '_>) -> CommandResult {
    let way = match call.args[2] {
        word if is_word(word, "AFTER") => ListEnd::Forward,
        word if is_word(word, "BEFORE") => ListEnd::Backward,
        _ => return Err(error::SYNTAX.into()),
    };
    let (pivot, text) = (Element::of(call.args[3]), storable(call.args[4])?);
    let (key, fill, lane) = (call.key(), call.fill(), call.lane);
    let mut opened = call.keys.open(key);
    let Some(list) = opened.collection::<List>()? else {
        call.reply.int(0);
        return Ok(());
    };
    let found = find(list, pivot, lane)?;
    let mut len = list.len() as i64;
    if let Some(list) = opened.collection_mut::<List>()? {
        list.grow(text.len(), 1, fill);
        if let Some(index) = found {
            list.insert(index, way, Element::of(text));
            len += 1;
        }
    }
    match found {
        Some(_) => opened.publish(event::LINSERT),
        None => opened.unchanged(),
    }
    call.reply.int(if found.is_some() { len } else { -1 });
    Ok(())
}

const LREM: Command = Command::write("LREM", lrem, Group::List)
    .arity(4)
    .keys(REMOVE)
    .complexity("O(N) for N elements of the list")
    .syntax("key count:int element")
    .summary("Removes elements equal to one: all, or some from the head or from the tail.");

fn lrem(call: &mut Call<'_, '_>) -> CommandResult {
    let count = call.int(2)?;
    if count == i64::MIN {
        return Err(error::NOT_OPPOSITE.into());
    }
    let way = if count < 0 { ListEnd::Backward } else { ListEnd::Forward };
    let most = match usize::try_from(count.unsigned_abs()) {
        Ok(most @ 1..) => most,
        _ => usize::MAX,
    };
    let (key, wanted, fill, lane) = (call.key(), Element::of(call.args[3]), call.fill(), call.lane);
    let opened = call.keys.open(key);
    let Some(list) = opened.collection::<List>()? else {
        call.reply.int(0);
        return Ok(());
    };
    if lane == Lane::Worker && list.len() > WORKER_ELEMENTS && !ends_soon(list, wanted, most, way) {
        return Err(Stop::Lane);
    }
    drop(opened);
    let removed = call.remove_long(event::LREM, |list: &mut List| {
        let removed = list.remove_equal(wanted, most, way);
        if removed > 0 {
            list.shrink(fill);
        }
        removed
    })?;
    call.reply.int(removed as i64);
    Ok(())
}

/// Whether everything to be removed from a long list is near the end where the search begins.
fn ends_soon(list: &List, wanted: Element<'_>, most: usize, way: ListEnd) -> bool {
    let (mut seen, mut left) = (0, most);
    let from = if way == ListEnd::Forward { 0 } else { list.len() - 1 };
    list.visit(from, way, |element| {
        left -= usize::from(element == wanted);
        seen += 1;
        match left == 0 || seen == WORKER_ELEMENTS {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    left == 0
}

const LTRIM: Command = Command::write("LTRIM", ltrim, Group::List)
    .arity(4)
    .keys(REMOVE)
    .complexity("O(N) for N elements removed")
    .syntax("key start:int stop:int")
    .summary("Keeps only the elements between two indices, both included.");

fn ltrim(call: &mut Call<'_, '_>) -> CommandResult {
    let (start, stop) = (call.int(2)?, call.int(3)?);
    let (key, fill, lane) = (call.key(), call.fill(), call.lane);
    let mut opened = call.keys.open(key);
    let Some(list) = opened.collection::<List>()? else {
        call.reply.ok();
        return Ok(());
    };
    let len = list.len();
    let (from, count) = span(start, stop, len);
    // Whole chunks are removed, so only very many take long.
    if lane == Lane::Worker && count > 0 && len - count > 10 * WORKER_ELEMENTS {
        return Err(Stop::Lane);
    }
    if count == 0 {
        opened.remove();
        opened.counts_as(len);
        opened.publish(event::LTRIM);
        opened.announce(event::DEL);
    } else if count == len {
        opened.counts_as(0);
        opened.publish_unwatched(event::LTRIM);
        drop(opened);
        call.record_nothing();
    } else if let Some(list) = opened.collection_mut::<List>()? {
        list.remove(0, from);
        list.remove(count, len - from - count);
        list.shrink(fill);
        opened.counts_as(len - count);
        opened.publish(event::LTRIM);
    }
    call.reply.ok();
    Ok(())
}
