//! Strings that are counted with. A whole number is kept as one, so INCR changes it in place.

use pantala_base::number::{LongDouble, parse_i64};
use pantala_keyspace::{Expiry, event};
use pantala_table::{IntText, StrRef};

use crate::call::{Call, Done};
use crate::error::{self, ClientError};

pub(super) fn incr(call: &mut Call<'_, '_>) -> Done {
    add(call, 1)
}

pub(super) fn decr(call: &mut Call<'_, '_>) -> Done {
    add(call, -1)
}

pub(super) fn incrby(call: &mut Call<'_, '_>) -> Done {
    let step = call.int(2)?;
    add(call, step)
}

pub(super) fn decrby(call: &mut Call<'_, '_>) -> Done {
    let step = call.int(2)?.checked_neg().ok_or(error::DECREMENT_OVERFLOW)?;
    add(call, step)
}

fn add(call: &mut Call<'_, '_>, step: i64) -> Done {
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

pub(super) fn incrbyfloat(call: &mut Call<'_, '_>) -> Done {
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
    opened.set_string(&text, Expiry::Keep);
    opened.publish(event::INCRBYFLOAT);
    call.reply.bulk(&text);
    Ok(())
}

fn parse_float(text: &[u8]) -> Result<LongDouble, ClientError> {
    LongDouble::parse(text).ok_or(error::NOT_FLOAT)
}
