//! Setting and removing the deadlines of keys.

use pantala_base::UnixMs;
use pantala_keyspace::{Key, OpenKey, event};

use crate::calls::call::{Call, CommandResult};
use crate::options::{Conditions, TimeForm, deadline};
use crate::rows::command::{Command, Flags, Group, Handler, KeyFlags, KeySpec};

const KEY: &[KeySpec] = &[KeySpec::one(1, KeyFlags::MODIFY)];

const fn row(name: &'static str, handler: Handler) -> Command {
    Command::write(name, handler, Group::Generic).replaces().arity(-3).flags(Flags::FAST).keys(KEY)
}

pub(super) const EXPIRE: Command = row("EXPIRE", |call| expire(call, TimeForm::Seconds))
    .syntax("key seconds:int [NX | XX | GT | LT]")
    .summary("Gives a key so many seconds to live.");

pub(super) const PEXPIRE: Command = row("PEXPIRE", |call| expire(call, TimeForm::Milliseconds))
    .since("2.6.0")
    .syntax("key milliseconds:int [NX | XX | GT | LT]")
    .summary("Gives a key so many milliseconds to live.");

pub(super) const EXPIREAT: Command = row("EXPIREAT", |call| expire(call, TimeForm::UnixSeconds))
    .since("1.2.0")
    .syntax("key unix-time-seconds:unix-time [NX | XX | GT | LT]")
    .summary("Lets a key live until a moment, in seconds since 1970.");

pub(super) const PEXPIREAT: Command =
    row("PEXPIREAT", |call| expire(call, TimeForm::UnixMilliseconds))
        .since("2.6.0")
        .syntax("key unix-time-milliseconds:unix-time [NX | XX | GT | LT]")
        .summary("Lets a key live until a moment, in milliseconds since 1970.");

pub(super) const PERSIST: Command = Command::write("PERSIST", persist, Group::Generic)
    .replaces()
    .arity(2)
    .flags(Flags::FAST)
    .keys(KEY)
    .since("2.2.0")
    .syntax("key")
    .summary("Takes a key's deadline away.");

fn expire(call: &mut Call<'_, '_>, form: TimeForm) -> CommandResult {
    let conditions = Conditions::parse(&call.args[3..])?;
    let new = deadline(call.args[2], form, call.clock(), call.command.name)?;
    let key = call.key();
    // Creating a key and giving it a deadline at once does not count as two uses.
    let mut opened = call.keys.peek(key);
    opened.make_way_for_writer();
    let applies = opened.exists() && conditions.allow(new, opened.deadline());
    if applies {
        let stays = give_deadline(&mut opened, new);
        drop(opened);
        record_deadline(call, key, new, stays);
    }
    call.reply.int(i64::from(applies));
    Ok(())
}

/// Gives a present key a deadline, or removes the key if that has passed; whether it stays.
pub(in crate::families) fn give_deadline(opened: &mut OpenKey<'_, '_>, deadline: UnixMs) -> bool {
    if opened.scope().has_passed(deadline) {
        opened.remove_expired();
        opened.publish(event::EXPIRED);
        return false;
    }
    opened.set_deadline(Some(deadline));
    opened.publish(event::EXPIRE);
    true
}

/// Records what [`give_deadline`] has done.
#[inline]
pub(in crate::families) fn record_deadline(
    call: &Call<'_, '_>,
    key: Key<'_>,
    deadline: UnixMs,
    stays: bool,
) {
    match stays {
        _ if !call.is_recorded() => {}
        true => call.record_deadline(key.bytes, deadline),
        false => call.record_end(key.bytes),
    }
}

fn persist(call: &mut Call<'_, '_>) -> CommandResult {
    let mut opened = call.keys.open(call.key());
    let applies = opened.deadline().is_some();
    if applies {
        opened.set_deadline(None);
        opened.publish(event::PERSIST);
    }
    call.reply.int(i64::from(applies));
    Ok(())
}
