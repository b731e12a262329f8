//! Commands that wait for a list to have an element.
//!
//! One that is served for a key that changed ([`Call::ready`]) looks at that key only; where the
//! element goes to is another key, whose partition must be free.

use pantala_base::UnixMs;
use pantala_keyspace::Key;
use pantala_values::list::End;
use pantala_values::{List, Type};

use super::pop::{event_of, take_from_first};
use super::shift::{Ends, shift};
use super::{parse_end, reply_element};
use crate::call::{AtTimeout, Call, Done, KeyWait, Park, Stop, WaitedKeys};
use crate::options::{FromFirst, timeout};

pub(super) fn blpop(call: &mut Call<'_, '_>) -> Done {
    pop(call, End::Head)
}

pub(super) fn brpop(call: &mut Call<'_, '_>) -> Done {
    pop(call, End::Tail)
}

fn is_list(call: &mut Call<'_, '_>, key: Key<'_>) -> bool {
    call.keys.peek(key).kind() == Some(Type::List)
}

fn wait(call: &mut Call<'_, '_>, until: Option<UnixMs>, keys: WaitedKeys) -> Done {
    call.wait(KeyWait { until, keys, at_timeout: AtTimeout::NullArray, args: None })
}

fn pop(call: &mut Call<'_, '_>, end: End) -> Done {
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
        return Ok(());
    }
    wait(call, until, WaitedKeys::All)
}

pub(super) fn blmpop(call: &mut Call<'_, '_>) -> Done {
    let wanted = FromFirst::parse(&call.args[2..], parse_end)?;
    let until = timeout(call.args[1], call.now())?;
    let keys = call.keys_of_type(Type::List);
    if take_from_first(call, &keys, &wanted)? {
        return Ok(());
    }
    wait(call, until, WaitedKeys::All)
}

pub(super) fn brpoplpush(call: &mut Call<'_, '_>) -> Done {
    let until = timeout(call.args[3], call.now())?;
    shift_or_wait(call, until, Ends::ROUND)
}

pub(super) fn blmove(call: &mut Call<'_, '_>) -> Done {
    let ends = Ends::parse(call.args[3], call.args[4])?;
    let until = timeout(call.args[5], call.now())?;
    shift_or_wait(call, until, ends)
}

fn shift_or_wait(call: &mut Call<'_, '_>, until: Option<UnixMs>, ends: Ends) -> Done {
    let (source, target) = (call.nth_key(1, 0), call.space().key(call.args[2]));
    let is_served = call.ready.is_some();
    if is_served && !is_list(call, source) {
        return wait(call, until, WaitedKeys::First);
    }
    if is_served && !call.keys.try_hold(target.hash) {
        return Err(Stop::Park(Park::Again));
    }
    if shift(call, source, target, ends)? {
        return Ok(());
    }
    if !call.may_wait {
        call.reply.null();
        return Ok(());
    }
    wait(call, until, WaitedKeys::First)
}
