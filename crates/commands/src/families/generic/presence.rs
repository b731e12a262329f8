//! Whether keys exist, their types, and removing them.

use pantala_keyspace::{Key, Locked, event};
use pantala_values::Type;

use crate::calls::call::{Call, CommandResult, Stop};
use crate::rows::command::{Command, Flags, Group, KeyFlags, KeySpec};

pub(super) const SUMMED: &[&str] = &["request_policy:multi_shard", "response_policy:agg_sum"];

pub(super) const DEL: Command = Command::write("DEL", remove, Group::Generic)
    .replaces()
    .arity(-2)
    .keys(&[KeySpec::range(1, -1, 1, KeyFlags::REMOVE)])
    .tips(SUMMED)
    .complexity("O(N) for N keys")
    .syntax("key [key ...]")
    .summary("Removes keys.");

/// UNLINK does what DEL does: large values are freed in the background in either case.
pub(super) const UNLINK: Command = Command::write("UNLINK", remove, Group::Generic)
    .replaces()
    .arity(-2)
    .flags(Flags::FAST)
    .keys(&[KeySpec::range(1, -1, 1, KeyFlags::REMOVE)])
    .tips(SUMMED)
    .since("4.0.0")
    .complexity("O(N) for N keys")
    .syntax("key [key ...]")
    .summary("Removes keys and frees what they held in the background.");

pub(super) const EXISTS: Command = Command::read("EXISTS", exists, Group::Generic)
    .arity(-2)
    .flags(Flags::FAST)
    .keys(&[KeySpec::range(1, -1, 1, KeyFlags::LOOK)])
    .tips(SUMMED)
    .complexity("O(N) for N keys")
    .syntax("key [key ...]")
    .summary("Counts the keys that are there, each as often as it is named.");

pub(super) const TOUCH: Command = Command::read("TOUCH", touch, Group::Generic)
    .arity(-2)
    .flags(Flags::FAST)
    .keys(&[KeySpec::range(1, -1, 1, KeyFlags::LOOK)])
    .tips(SUMMED)
    .since("3.2.1")
    .complexity("O(N) for N keys")
    .syntax("key [key ...]")
    .summary("Counts the keys that are there, and makes them recently used.");

pub(super) const TYPE: Command = Command::read("TYPE", kind, Group::Generic)
    .arity(2)
    .flags(Flags::FAST)
    .keys(&[KeySpec::one(1, KeyFlags::LOOK)])
    .syntax("key")
    .summary("Names the type of the value at a key.");

fn remove(call: &mut Call<'_, '_>) -> CommandResult {
    let removed = count_keys(call, |keys, key| {
        let mut opened = keys.peek(key);
        opened.uncover();
        let was_there = opened.remove();
        if was_there {
            opened.publish(event::DEL);
        }
        was_there
    })?;
    call.reply.int(removed);
    Ok(())
}

fn exists(call: &mut Call<'_, '_>) -> CommandResult {
    let found = count_keys(call, |keys, key| keys.look(key).exists())?;
    call.reply.int(found);
    Ok(())
}

fn touch(call: &mut Call<'_, '_>) -> CommandResult {
    let found = count_keys(call, |keys, key| keys.read(key).exists())?;
    call.reply.int(found);
    Ok(())
}

/// The number of keys for which `act` returns true. No key may be opened afterwards.
#[inline]
fn count_keys<'k>(
    call: &mut Call<'_, 'k>,
    act: impl Fn(&mut Locked<'k>, Key<'_>) -> bool,
) -> Result<i64, Stop> {
    let mut count = 0;
    call.for_each_key(|call, nth| {
        let key = call.nth_key(1 + nth, nth);
        count += i64::from(act(call.keys, key));
    })?;
    Ok(count)
}

fn kind(call: &mut Call<'_, '_>) -> CommandResult {
    let kind = call.keys.look(call.key()).kind();
    call.reply.simple(kind.map_or("none", Type::name));
    Ok(())
}
