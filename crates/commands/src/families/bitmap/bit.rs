//! GETBIT and SETBIT.

use pantala_keyspace::event;
use pantala_table::IntText;
use pantala_values::bits;

use super::{bit_offset, lengthen};
use crate::calls::call::{Call, CommandResult};
use crate::error;
use crate::rows::command::{Command, Flags, Group, KeyFlags, KeySpec};

pub(super) const GETBIT: Command = Command::read("GETBIT", getbit, Group::Bitmap)
    .arity(3)
    .flags(Flags::FAST)
    .keys(&[KeySpec::one(1, KeyFlags::READ)])
    .since("2.2.0")
    .syntax("key offset:int")
    .summary("Returns one bit of the string at a key.");

pub(super) const SETBIT: Command = Command::write("SETBIT", setbit, Group::Bitmap)
    .arity(4)
    .flags(Flags::DENYOOM)
    .keys(&[KeySpec::one(1, KeyFlags::CHANGE)])
    .since("2.2.0")
    .syntax("key offset:int value:int")
    .summary("Sets or clears one bit of the string at a key, which grows to reach it.");

fn getbit(call: &mut Call<'_, '_>) -> CommandResult {
    let offset = bit_offset(call.args[2], call.most_string_bytes())?;
    let key = call.key();
    let opened = call.keys.read(key);
    let mut budget = IntText::new();
    let is_set = opened.string()?.is_some_and(|value| bits::bit(value.bytes(&mut budget), offset));
    call.reply.int(i64::from(is_set));
    Ok(())
}

fn setbit(call: &mut Call<'_, '_>) -> CommandResult {
    let offset = bit_offset(call.args[2], call.most_string_bytes())?;
    let on = match call.args[3] {
        b"0" => false,
        b"1" => true,
        _ => return Err(error::BIT_VALUE.into()),
    };
    let key = call.key();
    let mut opened = call.keys.open(key);
    let has_grown = lengthen(&mut opened, offset / 8 + 1, call.lane)?;
    let old = match opened.string_mut()? {
        Some(bytes) => bits::set_bit(bytes, offset, on),
        None => false,
    };
    if has_grown || old != on {
        opened.publish(event::SETBIT);
    } else {
        opened.unchanged();
    }
    call.reply.int(i64::from(old));
    Ok(())
}
