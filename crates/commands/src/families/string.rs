//! Strings.

use pantala_keyspace::{Expiry, event};

use crate::call::{Call, Done, reply_string};
use crate::command::{Command, Flags, Group, KeyFlags, KeySpec};

/// The rows of this family.
pub const ROWS: &[Command] = &[
    Command::read("GET", get, Group::String)
        .arity(2)
        .flags(Flags::FAST)
        .keys(&[KeySpec::one(1, KeyFlags::READ)])
        .syntax("key")
        .summary("Returns the string stored at a key."),
    Command::write("SET", set, Group::String)
        .arity(-3)
        .flags(Flags::DENYOOM)
        .keys(&[KeySpec::one(1, KeyFlags::CHANGE.variable())])
        .syntax("key value")
        .summary("Sets a key to a string, whatever it held before."),
];

fn get(call: &mut Call<'_, '_>) -> Done {
    let key = call.key();
    match call.keys.read(key).string()? {
        Some(value) => reply_string(&mut call.reply, value),
        None => call.reply.null(),
    }
    Ok(())
}

fn set(call: &mut Call<'_, '_>) -> Done {
    let value = call.args[2];
    let key = call.key();
    let mut opened = call.keys.open(key);
    opened.set_string(value, Expiry::Never);
    opened.publish(event::SET);
    call.reply.ok();
    Ok(())
}
