//! Counting in strings. An integer is stored as an integer, so INCR changes it in place.

use pantala_base::number::{LongDouble, parse_i64};
use pantala_keyspace::{Expiry, event};
use pantala_table::{IntText, StrRef};

use crate::calls::call::{Call, CommandResult};
use crate::error::{self, ClientError};
use crate::rows::command::{Command, Flags, Group, KeyFlags, KeySpec};

pub(super) const INCR: Command = Command::write("INCR", incr, Group::String)
    .arity(2)
    .flags(Flags::DENYOOM.union(Flags::FAST))
    .keys(&[KeySpec::one(1, KeyFlags::CHANGE)])
    .syntax("key")
    .summary("Adds one to the integer at a key; a missing key counts as 0.");

fn incr(call: &mut Call<'_, '_>) -> CommandResult {
    add(call, 1)
}

pub(super) const DECR: Command = Command::write("DECR", decr, Group::String)
    .arity(2)
    .flags(Flags::DENYOOM.union(Flags::FAST))
    .keys(&[KeySpec::one(1, KeyFlags::CHANGE)])
    .syntax("key")
    .summary("Subtracts one from the integer at a key; a missing key counts as 0.");

fn decr(call: &mut Call<'_, '_>) -> CommandResult {
    add(call, -1)
}

pub(super) const INCRBY: Command = Command::write("INCRBY", incrby, Group::String)
    .arity(3)
    .flags(Flags::DENYOOM.union(Flags::FAST))
    .keys(&[KeySpec::one(1, KeyFlags::CHANGE)])
    .syntax("key increment:int")
    .summary("Adds to the integer at a key; a missing key counts as 0.");

fn incrby(call: &mut Call<'_, '_>) -> CommandResult {
    let step = call.int(2)?;
    add(call, step)
}

pub(super) const DECRBY: Command = Command::write("DECRBY", decrby, Group::String)
    .arity(3)
    .flags(Flags::DENYOOM.union(Flags::FAST))
    .keys(&[KeySpec::one(1, KeyFlags::CHANGE)])
    .syntax("key decrement:int")
    .summary("Subtracts from the integer at a key; a missing key counts as 0.");

fn decrby(call: &mut Call<'_, '_>) -> CommandResult {
    let step = call.int(2)?.checked_neg().ok_or(error::DECREMENT_OVERFLOW)?;
    add(call, step)
}

fn add(call: &mut Call<'_, '_>, step: i64) -> CommandResult {
    let key = call.key();
    let mut opened = call.keys.open(key);
    let old = match opened.string()? {
        None => 0,
        Some(StrRef::Int(number)) => number,
        Some(StrRef::Bytes(text)) => parse_i64(text).ok_or(error::NOT_INTEGER)?,
    };
    let new = old.checked_add(step).ok_or(error::OVERFLOW)?;
    opened.set_int(new);
    opened.publish(event::INCRBY);
    call.reply.int(new);
    Ok(())
}

pub(super) const INCRBYFLOAT: Command = Command::write("INCRBYFLOAT", incrbyfloat, Group::String)
    .arity(3)
    .flags(Flags::DENYOOM.union(Flags::FAST))
    .keys(&[KeySpec::one(1, KeyFlags::CHANGE)])
    .since("2.6.0")
    .syntax("key increment:double")
    .summary("Adds to the floating-point number at a key; a missing key counts as 0.");

fn incrbyfloat(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, step) = (call.key(), call.args[2]);
    let mut opened = call.keys.open(key);
    let old = match opened.string()? {
        None => LongDouble::from_i64(0),
        Some(text) => parse_float(text.bytes(&mut IntText::new()))?,
    };
    let new = old + parse_float(step)?;
    if new.is_nan() || new.is_infinite() {
        return Err(error::NAN_OR_INFINITY.into());
    }
    let mut text = Vec::with_capacity(32);
    new.push_human(&mut text);
    opened.rewrite_string(&text);
    opened.publish(event::INCRBYFLOAT);
    let flags = opened.tail().flags;
    drop(opened);
    if call.is_recorded() {
        // The result of an addition may differ on another machine.
        call.record_string_with_flags(key.bytes, &text, Expiry::Keep, flags);
    }
    call.reply.bulk(&text);
    Ok(())
}

fn parse_float(text: &[u8]) -> Result<LongDouble, ClientError> {
    LongDouble::parse(text).ok_or(error::NOT_FLOAT)
}
