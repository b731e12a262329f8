//! Giving keys a deadline, and taking it away.

use pantala_keyspace::event;

use crate::call::{Call, Done};
use crate::command::{Command, Flags, Group, Handler, KeyFlags, KeySpec};
use crate::options::{Conditions, TimeForm, deadline};

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

fn expire(call: &mut Call<'_, '_>, form: TimeForm) -> Done {
    let conditions = Conditions::parse(&call.args[3..])?;
    let now = call.now();
    let new = deadline(call.args[2], form, call.clock(), call.command.name)?;
    let mut opened = call.keys.open(call.key());
    let applies = opened.exists() && conditions.allow(new, opened.deadline());
    if applies && new <= now && !opened.keeps_passed() {
        opened.remove_expired();
        opened.publish(event::EXPIRED);
    } else if applies {
        opened.set_deadline(Some(new));
        opened.publish(event::EXPIRE);
    }
    call.reply.int(i64::from(applies));
    Ok(())
}

fn persist(call: &mut Call<'_, '_>) -> Done {
    let mut opened = call.keys.open(call.key());
    let applies = opened.deadline().is_some();
    if applies {
        opened.set_deadline(None);
        opened.publish(event::PERSIST);
    }
    call.reply.int(i64::from(applies));
    Ok(())
}
