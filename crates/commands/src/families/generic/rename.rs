//! RENAME and RENAMENX: the record moves, its value is not copied.

use pantala_keyspace::event;

use crate::calls::call::{Call, CommandResult};
use crate::error;
use crate::rows::command::{Command, Flags, Group, KeyFlags, KeySpec};

pub(super) const RENAME: Command = Command::write("RENAME", rename, Group::Generic)
    .arity(3)
    .keys(&[KeySpec::one(1, KeyFlags::TAKE), KeySpec::one(2, KeyFlags::OVERWRITE)])
    .syntax("key newkey")
    .summary("Gives a key another name, over whatever has that name.");

pub(super) const RENAMENX: Command = Command::write("RENAMENX", rename_nx, Group::Generic)
    .arity(3)
    .flags(Flags::FAST)
    .keys(&[KeySpec::one(1, KeyFlags::TAKE), KeySpec::one(2, KeyFlags::CREATE)])
    .syntax("key newkey")
    .summary("Gives a key another name that no key has.");

fn rename(call: &mut Call<'_, '_>) -> CommandResult {
    shift(call, true)?;
    call.reply.ok();
    Ok(())
}

fn rename_nx(call: &mut Call<'_, '_>) -> CommandResult {
    let moved = shift(call, false)?;
    call.reply.int(i64::from(moved));
    Ok(())
}

/// Moves the first key to the second; whether it did. Renaming a key to itself does nothing.
fn shift(call: &mut Call<'_, '_>, overwrites: bool) -> Result<bool, crate::Stop> {
    let (from, to) = (call.nth_key(1, 0), call.nth_key(2, 1));
    if !call.keys.open(from).exists() {
        return Err(error::NO_SUCH_KEY.into());
    }
    if from.bytes == to.bytes {
        return Ok(overwrites);
    }
    // Looking makes an expired target publish its expiry first.
    if call.keys.peek(to).exists() && !overwrites {
        return Ok(false);
    }
    let mut source = call.keys.peek(from);
    let record = source.take().ok_or(error::NO_SUCH_KEY)?;
    // Published below: first that there is a new key, then that the old one is gone.
    let source = source.suspend();
    let mut target = call.keys.peek(to);
    target.remove();
    target.put(record);
    let target = target.suspend();
    call.keys.resume(source, from).publish(event::RENAME_FROM);
    let mut target = call.keys.resume(target, to);
    // Both together count as one change.
    target.counts_as(0);
    target.publish(event::RENAME_TO);
    Ok(true)
}
