//! Counting in fields. They keep their deadlines.

use pantala_base::number::{I64_TEXT_MAX_BYTES, LongDouble, fmt_i64, parse_i64};
use pantala_keyspace::event;
use pantala_table::{IntText, StrRef};
use pantala_values::Hash;
use pantala_values::hash::{FieldBefore, Lifetime};

use super::{CHANGE, grows, limits, open};
use crate::calls::call::{Call, CommandResult};
use crate::error;
use crate::families::deadlines;
use crate::rows::command::Command;

pub(super) const HINCRBY: Command = grows("HINCRBY", hincrby)
    .arity(4)
    .keys(CHANGE)
    .syntax("key field increment:int")
    .summary("Adds to the integer in a field of a hash; a missing field counts as 0.");

fn hincrby(call: &mut Call<'_, '_>) -> CommandResult {
    let (field, step) = (call.args[2], call.int(3)?);
    let (key, now, limits) = (call.key(), call.now(), limits(call.settings));
    let tally = call.keys.scope().tally;
    let mut opened = open(call.keys, key, call.lane)?;
    let old = opened.collection::<Hash>()?.and_then(|hash| hash.view().get(field, now));
    let old = match old.map(|found| found.value) {
        None => 0,
        Some(StrRef::Int(number)) => number,
        Some(StrRef::Bytes(text)) => parse_i64(text).ok_or(error::HASH_NOT_INTEGER)?,
    };
    let new = old.checked_add(step).ok_or(error::OVERFLOW)?;
    let mut digits = [0; I64_TEXT_MAX_BYTES];
    let text = fmt_i64(new, &mut digits);
    let hash = opened.collection_or_new::<Hash>()?;
    if hash.set(field, text, Lifetime::Keep, limits, now) == FieldBefore::Expired {
        tally.expired_elements.add(1);
        opened.announce(event::HEXPIRED);
    }
    opened.publish_collection::<Hash>(event::HINCRBY);
    call.reply.int(new);
    Ok(())
}

pub(super) const HINCRBYFLOAT: Command = grows("HINCRBYFLOAT", hincrbyfloat)
    .arity(4)
    .keys(CHANGE)
    .since("2.6.0")
    .syntax("key field increment:double")
    .summary("Adds to the number in a field of a hash; a missing field counts as 0.");

fn hincrbyfloat(call: &mut Call<'_, '_>) -> CommandResult {
    let (field, step) = (call.args[2], call.args[3]);
    let step = LongDouble::parse(step).ok_or(error::NOT_FLOAT)?;
    if step.is_nan() || step.is_infinite() {
        return Err(error::INCREMENT_NAN.into());
    }
    let (key, now, limits) = (call.key(), call.now(), limits(call.settings));
    let tally = call.keys.scope().tally;
    let mut opened = open(call.keys, key, call.lane)?;
    let old = opened.collection::<Hash>()?.and_then(|hash| hash.view().get(field, now));
    let deadline = old.as_ref().and_then(|found| found.deadline);
    let old = match old.map(|found| found.value) {
        None => LongDouble::from_i64(0),
        Some(text) => {
            let mut digits = IntText::new();
            LongDouble::parse(text.bytes(&mut digits)).ok_or(error::HASH_NOT_FLOAT)?
        }
    };
    let new = old + step;
    if new.is_nan() || new.is_infinite() {
        return Err(error::NAN_OR_INFINITY.into());
    }
    let mut text = Vec::with_capacity(32);
    new.push_human(&mut text);
    let hash = opened.collection_or_new::<Hash>()?;
    if hash.set(field, &text, Lifetime::Keep, limits, now) == FieldBefore::Expired {
        tally.expired_elements.add(1);
        opened.announce(event::HEXPIRED);
    }
    opened.publish_collection::<Hash>(event::HINCRBYFLOAT);
    drop(opened);
    if call.is_recorded() {
        // The result of an addition may differ on another machine, and HSET removes the deadline.
        call.record_as(&[b"HSET", key.bytes, field, &text]);
        if let Some(deadline) = deadline {
            deadlines::record_set::<Hash>(call, key.bytes, &[field], deadline);
        }
    }
    call.reply.bulk(&text);
    Ok(())
}
