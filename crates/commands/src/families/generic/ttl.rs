//! The time to live of keys.

use pantala_base::UnixMs;

use crate::calls::call::{Call, CommandResult};
use crate::families::deadlines::{NO_DEADLINE, seconds};
use crate::rows::command::{Command, Flags, Group, Handler, KeyFlags, KeySpec};

const KEY: &[KeySpec] = &[KeySpec::one(1, KeyFlags::READ)];

const NO_KEY: i64 = -2;

const fn row(name: &'static str, handler: Handler) -> Command {
    Command::read(name, handler, Group::Generic).arity(2).flags(Flags::FAST).keys(KEY).syntax("key")
}

pub(super) const TTL: Command = row("TTL", |call| answer(call, |found| seconds(found.left())))
    .tips(&["nondeterministic_output"])
    .summary("Tells how many seconds a key has to live.");

pub(super) const PTTL: Command = row("PTTL", |call| answer(call, |found| found.left()))
    .tips(&["nondeterministic_output"])
    .since("2.6.0")
    .summary("Tells how many milliseconds a key has to live.");

pub(super) const EXPIRETIME: Command =
    row("EXPIRETIME", |call| answer(call, |found| seconds(found.deadline.0)))
        .since("7.0.0")
        .summary("Tells at which second since 1970 a key will be gone.");

pub(super) const PEXPIRETIME: Command =
    row("PEXPIRETIME", |call| answer(call, |found| found.deadline.0))
        .since("7.0.0")
        .summary("Tells at which millisecond since 1970 a key will be gone.");

struct KeyDeadline {
    deadline: UnixMs,
    now: UnixMs,
}

impl KeyDeadline {
    fn left(&self) -> i64 {
        self.deadline.0.saturating_sub(self.now.0).max(0)
    }
}

fn answer(call: &mut Call<'_, '_>, form: impl FnOnce(KeyDeadline) -> i64) -> CommandResult {
    let now = call.now();
    let opened = call.keys.look(call.key());
    let number = match opened.deadline() {
        Some(deadline) => form(KeyDeadline { deadline, now }),
        None if opened.exists() => NO_DEADLINE,
        None => NO_KEY,
    };
    call.reply.int(number);
    Ok(())
}
