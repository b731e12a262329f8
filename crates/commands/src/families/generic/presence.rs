//! Whether keys are there, of what type they are, and removing them.

use pantala_keyspace::event;
use pantala_values::Type;

use crate::call::{Call, Done};
use crate::command::{Command, Flags, Group, KeyFlags, KeySpec};

pub(super) const SUMMED: &[&str] = &["request_policy:multi_shard", "response_policy:agg_sum"];

pub(super) const DEL: Command = Command::write("DEL", remove, Group::Generic)
    .arity(-2)
    .keys(&[KeySpec::range(1, -1, 1, KeyFlags::REMOVE)])
    .tips(SUMMED)
    .complexity("O(N) for N keys")
    .syntax("key [key ...]")
    .summary("Removes keys.");

/// The same as DEL: what takes long to free is freed in the background in any case.
pub(super) const UNLINK: Command = Command::write("UNLINK", remove, Group::Generic)
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

fn remove(call: &mut Call<'_, '_>) -> Done {
    let mut removed = 0;
    for key in call.all_keys() {
        let mut opened = call.keys.peek(key);
        if opened.remove() {
            opened.publish(event::DEL);
            removed += 1;
        }
    }
    call.reply.int(removed);
    Ok(())
}

fn exists(call: &mut Call<'_, '_>) -> Done {
    let keys = call.all_keys();
    let found = keys.into_iter().filter(|key| call.keys.look(*key).exists()).count();
    call.reply.int(found as i64);
    Ok(())
}

fn touch(call: &mut Call<'_, '_>) -> Done {
    let keys = call.all_keys();
    let found = keys.into_iter().filter(|key| call.keys.read(*key).exists()).count();
    call.reply.int(found as i64);
    Ok(())
}

fn kind(call: &mut Call<'_, '_>) -> Done {
    let kind = call.keys.look(call.key()).kind();
    call.reply.simple(kind.map_or("none", Type::name));
    Ok(())
}
